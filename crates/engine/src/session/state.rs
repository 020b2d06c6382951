//! What a session amounts to, as a fold over its events. The conversation it yields is always
//! valid: roles alternate and every call is answered in the message after it.

use super::line::interrupt_marker;
use ostler_proto::{
    Block, CallId, Entry, EntryId, Message, Mode, SessionEvent, StateChange, Todo, ToolCall, ToolResult,
};
use std::{path::PathBuf, sync::Arc};

/// The fold's value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// Model as last chosen.
    pub model: Option<String>,
    /// Permission mode as last set.
    pub mode: Option<Mode>,
    /// System prompt as first sent.
    pub system: Vec<String>,
    /// Where the shell stands.
    pub cwd: Option<PathBuf>,
    /// The model's todo list.
    pub todos: Vec<Todo>,
    settled: Vec<Arc<Message>>,
    answer: Option<OpenAnswer>,
    leaf: Option<EntryId>,
    /// Where each prompt stands, to go back to.
    prompts: Vec<Mark>,
}

/// The conversation right before a prompt.
#[derive(Debug, Clone, PartialEq)]
struct Mark {
    prompt: EntryId,
    messages: usize,
    /// Blocks of the last message; the prompt may have been added to it.
    blocks: usize,
    leaf: Option<EntryId>,
}

/// The model's last answer with the results it has so far.
#[derive(Debug, Clone, PartialEq)]
struct OpenAnswer {
    message: String,
    blocks: Vec<Block>,
    calls: Vec<OpenCall>,
    /// The line before the answer, to go back to if it is dropped.
    base: Option<EntryId>,
    /// The answer's last line.
    last: EntryId,
}

#[derive(Debug, Clone, PartialEq)]
struct OpenCall {
    call: ToolCall,
    entry: EntryId,
    result: Option<ToolResult>,
}

impl State {
    /// Takes one event in.
    pub fn apply(&mut self, entry: &Entry) {
        match &entry.event {
            SessionEvent::Opened { cwd, model, mode, system } => {
                self.cwd.get_or_insert_with(|| cwd.clone());
                self.model = Some(model.clone());
                self.mode = Some(*mode);
                if self.system.is_empty() {
                    self.system.clone_from(system);
                }
            }
            SessionEvent::Prompted { content, .. } => {
                self.settle();
                self.prompts.push(Mark {
                    prompt: entry.id.clone(),
                    messages: self.settled.len(),
                    blocks: self.settled.last().map_or(0, |message| message.content.len()),
                    leaf: self.leaf.clone(),
                });
                self.say_as_user(content.clone());
                self.leaf = Some(entry.id.clone());
            }
            SessionEvent::Rewound { to } => self.go_back(to),
            SessionEvent::Replied { message, block, .. } => self.apply_block(entry, message, block),
            SessionEvent::ToolReturned { result, changes, .. } => {
                self.apply_result(entry, result);
                self.apply_changes(changes);
            }
            SessionEvent::Dropped { message, .. } => {
                let matches = |answer: &mut OpenAnswer| Some(&answer.message) == message.as_ref();
                if let Some(dropped) = self.answer.take_if(matches) {
                    self.leaf = dropped.base;
                }
            }
            SessionEvent::Interrupted { during_tools } => {
                self.settle();
                self.say_as_user(vec![Block::text(interrupt_marker(*during_tools))]);
                self.leaf = Some(entry.id.clone());
            }
            SessionEvent::Failed { .. } => {
                self.settle();
                self.leaf = Some(entry.id.clone());
            }
            SessionEvent::ModeChanged { mode } => self.mode = Some(*mode),
            SessionEvent::ModelChanged { model } => self.model = Some(model.clone()),
            SessionEvent::Sampled { .. } | SessionEvent::Decided { .. } | SessionEvent::Hooked { .. } => {}
        }
    }

    /// The line a new event follows.
    pub fn parent_of(&self, event: &SessionEvent) -> Option<EntryId> {
        match (event, &self.answer) {
            (SessionEvent::ToolReturned { result, .. }, Some(answer)) => {
                let call = answer.calls.iter().find(|open| open.call.id == result.id);
                call.map(|open| open.entry.clone()).or_else(|| self.leaf.clone())
            }
            (SessionEvent::Replied { message, .. }, Some(answer)) if &answer.message == message => {
                Some(answer.last.clone())
            }
            _ => self.leaf.clone(),
        }
    }

