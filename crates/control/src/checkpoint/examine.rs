//! Looks at one entry of a folder and says what stands there, taking its content in where it is
//! not known yet. It changes nothing in the project and follows no link.

use super::{
    Limits,
    content::{Blob, Form, Packer},
    git::Realm,
    index::Index,
    standing::{Omission, Seen, Stamp, Standing},
};
use ostler_tools::host::{Hash, PLACEHOLDER_MODE};
use rustix::{
    fs::{self, AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering},
};

/// What all looks of one capture share.
pub(super) struct View<'a> {
    pub(super) index: &'a Index,
    pub(super) limits: &'a Limits,
    /// Where contents lie that are files of their own.
    pub(super) links: &'a OwnedFd,
    /// The time at which the capture began, in nanoseconds since 1970.
    pub(super) now: i64,
    /// Folders that are never walked into.
    pub(super) excluded: &'a [PathBuf],
    /// Bytes that may still be taken in.
    pub(super) budget: AtomicU64,
}

/// Where an entry is found.
#[derive(Clone, Copy)]
pub(super) struct Spot<'a> {
    pub(super) folder: BorrowedFd<'a>,
    pub(super) name: &'a OsStr,
    pub(super) realm: Realm,
    pub(super) bounds: Bounds,
}

/// What an entry is held against.
#[derive(Clone, Copy)]
pub(super) enum Bounds {
    /// It was named, and is looked at wherever it lies and whatever its name is.
    Named,
    /// It was met in a tree on this file system.
    Met { device: u64 },
}

/// Takes a blob to the store; an error when the store takes no more.
pub(super) type Sink<'a> = &'a mut dyn FnMut(Blob) -> Result<(), Stopped>;

/// The store takes no more.
#[derive(Debug)]
pub(super) struct Stopped;

/// What a look gave.
pub(super) enum Looked {
    /// What was known.
    Same,
    /// Something else.
    Other(Seen),
}

impl Looked {
    /// What stands there, given what was known.
    pub(super) fn or<'a>(&'a self, known: Option<&'a Seen>) -> Option<&'a Seen> {
        match self {
            Self::Same => known,
            Self::Other(seen) => Some(seen),
        }
    }
}

/// Looks at entries, one after another.
pub(super) struct Examiner<'a> {
    view: &'a View<'a>,
    packer: Packer,
}

const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Packs of this size and more are linked rather than copied.
const LONG_OBJECT: u64 = 1024 * 1024;

impl<'a> Examiner<'a> {
    pub(super) fn new(view: &'a View<'a>) -> io::Result<Self> {
        Ok(Self { view, packer: Packer::new()? })
    }

    /// Says what stands at a spot; `None` when nothing does.
    pub(super) fn examine(
        &mut self,
        spot: Spot<'_>,
        old: Option<&Seen>,
        sink: Sink<'_>,
    ) -> Result<Option<Looked>, Stopped> {
        let Ok(stat) = fs::statat(spot.folder, spot.name, AtFlags::SYMLINK_NOFOLLOW) else {
            return Ok(None);
        };
        let stamp = Stamp::of(&stat);
        if let Some(old) = old
            && old.stamp == stamp
            && !old.is_racy
            && stamp.kind() != FileType::Directory
        {
            return Ok(Some(Looked::Same));
        }
        if is_placeholder(spot, &stamp) {
            return Ok(None);
        }
        let uncovered = |reason| Standing::Uncovered { reason, size: stamp.size, modified: stamp.modified };
        let (standing, stamp) = match stamp.kind() {
            FileType::Directory => (self.folder(spot, &stamp, device_of(&stat), old), stamp),
            FileType::RegularFile => return Ok(self.file(spot, stamp, sink)?.map(Looked::Other)),
            FileType::Symlink => match fs::readlinkat(spot.folder, spot.name, Vec::new()) {
                Ok(target) => (Standing::Link { target: OsStr::from_bytes(target.as_bytes()).into() }, stamp),
                Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
                Err(_) => (uncovered(Omission::Unreadable), stamp),
            },
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => (uncovered(Omission::Special), stamp),
        };
        let is_same = old.is_some_and(|old| old.stamp == stamp && old.standing == standing && !old.is_racy);
        Ok(Some(if is_same { Looked::Same } else { Looked::Other(self.seen(spot.name, stamp, standing)) }))
    }

    fn seen(&self, name: &OsStr, stamp: Stamp, standing: Standing) -> Seen {
        let is_racy = stamp.kind() != FileType::Directory && stamp.is_racy(self.view.now);
        Seen { name: name.into(), stamp, standing, is_racy }
    }

