//! Finishes what killed processes began: forward where all new contents are on the disk, back
//! where they are not. It may be killed itself, any number of times.

use super::{
    super::{HostError, file::Watch, walk::Place},
    Entry, Journal, Phase, Record, Transaction, note,
};
use rustix::{
    fs::{self, AtFlags, Dir, FlockOperation, Mode, OFlags},
    io::Errno,
};
use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

/// A change to several files that had been cut off.
#[derive(Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The files.
    pub files: Vec<PathBuf>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a change that had been cut off.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every file has its new content.
    Completed,
    /// Every file has its old content, save for these, which somebody else has changed since.
    Undone {
        /// Files left as they are.
        left: Vec<PathBuf>,
    },
    /// It could not be finished; the next start tries again.
    Stuck {
        /// What stood against it.
        reason: String,
    },
}

/// Finishes what was cut off. To be called once at the start, before any file is touched; changes
/// that another process is busy with are left to it.
pub fn recover(directory: &Path) -> Result<Vec<Recovered>, HostError> {
    recover_watched(directory, &mut |_| {})
}

/// As [`recover`]; `watch` is told each step right before it is taken.
pub fn recover_watched(
    directory: &Path,
    watch: &mut dyn FnMut(&'static str),
) -> Result<Vec<Recovered>, HostError> {
    if directory.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(Vec::new());
    }
    let journal = Journal::open(directory)?;
    let fail = |errno| journal.failed(errno);
    fs::flock(&journal.directory, FlockOperation::LockExclusive).map_err(fail)?;
    let mut recovered = note::sweep(&journal, watch).map_err(fail)?;
    for (id, phase) in abandoned(&journal).map_err(fail)? {
        let Some((mut transaction, record)) = take_over(&journal, id, phase).map_err(fail)? else { continue };
        let files = record.entries.iter().map(Entry::target).collect();
        let outcome = match transaction.finish(&record, watch) {
            Ok(outcome) => {
                watch("remove the record");
                // It comes back at the next start and finds everything done.
                let _ = transaction.end();
                outcome
            }
            Err(error) => Outcome::Stuck { reason: error.to_string() },
        };
        recovered.push(Recovered { files, outcome });
    }
    Ok(recovered)
}

/// The names of all that was left in the journal, in a stable order.
pub(super) fn names(journal: &Journal) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(&journal.directory)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn abandoned(journal: &Journal) -> Result<Vec<(String, Phase)>, Errno> {
    let phase = |ending: &str| Phase::ALL.into_iter().find(|phase| phase.name() == ending);
    let names = names(journal)?.into_iter().filter_map(|name| {
        let (id, ending) = name.split_once('.')?;
        Some((id.to_owned(), phase(ending)?))
    });
    Ok(names.collect())
}

/// Locks and reads a record. One that is in use, or was never whole, gives nothing.
fn take_over(
    journal: &Journal,
    id: String,
    phase: Phase,
) -> Result<Option<(Transaction<'_>, Record)>, Errno> {
    let name = format!("{id}.{}", phase.name());
    let Some((lock, bytes)) = locked(journal, &name)? else { return Ok(None) };
    match serde_json::from_slice(&bytes) {
        Ok(record) => Ok(Some((Transaction { journal, id, phase, _lock: lock }, record))),
        // Nothing is done before the record is whole, so nothing is to be undone.
        Err(_) => fs::unlinkat(&journal.directory, &name, AtFlags::empty()).map(|()| None),
    }
}

/// Locks and reads what was left under a name. What is in use, or gone by now, gives nothing.
pub(super) fn locked(journal: &Journal, name: &str) -> Result<Option<(OwnedFd, Vec<u8>)>, Errno> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let lock = match fs::openat(&journal.directory, name, flags, Mode::empty()) {
        Ok(lock) => lock,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    match fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(errno) => return Err(errno),
    }
    // Its owner may have gone on to another phase before it let go.
    match fs::statat(&journal.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if found.st_ino == fs::fstat(&lock)?.st_ino => {}
        Ok(_) | Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno),
    }
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match rustix::io::retry_on_intr(|| rustix::io::read(&lock, &mut chunk))? {
            0 => return Ok(Some((lock, bytes))),
            count => bytes.extend_from_slice(&chunk[..count]),
        }
    }
}

impl Transaction<'_> {
    fn finish(&mut self, record: &Record, watch: Watch<'_>) -> Result<Outcome, HostError> {
        let mut reachable = Vec::new();
        let mut unreachable = Vec::new();
        for entry in &record.entries {
            match Place::open(&entry.target()) {
                Ok(place) => reachable.push((entry, place)),
                // The directory is gone, or a link stands in the way: there is nothing of ours.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => unreachable.push(entry),
                Err(errno) => return Err(entry.failed(errno.into())),
            }
        }
        let mut forward = self.phase == Phase::Committed && unreachable.is_empty();
        for (entry, place) in &reachable {
            forward = forward && entry.can_complete(place).map_err(|error| entry.failed(error))?;
        }
        if forward {
            return complete(&reachable, watch);
        }
        if self.phase == Phase::Committed {
            watch("undo");
            self.enter(Phase::Undone)?;
        }
        self.undo_recorded(&reachable, &unreachable, watch)
    }

    fn undo_recorded(
        &self,
        reachable: &[(&Entry, Place)],
        unreachable: &[&Entry],
        watch: Watch<'_>,
    ) -> Result<Outcome, HostError> {
        let mut left = Vec::new();
        for (entry, place) in reachable.iter().rev() {
            watch("restore");
            // While only prepared, no file has changed, whatever it holds now.
            let restored = entry.restore(place).map_err(|error| entry.failed(error))?;
            if !restored && self.phase != Phase::Prepared {
                left.push(entry.target());
            }
            watch("sweep");
            entry.sweep(place);
            place.sync().or_else(gone).map_err(|errno| entry.failed(errno.into()))?;
        }
        for entry in unreachable {
            entry.sweep_directories();
        }
        Ok(Outcome::Undone { left })
    }
}

fn complete(entries: &[(&Entry, Place)], watch: Watch<'_>) -> Result<Outcome, HostError> {
    for (entry, place) in entries {
        watch("complete");
        entry.complete(place).map_err(|error| entry.failed(error))?;
    }
    for (entry, place) in entries {
        place.sync().map_err(|errno| entry.failed(errno.into()))?;
        watch("remove the old");
        entry.forget_old(place);
    }
    Ok(Outcome::Completed)
}

/// A directory that was swept away needs no sync.
fn gone(errno: Errno) -> Result<(), Errno> {
    if errno == Errno::NOENT { Ok(()) } else { Err(errno) }
}
