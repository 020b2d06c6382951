//! One answer of the model: asking, taking it in while calls already run, and what happens when it
//! breaks off. Never sampled again over an effect; never a call without a result.

use super::{Agent, Reaction, circle::Onward, millis, recover::ended_early};
use crate::{
    reply::Whole,
    turn::{Answer, Answering, Next, Phase},
    world::model,
};
use ostler_control::{
    executor::{Abandoned, Cause},
    hooks::plain,
};
use ostler_model::ModelError;
use ostler_proto::{AgentEvent, Block, ModelEvent, Request, SessionEvent, TurnOutcome, Usage, Why};

impl Agent {
    /// Asks the model, unless a limit is reached or somebody must be asked first.
    pub(super) async fn request(&mut self) -> Reaction {
        if let Some(outcome) = self.stopped_by_hook().or_else(|| self.limit_reached()) {
            return self.end(outcome).await;
        }
        if self.look_for_circles().await? == Onward::WhenAllowed {
            return Ok(());
        }
        if let Some(outcome) = self.fold_queue().await? {
            return self.end(outcome).await;
        }
        if let Some(outcome) = self.renew_settings().await? {
            return self.end(outcome).await;
        }
        let no_room = self.make_room().await?;
        if let Some(outcome) = self.stopped_by_hook().or(no_room) {
            return self.end(outcome).await;
        }
        self.tell_of_limits(self.leave()).await?;
        let request = self.next_request().await?;
        match (request, self.stopped_by_hook()) {
            (_, Some(outcome)) | (Err(outcome), None) => self.end(outcome).await,
            (Ok(request), None) => {
                self.send(request).await;
                Ok(())
            }
        }
    }

    async fn send(&mut self, mut request: Request) {
        self.shorten(&mut request);
        tracing::debug!(model = request.model, messages = request.messages.len(), "requesting");
        self.parts.executor.begin_answer();
        let stream = model::stream(&self.parts.deck, &self.parts.chosen, request);
        let answer = Answer::new(self.parts.deck.now());
        let Some(turn) = &mut self.turn else { return };
        let round = turn.rounds.begin();
        turn.phase = Phase::Answering(Box::new(Answering { stream, answer }));
        if round.why != Why::Prompt {
            self.parts.session.tell(AgentEvent::WentRound(round)).await;
        }
        self.parts.session.tell(AgentEvent::Requesting).await;
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
            *message = format!("msg_{}", self.parts.deck.id().as_str().replace('-', ""));
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
        if matches!(whole, Whole::Call(_)) && turn.spending.closing.is_some() {
            tracing::debug!("a call in a closing message is not run");
            return Ok(());
        }
        let Phase::Answering(answering) = &mut turn.phase else { return Ok(()) };
        let answer = &mut answering.answer;
        let goes_on = turn.rounds.now() == Why::OutputLimit;
        let is_first = !answer.recorded;
        answer.recorded = true;
        if is_first && !goes_on {
            turn.text.clear();
        }
        let (block, call) = match whole {
            Whole::Block(block) => (block, None),
            Whole::Call(call) => (Block::ToolUse(call.clone()), Some(call)),
        };
        if let Block::Text(text) = &block {
            // What goes on was cut in the middle of a line.
            let joins = is_first && goes_on;
            if !joins && !turn.text.is_empty() {
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
        answer.has_whole_calls |= call.as_ref().is_some_and(|call| call.problem.is_none());
        self.parts.session.record(event).await?;
        if let Some(call) = call {
            self.parts.executor.start(call);
        }
        Ok(())
    }

    async fn on_whole_answer(&mut self) -> Reaction {
        let Some(answer) = self.leave_answering() else { return Ok(()) };
        self.book(&answer).await?;
        self.note_answered();
        if let Some(turn) = &mut self.turn {
            if !answer.recorded && turn.rounds.now() != Why::OutputLimit {
                turn.text.clear();
            }
            turn.stop.clone_from(&answer.reply.stop);
        }
        let then = self.after_answer(&answer).await?;
        if let Some(turn) = &mut self.turn {
            turn.phase = Phase::Draining { then };
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
            Abandoned::Yes => self.drop_answer(answer, &error).await?,
        }
        let then = self.after_failure(error).await?;
        if let Some(turn) = &mut self.turn {
            turn.phase = Phase::Draining { then };
        }
        self.advance().await
    }

    /// Records that an answer counts for nothing, save that it is paid for.
    async fn drop_answer(&mut self, answer: Answer, error: &ModelError) -> Reaction {
        if let Some(turn) = &mut self.turn {
            turn.watch.forget_round();
        }
        let partial = answer.reply.partial_text();
        let usage = answer.reply.usage;
        if !answer.recorded && partial.is_empty() && usage == Usage::default() {
            return Ok(());
        }
        let cost_usd = self.charge(usage, 0);
        let message = Some(answer.reply.message).filter(|id| !id.is_empty());
        let reason = error.message.clone();
        let event = SessionEvent::Dropped { message, reason, partial, usage, cost_usd };
        self.parts.session.record(event).await?;
        Ok(())
    }

    /// Ends the turn as soon as every open call has its result.
    pub(super) async fn stop(&mut self, outcome: TurnOutcome) -> Reaction {
        if self.turn.is_none() {
            return Ok(());
        }
        self.parts.executor.cancel(cause(&outcome));
        if let Some(Phase::Asking { ask, .. }) = self.turn.as_ref().map(|turn| &turn.phase) {
            let event = AgentEvent::AskWithdrawn { ask: *ask };
            self.parts.session.tell(event).await;
        }
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
        turn.waited_for_model += self.parts.deck.since(answering.answer.began);
        Some(answering.answer)
    }

    /// Books an answer that was begun, whole or not.
    async fn book(&mut self, answer: &Answer) -> Reaction {
        let reply = &answer.reply;
        if reply.message.is_empty() {
            return Ok(());
        }
        let cost_usd = self.charge(reply.usage, 1);
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
            duration_ms: millis(self.parts.deck.since(answer.began)),
            request: self.auditor.answered(),
        };
        self.parts.session.record(event).await?;
        Ok(())
    }
}

/// Why calls that are still open are called off when a turn ends so.
fn cause(outcome: &TurnOutcome) -> Cause {
    match outcome {
        TurnOutcome::HookStopped { reason } => Cause::Hook(plain(reason)),
        TurnOutcome::BudgetExhausted { .. } => Cause::Time,
        TurnOutcome::Failed { message }
        | TurnOutcome::ApiError { message, .. }
        | TurnOutcome::PromptTooLong { message, .. } => Cause::Failure(message.clone()),
        TurnOutcome::Interrupted { .. } | TurnOutcome::Completed | TurnOutcome::MaxTurns { .. } => {
            Cause::User
        }
    }
}
