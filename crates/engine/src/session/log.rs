//! The transcript file: append only, one writer. A line is in the kernel's hands before anybody is
//! told of it, so it survives the process; how long the disk is waited for is the user's choice.
#![expect(clippy::disallowed_types, reason = "the home of the transcript file")]

use super::{
    fork::Fork,
    holder::{Holder, Note},
    labels::{Found, READERS_TAIL},
};
use ostler_proto::{SessionId, settings::Fsync};
use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// How often a lock is asked for until somebody who lives is known to have it.
const LOOKS: usize = 60;
/// How long it is waited between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Where a session is written.
pub struct Log {
    target: Target,
    fsync: Fsync,
}

enum Target {
    /// Nowhere: the session lives in memory only.
    Nowhere,
    /// Nowhere, though it speaks of this path: what would be written is only compared.
    Pretended { path: PathBuf },
    /// A file that is opened with the first line.
    Later { path: PathBuf, birth: Birth },
    /// A file, and the right to write it.
    Open(Open),
}

/// How a session's file comes about.
enum Birth {
    /// With its first line; nobody else may have made it.
    New,
    /// It is there.
    There,
    /// As a copy.
    Copy(Box<Fork>),
}

/// The right to write a session's file, while this lives.
pub(super) struct Held {
    /// Tells others who has it. Fields go in their order, and this must go before the lock does.
    _note: Option<Note>,
    /// The file, at its beginning; what is written goes to its end.
    pub(super) file: File,
}

struct Open {
    path: PathBuf,
    held: Held,
    /// The file ends within a line, so the next one must begin on its own.
    torn: bool,
    /// The file's length when it was opened.
    from: u64,
    /// Whether anything was appended since.
    wrote: bool,
    /// Whether anything was that the disk was not waited for.
    unsynced: bool,
}

/// Why a session could not be written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be opened or written.
    #[error("cannot write the session log {}: {error}; nothing more was run (free the disk or fix the permissions, then --resume, or use --no-session-persistence)", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another process has the session open.
    #[error("the session {} is open in another process{}; wait for it to end, or go on in a copy with --fork-session", path.display(), told(holder.as_ref()))]
    Locked {
        /// The file.
        path: PathBuf,
        /// Who has it, if it said so.
        holder: Option<Holder>,
    },
    /// A session that was to be new has been begun by somebody else.
    #[error("the session {} exists already: another process has just begun it; go on with it by --resume, or choose another --session-id", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
}

impl Log {
    /// A log that keeps nothing.
    pub fn nowhere() -> Self {
        Self { target: Target::Nowhere, fsync: Fsync::Off }
    }

    /// A log of a new session at this path; nothing is created before the first line.
    pub fn at(path: PathBuf) -> Self {
        Self { target: Target::Later { path, birth: Birth::New }, fsync: Fsync::default() }
    }

    /// A log of a session that is there; it is opened with the first line.
    pub fn of(path: PathBuf) -> Self {
        Self { target: Target::Later { path, birth: Birth::There }, fsync: Fsync::default() }
    }

    /// A log of a session that is there, which from now on nobody else can write.
    pub fn held(path: &Path) -> Result<Self, LogError> {
        Ok(Self { target: Target::Open(Open::new(path, &Birth::There)?), fsync: Fsync::default() })
    }

    /// A log that begins as a copy; it is made with the first line.
    pub fn forked(path: PathBuf, fork: Fork) -> Self {
        Self { target: Target::Later { path, birth: Birth::Copy(Box::new(fork)) }, fsync: Fsync::default() }
    }

    /// A log that writes nothing and gives itself out for the one at this path.
    pub(crate) fn pretended(path: PathBuf) -> Self {
        Self { target: Target::Pretended { path }, fsync: Fsync::Off }
    }

    /// How long the file was when it was opened, once it is.
    pub fn began_at(&self) -> Option<u64> {
        match &self.target {
            Target::Open(open) => Some(open.from),
            Target::Nowhere | Target::Pretended { .. } | Target::Later { .. } => None,
        }
    }

    /// The same log, with another say about the disk.
    #[must_use]
    pub fn with_fsync(self, fsync: Fsync) -> Self {
        Self { fsync, ..self }
    }

    /// A log for another session beside this one.
    #[must_use]
    pub fn beside(&self, id: &SessionId) -> Self {
        let beside = |path: &Path| path.with_file_name(format!("{id}.jsonl"));
        let target = match &self.target {
            Target::Nowhere => Target::Nowhere,
            Target::Pretended { path } => Target::Pretended { path: beside(path) },
            Target::Later { path, .. } | Target::Open(Open { path, .. }) => {
                Target::Later { path: beside(path), birth: Birth::New }
            }
        };
        Self { target, fsync: self.fsync }
    }

    /// Where it is.
    pub fn path(&self) -> Option<&Path> {
        match &self.target {
            Target::Nowhere => None,
            Target::Pretended { path } | Target::Later { path, .. } | Target::Open(Open { path, .. }) => {
                Some(path)
            }
        }
    }

    /// Takes the file for this process now, and not with the first line.
    pub fn open(&mut self) -> Result<(), LogError> {
        if let Target::Later { path, birth } = &self.target {
            self.target = Target::Open(Open::new(path, birth)?);
        }
        Ok(())
    }

