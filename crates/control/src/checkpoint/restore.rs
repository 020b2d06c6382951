//! Rewinds: the project, as far as a session changed it, as it was before one of its operations.
//! A rewind is logged before it begins, so that it can be finished after a crash, and like any other
//! operation it can be taken back.

use super::{
    CheckpointError,
    apply::{self, Watch, anchors, decode_anchors, encode_anchors},
    capture::Core,
    index::Change,
    lock,
    observe::{Observer, Scope, Trouble, now},
    operation::{self, Draft, Kind, Operation, OperationId, Progress},
    plan::{Current, Force, Kept, Move, courses, decide},
    standing::Standing,
    store::Store,
};
use ostler_proto::SessionId;
use rusqlite::params;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// What a rewind did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rewound {
    /// Its entry in the log; absent if there was nothing to do, or for a dry run.
    pub operation: Option<OperationId>,
    /// What changed: what stood there, and what stands there now.
    pub changes: Vec<Change>,
    /// What was left as it is, and why.
    pub kept: Vec<Kept>,
}

impl Rewound {
    /// The files and links that changed, without folders.
    pub fn files(&self) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(|change| !(is_folder_or_absent(&change.before) && is_folder_or_absent(&change.after)))
    }

    /// What was left as it is because a link stands there, or on the way there.
    pub fn skipped_links(&self) -> impl Iterator<Item = &Path> {
        let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        let kept = self.kept.iter().map(|kept| kept.path.as_path());
        kept.filter(move |path| path.ancestors().any(is_link))
    }
}

fn is_folder_or_absent(standing: &Standing) -> bool {
    match standing {
        Standing::Folder { .. } | Standing::Absent => true,
        Standing::File { .. } | Standing::Link { .. } | Standing::Uncovered { .. } => false,
    }
}

/// Something that had been cut off and was brought to an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Its entry in the log.
    pub operation: OperationId,
    /// What it was: a rewind was finished; of a call it was found out what it had changed.
    pub kind: Kind,
    /// How many paths it changed.
    pub changed: usize,
    /// What was left as it is, and why.
    pub kept: Vec<Kept>,
}

/// A rewind that has been decided on.
struct Decided {
    moves: Vec<Move>,
    kept: Vec<Kept>,
}

impl Core {
    /// Says what a rewind would do.
    pub(super) fn preview(
        &mut self,
        session: &SessionId,
        to: OperationId,
        force: Force,
    ) -> Result<Rewound, CheckpointError> {
        let _lock = lock::looking(&self.store.folder)?;
        let Decided { moves, kept } =
            self.transact(|observer, store| decide_on(observer, store, session, to, force))?;
        let changes = moves.into_iter().filter(is_real).map(into_change).collect();
        Ok(Rewound { operation: None, changes, kept })
    }

    /// Puts the project back as it was before an operation of a session.
    pub(super) fn restore(
        &mut self,
        session: &SessionId,
        to: OperationId,
        force: Force,
        watch: Watch<'_>,
    ) -> Result<Rewound, CheckpointError> {
        let _lock = lock::restoring(&self.store.folder)?;
        watch("decide");
        let (id, decided) = self.transact(|observer, store| {
            let decided = decide_on(observer, store, session, to, force)?;
            refuse_if_running(store, &decided.moves)?;
            if !decided.moves.iter().any(is_real) {
                return Ok((None, decided));
            }
            let draft = Draft {
                kind: Kind::Restore,
                progress: Progress::Restoring,
                session: Some(session.clone()),
                prompt: operation::find(store.reader(), to)?.and_then(|operation| operation.prompt),
                call: None,
                agent: None,
                title: None,
                scope: encode_anchors(&anchors(&decided.moves)),
            };
            let id = operation::append(store.reader(), &draft, now())?;
            for step in &decided.moves {
                operation::add_change(store.reader(), id, &into_change(step.clone()))?;
            }
            Ok((Some(id), decided))
        })?;
        let Some(id) = id else { return Ok(Rewound { kept: decided.kept, ..Rewound::default() }) };
        watch("logged");
        let refused = match apply::apply(&self.store, id, &decided.moves, watch) {
            Ok(refused) => refused,
            Err(error) => {
                self.forget(id)?;
                return Err(error);
            }
        };
        self.close(id, &refused)?;
        let is_refused = |step: &Move| refused.iter().any(|kept| kept.path == step.path);
        let done = decided.moves.into_iter().filter(|step| is_real(step) && !is_refused(step));
        let changes = done.map(into_change).collect();
        let kept = decided.kept.into_iter().chain(refused.iter().cloned()).collect();
        Ok(Rewound { operation: Some(id), changes, kept })
    }