    /// The conversation as a request carries it.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        let mut messages = self.settled.clone();
        if let Some(answer) = &self.answer {
            answer.clone().into_messages().into_iter().for_each(|message| push(&mut messages, message));
        }
        messages
    }

    /// Calls of the last answer that have no result.
    pub fn unanswered(&self) -> Vec<ToolCall> {
        let calls = self.answer.iter().flat_map(|answer| &answer.calls);
        calls.filter(|open| open.result.is_none()).map(|open| open.call.clone()).collect()
    }

    /// Whether the conversation holds a prompt with this id.
    pub fn has_prompt(&self, id: &EntryId) -> bool {
        self.prompts.iter().any(|mark| &mark.prompt == id)
    }

    /// Whether the last answer proposed a call with this id.
    pub fn has_call(&self, id: &CallId) -> bool {
        self.answer.iter().flat_map(|answer| &answer.calls).any(|open| &open.call.id == id)
    }

    /// Whether the last answer has this id.
    pub fn is_last_answer(&self, message: &str) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.message == message)
    }

    fn go_back(&mut self, to: &EntryId) {
        let Some(at) = self.prompts.iter().position(|mark| &mark.prompt == to) else { return };
        let mark = self.prompts.swap_remove(at);
        self.prompts.truncate(at);
        self.answer = None;
        self.settled.truncate(mark.messages);
        if let Some(last) = self.settled.last_mut()
            && last.content.len() > mark.blocks
        {
            Arc::make_mut(last).content.truncate(mark.blocks);
        }
        self.leaf = mark.leaf;
    }

    fn apply_block(&mut self, entry: &Entry, message: &str, block: &Block) {
        if self.answer.as_ref().is_some_and(|answer| answer.message != message) {
            self.settle();
        }
        let base = self.leaf.clone();
        let answer = self.answer.get_or_insert_with(|| OpenAnswer {
            message: message.to_owned(),
            blocks: Vec::new(),
            calls: Vec::new(),
            base,
            last: entry.id.clone(),
        });
        if let Block::ToolUse(call) = block {
            let known = answer.calls.iter().any(|open| open.call.id == call.id);
            // The same line twice, or a model that reuses an id: one call, one result.
            if known {
                return;
            }
            answer.calls.push(OpenCall { call: call.clone(), entry: entry.id.clone(), result: None });
        }
        answer.blocks.push(block.clone());
        answer.last = entry.id.clone();
        self.leaf = Some(entry.id.clone());
    }

    fn apply_result(&mut self, entry: &Entry, result: &ToolResult) {
        let calls = self.answer.iter_mut().flat_map(|answer| &mut answer.calls);
        if let Some(open) = calls.into_iter().find(|open| open.call.id == result.id && open.result.is_none())
        {
            open.result = Some(result.clone());
            self.leaf = Some(entry.id.clone());
        }
    }

    fn apply_changes(&mut self, changes: &[StateChange]) {
        for change in changes {
            match change {
                StateChange::Cwd(cwd) => self.cwd = Some(cwd.clone()),
                StateChange::Todos(todos) => self.todos.clone_from(todos),
            }
        }
    }

    fn settle(&mut self) {
        if let Some(answer) = self.answer.take() {
            answer.into_messages().into_iter().for_each(|message| push(&mut self.settled, message));
        }
    }

    fn say_as_user(&mut self, content: Vec<Block>) {
        push(&mut self.settled, Message::user(content));
    }
}

/// Adds a message; one of the same side continues the last, because roles must alternate.
fn push(messages: &mut Vec<Arc<Message>>, message: Message) {
    match messages.last_mut() {
        Some(last) if last.role == message.role => Arc::make_mut(last).content.extend(message.content),
        _ => messages.push(Arc::new(message)),
    }
}

impl OpenAnswer {
    fn into_messages(self) -> Vec<Message> {
        let mut messages = vec![Message::assistant(self.blocks)];
        if !self.calls.is_empty() {
            let results = self
                .calls
                .into_iter()
                .map(|open| Block::ToolResult(open.result.unwrap_or_else(|| unknown_outcome(open.call.id))));
            messages.push(Message::user(results.collect()));
        }
        messages
    }
}

/// The truthful result of a call that was running when its process ended.
pub(crate) fn unknown_outcome(id: CallId) -> ToolResult {
    let text = "outcome unknown: the process ended before this call returned; it may or may not have taken effect, check before repeating it";
    ToolResult { id, content: vec![Block::text(text)], is_error: true }
}

#[cfg(test)]
mod tests;
