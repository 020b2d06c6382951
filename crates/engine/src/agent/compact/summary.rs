//! Asks the model of the conversation to sum it up. Calls in its answer are never run, what it says is bounded,
//! and two tries that come to nothing are the last.

use super::{Agent, Work};
use crate::{
    agent::{Input, millis, queue::is_interrupt, recover::ended_early},
    compaction::{self, Futile},
    reply::{Reply, Whole},
    retry,
    session::{LogError, shorten},
    turn::{Answer, Answering, Next, Phase},
    world::model,
};
use ostler_model::{Action, ModelError};
use ostler_proto::{
    AgentEvent, Block, Command, Compaction, Message, ModelEvent, Request, Role, SessionEvent, StopReason,
    TurnOutcome, Usage,
};
use std::{sync::Arc, time::Duration};

/// After so many tries that came to nothing there is no further one.
const MOST_TRIES: u32 = 2;
/// Tokens of the longest answer that is asked for; reasoning may be part of it.
const LONGEST_ANSWER: u64 = 20_000;

/// What came of asking.
pub(super) enum Got {
    Summary(Summary),
    Nothing(Futile),
    /// There was no time for it, or no wish: how the turn ends.
    Stopped(TurnOutcome),
}

/// A summary and what it took.
pub(super) struct Summary {
    /// As the model wrote it, within bounds.
    pub(super) words: String,
    /// As the model will read it.
    pub(super) marked: String,
    pub(super) paid: Paid,
}

/// What all tries cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Paid {
    pub(super) usage: Usage,
    pub(super) cost_usd: f64,
}

/// One answer, taken for its text alone.
#[derive(Default)]
struct Hearing {
    reply: Reply,
    text: String,
    /// Bytes of text that came, and how many of them are of use.
    heard: usize,
    most: usize,
}

/// How listening to an answer ended.
enum Ending {
    /// There is no more of it, or none that is of use.
    Over,
    Broken(ModelError),
    Stopped(TurnOutcome),
}

impl Agent {
    pub(super) async fn summarise(&mut self, work: &Work) -> Result<Got, LogError> {
        let tokens = work.room.shares(work.fixed, 0).summary;
        let (mut paid, mut futile, mut pause) = (Paid::default(), Futile::Empty, Duration::ZERO);
        for attempt in 1..=MOST_TRIES {
            let request = self.summary_request(work, attempt, tokens);
            let mut hearing = Hearing { most: compaction::longest_summary(tokens), ..Hearing::default() };
            let ending = self.listen_to(request, pause, &mut hearing).await?;
            paid.cost_usd += self.charge(hearing.reply.usage, 0);
            paid.usage.add(hearing.reply.usage);
            futile = match ending {
                Ending::Stopped(outcome) => {
                    self.drop_summary("it was stopped", paid).await?;
                    return Ok(Got::Stopped(outcome));
                }
                Ending::Broken(error) => {
                    pause = self.pause_after(&error, attempt).await;
                    Futile::Failed(error.message)
                }
                Ending::Over => match hearing.summary(tokens) {
                    Ok((words, marked)) => return Ok(Got::Summary(Summary { words, marked, paid })),
                    Err(futile) => futile,
                },
            };
            tracing::warn!(attempt, %futile, "no summary");
        }
        self.drop_summary(&futile.to_string(), paid).await?;
        Ok(Got::Nothing(futile))
    }

    /// Records what was paid for a summary that counts for nothing.
    pub(super) async fn drop_summary(&mut self, reason: &str, paid: Paid) -> Result<(), LogError> {
        let Paid { usage, cost_usd } = paid;
        if usage != Usage::default() {
            let reason = format!("a summary: {reason}");
            let partial = String::new();
            let event = SessionEvent::Dropped { message: None, reason, partial, usage, cost_usd };
            self.parts.session.record(event).await?;
        }
        Ok(())
    }

    /// The conversation as it was last sent, which is cached, and a last word; or as much of it as surely fits.
    fn summary_request(&self, work: &Work, attempt: u32, tokens: u64) -> Request {
        let whole = attempt == 1 && work.cause != super::Cause::Refused && work.before < work.room.usable;
        let most = if attempt == 1 { work.room.threshold } else { work.room.threshold / 2 };
        let mut messages = if whole { work.messages.clone() } else { work.excerpt(most) };
        let last_word = Block::text(compaction::instruction(&work.focus, tokens));
        match messages.last_mut() {
            Some(last) if last.role == Role::User => Arc::make_mut(last).content.push(last_word),
            Some(_) | None => messages.push(Arc::new(Message::user(vec![last_word]))),
        }
        let request = self.build_request();
        let max_output_tokens = request.max_output_tokens.min(LONGEST_ANSWER);
        Request { messages, max_output_tokens, ..request }
    }

