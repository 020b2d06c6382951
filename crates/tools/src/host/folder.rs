//! Folders by exact path, held open: what is listed and looked at in one is in that very folder, even
//! if the path leads elsewhere by now. No link is followed on the way to it.

use super::{HostError, file::failed, walk::open_at_path};
use rustix::{
    fs::{self, AtFlags, Dir, FileType, OFlags},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    os::{fd::OwnedFd, unix::ffi::OsStringExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// A folder that is held open.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    handle: OwnedFd,
}

/// A name in a folder and what it stands for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: EntryKind,
}

/// What a name stands for, as far as the listing tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Folder,
    /// A symbolic link, with its text.
    Link(PathBuf),
    Special,
}

impl Folder {
    /// Opens a folder, following no link.
    pub(crate) fn open(path: &Path) -> Result<Self, HostError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = open_at_path(path, flags).map_err(|errno| failed("list", path, errno))?;
        Ok(Self { path: path.to_owned(), handle })
    }

    /// What is in it, at most so many, in no order.
    pub(crate) fn list(&self, most: usize) -> Result<Vec<Entry>, HostError> {
        let fail = |errno: Errno| failed("list", &self.path, errno);
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.handle).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name == "." || name == ".." {
                continue;
            }
            if entries.len() == most {
                break;
            }
            let kind = self.kind(&name, entry.file_type());
            entries.push(Entry { name, kind });
        }
        Ok(entries)
    }

    /// What stands at a name, which is not followed, and when it last changed; nothing where it is gone.
    pub(crate) fn look(&self, name: &OsStr) -> Option<(EntryKind, SystemTime)> {
        let found = fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let modified = u64::try_from(found.st_mtime).ok().zip(u32::try_from(found.st_mtime_nsec).ok());
        // What is older than time itself, or newer than it can be, sorts last.
        let since = modified.map_or(Duration::ZERO, |(seconds, nanos)| Duration::new(seconds, nanos));
        let modified = SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH);
        Some((self.kind(name, FileType::from_raw_mode(found.st_mode)), modified))
    }

    fn kind(&self, name: &OsStr, file_type: FileType) -> EntryKind {
        match file_type {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Folder,
            FileType::Symlink => {
                // A link that cannot be read shows no end.
                let end = fs::readlinkat(&self.handle, name, Vec::new()).map(std::ffi::CString::into_bytes);
                EntryKind::Link(OsString::from_vec(end.unwrap_or_default()).into())
            }
            // Some file systems do not tell in the listing.
            FileType::Unknown => self.look(name).map_or(EntryKind::Special, |(kind, _)| kind),
            FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice => {
                EntryKind::Special
            }
        }
    }
}

/// The folder last looked into: walks mostly stay in one for a while.
#[derive(Debug, Default)]
pub(crate) struct Lookout(Option<Folder>);

impl Lookout {
    /// What stands at a path that was met in a walk, and when it last changed; nothing where it is gone
    /// or where a link is on the way.
    pub(crate) fn look(&mut self, path: &Path) -> Option<(EntryKind, SystemTime)> {
        let (folder, name) = (path.parent()?, path.file_name()?);
        if self.0.as_ref().is_none_or(|held| held.path != folder) {
            self.0 = Folder::open(folder).ok();
        }
        self.0.as_ref()?.look(name)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set the scene on the disk")]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_listed_is_what_is_there() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        std::fs::create_dir(dir.join("folder")).unwrap();
        std::fs::create_dir(dir.join("other")).unwrap();
        std::fs::write(dir.join("folder/file"), "").unwrap();
        symlink("no/where", dir.join("folder/link")).unwrap();
        symlink("folder", dir.join("alias")).unwrap();
        let folder = Folder::open(&dir.join("folder")).unwrap();
        let mut listed = folder.list(9).unwrap();
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        let entry = |name: &str, kind| Entry { name: name.into(), kind };
        let link = EntryKind::Link("no/where".into());
        assert_eq!(listed, [entry("file", EntryKind::File), entry("link", link.clone())]);
        assert_eq!(folder.list(1).unwrap().len(), 1);
        assert!(Folder::open(&dir.join("alias")).is_err() && Folder::open(&dir.join("folder/file")).is_err());
        assert!(matches!(Folder::open(&dir.join("missing")), Err(HostError::Missing(_))));
        // Where the path leads to something else by now, the folder is still the one it was.
        std::fs::rename(dir.join("folder"), dir.join("moved")).unwrap();
        std::fs::rename(dir.join("other"), dir.join("folder")).unwrap();
        assert_eq!(folder.look(OsStr::new("link")).map(|(kind, _)| kind), Some(link));
        assert_eq!(folder.look(OsStr::new("nothing")), None);
        let mut lookout = Lookout::default();
        assert!(lookout.look(&dir.join("moved/file")).is_some());
        assert_eq!(lookout.look(&dir.join("alias/file")), None, "a link is on the way");
    }
}
