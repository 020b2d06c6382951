//! Puts things back in the project. Every step is taken in a folder that was reached without
//! following a link; a file is replaced by a new one, never written to, so that other names of it
//! keep what they have; and nothing is overwritten that is not what was just captured.

use super::{
    CheckpointError, OperationId,
    content::{Packer, write_all},
    examine::device_of,
    plan::{Kept, Move, Why},
    standing::{Stamp, Standing},
    store::Store,
};
use ostler_tools::host::{Hash, open_at_path};
use rustix::{
    fs::{self, AtFlags, Dir, Gid, Mode, OFlags, RawMode, Uid},
    io::Errno,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    rc::Rc,
};

/// Told the name of each step right before it is taken, so that a test can end the process there.
pub(super) type Watch<'a> = &'a mut dyn FnMut(&'static str);

const CREATE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The folders in which new files wait before they take their places: the nearest that is there now
/// and stays.
pub(super) fn anchors(moves: &[Move]) -> BTreeSet<PathBuf> {
    let by_path: HashMap<&Path, &Move> = moves.iter().map(|step| (step.path.as_path(), step)).collect();
    moves
        .iter()
        .filter(|step| is_staged(step) || is_other_mode(step))
        .map(|step| anchor(&step.path, &by_path))
        .collect()
}

/// Makes all moves, which come in the order of paths. Gives those that were not made, and why; an
/// error means that none was.
pub(super) fn apply(
    store: &Store,
    id: OperationId,
    moves: &[Move],
    watch: Watch<'_>,
) -> Result<Vec<Kept>, CheckpointError> {
    let mut work =
        Work { store, id, moves, failed: BTreeMap::new(), staged: BTreeSet::new(), folder: None, watch };
    work.loosen();
    // The new contents are safe on the disk before the old ones go.
    if let Err(error) = work.stage().and_then(|()| work.sync("stage", &anchors(moves))) {
        sweep(id, &anchors(moves));
        work.tighten(|_| true);
        return Err(error);
    }
    work.remove();
    work.make_folders();
    work.place();
    work.set_modes();
    let folders = moves.iter().filter_map(|step| Some(step.path.parent()?.to_owned())).collect();
    if let Err(error) = work.sync("end", &folders) {
        // All is in its place, and stays there unless the machine dies within seconds.
        tracing::warn!(%error, "a rewind may not survive a loss of power");
    }
    let failed = work.failed.into_iter();
    Ok(failed.map(|(at, why)| Kept { path: moves[at].path.clone(), why }).collect())
}

/// Removes files that a rewind had not put in their places when it was cut off.
pub(super) fn sweep(id: OperationId, anchors: &BTreeSet<PathBuf>) {
    let prefix = format!(".ostler-{}-", id.0);
    for anchor in anchors {
        // A folder that has gone has taken them along.
        let Ok(folder) = open_at_path(anchor, FOLDER) else { continue };
        let Ok(entries) = Dir::read_from(&folder) else { continue };
        for entry in entries.flatten() {
            if entry.file_name().to_bytes().starts_with(prefix.as_bytes()) {
                // Nothing more can be done about a file that will not go.
                let _ = fs::unlinkat(&folder, entry.file_name(), AtFlags::empty());
            }
        }
    }
}

struct Work<'a> {
    store: &'a Store,
    id: OperationId,
    moves: &'a [Move],
    /// Moves that were not made, by their place in the list.
    failed: BTreeMap<usize, Why>,
    /// Moves for which a new file waits.
    staged: BTreeSet<usize>,
    /// The folder last used.
    folder: Option<(PathBuf, Rc<OwnedFd>)>,
    watch: Watch<'a>,
}

/// Whether a file or link of its own is made first.
fn is_staged(step: &Move) -> bool {
    match (&step.from, &step.to) {
        (Standing::File { content: old, .. }, Standing::File { content: new, .. }) => old != new,
        (_, Standing::File { .. } | Standing::Link { .. }) => true,
        (_, Standing::Absent | Standing::Folder { .. } | Standing::Uncovered { .. }) => false,
    }
}

fn anchor(path: &Path, by_path: &HashMap<&Path, &Move>) -> PathBuf {
    let stays =
        |folder: &&Path| by_path.get(folder).is_none_or(|step| step.from.is_folder() && step.to.is_folder());
    path.ancestors().skip(1).find(stays).unwrap_or(Path::new("/")).to_owned()
}

