//! What frontends have to do with hooks: callbacks that a host lends the session, calls of them and their
//! answers, and what is shown of hooks at work. Plain data; whether a word counts is control's business.

use crate::{HookEvent, Json};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// One callback as the host named it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostHook {
    /// When it wants to be called.
    pub event: HookEvent,
    /// About what; empty for everything.
    pub matcher: String,
    /// Its name.
    pub callback: String,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// What an error of it means.
    pub on_failure: OnFailure,
}

/// What it means when a hook reports an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// Nothing: the action goes on.
    #[default]
    Continue,
    /// An objection.
    Block,
}

/// One call of a callback, or one run of any hook; unique within a running session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HookId(pub u64);

/// A callback is called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookCall {
    /// This call of it.
    pub id: HookId,
    /// The callback, by the name the host gave it.
    pub callback: String,
    /// The hook's input.
    pub input: Json,
    /// The call of a tool it is about.
    pub tool_use_id: Option<String>,
}

/// What came back from a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum HookReply {
    /// An answer, to be read as any hook's.
    Output(Json),
    /// The callback failed.
    Error(String),
    /// It could not be called, for this reason: a gate stays closed.
    Unreachable(String),
}

/// What hooks do while the session runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum HookNews {
    /// A host's callback is called; see [`crate::Command::AnswerHook`].
    Called(HookCall),
    /// Its answer is no longer needed.
    Withdrawn(HookId),
    /// A hook begins to run.
    Started(HookRunning),
    /// A hook has run.
    Ended(HookRunning, HookOutput),
}

/// A hook at work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRunning {
    /// This run.
    pub id: HookId,
    /// The event.
    pub event: HookEvent,
    /// What the event is about: a tool, a reason, …
    pub about: Option<String>,
}

/// What a hook left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookOutput {
    /// What it printed, the start of it.
    pub stdout: String,
    /// What it printed as errors, the start of it.
    pub stderr: String,
    /// The exit code, if it was a program that came to its end.
    pub code: Option<i32>,
    /// How it went.
    pub outcome: HookOutcome,
}

/// How a hook's run went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookOutcome {
    /// It had its say.
    Success,
    /// It failed.
    Error,
    /// It was stopped: it took too long, or nobody needed it any more.
    Cancelled,
}

impl fmt::Display for HookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hook_{}", self.0)
    }
}

impl HookRunning {
    /// The event and what it is about, as one name.
    pub fn name(&self) -> String {
        match &self.about {
            Some(about) => format!("{}:{about}", self.event),
            None => self.event.to_string(),
        }
    }
}
