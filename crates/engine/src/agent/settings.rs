//! Settings that changed while the session runs: hooks may keep them out, otherwise they are in force from the
//! next answer on, hooks included. Reading them is control's.

use super::{Agent, hook::Heard};
use crate::session::LogError;
use ostler_control::hooks::{Occasion, plain};
use ostler_proto::{AgentEvent, TurnOutcome, Verdict};

impl Agent {
    /// Takes changed settings over; gives how the turn ends if the user did not want to wait for hooks.
    pub(super) async fn renew_settings(&mut self) -> Result<Option<TurnOutcome>, LogError> {
        let Some(renewal) = self.parts.executor.changed_settings() else { return Ok(None) };
        let mut objection = None;
        for file in renewal.files.clone() {
            let occasion = Occasion::config_change(&file.source, &file.path);
            let Heard::Word(fired) = self.ask_hooks(&occasion).await? else {
                self.parts.executor.postpone(renewal);
                return Ok(Some(TurnOutcome::Interrupted { during_tools: false }));
            };
            if let Some(Verdict::Deny { reason, .. }) = fired.verdict {
                objection.get_or_insert(reason);
            }
        }
        // The owner's policy is in force whatever anybody says.
        let may_refuse = !renewal.files.iter().any(|file| file.is_policy);
        if let Some(reason) = objection.filter(|_| may_refuse) {
            self.parts.executor.refuse(renewal);
            let text = format!("changed settings are not used, because a hook objects: {}", plain(&reason));
            self.parts.session.tell(AgentEvent::Notice { text }).await;
            return Ok(None);
        }
        match self.parts.executor.take_over(renewal) {
            Ok(Some(record)) => self.record_hooks(record).await?,
            Ok(None) => {}
            Err(problem) => {
                let text = format!("changed settings are not used: {problem}");
                self.parts.session.tell(AgentEvent::Notice { text }).await;
            }
        }
        Ok(None)
    }
}
