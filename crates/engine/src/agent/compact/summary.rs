//! Asks the model of the conversation to sum it up. Calls in its answer are never run, what it says is bounded,
//! and two tries that come to nothing are the last.

use super::{Agent, Work};
use crate::{
    agent::{hook::interrupted, queue::is_interrupt, recover::ended_early},
    compaction::{self, Futile},
    reply::{Reply, Whole},
    retry,
    session::shorten,
    world::model,
};
use futures_util::StreamExt;
use ostler_model::{Action, EventStream, ModelError};
use ostler_proto::{Block, Command, Compaction, Message, ModelEvent, Request, Role, StopReason, Usage};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};

/// After so many tries that came to nothing there is no further one.
const MOST_TRIES: u32 = 2;
/// Tokens of the longest answer that is asked for; reasoning may be part of it.
const LONGEST_ANSWER: u64 = 20_000;
/// What the tape calls it.
const SUMMARY: &str = "a summary";

/// What came of asking.
pub(super) enum Got {
    Summary(Summary),
    Nothing(Futile),
    Interrupted,
}

/// A summary and what it took.
pub(super) struct Summary {
    /// As the model wrote it, within bounds.
    pub(super) words: String,
    /// As the model will read it.
    pub(super) marked: String,
    /// Of all tries.
    pub(super) usage: Usage,
    pub(super) cost_usd: f64,
}

/// What came while a summary was listened to.
#[derive(Default, Serialize, Deserialize)]
struct Heard {
    /// Commands for later.
    arrived: Vec<Command>,
    /// The one that ended it.
    interrupt: Option<Command>,
    /// What broke it off.
    error: Option<ModelError>,
}

/// One answer, taken for its text alone.
struct Answer {
    reply: Reply,
    text: Result<String, ModelError>,
}

impl Agent {
    pub(super) async fn summarise(&mut self, work: &Work) -> Got {
        let tokens = work.room.shares(work.fixed, 0).summary;
        let (mut usage, mut cost_usd) = (Usage::default(), 0.0);
        let (mut futile, mut pause) = (Futile::Empty, Duration::ZERO);
        for attempt in 1..=MOST_TRIES {
            let request = self.summary_request(work, attempt, tokens);
            let Some(answer) = self.listen_to(request, pause, compaction::longest_summary(tokens)).await
            else {
                return Got::Interrupted;
            };
            cost_usd += self.charge(answer.reply.usage, 0);
            usage.add(answer.reply.usage);
            pause = pause_after(&answer, attempt, self.parts.limits.retry_base, self.parts.deck.chance());
            futile = match take(answer, tokens) {
                Ok((words, marked)) => return Got::Summary(Summary { words, marked, usage, cost_usd }),
                Err(futile) => futile,
            };
            tracing::warn!(attempt, %futile, "no summary");
        }
        Got::Nothing(futile)
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

    /// Listens to an answer and to the inbox; nothing when the user would rather not wait.
    async fn listen_to(&mut self, request: Request, pause: Duration, most: usize) -> Option<Answer> {
        if let Some(place) = self.waiting.iter().position(is_interrupt)
            && let Some(command) = self.waiting.remove(place)
        {
            self.acknowledge(command).await;
            return None;
        }
        let began = self.parts.deck.now();
        let stream = model::stream(&self.parts.deck, &self.parts.chosen, request);
        let heard = if self.parts.deck.is_replaying() {
            self.hear_again(stream, most).await
        } else {
            self.hear_out(stream, pause, most).await
        };
        if let Some(turn) = &mut self.turn {
            turn.waited_for_model += self.parts.deck.since(began);
        }
        match heard {
            Ok(answer) => Some(answer),
            Err(command) => {
                self.acknowledge(command).await;
                None
            }
        }
    }

    async fn hear_out(
        &mut self,
        stream: EventStream,
        pause: Duration,
        most: usize,
    ) -> Result<Answer, Command> {
        let waiting = self.waiting.len();
        let answer = async {
            tokio::time::sleep(pause).await;
            listen(stream, most).await
        };
        let heard = tokio::select! {
            biased;
            answer = answer => Ok(answer),
            command = interrupted(&mut self.parts.inbox, &mut self.waiting) => Err(command),
        };
        let _written = self.parts.deck.gave(
            SUMMARY,
            Heard {
                arrived: self.waiting.iter().skip(waiting).cloned().collect(),
                interrupt: heard.as_ref().err().cloned(),
                error: heard.as_ref().ok().and_then(|answer| answer.text.as_ref().err().cloned()),
            },
        );
        heard
    }

    /// The same from a tape.
    async fn hear_again(&mut self, stream: EventStream, most: usize) -> Result<Answer, Command> {
        let heard = self.parts.deck.again(SUMMARY, Heard::default());
        self.waiting.extend(heard.arrived);
        match (heard.interrupt, heard.error) {
            (Some(command), _) => Err(command),
            (None, Some(error)) => {
                // What broke the answer is not among its bytes.
                let answer = listen(stream, most).await;
                Ok(Answer { text: Err(error), ..answer })
            }
            (None, None) => Ok(listen(stream, most).await),
        }
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

/// Takes in the text of an answer, and no more of it than is of use.
async fn listen(mut stream: EventStream, most: usize) -> Answer {
    let (mut reply, mut text, mut heard) = (Reply::default(), String::new(), 0);
    loop {
        let event = match stream.next().await {
            Some(Ok(event)) => event,
            Some(Err(error)) => return Answer { reply, text: Err(error) },
            None => return Answer { reply, text: Err(ended_early()) },
        };
        if let ModelEvent::TextDelta { text, .. } = &event {
            heard += text.len();
        }
        if let Some(Whole::Block(Block::Text(words))) = reply.apply(&event) {
            text.push_str(&words);
        }
        let is_too_long = heard > most.saturating_mul(2);
        if is_too_long {
            text.push_str(&reply.partial_text());
        }
        if is_too_long || matches!(event, ModelEvent::Done { .. }) {
            return Answer { reply, text: Ok(text) };
        }
    }
}

/// The words of a summary, plain and marked.
fn take(answer: Answer, tokens: u64) -> Result<(String, String), Futile> {
    if answer.reply.stop == Some(StopReason::Refusal) {
        return Err(Futile::Failed("it refused".to_owned()));
    }
    let words = answer.text.map_err(|error| Futile::Failed(error.message))?;
    let marked = compaction::take(&words, tokens)?;
    Ok((words, marked))
}

/// How long to wait before trying again, where that helps.
fn pause_after(answer: &Answer, attempt: u32, base: Duration, chance: f64) -> Duration {
    let Err(ModelError { action: Action::Retry { after }, .. }) = &answer.text else { return Duration::ZERO };
    retry::delay(attempt, base, *after, chance)
}
