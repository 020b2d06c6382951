//! Hooks as data: the moments at which one can speak, where it was set, and what the log keeps of
//! each time it did. Matching, running and merging belong to control.
//! Adding an event: a line in the table here and the place where it fires.

use crate::{CallId, RuleSource, Usage, Verdict};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Makes the enum, the list of all and the names from one table.
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A moment in a session's life, by the name settings files use.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum HookEvent {
            $($(#[$doc])* $name,)*
        }

        impl HookEvent {
            /// Every event.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name in settings files.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

events! {
    /// A session begins or is resumed.
    SessionStart,
    /// A session ends.
    SessionEnd,
    /// The folder is prepared before a session.
    Setup,
    /// The user submitted a prompt.
    UserPromptSubmit,
    /// A command of the user was made into a prompt.
    UserPromptExpansion,
    /// A call is about to be judged.
    PreToolUse,
    /// A call is about to ask.
    PermissionRequest,
    /// A call was denied without anybody being asked.
    PermissionDenied,
    /// A call succeeded.
    PostToolUse,
    /// A call failed.
    PostToolUseFailure,
    /// All calls of an answer have their results.
    PostToolBatch,
    /// The user should notice something.
    Notification,
    /// The turn is about to end.
    Stop,
    /// The turn ended because the model could not be asked.
    StopFailure,
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
    /// A working directory was added.
    DirectoryAdded,
    /// An MCP server wants an answer from the user.
    Elicitation,
    /// The user answered an MCP server.
    ElicitationResult,
    /// Text of the model is about to be shown.
    MessageDisplay,
}

/// How much a hook can do at an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// It decides whether something happens; one that is broken says no.
    Gate,
    /// It sends the agent back or on; one that is broken is only noted.
    Steer,
    /// It watches.
    Watch,
}

/// Where a hook was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookSource {
    /// A settings file or flag.
    Settings(RuleSource),
    /// A plugin, by name.
    Plugin(String),
    /// An agent's front matter, by the agent's name.
    Agent(String),
    /// A skill's front matter, by the skill's name.
    Skill(String),
    /// The program that started us.
    Host,
}

/// A hook as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookInfo {
    /// When it speaks.
    pub event: HookEvent,
    /// About what: a tool name, a reason, …; empty for everything.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub matcher: String,
    /// The permission rule a call must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// `command`, `http`, `prompt`, `callback`, …
    pub kind: String,
    /// The command, address or callback.
    pub hook: String,
    /// Where it was set.
    pub source: HookSource,
    /// How long it may take.
    pub timeout_ms: u64,
    /// Whether nobody waits for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
}

/// What the log keeps about hooks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HookRecord {
    /// These are in force from here on.
    Configured {
        /// All of them.
        hooks: Vec<HookInfo>,
    },
    /// An event came for which there are hooks.
    Fired(HookFiring),
}

/// One event and what the hooks made of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookFiring {
    /// The event.
    pub event: HookEvent,
    /// The call it was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// What matchers were tried on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Every hook that was evaluated; none when no matcher fitted.
    pub runs: Vec<HookRun>,
    /// What a gate says in the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Why the agent is sent back, where the event allows that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// Whether a call's input was replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed_input: bool,
    /// Why the whole run must stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Whether it tells how hooks ended that nobody had waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

/// One hook's part in a firing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookRun {
    /// The command, address or callback.
    pub hook: String,
    /// Where it was set.
    pub source: HookSource,
    /// How it ended.
    pub end: HookEnd,
    /// How long it took.
    pub duration_ms: u64,
    /// What it said.
    pub word: HookWord,
    /// What was wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What it used of a model, if it asked one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
}

/// What a question to a model used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// The model.
    pub model: String,
    /// Tokens.
    pub usage: Usage,
    /// Their price in US dollars, once it was booked.
    #[serde(default)]
    pub cost_usd: f64,
}

