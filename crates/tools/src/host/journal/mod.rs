//! Changes to several files that happen all or not at all, also when the process is killed halfway.
//! What is about to be done is written down first, outside of any project; nothing that only
//! exists in a record is ever trusted: each file is checked by content before it is touched.
//!
//! A record goes through three phases, each the ending of its name. *Prepared*: new contents are
//! being written under temporary names, no file has changed. *Committed*: they are all on the disk
//! and take their places one by one. *Undone*: that failed, and they give the places back. A killed
//! process leaves its record behind, unlocked, and [`recover`] finishes what the phase says.
//!
//! A single file needs no such care, for one rename is all or nothing; only a note is left meanwhile,
//! so that a temporary file of a killed process is found. Notes are not synced: after a power cut such
//! a file may stay.

mod entry;
mod note;
mod recover;

pub use note::replace_one;
pub use recover::{Outcome, Recovered, recover, recover_watched};

use super::{
    HostError, Replacement, Version,
    file::{Staged, Watch},
};
use entry::Entry;
use rustix::{
    fs::{self, AtFlags, FlockOperation, Mode, OFlags},
    io::Errno,
    process::geteuid,
};
use serde::{Deserialize, Serialize};
use std::{
    os::{fd::OwnedFd, unix::fs::DirBuilderExt},
    path::{Path, PathBuf},
};

/// A journal of the user's own, for a host that was given none.
pub fn fallback() -> PathBuf {
    std::env::temp_dir().join(format!("ostler-journal-{}", geteuid().as_raw()))
}

/// Puts new contents in place of all these files, or of none. `watch` is told each step right
/// before it is taken.
pub fn replace_all(
    directory: &Path,
    replacements: &[Replacement],
    watch: &mut dyn FnMut(&'static str),
) -> Result<Vec<Version>, HostError> {
    if let [only] = replacements {
        return replace_one(directory, only, watch).map(|version| vec![version]);
    }
    let journal = Journal::open(directory)?;
    let record = Record { entries: replacements.iter().map(Entry::of).collect() };
    watch("write the record");
    let mut transaction = journal.begin(&record)?;
    match transaction.run(&record, replacements, watch) {
        Ok(versions) => {
            watch("remove the record");
            // Left behind, it says that everything is in place, which does no harm.
            let _ = transaction.end();
            Ok(versions)
        }
        Err(Failure { error, is_clean }) => {
            if is_clean {
                watch("remove the record");
                let _ = transaction.end();
            }
            Err(error)
        }
    }
}

/// What is about to happen to which files.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    entries: Vec<Entry>,
}

/// How far a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Prepared,
    Committed,
    Undone,
}

impl Phase {
    const ALL: [Self; 3] = [Self::Prepared, Self::Committed, Self::Undone];

    fn name(self) -> &'static str {
        match self {
            Self::Prepared => "prepared",
            Self::Committed => "committed",
            Self::Undone => "undone",
        }
    }
}

/// What a record must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lasting {
    /// The end of this process.
    Kill,
    /// The end of the machine, too.
    PowerCut,
}

/// A name for a record.
fn new_id() -> String {
    format!("{:016x}", fastrand::u64(..))
}

/// The folder of records.
struct Journal {
    directory: OwnedFd,
    path: PathBuf,
}

/// A record in the folder, locked for as long as somebody works on it.
struct Transaction<'a> {
    journal: &'a Journal,
    id: String,
    phase: Phase,
    _lock: OwnedFd,
}

struct Failure {
    error: HostError,
    /// Whether every file is as it was; otherwise the record is still needed.
    is_clean: bool,
}

impl Journal {
    /// Opens the folder, making it if need be; it must be private, for whoever can write there
    /// can have files restored.
    fn open(path: &Path) -> Result<Self, HostError> {
        let fail = |error| HostError::Io { action: "use the journal", path: path.to_owned(), error };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(fail)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = fs::openat(fs::CWD, path, flags, Mode::empty()).map_err(|e| fail(e.into()))?;
        let found = fs::fstat(&directory).map_err(|errno| fail(errno.into()))?;
        if found.st_uid != geteuid().as_raw() || found.st_mode & 0o077 != 0 {
            return Err(HostError::BadPath(format!("the journal {} is not private", path.display())));
        }
        Ok(Self { directory, path: path.to_owned() })
    }

