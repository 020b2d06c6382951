//! Looks at paths and trees, keeps what it sees, and tells what is not as it was last seen.
//! It changes nothing in the project; all it writes goes into the caller's transaction.

use super::{
    CheckpointError, Limits,
    credit::{begun, credit},
    examine::{Bounds, Examiner, Looked, Spot, Stopped, View, counts_over},
    git::Realm,
    index::{Difference, Index, path_from},
    scan::{self, unlisted},
    standing::{Omission, Seen, Stamp, Standing},
    store::{self, Store},
    urgency::Urgency,
};
use ostler_tools::host::open_at_path;
use rustix::{
    fs::{self, OFlags},
    io::Errno,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU64},
};

/// What one process knows of the project.
pub(super) struct Observer {
    pub(super) index: Index,
    pub(super) limits: Limits,
    /// Folders that are never walked into.
    pub(super) excluded: Vec<PathBuf>,
    /// How often the store had been pruned when the index was last compared with it.
    pub(super) prunes: i64,
    /// Breaks a walk off.
    pub(super) urgency: Arc<Urgency>,
}

/// The paths an operation may touch: whole trees, and single names.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) trees: Vec<PathBuf>,
    pub(super) singles: Vec<PathBuf>,
}

/// What one look at a scope gave.
pub(super) struct Survey {
    pub(super) difference: Difference,
    /// What stands at each path of the scope.
    pub(super) standings: BTreeMap<PathBuf, Standing>,
}

/// Why a transaction did not come about.
#[derive(Debug)]
pub(super) enum Trouble {
    Database(rusqlite::Error),
    Other(CheckpointError),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<CheckpointError> for Trouble {
    fn from(error: CheckpointError) -> Self {
        Self::Other(error)
    }
}

impl Observer {
    /// Looks at single paths; for a rewind.
    pub(super) fn look(
        &mut self,
        store: &Store,
        paths: &[PathBuf],
    ) -> Result<BTreeMap<PathBuf, (Standing, Option<Stamp>)>, Trouble> {
        self.refresh(store)?;
        let mut found = BTreeMap::new();
        let looked = self.examine(store, paths)?;
        for (path, seen) in paths.iter().zip(looked) {
            let stamp = seen.as_ref().map(|seen| seen.stamp);
            found.insert(path.clone(), (standing_of(seen.as_ref()), stamp));
        }
        Ok(found)
    }

    /// Brings the index up to date with paths that a rewind has changed.
    pub(super) fn settle(&mut self, store: &Store, paths: &[PathBuf]) -> Result<(), Trouble> {
        self.refresh(store)?;
        let mut difference = Difference::default();
        for (path, seen) in paths.iter().zip(self.examine(store, paths)?) {
            self.index.put(path, seen, &mut difference);
        }
        Ok(self.index.save(store.reader(), &difference)?)
    }

    /// Takes a scope in and logs what was changed there since it was last seen.
    pub(super) fn observe(
        &mut self,
        store: &Store,
        scope: &Scope,
    ) -> Result<BTreeMap<PathBuf, Standing>, Trouble> {
        self.refresh(store)?;
        let is_new = |tree: &&PathBuf| self.index.folder(tree).is_none();
        let new: Vec<PathBuf> = scope.trees.iter().filter(is_new).cloned().collect();
        let survey = self.survey(store, scope)?;
        let mut changes = survey.difference.changes;
        // What is seen for the first time has not changed.
        changes.retain(|change| !new.iter().any(|tree| change.path.starts_with(tree)));
        // A command that is running may have made them, here or in another process.
        credit(store.reader(), &begun(store.reader())?, &changes)?;
        Ok(survey.standings)
    }

    fn refresh(&mut self, store: &Store) -> Result<(), Trouble> {
        self.index.refresh(store.reader())?;
        let prunes = store::fact(store.reader(), "prunes")?;
        if prunes != self.prunes {
            self.index.doubt();
            self.prunes = prunes;
        }
        Ok(())
    }