    /// Brings to an end what processes that have died had begun.
    pub(super) fn recover(&mut self, watch: Watch<'_>) -> Result<Vec<Recovered>, CheckpointError> {
        let unfinished =
            operation::unfinished(self.store.reader()).map_err(|error| self.store.failed(error))?;
        if unfinished.is_empty() {
            return Ok(Vec::new());
        }
        let mut recovered = Vec::new();
        if let Some(_lock) = lock::try_restoring(&self.store.folder)? {
            for (operation, scope) in &unfinished {
                if operation.progress == Progress::Restoring {
                    recovered.push(self.finish_restore(operation.id, scope, watch)?);
                }
            }
        }
        for (operation, scope) in unfinished {
            let is_abandoned = match &operation.session {
                Some(session) => !lock::is_live(&self.store.folder, session)?,
                None => true,
            };
            if operation.progress == Progress::Open && is_abandoned {
                watch("close");
                recovered.push(self.cut_off(&operation, &scope)?);
            }
        }
        Ok(recovered)
    }

    /// Brings to an end what a process that died had begun of a session, which lives here from now on.
    pub(super) fn take_over(&mut self, session: &SessionId) -> Result<(), CheckpointError> {
        let unfinished =
            operation::unfinished(self.store.reader()).map_err(|error| self.store.failed(error))?;
        for (operation, scope) in unfinished {
            let is_running_here = self.calls.iter().any(|(call, _)| call.id == operation.id);
            if operation.progress == Progress::Open
                && operation.session.as_ref() == Some(session)
                && !is_running_here
            {
                self.cut_off(&operation, &scope)?;
            }
        }
        Ok(())
    }

    /// Finds out what a call had changed whose process has died.
    fn cut_off(&mut self, operation: &Operation, scope: &[u8]) -> Result<Recovered, CheckpointError> {
        if let Some(session) = &operation.session {
            // A command may outlive its process for a moment, or even begin then.
            lock::await_calls(&self.store.folder, session)?;
        }
        let found = self.after(operation.id, scope, Progress::CutOff)?;
        let (kind, changed) = (operation.kind, found.changes.len());
        Ok(Recovered { operation: operation.id, kind, changed, kept: Vec::new() })
    }

    fn finish_restore(
        &mut self,
        id: OperationId,
        scope: &[u8],
        watch: Watch<'_>,
    ) -> Result<Recovered, CheckpointError> {
        let mut places = decode_anchors(scope);
        apply::sweep(id, &places);
        watch("swept");
        let moves = self.transact(|observer, store| {
            let logged = operation::changes_of(store.reader(), id)?;
            let paths: Vec<PathBuf> = logged.iter().map(|change| change.path.clone()).collect();
            let current = observer.look(store, &paths)?;
            let moves: Vec<Move> =
                logged.into_iter().filter_map(|change| remaining(change, &current)).collect();
            places.extend(anchors(&moves));
            store
                .reader()
                .prepare_cached("UPDATE operations SET scope = ?2 WHERE id = ?1")?
                .execute(params![id.0, encode_anchors(&places)])?;
            Ok(moves)
        })?;
        let kept = apply::apply(&self.store, id, &moves, watch)?;
        let logged =
            operation::changes_of(self.store.reader(), id).map_err(|error| self.store.failed(error))?;
        self.close(id, &kept)?;
        Ok(Recovered { operation: id, kind: Kind::Restore, changed: logged.len() - kept.len(), kept })
    }

