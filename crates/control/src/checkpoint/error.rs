//! Why a checkpoint could not be made, found or restored. Callers branch on it; people read it.

use ostler_proto::SessionId;
use std::{io, path::PathBuf};

/// Why a checkpoint could not be made, found or restored.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The operating system refused.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The disk, or the store's own quota, is full. What was stored before is still there.
    #[error(
        "there is no room for checkpoints in {}: the disk or the store's quota is full; \
         free the disk or run `ostler checkpoints prune`", .0.display()
    )]
    NoSpace(PathBuf),
    /// There is no room in the project for what is to be restored. Nothing was changed.
    #[error("there is no room to restore {}: the disk is full, nothing was changed", .0.display())]
    NoRoom(PathBuf),
    /// The store cannot be read.
    #[error(
        "the checkpoint store {} is damaged: {problem}; \
         `ostler checkpoints reset` sets it aside and begins a new one", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        problem: String,
    },
    /// Somebody else has been using the store for very long.
    #[error("the checkpoint store {} is in use by another process; try again", .0.display())]
    Busy(PathBuf),
    /// The store was made by a later version.
    #[error("the checkpoint store {} was made by a later version of Ostler", .0.display())]
    Later(PathBuf),
    /// What stands there cannot be read, so it could not be brought back.
    #[error("cannot read {}: what is lost there could not be brought back", .0.display())]
    Unreadable(PathBuf),
    /// A look at the project was broken off for something more urgent.
    #[error("the look at the project was broken off")]
    BrokenOff,
    /// There is no such checkpoint.
    #[error("no file checkpoint found for this message")]
    NotFound,
    /// There is no rewind to take back.
    #[error("there is no rewind to undo in session {0}")]
    NothingToUndo(SessionId),
    /// A call that may change files is still running.
    #[error("session {0} is running a call that may change files; wait until it ends, or stop it")]
    Running(SessionId),
}
