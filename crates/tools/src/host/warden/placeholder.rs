//! Folders that stand for protected names which do not exist, while a command runs that must not
//! make them: a mount needs something to be put over. An empty folder is invisible to git, cannot be
//! taken for a configuration, and `rmdir` can never remove anything of value.

use super::{PLACEHOLDER_MODE as MODE, named};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use std::{
    fs::Metadata,
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

/// How often one is made anew when another warden removes it at that moment.
const TRIES: usize = 20;

/// A placeholder in use. All who use one hold a shared lock on it; the last one removes it.
pub(super) struct Placeholder {
    path: PathBuf,
    lock: OwnedFd,
}

/// Whether this is a placeholder, in use or left behind.
pub(super) fn is_placeholder(path: &Path, metadata: &Metadata) -> bool {
    metadata.is_dir()
        && metadata.permissions().mode() & 0o7777 == MODE
        && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

impl Placeholder {
    /// Puts one there, or shares the one that is. `None` when this process cannot make it, and
    /// then neither can the command, which has fewer rights.
    pub(super) fn put(path: &Path) -> io::Result<Option<Self>> {
        for _ in 0..TRIES {
            match std::fs::DirBuilder::new().mode(MODE).create(path) {
                Ok(()) => std::fs::set_permissions(path, PermissionsExt::from_mode(MODE))
                    .map_err(|error| named("mark", path, &error))?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if is_out_of_reach(&error) => return Ok(None),
                Err(error) => return Err(named("protect", path, &error)),
            }
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let Ok(lock) = open(path, flags, Mode::empty()) else { continue };
            flock(&lock, FlockOperation::LockShared)?;
            let placeholder = Self { path: path.to_owned(), lock };
            if placeholder.is_in_place() {
                return Ok(Some(placeholder));
            }
        }
        Err(named("protect", path, &io::Error::other("something else keeps taking its place")))
    }

    fn is_in_place(&self) -> bool {
        let (Ok(held), Ok(found)) = (fstat(&self.lock), self.path.symlink_metadata()) else { return false };
        (held.st_dev, held.st_ino) == (found.dev(), found.ino())
    }
}

impl Drop for Placeholder {
    /// Removes it, unless another warden still needs it.
    fn drop(&mut self) {
        if flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok() && self.is_in_place() {
            // With something in it, it is no placeholder any more.
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
