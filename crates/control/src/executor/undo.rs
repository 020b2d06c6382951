//! Takes the pre-image of what a call may change, before it changes it, and logs what it did change. Where
//! that cannot be done the call does not run: nothing is changed that could not be brought back.

use crate::checkpoint::{
    Caller, CheckpointError, Checkpoints, Kind, Omission, Place, Recovered, Retention, Running,
    prune_neglected,
};
use ostler_proto::{Access, CallId, EntryId, SessionId};
use ostler_tools::host::PLACEHOLDER_MODE;
use std::{
    collections::HashSet,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::OnceCell;

/// Where a session's checkpoints go.
#[derive(Debug, Clone)]
pub struct Keeping {
    /// The store.
    pub place: Place,
    /// The session.
    pub session: SessionId,
    /// How long and how much.
    pub retention: Retention,
}

/// An open store and whose checkpoints are meant.
#[derive(Clone)]
pub struct Kept {
    /// The store. Its functions block.
    pub checkpoints: Arc<Checkpoints>,
    /// The session.
    pub session: SessionId,
}

/// The checkpoints of a session.
pub(super) struct Undo {
    keeping: Option<Keeping>,
    /// The session the process has gone on with, if it is not the one it began with.
    entered: Mutex<Option<SessionId>>,
    opened: OnceCell<Arc<Checkpoints>>,
    /// What opening the store brought to an end, until somebody is told.
    recovered: Mutex<Vec<Recovered>>,
    /// Prompts that the store has not heard of.
    prompts: Mutex<Vec<(EntryId, String)>>,
    /// What was said not to be covered; once is enough.
    said: Mutex<HashSet<PathBuf>>,
}

/// What is known of a call once it has ended.
#[derive(Debug, Default)]
pub(super) struct Finished {
    /// Whether it changed anything, where that is known.
    pub(super) changed: Option<bool>,
    /// What of it a rewind will not bring back, in words.
    pub(super) left_out: Vec<String>,
}

/// A call whose changes are still to be logged.
pub(super) struct Watched {
    checkpoints: Arc<Checkpoints>,
    session: SessionId,
    running: Running,
}

impl Watched {
    /// The file by which the next start knows that nothing of the call goes on.
    pub(super) fn hold(&self) -> Option<PathBuf> {
        self.checkpoints.hold(&self.session)
    }
}

impl Undo {
    pub(super) fn new(keeping: Option<Keeping>) -> Self {
        Self {
            keeping,
            entered: Mutex::default(),
            opened: OnceCell::new(),
            recovered: Mutex::default(),
            prompts: Mutex::default(),
            said: Mutex::default(),
        }
    }

    /// The process goes on with another session; prompts of the last one are none of its.
    pub(super) fn enter(&self, session: SessionId) {
        *locked(&self.entered) = Some(session);
        locked(&self.prompts).clear();
    }

    /// The session that changes are logged for now.
    fn session(&self, keeping: &Keeping) -> SessionId {
        locked(&self.entered).clone().unwrap_or_else(|| keeping.session.clone())
    }

    /// A prompt came: what changes from here on can be undone to before it.
    pub(super) fn prompted(&self, prompt: EntryId, title: String) {
        if self.keeping.is_none() {
            return;
        }
        locked(&self.prompts).push((prompt, title));
        if let Some(checkpoints) = self.opened.get() {
            self.pass_prompts_on(checkpoints);
        }
    }

    /// The store, opened if need be; none when nothing is kept. What could not be opened is tried again.
    pub(super) async fn store(&self) -> Result<Option<Kept>, CheckpointError> {
        let Some(keeping) = &self.keeping else { return Ok(None) };
        let checkpoints = self.opened.get_or_try_init(|| self.open(keeping.place.clone())).await?;
        self.pass_prompts_on(checkpoints);
        Ok(Some(Kept { checkpoints: Arc::clone(checkpoints), session: self.session(keeping) }))
    }

    /// Finishes, before anything is done, what a process that died had begun; says what that was.
    pub(super) async fn recover(&self) -> Vec<String> {
        let is_new = |keeping: &Keeping| !keeping.place.folder.exists();
        if self.keeping.as_ref().is_none_or(is_new) {
            return Vec::new();
        }
        if let Err(error) = self.store().await {
            return vec![format!("checkpoints: {error}")];
        }
        std::mem::take(&mut *locked(&self.recovered)).iter().map(recovery).collect()
    }

    /// Takes the project in and throws out what is too old. It gives way to calls, and ends with the session.
    pub(super) async fn warm(&self, mut roots: Vec<PathBuf>) -> Vec<String> {
        let Some(keeping) = self.keeping.clone() else { return Vec::new() };
        // Elsewhere, as in a home folder, there may be much that no command will ever touch.
        roots.retain(|root| is_repository(root));
        if roots.is_empty() && !keeping.place.folder.exists() {
            return Vec::new();
        }
        let Ok(Some(Kept { checkpoints, .. })) = self.store().await else { return Vec::new() };
        let taken_in = tokio::task::spawn_blocking(move || {
            take_in(&checkpoints, &roots)?;
            let mut uncovered = checkpoints.uncovered();
            uncovered.retain(|(path, _)| roots.contains(path));
            if checkpoints.prune_if_due(&keeping.retention)?.is_some() {
                prune_neglected(&keeping.place, &keeping.retention);
            }
            Ok(uncovered)
        });
        match taken_in.await.unwrap_or_else(|error| Err(bug(&error))) {
            Ok(found) => self.not_covered(found.iter().map(|(path, reason)| (path.as_path(), *reason))),
            Err(CheckpointError::BrokenOff) => Vec::new(),
            Err(error) => {
                // Whoever needs it looks again, and says what is wrong.
                tracing::warn!(%error, "the project could not be taken in");
                Vec::new()
            }
        }
    }

    /// Takes the pre-image of what a call may change; the error says why it must not run.
    pub(super) async fn before(
        &self,
        call: &CallId,
        title: &str,
        access: &Access,
        roots: &[PathBuf],
    ) -> Result<Option<Watched>, String> {
        let Some(changes) = changes(access, roots) else { return Ok(None) };
        let Some(Kept { checkpoints, session }) = self.store().await.map_err(|error| refusal(&error))? else {
            return Ok(None);
        };
        let caller =
            Caller { session: session.clone(), agent: None, call: call.clone(), title: title.to_owned() };
        let taken = tokio::task::spawn_blocking(move || {
            let running = match changes {
                Changes::Files(paths) => checkpoints.before_files(&caller, &paths)?,
                Changes::Trees(roots) => checkpoints.before_command(&caller, &roots)?,
            };
            Ok(Watched { checkpoints, session, running })
        });
        taken.await.unwrap_or_else(|error| Err(bug(&error))).map(Some).map_err(|error| refusal(&error))
    }

    /// Logs what a call changed, however it ended.
    pub(super) async fn finish(&self, watched: Watched) -> Finished {
        let Watched { checkpoints, running, .. } = watched;
        let finished = tokio::task::spawn_blocking(move || checkpoints.finish(running)).await;
        match finished.unwrap_or_else(|error| Err(bug(&error))) {
            Ok(Some(recorded)) => Finished {
                changed: Some(!recorded.changes.is_empty()),
                left_out: self.not_covered(recorded.uncovered()),
            },
            Ok(None) => Finished::default(),
            Err(error) => {
                // What stood there before is kept, and the next operation looks again.
                tracing::warn!(%error, "what a call changed could not be logged");
                Finished::default()
            }
        }
    }

    async fn open(&self, place: Place) -> Result<Arc<Checkpoints>, CheckpointError> {
        let opened = tokio::task::spawn_blocking(move || Checkpoints::open(&place)).await;
        let (checkpoints, recovered) = opened.unwrap_or_else(|error| Err(bug(&error)))?;
        locked(&self.recovered).extend(recovered);
        Ok(Arc::new(checkpoints))
    }

    fn pass_prompts_on(&self, checkpoints: &Checkpoints) {
        let Some(keeping) = &self.keeping else { return };
        for (prompt, title) in locked(&self.prompts).drain(..) {
            checkpoints.note(&self.session(keeping), &prompt, &title);
        }
    }

    fn not_covered<'a>(&self, found: impl Iterator<Item = (&'a Path, Omission)>) -> Vec<String> {
        let mut said = locked(&self.said);
        let new = found.filter(|(path, _)| said.insert((*path).to_owned()));
        let all: Vec<String> = new.map(|(path, reason)| format!("{} ({reason})", path.display())).collect();
        match all.as_slice() {
            [] => Vec::new(),
            [first] => vec![format!("checkpoints leave out {first}; a rewind will not bring it back")],
            [first, rest @ ..] => vec![format!(
                "checkpoints leave out {first} and {} more; a rewind will not bring them back",
                rest.len()
            )],
        }
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(checkpoints) = self.opened.get() {
            checkpoints.hurry();
        }
    }
}

