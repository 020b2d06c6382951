//! Commands that run beside the conversation, as everybody sees them.

use crate::CallId;
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf};

/// One command in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its id, unique within the session.
    pub id: JobId,
    /// The call that started it.
    pub call: CallId,
    /// The command line.
    pub command: String,
    /// What it does, in a few words; the command itself when nobody said.
    pub description: String,
    /// How far it is.
    pub state: JobState,
    /// How long it has run.
    pub ran_for_ms: u64,
    /// Where all it prints is kept, if anywhere.
    pub output: Option<PathBuf>,
}

/// Names a [`Job`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub String);

/// How far a [`Job`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobState {
    /// It runs.
    Running,
    /// It ended by itself with this code; by a signal counts as 128 and its number.
    Exited(i32),
    /// Somebody stopped it.
    Stopped,
    /// It could not be followed to its end.
    Lost,
}

impl Job {
    /// What became of it, in a sentence.
    pub fn summary(&self) -> String {
        format!("Background command \"{}\" {}", self.description, self.state)
    }
}

impl JobState {
    /// Whether it is over.
    pub fn is_over(self) -> bool {
        self != Self::Running
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("is running"),
            Self::Exited(0) => f.write_str("completed (exit code 0)"),
            Self::Exited(code) => write!(f, "failed (exit code {code})"),
            Self::Stopped => f.write_str("was stopped"),
            Self::Lost => f.write_str("was lost sight of"),
        }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
