//! What follows when an answer failed or stopped short: asked again, gone on with, asked of another model,
//! or given up with an honest word. Every way is bounded, and how far it was gone is data of the turn.

use super::{Agent, Reaction, millis};
use crate::{
    retry,
    session::LogError,
    turn::{Answer, Next},
    world::model,
};
use ostler_model::{Action, ModelError};
use ostler_proto::{
    AgentEvent, Block, ErrorKind, SessionEvent, StopReason, TurnOutcome, Why, session::ModelChange,
};
use std::time::Duration;

/// Failures of the server in a row before another model is asked.
const OVERLOADS: u32 = 3;
/// How often an answer that hit the output limit may go on.
const CONTINUATIONS: u32 = 3;
/// How often a server may break an answer to go on later.
const PAUSES: u32 = 8;

const GO_ON: &str = "[Your answer hit the output limit and was cut off. Go on from exactly where it stopped: repeat nothing, add no introduction. If much is left, give it in smaller parts.]";
const REFUSED: &str = "[Your last answer was withheld: it stopped with a refusal. If part of the task can be done, do that part; otherwise say briefly what you cannot help with.]";

impl Agent {
    /// What comes after an answer that broke off or never came. A conversation that is too long for the model
    /// ends the turn here; whoever can make it shorter does so before.
    pub(super) async fn after_failure(&mut self, error: ModelError) -> Result<Next, LogError> {
        let Some(turn) = &mut self.turn else { return Ok(Next::Request) };
        if let Some(outcome) = turn.spending.closing.take() {
            return Ok(Next::End(outcome));
        }
        let max_attempts = self.parts.limits.max_retries;
        let recovery = &mut turn.recovery;
        let is_servers_fault =
            error.kind == ErrorKind::Overloaded || error.status.is_some_and(|status| status >= 500);
        recovery.overloads = if is_servers_fault { recovery.overloads + 1 } else { 0 };
        let attempts = recovery.attempts;
        let is_worn_out = match &error.action {
            Action::Retry { .. } => recovery.overloads >= OVERLOADS || attempts >= max_attempts,
            Action::Compact | Action::LogIn | Action::GiveUp => error.kind == ErrorKind::ModelNotFound,
        };
        if error.action == Action::Compact {
            turn.rounds.because(Why::Compaction);
        }
        if is_worn_out && self.fall_back(&error).await? {
            return Ok(Next::Request);
        }
        match error.action {
            Action::Retry { after } if attempts < max_attempts => Ok(self.retry(after, error).await),
            Action::Compact => {
                self.note_too_long(error);
                Ok(Next::Request)
            }
            Action::Retry { .. } | Action::LogIn | Action::GiveUp => Ok(Next::End(outcome_of(error))),
        }
    }

    /// What comes after a whole answer, by the way it stopped.
    pub(super) async fn after_answer(&mut self, answer: &Answer) -> Result<Next, LogError> {
        let Some(turn) = &mut self.turn else { return Ok(Next::Request) };
        let stop = answer.reply.stop.as_ref();
        let is_cut_off = stop == Some(&StopReason::MaxTokens) && !answer.has_whole_calls;
        turn.recovery.answered(stop, is_cut_off);
        let (pauses, refusals) = (turn.recovery.pauses, turn.recovery.refusals);
        if let Some(outcome) = turn.spending.closing.take() {
            return Ok(Next::End(outcome));
        }
        if is_cut_off {
            return self.go_on(answer).await;
        }
        if answer.has_calls {
            return Ok(Next::Request);
        }
        match stop {
            Some(StopReason::PauseTurn) if pauses <= PAUSES => {
                turn.rounds.because(Why::Pause);
                Ok(Next::Request)
            }
            Some(StopReason::PauseTurn) => Ok(gave_up(
                ErrorKind::ServerError,
                format!("the server paused its answer {pauses} times in a row without coming to an end; try again later"),
            )),
            Some(StopReason::Refusal) if refusals == 1 => self.nudge(REFUSED, Why::Refusal).await,
            Some(StopReason::Refusal) => Ok(gave_up(
                ErrorKind::Unknown,
                "the model will not answer this (stop reason refusal); put it another way, or choose another model with /model or --model".to_owned(),
            )),
            Some(StopReason::ContextExceeded) => {
                // A request ends with the user's side, also after what the model had begun to say.
                self.nudge(GO_ON, Why::OutputLimit).await?;
                self.after_failure(context_is_full()).await
            }
            Some(
                StopReason::EndTurn
                | StopReason::ToolUse
                | StopReason::MaxTokens
                | StopReason::StopSequence
                | StopReason::Other(_),
            )
            | None => Ok(Next::End(TurnOutcome::Completed)),
        }
    }

