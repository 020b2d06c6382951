//! Regular files by exact path. A resolved path holds no links, so none is followed: what was
//! judged is what is touched, or nothing is. A content is replaced whole or not at all.
#![expect(clippy::disallowed_types, reason = "this module is where files are opened")]

use super::{
    Content, Expected, Hash, HostError, Kind, Opened, Replacement, Stat, Version,
    attributes::{self, Lost},
    walk::{Place, open_at_path},
};
use rustix::{
    fs::{self, Access, AtFlags, Mode, OFlags},
    io::Errno,
};
use std::{
    ffi::OsStr,
    fs::{File, Metadata},
    io::{Read, Write},
    os::{
        fd::OwnedFd,
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Told the name of each step right before it is taken, so that a test can end the process there.
pub(super) type Watch<'a> = &'a mut dyn FnMut(&'static str);

/// `O_NONBLOCK` keeps a pipe without a writer from blocking.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);
const CREATE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

pub(super) fn stat(target: &Path) -> Result<Option<Stat>, HostError> {
    let found = Place::open(target).and_then(|place| found_at(&place.directory, &place.name));
    match found {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(failed("look at", target, errno)),
    }
}

pub(super) fn open(target: &Path) -> Result<Opened, HostError> {
    refuse_kernel_files(target)?;
    // To open a device is to use it, so it is looked at first; the look is repeated on what is opened.
    let seen = open_at_path(target, LOOK).map_err(|errno| failed("read", target, errno))?;
    let seen = File::from(seen).metadata().map_err(|error| io_failed("read", target, error))?;
    only_regular(plain(&seen), target)?;
    let (file, stat) = regular(open_at_path(target, READ).map(File::from), target)?;
    Ok(Opened { stat, reader: Box::new(file) })
}

/// Opens a file met while walking a tree from a resolved path: there was no link on the way, so
/// there must be none now.
pub(crate) fn open_regular(path: &Path) -> Result<(impl Read + Send + use<>, Stat), HostError> {
    regular(open_at_path(path, READ).map(File::from), path)
}

/// Puts a new content in place of one file's; until then it stands beside it under a temporary name.
pub(super) fn replace(
    replacement: &Replacement,
    temporary: &str,
    watch: Watch<'_>,
) -> Result<Version, HostError> {
    let mut staged = Staged::write(replacement, temporary, watch)?;
    watch("verify");
    staged.verify()?;
    staged.put(watch)?;
    watch("sync the directory");
    staged.sync()
}

/// A name that no file of anybody has.
pub(super) fn temporary_name() -> String {
    format!(".ostler-{:016x}", fastrand::u64(..))
}

/// Whether a name is one of those, which stand in a project only while a file is being replaced.
pub fn is_temporary_name(name: &std::ffi::OsStr) -> bool {
    let digits = name.as_encoded_bytes().strip_prefix(b".ostler-");
    digits.is_some_and(|digits| digits.len() == 16 && digits.iter().all(u8::is_ascii_hexdigit))
}

/// A new content, safe on the disk beside the file whose place it is to take. Dropping it before
/// that leaves no trace.
pub(super) struct Staged<'a> {
    replacement: &'a Replacement,
    pub(super) place: Place,
    temporary: String,
    file: File,
    hash: Hash,
    /// What the new file got its owner, mode and attributes from.
    model: Option<Metadata>,
    is_in_place: bool,
}

impl<'a> Staged<'a> {
    /// Writes the new content under a temporary name.
    pub(super) fn write(
        replacement: &'a Replacement,
        temporary: &str,
        watch: Watch<'_>,
    ) -> Result<Self, HostError> {
        let Replacement { target, content, expected } = replacement;
        let fail = |errno: Errno| failed("write", target, errno);
        refuse_kernel_files(target)?;
        watch("open the directory");
        let mut place = match expected {
            Expected::Absent => Place::create(target),
            Expected::Content(_) | Expected::Text { .. } => Place::open(target),
        }
        .map_err(fail)?;
        watch("create");
        let old = match expected {
            Expected::Absent => None,
            Expected::Content(_) | Expected::Text { .. } => Some(writable(&place, target)?),
        };
        // A new file gets what the umask leaves; a copy stays private until it has its mode.
        let mode = Mode::from_raw_mode(if old.is_some() { 0o600 } else { 0o666 });
        let created = fs::openat(&place.directory, temporary, CREATE, mode);
        let file = File::from(created.inspect_err(|_| place.unmake()).map_err(fail)?);
        let temporary = temporary.to_owned();
        let mut staged = Self {
            replacement,
            place,
            temporary,
            file,
            hash: Hash::from_bytes([0; 32]),
            model: None,
            is_in_place: false,
        };
        watch("write");
        for slice in content.slices() {
            (&staged.file).write_all(slice).map_err(|error| io_failed("write", target, error))?;
        }
        if let Some((old, metadata)) = old {
            watch("copy the attributes");
            staged.look_like(&old, metadata)?;
        }
        watch("sync the file");
        staged.hash = sync_and_hash(&staged.file, content).map_err(fail)?;
        Ok(staged)
    }

    fn look_like(&mut self, old: &File, metadata: Metadata) -> Result<(), HostError> {
        let target = &self.replacement.target;
        let made = self.file.metadata().map_err(|error| io_failed("write", target, error))?;
        attributes::copy(old, &metadata, &self.file, &made).map_err(|lost| match lost {
            Lost::Owner => HostError::Owner(target.clone()),
            Lost::Io(errno) => failed("write", target, errno),
        })?;
        self.model = Some(metadata);
        Ok(())
    }

    /// Makes sure that what is about to be replaced is what was expected. Writing took time, so
    /// this comes as close to [`Staged::put`] as can be.
    pub(super) fn verify(&mut self) -> Result<(), HostError> {
        let target = &self.replacement.target;
        if self.replacement.expected == Expected::Absent {
            return match found_at(&self.place.directory, &self.place.name) {
                Err(Errno::NOENT) => Ok(()),
                Ok(_) => Err(HostError::Changed(target.clone())),
                Err(errno) => Err(failed("write", target, errno)),
            };
        }
        let (mut old, metadata) = writable(&self.place, target)?;
        let is_same = match &self.replacement.expected {
            Expected::Absent => Ok(false),
            Expected::Content(hash) => hash_of(&mut old).map(|found| found == *hash),
            Expected::Text { text, .. } => holds(&mut old, text.as_bytes()),
        };
        if !is_same.map_err(|error| io_failed("read", target, error))? {
            return Err(HostError::Changed(target.clone()));
        }
        let identity = |m: &Metadata| (m.dev(), m.ino(), m.ctime(), m.ctime_nsec());
        // The same bytes may stand in another file by now, or have got another mode.
        if self.model.as_ref().map(identity) != Some(identity(&metadata)) {
            self.look_like(&old, metadata)?;
        }
        Ok(())
    }

    /// Takes the file's place.
    pub(super) fn put(&mut self, watch: Watch<'_>) -> Result<(), HostError> {
        let target = &self.replacement.target;
        let Place { directory, name, .. } = &self.place;
        watch("rename");
        match self.replacement.expected {
            Expected::Absent => rename_to_free_name(directory, &self.temporary, name),
            Expected::Content(_) | Expected::Text { .. } => {
                fs::renameat(directory, &self.temporary, directory, name)
            }
        }
        .map_err(|errno| match errno {
            Errno::EXIST => HostError::Changed(target.clone()),
            other => failed("write", target, other),
        })?;
        self.is_in_place = true;
        Ok(())
    }

    /// Makes the names last, and says what the new file is.
    pub(super) fn sync(&self) -> Result<Version, HostError> {
        let target = &self.replacement.target;
        self.place.sync().map_err(|errno| failed("write", target, errno))?;
        let after = self.file.metadata().map_err(|error| io_failed("write", target, error))?;
        let Stat { size, modified, .. } = plain(&after);
        Ok(Version { hash: self.hash, size, modified })
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if !self.is_in_place {
            // Nothing more can be done about a file that will not go.
            let _ = fs::unlinkat(&self.place.directory, &self.temporary, AtFlags::empty());
            self.place.unmake();
        }
    }
}

/// Renames without ever replacing.
pub(super) fn rename_to_free_name(directory: &OwnedFd, from: &str, to: &OsStr) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    match fs::renameat_with(directory, from, directory, to, fs::RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
        renamed => return renamed,
    }
    // A hard link, too, never replaces.
    match fs::linkat(directory, from, directory, to, AtFlags::empty()) {
        Ok(()) => fs::unlinkat(directory, from, AtFlags::empty()),
        // Some file systems have no hard links; the name was free a moment ago.
        Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::NOSYS) => {
            fs::renameat(directory, from, directory, to)
        }
        Err(errno) => Err(errno),
    }
}

