//! The moments at which a hook can speak. Adding one: a variant here and the place where it fires.

use serde::{Deserialize, Serialize};

/// A moment in a session's life, by the name settings files use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HookEvent {
    /// A session begins or is resumed.
    SessionStart,
    /// A session ends.
    SessionEnd,
    /// The user submitted a prompt.
    UserPromptSubmit,
    /// A call is about to be judged.
    PreToolUse,
    /// A call is about to ask.
    PermissionRequest,
    /// A call succeeded.
    PostToolUse,
    /// A call failed.
    PostToolUseFailure,
    /// The user should notice something.
    Notification,
    /// The turn is about to end.
    Stop,
    /// An agent was started.
    SubagentStart,
    /// An agent is about to end.
    SubagentStop,
    /// The conversation is about to be compacted.
    PreCompact,
    /// The conversation was compacted.
    PostCompact,
    /// A team mate has nothing to do.
    TeammateIdle,
    /// A task was added.
    TaskCreated,
    /// A task is about to be done.
    TaskCompleted,
    /// A worktree is wanted.
    WorktreeCreate,
    /// A worktree is no longer wanted.
    WorktreeRemove,
    /// A settings file changed.
    ConfigChange,
    /// An instruction file was read.
    InstructionsLoaded,
    /// The working directory changed.
    CwdChanged,
    /// A watched file changed.
    FileChanged,
}
