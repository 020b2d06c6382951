//! What the user says while the agent works: it goes along with the next request between two rounds of
//! calls, or starts a turn of its own. Recorded before the model reads it, in the order it was said.

use super::{Agent, Reaction};
use crate::{commands, session::LogError};
use ostler_control::hooks::plain;
use ostler_proto::{
    AgentEvent, Block, Command, EntryId, Query, Queued, SessionEvent, TurnOutcome, Why, Wording,
};
use serde_json::json;

/// Something the user said that waits.
pub(super) struct Prompt {
    pub(super) content: Vec<Block>,
    pub(super) id: Option<EntryId>,
    pub(super) wording: Wording,
    pub(super) leads_to: LeadsTo,
    /// How its turn ends, if a hook will not have it.
    pub(super) refused: Option<TurnOutcome>,
}

/// What a prompt leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeadsTo {
    Turn,
    /// It is only kept for whatever comes next.
    Nothing,
}

impl Prompt {
    pub(super) fn new(content: Vec<Block>, id: Option<EntryId>, wording: Wording, leads_to: LeadsTo) -> Self {
        Self { content, id, wording, leads_to, refused: None }
    }

    fn is_command(&self) -> bool {
        self.wording == Wording::Typed
            && self.leads_to == LeadsTo::Turn
            && commands::find(&self.content).is_some()
    }
}

impl Agent {
    /// Takes up the next thing that was said, if nothing is being worked on.
    pub(super) async fn start_next_turn(&mut self) -> Reaction {
        while self.turn.is_none() {
            let Some(prompt) = self.queue.pop_front() else { return Ok(()) };
            match prompt.leads_to {
                LeadsTo::Turn => return self.start_turn(prompt).await,
                LeadsTo::Nothing => self.append(prompt).await?,
            }
        }
        Ok(())
    }

    /// Lets what was said since the last request go along with the next. Gives how the turn ends if it does.
    pub(super) async fn fold_queue(&mut self) -> Result<Option<TurnOutcome>, LogError> {
        let is_between_rounds = self.turn.as_ref().is_some_and(|turn| turn.rounds.next() == Why::Results);
        while is_between_rounds
            && let Some(mut prompt) =
                self.queue.pop_front_if(|prompt| !prompt.is_command() && prompt.refused.is_none())
        {
            let ended = self.hooks_on_prompt(&prompt.content).await?;
            if let Some(outcome) = ended {
                let interrupted = matches!(outcome, TurnOutcome::Interrupted { .. });
                prompt.refused = (!interrupted).then(|| outcome.clone());
                self.queue.push_front(prompt);
                return Ok(interrupted.then_some(outcome));
            }
            self.record_prompt(prompt).await?;
            if let Some(turn) = &mut self.turn {
                turn.rounds.because(Why::Queue);
                turn.watch.reset();
            }
        }
        Ok(None)
    }

    /// Says which prompts wait, after calling them off if that is wanted.
    pub(super) async fn acknowledge(&mut self, command: Command) {
        let Command::Query { id, query: Query::Interrupt { queued } } = command else { return };
        let said = self.queue.iter().filter(|prompt| prompt.leads_to == LeadsTo::Turn);
        let mut ids: Vec<EntryId> = said.filter_map(|prompt| prompt.id.clone()).collect();
        let arriving = self.waiting.iter().filter_map(|command| match command {
            Command::Prompt { id, .. } => id.clone(),
            Command::Append { .. }
            | Command::Answer { .. }
            | Command::SetHooks(_)
            | Command::SetPlanInstructions(_)
            | Command::AnswerHook { .. }
            | Command::Query { .. }
            | Command::SetMode(_)
            | Command::SetModel(_)
            | Command::StopJob(_)
            | Command::Interrupt
            | Command::Close => None,
        });
        ids.extend(arriving);
        let answer = match queued {
            Queued::Keep => json!({"still_queued": ids}),
            Queued::Cancel => {
                self.queue.retain(|prompt| prompt.leads_to == LeadsTo::Nothing);
                self.waiting.retain(|command| !matches!(command, Command::Prompt { .. }));
                json!({"still_queued": [], "cancelled": ids})
            }
        };
        self.parts.session.tell(AgentEvent::Answered { id, answer: Ok(answer) }).await;
    }

    async fn start_turn(&mut self, mut prompt: Prompt) -> Reaction {
        // Hooks hear of the prompt by the id it will have in the transcript.
        let id = prompt.id.get_or_insert_with(|| self.parts.deck.id());
        self.parts.executor.set_prompt(id.clone());
        self.begin_turn().await?;
        if let Some(outcome) = prompt.refused.take().or_else(|| self.stopped_by_hook()) {
            return self.end(outcome).await;
        }
        if prompt.is_command()
            && let Some((builtin, arguments)) = commands::find(&prompt.content)
        {
            return self.carry_out(builtin, arguments, prompt.id).await;
        }
        if let Some(outcome) = self.hooks_on_prompt(&prompt.content).await? {
            return self.end(outcome).await;
        }
        self.tell_of_files().await?;
        self.record_prompt(prompt).await?;
        self.advance().await
    }

    /// Adds to the conversation and leaves it at that.
    async fn append(&mut self, prompt: Prompt) -> Reaction {
        self.open().await?;
        match self.hooks_on_prompt(&prompt.content).await? {
            None => self.record_prompt(prompt).await,
            Some(TurnOutcome::Failed { message } | TurnOutcome::HookStopped { reason: message }) => {
                self.parts.session.tell(AgentEvent::Notice { text: message }).await;
                Ok(())
            }
            Some(
                TurnOutcome::Completed
                | TurnOutcome::MaxTurns { .. }
                | TurnOutcome::BudgetExhausted { .. }
                | TurnOutcome::Interrupted { .. }
                | TurnOutcome::PromptTooLong { .. }
                | TurnOutcome::ApiError { .. },
            ) => Ok(()),
        }
    }

    async fn record_prompt(&mut self, prompt: Prompt) -> Reaction {
        let Prompt { mut content, id, .. } = prompt;
        let opening = self.opening.take().map(|text| Block::text(plain(&text)));
        content.splice(0..0, opening);
        let title: String = content.iter().filter_map(Block::as_text).collect::<Vec<_>>().join(" ");
        let event = SessionEvent::Prompted { content, meta: false };
        let id = match id {
            Some(id) => self.parts.session.record_as(id, event).await?,
            None => self.parts.session.record(event).await?,
        };
        self.parts.executor.prompted(id, title);
        Ok(())
    }
}

/// Whether a command ends the turn at once.
pub(super) fn is_interrupt(command: &Command) -> bool {
    matches!(command, Command::Interrupt | Command::Query { query: Query::Interrupt { .. }, .. })
}
