//! Everything a frontend may say. Nothing else reaches the engine.

use crate::{AskId, Block, EntryId, HookId, HookReply, HostHook, JobId, Json, Mode, Update};
use serde::{Deserialize, Serialize};

/// One thing a frontend says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Starts a turn. While one runs it waits for the next request to the model and goes along with it,
    /// or starts a turn of its own if there is none.
    Prompt {
        /// What the user says.
        content: Vec<Block>,
        /// The transcript id to give it, if the frontend chose one.
        id: Option<EntryId>,
        /// Whether a leading `/` means a command.
        wording: Wording,
    },
    /// Adds to the conversation without starting a turn; the model reads it with its next request.
    Append {
        /// What is said.
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
    /// Asks something that is answered once, with [`crate::AgentEvent::Answered`].
    Query {
        /// Comes back with the answer.
        id: String,
        /// What is asked.
        query: Query,
    },
    /// Lends the session these callbacks as hooks, in the place of those before.
    SetHooks(Vec<HostHook>),
    /// Tells the model this too whenever plan mode begins.
    SetPlanInstructions(String),
    /// Answers a callback; see [`crate::HookNews::Called`].
    AnswerHook {
        /// The call of it.
        id: HookId,
        /// What came back.
        reply: HookReply,
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

/// How a prompt is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Wording {
    /// As a person types it: `/name …` is a command if there is one of that name.
    #[default]
    Typed,
    /// Word for word.
    Verbatim,
}

/// What a frontend may want to know of, or have done by, the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Query {
    /// What fills the context window.
    Context,
    /// Stops the running turn like [`Command::Interrupt`]; the answer says which prompts still wait and which
    /// were called off.
    Interrupt {
        /// What becomes of prompts that wait.
        queued: Queued,
    },
    /// Files as they were right before a prompt.
    RewindFiles {
        /// The prompt.
        to: EntryId,
        /// Whether anything is changed.
        trial: Trial,
    },
}

/// What becomes of prompts that wait when a turn is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Queued {
    /// They get their turn.
    Keep,
    /// They are forgotten; nothing of them was recorded.
    Cancel,
}

/// Whether something is done or only tried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trial {
    /// Nothing changes; the answer says what would.
    Only,
    /// It is done.
    No,
}

/// A command that a prompt may begin with, as frontends list it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct CommandInfo {
    /// Its name, without the slash.
    pub name: String,
    /// What it does, in a line.
    pub description: String,
    /// What may follow the name.
    pub argument_hint: String,
}

/// The user's answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Run it, and change what may run.
    AllowWith {
        /// Replaces the call's input; judged again from the start.
        input: Option<Json>,
        /// The changes, in order.
        updates: Vec<Update>,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
