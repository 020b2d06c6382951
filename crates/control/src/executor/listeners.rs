//! The hooks of one session: fires them with what is known of it, and owns those nobody waits for.
//! It hands on what they say; what is made of it is for whoever fired.

use crate::hooks::{Common, Fired, Hooks, Late, Occasion};
use ostler_proto::{CallId, HookEvent, HookRecord, Mode, SessionId};
use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::task::JoinSet;

/// What hooks are told of the session, whenever they fire.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Its id.
    pub session: SessionId,
    /// Its transcript, if it is written.
    pub transcript: Option<PathBuf>,
    /// How hard the model tries.
    pub effort: Option<String>,
}

/// The hooks in force in a session.
pub struct SessionHooks {
    hooks: Hooks,
    facts: Facts,
    background: Mutex<JoinSet<Late>>,
}

impl SessionHooks {
    /// These hooks, for this session.
    pub fn new(hooks: Hooks, facts: Facts) -> Self {
        Self { hooks, facts, background: Mutex::default() }
    }

    /// Whether anything would listen.
    pub fn listen_to(&self, event: HookEvent) -> bool {
        self.hooks.listen_to(event)
    }

    /// How long the end of the session may wait for them.
    pub fn time_at_end(&self) -> Duration {
        self.hooks.time_at_end()
    }

    /// For the log, when the session is opened.
    pub fn record(&self) -> HookRecord {
        self.hooks.record()
    }

    /// Fires, and says what the log must keep of it.
    pub async fn fire(
        &self,
        (cwd, mode): (PathBuf, Mode),
        occasion: &Occasion,
        call: Option<CallId>,
    ) -> (Fired, HookRecord) {
        let common = Common {
            session_id: self.facts.session.clone(),
            transcript_path: self.facts.transcript.clone(),
            cwd,
            permission_mode: mode,
            prompt_id: None,
            effort: self.facts.effort.clone(),
            agent: None,
        };
        let firing = self.hooks.fire(&common, occasion).await;
        for late in firing.background {
            self.background.lock().unwrap_or_else(PoisonError::into_inner).spawn(late);
        }
        let record = firing.fired.record(occasion, call);
        (firing.fired, record)
    }

    /// What hooks in the background had to say that is done since this was last asked.
    pub fn take_late(&self) -> Vec<Late> {
        let mut background = self.background.lock().unwrap_or_else(PoisonError::into_inner);
        // One that was aborted or failed by a bug has nothing to say, and decides nothing.
        std::iter::from_fn(|| background.try_join_next()).flatten().collect()
    }
}
