//! Makes the conversation shorter when it is nearly full, when a model refuses it as too long, or when the user
//! says so. Nothing is recorded before all of it is known, so that whatever goes wrong on the way leaves the
//! conversation as it was.

mod carry;
mod summary;

use super::{Agent, Reaction, hook::Heard, millis};
use crate::{
    budget::Leave,
    compaction::{self, Cut, Futile, Room, Survey},
    session::{LogError, shorten},
    tokens,
    world::source::Moment,
};
use ostler_control::hooks::{Occasion, plain};
use ostler_model::ModelError;
use ostler_proto::{
    AgentEvent, Command, Compaction, Message, Pruned, Role, SessionEvent, Trigger, TurnOutcome, Usage,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use summary::Got;

/// Whether and when the conversation is compacted without being told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoCompact {
    /// Whether it is done near the limit. A model that refuses a request as too long is heeded regardless.
    pub enabled: bool,
    /// Tokens to count on instead of the model's own window, where they are fewer.
    pub window: Option<u64>,
}

/// What an agent remembers about compacting from one request to the next.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// The model refused the conversation as too long.
    refused: Option<ModelError>,
    /// It was made shorter for that reason since the last whole answer.
    reacted: bool,
    /// The fill at which it could not be made shorter: before it has grown there is no point in trying again.
    in_vain_at: Option<u64>,
}

/// What came of compacting.
pub(crate) enum Outcome {
    /// The conversation is shorter: tokens before and after.
    Shorter { before: u64, after: u64 },
    /// It stays as it was, for this reason.
    Not(String),
    /// There was no time for it, or no wish; it stays as it was, and so the turn ends.
    Stopped(TurnOutcome),
}

/// Why a conversation is made shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Told,
    NearlyFull,
    Refused,
}

/// A compaction under way.
struct Work {
    cause: Cause,
    focus: String,
    began: Moment,
    messages: Vec<Arc<Message>>,
    room: Room,
    /// Tokens of tools and system prompt.
    fixed: u64,
    /// Tokens of the context before.
    before: u64,
    survey: Survey,
}

impl Default for AutoCompact {
    fn default() -> Self {
        Self { enabled: true, window: None }
    }
}

impl Agent {
    /// Makes room before a request, if there is need; gives how the turn ends if none is to be had.
    pub(super) async fn make_room(&mut self) -> Result<Option<TurnOutcome>, LogError> {
        let refused = self.attempts.refused.take();
        let fill = self.fill();
        let cause = match &refused {
            Some(error) if self.attempts.reacted => {
                return Ok(Some(too_long(error, "compacting it was not enough")));
            }
            Some(_) => Cause::Refused,
            None if self.is_nearly_full(fill) => Cause::NearlyFull,
            None => return Ok(None),
        };
        // What is left is kept for a closing message, which needs no room.
        if let Leave::Close(outcome) = self.leave() {
            return Ok((cause == Cause::Refused).then_some(outcome));
        }
        self.attempts.reacted |= cause == Cause::Refused;
        match (self.compact(cause, String::new()).await?, refused) {
            (Outcome::Shorter { .. }, _) => Ok(None),
            (Outcome::Stopped(outcome), _) => Ok(Some(outcome)),
            (Outcome::Not(why), Some(error)) => Ok(Some(too_long(&error, &why))),
            (Outcome::Not(_), None) => {
                self.attempts.in_vain_at = Some(fill);
                Ok(None)
            }
        }
    }

    /// The model refused the conversation as too long: a compaction precedes the next request.
    pub(super) fn note_too_long(&mut self, error: ModelError) {
        self.attempts.refused = Some(error);
    }

    /// A whole answer came: should the conversation outgrow the model now, that is news.
    pub(super) fn note_answered(&mut self) {
        self.attempts.reacted = false;
    }

    /// Makes the conversation shorter because the user said so.
    pub(crate) async fn compact_as_told(&mut self, focus: &str) -> Result<Outcome, LogError> {
        self.compact(Cause::Told, focus.to_owned()).await
    }

    /// Takes the last compaction back; false when there is none.
    pub(crate) async fn uncompact(&mut self) -> Result<bool, LogError> {
        if !self.parts.session.state().can_uncompact() {
            return Ok(false);
        }
        self.parts.session.record(SessionEvent::Uncompacted).await?;
        self.look_up_plan();
        // Who wants the long one back does not want it made shorter at once.
        self.attempts.in_vain_at = Some(self.fill());
        Ok(true)
    }

    fn is_nearly_full(&self, fill: u64) -> bool {
        let auto = self.parts.limits.auto_compact;
        let room = Room::of(&self.parts.chosen.row, auto.window);
        let has_grown = self.attempts.in_vain_at.is_none_or(|at| fill > at.saturating_add(room.usable / 50));
        auto.enabled && fill >= room.threshold && has_grown
    }

