//! One file of a record: what stood there, what is to stand there, and under which names both are
//! kept meanwhile. Every step looks first and may be taken twice.

use super::super::{
    Expected, Hash, HostError, Replacement,
    file::{hash_at, rename_to_free_name, temporary_name},
    walk::Place,
};
use rustix::{
    fs::{self, AtFlags},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::{OsStr, OsString},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

/// One file of a record.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    target: OsString,
    /// The temporary name of the new content, beside the target.
    pub(super) new: String,
    new_hash: String,
    /// What is replaced; nothing for a new file.
    old: Option<Old>,
    /// The directories that were missing, outermost first.
    missing: Vec<OsString>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Old {
    /// The temporary name it is kept under, beside the target.
    name: String,
    hash: String,
}

/// What stands at a name.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Old,
    New,
    Other,
}

impl Entry {
    pub(super) fn of(replacement: &Replacement) -> Self {
        let hex = |hash: Hash| hash.to_hex().to_string();
        let old = match &replacement.expected {
            Expected::Absent => None,
            Expected::Content(hash) | Expected::Text { hash, .. } => {
                Some(Old { name: temporary_name(), hash: hex(*hash) })
            }
        };
        Self {
            target: replacement.target.clone().into(),
            new: temporary_name(),
            new_hash: hex(replacement.content.hash()),
            old,
            missing: missing_directories(replacement),
        }
    }

    pub(super) fn target(&self) -> PathBuf {
        PathBuf::from(&self.target)
    }

    pub(super) fn failed(&self, error: io::Error) -> HostError {
        HostError::Io { action: "write", path: self.target(), error }
    }

    /// Keeps the old file under its temporary name until all is done.
    pub(super) fn keep_old(&self, place: &Place) -> io::Result<()> {
        let Some(old) = &self.old else { return Ok(()) };
        let Place { directory, name, .. } = place;
        match fs::linkat(directory, name, directory, &old.name, AtFlags::empty()) {
            // Where there are no hard links the place is empty for a moment.
            Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::NOSYS) => {
                Ok(fs::renameat(directory, name, directory, &old.name)?)
            }
            linked => Ok(linked?),
        }
    }

    pub(super) fn forget_old(&self, place: &Place) {
        if let Some(old) = &self.old {
            // A name that will not go is a leftover, not a failure.
            let _ = fs::unlinkat(&place.directory, &old.name, AtFlags::empty());
        }
    }

    /// Whether the new content is in place, or can still be put there without loss.
    pub(super) fn can_complete(&self, place: &Place) -> io::Result<bool> {
        let target = self.found(place, &place.name)?;
        let is_waiting = self.found(place, self.new.as_ref())? == Found::New;
        Ok(match (target, is_waiting) {
            (Found::New, _) => true,
            (Found::Old, waiting) => waiting,
            (Found::Nothing, waiting) => waiting && self.is_free(place)?,
            // Once it was in place, what others did with it later is theirs.
            (Found::Other, waiting) => !waiting,
        })
    }

    /// Puts the new content in place, if it is not there yet.
    pub(super) fn complete(&self, place: &Place) -> io::Result<()> {
        if self.found(place, self.new.as_ref())? != Found::New {
            return Ok(());
        }
        let Place { directory, name, .. } = place;
        match self.found(place, name)? {
            Found::Nothing => Ok(rename_to_free_name(directory, &self.new, name)?),
            Found::Old | Found::New => Ok(fs::renameat(directory, &self.new, directory, name)?),
            Found::Other => Err(ErrorKind::AlreadyExists.into()),
        }
    }

    /// Gives the place back to what stood there. Returns whether it could: what somebody else has
    /// put there since stays.
    pub(super) fn restore(&self, place: &Place) -> io::Result<bool> {
        let Place { directory, name, .. } = place;
        let target = self.found(place, name)?;
        let restored = match (&self.old, target) {
            (None, Found::New) => {
                fs::unlinkat(directory, name, AtFlags::empty())?;
                true
            }
            (None, target) => target == Found::Nothing,
            (Some(_), Found::Old) => true,
            (Some(old), Found::New | Found::Nothing) => {
                let is_kept = self.found(place, old.name.as_ref())? == Found::Old;
                if is_kept {
                    fs::renameat(directory, &old.name, directory, name)?;
                }
                is_kept
            }
            (Some(_), Found::Other) => false,
        };
        self.forget_old(place);
        Ok(restored)
    }

    /// Removes what a restored entry leaves: the new content and the directories made for it.
    pub(super) fn sweep(&self, place: &Place) {
        // What is gone already, or in use by somebody else, is no failure.
        let _ = fs::unlinkat(&place.directory, &self.new, AtFlags::empty());
        self.sweep_directories();
    }

    /// Removes the directories made for the file, as far as they are empty.
    pub(super) fn sweep_directories(&self) {
        sweep_directories(&self.missing);
    }

    /// Whether nothing stands there because nothing ever did, or because the old file was moved.
    fn is_free(&self, place: &Place) -> io::Result<bool> {
        match &self.old {
            None => Ok(true),
            Some(old) => Ok(self.found(place, old.name.as_ref())? == Found::Old),
        }
    }

    fn found(&self, place: &Place, name: &OsStr) -> io::Result<Found> {
        let hash = match hash_at(&place.directory, name) {
            Ok(hash) => hash.to_hex().to_string(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
            // A directory, a link: nothing of ours.
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(Found::Other),
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return Ok(Found::Other);
            }
            Err(error) => return Err(error),
        };
        Ok(match &self.old {
            _ if hash == self.new_hash => Found::New,
            Some(old) if hash == old.hash => Found::Old,
            Some(_) | None => Found::Other,
        })
    }
}

/// The directories that a replacement will make, outermost first.
pub(super) fn missing_directories(replacement: &Replacement) -> Vec<OsString> {
    let is_missing = |above: &&Path| above.symlink_metadata().is_err_and(|e| e.kind() == ErrorKind::NotFound);
    let mut missing: Vec<OsString> = match replacement.expected {
        Expected::Content(_) | Expected::Text { .. } => Vec::new(),
        Expected::Absent => {
            replacement.target.ancestors().skip(1).take_while(is_missing).map(OsString::from).collect()
        }
    };
    missing.reverse();
    missing
}

/// Removes directories, outermost first in the list, as far as they are empty.
pub(super) fn sweep_directories(directories: &[OsString]) {
    for directory in directories.iter().rev() {
        if let Ok(made) = Place::open(Path::new(directory)) {
            // One that somebody else uses by now stays.
            let _ = fs::unlinkat(&made.directory, &made.name, AtFlags::REMOVEDIR);
        }
    }
}
