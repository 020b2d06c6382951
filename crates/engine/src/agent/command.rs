//! What the user, or a frontend for them, asks of the engine itself.

use super::{Agent, Reaction, compact::Attempts, limit::of_next_session};
use crate::{
    commands::{self, Builtin, Outcome},
    context::audit::Auditor,
    session::LogError,
    spawn::Origin,
};
use ostler_proto::{AgentEvent, Command, EntryId, Query, SessionEvent, SessionId, TurnOutcome};

impl Agent {
    /// Carries out a command; it is a turn without the model.
    pub(super) async fn carry_out(
        &mut self,
        builtin: &'static Builtin,
        arguments: String,
        id: Option<EntryId>,
    ) -> Reaction {
        let (output, figures) = match (builtin.run)(self, &arguments).await? {
            Outcome::Said(output) => (output, None),
            Outcome::Counted { output, figures } => (output, Some(figures)),
            Outcome::StartOver => (self.start_over(id.clone()).await?, None),
        };
        if let Some(turn) = &mut self.turn {
            turn.text.clone_from(&output);
        }
        let event = SessionEvent::Commanded { name: builtin.name.to_owned(), arguments, output, figures };
        match id {
            Some(id) => self.parts.session.record_as(id, event).await?,
            None => self.parts.session.record(event).await?,
        };
        self.end(TurnOutcome::Completed).await
    }

    /// Ends the conversation in good order and begins another; says how to come back.
    async fn start_over(&mut self, prompt: Option<EntryId>) -> Result<String, LogError> {
        self.tell_hooks_of_end("clear").await?;
        let session = &mut self.parts.session;
        session.close()?;
        let old = session.id().clone();
        let to = SessionId(self.parts.deck.id().as_str().to_owned());
        session.tell(AgentEvent::Reset { to: to.clone(), prompt }).await;
        session.begin_anew(to.clone());
        let transcript = session.transcript().map(std::path::Path::to_path_buf);
        let way_back = match transcript {
            Some(_) => format!(" The last one: ostler --resume {old}"),
            None => String::new(),
        };
        self.parts.executor.enter(&to, transcript);
        self.unheard.clear();
        self.auditor = Auditor::after(None);
        self.attempts = Attempts::default();
        self.ledger.start_over();
        self.budget = of_next_session(&self.parts.limits, &self.budget);
        self.look_up_plan();
        self.opened = false;
        self.origin = Origin::Cleared;
        self.open().await?;
        Ok(format!("A new conversation begins.{way_back}"))
    }

    /// Answers a frontend's question, at any time.
    pub(super) async fn on_query(&mut self, id: String, query: Query) -> Reaction {
        let answer = match query {
            Query::Context => Ok(self.context_usage().to_json()),
            Query::Interrupt { .. } => {
                self.acknowledge(Command::Query { id, query }).await;
                return self.stop(self.interrupted()).await;
            }
            Query::RewindFiles { to, trial } => commands::rewind_files(self, &to, trial).await,
        };
        self.parts.session.tell(AgentEvent::Answered { id, answer }).await;
        Ok(())
    }
}
