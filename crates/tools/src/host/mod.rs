//! The machine as the tools see it: paths, files and processes behind one small trait.
//! This is the only place that opens files or starts programs; it never asks whether it may.

mod attributes;
mod capture;
mod file;
mod folder;
mod jobs;
pub mod journal;
mod lines;
mod local;
mod path;
pub mod process;
mod recording;
pub mod sandbox;
mod shell;
mod spool;
mod state;
mod walk;
mod warden;

pub use capture::Captured;
pub use file::is_temporary_name;
pub use jobs::{Jobs, News, Running, Start};
pub use lines::{Edited, Lines, Spot};
pub use local::Local;
pub use path::resolve;
pub use recording::{Kept, Recording};
pub use sandbox::{Backend, Bounds, Confinement, Network, Survey, Terms};
pub use shell::{Exit, Finished, Line, Shell};
pub use spool::{Room, Spooled};
pub use state::{FileState, Standing, Version};
pub use walk::open_at_path;
pub use warden::{PLACEHOLDER_MODE, StandIn, Warden, enter as enter_warden, enter_apart};

use crate::Progress;
use futures_util::future::BoxFuture;
use ostler_proto::{PathFact, ToolError};
use std::{
    io::Read,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

pub(crate) use file::open_regular;
pub(crate) use folder::{Entry, EntryKind, Folder, Lookout};

/// A content hash; equal hashes mean equal bytes.
pub type Hash = blake3::Hash;

/// The local machine, a sandbox, an editor, or a fake for tests.
///
/// Implementors owe: `resolve` and `stat` change nothing; `open` and `replace` take an already
/// resolved target, fail rather than follow a symbolic link that appeared since, touch regular
/// files only and never block on anything else; `replace` is all or nothing; dropping the future
/// of `run` kills the whole process group it started.
pub trait Host: Send + Sync {
    /// Follows a path as a model wrote it, relative to `base`, to where it really leads.
    fn resolve<'a>(&'a self, path: &'a str, base: &'a Path) -> BoxFuture<'a, Result<PathFact, HostError>>;

    /// Looks at a resolved path; `None` when nothing is there.
    fn stat<'a>(&'a self, target: &'a Path) -> BoxFuture<'a, Result<Option<Stat>, HostError>>;

    /// How to open a regular file for reading: see [`Opening`].
    fn open(&self, target: &Path) -> Opening;

    /// Puts a whole new content in a file's place, creating parent directories where needed. Gives
    /// what stands there then.
    fn replace(&self, replacement: Replacement) -> BoxFuture<'_, Result<Version, HostError>>;

    /// As [`Host::replace`] for several files: all of them or none, even if the process ends halfway.
    fn replace_all(&self, replacements: Vec<Replacement>) -> BoxFuture<'_, Result<Vec<Version>, HostError>>;

    /// Runs a command to its end, recording and showing output while it comes.
    /// Whether commands can be confined here; if not, why.
    fn can_confine(&self) -> BoxFuture<'_, Result<(), String>>;

    fn run(&self, shell: Shell, progress: Progress) -> BoxFuture<'_, Result<Finished, HostError>>;
}

/// What is known of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// What kind of thing it is.
    pub kind: Kind,
    /// Length in bytes.
    pub size: u64,
    /// When its content last changed.
    pub modified: SystemTime,
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Anything else, in words: `a named pipe`, `a socket`, …
    Special(&'static str),
}

/// Opens a file. It blocks, as reading does: call it in the blocking task that reads, so that both
/// take one way there and back.
pub type Opening = Box<dyn FnOnce() -> Result<Opened, HostError> + Send>;

/// A file open for reading. Reading it blocks: do so in a blocking task.
pub struct Opened {
    /// The very file that was opened.
    pub stat: Stat,
    /// Its bytes.
    pub reader: Box<dyn Read + Send>,
}

/// A whole new content for a file.
#[derive(Debug, Clone)]
pub struct Replacement {
    /// The resolved file.
    pub target: PathBuf,
    /// Its new content.
    pub content: Content,
    /// What must be there right before it is replaced.
    pub expected: Expected,
}

/// The new content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// All of it.
    Whole(Vec<u8>),
    /// A text with a part of it replaced: a small change of a long text need not copy the rest.
    Spliced {
        /// The text as it was.
        text: Arc<String>,
        /// The part that goes.
        part: Range<usize>,
        /// What comes instead.
        new: String,
    },
}

impl Content {
    /// The bytes, in the order in which they are written.
    pub fn slices(&self) -> [&[u8]; 3] {
        match self {
            Self::Whole(bytes) => [bytes, &[], &[]],
            Self::Spliced { text, part, new } => {
                let bytes = text.as_bytes();
                [&bytes[..part.start], new.as_bytes(), &bytes[part.end..]]
            }
        }
    }