    fn folder(&self, spot: Spot<'_>, stamp: &Stamp, device: u64, old: Option<&Seen>) -> Standing {
        let uncovered = |reason| Standing::Uncovered { reason, size: 0, modified: 0 };
        let standing = Standing::Folder { mode: stamp.permissions() };
        match spot.bounds {
            Bounds::Named => return standing,
            Bounds::Met { device: tree } if tree != device => return uncovered(Omission::OtherDevice),
            Bounds::Met { .. } => {}
        }
        let is_heavy = self.view.limits.heavy_names.iter().any(|name| spot.name == OsStr::new(name));
        if is_heavy {
            let left_out = uncovered(Omission::TooMany);
            if old.is_some_and(|old| old.standing == left_out)
                || open_to_list(spot.folder, spot.name)
                    .is_ok_and(|folder| counts_over(folder, self.view.limits.heavy_entries, &[]))
            {
                return left_out;
            }
        }
        standing
    }

    fn file(&mut self, spot: Spot<'_>, stamp: Stamp, sink: Sink<'_>) -> Result<Option<Seen>, Stopped> {
        let uncovered = |reason| Standing::Uncovered { reason, size: stamp.size, modified: stamp.modified };
        if spot.realm == Realm::Objects
            && stamp.size >= LONG_OBJECT
            && let Some(seen) = self.link(spot, &stamp, sink)?
        {
            return Ok(Some(seen));
        }
        if stamp.size > self.view.limits.max_file {
            return Ok(Some(self.seen(spot.name, stamp, uncovered(Omission::TooLarge))));
        }
        let spent = self
            .view
            .budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(stamp.size));
        if spent.is_err() {
            return Ok(Some(self.seen(spot.name, stamp, uncovered(Omission::Budget))));
        }
        match self.packer.take(spot.folder, spot.name, |hash| self.view.index.knows(hash)) {
            Ok(taken) => {
                if let Some(blob) = taken.blob {
                    sink(blob)?;
                }
                let standing = Standing::File { mode: taken.stamp.permissions(), content: taken.hash };
                Ok(Some(self.seen(spot.name, taken.stamp, standing)))
            }
            // It has gone, or is something else by now; the next look will tell.
            Err(Errno::NOENT | Errno::LOOP | Errno::INVAL) => Ok(None),
            Err(_) => Ok(Some(self.seen(spot.name, stamp, uncovered(Omission::Unreadable)))),
        }
    }

    /// Keeps a long object by giving it a second name in the store: it never changes, so that costs
    /// neither time nor space. `None` where that is not possible.
    fn link(&self, spot: Spot<'_>, stamp: &Stamp, sink: Sink<'_>) -> Result<Option<Seen>, Stopped> {
        let mut hasher = blake3::Hasher::new_derive_key("ostler checkpoint linked object 1");
        hasher.update(spot.name.as_bytes());
        for number in [stamp.size, stamp.modified.cast_unsigned(), stamp.inode] {
            hasher.update(&number.to_le_bytes());
        }
        let hash: Hash = hasher.finalize();
        let name = hash.to_hex();
        match fs::linkat(spot.folder, spot.name, self.view.links, name.as_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(_) => return Ok(None),
        }
        if !self.view.index.knows(&hash) {
            sink(Blob { hash, size: stamp.size, form: Form::Linked, data: Vec::new() })?;
        }
        // The second name has moved the time of change.
        let Ok(stat) = fs::statat(spot.folder, spot.name, AtFlags::SYMLINK_NOFOLLOW) else {
            return Ok(None);
        };
        let stamp = Stamp::of(&stat);
        let standing = Standing::File { mode: stamp.permissions(), content: hash };
        Ok(Some(self.seen(spot.name, stamp, standing)))
    }
}

/// Opens a folder to list it.
pub(super) fn open_to_list(folder: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    fs::openat(folder, name, LIST, Mode::empty())
}

#[expect(clippy::unnecessary_cast, reason = "the type differs between systems")]
pub(super) fn device_of(stat: &fs::Stat) -> u64 {
    stat.st_dev as u64
}

/// Whether it stands there only while a command runs that must not make it.
fn is_placeholder(spot: Spot<'_>, stamp: &Stamp) -> bool {
    stamp.kind() == FileType::Directory
        && stamp.permissions() == PLACEHOLDER_MODE
        && open_to_list(spot.folder, spot.name).is_ok_and(|folder| !counts_over(folder, 0, &[]))
}

/// Whether a tree has more entries than a limit, without looking at them. Folders with one of the
/// names in `skip` count as one.
pub(super) fn counts_over(top: OwnedFd, limit: usize, skip: &[String]) -> bool {
    let mut count = 0;
    // Opened only when their turn comes: a folder may hold more of them than can be open at once.
    let mut ahead: Vec<(Rc<OwnedFd>, OsString)> = vec![(Rc::new(top), ".".into())];
    while let Some((holder, name)) = ahead.pop() {
        let Ok(folder) = open_to_list(&*holder, &name) else { continue };
        let folder = Rc::new(folder);
        let Ok(entries) = Dir::read_from(&*folder) else { continue };
        for entry in entries.flatten() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            count += 1;
            if count > limit {
                return true;
            }
            if entry.file_type() == FileType::Directory && !skip.iter().any(|heavy| name == OsStr::new(heavy))
            {
                ahead.push((Rc::clone(&folder), name.to_owned()));
            }
        }
    }
    false
}