    /// Marks a rewind as done and sees what it left.
    fn close(&mut self, id: OperationId, refused: &[Kept]) -> Result<(), CheckpointError> {
        self.transact(|observer, store| {
            let logged = operation::changes_of(store.reader(), id)?;
            for change in &logged {
                // Folders whose mode was only lifted for a moment have not changed.
                if change.after.as_ref() == Some(&change.before)
                    || refused.iter().any(|kept| kept.path == change.path)
                {
                    operation::drop_change(store.reader(), id, &change.path)?;
                }
            }
            let paths: Vec<PathBuf> = logged.into_iter().map(|change| change.path).collect();
            operation::mark(store.reader(), id, Progress::Done)?;
            observer.settle(store, &paths)
        })
    }

    /// Takes an operation out of the log that did not come about.
    fn forget(&mut self, id: OperationId) -> Result<(), CheckpointError> {
        self.transact(|_, store| {
            store.reader().execute("DELETE FROM changes WHERE operation = ?1", [id.0])?;
            store.reader().execute("DELETE FROM operations WHERE id = ?1", [id.0])?;
            Ok(())
        })
    }
}

fn decide_on(
    observer: &mut Observer,
    store: &Store,
    session: &SessionId,
    to: OperationId,
    force: Force,
) -> Result<Decided, Trouble> {
    let doubts = operation::doubts_since(store.reader(), session, to)?;
    let courses = courses(operation::changes_since(store.reader(), session, to)?, doubts);
    let paths: Vec<PathBuf> = courses.keys().cloned().collect();
    let current = observer.look(store, &paths)?;
    let (mut moves, kept) = decide(&courses, &current, force);
    add_folders(observer, store, &mut moves)?;
    Ok(Decided { moves, kept })
}

/// Refuses while a call is running that may touch what is to be moved.
fn refuse_if_running(store: &Store, moves: &[Move]) -> Result<(), Trouble> {
    for (running, scope) in operation::unfinished(store.reader())? {
        if let (Progress::Open, Some(session)) = (running.progress, running.session)
            && moves.iter().any(|step| Scope::decode(&scope).covers(&step.path))
        {
            return Err(CheckpointError::Running(session).into());
        }
    }
    Ok(())
}

/// Adds folders that must be made, or opened for a moment, so that the moves can be made.
fn add_folders(observer: &mut Observer, store: &Store, moves: &mut Vec<Move>) -> Result<(), Trouble> {
    let known: BTreeSet<&PathBuf> = moves.iter().map(|step| &step.path).collect();
    let mut around: BTreeSet<PathBuf> = BTreeSet::new();
    for step in moves.iter() {
        let folders = step.path.ancestors().skip(1).map(std::path::Path::to_owned);
        // Once a folder is known, so are those around it.
        around.extend(folders.take_while(|folder| !around.contains(folder)).collect::<Vec<_>>());
    }
    around.retain(|folder| !known.contains(folder) && folder.parent().is_some());
    let paths: Vec<PathBuf> = around.into_iter().collect();
    for (path, (standing, stamp)) in observer.look(store, &paths)? {
        let to = match standing {
            Standing::Folder { mode } if mode & 0o700 != 0o700 => standing.clone(),
            Standing::Absent => Standing::Folder { mode: 0o755 },
            Standing::Folder { .. }
            | Standing::File { .. }
            | Standing::Link { .. }
            | Standing::Uncovered { .. } => {
                continue;
            }
        };
        let is_needed = |step: &Move| step.path.starts_with(&path) && step.to != Standing::Absent;
        if standing.is_folder() || moves.iter().any(is_needed) {
            moves.push(Move { path, from: standing, to, stamp });
        }
    }
    moves.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(())
}

/// What is left to do of a change that was cut off. What is neither the old nor the new, nor on the
/// way between them, is somebody else's.
fn remaining(change: operation::Logged, current: &Current) -> Option<Move> {
    let to = change.after?;
    let (from, stamp) = current.get(&change.path).cloned()?;
    let is_ours = from == change.before
        || from == Standing::Absent
        || (from.is_folder() && (to.is_folder() || change.before.is_folder()));
    // A folder may have been left open, so its mode is set again in any case.
    ((from != to || to.is_folder()) && is_ours).then_some(Move { path: change.path, from, to, stamp })
}

/// Whether a move changes anything, rather than lifting a mode for a moment.
fn is_real(step: &Move) -> bool {
    step.from != step.to
}

fn into_change(step: Move) -> Change {
    Change { path: step.path, before: step.from, after: step.to }
}
