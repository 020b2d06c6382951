//! Commands in the background as the conversation meets them: frontends see each change, the model is told
//! of an end before its next answer, and an idle agent wakes up for it.

use super::{Agent, Reaction};
use crate::{context::reminder, session::LogError, spawn::Lifetime};
use ostler_proto::{AgentEvent, Job, SessionEvent};

impl Agent {
    /// A job began or ended.
    pub(super) async fn on_job(&mut self, job: Job) -> Reaction {
        self.show_job(job).await;
        let is_idle = self.turn.is_none() && !self.closing;
        let may_wake = self.parts.limits.lifetime == Lifetime::Conversation && !self.budget.is_spent();
        if is_idle && may_wake && self.parts.executor.has_unheard_jobs() {
            self.begin_turn().await?;
            return self.advance().await;
        }
        Ok(())
    }

    /// Tells the model what ended since it was last told.
    pub(super) async fn tell_of_jobs(&mut self) -> Reaction {
        let jobs = self.parts.executor.take_unheard_jobs();
        if jobs.is_empty() {
            return Ok(());
        }
        let content = jobs.iter().map(|job| reminder::note(&note(job))).collect();
        self.parts.session.record(SessionEvent::Prompted { content, meta: true }).await?;
        Ok(())
    }

    /// Stops what still runs. The model learns of it when the session is taken up again.
    pub(super) async fn end_jobs(&mut self) -> Result<Vec<Job>, LogError> {
        let stopped = self.parts.executor.stop_jobs().await;
        while let Some(job) = self.parts.executor.pending_job_change() {
            self.show_job(job).await;
        }
        if self.opened {
            self.tell_of_jobs().await?;
        }
        if !stopped.is_empty() {
            let what: Vec<&str> = stopped.iter().map(|job| job.description.as_str()).collect();
            let text = format!("background commands were stopped with the session: {}", what.join(", "));
            self.parts.session.tell(AgentEvent::Notice { text }).await;
        }
        Ok(stopped)
    }

    async fn show_job(&mut self, job: Job) {
        self.parts.session.tell(AgentEvent::JobChanged { job, at_ms: self.parts.deck.now().wall_ms }).await;
    }
}

fn note(job: &Job) -> String {
    let file = match &job.output {
        Some(path) => format!(" All its output is in {}.", path.display()),
        None => String::new(),
    };
    format!(
        "[{} after {} s. TaskOutput with task_id {} shows what it printed.{file}]",
        job.summary(),
        job.ran_for_ms / 1000,
        job.id
    )
}
