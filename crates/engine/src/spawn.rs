//! Brings an agent to life and hands out its two ends: commands in, envelopes out.
#![expect(clippy::disallowed_methods, reason = "one of the three homes of tasks")]

use crate::{
    agent::Agent,
    session::{Log, Session, Stamp, State},
};
use ostler_control::Executor;
use ostler_model::{Chosen, Models};
use ostler_proto::{Command, Effort, Envelope, SessionId, Thinking};
use std::time::Duration;
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
    pub system: Vec<String>,
    /// What the agent may use up.
    pub limits: Limits,
}

/// What an agent may use up, and how it asks.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Answers per turn.
    pub max_turns: Option<u32>,
    /// Dollars per process.
    pub max_budget_usd: Option<f64>,
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
}

/// What ends a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
            max_retries: 10,
            retry_base: Duration::from_millis(500),
            max_failed_calls: 25,
            max_output_tokens: None,
            thinking: Thinking::Auto,
            effort: None,
            lifetime: Lifetime::default(),
        }
    }
}

/// Starts the agent.
pub fn spawn(start: Start) -> Handle {
    let (commands, inbox) = mpsc::channel(64);
    let (events_tx, events) = mpsc::channel(1024);
    let span = tracing::info_span!("session", id = %start.id);
    let session = Session::new(start.id, start.state, start.log, start.stamp, events_tx);
    let agent = Agent::new(crate::agent::Parts {
        session,
        executor: start.executor,
        models: start.models,
        chosen: start.chosen,
        system: start.system,
        limits: start.limits,
        inbox,
    });
    Handle { commands, events, task: tokio::spawn(agent.run().instrument(span)) }
}
