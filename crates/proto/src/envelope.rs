//! What every frontend reads: one stream of envelopes, durable events and live ones alike.

use crate::{
    Access, AgentId, AskId, CallId, Entry, EntryId, ErrorKind, HookNews, Intent, Job, Json, Mode, ModelEvent,
    Reason, Rule, RuleSource, SessionId, StopReason, Suggestion, Trigger, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{collections::BTreeMap, path::PathBuf};

/// One event on its way to the frontends.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// Counts up by one within a process.
    pub seq: u64,
    /// The session.
    pub session: SessionId,
    /// The agent, if it is not the main one.
    pub agent: Option<AgentId>,
    /// What happened.
    pub event: AgentEvent,
}

/// What can happen, as frontends see it.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// A turn begins.
    TurnStarted(SessionInfo),
    /// Something durable; it is on disk already.
    Recorded(Entry),
    /// A request goes out.
    Requesting,
    /// A piece of the model's answer.
    Delta(ModelEvent),
    /// A call begins to run.
    CallStarted {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// What it does.
        intent: Intent,
    },
    /// A running call has something to show.
    CallProgress {
        /// The call.
        call: CallId,
        /// New output.
        text: String,
    },
    /// Somebody must answer; see [`crate::Command::Answer`].
    Asked(Ask),
    /// A question needs no answer any more.
    AskWithdrawn {
        /// The question.
        ask: AskId,
    },
    /// A hook is at work, or a callback of the host is called.
    Hook(HookNews),
    /// A command in the background began or ended.
    JobChanged {
        /// The command as it is now.
        job: Job,
        /// When, in milliseconds since 1970.
        at_ms: u64,
    },
    /// A request failed and will be tried again.
    Retrying {
        /// Counts from one.
        attempt: u32,
        /// The most there will be.
        max_attempts: u32,
        /// How long until then.
        delay_ms: u64,
        /// HTTP status, if there was one.
        status: Option<u16>,
        /// What kind of failure.
        kind: ErrorKind,
        /// What went wrong.
        message: String,
    },
    /// The model is about to be asked once more within the turn.
    WentRound(Round),
    /// The answer to a [`crate::Command::Query`].
    Answered {
        /// The question's id.
        id: String,
        /// What was asked for, or why it cannot be had.
        answer: Result<Json, String>,
    },
    /// The conversation is being made shorter; that it was is recorded, that it was not is told.
    Compacting {
        /// Who wanted it.
        trigger: Trigger,
    },
    /// It was not, and stays as it was.
    CompactionFailed {
        /// Why.
        message: String,
    },
    /// Something the user should know.
    Notice {
        /// The words.
        text: String,
    },
    /// The conversation is over and another begins; what follows belongs to that one.
    Reset {
        /// The session that begins.
        to: SessionId,
        /// The prompt that asked for it.
        prompt: Option<EntryId>,
    },
    /// The turn is over.
    TurnEnded(TurnEnd),
    /// The last event: the session is closed and flushed.
    Closed,
}

/// Why the model is asked once more, and how often that has happened in this turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// Why.
    pub why: Why,
    /// Counts from one.
    pub times: u32,
}

/// Why the model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Somebody said something, or a command in the background ended, and a turn began.
    Prompt,
    /// Its calls have their results.
    Results,
    /// The request failed and is made again.
    Retry,
    /// The model would not answer; another is asked instead.
    Fallback,
    /// The answer hit the output limit and goes on.
    OutputLimit,
    /// A tool on the server's side needs more time.
    Pause,
    /// The model would not answer this.
    Refusal,
    /// A hook sent it back to work.
    StopHook,
    /// The user said something while it worked.
    Queue,
    /// The conversation was made shorter.
    Compaction,
    /// The budget is nearly used up: the last answer.
    Closing,
}

/// What of a budget ran out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// US dollars.
    Usd(f64),
    /// Tokens of all kinds.
    Tokens(u64),
    /// Seconds of work.
    Seconds(u64),
    /// Tool calls.
    Calls(u64),
}

/// Facts about the session that a turn starts from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionInfo {
    /// Working directory.
    pub cwd: PathBuf,
    /// Model name as chosen.
    pub model: String,
    /// Permission mode.
    pub mode: Mode,
    /// Names of usable tools.
    pub tools: Vec<String>,
    /// Names of commands that a prompt may begin with.
    pub commands: Vec<String>,
    /// Which credential is in use, by name; never its value.
    pub key_source: String,
    /// Where the transcript is written, if it is.
    pub transcript: Option<PathBuf>,
}