    /// The model of the user's choice comes back after a turn with another.
    pub(super) async fn restore_model(&mut self) -> Reaction {
        let Some(first) = self.first_choice.take() else { return Ok(()) };
        let model = first.name.clone();
        self.parts.chosen = first;
        let because = ModelChange::Restored;
        self.parts.session.record(SessionEvent::ModelChanged { model, because }).await?;
        Ok(())
    }

    async fn retry(&mut self, after: Option<Duration>, error: ModelError) -> Next {
        let Some(turn) = &mut self.turn else { return Next::Request };
        turn.recovery.attempts += 1;
        turn.rounds.because(Why::Retry);
        let attempt = turn.recovery.attempts;
        let pause = retry::delay(attempt, self.parts.limits.retry_base, after, self.parts.deck.chance());
        let event = AgentEvent::Retrying {
            attempt,
            max_attempts: self.parts.limits.max_retries,
            delay_ms: millis(pause),
            status: error.status,
            kind: error.kind,
            message: error.message,
        };
        self.parts.session.tell(event).await;
        Next::Wait(pause)
    }

    /// Turns to the next model of the list, if there is one.
    async fn fall_back(&mut self, error: &ModelError) -> Result<bool, LogError> {
        while let Some(turn) = &mut self.turn
            && let Some(name) = self.parts.limits.fallback.get(turn.recovery.fallbacks)
        {
            turn.recovery.fallbacks += 1;
            let chosen = match model::choose(&self.parts.deck, self.parts.models.as_ref(), name) {
                Ok(chosen) if chosen.name == self.parts.chosen.name => continue,
                Ok(chosen) => chosen,
                Err(problem) => {
                    let text = format!("the fallback model {name} cannot be used: {problem}");
                    self.parts.session.tell(AgentEvent::Notice { text }).await;
                    continue;
                }
            };
            turn.recovery.attempts = 0;
            turn.recovery.overloads = 0;
            turn.rounds.because(Why::Fallback);
            let model = chosen.name.clone();
            let first = std::mem::replace(&mut self.parts.chosen, chosen);
            let text = format!("{}; {model} is asked instead of {} in this turn", error.message, first.name);
            self.first_choice.get_or_insert(first);
            let because = ModelChange::Fallback { reason: error.message.clone() };
            self.parts.session.record(SessionEvent::ModelChanged { model, because }).await?;
            self.parts.session.tell(AgentEvent::Notice { text }).await;
            self.tell_of_unknown_price().await;
            return Ok(true);
        }
        Ok(false)
    }

    /// An answer hit the output limit before it came to anything.
    async fn go_on(&mut self, answer: &Answer) -> Result<Next, LogError> {
        let Some(turn) = &mut self.turn else { return Ok(Next::Request) };
        let times = turn.recovery.cut_off;
        if times > CONTINUATIONS {
            return Ok(gave_up(
                ErrorKind::MaxOutputTokens,
                format!(
                    "the answer exceeded the output token maximum {times} times in a row; ask for less at a time, or allow longer answers (CLAUDE_CODE_MAX_OUTPUT_TOKENS)"
                ),
            ));
        }
        if answer.has_calls {
            // The half call's result says that it was cut off.
            turn.rounds.because(Why::OutputLimit);
            return Ok(Next::Request);
        }
        self.nudge(GO_ON, Why::OutputLimit).await
    }

    /// Says something to the model in our own name and asks it again.
    async fn nudge(&mut self, words: &str, why: Why) -> Result<Next, LogError> {
        let content = vec![Block::text(words)];
        self.parts.session.record(SessionEvent::Prompted { content, meta: true }).await?;
        if let Some(turn) = &mut self.turn {
            turn.rounds.because(why);
        }
        Ok(Next::Request)
    }
}

/// A stream that ended without a last word.
pub(super) fn ended_early() -> ModelError {
    ModelError {
        action: Action::Retry { after: Some(Duration::ZERO) },
        kind: ErrorKind::ServerError,
        status: None,
        message: "the answer broke off".to_owned(),
        request: None,
    }
}

/// A conversation that left no room for the answer.
fn context_is_full() -> ModelError {
    ModelError {
        action: Action::Compact,
        kind: ErrorKind::InvalidRequest,
        status: None,
        message: "the conversation filled the model's context window before the answer was whole".to_owned(),
        request: None,
    }
}

fn gave_up(kind: ErrorKind, message: String) -> Next {
    Next::End(TurnOutcome::ApiError { status: None, kind, message })
}

fn outcome_of(error: ModelError) -> TurnOutcome {
    TurnOutcome::ApiError { status: error.status, kind: error.kind, message: error.message }
}
