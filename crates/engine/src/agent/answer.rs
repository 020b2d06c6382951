//! One answer of the model: asking, taking it in while calls already run, and what happens when it
//! breaks off. Never sampled again over an effect; never a call without a result.

use super::{Agent, Reaction, millis};
use crate::{
    reply::{Reply, Whole},
    retry,
    turn::{Answer, Answering, Next, Phase},
};
use ostler_control::executor::Abandoned;
use ostler_model::{Action, ModelError};
use ostler_proto::{
    AgentEvent, Block, ErrorKind, ModelEvent, Request, SessionEvent, StopReason, SystemText, TurnOutcome,
};
use std::time::Duration;
use tokio::time::Instant;

impl Agent {
    /// Asks the model, unless a limit is reached.
    pub(super) async fn request(&mut self) -> Reaction {
        if let Some(outcome) = self.limit_reached() {
            return self.end(outcome).await;
        }
        self.tell_of_jobs().await?;
        self.tell_of_hooks().await?;
        let request = self.build_request();
        tracing::debug!(model = request.model, messages = request.messages.len(), "requesting");
        self.parts.executor.begin_answer();
        let stream = self.parts.chosen.provider.stream(request);
        self.parts.session.tell(AgentEvent::Requesting).await;
        if let Some(turn) = &mut self.turn {
            turn.phase = Phase::Answering(Box::new(Answering {
                stream,
                answer: Answer {
                    reply: Reply::default(),
                    began: Instant::now(),
                    recorded: false,
                    has_calls: false,
                },
            }));
        }
        Ok(())
    }

    pub(super) fn limit_reached(&self) -> Option<TurnOutcome> {
        let turn = self.turn.as_ref()?;
        let limits = &self.parts.limits;
        if let Some(limit) = limits.max_turns.filter(|limit| turn.round_trips >= *limit) {
            return Some(TurnOutcome::MaxTurns { limit });
        }
        if let Some(limit_usd) = self.spent_budget() {
            return Some(TurnOutcome::BudgetExhausted { limit_usd });
        }
        (turn.failed_calls >= limits.max_failed_calls).then(|| TurnOutcome::Failed {
            message: format!("the last {} tool calls all failed; the turn was stopped", turn.failed_calls),
        })
    }

    /// The budget, if it is used up.
    pub(super) fn spent_budget(&self) -> Option<f64> {
        self.parts.limits.max_budget_usd.filter(|limit| self.ledger.total_usd() >= *limit)
    }

    fn build_request(&self) -> Request {
        let row = &self.parts.chosen.row;
        let wanted = self.parts.limits.max_output_tokens.unwrap_or(u64::MAX);
        let state = self.parts.session.state();
        let sections = if state.system.is_empty() { &self.parts.system } else { &state.system };
        let system = sections.iter().filter(|text| !text.is_empty());
        Request {
            model: row.name.clone().unwrap_or_else(|| self.parts.chosen.name.clone()),
            system: system.map(|text| SystemText { text: text.clone(), cache: true }).collect(),
            tools: self.tools.clone(),
            messages: state.messages(),
            max_output_tokens: row.max_output_tokens.min(wanted),
            thinking: self.parts.limits.thinking,
            effort: self.parts.limits.effort,
        }
    }

    /// Takes in one piece of the answer, or its end.
    pub(super) async fn on_model(&mut self, item: Option<Result<ModelEvent, ModelError>>) -> Reaction {
        let Some(Phase::Answering(answering)) = self.turn.as_mut().map(|turn| &mut turn.phase) else {
            return Ok(());
        };
        let mut event = match item {
            Some(Ok(event)) => event,
            Some(Err(error)) => return self.on_broken_answer(error).await,
            None => return self.on_broken_answer(ended_early()).await,
        };
        if let ModelEvent::Started { message, .. } = &mut event
            && (message.is_empty() || self.parts.session.state().is_last_answer(message))
        {
            // Some servers give no id, or the same to every answer; blocks are told apart by it.
            *message = format!("msg_{}", uuid::Uuid::new_v4().simple());
        }
        let whole = answering.answer.reply.apply(&event);
        let done = matches!(event, ModelEvent::Done { .. });
        self.parts.session.tell(AgentEvent::Delta(event)).await;
        if let Some(whole) = whole {
            self.take_in(whole).await?;
        }
        if done { self.on_whole_answer().await } else { Ok(()) }
    }

    /// Records a whole block; a call is on disk before it may run.
    async fn take_in(&mut self, whole: Whole) -> Reaction {
        if let Whole::Call(call) = &whole
            && self.parts.session.state().has_call(&call.id)
        {
            // One id, one call: a repeated one could neither be run nor answered twice.
            tracing::warn!(call = %call.id, "the model used a call id twice; the second is ignored");
            return Ok(());
        }
        let Some(turn) = &mut self.turn else { return Ok(()) };
        let Phase::Answering(answering) = &mut turn.phase else { return Ok(()) };
        let answer = &mut answering.answer;
        if !answer.recorded {
            answer.recorded = true;
            turn.text.clear();
        }
        let (block, call) = match whole {
            Whole::Block(block) => (block, None),
            Whole::Call(call) => (Block::ToolUse(call.clone()), Some(call)),
        };
        if let Block::Text(text) = &block {
            if !turn.text.is_empty() {
                turn.text.push('\n');
            }
            turn.text.push_str(text);
        }
        let reply = &answer.reply;
        let event = SessionEvent::Replied {
            message: reply.message.clone(),
            model: reply.model.clone(),
            request: reply.request.clone(),
            block,
            usage: reply.usage,
        };
        answer.has_calls |= call.is_some();
        self.parts.session.record(event).await?;
        if let Some(call) = call {
            self.parts.executor.start(call);
        }
        Ok(())
    }