    pub(super) fn survey(&mut self, store: &Store, scope: &Scope) -> Result<Survey, Trouble> {
        self.refresh(store)?;
        let mut difference = Difference::default();
        let steps = self.steps_to(&scope.singles);
        for (path, seen) in steps.iter().zip(self.examine(store, &steps)?) {
            self.index.put(path, seen, &mut difference);
        }
        let paths: Vec<PathBuf> = scope.trees.iter().chain(&scope.singles).cloned().collect();
        let mut standings = BTreeMap::new();
        let mut trees = Vec::new();
        for (path, seen) in paths.iter().zip(self.examine(store, &paths)?) {
            let standing = standing_of(seen.as_ref());
            if standing.is_folder() {
                self.index.add_root(path, &mut difference);
            }
            let is_left_out = standing.is_folder() && self.is_too_much(path);
            if standing.is_folder() && !is_left_out {
                trees.push(path.clone());
            }
            let left_out = |seen| Seen { standing: unlisted(Omission::TooMany), ..seen };
            self.index.put(path, if is_left_out { seen.map(left_out) } else { seen }, &mut difference);
            standings.insert(path.clone(), standing);
        }
        trees.sort();
        trees.dedup_by(|later, earlier| later.starts_with(&*earlier));
        self.walk(store, &trees, &mut difference)?;
        self.index.save(store.reader(), &difference)?;
        Ok(Survey { difference, standings })
    }

    /// Folders on the way to single paths that have come into being since their tree was walked, outermost
    /// first. Without them nothing could be noted of what is in them, and a later walk would take it for new.
    fn steps_to(&self, singles: &[PathBuf]) -> Vec<PathBuf> {
        let mut steps = BTreeSet::new();
        for single in singles {
            let unknown = single.ancestors().skip(1).take_while(|folder| self.index.folder(folder).is_none());
            let unknown: Vec<&Path> = unknown.collect();
            let Some(outermost) = unknown.last() else { continue };
            let is_in_tree = outermost.parent().is_some_and(|folder| self.index.folder(folder).is_some());
            let seen = self.index.seen(outermost).map(|seen| &seen.standing);
            let is_left_out = matches!(seen, Some(Standing::Uncovered { .. }))
                || unknown
                    .iter()
                    .any(|folder| self.limits.heavy_names.iter().any(|name| folder.ends_with(name)));
            if is_in_tree && !is_left_out {
                steps.extend(unknown.into_iter().map(Path::to_owned));
            }
        }
        steps.into_iter().collect()
    }

    /// Whether a tree is too large to be walked. One that is new is counted first, so that nothing
    /// of it is read in vain.
    fn is_too_much(&self, tree: &Path) -> bool {
        let Limits { max_entries, heavy_names, .. } = &self.limits;
        match self.index.seen(tree) {
            Some(seen) if seen.standing == unlisted(Omission::TooMany) => true,
            Some(_) if self.index.folder(tree).is_some() => false,
            Some(_) | None => open_folder(tree)
                .is_ok_and(|found| found.is_some_and(|top| counts_over(top, *max_entries, heavy_names))),
        }
    }

    fn walk(&mut self, store: &Store, trees: &[PathBuf], difference: &mut Difference) -> Result<(), Trouble> {
        let mut learned = Vec::new();
        let view = self.view(store);
        let walked = scan::walk(&view, trees, |blob| {
            self.urgency.check()?;
            learned.push(blob.hash);
            Ok::<_, Trouble>(store::put_blob(store.reader(), &blob)?)
        });
        let walked = walked.map_err(|failure| match failure {
            scan::Failure::Keep(trouble) => trouble,
            scan::Failure::Io(error) => Trouble::Other(CheckpointError::Io {
                action: "walk",
                path: trees.first().cloned().unwrap_or_default(),
                error,
            }),
        })?;
        for hash in learned {
            self.index.learn(hash);
        }
        let unlist = |index: &mut Index, path: &Path, reason, difference: &mut Difference| {
            if let Some(seen) = index.seen(path).cloned() {
                let seen = Seen { standing: unlisted(reason), ..seen };
                index.put(path, Some(seen), difference);
            }
        };
        if walked.is_too_much {
            for tree in trees {
                unlist(&mut self.index, tree, Omission::TooMany, difference);
            }
            return Ok(());
        }
        for listing in walked.listings {
            self.index.absorb(listing, difference);
        }
        for path in walked.unreadable {
            unlist(&mut self.index, &path, Omission::Unreadable, difference);
        }
        Ok(())
    }

    fn view<'a>(&'a self, store: &'a Store) -> View<'a> {
        View {
            index: &self.index,
            limits: &self.limits,
            links: &store.links,
            now: now(),
            excluded: &self.excluded,
            budget: AtomicU64::new(self.limits.max_taken),
        }
    }

