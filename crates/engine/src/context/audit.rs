//! Holds every request against the one before it: it must extend it, or what broke the cache is known by name.
//! Each block is hashed once: messages are shared and never changed in place, so one that is the same object is
//! the same text, and a long conversation costs no more than what is new in it.

use crate::tokens;
use ostler_proto::{Block, CacheBreak, Fingerprint, Message, ModelRow, Request, Role, Source, ToolSpec};
use std::sync::Arc;

/// Remembers the last request of a session that was answered: one that never arrived is in no cache.
#[derive(Default)]
pub(crate) struct Auditor {
    last: Option<Fingerprint>,
    /// Sent, and not answered so far.
    open: Option<Fingerprint>,
    offered: Option<Offered>,
    trail: Trail,
}

/// How a request stands to the one before it.
pub(crate) struct Audit {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) broken: Option<Broken>,
}

/// A request that does not extend the one before it.
pub(crate) struct Broken {
    pub(crate) by: CacheBreak,
    /// How much of the former one must be paid again.
    pub(crate) bytes: u64,
}

/// Tools that were looked at already.
struct Offered {
    tools: Arc<[ToolSpec]>,
    print: Print,
}

/// What is kept of a part of a request.
#[derive(Clone)]
struct Print {
    hash: String,
    bytes: u64,
    tokens: u64,
}

/// The conversation of the last request, block by block.
#[derive(Default)]
struct Trail {
    messages: Vec<Arc<Message>>,
    /// For each message, how many blocks there are up to its end.
    ends: Vec<usize>,
    links: Vec<Link>,
}

/// A block and everything before it.
#[derive(Clone, Copy, PartialEq)]
struct Link {
    hash: [u8; 32],
    bytes: u64,
    tokens: u64,
}

const START: Link = Link { hash: [0; 32], bytes: 0, tokens: 0 };

impl Auditor {
    /// Goes on after the last request of another process.
    pub(crate) fn after(last: Option<Fingerprint>) -> Self {
        Self { last, ..Self::default() }
    }

    /// Compares a request with the last one that was answered. `edit` is what is known to have changed the conversation since.
    pub(crate) fn audit(&mut self, model: &str, request: &Request, edit: Option<CacheBreak>) -> Audit {
        let former_names = self.offered.as_ref().map(|offered| names(&offered.tools));
        let tools = self.tools(&request.tools);
        let system = system(request);
        let shared = self.trail.follow(&request.messages);
        let talk = self.trail.last();
        let fingerprint = Fingerprint {
            model: model.to_owned(),
            manner: short(blake3::hash(format!("{:?} {:?}", request.thinking, request.effort).as_bytes())),
            tools: tools.hash,
            system: system.hash,
            conversation: short(blake3::Hash::from_bytes(talk.hash)),
            blocks: self.trail.links.len(),
            bytes: tools.bytes + system.bytes + talk.bytes,
            tokens: tools.tokens + system.tokens + talk.tokens,
        };
        // The same request once more, because the last one was not answered: that is on record.
        let is_told = self.open.as_ref() == Some(&fingerprint);
        let broken = self.last.as_ref().filter(|_| !is_told).and_then(|last| {
            let all = last.bytes;
            let kept_of_talk = tools.bytes + system.bytes + shared.bytes;
            let (by, kept) = if last.model != fingerprint.model {
                (CacheBreak::ModelChanged { from: last.model.clone(), to: model.to_owned() }, 0)
            } else if last.tools != fingerprint.tools {
                (tools_changed(former_names, &request.tools), 0)
            } else if last.system != fingerprint.system {
                (CacheBreak::SystemChanged, tools.bytes)
            } else if last.manner != fingerprint.manner {
                (CacheBreak::MannerChanged, tools.bytes + system.bytes)
            } else if !self.trail.begins_with(last) {
                (edit.unwrap_or(CacheBreak::HistoryEdited), kept_of_talk)
            } else {
                return None;
            };
            Some(Broken { by, bytes: all.saturating_sub(kept) })
        });
        Audit { fingerprint, broken }
    }

    /// The request is sent.
    pub(crate) fn sent(&mut self, fingerprint: Fingerprint) {
        self.open = Some(fingerprint);
    }

    /// The request that was sent last has an answer, or a part of one.
    pub(crate) fn answered(&mut self) -> Option<Fingerprint> {
        self.last.clone_from(&self.open);
        self.open.clone()
    }

    fn tools(&mut self, tools: &Arc<[ToolSpec]>) -> Print {
        if let Some(offered) = self.offered.as_ref().filter(|offered| Arc::ptr_eq(&offered.tools, tools)) {
            return offered.print.clone();
        }
        let mut ink = Ink::default();
        for tool in tools.iter() {
            ink.text(&tool.name).text(&tool.description).json(&tool.schema);
        }
        let tokens = tools.iter().map(tokens::of_tool).sum();
        let print = Print { hash: short(ink.hasher.finalize()), bytes: ink.bytes, tokens };
        self.offered = Some(Offered { tools: Arc::clone(tools), print: print.clone() });
        print
    }
}