    async fn on_whole_answer(&mut self) -> Reaction {
        let Some(answer) = self.leave_answering() else { return Ok(()) };
        let again = answer.has_calls || answer.reply.stop == Some(StopReason::PauseTurn);
        self.book(&answer).await?;
        if let Some(turn) = &mut self.turn {
            turn.failed_attempts = 0;
            if !answer.recorded {
                turn.text.clear();
            }
            turn.stop.clone_from(&answer.reply.stop);
            if !again {
                turn.phase = Phase::Draining { then: Next::End(TurnOutcome::Completed) };
            }
        }
        self.advance().await
    }

    /// The answer will not be finished. What had an effect is kept; otherwise it counts for nothing.
    async fn on_broken_answer(&mut self, error: ModelError) -> Reaction {
        let Some(answer) = self.leave_answering() else { return Ok(()) };
        let abandoned = self.parts.executor.abandon().await;
        tracing::debug!(error = error.message, status = error.status, action = ?error.action, ?abandoned, "answer broke off");
        match abandoned {
            Abandoned::EffectBegan => self.book(&answer).await?,
            Abandoned::Yes => {
                let partial = answer.reply.partial_text();
                if answer.recorded || !partial.is_empty() {
                    let message = Some(answer.reply.message).filter(|id| !id.is_empty());
                    let reason = error.message.clone();
                    self.parts.session.record(SessionEvent::Dropped { message, reason, partial }).await?;
                }
            }
        }
        let then = self.after_failure(error).await;
        if let Some(turn) = &mut self.turn {
            turn.phase = Phase::Draining { then };
        }
        self.advance().await
    }

    async fn after_failure(&mut self, error: ModelError) -> Next {
        let Some(turn) = &mut self.turn else { return Next::Request };
        let max_attempts = self.parts.limits.max_retries;
        let Action::Retry { after } = error.action else { return Next::End(outcome_of(error)) };
        if turn.failed_attempts >= max_attempts {
            return Next::End(outcome_of(error));
        }
        turn.failed_attempts += 1;
        let attempt = turn.failed_attempts;
        let pause = retry::delay(attempt, self.parts.limits.retry_base, after, fastrand::f64());
        let event = AgentEvent::Retrying {
            attempt,
            max_attempts,
            delay_ms: millis(pause),
            status: error.status,
            kind: error.kind,
            message: error.message,
        };
        self.parts.session.tell(event).await;
        Next::Wait(pause)
    }

    /// Ends the turn as soon as every open call has its result.
    pub(super) async fn stop(&mut self, outcome: TurnOutcome) -> Reaction {
        if self.turn.is_none() {
            return Ok(());
        }
        self.parts.executor.cancel();
        if let Some(answer) = self.leave_answering() {
            let partial = answer.reply.partial_text();
            let unfinished = (!partial.is_empty()).then(|| SessionEvent::Replied {
                message: answer.reply.message.clone(),
                model: answer.reply.model.clone(),
                request: answer.reply.request.clone(),
                block: Block::text(partial.clone()),
                usage: answer.reply.usage,
            });
            if let Some(event) = unfinished {
                self.parts.session.record(event).await?;
            }
            self.book(&answer).await?;
        }
        if let Some(turn) = &mut self.turn {
            turn.phase = Phase::Draining { then: Next::End(outcome) };
        }
        self.advance().await
    }

    /// Takes the answer out of the turn; dropping its stream cancels the request.
    fn leave_answering(&mut self) -> Option<Answer> {
        let turn = self.turn.as_mut()?;
        if !matches!(turn.phase, Phase::Answering(_)) {
            return None;
        }
        let drained = Phase::Draining { then: Next::Request };
        let Phase::Answering(answering) = std::mem::replace(&mut turn.phase, drained) else {
            return None;
        };
        turn.waited_for_model += answering.answer.began.elapsed();
        Some(answering.answer)
    }

    /// Books an answer that was begun, whole or not.
    async fn book(&mut self, answer: &Answer) -> Reaction {
        let reply = &answer.reply;
        if reply.message.is_empty() {
            return Ok(());
        }
        let chosen = &self.parts.chosen;
        let cost_usd = self.ledger.book(&chosen.name, &chosen.row, reply.usage);
        if let Some(turn) = &mut self.turn {
            turn.round_trips += 1;
            turn.usage.add(reply.usage);
        }
        let event = SessionEvent::Sampled {
            message: reply.message.clone(),
            model: reply.model.clone(),
            stop: reply.stop.clone(),
            usage: reply.usage,
            cost_usd,
            duration_ms: millis(answer.began.elapsed()),
        };
        self.parts.session.record(event).await?;
        Ok(())
    }
}

fn ended_early() -> ModelError {
    ModelError {
        action: Action::Retry { after: Some(Duration::ZERO) },
        kind: ErrorKind::ServerError,
        status: None,
        message: "the answer broke off".to_owned(),
        request: None,
    }
}

fn outcome_of(error: ModelError) -> TurnOutcome {
    let mut message = error.message;
    if error.action == Action::Compact {
        message.push_str(
            " (the conversation is too long for this model: start a new session, or choose a model with a larger context)",
        );
    }
    TurnOutcome::ApiError { status: error.status, kind: error.kind, message }
}
