//! The fold of a compaction and of its undoing. However the lines came about, what it leaves is a valid
//! conversation: a kept message is never cut off from what it answers.

use super::state::{Mark, State, push};
use ostler_proto::{Block, CallId, Compaction, EntryId, Message, Role, ToolResult};
use std::{collections::HashMap, sync::Arc};

/// How many compactions can be taken back. What they took out is held in memory for it.
const MOST_UNDONE: usize = 3;

/// The conversation before a compaction.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Before {
    messages: Vec<Arc<Message>>,
    prompts: Vec<Mark>,
    leaf: Option<EntryId>,
    /// How many messages the compaction left, and how many blocks in the last of them: what is beyond came
    /// later.
    left: usize,
    blocks: usize,
}

impl State {
    /// Makes the conversation shorter.
    pub(super) fn compact(&mut self, id: &EntryId, compaction: &Compaction) {
        self.settle();
        let mut messages = pruned(&self.settled, compaction);
        if !compaction.carried.is_empty() {
            messages = carried(messages, compaction);
        }
        let before = Before {
            left: messages.len(),
            blocks: messages.last().map_or(0, |message| message.content.len()),
            messages: std::mem::replace(&mut self.settled, messages),
            prompts: std::mem::take(&mut self.prompts),
            leaf: self.leaf.clone(),
        };
        if !compaction.carried.is_empty() {
            self.leaf = Some(id.clone());
        }
        self.before.push(before);
        if self.before.len() > MOST_UNDONE {
            self.before.remove(0);
        }
    }

    /// Takes the last compaction back, and keeps what came after it.
    pub(super) fn uncompact(&mut self) {
        self.settle();
        let Some(before) = self.before.pop() else { return };
        let shorter = std::mem::replace(&mut self.settled, before.messages);
        let came_later = shorter.len() > before.left
            || shorter.last().is_some_and(|last| last.content.len() > before.blocks);
        if !came_later {
            self.leaf = before.leaf;
        }
        // Later prompts stand in another place now, and so cannot be gone back to.
        self.prompts = before.prompts;
        for (at, message) in shorter.iter().enumerate().skip(before.left.saturating_sub(1)) {
            let from = if at < before.left { before.blocks } else { 0 };
            let content: Vec<Block> = message.content.iter().skip(from).cloned().collect();
            if !content.is_empty() {
                push(&mut self.settled, Message { role: message.role, content });
            }
        }
    }

    /// Goes back to the conversation before the compactions that came after a prompt, if one did.
    pub(super) fn uncover(&mut self, prompt: &EntryId) {
        if self.prompts.iter().any(|mark| &mark.prompt == prompt) {
            return;
        }
        let holds = |before: &Before| before.prompts.iter().any(|mark| &mark.prompt == prompt);
        let Some(at) = self.before.iter().rposition(holds) else { return };
        let before = self.before.swap_remove(at);
        self.before.truncate(at);
        self.answer = None;
        self.settled = before.messages;
        self.prompts = before.prompts;
        self.leaf = before.leaf;
    }

    /// Whether there is a compaction to take back.
    pub fn can_uncompact(&self) -> bool {
        !self.before.is_empty()
    }

    /// Whether a prompt stands before a compaction that can be taken back.
    pub(super) fn is_covered(&self, prompt: &EntryId) -> bool {
        self.covered().any(|mark| &mark.prompt == prompt)
    }

    /// The prompts that stand before compactions which can be taken back, oldest first.
    pub(super) fn covered(&self) -> impl Iterator<Item = &Mark> {
        self.before.iter().flat_map(|before| &before.prompts)
    }
}

/// The messages with some results as a line, and without the reasoning of turns that are over.
pub(crate) fn pruned(messages: &[Arc<Message>], compaction: &Compaction) -> Vec<Arc<Message>> {
    let lines: HashMap<&CallId, &str> =
        compaction.pruned.iter().map(|pruned| (&pruned.call, pruned.text.as_str())).collect();
    let over = settled_turns(messages);
    let shorten = |(at, message): (usize, &Arc<Message>)| match message.role {
        Role::User => with_lines(message, &lines),
        Role::Assistant if at < over => without_reasoning(message),
        Role::Assistant => Arc::clone(message),
    };
    messages.iter().enumerate().map(shorten).collect()
}

/// What is carried, and the kept messages behind it, which must begin with the model's.
pub(crate) fn carried(messages: Vec<Arc<Message>>, compaction: &Compaction) -> Vec<Arc<Message>> {
    let from = messages.len().saturating_sub(compaction.kept);
    let kept = messages.into_iter().skip(from).skip_while(|message| message.role == Role::User);
    std::iter::once(Arc::new(Message::user(compaction.carried.clone()))).chain(kept).collect()
}

/// Where the turn begins that the last results belong to: APIs want the reasoning of that one back.
fn settled_turns(messages: &[Arc<Message>]) -> usize {
    let has_result =
        |message: &Message| message.content.iter().any(|block| matches!(block, Block::ToolResult(_)));
    let said = |message: &Arc<Message>| message.role == Role::User && !has_result(message);
    messages.iter().rposition(said).unwrap_or(0)
}

fn with_lines(message: &Arc<Message>, lines: &HashMap<&CallId, &str>) -> Arc<Message> {
    let line = |block: &Block| match block {
        Block::ToolResult(result) => lines.get(&result.id).copied(),
        Block::Text(_)
        | Block::Thinking { .. }
        | Block::Image(_)
        | Block::Document(_)
        | Block::ToolUse(_)
        | Block::Opaque(_) => None,
    };
    if !message.content.iter().any(|block| line(block).is_some()) {
        return Arc::clone(message);
    }
    let shorten = |block: &Block| match (block, line(block)) {
        (Block::ToolResult(result), Some(text)) => Block::ToolResult(ToolResult {
            id: result.id.clone(),
            content: vec![Block::text(text)],
            is_error: result.is_error,
        }),
        (block, _) => block.clone(),
    };
    Arc::new(Message::user(message.content.iter().map(shorten).collect()))
}

fn without_reasoning(message: &Arc<Message>) -> Arc<Message> {
    let is_reasoning = |block: &Block| match block {
        Block::Thinking { .. } => true,
        Block::Opaque(value) => value.get("type").is_some_and(|kind| kind == "redacted_thinking"),
        Block::Text(_) | Block::Image(_) | Block::Document(_) | Block::ToolUse(_) | Block::ToolResult(_) => {
            false
        }
    };
    let reasoning = message.content.iter().filter(|block| is_reasoning(block)).count();
    // A message without any content would be refused.
    if reasoning == 0 || reasoning == message.content.len() {
        return Arc::clone(message);
    }
    let content = message.content.iter().filter(|block| !is_reasoning(block)).cloned().collect();
    Arc::new(Message::assistant(content))
}