    /// Looks at single paths; `None` where nothing stands.
    fn examine(&mut self, store: &Store, paths: &[PathBuf]) -> Result<Vec<Option<Seen>>, Trouble> {
        let mut blobs = Vec::new();
        let view = self.view(store);
        let mut examiner = Examiner::new(&view).map_err(|error| {
            Trouble::Other(CheckpointError::Io { action: "look at", path: PathBuf::new(), error })
        })?;
        let mut kept = Ok(());
        let mut found = Vec::with_capacity(paths.len());
        let mut last: Option<(PathBuf, Option<OwnedFd>)> = None;
        for path in paths {
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
                found.push(root_itself(path));
                continue;
            };
            if last.as_ref().is_none_or(|(opened, _)| opened != folder) {
                last = Some((folder.to_owned(), open_folder(folder)?));
            }
            let Some((_, Some(opened))) = &last else {
                found.push(None);
                continue;
            };
            let spot = Spot { folder: opened.as_fd(), name, realm: Realm::of(folder), bounds: Bounds::Named };
            let known = self.index.seen(path);
            let looked = examiner.examine(spot, known, &mut |blob| {
                blobs.push(blob.hash);
                kept = store::put_blob(store.reader(), &blob);
                kept.is_ok().then_some(()).ok_or(Stopped)
            });
            let Ok(looked) = looked else { break };
            found.push(looked.and_then(|looked| match looked {
                Looked::Same => known.cloned(),
                Looked::Other(seen) => Some(seen),
            }));
        }
        kept?;
        for hash in blobs {
            self.index.learn(hash);
        }
        Ok(found)
    }
}

impl Scope {
    /// Directories are trees; anything else is a single name, with those of the folders that would
    /// have to be made for it. What lies in a tree is not looked at twice.
    pub(super) fn split(paths: &[PathBuf]) -> Self {
        let is_tree = |path: &&PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        let mut trees: Vec<PathBuf> = paths.iter().filter(is_tree).cloned().collect();
        trees.sort();
        trees.dedup_by(|later, earlier| later.starts_with(&*earlier));
        let mut scope = Self { trees, singles: Vec::new() };
        for path in paths.iter().filter(|path| !is_tree(path)) {
            let missing = path.ancestors().skip(1).take_while(|folder| folder.symlink_metadata().is_err());
            for single in std::iter::once(path.as_path()).chain(missing) {
                if !scope.trees.iter().any(|tree| single.starts_with(tree)) {
                    scope.singles.push(single.to_owned());
                }
            }
        }
        scope.singles.sort();
        scope.singles.dedup();
        scope
    }

    /// Whether a path may be touched by what has this scope.
    pub(super) fn covers(&self, path: &Path) -> bool {
        self.trees.iter().chain(&self.singles).any(|covered| path.starts_with(covered))
    }

    /// Whether it is a path of its own in this scope.
    pub(super) fn names(&self, path: &Path) -> bool {
        self.singles.iter().any(|single| single == path)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mark = |mark: u8, path: &PathBuf| [&[mark], path.as_os_str().as_bytes(), &[0]].concat();
        let trees = self.trees.iter().flat_map(|path| mark(b'T', path));
        trees.chain(self.singles.iter().flat_map(|path| mark(b'S', path))).collect()
    }

    pub(super) fn decode(bytes: &[u8]) -> Self {
        let mut scope = Self::default();
        for item in bytes.split(|byte| *byte == 0) {
            match item.split_first() {
                Some((b'T', path)) => scope.trees.push(path_from(path.to_vec())),
                Some((_, path)) => scope.singles.push(path_from(path.to_vec())),
                None => {}
            }
        }
        scope
    }
}

/// Opens a folder without following a link; `None` when there is no such folder.
fn open_folder(folder: &Path) -> Result<Option<OwnedFd>, CheckpointError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match open_at_path(folder, flags) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => {
            Err(CheckpointError::Io { action: "look into", path: folder.to_owned(), error: errno.into() })
        }
    }
}

/// The one folder that no other holds.
fn root_itself(path: &Path) -> Option<Seen> {
    let stat = fs::lstat(path).ok()?;
    let stamp = Stamp::of(&stat);
    let standing = Standing::Folder { mode: stamp.permissions() };
    Some(Seen { name: OsStr::new("").into(), stamp, standing, is_racy: false })
}

fn standing_of(seen: Option<&Seen>) -> Standing {
    seen.map_or(Standing::Absent, |seen| seen.standing.clone())
}

/// The clock by which files are stamped, in nanoseconds since 1970.
pub(super) fn now() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}
