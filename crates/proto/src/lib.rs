//! The nouns every plane of Ostler speaks: plain data and pure folds over it.
//! Nothing here does I/O, waits, draws random numbers or reads a clock.
#![warn(missing_docs)]
#![warn(clippy::wildcard_enum_match_arm)]

pub mod block;
pub mod command;
pub mod content;
pub mod decision;
pub mod embed;
pub mod envelope;
pub mod hook;
pub mod id;
pub mod intent;
pub mod job;
pub mod model;
pub mod script;
pub mod session;
pub mod settings;
pub mod tool;

pub use block::{Block, Message, Role, Source, ToolCall, ToolResult};
pub use command::{Answer, Command, Keep};
pub use decision::{Decision, Mode, Reason, Rule, RuleSource, Rules, Suggestion, Verdict};
pub use envelope::{AgentEvent, Ask, Envelope, SessionInfo, TurnEnd, TurnOutcome};
pub use hook::{HookEvent, HookRecord, HookSource};
pub use id::{AgentId, AskId, CallId, EntryId, SessionId};
pub use intent::{Access, Footprint, Intent, PathFact, Preview};
pub use job::{Job, JobId, JobState};
pub use model::{
    BlockStart, Effort, ErrorKind, ModelEvent, ModelRow, Price, Reasoning, Request, StopReason, SystemText,
    Thinking, Usage,
};
pub use session::{Entry, SessionEvent};
pub use settings::Settings;
pub use tool::{Interrupt, StateChange, Todo, TodoStatus, ToolError, ToolOutput, ToolSpec};

/// Any JSON value; object key order is kept as written.
pub type Json = serde_json::Value;