/// Opens a file that is to be replaced, if it may be. A rename needs no permission on the file
/// itself, but a read-only file asks to be left alone, and one of several hard links would leave
/// the others behind with the old content.
fn writable(place: &Place, target: &Path) -> Result<(File, Metadata), HostError> {
    let (file, _) = regular(open_at(&place.directory, &place.name), target)?;
    fs::accessat(&place.directory, &place.name, Access::WRITE_OK, AtFlags::EACCESS)
        .map_err(|errno| failed("write", target, errno))?;
    let metadata = file.metadata().map_err(|error| io_failed("read", target, error))?;
    if metadata.mode() & 0o222 == 0 {
        return Err(HostError::ReadOnly(target.to_owned()));
    }
    if metadata.nlink() > 1 {
        return Err(HostError::Linked { path: target.to_owned(), links: metadata.nlink() });
    }
    Ok((file, metadata))
}

/// The hash of a regular file's content.
pub(super) fn hash_at(directory: &OwnedFd, name: &OsStr) -> std::io::Result<Hash> {
    let file = open_at(directory, name)?;
    if plain(&file.metadata()?).kind != Kind::File {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    hash_of(file)
}

/// Hashes a content while the disk is busy with it.
fn sync_and_hash(file: &File, content: &Content) -> Result<Hash, Errno> {
    /// Below this a thread costs more than it saves.
    const LONG: usize = 256 * 1024;
    if content.size() < LONG {
        return fs::fsync(file).map(|()| content.hash());
    }
    std::thread::scope(|scope| {
        let hashing = scope.spawn(|| content.hash());
        fs::fsync(file)?;
        hashing.join().map_err(|_| Errno::IO)
    })
}

fn hash_of(reader: impl Read) -> std::io::Result<Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(reader)?;
    Ok(hasher.finalize())
}

