//! Everything a frontend may say. Nothing else reaches the engine.

use crate::{AskId, Block, EntryId, JobId, Json, Mode};

/// One thing a frontend says.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Starts a turn, or queues for the next turn boundary while one runs.
    Prompt {
        /// What the user says.
        content: Vec<Block>,
        /// The transcript id to give it, if the frontend chose one.
        id: Option<EntryId>,
    },
    /// Answers an [`crate::Ask`].
    Answer {
        /// The question.
        ask: AskId,
        /// The answer.
        answer: Answer,
    },
    /// Changes the permission mode.
    SetMode(Mode),
    /// Changes the model from the next request on.
    SetModel(String),
    /// Stops a command in the background. An unknown one is ignored.
    StopJob(JobId),
    /// Stops the running turn; the session stays usable.
    Interrupt,
    /// Finishes queued turns, flushes and ends.
    Close,
}

/// The user's answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Run it, this once.
    Allow {
        /// Replaces the call's input; judged again from the start.
        input: Option<Json>,
    },
    /// Run it, and add these rules.
    AllowAlways {
        /// Rules as in settings.
        rules: Vec<String>,
        /// For how long they hold.
        keep: Keep,
    },
    /// Do not run it.
    Deny {
        /// Told to the model.
        message: String,
        /// Whether the whole turn stops too.
        interrupt: bool,
    },
}

/// Where a rule that was granted with an answer is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// Until the session ends.
    #[default]
    Session,
    /// For the user, in this project.
    Local,
    /// For everybody in this project.
    Project,
    /// For the user, in every project.
    User,
}