    /// Appends one line, given without its newline.
    pub fn append(&mut self, line: &str) -> Result<(), LogError> {
        self.open()?;
        let Target::Open(open) = &mut self.target else { return Ok(()) };
        open.append(line)?;
        match self.fsync {
            Fsync::Strict => self.wait_for_disk(),
            Fsync::Turn | Fsync::Off => Ok(()),
        }
    }

    /// A turn is over: waits until everything appended is on the disk, if that is wanted.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.check_presence()?;
        match self.fsync {
            Fsync::Turn | Fsync::Strict => self.wait_for_disk(),
            Fsync::Off => Ok(()),
        }
    }

    /// Labels that were written since we opened the file, by whomever, and where its readers' tail begins. None
    /// where we wrote nothing: what we only looked at stays as it is.
    pub(super) fn labels(&self) -> Result<Option<(Found, u64)>, LogError> {
        let Target::Open(Open { path, from, wrote: true, .. }) = &self.target else { return Ok(None) };
        let look = || {
            let mut file = File::open(path)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(*from))?;
            Ok((Found::look(*from, file)?, length.saturating_sub(READERS_TAIL)))
        };
        look().map(Some).map_err(|error| LogError::Io { path: path.clone(), error })
    }

    /// What is written to a file that somebody removed would be lost without a word.
    fn check_presence(&self) -> Result<(), LogError> {
        let Target::Open(Open { path, held, .. }) = &self.target else { return Ok(()) };
        let checked = held.file.metadata().and_then(|metadata| match metadata.nlink() {
            0 => Err(io::Error::other("it was removed while the session ran")),
            _ => Ok(()),
        });
        checked.map_err(|error| LogError::Io { path: path.clone(), error })
    }

    fn wait_for_disk(&mut self) -> Result<(), LogError> {
        let Target::Open(Open { path, held, unsynced, .. }) = &mut self.target else { return Ok(()) };
        if *unsynced {
            held.file.sync_data().map_err(|error| LogError::Io { path: path.clone(), error })?;
            *unsynced = false;
        }
        Ok(())
    }
}

impl Open {
    fn new(path: &Path, birth: &Birth) -> Result<Self, LogError> {
        let failed = |error| LogError::Io { path: path.to_path_buf(), error };
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        let mut held = match birth {
            Birth::New => Held::begin(path)?,
            Birth::There => Held::of(path)?,
            Birth::Copy(fork) => {
                fork.write(path).map_err(|error| not_begun(path, error))?;
                Held::of(path)?
            }
        };
        let torn = ends_within_a_line(&mut held.file).map_err(failed)?;
        let from = held.file.metadata().map_err(failed)?.len();
        Ok(Self { path: path.to_path_buf(), held, torn, from, wrote: false, unsynced: false })
    }

    fn append(&mut self, line: &str) -> Result<(), LogError> {
        let mut bytes = Vec::with_capacity(line.len() + 2);
        if self.torn {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        let written = self.held.file.write_all(&bytes);
        self.torn = written.is_err();
        (self.wrote, self.unsynced) = (true, true);
        written.map_err(|error| LogError::Io { path: self.path.clone(), error })
    }
}

impl Held {
    /// Takes a session that is there.
    pub(super) fn of(path: &Path) -> Result<Self, LogError> {
        let failed = |error| LogError::Io { path: path.to_path_buf(), error };
        loop {
            let file = OpenOptions::new().append(true).read(true).open(path).map_err(failed)?;
            lock(&file, path)?;
            // Whoever held it when it was opened may have removed it, or put a mended one in its place.
            if is_at(&file, path).map_err(failed)? {
                return Ok(Self { _note: Note::leave(path), file });
            }
        }
    }

    /// Takes a session that nobody has begun.
    fn begin(path: &Path) -> Result<Self, LogError> {
        let mut options = OpenOptions::new();
        let options = options.create_new(true).append(true).read(true).mode(0o600);
        let file = options.open(path).map_err(|error| not_begun(path, error))?;
        lock(&file, path)?;
        Ok(Self { _note: Note::leave(path), file })
    }
}

/// A lock whose holder's note is missing or is that of a dead process has just been taken, or is about to be let
/// go: which of the two shows in a moment.
fn lock(file: &File, path: &Path) -> Result<(), LogError> {
    for look in 1.. {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => return Err(LogError::Io { path: path.to_path_buf(), error }),
            Err(TryLockError::WouldBlock) => {}
        }
        let holder = Holder::of(path);
        // Processes of another container cannot be looked at from here, so this is no reason to wait for ever.
        if look == LOOKS || holder.as_ref().is_some_and(Holder::is_there) {
            return Err(LogError::Locked { path: path.to_path_buf(), holder });
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn not_begun(path: &Path, error: io::Error) -> LogError {
    let path = path.to_path_buf();
    if error.kind() == io::ErrorKind::AlreadyExists {
        LogError::Exists { path }
    } else {
        LogError::Io { path, error }
    }
}

/// Whether a path still leads to an open file.
pub(super) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (ours, there) = (file.metadata()?, path.metadata()?);
    Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino()))
}

fn told(holder: Option<&Holder>) -> String {
    holder.map(|holder| format!(" ({holder})")).unwrap_or_default()
}

fn ends_within_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last[0] != b'\n')
}