/// Whether git keeps the history of a folder. A folder that stands for the name while a command runs does not count.
fn is_repository(root: &Path) -> bool {
    let is_real = |found: fs::Metadata| found.permissions().mode() & 0o7777 != PLACEHOLDER_MODE;
    root.join(".git").symlink_metadata().is_ok_and(is_real)
}

/// Takes trees in, again and again until nobody is in the way.
fn take_in(checkpoints: &Checkpoints, roots: &[PathBuf]) -> Result<(), CheckpointError> {
    loop {
        match checkpoints.warm(roots) {
            Err(CheckpointError::BrokenOff) if !checkpoints.is_hurried() => {}
            done => return done,
        }
    }
}

/// What a call may change.
enum Changes {
    Files(Vec<PathBuf>),
    /// Anything in these trees.
    Trees(Vec<PathBuf>),
}

fn changes(access: &Access, roots: &[PathBuf]) -> Option<Changes> {
    match access {
        Access::Write { paths } => {
            Some(Changes::Files(paths.iter().map(|fact| fact.target.clone()).collect()))
        }
        Access::Execute { footprint, .. } if footprint.open || !footprint.writes.is_empty() => {
            Some(Changes::Trees(roots.to_vec()))
        }
        Access::Internal
        | Access::Read { .. }
        | Access::Execute { .. }
        | Access::Network { .. }
        | Access::Mcp { .. }
        | Access::Agent { .. }
        | Access::Consult(_) => None,
    }
}

/// What the model, and through it the user, is told about a call that may not run.
fn refusal(error: &CheckpointError) -> String {
    format!(
        "not run, and nothing was changed: what it would change could not be kept for undo: {error}. \
         The user can mend that, or work without undo by setting fileCheckpointingEnabled to false \
         (`ostler config set fileCheckpointingEnabled false`)"
    )
}

/// What was brought to an end, in a sentence.
pub fn recovery(recovered: &Recovered) -> String {
    let changed = recovered.changed;
    match recovered.kind {
        Kind::Restore => format!("an interrupted rewind was finished: {changed} paths"),
        Kind::Prompt | Kind::Edit | Kind::Command | Kind::Observed => {
            format!("a call was cut off after it had changed {changed} paths; they can be rewound")
        }
    }
}

fn bug(error: &tokio::task::JoinError) -> CheckpointError {
    let error = io::Error::other(error.to_string());
    CheckpointError::Io { action: "use", path: "the checkpoint store".into(), error }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