    /// Tokens of the context: what the API counted, and a guess for what came since.
    fn fill(&self) -> u64 {
        let state = self.parts.session.state();
        match state.remembered.measured {
            Some(measured) => measured + compaction::weight(&state.unread()),
            None => self.fixed_tokens() + compaction::weight(&state.messages()),
        }
    }

    /// Tokens of tools and system prompt, guessed.
    pub(super) fn fixed_tokens(&self) -> u64 {
        let system: u64 = self.parts.system.iter().map(|section| tokens::of_text(&section.text)).sum();
        system + self.tools.iter().map(tokens::of_tool).sum::<u64>()
    }

    async fn compact(&mut self, cause: Cause, focus: String) -> Result<Outcome, LogError> {
        let began = self.parts.deck.now();
        let has_answer = |message: &Arc<Message>| message.role == Role::Assistant;
        if !self.parts.session.state().messages().iter().any(has_answer) {
            return Ok(Outcome::Not("there is nothing in it that could be taken out".to_owned()));
        }
        let focus = match self.hooks_before_compaction(cause.trigger(), focus).await? {
            Ok(focus) => focus,
            Err(instead) => return Ok(instead),
        };
        self.parts.session.tell(AgentEvent::Compacting { trigger: cause.trigger() }).await;
        let work = self.look_through(cause, focus, began);
        if cause == Cause::Told
            && let Some(why) = self.is_pointless(&work)
        {
            return Ok(self.stay(&why).await);
        }
        if cause != Cause::Told && work.pruned_to() <= work.room.comfortable() {
            return self.prune(&work).await;
        }
        let summary = match self.summarise(&work).await? {
            Got::Summary(summary) => summary,
            Got::Nothing(futile) => return self.go_without_summary(&work, &futile).await,
            Got::Stopped(outcome) => {
                self.stay("it was stopped").await;
                return Ok(Outcome::Stopped(outcome));
            }
        };
        let compaction = self.carry_over(&work, &summary).await;
        if cause == Cause::Told && compaction.post_tokens >= work.now() {
            let why = no_shorter(work.now(), compaction.post_tokens);
            self.drop_summary(&why, summary.paid).await?;
            // What would have been shown again was not.
            self.parts.executor.forget_all_seen();
            return Ok(self.stay(&why).await);
        }
        let outcome = self.record_compaction(compaction, work.began).await?;
        self.hooks_after_compaction(cause.trigger(), &summary.words).await?;
        Ok(outcome)
    }

    /// Why a summary would be paid for in vain, if it would.
    fn is_pointless(&self, work: &Work) -> Option<String> {
        let least = self.least(work);
        match self.leave() {
            Leave::Close(_) | Leave::End(_) => Some("the budget leaves nothing for a summary".to_owned()),
            Leave::Ask | Leave::AskLast(_) => (least >= work.now()).then(|| no_shorter(work.now(), least)),
        }
    }

    fn look_through(&self, cause: Cause, focus: String, began: Moment) -> Work {
        let messages = self.parts.session.state().messages();
        let (fixed, before) = (self.fixed_tokens(), self.fill());
        let known = Room::of(&self.parts.chosen.row, self.parts.limits.auto_compact.window);
        let room = if cause == Cause::Refused { known.below(before) } else { known };
        let survey = compaction::survey(&messages, compaction::tail(&messages, room.shares(fixed, 0)));
        Work { cause, focus, began, messages, room, fixed, before, survey }
    }

    /// Makes old results a line each; what is long is kept where the model can read it.
    async fn prune(&mut self, work: &Work) -> Result<Outcome, LogError> {
        let pruned = self.set_aside(work.survey.cuts()).await;
        let compaction = Compaction { pruned, post_tokens: work.pruned_to(), ..work.nothing_yet() };
        let outcome = self.record_compaction(compaction, work.began).await?;
        self.parts.executor.forget_views();
        Ok(outcome)
    }

    async fn set_aside(&mut self, cuts: impl Iterator<Item = &Cut>) -> Vec<Pruned> {
        let mut pruned = Vec::new();
        for cut in cuts {
            let kept = match cut.keepsake() {
                Some(text) => self.parts.executor.keep(text.to_owned()).await,
                None => None,
            };
            pruned.push(Pruned { call: cut.call.clone(), text: cut.line(kept.as_deref()) });
        }
        pruned
    }

    /// No summary is to be had. Where old results alone make room, the work goes on without one.
    async fn go_without_summary(&mut self, work: &Work, futile: &Futile) -> Result<Outcome, LogError> {
        let pruned_to = work.pruned_to();
        if work.cause == Cause::Told || pruned_to >= work.before || pruned_to > work.room.threshold {
            return Ok(self.stay(&format!("{futile}, tried twice")).await);
        }
        let text = format!("{futile}, tried twice; old results were set aside instead, and the work goes on");
        self.parts.session.tell(AgentEvent::Notice { text }).await;
        self.prune(work).await
    }

