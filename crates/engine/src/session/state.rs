//! What a session amounts to, as a fold over its events. The conversation it yields is always
//! valid: roles alternate and every call is answered in the message after it.

use super::{cache::Cache, labels::Labels, line::interrupt_marker, remembered::Remembered, shorten::Before};
use crate::ledger::Spent;
use ostler_proto::{
    Block, CallId, Entry, EntryId, Instruction, InstructionRecord, Message, Mode, Role, Section,
    SessionEvent, StateChange, Todo, ToolCall, ToolResult, session::ModelChange,
};
use std::{path::PathBuf, sync::Arc};

/// The fold's value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// Model as last chosen.
    pub model: Option<String>,
    /// Permission mode as last set.
    pub mode: Option<Mode>,
    /// System prompt as last sent.
    pub system: Vec<Section>,
    /// Where the shell stands.
    pub cwd: Option<PathBuf>,
    /// The model's todo list.
    pub todos: Vec<Todo>,
    /// What it is called.
    pub labels: Labels,
    /// Answers since the list was last written.
    pub answers_since_todos: u32,
    /// Its requests as a prompt cache sees them.
    pub cache: Cache,
    /// What was used over all runs.
    pub spent: Spent,
    /// What must not be forgotten however short the conversation becomes.
    pub remembered: Remembered,
    /// The instructions in force, as the model last read them.
    pub instructions: Arc<Vec<Instruction>>,
    pub(super) settled: Vec<Arc<Message>>,
    pub(super) answer: Option<OpenAnswer>,
    pub(super) leaf: Option<EntryId>,
    /// Where each prompt stands, to go back to.
    pub(super) prompts: Vec<Mark>,
    /// What the last compactions took out, to go back to.
    pub(super) before: Vec<Before>,
    /// What the last rewind cut off, until the conversation goes on without it.
    cut: Option<Box<Cut>>,
}

/// A conversation that was left, to go back to.
#[derive(Debug, Clone, PartialEq)]
struct Cut {
    settled: Vec<Arc<Message>>,
    answer: Option<OpenAnswer>,
    leaf: Option<EntryId>,
    prompts: Vec<Mark>,
    before: Vec<Before>,
    remembered: Remembered,
    instructions: Arc<Vec<Instruction>>,
}

/// The conversation right before a prompt.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mark {
    pub(super) prompt: EntryId,
    /// The user's words, begun; none for what Ostler itself said.
    title: Option<String>,
    messages: usize,
    /// Blocks of the last message; the prompt may have been added to it.
    blocks: usize,
    leaf: Option<EntryId>,
    instructions: Arc<Vec<Instruction>>,
}

/// The model's last answer with the results it has so far.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OpenAnswer {
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
    id: CallId,
    entry: EntryId,
    result: Option<ToolResult>,
}

/// Characters of a prompt that a list shows.
const TITLE: usize = 80;

