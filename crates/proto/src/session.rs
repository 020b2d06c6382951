//! What is durable about a session: one event a line, enough to rebuild the conversation.

use crate::{
    Block, CacheBreak, CallId, Compaction, Decision, EntryId, Fingerprint, HookRecord, InstructionRecord,
    Intent, Json, Mode, Section, StateChange, StopReason, ToolResult, Usage,
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One durable event with its place in the transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The line's id; frames about the same event carry it too.
    pub id: EntryId,
    /// The line this one follows in the conversation.
    pub parent: Option<EntryId>,
    /// When it was recorded, RFC 3339 in UTC with milliseconds.
    pub timestamp: String,
    /// What happened.
    pub event: SessionEvent,
}

/// Everything that can happen to a session. Past tense, durable, versioned by its line format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum SessionEvent {
    /// A process opened the session, for the first time or again.
    Opened {
        /// Working directory.
        cwd: PathBuf,
        /// Model name as chosen.
        model: String,
        /// Permission mode.
        mode: Mode,
        /// System prompt sections as sent, so that a resumed request keeps its prefix.
        system: Vec<Section>,
    },
    /// The user, or somebody for them, said something.
    Prompted {
        /// What was said.
        content: Vec<Block>,
        /// Whether it came from Ostler itself and readers should hide it.
        meta: bool,
    },
    /// Standing instructions were read from files, for the first time or anew; the model reads them from here on.
    Instructed {
        /// Whose, and what of them.
        record: InstructionRecord,
    },
    /// The user gave a command that Ostler itself carries out; the model does not hear of it.
    Commanded {
        /// The command's name, without the slash.
        name: String,
        /// What followed the name.
        arguments: String,
        /// What the user was shown.
        output: String,
        /// The same for programs, where there is more to it; not kept.
        #[serde(skip)]
        figures: Option<Json>,
    },
    /// One block of a model's answer is whole.
    Replied {
        /// The API's id of the message; the blocks of one answer share it.
        message: String,
        /// The model that answered.
        model: String,
        /// The API's id of the request.
        request: Option<String>,
        /// The block.
        block: Block,
        /// Usage as known at the start of the answer.
        usage: Usage,
    },
    /// An answer came to its end.
    Sampled {
        /// The API's id of the message.
        message: String,
        /// The model that answered.
        model: String,
        /// Why it stopped; absent when the stream died after an effect and its blocks were kept.
        stop: Option<StopReason>,
        /// Final usage.
        usage: Usage,
        /// Price in US dollars.
        cost_usd: f64,
        /// From request to last event.
        duration_ms: u64,
        /// Of the request, so that a later process can tell whether it goes on from it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<Fingerprint>,
    },
    /// A request did not extend the one before it, so that a prompt cache held nothing of what changed.
    CacheBroken {
        /// Why.
        by: CacheBreak,
        /// How much of the former request must be paid again.
        bytes: u64,
        /// What that costs in US dollars beyond what reading it from the cache would have; guessed.
        est_cost_usd: f64,
    },
    /// An answer broke off before anything had an effect; its blocks and results count for nothing.
    Dropped {
        /// The API's id of the message, if it had begun.
        message: Option<String>,
        /// Why.
        reason: String,
        /// Text of the unfinished block, kept for the trace.
        partial: String,
        /// Tokens as far as they were reported; they are paid for all the same.
        #[serde(default)]
        usage: Usage,
        /// Their price in US dollars.
        #[serde(default)]
        cost_usd: f64,
    },
    /// The judge decided about a call.
    Decided {
        /// The call.
        call: CallId,
        /// What it would do.
        intent: Intent,
        /// The decision.
        decision: Decision,
    },
    /// Hooks came into force, or were told of something.
    Hooked {
        /// Which, and what they said.
        record: HookRecord,
    },
    /// A call got its one result.
    ToolReturned {
        /// The tool's name.
        tool: String,
        /// For the model.
        result: ToolResult,
        /// For programs.
        structured: Json,
        /// How it ended.
        state: CallState,
        /// Changes to shared state.
        changes: Vec<StateChange>,
        /// Run time without waiting.
        duration_ms: u64,
    },
    /// The user stopped the turn.
    Interrupted {
        /// Whether tools were running.
        during_tools: bool,
    },
    /// The turn could not go on; a short synthetic answer stands for it.
    Failed {
        /// What the user was told.
        message: String,
    },
    /// The permission mode changed.
    ModeChanged {
        /// The new mode.
        mode: Mode,
    },
    /// The model changed.
    ModelChanged {
        /// The new model.
        model: String,
        /// Why.
        #[serde(default)]
        because: ModelChange,
    },
    /// The conversation goes on from before a prompt; what came after counts for nothing.
    Rewound {
        /// The prompt.
        to: EntryId,
    },
    /// The last [`SessionEvent::Rewound`] was taken back: the conversation goes on from where it was.
    RewindUndone,
    /// The conversation became shorter; what came before stays in the log.
    Compacted {
        /// The line that marks the place for public transcript readers.
        boundary: EntryId,
        /// What was done.
        compaction: Compaction,
    },
    /// The last compaction counts for nothing: what it took out is back, and what came after it stays.
    Uncompacted,
}

/// Why the model changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelChange {
    /// The user wanted it.
    #[default]
    Asked,
    /// The one before would not answer; it holds for the rest of the turn.
    Fallback {
        /// What the one before said.
        reason: String,
    },
    /// The turn with the fallback is over.
    Restored,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// It ran and returned.
    Complete,
    /// It ran, or tried to, and failed.
    Failed,
    /// It was not allowed to run.
    Denied,
    /// It was cut short or never started.
    Cancelled,
    /// The process ended while it ran: what it did is not known.
    Unknown,
}
