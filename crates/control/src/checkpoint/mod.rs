//! Checkpoints: what stood in the project before each change, so that any of them can be taken back.
//! Kept outside the project, deduplicated and compressed. Nothing here decides whether a call may run.

mod apply;
mod blame;
mod capture;
mod content;
mod credit;
mod error;
mod examine;
mod git;
mod index;
mod lines;
mod lock;
mod names;
mod observe;
mod operation;
mod plan;
mod prune;
mod restore;
mod scan;
mod standing;
mod store;
mod urgency;

pub use blame::Blame;
pub use capture::{Caller, Recorded};
pub use error::CheckpointError;
pub use index::Change;
pub use lines::Lines;
pub use operation::{Kind, Listed, Operation, OperationId, Progress};
pub use plan::{Force, Kept, Why};
pub use prune::{Pruned, Retention, Statistics, prune_neglected};
pub use restore::{Recovered, Rewound};
pub use standing::{Omission, Standing};
pub use store::set_aside;

use capture::{Core, Held, Prompted};
use ostler_proto::{EntryId, SessionId};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
};
use store::Patience;
use urgency::Urgency;

/// Where checkpoints are kept and how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The project's folder in the store: `<config>/checkpoints/<project key>`.
    pub folder: PathBuf,
    /// Folders that are never captured by walking, such as the one with settings and transcripts.
    pub excluded: Vec<PathBuf>,
    /// How much is kept.
    pub limits: Limits,
}

/// How much is kept, and what is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest file whose content is kept.
    pub max_file: u64,
    /// Most bytes taken in by one look at the project.
    pub max_taken: u64,
    /// Most entries that one look at the project goes through.
    pub max_entries: usize,
    /// Names of folders that programs fill.
    pub heavy_names: Vec<String>,
    /// Most entries of such a folder.
    pub heavy_entries: usize,
    /// Most bytes the store takes.
    pub quota: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const MB: u64 = 1 << 20;
        let heavy = [
            "node_modules",
            "target",
            ".venv",
            "venv",
            "__pycache__",
            ".tox",
            ".gradle",
            ".next",
            ".nuxt",
            ".cache",
            "Pods",
            "DerivedData",
            "build",
            "dist",
            "out",
            "_build",
            "deps",
            "bower_components",
        ];
        Self {
            max_file: 50 * MB,
            max_taken: 2048 * MB,
            max_entries: 300_000,
            heavy_names: heavy.map(str::to_owned).into(),
            heavy_entries: 5_000,
            quota: 4096 * MB,
        }
    }
}

/// The checkpoints of one project. All functions block: call them where that is allowed.
pub struct Checkpoints(Option<Open>);

struct Open {
    folder: PathBuf,
    core: Mutex<Core>,
    prompts: Mutex<Prompts>,
    urgency: Arc<Urgency>,
}

#[derive(Default)]
struct Prompts {
    /// Not in the log yet.
    pending: Vec<Prompted>,
    /// The prompt each session works on.
    current: HashMap<SessionId, EntryId>,
}

/// A call whose changes are still to be logged: give it to [`Checkpoints::finish`] when the call has
/// ended, however it ended. Dropped, it counts as cut off, and the next use finds what it did.
#[derive(Debug, Default)]
#[must_use = "what the call changed is logged by `Checkpoints::finish`"]
pub struct Running(Option<Held>);

impl Checkpoints {
    /// No checkpoints: every function does nothing, at no cost.
    pub fn off() -> Self {
        Self(None)
    }

    /// Opens the checkpoints of a project and brings to an end what processes that have died had
    /// begun. To be called before anything in the project is touched.
    pub fn open(place: &Place) -> Result<(Self, Vec<Recovered>), CheckpointError> {
        Self::open_watched(place, &mut |_| {})
    }

