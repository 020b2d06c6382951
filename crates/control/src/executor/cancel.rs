//! Calling calls off, and why: the cause is kept beside the token, so that each call can say truly what became of it.
//! Decides nothing; whoever cancels knows the cause.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};
use tokio_util::sync::CancellationToken;

/// Why calls are called off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The user stopped the turn, or nobody is left to work for.
    User,
    /// A hook stopped the run, for this reason.
    Hook(String),
    /// The time for the work is over.
    Time,
    /// The turn cannot go on, for this reason.
    Failure(String),
}

/// A token that knows why it was cancelled. Children share the cause.
#[derive(Debug, Clone, Default)]
pub(super) struct Cancellation {
    token: CancellationToken,
    cause: Arc<OnceLock<Cause>>,
}

impl Cancellation {
    /// One for a single call.
    pub(super) fn child(&self) -> Self {
        Self { token: self.token.child_token(), cause: Arc::clone(&self.cause) }
    }

    /// Calls everything off that has a child of this.
    pub(super) fn cancel(&self, cause: Cause) {
        // Whoever came first is the cause.
        let _ = self.cause.set(cause);
        self.token.cancel();
    }

    /// Waits until it is called off.
    pub(super) async fn cancelled(&self) {
        self.token.cancelled().await;
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// For what runs below.
    pub(super) fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// By whom and why, as the start of a sentence.
    pub(super) fn words(&self) -> String {
        self.cause.get().unwrap_or(&Cause::User).to_string()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.write_str("interrupted by the user"),
            Self::Hook(reason) => write!(f, "called off because a hook stopped the run ({reason})"),
            Self::Time => f.write_str("called off because the time for the work is over"),
            Self::Failure(reason) => write!(f, "called off because the turn cannot go on ({reason})"),
        }
    }
}