/// A question about one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// The question's id.
    pub id: AskId,
    /// The call it is about.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// The call's input.
    pub input: Json,
    /// What it would do.
    pub intent: Intent,
    /// Why it is a question.
    pub because: Reason,
    /// Rules that would answer it for next time.
    pub suggestions: Vec<Suggestion>,
}

impl Ask {
    /// What may be remembered with a yes, in the words of hosts and hooks; nothing where nobody can have seen the
    /// call whole.
    pub fn offers(&self) -> Vec<Json> {
        let rules =
            self.suggestions.iter().filter_map(|one| Rule::parse(&one.rule, RuleSource::Session).ok());
        let rules = rules.map(|rule| {
            let rule = json!({"toolName": rule.tool, "ruleContent": rule.pattern});
            json!({"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"})
        });
        let is_edit = matches!(self.intent.access, Access::Write { .. }) && !self.suggestions.is_empty();
        let by_mode = self.because == Reason::Mode { mode: Mode::Default };
        let accept = json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"});
        (is_edit && by_mode).then_some(accept).into_iter().chain(rules).collect()
    }
}

/// How a turn ended and what it used.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEnd {
    /// How.
    pub outcome: TurnOutcome,
    /// The model's last text.
    pub text: String,
    /// Why the last answer stopped.
    pub stop: Option<StopReason>,
    /// Answers of the model in this turn.
    pub round_trips: u32,
    /// From prompt to end.
    pub duration_ms: u64,
    /// Of that, waiting for the model.
    pub api_ms: u64,
    /// Tokens of this turn.
    pub usage: Usage,
    /// Tokens and dollars by model since the process started, or since the conversation was cleared.
    pub by_model: BTreeMap<String, ModelSpend>,
    /// The same by who asked.
    pub by_agent: BTreeMap<String, AgentSpend>,
    /// What calls took, by tool, over the whole session.
    pub by_tool: BTreeMap<String, ToolSpend>,
    /// Dollars since the process started, or since the conversation was cleared.
    pub cost_usd: f64,
    /// Calls that were denied in this turn.
    pub denials: Vec<Denial>,
    /// Commands in the background that were stopped because the session ends with this turn.
    pub stopped_jobs: Vec<Job>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnOutcome {
    /// The model was done.
    Completed,
    /// The limit of answers per turn was reached.
    MaxTurns {
        /// The limit.
        limit: u32,
    },
    /// The budget ran out.
    BudgetExhausted {
        /// What of it.
        limit: Limit,
    },
    /// The user stopped it.
    Interrupted {
        /// Whether tools were running.
        during_tools: bool,
    },
    /// The model API would not answer.
    ApiError {
        /// HTTP status, if there was one.
        status: Option<u16>,
        /// What kind of failure.
        kind: ErrorKind,
        /// What went wrong and the way out.
        message: String,
    },
    /// The conversation does not fit the model, and nothing more can be taken out of it.
    PromptTooLong {
        /// HTTP status, if the model API said so.
        status: Option<u16>,
        /// What was tried and the way out.
        message: String,
    },
    /// A hook stopped the run.
    HookStopped {
        /// Why, in the hook's words.
        reason: String,
    },
    /// Something on our side: the log could not be written, a tool was fatal.
    Failed {
        /// What went wrong and the way out.
        message: String,
    },
}

/// One model's share.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ModelSpend {
    /// Tokens.
    pub usage: Usage,
    /// Dollars.
    pub cost_usd: f64,
    /// The model's context window.
    pub context_window: u64,
    /// The model's output limit.
    pub max_output_tokens: u64,
}

/// The share of one who asks models.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AgentSpend {
    /// Tokens.
    pub usage: Usage,
    /// Dollars.
    pub cost_usd: f64,
}

/// One tool's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolSpend {
    /// Calls that got a result.
    pub calls: u64,
    /// Of those, the ones that did not come to their end.
    pub failed: u64,
    /// Milliseconds they ran.
    pub ran_ms: u64,
    /// Bytes of text the model got from them.
    pub bytes: u64,
}

/// One denied call.
#[derive(Debug, Clone, PartialEq)]
pub struct Denial {
    /// The tool.
    pub tool: String,
    /// The call.
    pub call: CallId,
    /// Its input.
    pub input: Json,
}
