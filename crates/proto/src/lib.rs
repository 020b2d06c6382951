//! The nouns every plane of Ostler speaks: plain data and pure folds over it.
//! Nothing here does I/O, waits, draws random numbers or reads a clock.
#![warn(missing_docs)]
#![warn(clippy::wildcard_enum_match_arm)]

pub mod block;
pub mod command;
pub mod compaction;
pub mod consult;
pub mod content;
pub mod context;
pub mod decision;
pub mod embed;
pub mod envelope;
pub mod hook;
pub mod id;
pub mod instruction;
pub mod intent;
pub mod job;
pub mod listener;
pub mod model;
pub mod script;
pub mod session;
pub mod settings;
pub mod tool;
pub mod update;

pub use block::{Block, Message, Role, Source, ToolCall, ToolResult};
pub use command::{Answer, Command, CommandInfo, Keep, Query, Queued, Trial, Wording};
pub use compaction::{Compaction, Pruned, Trigger};
pub use consult::{Choice, Matter, UserQuestion};
pub use context::{CacheBreak, Fingerprint, Scope, Section};
pub use decision::{Addressee, Decision, Mode, Reason, Rule, RuleSource, Rules, Suggestion, Verdict};
pub use envelope::{AgentEvent, Ask, Denial, Envelope, Limit, Round, SessionInfo, TurnEnd, TurnOutcome, Why};
pub use hook::{HookEvent, HookRecord, HookSource};
pub use id::{AgentId, AskId, CallId, EntryId, SessionId};
pub use instruction::{Instruction, InstructionRecord, InstructionScope, LoadReason};
pub use intent::{Access, Footprint, Intent, PathFact, Preview};
pub use job::{Job, JobId, JobState};
pub use listener::{HookCall, HookId, HookNews, HookReply, HostHook};
pub use model::{
    BlockStart, Effort, ErrorKind, ModelEvent, ModelRow, Price, Reasoning, Request, StopReason, SystemText,
    Thinking, Usage,
};
pub use session::{Entry, SessionEvent};
pub use settings::Settings;
pub use tool::{Interrupt, StateChange, Todo, TodoStatus, ToolError, ToolOutput, ToolSpec};
pub use update::{Change, RuleSide, Update};

/// Any JSON value; object key order is kept as written.
pub type Json = serde_json::Value;
