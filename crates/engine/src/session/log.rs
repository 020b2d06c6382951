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
};

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
    Later { path: PathBuf, fork: Option<Box<Fork>> },
    /// A file, and the right to write it.
    Open(Open),
}

struct Open {
    /// Tells others who has it. Fields go in their order, and this must go before the lock does.
    _note: Option<Note>,
    path: PathBuf,
    file: File,
    /// The file ends within a line, so the next one must begin on its own.
    torn: bool,
    /// The file's length when it was opened.
    from: u64,
    /// Whether anything was appended since.
    wrote: bool,
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
}

impl Log {
    /// A log that keeps nothing.
    pub fn nowhere() -> Self {
        Self { target: Target::Nowhere, fsync: Fsync::Off }
    }

    /// A log at this path; nothing is created before the first line.
    pub fn at(path: PathBuf) -> Self {
        Self { target: Target::Later { path, fork: None }, fsync: Fsync::default() }
    }

    /// A log of a session that is there, which from now on nobody else can write.
    pub fn held(path: &Path) -> Result<Self, LogError> {
        Ok(Self { target: Target::Open(Open::new(path, None)?), fsync: Fsync::default() })
    }

    /// A log that begins as a copy; it is made with the first line.
    pub fn forked(path: PathBuf, fork: Fork) -> Self {
        Self { target: Target::Later { path, fork: Some(Box::new(fork)) }, fsync: Fsync::default() }
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
                Target::Later { path: beside(path), fork: None }
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
        if let Target::Later { path, fork } = &self.target {
            self.target = Target::Open(Open::new(path, fork.as_deref())?);
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
        let Target::Open(Open { path, file, .. }) = &self.target else { return Ok(()) };
        let checked = file.metadata().and_then(|metadata| match metadata.nlink() {
            0 => Err(io::Error::other("it was removed while the session ran")),
            _ => Ok(()),
        });
        checked.map_err(|error| LogError::Io { path: path.clone(), error })
    }

    fn wait_for_disk(&self) -> Result<(), LogError> {
        let Target::Open(Open { path, file, .. }) = &self.target else { return Ok(()) };
        file.sync_data().map_err(|error| LogError::Io { path: path.clone(), error })
    }
}

impl Open {
    fn new(path: &Path, fork: Option<&Fork>) -> Result<Self, LogError> {
        let failed = |error| LogError::Io { path: path.to_path_buf(), error };
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        if let Some(fork) = fork {
            fork.write(path).map_err(failed)?;
        }
        let mut file = lock(path)?;
        let torn = ends_within_a_line(&mut file).map_err(failed)?;
        let from = file.metadata().map_err(failed)?.len();
        Ok(Self { _note: Note::leave(path), path: path.to_path_buf(), file, torn, from, wrote: false })
    }

    fn append(&mut self, line: &str) -> Result<(), LogError> {
        let mut bytes = Vec::with_capacity(line.len() + 2);
        if self.torn {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        let written = self.file.write_all(&bytes);
        self.torn = written.is_err();
        self.wrote = true;
        written.map_err(|error| LogError::Io { path: self.path.clone(), error })
    }
}

/// Opens a transcript for its one writer.
pub(super) fn lock(path: &Path) -> Result<File, LogError> {
    let failed = |error| LogError::Io { path: path.to_path_buf(), error };
    let file =
        OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(LogError::Locked { path: path.to_path_buf(), holder: Holder::of(path) })
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
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