impl Work<'_> {
    fn folder(&mut self, path: &Path) -> Result<Rc<OwnedFd>, Errno> {
        match &self.folder {
            Some((known, folder)) if known == path => Ok(Rc::clone(folder)),
            _ => {
                let folder = Rc::new(open_at_path(path, FOLDER)?);
                self.folder = Some((path.to_owned(), Rc::clone(&folder)));
                Ok(folder)
            }
        }
    }

    /// Opens the folder that holds a path.
    fn holder<'p>(&mut self, path: &'p Path) -> Result<(Rc<OwnedFd>, &'p OsStr), Errno> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::ISDIR) };
        Ok((self.folder(parent)?, name))
    }

    fn fail(&mut self, at: usize, errno: Errno) {
        let why = match errno {
            Errno::EXIST | Errno::STALE => Why::ChangedByOthers,
            Errno::NOTEMPTY => Why::InUse,
            other => Why::Failed(std::io::Error::from(other).to_string()),
        };
        self.failed.entry(at).or_insert(why);
    }

    /// Gives ourselves the right to change what is in folders; the modes come back at the end.
    fn loosen(&mut self) {
        for step in self.moves {
            if let Standing::Folder { mode } = step.from
                && mode & 0o700 != 0o700
            {
                // If it stays as it is, what is done in it fails and is reported.
                let _ = self.set_mode(&step.path, mode | 0o700);
            }
        }
    }

    fn set_mode(&mut self, path: &Path, mode: u32) -> Result<(), Errno> {
        let (holder, name) = self.holder(path)?;
        let folder = fs::openat(&*holder, name, FOLDER, Mode::empty())?;
        fs::fchmod(folder, raw(mode))
    }

    /// Writes every new file under a name of its own, so that a full disk is met before anything
    /// has changed.
    fn stage(&mut self) -> Result<(), CheckpointError> {
        let by_path: HashMap<&Path, &Move> =
            self.moves.iter().map(|step| (step.path.as_path(), step)).collect();
        let is_few = self.is_few();
        for (at, step) in self.moves.iter().enumerate() {
            if !is_staged(step) && !self.is_shared_with_another_mode(step) {
                continue;
            }
            (self.watch)("stage");
            self.staged.insert(at);
            let folder = match self.folder(&anchor(&step.path, &by_path)) {
                Ok(folder) => folder,
                Err(errno) => {
                    self.fail(at, errno);
                    continue;
                }
            };
            let name = self.temporary(at);
            // One of an earlier attempt.
            let _ = fs::unlinkat(&*folder, &name, AtFlags::empty());
            let staged = match &step.to {
                Standing::Link { target } => fs::symlinkat(target, &*folder, &name),
                Standing::File { mode, content } => match self.write(&folder, &name, content, step)? {
                    Ok(file) if is_few => fs::fchmod(&file, raw(*mode)).and_then(|()| fs::fsync(&file)),
                    Ok(file) => fs::fchmod(&file, raw(*mode)),
                    Err(Unwritten::Damaged) => {
                        self.failed.insert(at, Why::Damaged);
                        continue;
                    }
                    Err(Unwritten::Errno(errno)) => Err(errno),
                },
                Standing::Absent | Standing::Folder { .. } | Standing::Uncovered { .. } => Ok(()),
            };
            match staged {
                Ok(()) => {}
                Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {
                    return Err(CheckpointError::NoRoom(step.path.clone()));
                }
                Err(errno) => self.fail(at, errno),
            }
        }
        Ok(())
    }

    /// Whether each file is synced by itself: that is quicker than everything that the file system
    /// holds for everybody, until there are many.
    fn is_few(&self) -> bool {
        cfg!(not(target_os = "linux")) || self.moves.len() <= 64
    }

    /// Makes what was done in some folders last.
    fn sync(&mut self, step: &'static str, folders: &BTreeSet<PathBuf>) -> Result<(), CheckpointError> {
        (self.watch)(step);
        let is_few = self.is_few();
        let mut devices = BTreeSet::new();
        for path in folders {
            let synced = self.folder(path).and_then(|folder| {
                if is_few {
                    return fs::fsync(&*folder);
                }
                let first = devices.insert(device_of(&fs::fstat(&*folder)?));
                if first { sync_file_system(&folder) } else { Ok(()) }
            });
            match synced {
                // One that has gone needs no sync, and some file systems cannot.
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::INVAL | Errno::NOTSUP) => {}
                Err(Errno::NOSPC | Errno::DQUOT) => return Err(CheckpointError::NoRoom(path.clone())),
                Err(errno) => {
                    return Err(CheckpointError::Io {
                        action: "sync",
                        path: path.clone(),
                        error: errno.into(),
                    });
                }
            }
        }
        Ok(())
    }

    fn temporary(&self, at: usize) -> String {
        format!(".ostler-{}-{at}", self.id.0)
    }

    /// Other names of a file would get its mode too, so it is replaced instead.
    fn is_shared_with_another_mode(&mut self, step: &Move) -> bool {
        is_other_mode(step)
            && self.holder(&step.path).is_ok_and(|(holder, name)| {
                fs::statat(&*holder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| stat.st_nlink > 1)
            })
    }

    fn write(
        &mut self,
        folder: &OwnedFd,
        name: &str,
        content: &Hash,
        step: &Move,
    ) -> Result<Result<OwnedFd, Unwritten>, CheckpointError> {
        let Some(source) = source(self.store, content)? else { return Ok(Err(Unwritten::Damaged)) };
        let write = || {
            let file = fs::openat(folder, name, CREATE, Mode::from_raw_mode(0o600))?;
            match source {
                Source::Bytes(bytes) => write_all(&file, &bytes)?,
                Source::File(linked) => copy(&linked, &file)?,
            }
            self.keep_owner(&file, step)?;
            Ok(file)
        };
        Ok(write().map_err(Unwritten::Errno))
    }

    /// A file that replaces another belongs to whom that belonged.
    fn keep_owner(&mut self, file: &OwnedFd, step: &Move) -> Result<(), Errno> {
        let Standing::File { .. } = step.from else { return Ok(()) };
        let (holder, name) = self.holder(&step.path)?;
        let old = fs::statat(&*holder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let new = fs::fstat(file)?;
        if (old.st_uid, old.st_gid) == (new.st_uid, new.st_gid) {
            return Ok(());
        }
        fs::fchown(file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)))
    }

    /// Takes away what has no place, or is in the way of something of another kind; innermost first.
    fn remove(&mut self) {
        self.folder = None;
        for (at, step) in self.moves.iter().enumerate().rev() {
            let goes = step.to == Standing::Absent || step.from.is_folder() != step.to.is_folder();
            if !goes || step.from == Standing::Absent || self.failed.contains_key(&at) {
                continue;
            }
            (self.watch)("remove");
            let removed = self.holder(&step.path).and_then(|(holder, name)| {
                if step.from.is_folder() {
                    return fs::unlinkat(&*holder, name, AtFlags::REMOVEDIR);
                }
                check_unchanged(&holder, name, step)?;
                fs::unlinkat(&*holder, name, AtFlags::empty())
            });
            match removed {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => self.fail(at, errno),
            }
        }
        self.folder = None;
    }

    fn make_folders(&mut self) {
        for (at, step) in self.moves.iter().enumerate() {
            if !step.to.is_folder() || step.from.is_folder() || self.failed.contains_key(&at) {
                continue;
            }
            (self.watch)("make a folder");
            let private = Mode::from_raw_mode(0o700);
            let made =
                self.holder(&step.path).and_then(|(holder, name)| fs::mkdirat(&*holder, name, private));
            if let Err(errno) = made {
                self.fail(at, errno);
            }
        }
    }

    fn place(&mut self) {
        let by_path: HashMap<&Path, &Move> =
            self.moves.iter().map(|step| (step.path.as_path(), step)).collect();
        for (at, step) in self.moves.iter().enumerate() {
            let is_staged = self.staged.contains(&at);
            if !is_staged && !is_other_mode(step) {
                continue;
            }
            let name = self.temporary(at);
            let anchor = anchor(&step.path, &by_path);
            if self.failed.contains_key(&at) {
                if let Ok(folder) = self.folder(&anchor) {
                    // A file that never got its place.
                    let _ = fs::unlinkat(&*folder, &name, AtFlags::empty());
                }
                continue;
            }
            (self.watch)("place");
            let placed = if is_staged { self.put(&anchor, &name, step) } else { self.change_mode(step) };
            if let Err(errno) = placed {
                self.fail(at, errno);
                if let Ok(folder) = self.folder(&anchor) {
                    let _ = fs::unlinkat(&*folder, &name, AtFlags::empty());
                }
            }
        }
    }

    fn put(&mut self, anchor: &Path, temporary: &str, step: &Move) -> Result<(), Errno> {
        let (holder, name) = self.holder(&step.path)?;
        let waiting =
            if step.path.parent() == Some(anchor) { Rc::clone(&holder) } else { self.folder(anchor)? };
        // A folder, and whatever stood in the way of one, has been removed before.
        if step.from == Standing::Absent || step.from.is_folder() {
            return rename_to_free_name(&waiting, temporary, &holder, name);
        }
        check_unchanged(&holder, name, step)?;
        fs::renameat(&*waiting, temporary, &*holder, name)
    }

    fn change_mode(&mut self, step: &Move) -> Result<(), Errno> {
        let Standing::File { mode, .. } = step.to else { return Ok(()) };
        let (holder, name) = self.holder(&step.path)?;
        check_unchanged(&holder, name, step)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&*holder, name, flags, Mode::empty())?;
        if fs::fstat(&file)?.st_nlink > 1 {
            return Err(Errno::STALE);
        }
        fs::fchmod(&file, raw(mode))
    }

    /// Gives folders their modes; innermost first, for an outer one may close the way.
    fn set_modes(&mut self) {
        self.folder = None;
        for (at, step) in self.moves.iter().enumerate().rev() {
            let Standing::Folder { mode } = step.to else { continue };
            if self.failed.contains_key(&at) {
                continue;
            }
            (self.watch)("set a mode");
            if let Err(errno) = self.set_mode(&step.path, mode) {
                self.fail(at, errno);
            }
        }
        let failed: BTreeSet<usize> = self.failed.keys().copied().collect();
        self.tighten(|at| failed.contains(&at));
    }

    /// Gives folders that were opened for a moment, and are still there, the modes they had.
    fn tighten(&mut self, is_meant: impl Fn(usize) -> bool) {
        self.folder = None;
        for (at, step) in self.moves.iter().enumerate().rev() {
            if let Standing::Folder { mode } = step.from
                && mode & 0o700 != 0o700
                && is_meant(at)
            {
                // One that has gone has no mode.
                let _ = self.set_mode(&step.path, mode);
            }
        }
    }
}

