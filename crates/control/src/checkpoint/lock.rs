//! Locks between processes, given back by the kernel when a process ends, however it ends.

use super::{CheckpointError, store::private_folder};
use ostler_proto::SessionId;
use rustix::{
    fs::{self, FlockOperation, Mode, OFlags},
    io::Errno,
};
use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// A lock that is held until it is dropped.
pub(super) struct Lock {
    _file: OwnedFd,
}

/// How long children of a process that died may take to be gone; their wardens give up sooner.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often they are looked for.
const PAUSE: Duration = Duration::from_millis(2);

/// Says that a session lives, for as long as the lock is held. `None` when another process says so.
pub(super) fn live(folder: &Path, session: &SessionId) -> Result<Option<Lock>, CheckpointError> {
    private_folder(&folder.join("live"))?;
    // Whoever only asks has the lock for a moment, in which nobody else may ask or say so.
    let _alone = take(folder.join("live.lock"), FlockOperation::LockExclusive)?;
    take(live_file(folder, session), FlockOperation::NonBlockingLockExclusive)
}

/// Whether some process says that a session lives.
pub(super) fn is_live(folder: &Path, session: &SessionId) -> Result<bool, CheckpointError> {
    private_folder(&folder.join("live"))?;
    let _alone = take(folder.join("live.lock"), FlockOperation::LockExclusive)?;
    Ok(take(live_file(folder, session), FlockOperation::NonBlockingLockExclusive)?.is_none())
}

/// The file that is locked as long as anything lives that calls of a session started.
pub(super) fn hold_file(folder: &Path, session: &SessionId) -> PathBuf {
    live_file(folder, session).with_extension("calls")
}

/// Waits until nothing lives any more that calls of a session started, whose process has died.
pub(super) fn await_calls(folder: &Path, session: &SessionId) -> Result<(), CheckpointError> {
    let began = Instant::now();
    let file = hold_file(folder, session);
    while take(file.clone(), FlockOperation::NonBlockingLockExclusive)?.is_none() {
        if began.elapsed() > PATIENCE {
            tracing::warn!(%session, "something that a call started does not end");
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Held while files are put back; waits for others who do.
pub(super) fn restoring(folder: &Path) -> Result<Lock, CheckpointError> {
    let waited = take(folder.join("restore.lock"), FlockOperation::LockExclusive)?;
    waited.ok_or_else(|| CheckpointError::Busy(folder.to_owned()))
}

/// As [`restoring`], but gives up at once when another process holds it.
pub(super) fn try_restoring(folder: &Path) -> Result<Option<Lock>, CheckpointError> {
    take(folder.join("restore.lock"), FlockOperation::NonBlockingLockExclusive)
}

/// Held while a tree is looked at, so that no half restored one is seen.
pub(super) fn looking(folder: &Path) -> Result<Lock, CheckpointError> {
    let waited = take(folder.join("restore.lock"), FlockOperation::LockShared)?;
    waited.ok_or_else(|| CheckpointError::Busy(folder.to_owned()))
}

/// An id may hold anything, so a file is named by its hash.
fn live_file(folder: &Path, session: &SessionId) -> PathBuf {
    folder.join("live").join(blake3::hash(session.as_str().as_bytes()).to_hex().as_str())
}

fn take(path: PathBuf, operation: FlockOperation) -> Result<Option<Lock>, CheckpointError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let taken = fs::openat(fs::CWD, &path, flags, Mode::from_raw_mode(0o600)).and_then(|file| {
        rustix::io::retry_on_intr(|| fs::flock(&file, operation))?;
        Ok(Lock { _file: file })
    });
    match taken {
        Ok(lock) => Ok(Some(lock)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(CheckpointError::Io { action: "lock", path, error: errno.into() }),
    }
}