    async fn record_compaction(
        &mut self,
        compaction: Compaction,
        began: Moment,
    ) -> Result<Outcome, LogError> {
        let compaction = Compaction { duration_ms: millis(self.parts.deck.since(began)), ..compaction };
        let (before, after) = (compaction.pre_tokens, compaction.post_tokens);
        tracing::info!(before, after, trigger = compaction.trigger.as_str(), "compacted");
        let boundary = self.parts.deck.id();
        self.parts.session.record(SessionEvent::Compacted { boundary, compaction }).await?;
        self.look_up_plan();
        self.attempts.in_vain_at = None;
        Ok(Outcome::Shorter { before, after })
    }

    /// The conversation stays as it was.
    async fn stay(&mut self, why: &str) -> Outcome {
        self.parts.session.tell(AgentEvent::CompactionFailed { message: why.to_owned() }).await;
        Outcome::Not(why.to_owned())
    }

    /// Asks hooks first; they may forbid it, or add to what a summary dwells on.
    async fn hooks_before_compaction(
        &mut self,
        trigger: Trigger,
        focus: String,
    ) -> Result<Result<String, Outcome>, LogError> {
        let occasion = Occasion::pre_compact(trigger.as_str(), &focus);
        let Heard::Word(fired) = self.ask_hooks(&occasion).await? else {
            return Ok(Err(Outcome::Stopped(TurnOutcome::Interrupted { during_tools: false })));
        };
        if let Some(reason) = fired.block.or(fired.stop) {
            let why = format!("a hook forbids it: {}", plain(&reason));
            return Ok(Err(self.stay(&why).await));
        }
        let added = fired.additional_context.iter().map(|text| plain(text));
        let words = std::iter::once(focus).chain(added).filter(|text| !text.trim().is_empty());
        Ok(Ok(words.collect::<Vec<_>>().join("\n")))
    }

    /// Tells hooks of the summary, and those of a session's start that it starts anew.
    async fn hooks_after_compaction(&mut self, trigger: Trigger, summary: &str) -> Reaction {
        let model = self.parts.chosen.name.clone();
        let occasions =
            [Occasion::post_compact(trigger.as_str(), summary), Occasion::session_start("compact", &model)];
        for occasion in occasions {
            match self.ask_hooks(&occasion).await? {
                Heard::Word(fired) => self.unheard.extend(fired.additional_context),
                // It is about the turn, which goes on only after this.
                Heard::Interrupted => self.waiting.push_front(Command::Interrupt),
            }
        }
        Ok(())
    }
}

impl Cause {
    fn trigger(self) -> Trigger {
        match self {
            Self::Told => Trigger::Manual,
            Self::NearlyFull | Self::Refused => Trigger::Auto,
        }
    }
}

impl Work {
    /// A compaction of which only the circumstances are known.
    fn nothing_yet(&self) -> Compaction {
        Compaction {
            trigger: self.cause.trigger(),
            focus: self.focus.clone(),
            pruned: Vec::new(),
            carried: Vec::new(),
            kept: 0,
            pre_tokens: self.before,
            post_tokens: self.before,
            duration_ms: 0,
            model: String::new(),
            usage: Usage::default(),
            cost_usd: 0.0,
        }
    }

    /// The messages with every line that could stand for a result, wherever the result is kept.
    fn pruned(&self) -> Vec<Arc<Message>> {
        let line = |cut: &Cut| Pruned { call: cut.call.clone(), text: cut.line(None) };
        let pruned = self.survey.cuts().map(line).collect();
        shorten::pruned(&self.messages, &Compaction { pruned, ..self.nothing_yet() })
    }

    /// What the context would come down to by pruning alone.
    fn pruned_to(&self) -> u64 {
        self.would_be(&self.pruned())
    }

    /// What the context is, by the measure of what it would be.
    fn now(&self) -> u64 {
        self.would_be(&self.messages)
    }

    /// What the context would be with these messages, by the measure of what it is.
    fn would_be(&self, messages: &[Arc<Message>]) -> u64 {
        let guessed = self.fixed + compaction::weight(&self.messages);
        // A server that counts oddly does not make the guess absurd.
        let real = self.before.clamp(guessed / 2, guessed.saturating_mul(2)).max(1);
        let wanted = self.fixed + compaction::weight(messages);
        u64::try_from(u128::from(wanted) * u128::from(real) / u128::from(guessed.max(1))).unwrap_or(u64::MAX)
    }
}

fn no_shorter(before: u64, after: u64) -> String {
    format!("a summary would not make it shorter (about {before} tokens now, about {after} with it)")
}

fn too_long(error: &ModelError, why: &str) -> TurnOutcome {
    TurnOutcome::PromptTooLong {
        status: error.status,
        message: format!(
            "{}; the conversation is too long for this model, and {why} (start a new session, go back with /rewind, or \
             choose a model with a larger context)",
            error.message
        ),
    }
}
