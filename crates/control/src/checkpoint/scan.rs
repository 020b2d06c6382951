//! Walks trees with several threads and lists the folders that are not as they were last seen.
//! Each step is taken from the folder before it, so that a link put in the way is not followed.

use super::{
    content::Blob,
    examine::{Bounds, Examiner, Looked, Spot, Stopped, View, open_to_list},
    git::Realm,
    names::Names,
    standing::{Omission, Seen, Standing},
};
use ostler_tools::host::open_at_path;
use rustix::{
    fs::{self, OFlags},
    io::Errno,
};
use std::{
    collections::HashMap,
    ffi::OsStr,
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
};

/// A folder that is not as it was.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) path: PathBuf,
    pub(super) entries: Vec<Seen>,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// Folders that are not as they were last seen.
    pub(super) listings: Vec<Listing>,
    /// Folders that could not be listed.
    pub(super) unreadable: Vec<PathBuf>,
    /// There are more entries than are looked at: what was found is not whole.
    pub(super) is_too_much: bool,
}

/// Walks trees and hands contents that the store lacks to `keep`, in this thread. The first error
/// of `keep` ends the walk.
pub(super) fn walk<E>(
    view: &View<'_>,
    roots: &[PathBuf],
    mut keep: impl FnMut(Blob) -> Result<(), E>,
) -> Result<Walked, Failure<E>> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    let crew = Crew {
        view,
        queue: Mutex::new(Queue::default()),
        changed: Condvar::new(),
        is_stopped: AtomicBool::new(false),
        entries: AtomicUsize::new(0),
    };
    let tasks = roots.iter().map(|path| Task { parent: None, path: path.clone(), realm: Realm::of(path) });
    crew.queue().tasks.extend(tasks);
    let examiners = (0..threads).map(|_| Examiner::new(view)).collect::<io::Result<Vec<_>>>();
    let examiners = examiners.map_err(Failure::Io)?;
    std::thread::scope(|scope| {
        // Short: each may hold a whole file.
        let (sender, blobs) = sync_channel(4);
        let mut workers = Vec::new();
        for examiner in examiners {
            let (crew, sender) = (&crew, sender.clone());
            workers.push(scope.spawn(move || crew.work(examiner, &sender)));
        }
        drop(sender);
        let mut kept = Ok(());
        for blob in &blobs {
            kept = keep(blob);
            if kept.is_err() {
                crew.stop();
                break;
            }
        }
        // A worker that waits to send must not wait for ever.
        drop(blobs);
        let mut walked = Walked::default();
        for worker in workers {
            match worker.join() {
                Ok(part) => {
                    walked.listings.extend(part.listings);
                    walked.unreadable.extend(part.unreadable);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        walked.is_too_much = crew.entries.load(Ordering::Relaxed) > view.limits.max_entries;
        kept.map(|()| walked).map_err(Failure::Keep)
    })
}

/// Why a walk ended early.
pub(super) enum Failure<E> {
    /// The contents could not be kept.
    Keep(E),
    /// The walk could not begin.
    Io(io::Error),
}

struct Task {
    parent: Option<Arc<Held>>,
    path: PathBuf,
    realm: Realm,
}

/// A folder that is being walked, held open until its own folders have been entered.
struct Held {
    folder: OwnedFd,
    device: u64,
}

#[derive(Default)]
struct Queue {
    tasks: Vec<Task>,
    /// How many threads may still add tasks.
    busy: usize,
}

/// What a thread uses again for each folder.
#[derive(Default)]
struct Buffers {
    names: Names,
    /// The folders in it.
    inner: Vec<Task>,
}

struct Crew<'a> {
    view: &'a View<'a>,
    queue: Mutex<Queue>,
    changed: Condvar,
    is_stopped: AtomicBool,
    entries: AtomicUsize,
}

impl Crew<'_> {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn work(&self, mut examiner: Examiner<'_>, sender: &SyncSender<Blob>) -> Walked {
        let mut walked = Walked::default();
        let mut buffers = Buffers::default();
        while let Some(task) = self.next() {
            let listed = self.list(&task, &mut examiner, sender, &mut buffers);
            self.done(&mut buffers.inner);
            match listed {
                Ok(Some(entries)) => walked.listings.push(Listing { path: task.path, entries }),
                Err(Refused::Errno(Errno::ACCESS | Errno::PERM)) => walked.unreadable.push(task.path),
                // Nothing is new; or it has gone, or is no folder by now; the next walk will see that in its parent.
                Ok(None) | Err(Refused::Errno(_)) => {}
                Err(Refused::Stopped) => self.stop(),
            }
        }
        walked
    }

    fn next(&self) -> Option<Task> {
        let mut queue = self.queue();
        loop {
            if self.is_stopped.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(task) = queue.tasks.pop() {
                queue.busy += 1;
                return Some(task);
            }
            if queue.busy == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, inner: &mut Vec<Task>) {
        let mut queue = self.queue();
        queue.busy -= 1;
        queue.tasks.append(inner);
        let (waiting, busy) = (queue.tasks.len(), queue.busy);
        drop(queue);
        if waiting > 0 || busy == 0 {
            self.changed.notify_all();
        }
    }

    /// Looks at all entries of a folder; `None` when they are as they were.
    fn list(
        &self,
        task: &Task,
        examiner: &mut Examiner<'_>,
        sender: &SyncSender<Blob>,
        Buffers { names, inner }: &mut Buffers,
    ) -> Result<Option<Vec<Seen>>, Refused> {
        let held = Arc::new(open(task)?);
        let old = self.view.index.folder(&task.path);
        let mut comparison = Comparison { old: old.unwrap_or_default(), next: 0, places: None, fresh: None };
        let mut sink = |blob| sender.send(blob).map_err(|_| Stopped);
        let mut count = 0;
        let bounds = Bounds::Met { device: held.device };
        let has_excluded = self.view.excluded.iter().any(|path| path.parent() == Some(&task.path));
        names.read(&held.folder)?;
        for name in names.iter() {
            count += 1;
            if has_excluded && self.view.excluded.contains(&task.path.join(name)) {
                continue;
            }
            let spot = Spot { folder: held.folder.as_fd(), name, realm: task.realm, bounds };
            let known = comparison.find(name);
            let Some(found) = examiner.examine(spot, known, &mut sink)? else { continue };
            if found.or(known).is_some_and(|seen| seen.standing.is_folder()) {
                inner.push(Task {
                    parent: Some(Arc::clone(&held)),
                    path: task.path.join(name),
                    realm: task.realm.enter(name),
                });
            }
            comparison.add(known, found);
        }
        if self.entries.fetch_add(count, Ordering::Relaxed) + count > self.view.limits.max_entries {
            return Err(Refused::Stopped);
        }
        Ok(if old.is_none() { Some(comparison.fresh.unwrap_or_default()) } else { comparison.result() })
    }
}

