//! What a call would do, as data: shown to the user, judged by control, scheduled by the
//! executor, recorded in the transcript. Building one touches nothing.

use crate::Matter;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A call's purpose before it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// One line for people, e.g. `Edit src/main.rs`.
    pub title: String,
    /// What the call would touch.
    pub access: Access,
    /// What an approval prompt should show beside the title.
    pub preview: Preview,
}

/// What a call would touch with this input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Only the agent's own state, such as its todo list.
    Internal,
    /// Reads files or trees and changes nothing.
    Read {
        /// Files, or roots of trees.
        paths: Vec<PathFact>,
    },
    /// Creates or changes exactly these files.
    Write {
        /// The files.
        paths: Vec<PathFact>,
    },
    /// Runs a command line.
    Execute {
        /// The command line as the shell will get it.
        command: String,
        /// Where it would start.
        cwd: PathBuf,
        /// What it would touch, once somebody has read it.
        #[serde(default)]
        footprint: Footprint,
    },
    /// Talks to a host.
    Network {
        /// The address.
        url: String,
    },
    /// Calls a tool of an MCP server.
    Mcp {
        /// The server's configured name.
        server: String,
        /// The server's own name of the tool.
        tool: String,
        /// What the server claims; a hint for display and overlap, never for permission.
        read_only: bool,
    },
    /// Starts another agent.
    Agent {
        /// The kind of agent.
        kind: String,
    },
    /// Puts something to the user and takes their word for it.
    Consult(Matter),
}

/// The longest text that a question shows; what is longer is not shown whole.
pub const MOST_SHOWN_LINES: usize = 100;
/// The same in characters.
pub const MOST_SHOWN_CHARACTERS: usize = 8_000;

/// What a command line touches, as far as that is known before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Files and roots of trees it reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<PathFact>,
    /// Files and roots of trees it makes, changes or removes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<PathFact>,
    /// Whether it may talk to other machines.
    pub network: bool,
    /// Whether it may touch more than what is listed.
    pub open: bool,
}

/// One path as it was asked for and as the file system resolves it, computed once per call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathFact {
    /// Absolute path as written: `~` and the base directory applied, links not followed.
    pub requested: PathBuf,
    /// Each symbolic link met on the way, as the absolute path it stood for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<PathBuf>,
    /// Where the path really leads; for a new file, its deepest existing parent is resolved.
    pub target: PathBuf,
    /// Whether the target exists.
    pub exists: bool,
}

/// What an approval prompt shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preview {
    /// The title says it all.
    None,
    /// Plain text, such as a full command.
    Text(String),
    /// A unified diff.
    Diff(String),
}

impl Access {
    /// Whether running the call could change anything outside the agent.
    pub fn has_effect(&self) -> bool {
        match self {
            Self::Internal | Self::Read { .. } => false,
            Self::Mcp { read_only, .. } => !read_only,
            Self::Execute { footprint, .. } => {
                footprint.open || footprint.network || !footprint.writes.is_empty()
            }
            // What the user said must not be asked a second time.
            Self::Write { .. } | Self::Network { .. } | Self::Agent { .. } | Self::Consult(_) => true,
        }
    }

