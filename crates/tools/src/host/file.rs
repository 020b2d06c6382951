//! Regular files by exact path. A resolved path holds no links, so every step from the root is
//! opened without following any: what was judged is what is touched, or nothing is.
#![expect(clippy::disallowed_types, reason = "this module is where files are opened")]

use super::{Expected, Hash, HostError, Kind, Opened, Replacement, Stat};
use rustix::{
    fs::{self, Access, AtFlags, Mode, OFlags},
    io::Errno,
};
use std::{
    ffi::OsStr,
    fs::{File, Metadata},
    io::{ErrorKind, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Enough to walk through a directory; reading its names is not needed.
#[cfg(target_os = "linux")]
const WALK: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const WALK: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

pub(super) fn stat(target: &Path) -> Result<Option<Stat>, HostError> {
    match std::fs::symlink_metadata(target) {
        Ok(metadata) => Ok(Some(plain(&metadata))),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(io_failed("look at", target, error)),
    }
}

pub(super) fn open(target: &Path) -> Result<Opened, HostError> {
    refuse_kernel_files(target)?;
    let (parent, name) = open_parent(target).map_err(|errno| failed("read", target, errno))?;
    let (file, stat) = open_in(&parent, name, target)?;
    Ok(Opened { stat, reader: Box::new(file) })
}

/// Opens a file met while walking a tree. Only the last step must not be a link: the walk itself
/// follows none.
pub(crate) fn open_regular(path: &Path) -> Result<impl Read + Send + use<>, HostError> {
    open_in(&fs::CWD, path.as_os_str(), path).map(|(file, _)| file)
}

pub(super) fn replace(replacement: &Replacement) -> Result<Stat, HostError> {
    let Replacement { target, bytes, expected } = replacement;
    let fail = |errno: Errno| failed("write", target, errno);
    refuse_kernel_files(target)?;
    let (parent, name) = match expected {
        Expected::Absent => create_parent(target).map_err(fail)?,
        Expected::Content(_) => open_parent(target).map_err(fail)?,
    };
    let before = check_expected(&parent, name, replacement)?;
    let temporary = Temporary::create(&parent, before.as_ref()).map_err(fail)?;
    (&temporary.file).write_all(bytes).map_err(|error| io_failed("write", target, error))?;
    if let Some(before) = &before {
        // Only root may give a file away; elsewhere the owner already is the one who writes.
        let _ = fs::fchown(
            &temporary.file,
            Some(fs::Uid::from_raw(before.uid())),
            Some(fs::Gid::from_raw(before.gid())),
        );
        // After the change of owner, which clears the set-id bits.
        fs::fchmod(&temporary.file, Mode::from_raw_mode(before.mode())).map_err(fail)?;
    }
    fs::fsync(&temporary.file).map_err(fail)?;
    // Writing took time: look again, as close to the rename as can be.
    check_expected(&parent, name, replacement)?;
    let after = temporary.file.metadata().map_err(|error| io_failed("write", target, error))?;
    temporary.take_the_place_of(name, *expected).map_err(|errno| match errno {
        Errno::EXIST => HostError::Changed(target.clone()),
        other => fail(other),
    })?;
    sync_directory(&parent).map_err(fail)?;
    Ok(plain(&after))
}

/// Checks that what is there is what was expected, and returns its raw metadata.
fn check_expected(
    parent: &OwnedFd,
    name: &OsStr,
    replacement: &Replacement,
) -> Result<Option<Metadata>, HostError> {
    let target = &replacement.target;
    let wanted = match replacement.expected {
        Expected::Absent => {
            return match fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => Ok(None),
                Ok(_) => Err(HostError::Changed(target.clone())),
                Err(errno) => Err(failed("write", target, errno)),
            };
        }
        Expected::Content(hash) => hash,
    };
    let (mut file, _) = open_in(parent, name, target)?;
    // A rename needs no permission on the file itself, but a read-only file asks to be left alone.
    fs::accessat(parent, name, Access::WRITE_OK, AtFlags::EACCESS)
        .map_err(|errno| failed("write", target, errno))?;
    let found = hash_of(&mut file).map_err(|error| io_failed("read", target, error))?;
    if found != wanted {
        return Err(HostError::Changed(target.clone()));
    }
    file.metadata().map(Some).map_err(|error| io_failed("read", target, error))
}

fn hash_of(reader: &mut impl Read) -> std::io::Result<Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(reader)?;
    Ok(hasher.finalize())
}

/// A new file that is not yet in its place; dropping it removes it.
struct Temporary<'a> {
    parent: &'a OwnedFd,
    name: String,
    file: File,
    placed: bool,
}

