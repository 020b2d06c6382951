//! What every frontend reads: one stream of envelopes, durable events and live ones alike.

use crate::{
    AgentId, AskId, CallId, Entry, ErrorKind, Intent, Job, Json, Mode, ModelEvent, Reason, SessionId,
    StopReason, Suggestion, Usage,
};
use serde::Serialize;
use std::{collections::BTreeMap, path::PathBuf};

/// One event on its way to the frontends.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// Counts up by one within a process.
    pub seq: u64,
    /// The session.
    pub session: SessionId,
    /// The agent, if it is not the main one.
    pub agent: Option<AgentId>,
    /// What happened.
    pub event: AgentEvent,
}

/// What can happen, as frontends see it.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// A turn begins.
    TurnStarted(SessionInfo),
    /// Something durable; it is on disk already.
    Recorded(Entry),
    /// A request goes out.
    Requesting,
    /// A piece of the model's answer.
    Delta(ModelEvent),
    /// A call begins to run.
    CallStarted {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// What it does.
        intent: Intent,
    },
    /// A running call has something to show.
    CallProgress {
        /// The call.
        call: CallId,
        /// New output.
        text: String,
    },
    /// Somebody must answer; see [`crate::Command::Answer`].
    Asked(Ask),
    /// A question needs no answer any more.
    AskWithdrawn {
        /// The question.
        ask: AskId,
    },
    /// A command in the background began or ended.
    JobChanged {
        /// The command as it is now.
        job: Job,
        /// When, in milliseconds since 1970.
        at_ms: u64,
    },
    /// A request failed and will be tried again.
    Retrying {
        /// Counts from one.
        attempt: u32,
        /// The most there will be.
        max_attempts: u32,
        /// How long until then.
        delay_ms: u64,
        /// HTTP status, if there was one.
        status: Option<u16>,
        /// What kind of failure.
        kind: ErrorKind,
        /// What went wrong.
        message: String,
    },
    /// Something the user should know.
    Notice {
        /// The words.
        text: String,
    },
    /// The turn is over.
    TurnEnded(TurnEnd),
    /// The last event: the session is closed and flushed.
    Closed,
}

/// Facts about the session that a turn starts from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionInfo {
    /// Working directory.
    pub cwd: PathBuf,
    /// Model name as chosen.
    pub model: String,
    /// Permission mode.
    pub mode: Mode,
    /// Names of usable tools.
    pub tools: Vec<String>,
    /// Which credential is in use, by name; never its value.
    pub key_source: String,
    /// Where the transcript is written, if it is.
    pub transcript: Option<PathBuf>,
}

/// A question about one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The question's id.
    pub id: AskId,
    /// The call it is about.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// The call's input.
    pub input: Json,
    /// What it would do.
    pub intent: Intent,
    /// Why it is a question.
    pub because: Reason,
    /// Rules that would answer it for next time.
    pub suggestions: Vec<Suggestion>,
}

/// How a turn ended and what it used.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEnd {
    /// How.
    pub outcome: TurnOutcome,
    /// The model's last text.
    pub text: String,
    /// Why the last answer stopped.
    pub stop: Option<StopReason>,
    /// Answers of the model in this turn.
    pub round_trips: u32,
    /// From prompt to end.
    pub duration_ms: u64,
    /// Of that, waiting for the model.
    pub api_ms: u64,
    /// Tokens of this turn.
    pub usage: Usage,
    /// Tokens and dollars by model since the process started.
    pub by_model: BTreeMap<String, ModelSpend>,
    /// Dollars since the process started.
    pub cost_usd: f64,
    /// Calls that were denied in this turn.
    pub denials: Vec<Denial>,
    /// Commands in the background that were stopped because the session ends with this turn.
    pub stopped_jobs: Vec<Job>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnOutcome {
    /// The model was done.
    Completed,
    /// The limit of answers per turn was reached.
    MaxTurns {
        /// The limit.
        limit: u32,
    },
    /// The money ran out.
    BudgetExhausted {
        /// The limit in US dollars.
        limit_usd: f64,
    },
    /// The user stopped it.
    Interrupted {
        /// Whether tools were running.
        during_tools: bool,
    },
    /// The model API would not answer.
    ApiError {
        /// HTTP status, if there was one.
        status: Option<u16>,
        /// What kind of failure.
        kind: ErrorKind,
        /// What went wrong and the way out.
        message: String,
    },
    /// Something on our side: the log could not be written, a tool was fatal.
    Failed {
        /// What went wrong and the way out.
        message: String,
    },
}

/// One model's share.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ModelSpend {
    /// Tokens.
    pub usage: Usage,
    /// Dollars.
    pub cost_usd: f64,
    /// The model's context window.
    pub context_window: u64,
    /// The model's output limit.
    pub max_output_tokens: u64,
}

/// One denied call.
#[derive(Debug, Clone, PartialEq)]
pub struct Denial {
    /// The tool.
    pub tool: String,
    /// The call.
    pub call: CallId,
    /// Its input.
    pub input: Json,
}
