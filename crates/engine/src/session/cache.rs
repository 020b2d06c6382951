//! What a session knows of its requests: the last one's fingerprint, what it really cost, and every time a
//! prompt cache was lost. A part of the fold; it never looks at the conversation.

use crate::tokens::Measured;
use ostler_proto::{CacheBreak, Entry, Fingerprint, SessionEvent, Usage};

/// The fold's value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cache {
    /// The last request that was answered.
    pub last: Option<Fingerprint>,
    /// What it cost.
    pub usage: Option<Usage>,
    /// What has since been done to the conversation that the next request cannot extend.
    pub edit: Option<CacheBreak>,
    /// When a cache was lost, and why.
    pub breaks: Vec<Lost>,
}

/// One time that a cache was lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Lost {
    /// When, RFC 3339.
    pub at: String,
    /// Why.
    pub by: CacheBreak,
    /// How much of the former request had to be paid again.
    pub bytes: u64,
    /// What that cost, guessed, in US dollars.
    pub est_cost_usd: f64,
}

impl Cache {
    /// Takes one event in.
    pub(super) fn apply(&mut self, entry: &Entry) {
        match &entry.event {
            SessionEvent::Sampled { usage, request: Some(request), .. } => {
                self.last = Some(request.clone());
                self.usage = Some(*usage);
                self.edit = None;
            }
            SessionEvent::Compacted { .. } | SessionEvent::Uncompacted => {
                self.edit = Some(CacheBreak::Compaction);
            }
            SessionEvent::Rewound { .. } | SessionEvent::RewindUndone => self.edit = Some(CacheBreak::Rewind),
            SessionEvent::CacheBroken { by, bytes, est_cost_usd } => self.breaks.push(Lost {
                at: entry.timestamp.clone(),
                by: by.clone(),
                bytes: *bytes,
                est_cost_usd: *est_cost_usd,
            }),
            SessionEvent::Opened { .. }
            | SessionEvent::Prompted { .. }
            | SessionEvent::Instructed { .. }
            | SessionEvent::Commanded { .. }
            | SessionEvent::Replied { .. }
            | SessionEvent::Sampled { request: None, .. }
            | SessionEvent::Dropped { .. }
            | SessionEvent::Decided { .. }
            | SessionEvent::Hooked { .. }
            | SessionEvent::ToolReturned { .. }
            | SessionEvent::Interrupted { .. }
            | SessionEvent::Failed { .. }
            | SessionEvent::ModeChanged { .. }
            | SessionEvent::ModelChanged { .. } => {}
        }
    }

    /// The last request's guess beside what was counted.
    pub fn measured(&self) -> Option<Measured> {
        let (last, usage) = (self.last.as_ref()?, self.usage?);
        let real = usage.input + usage.cache_read + usage.cache_write;
        (real > 0).then_some(Measured { guessed: last.tokens, real })
    }
}