impl<'a> Temporary<'a> {
    fn create(parent: &'a OwnedFd, before: Option<&Metadata>) -> Result<Self, Errno> {
        // A new file gets what the umask leaves; a copy stays private until it has its mode.
        let mode = Mode::from_raw_mode(if before.is_some() { 0o600 } else { 0o666 });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let name = format!(".ostler-{:016x}", fastrand::u64(..));
            match fs::openat(parent, name.as_str(), flags, mode) {
                Ok(fd) => return Ok(Self { parent, name, file: File::from(fd), placed: false }),
                Err(Errno::EXIST | Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    fn take_the_place_of(mut self, name: &OsStr, expected: Expected) -> Result<(), Errno> {
        match expected {
            // A hard link, unlike a rename, never replaces; the temporary name goes on drop.
            Expected::Absent => {
                match fs::linkat(self.parent, &self.name, self.parent, name, AtFlags::empty()) {
                    // Some file systems have no hard links.
                    Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::NOSYS) => {}
                    linked => return linked,
                }
            }
            Expected::Content(_) => {}
        }
        fs::renameat(self.parent, &self.name, self.parent, name)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.placed {
            // Nothing more can be done about a file that will not go.
            let _ = fs::unlinkat(self.parent, &self.name, AtFlags::empty());
        }
    }
}

/// Opens a file if it is a regular one. `O_NONBLOCK` keeps a pipe without a writer from blocking.
fn open_in(parent: &impl AsFd, name: &OsStr, path: &Path) -> Result<(File, Stat), HostError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = match fs::openat(parent, name, flags, Mode::empty()) {
        Ok(fd) => fd,
        // A socket, or a device without a driver.
        Err(Errno::NXIO) => {
            return Err(HostError::Special { path: path.to_owned(), kind: "a socket or device" });
        }
        Err(errno) => return Err(failed("read", path, errno)),
    };
    let file = File::from(fd);
    let stat = plain(&file.metadata().map_err(|error| io_failed("read", path, error))?);
    match stat.kind {
        Kind::File => Ok((file, stat)),
        Kind::Directory => Err(HostError::Directory(path.to_owned())),
        Kind::Special(kind) => Err(HostError::Special { path: path.to_owned(), kind }),
    }
}

fn root() -> Result<OwnedFd, Errno> {
    fs::openat(fs::CWD, "/", WALK, Mode::empty())
}

/// Walks to the directory of `target`, following no link.
fn open_parent(target: &Path) -> Result<(OwnedFd, &OsStr), Errno> {
    let mut directory = root()?;
    let Some(name) = target.file_name() else { return Ok((directory, OsStr::new("."))) };
    for step in target.parent().into_iter().flat_map(Path::iter).skip(1) {
        directory = fs::openat(&directory, step, WALK, Mode::empty())?;
    }
    Ok((directory, name))
}

/// As [`open_parent`], making the directories that are missing.
fn create_parent(target: &Path) -> Result<(OwnedFd, &OsStr), Errno> {
    let name = target.file_name().ok_or(Errno::ISDIR)?;
    let mut directory = root()?;
    for step in target.parent().into_iter().flat_map(Path::iter).skip(1) {
        directory = match fs::openat(&directory, step, WALK, Mode::empty()) {
            Err(Errno::NOENT) => {
                match fs::mkdirat(&directory, step, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
                fs::openat(&directory, step, WALK, Mode::empty())?
            }
            opened => opened?,
        };
    }
    Ok((directory, name))
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

/// Files of the kernel look regular but are not: their size is a lie and reading can have effects.
fn refuse_kernel_files(target: &Path) -> Result<(), HostError> {
    if ["/proc", "/sys"].iter().any(|tree| target.starts_with(tree)) {
        return Err(HostError::Special { path: target.to_owned(), kind: "a file of the kernel" });
    }
    Ok(())
}

fn plain(metadata: &Metadata) -> Stat {
    let file_type = metadata.file_type();
    let kind = if file_type.is_file() {
        Kind::File
    } else if file_type.is_dir() {
        Kind::Directory
    } else if file_type.is_symlink() {
        Kind::Special("a symbolic link")
    } else if file_type.is_fifo() {
        Kind::Special("a named pipe")
    } else if file_type.is_socket() {
        Kind::Special("a socket")
    } else {
        Kind::Special("a device")
    };
    // A file system without times makes every file equally old.
    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Stat { kind, size: metadata.len(), modified }
}

fn failed(action: &'static str, path: &Path, errno: Errno) -> HostError {
    let path = PathBuf::from(path);
    match errno {
        Errno::NOENT => HostError::Missing(path),
        Errno::ISDIR => HostError::Directory(path),
        // The path was free of links when it was resolved.
        Errno::LOOP => HostError::Changed(path),
        other => HostError::Io { action, path, error: other.into() },
    }
}

fn io_failed(action: &'static str, path: &Path, error: std::io::Error) -> HostError {
    HostError::Io { action, path: path.to_owned(), error }
}