    fn begin(&self, record: &Record) -> Result<Transaction<'_>, HostError> {
        let id = new_id();
        let phase = Phase::Prepared;
        let lock = self.leave(&format!("{id}.{}", phase.name()), record, Lasting::PowerCut)?;
        Ok(Transaction { journal: self, id, phase, _lock: lock })
    }

    /// Writes something down for whoever comes after this process; it is this process's own for as
    /// long as the lock is held.
    fn leave(&self, name: &str, what: &impl Serialize, lasting: Lasting) -> Result<OwnedFd, HostError> {
        let written = || -> Result<OwnedFd, Errno> {
            // Nobody recovers while a record is there but not locked yet.
            fs::flock(&self.directory, FlockOperation::LockExclusive)?;
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let lock = fs::openat(&self.directory, name, flags, Mode::from_raw_mode(0o600))?;
            fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            fs::flock(&self.directory, FlockOperation::Unlock)?;
            let bytes = serde_json::to_vec(what).map_err(|_| Errno::INVAL)?;
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let count = rustix::io::retry_on_intr(|| rustix::io::write(&lock, rest))?;
                rest = &rest[count..];
            }
            if lasting == Lasting::PowerCut {
                fs::fsync(&lock)?;
                fs::fsync(&self.directory)?;
            }
            Ok(lock)
        };
        written().map_err(|errno| {
            // The space for a record that is not whole is given back as far as possible.
            let _ = fs::unlinkat(&self.directory, name, AtFlags::empty());
            self.failed(errno)
        })
    }

    fn failed(&self, errno: Errno) -> HostError {
        HostError::Io { action: "use the journal", path: self.path.clone(), error: errno.into() }
    }
}

impl Transaction<'_> {
    fn run(
        &mut self,
        record: &Record,
        replacements: &[Replacement],
        watch: Watch<'_>,
    ) -> Result<Vec<Version>, Failure> {
        let clean = |error| Failure { error, is_clean: true };
        let mut staged = Vec::new();
        for (replacement, entry) in replacements.iter().zip(&record.entries) {
            staged.push(Staged::write(replacement, &entry.new, watch).map_err(clean)?);
        }
        // Most conflicts show here, before anything has to be undone.
        for staged in &mut staged {
            staged.verify().map_err(clean)?;
            watch("sync the directory");
            staged.sync().map_err(clean)?;
        }
        watch("commit");
        self.enter(Phase::Committed).map_err(clean)?;
        let placed = place_all(&mut staged, record, watch);
        match placed {
            Ok(versions) => {
                for (staged, entry) in staged.iter().zip(&record.entries) {
                    watch("remove the old");
                    entry.forget_old(&staged.place);
                }
                Ok(versions)
            }
            Err(error) => {
                let is_clean = self.undo(&staged, record, watch).is_ok();
                Err(Failure { error, is_clean })
            }
        }
    }

    fn undo(&mut self, staged: &[Staged<'_>], record: &Record, watch: Watch<'_>) -> Result<(), HostError> {
        watch("undo");
        self.enter(Phase::Undone)?;
        for (staged, entry) in staged.iter().zip(&record.entries).rev() {
            watch("restore");
            // Where somebody else has put something of theirs, it stays.
            entry.restore(&staged.place).map_err(|error| entry.failed(error))?;
            staged.sync()?;
        }
        Ok(())
    }

    fn enter(&mut self, phase: Phase) -> Result<(), HostError> {
        let directory = &self.journal.directory;
        fs::renameat(directory, self.file_name(), directory, format!("{}.{}", self.id, phase.name()))
            .and_then(|()| fs::fsync(directory))
            .map_err(|errno| self.journal.failed(errno))?;
        self.phase = phase;
        Ok(())
    }

    fn end(self) -> Result<(), Errno> {
        fs::unlinkat(&self.journal.directory, self.file_name(), AtFlags::empty())
    }

    fn file_name(&self) -> String {
        format!("{}.{}", self.id, self.phase.name())
    }
}

fn place_all(
    staged: &mut [Staged<'_>],
    record: &Record,
    watch: Watch<'_>,
) -> Result<Vec<Version>, HostError> {
    for (staged, entry) in staged.iter_mut().zip(&record.entries) {
        watch("verify");
        staged.verify()?;
        watch("keep the old");
        entry.keep_old(&staged.place).map_err(|error| entry.failed(error))?;
        staged.put(watch)?;
    }
    let mut versions = Vec::new();
    for staged in staged {
        watch("sync the directory");
        versions.push(staged.sync()?);
    }
    Ok(versions)
}
