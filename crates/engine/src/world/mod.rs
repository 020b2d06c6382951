//! The doors through which everything comes into a conversation that does not follow from its state: what the
//! loop reacts to, what it asks of others, time, ids and chance. With a tape of these, the same loop runs again.

pub(crate) mod again;
pub(crate) mod deck;
mod delta;
pub(crate) mod hands;
pub(crate) mod kept;
pub(crate) mod model;
pub(crate) mod player;
mod scribe;
mod settings;
pub(crate) mod source;
pub(crate) mod tape;

use ostler_control::{
    ExecEvent,
    hooks::{Fired, Told},
};
use ostler_model::ModelError;
use ostler_proto::{Command, HookRecord};
use serde::{Deserialize, Serialize};

/// What the loop can get to react to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Came {
    /// A frontend said something.
    Command(Box<Command>),
    /// The frontend is gone.
    Gone,
    /// The next event of the model's answer, which is in the exchange.
    Heard,
    /// The answer broke off.
    Broke(Box<ModelError>),
    /// The answer ended without an end.
    Ended,
    /// A call has something to report.
    Tools(Box<ExecEvent>),
    /// Hooks that were asked have had their say; nothing where none listened.
    Fired(Option<Box<(Fired, HookRecord)>>),
    /// Hooks tell something while others are asked.
    Told(Box<Told>),
    /// A pause is over.
    PauseOver,
    /// The time for the work is over.
    TimeOver,
}

impl Came {
    /// What it is, in a word.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Command(_) => "a command",
            Self::Gone => "the frontend's end",
            Self::Heard => "the model",
            Self::Broke(_) | Self::Ended => "a broken answer",
            Self::Tools(_) => "a call",
            Self::Fired(_) | Self::Told(_) => "a hook",
            Self::PauseOver => "the end of a pause",
            Self::TimeOver => "the end of its time",
        }
    }
}