impl State {
    /// Takes one event in.
    pub fn apply(&mut self, entry: &Entry) {
        // Taken before anything of it is given up.
        let left = matches!(entry.event, SessionEvent::Rewound { .. }).then(|| self.snapshot());
        self.observe(entry);
        match &entry.event {
            SessionEvent::Opened { cwd, model, mode, system } => {
                self.cwd.get_or_insert_with(|| cwd.clone());
                self.model = Some(model.clone());
                self.mode = Some(*mode);
                self.system.clone_from(system);
            }
            SessionEvent::Prompted { content, meta } => {
                self.apply_prompt(entry.id.clone(), entry.parent.as_ref(), content.clone(), *meta);
            }
            SessionEvent::Instructed { record } => self.instruct(record),
            SessionEvent::Rewound { to } => self.go_back(to, left),
            SessionEvent::RewindUndone => self.swap_cut(),
            SessionEvent::Replied { message, block, .. } => {
                self.apply_block(entry.id.clone(), message, block.clone());
            }
            SessionEvent::ToolReturned { result, changes, .. } => {
                self.apply_result(entry.id.clone(), result.clone());
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
            SessionEvent::Compacted { compaction, .. } => self.compact(&entry.id, compaction),
            SessionEvent::Uncompacted => self.uncompact(),
            SessionEvent::ModeChanged { mode } => self.mode = Some(*mode),
            // A fallback holds for a turn; the choice stays what it was.
            SessionEvent::ModelChanged { model, because: ModelChange::Asked | ModelChange::Restored } => {
                self.model = Some(model.clone());
            }
            SessionEvent::Commanded { .. } => self.leaf = Some(entry.id.clone()),
            SessionEvent::Sampled { .. } => {
                self.answers_since_todos = self.answers_since_todos.saturating_add(1);
            }
            SessionEvent::CacheBroken { .. }
            | SessionEvent::Decided { .. }
            | SessionEvent::Hooked { .. }
            | SessionEvent::ModelChanged { .. } => {}
        }
    }

    /// Takes one event in that nobody else needs. The long ones need not be copied then.
    pub(super) fn apply_owned(&mut self, entry: Entry) {
        if !is_long(&entry.event) {
            return self.apply(&entry);
        }
        self.observe(&entry);
        if let SessionEvent::Prompted { content, meta } = entry.event {
            self.apply_prompt(entry.id, entry.parent.as_ref(), content, meta);
        } else if let SessionEvent::Replied { message, block, .. } = entry.event {
            self.apply_block(entry.id, &message, block);
        } else if let SessionEvent::ToolReturned { result, changes, .. } = entry.event {
            self.apply_result(entry.id, result);
            self.apply_changes(&changes);
        }
    }

    /// What is kept beside the conversation.
    fn observe(&mut self, entry: &Entry) {
        self.cache.apply(entry);
        self.spent.apply(&entry.event);
        self.gather(entry);
    }

    /// The line a new event follows.
    pub fn parent_of(&self, event: &SessionEvent) -> Option<EntryId> {
        match (event, &self.answer) {
            (SessionEvent::ToolReturned { result, .. }, Some(answer)) => {
                let call = answer.calls.iter().find(|open| open.id == result.id);
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

    /// What was said since the model spoke last. Costs no more than what it gives.
    pub fn unread(&self) -> Vec<Arc<Message>> {
        if let Some(answer) = &self.answer {
            return answer.clone().into_messages().into_iter().skip(1).map(Arc::new).collect();
        }
        let spoken = self.settled.iter().rposition(|message| message.role == Role::Assistant);
        self.settled[spoken.map_or(0, |at| at + 1)..].to_vec()
    }

    /// Whether these words stand in the conversation as a block of their own. Looks at all of it: for
    /// what is said rarely.
    pub fn has_said(&self, words: &Block) -> bool {
        self.settled.iter().any(|message| message.content.contains(words))
    }

    /// Calls of the last answer that have no result.
    pub fn unanswered(&self) -> Vec<ToolCall> {
        let Some(answer) = &self.answer else { return Vec::new() };
        let is_open =
            |call: &&ToolCall| answer.calls.iter().any(|open| open.id == call.id && open.result.is_none());
        answer.blocks.iter().filter_map(Block::as_call).filter(is_open).cloned().collect()
    }

    /// Whether the conversation holds a prompt with this id.
    pub fn has_prompt(&self, id: &EntryId) -> bool {
        self.prompts.iter().any(|mark| &mark.prompt == id) || self.is_covered(id)
    }

    /// What the user said so far and can be gone back to, oldest first, each begun.
    pub fn prompts(&self) -> impl Iterator<Item = (&EntryId, &str)> {
        self.covered().chain(&self.prompts).filter_map(|mark| Some((&mark.prompt, mark.title.as_deref()?)))
    }

    /// Whether the last thing that happened to the conversation was a rewind, which can be taken back.
    pub fn can_undo_rewind(&self) -> bool {
        self.cut.is_some()
    }

    /// The prompt that stands right behind this line.
    pub fn prompt_after(&self, line: &EntryId) -> Option<&EntryId> {
        self.prompts.iter().find(|mark| mark.leaf.as_ref() == Some(line)).map(|mark| &mark.prompt)
    }

    /// The line the conversation has come to.
    pub fn leaf(&self) -> Option<&EntryId> {
        self.leaf.as_ref()
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.settled.is_empty() && self.answer.is_none()
    }

    /// Whether the last answer proposed a call with this id.
    pub fn has_call(&self, id: &CallId) -> bool {
        self.answer.iter().flat_map(|answer| &answer.calls).any(|open| &open.id == id)
    }

    /// Whether the last answer has this id.
    pub fn is_last_answer(&self, message: &str) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.message == message)
    }

    fn gather(&mut self, entry: &Entry) {
        let call = if let SessionEvent::ToolReturned { result, .. } = &entry.event {
            let blocks = self.answer.iter().flat_map(|answer| &answer.blocks);
            blocks.filter_map(Block::as_call).find(|call| call.id == result.id)
        } else {
            None
        };
        self.remembered.apply(entry, call);
    }

    /// The conversation as it is, to come back to.
    fn snapshot(&self) -> Box<Cut> {
        Box::new(Cut {
            settled: self.settled.clone(),
            answer: self.answer.clone(),
            leaf: self.leaf.clone(),
            prompts: self.prompts.clone(),
            before: self.before.clone(),
            remembered: self.remembered.clone(),
            instructions: Arc::clone(&self.instructions),
        })
    }

    /// Forgets the conversation; what comes next sums it up.
    pub(super) fn begin_anew(&mut self) {
        self.settled.clear();
        self.prompts.clear();
        self.before.clear();
        self.cut = None;
        self.answer = None;
        self.leaf = None;
    }

    /// Gives up the older half of a conversation that is too long to be held; says how many messages.
    pub(super) fn forget_older_half(&mut self) -> usize {
        let half = self.settled.len() / 2;
        let is_answer = |message: &Arc<Message>| message.role == Role::Assistant;
        let Some(cut) = self.settled[half..].iter().position(is_answer).map(|at| half + at) else { return 0 };
        if cut < 2 {
            return 0;
        }
        let had_lost = self.settled.first() == Some(&lost_beginning());
        self.settled.splice(..cut, [lost_beginning()]);
        self.prompts.retain(|mark| mark.messages > cut);
        self.prompts.iter_mut().for_each(|mark| mark.messages -= cut - 1);
        // What could be brought back is as long again.
        self.before.clear();
        self.cut = None;
        cut - usize::from(had_lost)
    }

    /// Other programs go back by following an earlier line with the next prompt.
    fn branch_off(&mut self, parent: Option<&EntryId>) {
        let Some(parent) = parent.filter(|parent| Some(*parent) != self.leaf.as_ref()) else { return };
        if let Some(at) = self.prompts.iter().position(|mark| mark.leaf.as_ref() == Some(parent)) {
            self.go_back_to(at);
        }
    }

    fn go_back(&mut self, to: &EntryId, cut: Option<Box<Cut>>) {
        self.uncover(to);
        if let Some(at) = self.prompts.iter().position(|mark| &mark.prompt == to) {
            self.cut = cut;
            self.go_back_to(at);
        }
    }

    fn go_back_to(&mut self, at: usize) {
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
        self.instructions = mark.instructions;
    }

    /// The model reads them as said by the user's side, after what was said before.
    fn instruct(&mut self, record: &InstructionRecord) {
        self.settle();
        self.say_as_user(vec![Block::text(record.text())]);
        let is_new = |known: &Instruction| {
            !record.gone.contains(&known.path) && !record.files.iter().any(|file| file.path == known.path)
        };
        let instructions = Arc::make_mut(&mut self.instructions);
        instructions.retain(is_new);
        instructions.extend(record.files.iter().cloned());
    }

    /// Takes a rewind back, or takes that back.
    fn swap_cut(&mut self) {
        let Some(cut) = &mut self.cut else { return };
        std::mem::swap(&mut self.settled, &mut cut.settled);
        std::mem::swap(&mut self.answer, &mut cut.answer);
        std::mem::swap(&mut self.leaf, &mut cut.leaf);
        std::mem::swap(&mut self.prompts, &mut cut.prompts);
        std::mem::swap(&mut self.before, &mut cut.before);
        std::mem::swap(&mut self.remembered, &mut cut.remembered);
        std::mem::swap(&mut self.instructions, &mut cut.instructions);
    }

    fn apply_prompt(&mut self, id: EntryId, parent: Option<&EntryId>, content: Vec<Block>, meta: bool) {
        self.branch_off(parent);
        self.settle();
        if !meta {
            self.cut = None;
        }
        self.prompts.push(Mark {
            prompt: id.clone(),
            title: (!meta).then(|| title(&content)),
            messages: self.settled.len(),
            blocks: self.settled.last().map_or(0, |message| message.content.len()),
            leaf: self.leaf.take(),
            instructions: Arc::clone(&self.instructions),
        });
        self.say_as_user(content);
        self.leaf = Some(id);
    }

    fn apply_block(&mut self, id: EntryId, message: &str, block: Block) {
        if self.answer.as_ref().is_some_and(|answer| answer.message != message) {
            self.settle();
        }
        let answer = self.answer.get_or_insert_with(|| OpenAnswer {
            message: message.to_owned(),
            blocks: Vec::new(),
            calls: Vec::new(),
            base: self.leaf.clone(),
            last: id.clone(),
        });
        if let Block::ToolUse(call) = &block {
            let known = answer.calls.iter().any(|open| open.id == call.id);
            // The same line twice, or a model that reuses an id: one call, one result.
            if known {
                return;
            }
            answer.calls.push(OpenCall { id: call.id.clone(), entry: id.clone(), result: None });
        }
        answer.blocks.push(block);
        answer.last.clone_from(&id);
        self.leaf = Some(id);
    }

    fn apply_result(&mut self, id: EntryId, result: ToolResult) {
        let calls = self.answer.iter_mut().flat_map(|answer| &mut answer.calls);
        if let Some(open) = calls.into_iter().find(|open| open.id == result.id && open.result.is_none()) {
            open.result = Some(result);
            self.leaf = Some(id);
        }
    }

    fn apply_changes(&mut self, changes: &[StateChange]) {
        for change in changes {
            match change {
                StateChange::Cwd(cwd) => self.cwd = Some(cwd.clone()),
                StateChange::Todos(todos) => {
                    self.todos.clone_from(todos);
                    self.answers_since_todos = 0;
                }
            }
        }
    }

    pub(super) fn settle(&mut self) {
        if let Some(answer) = self.answer.take() {
            answer.into_messages().into_iter().for_each(|message| push(&mut self.settled, message));
        }
    }

    fn say_as_user(&mut self, content: Vec<Block>) {
        push(&mut self.settled, Message::user(content));
    }
}

/// The beginning of what somebody said, for a list.
fn title(content: &[Block]) -> String {
    let words = content.iter().filter_map(Block::as_text).flat_map(str::split_whitespace);
    words
        .flat_map(|word| [word, " "])
        .flat_map(str::chars)
        .take(TITLE)
        .collect::<String>()
        .trim_end()
        .to_owned()
}

fn is_long(event: &SessionEvent) -> bool {
    matches!(
        event,
        SessionEvent::Prompted { .. } | SessionEvent::Replied { .. } | SessionEvent::ToolReturned { .. }
    )
}

/// Adds a message; one of the same side continues the last, because roles must alternate.
pub(super) fn push(messages: &mut Vec<Arc<Message>>, message: Message) {
    match messages.last_mut() {
        Some(last) if last.role == message.role => Arc::make_mut(last).content.extend(message.content),
        None if message.role == Role::Assistant => {
            messages.extend([lost_beginning(), Arc::new(message)]);
        }
        Some(_) | None => messages.push(Arc::new(message)),
    }
}

/// Stands where the user's words are lost: no API takes a conversation that begins with an answer.
fn lost_beginning() -> Arc<Message> {
    Arc::new(Message::user(vec![Block::text("[the beginning of this conversation is no longer there]")]))
}

impl OpenAnswer {
    fn into_messages(self) -> Vec<Message> {
        let mut messages = vec![Message::assistant(self.blocks)];
        if !self.calls.is_empty() {
            let results = self
                .calls
                .into_iter()
                .map(|open| Block::ToolResult(open.result.unwrap_or_else(|| unknown_outcome(open.id))));
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
