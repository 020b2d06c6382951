//! Walks to directories by physical path and follows no link on the way: a resolved path holds
//! none, so one that is met has appeared since, and what was judged is no longer what is there.

use rustix::{
    fs::{self, AtFlags, Mode, OFlags},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    os::fd::OwnedFd,
    path::Path,
};

/// Enough to walk through a directory; reading its names is not needed.
#[cfg(target_os = "linux")]
const WALK: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const WALK: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens what stands at a physical path, following no link.
pub fn open_at_path(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    match straight(path, flags) {
        // An older kernel, or a filter that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {
            let place = Place::open(path)?;
            fs::openat(&place.directory, &place.name, flags | OFlags::NOFOLLOW, Mode::empty())
        }
        opened => opened,
    }
}

/// A name in a directory that is held open: whatever happens to the path, it stays the same place.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) directory: OwnedFd,
    pub(super) name: OsString,
    /// Directories that were made on the way, outermost first, each by what holds it.
    made: Vec<(OwnedFd, OsString)>,
}

impl Place {
    /// Walks to the directory of `target`.
    pub(super) fn open(target: &Path) -> Result<Self, Errno> {
        let name = target.file_name().unwrap_or(OsStr::new(".")).to_owned();
        let parent = target.parent().unwrap_or(Path::new("/"));
        let directory = match straight(parent, WALK) {
            Err(Errno::NOSYS | Errno::PERM) => step_by_step(parent),
            walked => walked,
        }?;
        Ok(Self { directory, name, made: Vec::new() })
    }

    /// As [`Place::open`], making the directories that are missing.
    pub(super) fn create(target: &Path) -> Result<Self, Errno> {
        match Self::open(target) {
            Err(Errno::NOENT) => {}
            opened => return opened,
        }
        let name = target.file_name().ok_or(Errno::ISDIR)?.to_owned();
        let mut place = Self { directory: root()?, name, made: Vec::new() };
        for step in target.parent().into_iter().flat_map(Path::iter).skip(1) {
            if let Err(errno) = place.enter(step) {
                place.unmake();
                return Err(errno);
            }
        }
        Ok(place)
    }

    fn enter(&mut self, step: &OsStr) -> Result<(), Errno> {
        let inner = match fs::openat(&self.directory, step, WALK, Mode::empty()) {
            Err(Errno::NOENT) => {
                let is_ours = match fs::mkdirat(&self.directory, step, Mode::from_raw_mode(0o777)) {
                    Ok(()) => true,
                    Err(Errno::EXIST) => false,
                    Err(errno) => return Err(errno),
                };
                let inner = fs::openat(&self.directory, step, WALK, Mode::empty())?;
                if is_ours {
                    self.made.push((self.directory.try_clone().map_err(|_| Errno::MFILE)?, step.to_owned()));
                }
                inner
            }
            opened => opened?,
        };
        self.directory = inner;
        Ok(())
    }

    /// Takes back the directories that were made, as far as they are still empty.
    pub(super) fn unmake(&mut self) {
        for (holder, name) in self.made.drain(..).rev() {
            // One that somebody else uses by now stays.
            let _ = fs::unlinkat(holder, name, AtFlags::REMOVEDIR);
        }
    }

    /// Makes the names in the directory, and those of the directories made for it, last.
    pub(super) fn sync(&self) -> Result<(), Errno> {
        sync_directory(&self.directory)?;
        self.made.iter().rev().try_for_each(|(holder, _)| sync_directory(holder))
    }
}

fn root() -> Result<OwnedFd, Errno> {
    fs::openat(fs::CWD, "/", WALK, Mode::empty())
}

#[cfg(target_os = "linux")]
fn straight(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = fs::ResolveFlags::NO_SYMLINKS | fs::ResolveFlags::NO_MAGICLINKS;
    fs::openat2(fs::CWD, path, flags, Mode::empty(), resolve)
}

#[cfg(not(target_os = "linux"))]
fn straight(_: &Path, _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

fn step_by_step(parent: &Path) -> Result<OwnedFd, Errno> {
    let mut directory = root()?;
    for step in parent.iter().skip(1) {
        directory = fs::openat(&directory, step, WALK, Mode::empty())?;
    }
    Ok(directory)
}

fn sync_directory(directory: &OwnedFd) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match fs::openat(directory, ".", flags, Mode::empty()) {
        Ok(readable) => match fs::fsync(&readable) {
            // Some file systems cannot sync a directory; the file itself is already safe.
            Ok(()) | Err(Errno::INVAL | Errno::BADF | Errno::NOTSUP) => Ok(()),
            Err(errno) => Err(errno),
        },
        // A directory one may write but not list.
        Err(Errno::ACCESS) => Ok(()),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn both_ways_of_walking_follow_no_link() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(dir.join("real/deep")).unwrap();
        symlink("real", dir.join("link")).unwrap();
        for walk in [|path: &Path| straight(path, WALK), step_by_step] {
            match walk(&dir.join("real/deep")) {
                // A kernel without the call is served by the other walk.
                Ok(_) | Err(Errno::NOSYS) => {}
                Err(errno) => panic!("{errno}"),
            }
            for linked in ["link", "link/deep"] {
                assert!(walk(&dir.join(linked)).is_err(), "{linked}");
            }
        }
    }

    #[test]
    fn directories_made_on_the_way_can_be_taken_back() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        std::fs::create_dir(dir.join("old")).unwrap();
        let mut place = Place::create(&dir.join("old/a/b/file")).unwrap();
        assert!(dir.join("old/a/b").is_dir());
        place.sync().unwrap();
        place.unmake();
        assert!(dir.join("old").is_dir() && !dir.join("old/a").exists());
    }
}