impl Trail {
    /// Takes over a conversation; gives the last block it has in common with the former one.
    fn follow(&mut self, messages: &[Arc<Message>]) -> Link {
        let pairs = self.messages.iter().zip(messages);
        let same = pairs.take_while(|(former, new)| Arc::ptr_eq(former, new)).count();
        let first = same.checked_sub(1).map_or(0, |last| self.ends[last]);
        self.messages.truncate(same);
        self.ends.truncate(same);
        let former = self.links.split_off(first);
        for message in &messages[same..] {
            for (place, block) in message.content.iter().enumerate() {
                self.links.push(link(self.last(), message.role, place, block));
            }
            self.ends.push(self.links.len());
            self.messages.push(Arc::clone(message));
        }
        let common = former.iter().zip(&self.links[first..]).take_while(|(old, new)| old == new).count();
        self.at(first + common)
    }

    fn begins_with(&self, former: &Fingerprint) -> bool {
        former.blocks <= self.links.len()
            && former.conversation == short(blake3::Hash::from_bytes(self.at(former.blocks).hash))
    }

    /// The link behind so many blocks.
    fn at(&self, blocks: usize) -> Link {
        blocks.checked_sub(1).map_or(START, |last| self.links[last])
    }

    fn last(&self) -> Link {
        self.at(self.links.len())
    }
}

/// What a break costs beyond a request that extends its predecessor, in US dollars.
#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
pub(crate) fn cost(row: &ModelRow, tokens: u64) -> f64 {
    let full = if row.cache_breakpoints { row.price.cache_write } else { row.price.input };
    (full - row.price.cache_read).max(0.0) * tokens as f64 / 1e6
}

/// Hashes and counts.
#[derive(Default)]
struct Ink {
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Ink {
    fn text(&mut self, text: &str) -> &mut Self {
        // With its length before it no text can pass for two.
        self.hasher.update(&text.len().to_le_bytes()).update(text.as_bytes());
        self.bytes += text.len() as u64;
        self
    }

    fn json(&mut self, value: &ostler_proto::Json) -> &mut Self {
        self.text(&value.to_string())
    }

    fn kind(&mut self, kind: u8) -> &mut Self {
        self.hasher.update(&[kind]);
        self
    }

    /// Everything of a block that is sent, and nothing that is only ours.
    fn block(&mut self, block: &Block) {
        match block {
            Block::Text(text) => self.kind(0).text(text),
            Block::Thinking { text, signature } => self.kind(1).text(text).text(signature),
            Block::Image(source) => self.kind(2).source(source),
            Block::Document(source) => self.kind(3).source(source),
            Block::ToolUse(call) => self.kind(4).text(call.id.as_str()).text(&call.name).json(&call.input),
            Block::ToolResult(result) => {
                self.kind(5).kind(u8::from(result.is_error)).text(result.id.as_str());
                result.content.iter().for_each(|part| self.block(part));
                self.kind(6)
            }
            Block::Opaque(value) => self.kind(7).json(value),
        };
    }

    fn source(&mut self, source: &Source) -> &mut Self {
        match source {
            Source::Base64 { media_type, data } => self.text(media_type).text(data),
            Source::Url { url } => self.text(url),
        }
    }
}

fn link(before: Link, role: Role, place: usize, block: &Block) -> Link {
    let mut ink = Ink::default();
    ink.hasher.update(&before.hash);
    ink.kind(match role {
        Role::User => 0,
        Role::Assistant => 1,
    });
    // Two messages of one side are one to the model, but two messages to the cache.
    ink.kind(u8::from(place == 0));
    ink.block(block);
    Link {
        hash: *ink.hasher.finalize().as_bytes(),
        bytes: before.bytes + ink.bytes,
        tokens: before.tokens + tokens::of_block(block) + if place == 0 { tokens::FRAME } else { 0 },
    }
}

fn system(request: &Request) -> Print {
    let mut ink = Ink::default();
    for section in &request.system {
        ink.text(&section.text);
    }
    let tokens = request.system.iter().map(|section| tokens::of_text(&section.text)).sum();
    Print { hash: short(ink.hasher.finalize()), bytes: ink.bytes, tokens }
}

fn names(tools: &[ToolSpec]) -> Vec<String> {
    tools.iter().map(|tool| tool.name.clone()).collect()
}

fn tools_changed(former: Option<Vec<String>>, tools: &[ToolSpec]) -> CacheBreak {
    let new = names(tools);
    let former = former.unwrap_or_else(|| new.clone());
    let without = |list: &[String], other: &[String]| -> Vec<String> {
        list.iter().filter(|name| !other.contains(name)).cloned().collect()
    };
    CacheBreak::ToolsChanged { added: without(&new, &former), removed: without(&former, &new) }
}

/// Enough of a hash to tell requests apart, and short in a log.
fn short(hash: blake3::Hash) -> String {
    hash.to_hex()[..24].to_owned()
}

#[cfg(test)]
mod tests;