    /// How many bytes they are.
    pub fn size(&self) -> usize {
        self.slices().iter().map(|slice| slice.len()).sum()
    }

    /// The hash of all of them.
    pub fn hash(&self) -> Hash {
        let mut hasher = blake3::Hasher::new();
        for slice in self.slices() {
            hasher.update(slice);
        }
        hasher.finalize()
    }
}

/// What a [`Replacement`] replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Nothing: the file is new.
    Absent,
    /// A file with exactly this content.
    Content(Hash),
    /// The same where the content is at hand: comparing is quicker than hashing.
    Text {
        /// Of the text.
        hash: Hash,
        /// All that is in the file.
        text: Arc<String>,
    },
}

/// Why the machine did not do it.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The text is no path.
    #[error("{0}")]
    BadPath(String),
    /// Nothing is there.
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    /// A directory stands where a file was wanted.
    #[error("{} is a directory, not a file", .0.display())]
    Directory(PathBuf),
    /// Something that is neither file nor directory.
    #[error("{} is {kind}, not a regular file", path.display())]
    Special {
        /// Where.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// More than was asked for.
    #[error("{} is too large: {size} bytes, at most {limit} are taken", path.display())]
    TooLarge {
        /// Where.
        path: PathBuf,
        /// How much there is.
        size: u64,
        /// How much is allowed.
        limit: u64,
    },
    /// A symbolic link stands where none stood when the path was followed.
    #[error("{} was swapped for a symbolic link while it was being used, so it was left alone; try again", .0.display())]
    Swapped(PathBuf),
    /// Somebody else changed it between looking and acting.
    #[error("{} changed on disk in the meantime, nothing was written; read it again", .0.display())]
    Changed(PathBuf),
    /// Nobody may write it.
    #[error("{} is read-only and was left alone; if it is to change, make it writable first", .0.display())]
    ReadOnly(PathBuf),
    /// It has other names, which a replacement would cut off.
    #[error(
        "{} has {links} hard links, and replacing it would cut it off from the others, so it was left alone; a command \
         can write to all of them, or cut this one off first",
        path.display()
    )]
    Linked {
        /// Where.
        path: PathBuf,
        /// How many names it has.
        links: u64,
    },
    /// A replacement would belong to somebody else.
    #[error("{} belongs to another owner, which a replacement could not keep; nothing was written", .0.display())]
    Owner(PathBuf),
    /// The operating system refused.
    #[error("cannot {action} {}: {}", path.display(), plainly(error))]
    Io {
        /// What was tried: `read`, `write`, …
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
}

impl From<HostError> for ToolError {
    fn from(error: HostError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// What the system said, as we say things: in lower case and without its number.
fn plainly(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error ").next().unwrap_or_default();
    let mut characters = text.chars();
    characters.next().into_iter().flat_map(char::to_lowercase).chain(characters).collect()
}

/// Reads a whole regular file, refusing one that is longer than `limit` bytes.
pub async fn read_whole(host: &dyn Host, target: &Path, limit: u64) -> Result<(Stat, Vec<u8>), HostError> {
    let (opening, path) = (host.open(target), target.to_owned());
    blocking(move || read_opened(opening()?, path, limit)).await
}

/// As [`read_whole`] on this very machine, for a resolved path. It blocks.
pub fn read_here(target: &Path, limit: u64) -> Result<(Stat, Vec<u8>), HostError> {
    read_opened(file::open(target)?, target.to_owned(), limit)
}

/// As [`read_whole`] for a file that is open already. It blocks.
pub(crate) fn read_opened(opened: Opened, path: PathBuf, limit: u64) -> Result<(Stat, Vec<u8>), HostError> {
    let Opened { stat, reader } = opened;
    if stat.size > limit {
        return Err(HostError::TooLarge { path, size: stat.size, limit });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stat.size).unwrap_or_default());
    // The file may grow while it is read; one byte past the limit is enough to know.
    match reader.take(limit.saturating_add(1)).read_to_end(&mut bytes) {
        Ok(size) if size as u64 > limit => Err(HostError::TooLarge { path, size: size as u64, limit }),
        Ok(_) => Ok((stat, bytes)),
        Err(error) => Err(HostError::Io { action: "read", path, error }),
    }
}

/// Runs work that may block on a thread of its own and hands its panic on.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only a runtime that is shutting down cancels a blocking task; nobody polls us again.
            Err(_) => std::future::pending().await,
        },
    }
}
