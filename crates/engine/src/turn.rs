//! One turn's state, with the ways it can go round again as data.

use crate::reply::Reply;
use ostler_model::EventStream;
use ostler_proto::{StopReason, TurnOutcome, Usage, envelope::Denial};
use std::{pin::Pin, time::Duration};
use tokio::time::{Instant, Sleep};

/// A turn under way.
pub(crate) struct Turn {
    pub(crate) began: Instant,
    pub(crate) phase: Phase,
    /// Answers of the model, whole or kept.
    pub(crate) round_trips: u32,
    /// Failed attempts since the last whole answer.
    pub(crate) failed_attempts: u32,
    /// Calls in a row that gave nothing.
    pub(crate) failed_calls: u32,
    pub(crate) usage: Usage,
    pub(crate) waited_for_model: Duration,
    /// Text of the last answer.
    pub(crate) text: String,
    pub(crate) stop: Option<StopReason>,
    pub(crate) denials: Vec<Denial>,
    /// How often hooks kept it from ending.
    pub(crate) sent_back: u32,
    /// Whether a hook ended it, so that nothing may prolong it.
    pub(crate) ended_by_hook: bool,
}

/// What a turn waits for.
pub(crate) enum Phase {
    /// The model speaks; calls may run already.
    Answering(Box<Answering>),
    /// The model has spoken; calls still run.
    Draining { then: Next },
    /// A pause before asking again.
    Waiting(Pin<Box<Sleep>>),
}

/// An answer under way and where the rest of it comes from.
pub(crate) struct Answering {
    pub(crate) stream: EventStream,
    pub(crate) answer: Answer,
}

/// An answer as far as it has come.
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) began: Instant,
    /// Whether any of its blocks is recorded.
    pub(crate) recorded: bool,
    /// Whether it proposed calls.
    pub(crate) has_calls: bool,
}

/// What comes when the last call has its result.
pub(crate) enum Next {
    Request,
    Wait(Duration),
    End(TurnOutcome),
}

impl Turn {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            phase: Phase::Draining { then: Next::Request },
            round_trips: 0,
            failed_attempts: 0,
            failed_calls: 0,
            usage: Usage::default(),
            waited_for_model: Duration::ZERO,
            text: String::new(),
            stop: None,
            denials: Vec::new(),
            sent_back: 0,
            ended_by_hook: false,
        }
    }
}
