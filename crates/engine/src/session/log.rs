//! The transcript file: append only, one writer. A line is in the kernel's hands before anybody is
//! told of it, so it survives the process; a turn's end also waits for the disk.
#![expect(clippy::disallowed_types, reason = "the home of the transcript file")]

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Where a session is written.
pub struct Log(Target);

enum Target {
    /// Nowhere: the session lives in memory only.
    Nowhere,
    /// A file that is opened with the first line.
    Later(PathBuf),
    Open {
        path: PathBuf,
        file: File,
        /// The file ends within a line, so the next one must begin on its own.
        torn: bool,
    },
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
    #[error("the session {} is open in another process; wait for it to end, or start a new session", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
}

impl Log {
    /// A log that keeps nothing.
    pub fn nowhere() -> Self {
        Self(Target::Nowhere)
    }

    /// A log at this path; nothing is created before the first line.
    pub fn at(path: PathBuf) -> Self {
        Self(Target::Later(path))
    }

    /// Where it is.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Target::Nowhere => None,
            Target::Later(path) | Target::Open { path, .. } => Some(path),
        }
    }

    /// Appends one line, given without its newline.
    pub fn append(&mut self, line: &str) -> Result<(), LogError> {
        if let Target::Later(path) = &self.0 {
            self.0 = open(path)?;
        }
        let Target::Open { path, file, torn } = &mut self.0 else { return Ok(()) };
        let mut bytes = Vec::with_capacity(line.len() + 2);
        if *torn {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        match file.write_all(&bytes) {
            Ok(()) => {
                *torn = false;
                Ok(())
            }
            Err(error) => {
                *torn = true;
                Err(LogError::Io { path: path.clone(), error })
            }
        }
    }

    /// Waits until everything appended is on the disk.
    pub fn sync(&mut self) -> Result<(), LogError> {
        let Target::Open { path, file, .. } = &self.0 else { return Ok(()) };
        file.sync_data().map_err(|error| LogError::Io { path: path.clone(), error })
    }
}

fn open(path: &Path) -> Result<Target, LogError> {
    let failed = |error| LogError::Io { path: path.to_path_buf(), error };
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    }
    let mut file =
        OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(LogError::Locked { path: path.to_path_buf() }),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let torn = ends_within_a_line(&mut file).map_err(failed)?;
    Ok(Target::Open { path: path.to_path_buf(), file, torn })
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
