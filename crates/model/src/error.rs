//! Failures of a model API, typed by what the caller should do about them.

use ostler_proto::ErrorKind;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A request that was not answered, or not to the end.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ModelError {
    /// What the caller should do.
    pub action: Action,
    /// What kind of failure, in the words programs know.
    pub kind: ErrorKind,
    /// HTTP status, if there was one.
    pub status: Option<u16>,
    /// What went wrong, naming the thing.
    pub message: String,
    /// The API's id of the request, for support.
    pub request: Option<String>,
}

/// What to do about a [`ModelError`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// The same request may succeed later.
    Retry {
        /// How long the API asked to wait.
        after: Option<Duration>,
    },
    /// The conversation is too long for the model.
    Compact,
    /// The key is missing, wrong or spent.
    LogIn,
    /// Trying again would not help.
    GiveUp,
}

/// A model that cannot be chosen, with the way out in the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChooseError(pub String);

impl ModelError {
    /// A failure with no HTTP status.
    pub(crate) fn new(action: Action, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { action, kind, status: None, message: message.into(), request: None }
    }

    /// A connection or an answer that broke: the same request may succeed.
    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self::new(Action::Retry { after: None }, ErrorKind::ServerError, message)
    }

    /// Something that will be the same next time.
    pub(crate) fn hopeless(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::new(Action::GiveUp, kind, message)
    }

    /// An answer that ended before it was whole.
    pub(crate) fn broke_off() -> Self {
        Self::broken("the answer broke off before its end")
    }
}