/// Whether what is read is exactly this.
fn holds(mut reader: impl Read, bytes: &[u8]) -> std::io::Result<bool> {
    let (mut buffer, mut rest) = (vec![0; 64 * 1024], bytes);
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(rest.is_empty()),
            Ok(length) => match rest.strip_prefix(&buffer[..length]) {
                Some(after) => rest = after,
                None => return Ok(false),
            },
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn open_at(directory: &OwnedFd, name: &OsStr) -> Result<File, Errno> {
    fs::openat(directory, name, READ, Mode::empty()).map(File::from)
}

/// Lets regular files through.
fn regular(opened: Result<File, Errno>, path: &Path) -> Result<(File, Stat), HostError> {
    let file = match opened {
        Ok(file) => file,
        // A socket, or a device without a driver.
        Err(Errno::NXIO) => {
            return Err(HostError::Special { path: path.to_owned(), kind: "a socket or device" });
        }
        Err(errno) => return Err(failed("read", path, errno)),
    };
    let stat = plain(&file.metadata().map_err(|error| io_failed("read", path, error))?);
    only_regular(stat, path).map(|stat| (file, stat))
}

fn only_regular(stat: Stat, path: &Path) -> Result<Stat, HostError> {
    match stat.kind {
        Kind::File => Ok(stat),
        Kind::Directory => Err(HostError::Directory(path.to_owned())),
        Kind::Special(kind) => Err(HostError::Special { path: path.to_owned(), kind }),
    }
}

/// Files of the kernel look regular but are not: their size is a lie and reading can have effects.
fn refuse_kernel_files(target: &Path) -> Result<(), HostError> {
    if ["/proc", "/sys"].iter().any(|tree| target.starts_with(tree)) {
        return Err(HostError::Special { path: target.to_owned(), kind: "a file of the kernel" });
    }
    Ok(())
}

#[cfg(target_os = "linux")]
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const LOOK: OFlags = READ;

/// Looks at a name without following it or touching what it stands for.
fn found_at(directory: &OwnedFd, name: &OsStr) -> Result<Stat, Errno> {
    let file = File::from(fs::openat(directory, name, LOOK, Mode::empty())?);
    let metadata = file.metadata();
    metadata
        .map(|metadata| plain(&metadata))
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
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

pub(super) fn failed(action: &'static str, path: &Path, errno: Errno) -> HostError {
    let path = PathBuf::from(path);
    match errno {
        Errno::NOENT => HostError::Missing(path),
        Errno::ISDIR => HostError::Directory(path),
        // The path was free of links when it was resolved.
        Errno::LOOP => HostError::Swapped(path),
        other => HostError::Io { action, path, error: other.into() },
    }
}

fn io_failed(action: &'static str, path: &Path, error: std::io::Error) -> HostError {
    HostError::Io { action, path: path.to_owned(), error }
}
