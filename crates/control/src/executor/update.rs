//! Puts into force what an answer changes beside the call it is about, and keeps what is to last.
//! The judge's own state is changed here and nowhere else while calls run.

use super::{ExecEvent, call::Worker};
use ostler_proto::{Keep, Matter, Mode, Update};
use std::{path::PathBuf, sync::PoisonError};

impl Worker {
    /// Makes the changes that came with an answer, in order. One that cannot be made is said and left out.
    pub(super) async fn update(&self, updates: Vec<Update>) {
        for update in updates {
            let update = self.resolved(update).await;
            let before = self.shared.policy().mode;
            let done = self.policy_mut(|policy| policy.update(&update));
            if let Err(problem) = done {
                tracing::warn!(problem, "a change that came with an answer was not made");
                continue;
            }
            let now = self.shared.policy().mode;
            if now != before {
                self.report(ExecEvent::ModeChanged(now)).await;
            }
            if let Err(error) = self.shared.memory.keep_update(&update).await {
                tracing::warn!(%error, "a change that came with an answer holds for this session only");
            }
        }
    }

    /// The user has said yes to what a call put to them.
    pub(super) async fn settled(&self, matter: &Matter) {
        let changed = match matter {
            Matter::Questions(_) => None,
            Matter::EnterPlan => {
                self.policy_mut(|policy| policy.set_mode(Mode::Plan)).ok().map(|()| Mode::Plan)
            }
            Matter::LeavePlan { .. } => self.policy_mut(super::Policy::leave_plan),
        };
        if let Some(mode) = changed {
            self.report(ExecEvent::ModeChanged(mode)).await;
        }
    }

    /// Why the matter has no place now. What the user has seen has its place.
    pub(super) fn out_of_place(&self, matter: &Matter) -> Option<String> {
        let planning = self.shared.policy().mode == Mode::Plan;
        match matter {
            Matter::EnterPlan if planning => {
                Some("plan mode is on already: look around, plan, then call ExitPlanMode".to_owned())
            }
            Matter::LeavePlan { .. } if !planning => {
                Some("plan mode is not on, so there is nothing to leave: go on with the work".to_owned())
            }
            Matter::Questions(_) | Matter::EnterPlan | Matter::LeavePlan { .. } => None,
        }
    }

    pub(super) fn policy_mut<T>(&self, change: impl FnOnce(&mut super::Policy) -> T) -> T {
        change(&mut self.shared.policy.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same with directories as they really are; those that do not exist are left out.
    async fn resolved(&self, update: Update) -> Update {
        let Update::Directories { change, directories, keep } = update else { return update };
        let cwd = self.shared.cwd().clone();
        let mut found: Vec<PathBuf> = Vec::new();
        for directory in directories {
            let Some(text) = directory.to_str() else { continue };
            match self.shared.host.resolve(text, &cwd).await {
                Ok(fact) if fact.exists => found.push(fact.target),
                Ok(_) => tracing::warn!(directory = text, "a directory that does not exist is not added"),
                Err(error) => tracing::warn!(%error, "a directory cannot be added"),
            }
        }
        let keep = match keep {
            // A project's files cannot name directories outside it; see `settings::scope`.
            Keep::Local | Keep::Project => Keep::Session,
            keep @ (Keep::Session | Keep::User) => keep,
        };
        Update::Directories { change, directories: found, keep }
    }
}
