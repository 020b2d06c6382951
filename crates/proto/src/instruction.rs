//! Standing instructions as the log keeps them: whose words they are, why they were read, and what the model was
//! given of them. Plain data; finding and reading the files belongs to control.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One file of instructions as the model reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruction {
    /// The file, as it was found.
    pub path: PathBuf,
    /// Whose words they are.
    pub scope: InstructionScope,
    /// Why they were read.
    pub reason: LoadReason,
    /// Patterns of the files it is about; none for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub globs: Vec<String>,
    /// The file that was touched and made it count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<PathBuf>,
    /// The file that imports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<PathBuf>,
    /// Tells its words from others, however they are shown.
    pub hash: String,
    /// About what it costs.
    pub tokens: u64,
    /// Header and words, byte for byte as they are sent.
    pub text: String,
}

/// Whose words instructions are, the weightiest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstructionScope {
    /// The machine's owner.
    Managed,
    /// The user, for all projects.
    User,
    /// The project, for everybody.
    Project,
    /// The user, for this project.
    Local,
    /// Notes that earlier sessions kept.
    Memory,
}

/// Why instructions were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadReason {
    /// They hold for the whole session.
    SessionStart,
    /// A file below their folder was touched.
    NestedTraversal,
    /// A file that their patterns name was touched.
    PathGlobMatch,
    /// Another file imports them.
    Include,
}

/// What the model is told of instructions at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InstructionRecord {
    /// What they are and how far they reach.
    pub lead: String,
    /// The files, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Instruction>,
    /// Files told of before that no longer count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<PathBuf>,
    /// What else there is to know, such as files that were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl InstructionScope {
    /// The name hooks know it by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Managed => "Managed",
            Self::User => "User",
            Self::Project => "Project",
            Self::Local => "Local",
            Self::Memory => "Memory",
        }
    }
}

impl LoadReason {
    /// The name hooks know it by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "session_start",
            Self::NestedTraversal => "nested_traversal",
            Self::PathGlobMatch => "path_glob_match",
            Self::Include => "include",
        }
    }
}

impl InstructionRecord {
    /// The text the model reads: only what is recorded, so that it is the same for ever.
    pub fn text(&self) -> String {
        let files = self.files.iter().map(|file| file.text.as_str());
        let parts: Vec<&str> = std::iter::once(self.lead.as_str())
            .chain(files)
            .chain(self.notes.iter().map(String::as_str))
            .collect();
        format!("<system-reminder>\n{}\n</system-reminder>", parts.join("\n\n"))
    }
}