    /// Whether two calls must keep their order and never run at the same time.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        match (self, other) {
            // State such as the todo list is replaced whole, and the table of background commands is
            // filled by commands; so order matters. And what the user says decides about what follows.
            (Self::Internal, Self::Internal | Self::Execute { .. })
            | (Self::Execute { .. }, Self::Internal)
            | (Self::Consult(_), _)
            | (_, Self::Consult(_)) => true,
            (a, b) if a.is_open() || b.is_open() => true,
            (a, b) => {
                let ((reads, writes), (other_reads, other_writes)) = (a.touched(), b.touched());
                any_overlap(writes, other_writes)
                    || any_overlap(writes, other_reads)
                    || any_overlap(reads, other_writes)
            }
        }
    }

    /// Whether it may touch anything at all.
    fn is_open(&self) -> bool {
        match self {
            Self::Execute { footprint, .. } => footprint.open,
            Self::Mcp { read_only, .. } => !read_only,
            Self::Internal
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::Network { .. }
            | Self::Agent { .. }
            | Self::Consult(_) => false,
        }
    }

    /// The paths read and the paths written.
    fn touched(&self) -> (&[PathFact], &[PathFact]) {
        match self {
            Self::Read { paths } => (paths, &[]),
            Self::Write { paths } => (&[], paths),
            Self::Execute { footprint, .. } => (&footprint.reads, &footprint.writes),
            Self::Internal
            | Self::Network { .. }
            | Self::Mcp { .. }
            | Self::Agent { .. }
            | Self::Consult(_) => (&[], &[]),
        }
    }

    /// The paths named, if the access is about files.
    pub fn paths(&self) -> &[PathFact] {
        match self {
            Self::Read { paths } | Self::Write { paths } => paths,
            Self::Internal
            | Self::Execute { .. }
            | Self::Network { .. }
            | Self::Mcp { .. }
            | Self::Agent { .. }
            | Self::Consult(_) => &[],
        }
    }
}

impl Intent {
    /// What somebody who is asked must have read: the command, the change, the plan.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let preview = match &self.preview {
            Preview::None => None,
            Preview::Text(text) | Preview::Diff(text) => Some(text.as_str()),
        };
        let command = match &self.access {
            Access::Execute { command, .. } => Some(command.as_str()).filter(|text| Some(*text) != preview),
            Access::Internal
            | Access::Read { .. }
            | Access::Write { .. }
            | Access::Network { .. }
            | Access::Mcp { .. }
            | Access::Agent { .. }
            | Access::Consult(_) => None,
        };
        preview.into_iter().chain(command)
    }

    /// Whether a question can show all of it. What nobody saw whole is allowed once at most.
    pub fn can_be_shown_whole(&self) -> bool {
        let fits = |text: &str| {
            text.lines().count() <= MOST_SHOWN_LINES && text.chars().count() <= MOST_SHOWN_CHARACTERS
        };
        self.texts().all(fits)
    }
}

impl Default for Footprint {
    /// That of a command nobody has read.
    fn default() -> Self {
        Self { reads: Vec::new(), writes: Vec::new(), network: true, open: true }
    }
}

impl PathFact {
    /// Every spelling a rule must be tried on: as written, each hop, the target.
    pub fn spellings(&self) -> impl Iterator<Item = &Path> {
        [self.requested.as_path(), self.target.as_path()]
            .into_iter()
            .chain(self.hops.iter().map(PathBuf::as_path))
    }
}

fn any_overlap(a: &[PathFact], b: &[PathFact]) -> bool {
    // A tree root overlaps everything below it.
    a.iter().any(|a| b.iter().any(|b| a.target.starts_with(&b.target) || b.target.starts_with(&a.target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(path: &str) -> PathFact {
        PathFact { requested: path.into(), hops: vec![], target: path.into(), exists: true }
    }
    fn read(path: &str) -> Access {
        Access::Read { paths: vec![fact(path)] }
    }
    fn write(path: &str) -> Access {
        Access::Write { paths: vec![fact(path)] }
    }

    #[test]
    fn calls_conflict_when_one_writes_what_the_other_touches() {
        assert!(!read("/a").conflicts_with(&read("/a")));
        assert!(write("/a").conflicts_with(&read("/a")));
        assert!(read("/").conflicts_with(&write("/a/b")), "a tree read covers the file written in it");
        assert!(!write("/a").conflicts_with(&write("/ab")), "components, not string prefixes");
        let run = |footprint| Access::Execute { command: "x".into(), cwd: "/".into(), footprint };
        let unread = run(Footprint::default());
        assert!(unread.conflicts_with(&read("/a")) && Access::Internal.conflicts_with(&unread));
        let writes =
            |path| run(Footprint { reads: vec![], writes: vec![fact(path)], network: false, open: false });
        assert!(!writes("/a").conflicts_with(&writes("/b")));
        assert!(writes("/a").conflicts_with(&read("/")) && read("/a/b").conflicts_with(&writes("/a")));
    }
}
