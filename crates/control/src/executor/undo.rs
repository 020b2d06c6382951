//! Takes the pre-image of what a call may change, before it changes it, and logs what it did change.
//! A store that cannot be used is said once and then left alone: work goes on without undo.

use crate::checkpoint::{Caller, CheckpointError, Checkpoints, Place, Running};
use ostler_proto::{Access, CallId, EntryId, SessionId};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::OnceCell;

/// Where a session's checkpoints go.
#[derive(Debug, Clone)]
pub struct Keeping {
    /// The store.
    pub place: Place,
    /// The session.
    pub session: SessionId,
}

/// The checkpoints of a session, opened when something is about to change.
pub(super) struct Undo {
    keeping: Option<Keeping>,
    opened: OnceCell<Option<Arc<Checkpoints>>>,
    /// Prompts that the store has not heard of.
    prompts: Mutex<Vec<(EntryId, String)>>,
}

/// A call whose changes are still to be logged.
pub(super) struct Watched {
    checkpoints: Arc<Checkpoints>,
    running: Running,
}

impl Undo {
    pub(super) fn new(keeping: Option<Keeping>) -> Self {
        Self { keeping, opened: OnceCell::new(), prompts: Mutex::default() }
    }

    /// A prompt came: what changes from here on can be undone to before it.
    pub(super) fn prompted(&self, prompt: EntryId, title: String) {
        if self.keeping.is_some() {
            self.prompts.lock().unwrap_or_else(PoisonError::into_inner).push((prompt, title));
        }
    }

    /// Takes the pre-image of what a call may change.
    pub(super) async fn before(
        &self,
        call: &CallId,
        title: &str,
        access: &Access,
        roots: &[PathBuf],
    ) -> Option<Watched> {
        let changes = changes(access, roots)?;
        let session = self.keeping.as_ref()?.session.clone();
        let checkpoints = self.opened.get_or_init(|| self.open()).await.clone()?;
        let prompts = std::mem::take(&mut *self.prompts.lock().unwrap_or_else(PoisonError::into_inner));
        let caller = Caller { session, agent: None, call: call.clone(), title: title.to_owned() };
        let taken = tokio::task::spawn_blocking(move || {
            for (prompt, title) in prompts {
                checkpoints.begin(&caller.session, &prompt, &title)?;
            }
            let running = match changes {
                Changes::Files(paths) => checkpoints.before_files(&caller, &paths)?,
                Changes::Trees(roots) => checkpoints.before_command(&caller, &roots)?,
            };
            Ok::<_, CheckpointError>(Watched { checkpoints, running })
        });
        match taken.await {
            Ok(Ok(watched)) => Some(watched),
            Ok(Err(error)) => {
                tracing::warn!(%error, "what this call changes cannot be undone");
                None
            }
            Err(error) => {
                tracing::error!(%error, "the checkpoint failed because of a bug");
                None
            }
        }
    }

    async fn open(&self) -> Option<Arc<Checkpoints>> {
        let place = self.keeping.as_ref()?.place.clone();
        let opened = tokio::task::spawn_blocking(move || Checkpoints::open(&place)).await.ok()?;
        opened
            .inspect_err(|error| tracing::warn!(%error, "changes of this session cannot be undone"))
            .ok()
            .map(|(checkpoints, _)| Arc::new(checkpoints))
    }
}

impl Watched {
    /// Logs what the call changed, however it ended.
    pub(super) async fn finish(self) {
        let Self { checkpoints, running } = self;
        let finished = tokio::task::spawn_blocking(move || checkpoints.finish(running).map(drop)).await;
        if let Ok(Err(error)) = finished {
            tracing::warn!(%error, "what a call changed could not be logged");
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
        | Access::Agent { .. } => None,
    }
}