/// How a hook ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum HookEnd {
    /// Its process returned.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// Its process was killed by a signal that was not ours.
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// It answered.
    Answered,
    /// It took too long.
    TimedOut,
    /// It said more than anybody would read.
    Babbled,
    /// It could not be started, reached or asked.
    Failed,
    /// Nobody waited for it.
    Background,
    /// Somebody else decided first; it was stopped.
    Withdrawn,
}

/// What one hook said about an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookWord {
    /// Nothing that decides.
    Nothing,
    /// Yes.
    Allow,
    /// Ask the user.
    Ask,
    /// Go back and do something about it.
    Block,
    /// No.
    Deny,
}

impl HookEvent {
    /// How much a hook can do here.
    pub fn power(self) -> Power {
        match self {
            Self::PreToolUse
            | Self::PermissionRequest
            | Self::UserPromptSubmit
            | Self::UserPromptExpansion
            | Self::ConfigChange
            | Self::WorktreeCreate => Power::Gate,
            Self::PostToolUse
            | Self::PostToolBatch
            | Self::Stop
            | Self::SubagentStop
            | Self::PreCompact
            | Self::TeammateIdle
            | Self::TaskCreated
            | Self::TaskCompleted => Power::Steer,
            Self::SessionStart
            | Self::SessionEnd
            | Self::Setup
            | Self::PermissionDenied
            | Self::PostToolUseFailure
            | Self::Notification
            | Self::StopFailure
            | Self::SubagentStart
            | Self::PostCompact
            | Self::WorktreeRemove
            | Self::InstructionsLoaded
            | Self::CwdChanged
            | Self::FileChanged
            | Self::DirectoryAdded
            | Self::Elicitation
            | Self::ElicitationResult
            | Self::MessageDisplay => Power::Watch,
        }
    }

    /// Whether it is about one call of a tool.
    pub fn is_about_a_call(self) -> bool {
        self.subject() == Some("tool_name")
    }

    /// The field of the input that matchers are tried on.
    pub fn subject(self) -> Option<&'static str> {
        match self {
            Self::PreToolUse
            | Self::PermissionRequest
            | Self::PermissionDenied
            | Self::PostToolUse
            | Self::PostToolUseFailure => Some("tool_name"),
            Self::SessionStart | Self::ConfigChange | Self::DirectoryAdded => Some("source"),
            Self::SessionEnd => Some("reason"),
            Self::Setup | Self::PreCompact | Self::PostCompact => Some("trigger"),
            Self::UserPromptExpansion => Some("command_name"),
            Self::SubagentStart | Self::SubagentStop => Some("agent_type"),
            Self::StopFailure => Some("error"),
            Self::Notification => Some("notification_type"),
            Self::InstructionsLoaded => Some("load_reason"),
            Self::FileChanged => Some("file_path"),
            Self::Elicitation | Self::ElicitationResult => Some("mcp_server_name"),
            Self::UserPromptSubmit
            | Self::PostToolBatch
            | Self::Stop
            | Self::TeammateIdle
            | Self::TaskCreated
            | Self::TaskCompleted
            | Self::WorktreeCreate
            | Self::WorktreeRemove
            | Self::CwdChanged
            | Self::MessageDisplay => None,
        }
    }
}

impl FromStr for HookEvent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .iter()
            .copied()
            .find(|event| event.as_str() == text)
            .ok_or_else(|| format!("there is no hook event '{text}'"))
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for HookSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(source) => source.fmt(f),
            Self::Plugin(name) => write!(f, "the plugin {name}"),
            Self::Agent(name) => write!(f, "the agent {name}"),
            Self::Skill(name) => write!(f, "the skill {name}"),
            Self::Host => f.write_str("the host program"),
        }
    }
}

impl fmt::Display for HookEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exit {code}"),
            Self::Killed { signal } => write!(f, "killed by signal {signal}"),
            Self::Answered => f.write_str("answered"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Babbled => f.write_str("said too much"),
            Self::Failed => f.write_str("failed"),
            Self::Background => f.write_str("in the background"),
            Self::Withdrawn => f.write_str("somebody else was faster"),
        }
    }
}

impl fmt::Display for HookWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Block => "block",
            Self::Deny => "deny",
        })
    }
}