    /// Listens to an answer after a pause, and meanwhile to everybody else: whoever asks is answered, and whoever
    /// would rather not wait is heeded. What is said to the model waits its turn.
    async fn listen_to(
        &mut self,
        request: Request,
        pause: Duration,
        hearing: &mut Hearing,
    ) -> Result<Ending, LogError> {
        let (mut request, mut later) = (Some(request), Vec::new());
        let began = self.parts.deck.now();
        self.wait_in(Phase::Waiting(Box::pin(tokio::time::sleep(pause))));
        let ending = loop {
            match self.next_input().await {
                Input::PauseOver => {
                    let Some(request) = request.take() else { continue };
                    let stream = model::stream(&self.parts.deck, &self.parts.chosen, request);
                    let answer = Answer::new(self.parts.deck.now());
                    self.wait_in(Phase::Answering(Box::new(Answering { stream, answer })));
                }
                Input::Model(item) => {
                    if let Some(ending) = hearing.take(item) {
                        break ending;
                    }
                }
                Input::TimeOver => break Ending::Stopped(self.time_over()),
                Input::FrontendGone => {
                    self.queue.clear();
                    break Ending::Stopped(self.interrupted());
                }
                Input::Command(command) if is_interrupt(&command) => {
                    self.acknowledge(command).await;
                    break Ending::Stopped(self.interrupted());
                }
                // The model that was asked is the one that answers.
                Input::Command(command @ Command::SetModel(_)) => later.push(command),
                Input::Command(command) => Box::pin(self.on_command(command)).await?,
                Input::Tools(event) => Box::pin(self.on_tools(event)).await?,
            }
        };
        self.waiting.extend(later);
        self.wait_in(Phase::Draining { then: Next::Request });
        if let Some(turn) = &mut self.turn {
            turn.waited_for_model += self.parts.deck.since(began);
        }
        Ok(ending)
    }

    fn wait_in(&mut self, phase: Phase) {
        if let Some(turn) = &mut self.turn {
            turn.phase = phase;
        }
    }

    /// How long to wait before trying again, where that helps; said to whoever watches.
    async fn pause_after(&mut self, error: &ModelError, attempt: u32) -> Duration {
        if attempt == MOST_TRIES {
            return Duration::ZERO;
        }
        let pause = match error.action {
            Action::Retry { after } => {
                retry::delay(attempt, self.parts.limits.retry_base, after, self.parts.deck.chance())
            }
            Action::Compact | Action::LogIn | Action::GiveUp => Duration::ZERO,
        };
        let event = AgentEvent::Retrying {
            attempt,
            max_attempts: MOST_TRIES - 1,
            delay_ms: millis(pause),
            status: error.status,
            kind: error.kind,
            message: format!("no summary: {}", error.message),
        };
        self.parts.session.tell(event).await;
        pause
    }
}

impl Hearing {
    /// Takes in a piece, and no more of it all than is of use. Gives how it ended, once it has.
    fn take(&mut self, item: Option<Result<ModelEvent, ModelError>>) -> Option<Ending> {
        let event = match item {
            Some(Ok(event)) => event,
            Some(Err(error)) => return Some(Ending::Broken(error)),
            None => return Some(Ending::Broken(ended_early())),
        };
        if let ModelEvent::TextDelta { text, .. } = &event {
            self.heard += text.len();
        }
        if let Some(Whole::Block(Block::Text(words))) = self.reply.apply(&event) {
            self.text.push_str(&words);
        }
        let is_too_long = self.heard > self.most.saturating_mul(2);
        if is_too_long {
            self.text.push_str(&self.reply.partial_text());
        }
        (is_too_long || matches!(event, ModelEvent::Done { .. })).then_some(Ending::Over)
    }

    /// The words of a summary, plain and marked.
    fn summary(self, tokens: u64) -> Result<(String, String), Futile> {
        if self.reply.stop == Some(StopReason::Refusal) {
            return Err(Futile::Failed("it refused".to_owned()));
        }
        let marked = compaction::take(&self.text, tokens)?;
        Ok((self.text, marked))
    }
}

impl Work {
    /// As much of the end of the conversation as fits into so many tokens, with old results as lines.
    fn excerpt(&self, most: u64) -> Vec<Arc<Message>> {
        let pruned = self.pruned();
        if self.fixed + compaction::weight(&pruned) <= most {
            return pruned;
        }
        let tail = most.saturating_sub(self.fixed);
        let survey = compaction::survey(&pruned, tail);
        let lines =
            survey.cuts().map(|cut| ostler_proto::Pruned { call: cut.call.clone(), text: cut.line(None) });
        let compaction = Compaction {
            pruned: lines.collect(),
            carried: vec![Block::text("[Earlier messages are left out here, for they do not fit.]")],
            kept: survey.kept,
            ..self.nothing_yet()
        };
        shorten::carried(shorten::pruned(&pruned, &compaction), &compaction)
    }
}