/// Why a file was not written.
enum Unwritten {
    Damaged,
    Errno(Errno),
}

/// Where the bytes of a content come from.
enum Source {
    Bytes(Vec<u8>),
    File(OwnedFd),
}

fn source(store: &Store, content: &Hash) -> Result<Option<Source>, CheckpointError> {
    match store.content(content)? {
        Some(bytes) => Ok(Some(Source::Bytes(bytes))),
        None => Ok(store.linked(content)?.map(Source::File)),
    }
}

/// Whether only the mode of a file differs.
fn is_other_mode(step: &Move) -> bool {
    match (&step.from, &step.to) {
        (Standing::File { content: old, mode: from }, Standing::File { content: new, mode: to }) => {
            old == new && from != to
        }
        _ => false,
    }
}

/// Whether what stands there is still what was captured.
fn check_unchanged(holder: &OwnedFd, name: &OsStr, step: &Move) -> Result<(), Errno> {
    let found = Stamp::of(&fs::statat(holder, name, AtFlags::SYMLINK_NOFOLLOW)?);
    let Some(known) = step.stamp else { return Err(Errno::STALE) };
    if found == known {
        return Ok(());
    }
    // When another name of the same file is removed, its time of change moves; then the content tells.
    if found != (Stamp { changed: found.changed, ..known }) {
        return Err(Errno::STALE);
    }
    let is_same = match &step.from {
        Standing::File { content, .. } => {
            Packer::new().map_err(|_| Errno::IO)?.take(holder, name, |_| true)?.hash == *content
        }
        Standing::Link { target } => {
            fs::readlinkat(holder, name, Vec::new())?.as_bytes() == target.as_bytes()
        }
        Standing::Absent | Standing::Folder { .. } | Standing::Uncovered { .. } => false,
    };
    if is_same { Ok(()) } else { Err(Errno::STALE) }
}