    /// As [`Checkpoints::open`]; `watch` is told each step right before it is taken.
    pub fn open_watched(
        place: &Place,
        watch: &mut dyn FnMut(&'static str),
    ) -> Result<(Self, Vec<Recovered>), CheckpointError> {
        let mut core = Core::open(place)?;
        let urgency = Arc::clone(&core.observer.urgency);
        let recovered = core.recover(watch)?;
        let open =
            Open { folder: place.folder.clone(), core: Mutex::new(core), prompts: Mutex::default(), urgency };
        Ok((Self(Some(open)), recovered))
    }

    /// Whether anything is kept at all.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Takes the project in, so that the first command need not wait for it. Whoever wants something
    /// short meanwhile does not wait either: then it fails as [`CheckpointError::BrokenOff`].
    pub fn warm(&self, roots: &[PathBuf]) -> Result<(), CheckpointError> {
        let Some(open) = &self.0 else { return Ok(()) };
        let mut core = open.core();
        let _giving_way = open.urgency.give_way();
        open.log_prompts(&mut core)?;
        core.warm(roots)
    }

    /// The process is about to end: looks at the project that go on are broken off.
    pub fn hurry(&self) {
        if let Some(open) = &self.0 {
            open.urgency.end();
        }
    }

    /// Whether the process is about to end.
    pub fn is_hurried(&self) -> bool {
        self.0.as_ref().is_some_and(|open| open.urgency.is_over())
    }

    /// As [`Checkpoints::begin`], but touches no disk: the next operation logs it in its place.
    pub fn note(&self, session: &SessionId, prompt: &EntryId, title: &str) {
        let Some(open) = &self.0 else { return };
        let mut prompts = open.prompts();
        prompts.current.insert(session.clone(), prompt.clone());
        let title = title.to_owned();
        prompts.pending.push(Prompted { session: session.clone(), prompt: prompt.clone(), title });
    }

    /// Makes a checkpoint: the state before this prompt can be gone back to. Never waits for a
    /// capture that is going on; the log keeps the order in which this was called.
    pub fn begin(&self, session: &SessionId, prompt: &EntryId, title: &str) -> Result<(), CheckpointError> {
        let Some(open) = &self.0 else { return Ok(()) };
        self.note(session, prompt, title);
        match open.core.try_lock() {
            Ok(mut core) => open.log_prompts_at_once(&mut core),
            // They are logged with the next operation.
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => Ok(()),
        }
    }

    /// Captures files that a call is about to change. Paths are physical, as a host resolved them.
    pub fn before_files(&self, caller: &Caller, paths: &[PathBuf]) -> Result<Running, CheckpointError> {
        self.before(Kind::Edit, caller, paths)
    }

    /// Captures what a command may change: trees, or single paths where it is known that it touches
    /// nothing else.
    pub fn before_command(&self, caller: &Caller, roots: &[PathBuf]) -> Result<Running, CheckpointError> {
        self.before(Kind::Command, caller, roots)
    }

    /// The file that must stay locked, shared, as long as anything lives that calls of a session started: what
    /// they have changed is not looked at before. `None` when nothing is kept.
    pub fn hold(&self, session: &SessionId) -> Option<PathBuf> {
        self.0.as_ref().map(|open| lock::hold_file(&open.folder, session))
    }

    /// Logs what a call has changed. `None` when nothing is kept.
    pub fn finish(&self, running: Running) -> Result<Option<Recorded>, CheckpointError> {
        let Some(held) = running.0 else { return Ok(None) };
        self.with(|core| {
            let recorded =
                with_room(core, |core| core.after(held.call.id, &held.call.scope, Progress::Done))?;
            core.calls.retain(|(call, _)| call.id != held.call.id);
            Ok(Some(recorded))
        })
    }

    /// Everything in the captured trees that a rewind will not bring back, and why.
    pub fn uncovered(&self) -> Vec<(PathBuf, Omission)> {
        self.0.as_ref().map(|open| open.core().observer.index.uncovered()).unwrap_or_default()
    }

    /// The operations of a session, oldest first. Those of kind [`Kind::Prompt`] are its checkpoints.
    pub fn operations(&self, session: &SessionId) -> Result<Vec<Operation>, CheckpointError> {
        self.with(|core| {
            operation::of_session(core.store.reader(), session).map_err(|error| core.store.failed(error))
        })
    }

    /// The checkpoints of a session, oldest first.
    pub fn checkpoints(&self, session: &SessionId) -> Result<Vec<Listed>, CheckpointError> {
        self.with(|core| {
            operation::checkpoints(core.store.reader(), session).map_err(|error| core.store.failed(error))
        })
    }

    /// The session that last did anything here.
    pub fn newest_session(&self) -> Result<Option<SessionId>, CheckpointError> {
        self.with(|core| {
            operation::newest_session(core.store.reader()).map_err(|error| core.store.failed(error))
        })
    }

    /// The checkpoint of a prompt.
    pub fn checkpoint(&self, session: &SessionId, prompt: &EntryId) -> Result<OperationId, CheckpointError> {
        let found = self.checkpoints(session)?.into_iter().map(|listed| listed.operation);
        let mut found = found.filter(|operation| operation.prompt.as_ref() == Some(prompt));
        found.next().map(|operation| operation.id).ok_or(CheckpointError::NotFound)
    }

    /// Says what a rewind to the state before an operation would do; changes nothing.
    pub fn plan_restore(
        &self,
        session: &SessionId,
        to: OperationId,
        force: Force,
    ) -> Result<(Rewound, Lines), CheckpointError> {
        self.with(|core| {
            let rewound = core.preview(session, to, force)?;
            let lines = lines::count(&core.store, &rewound)?;
            Ok((rewound, lines))
        })
    }

    /// Puts what a session changed back as it was before one of its operations.
    pub fn restore(
        &self,
        session: &SessionId,
        to: OperationId,
        force: Force,
    ) -> Result<Rewound, CheckpointError> {
        self.restore_watched(session, to, force, &mut |_| {})
    }

    /// As [`Checkpoints::restore`]; `watch` is told each step right before it is taken.
    pub fn restore_watched(
        &self,
        session: &SessionId,
        to: OperationId,
        force: Force,
        watch: &mut dyn FnMut(&'static str),
    ) -> Result<Rewound, CheckpointError> {
        self.with(|core| core.restore(session, to, force, watch))
    }

    /// The last rewind of a session, to go back to the state before it.
    pub fn last_rewind(&self, session: &SessionId) -> Result<OperationId, CheckpointError> {
        let operations = self.operations(session)?;
        let last = operations.iter().rev().find(|operation| operation.kind == Kind::Restore);
        last.map(|operation| operation.id).ok_or_else(|| CheckpointError::NothingToUndo(session.clone()))
    }

    /// Says who changed each line of a file, given by its physical path.
    pub fn blame(&self, path: &Path) -> Result<Blame, CheckpointError> {
        self.with(|core| blame::blame(core, path))
    }

    /// Removes what is too old, or too much.
    pub fn prune(&self, retention: &Retention) -> Result<Pruned, CheckpointError> {
        self.with(|core| core.prune(retention))
    }

    /// As [`Checkpoints::prune`]; `None` when that was done within the last day.
    pub fn prune_if_due(&self, retention: &Retention) -> Result<Option<Pruned>, CheckpointError> {
        self.with(|core| core.prune_if_due(retention))
    }

    /// How much there is.
    pub fn statistics(&self) -> Result<Statistics, CheckpointError> {
        self.with(|core| core.statistics())
    }

    fn before(&self, kind: Kind, caller: &Caller, paths: &[PathBuf]) -> Result<Running, CheckpointError> {
        let Some(open) = &self.0 else { return Ok(Running(None)) };
        let prompt = open.prompts().current.get(&caller.session).cloned();
        let mut core = match kind {
            // It needs what a look that goes on is taking in.
            Kind::Command => open.core(),
            Kind::Prompt | Kind::Edit | Kind::Observed | Kind::Restore => open.core_soon(),
        };
        open.settle(&mut core)?;
        let opened = with_room(&mut core, |core| core.before(kind, caller.clone(), prompt.clone(), paths));
        opened.map(|opened| Running(Some(opened)))
    }

    /// Works on the store, with all prompts logged; does nothing when nothing is kept.
    fn with<T: Default>(
        &self,
        work: impl FnOnce(&mut Core) -> Result<T, CheckpointError>,
    ) -> Result<T, CheckpointError> {
        let Some(open) = &self.0 else { return Ok(T::default()) };
        let mut core = open.core_soon();
        open.settle(&mut core)?;
        work(&mut core)
    }
}

impl Open {
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Open::core`], before looks that nobody waits for.
    fn core_soon(&self) -> MutexGuard<'_, Core> {
        let _waiting = self.urgency.wait();
        self.core()
    }

    /// Logs what is not logged yet.
    fn settle(&self, core: &mut Core) -> Result<(), CheckpointError> {
        self.log_prompts(core)?;
        core.close_dropped()
    }

    fn prompts(&self) -> MutexGuard<'_, Prompts> {
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Open::log_prompts`], unless another process is at it: then the next operation does.
    fn log_prompts_at_once(&self, core: &mut Core) -> Result<(), CheckpointError> {
        core.store.set_patience(Patience::None)?;
        let logged = self.log_prompts(core);
        core.store.set_patience(Patience::Long)?;
        match logged {
            Err(CheckpointError::Busy(_)) => Ok(()),
            logged => logged,
        }
    }

    fn log_prompts(&self, core: &mut Core) -> Result<(), CheckpointError> {
        let pending = std::mem::take(&mut self.prompts().pending);
        if pending.is_empty() {
            return Ok(());
        }
        with_room(core, |core| core.log_prompts(&pending))
            // They stay first in line.
            .inspect_err(|_| drop(self.prompts().pending.splice(0..0, pending.iter().cloned())))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut core = self.core();
        // A session that changed nothing has nothing to go back to.
        self.prompts().pending.retain(|prompted| core.has_logged(&prompted.session));
        if let Err(error) = self.log_prompts(&mut core) {
            tracing::warn!(%error, "prompts without effect have no checkpoint");
        }
    }
}

/// Makes room, once, when there is none.
fn with_room<T>(
    core: &mut Core,
    mut work: impl FnMut(&mut Core) -> Result<T, CheckpointError>,
) -> Result<T, CheckpointError> {
    match work(core) {
        Err(CheckpointError::NoSpace(_)) => {
            let most = core.observer.limits.quota / 4 * 3;
            core.prune(&Retention { max_bytes: most, ..Retention::default() })?;
            work(core)
        }
        done => done,
    }
}
