//! Changes to what may run that come with an answer: rules, the mode, working directories.

use crate::{Keep, Mode};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One change to what may run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Update {
    /// Rules on one side change.
    Rules {
        /// How.
        change: Change,
        /// What the rules do.
        side: RuleSide,
        /// Rules as in settings.
        rules: Vec<String>,
        /// Which rules are meant, and how long it holds.
        keep: Keep,
    },
    /// The mode changes.
    Mode {
        /// The new mode.
        mode: Mode,
        /// Whether later sessions start in it too.
        keep: Keep,
    },
    /// Working directories come or go. The first one always stays.
    Directories {
        /// How; the first cannot be replaced either.
        change: Change,
        /// The folders.
        directories: Vec<PathBuf>,
        /// How long it holds.
        keep: Keep,
    },
}

/// How a list changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// These are added.
    Add,
    /// These stand for all that were there.
    Replace,
    /// These go.
    Remove,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuleSide {
    /// It lets calls run.
    Allow,
    /// It makes calls ask.
    Ask,
    /// It forbids calls.
    Deny,
}

impl RuleSide {
    /// Its name in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}