fn rename_to_free_name(from: &OwnedFd, old: &str, to: &OwnedFd, new: &OsStr) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    match fs::renameat_with(from, old, to, new, fs::RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
        renamed => return renamed,
    }
    match fs::statat(to, new, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => fs::renameat(from, old, to, new),
        Ok(_) => Err(Errno::EXIST),
        Err(errno) => Err(errno),
    }
}

#[cfg(target_os = "linux")]
fn sync_file_system(folder: &OwnedFd) -> Result<(), Errno> {
    fs::syncfs(folder)
}

#[cfg(not(target_os = "linux"))]
fn sync_file_system(folder: &OwnedFd) -> Result<(), Errno> {
    fs::fsync(folder)
}

fn copy(from: &OwnedFd, to: &OwnedFd) -> Result<(), Errno> {
    let mut chunk = vec![0; 256 * 1024];
    loop {
        match rustix::io::retry_on_intr(|| rustix::io::read(from, chunk.as_mut_slice()))? {
            0 => return Ok(()),
            count => write_all(to, &chunk[..count])?,
        }
    }
}

fn raw(mode: u32) -> Mode {
    Mode::from_raw_mode(mode as RawMode)
}

/// The form in which anchors are kept with an operation.
pub(super) fn encode_anchors(anchors: &BTreeSet<PathBuf>) -> Vec<u8> {
    anchors.iter().flat_map(|path| [path.as_os_str().as_bytes(), &[0]].concat()).collect()
}

pub(super) fn decode_anchors(bytes: &[u8]) -> BTreeSet<PathBuf> {
    let paths = bytes.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
}
