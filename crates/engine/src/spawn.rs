//! Brings an agent to life and hands out its two ends: commands in, envelopes out.
#![expect(clippy::disallowed_methods, reason = "one of the three homes of tasks")]

use crate::{
    agent::{Agent, AutoCompact, Instructing},
    context::Snapshot,
    session::{Log, Session, Stamp, State},
    world::{
        again::Again,
        deck::Deck,
        hands::Hands,
        model,
        tape::{self, Head, Tape},
    },
};
use ostler_control::{Executor, instructions::Instructions};
use ostler_model::{Chosen, Models};
use ostler_proto::{Command, Effort, Envelope, Section, SessionId, Thinking, settings::Budget};
use serde::{Deserialize, Serialize};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinHandle};
use tracing::Instrument;

/// Everything an agent starts from.
pub struct Start {
    /// The session's id.
    pub id: SessionId,
    /// What it amounts to so far; empty for a new one.
    pub state: State,
    /// Where it is written.
    pub log: Log,
    /// Facts for every line.
    pub stamp: Stamp,
    /// How to reach models.
    pub models: Models,
    /// The model to begin with.
    pub chosen: Chosen,
    /// Judges and runs calls.
    pub executor: Executor,
    /// System prompt sections, stable parts first.
    pub system: Vec<Section>,
    /// Which system prompt a resumed session has.
    pub snapshot: Snapshot,
    /// Where standing instructions come from, if they are wanted.
    pub instructions: Option<Arc<Instructions>>,
    /// What the agent may use up.
    pub limits: Limits,
    /// What the session comes from.
    pub origin: Origin,
    /// The title it is to have.
    pub title: Option<String>,
    /// Whether it can be replayed later.
    pub recording: Recording,
}

/// Whether a session is recorded so that it can be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recording {
    /// Beside its transcript, if it has one.
    On,
    /// Not at all.
    #[default]
    Off,
}

/// What a session comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Nothing: it begins here.
    New,
    /// Itself, as another process left it.
    Resumed,
    /// Another session, which it is a copy of.
    Forked,
    /// Another session, which was ended to begin this one.
    Cleared,
}

/// What an agent may use up, and how it asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Answers per turn.
    pub max_turns: Option<u32>,
    /// Dollars per process.
    pub max_budget_usd: Option<f64>,
    /// What the session may use up over all its runs.
    pub budget: Budget,
    /// Models to turn to, in order, when the chosen one would not answer.
    pub fallback: Vec<String>,
    /// Attempts after the first to get an answer.
    pub max_retries: u32,
    /// The first pause between attempts; later ones double.
    pub retry_base: Duration,
    /// Calls in a row that may fail before the turn ends.
    pub max_failed_calls: u32,
    /// Cap on the length of an answer, below the model's own.
    pub max_output_tokens: Option<u64>,
    /// Whether the model reasons first.
    pub thinking: Thinking,
    /// How hard it should try.
    pub effort: Option<Effort>,
    /// What ends the session.
    pub lifetime: Lifetime,
    /// What happens to a request that breaks the prompt cache.
    pub cache_breaks: CacheBreaks,
    /// When the conversation is made shorter by itself.
    pub auto_compact: AutoCompact,
}

/// What happens to a request that does not extend the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CacheBreaks {
    /// It is sent, and the break is on record.
    #[default]
    Recorded,
    /// It is not sent, and the turn ends.
    Forbidden,
}

/// What ends a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Lifetime {
    /// Its frontend. Between turns a command in the background that ends starts a turn by itself.
    #[default]
    Conversation,
    /// The end of its first turn. Commands in the background are stopped with it.
    OneTurn,
}

/// The two ends of a running agent.
pub struct Handle {
    /// Commands in. Dropping it interrupts the turn and closes the session.
    pub commands: mpsc::Sender<Command>,
    /// Envelopes out, until [`ostler_proto::AgentEvent::Closed`].
    pub events: mpsc::Receiver<Envelope>,
    /// The agent itself; ends after `Closed`.
    pub task: JoinHandle<()>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_turns: None,
            max_budget_usd: None,
            budget: Budget::default(),
            fallback: Vec::new(),
            max_retries: 10,
            retry_base: Duration::from_millis(500),
            max_failed_calls: 25,
            max_output_tokens: None,
            thinking: Thinking::Auto,
            effort: None,
            lifetime: Lifetime::default(),
            cache_breaks: CacheBreaks::default(),
            auto_compact: AutoCompact::default(),
        }
    }
}

/// Starts the agent.
pub fn spawn(start: Start) -> Handle {
    let (commands, inbox) = mpsc::channel(64);
    let (events_tx, events) = mpsc::channel(1024);
    let span = tracing::info_span!("session", id = %start.id);
    let deck = Arc::new(deck(&start));
    let session = Session::new(start.id, start.state, start.log, start.stamp, events_tx);
    let agent = Agent::new(crate::agent::Parts {
        session: session.through(Arc::clone(&deck)),
        executor: Hands::new(Arc::clone(&deck), start.executor),
        deck,
        models: Some(start.models),
        chosen: start.chosen,
        system: start.system,
        snapshot: start.snapshot,
        instructing: Instructing::new(start.instructions),
        limits: start.limits,
        inbox,
        origin: start.origin,
        title: start.title,
    });
    Handle { commands, events, task: tokio::spawn(agent.run().instrument(span)) }
}

/// Where the session's ids, its time and everything else from outside come through.
fn deck(start: &Start) -> Deck {
    let Some(path) = start.log.path().filter(|_| start.recording == Recording::On) else {
        return Deck::live();
    };
    Deck::recording(&tape::folder(path), |source| Head {
        version: Head::VERSION,
        session: start.id.clone(),
        seed: source.seed(),
        at: source.now(),
        transcript: 0,
        model: (start.chosen.name.clone(), start.chosen.row.clone()),
        key_source: start.chosen.key_source.clone(),
        system: start.system.clone(),
        snapshot: start.snapshot,
        limits: start.limits.clone(),
        origin: start.origin,
        title: start.title.clone(),
        path: path.to_owned(),
        stamp: start.stamp.clone(),
    })
}

/// Starts an agent that only does again what is on a tape; its calls are run if there is something to run them.
pub(crate) fn spawn_again(
    tape: &Tape,
    transcript: &Path,
    state: State,
    again: Option<Again>,
) -> Result<(Handle, Arc<Deck>), String> {
    let head = tape.head.clone();
    let deck = Arc::new(Deck::replaying(tape, transcript.to_owned())?);
    let (commands, inbox) = mpsc::channel(1);
    let (events_tx, events) = mpsc::channel(1024);
    let log = Log::pretended(head.path);
    let session = Session::new(head.session, state, log, head.stamp, events_tx);
    let (name, row) = head.model;
    let agent = Agent::new(crate::agent::Parts {
        session: session.through(Arc::clone(&deck)),
        executor: match again {
            Some(again) => Hands::repeating(Arc::clone(&deck), again),
            None => Hands::idle(Arc::clone(&deck)),
        },
        deck: Arc::clone(&deck),
        models: None,
        chosen: model::silent(name, row, head.key_source),
        system: head.system,
        snapshot: head.snapshot,
        instructing: Instructing::new(None),
        limits: head.limits,
        inbox,
        origin: head.origin,
        title: head.title,
    });
    Ok((Handle { commands, events, task: tokio::spawn(agent.run()) }, deck))
}