/// Compares a folder with how it was, which is nearly always the same and in the same order.
struct Comparison<'a> {
    old: &'a [Seen],
    /// Where the next entry is expected.
    next: usize,
    /// Where each stands, once the order is another.
    places: Option<HashMap<&'a OsStr, usize>>,
    /// What was found, once that is something else; until then all before `next` is the same.
    fresh: Option<Vec<Seen>>,
}

impl<'a> Comparison<'a> {
    fn find(&mut self, name: &OsStr) -> Option<&'a Seen> {
        if self.old.get(self.next).is_none_or(|seen| &*seen.name != name) {
            let old = self.old;
            let places = self
                .places
                .get_or_insert_with(|| old.iter().enumerate().map(|(at, seen)| (&*seen.name, at)).collect());
            let place = *places.get(name)?;
            self.fresh.get_or_insert_with(|| old[..self.next].to_vec());
            self.next = place;
        }
        self.old.get(self.next)
    }

    /// Adds what was found for the entry that was just asked for.
    fn add(&mut self, known: Option<&Seen>, found: Looked) {
        match (found, &mut self.fresh) {
            (Looked::Same, None) => {}
            (Looked::Same, Some(fresh)) => fresh.extend(known.cloned()),
            (Looked::Other(seen), Some(fresh)) => fresh.push(seen),
            (Looked::Other(seen), None) => {
                let mut fresh = self.old[..self.next].to_vec();
                fresh.push(seen);
                self.fresh = Some(fresh);
            }
        }
        self.next += usize::from(known.is_some());
    }

    fn result(self) -> Option<Vec<Seen>> {
        match self.fresh {
            None if self.next < self.old.len() => Some(self.old[..self.next].to_vec()),
            fresh => fresh,
        }
    }
}

enum Refused {
    Errno(Errno),
    Stopped,
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Stopped> for Refused {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

fn open(task: &Task) -> Result<Held, Errno> {
    if let Some(parent) = &task.parent {
        let name = task.path.file_name().ok_or(Errno::NOENT)?;
        return Ok(Held { folder: open_to_list(&parent.folder, name)?, device: parent.device });
    }
    let folder = open_at_path(&task.path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)?;
    let device = super::examine::device_of(&fs::fstat(&folder)?);
    Ok(Held { folder, device })
}

/// What stands for a folder that could not be looked into.
pub(super) fn unlisted(reason: Omission) -> Standing {
    Standing::Uncovered { reason, size: 0, modified: 0 }
}
