//! What one hook answered: exit codes and JSON read by the rules of its event. Pure.
//! Whatever cannot be read is trouble, never an answer.

use super::extras::Extras;
use ostler_proto::{HookEvent, Json, hook::HookWord, hook::Power};
use serde::Deserialize;
use serde_json::{Map, json};

/// One hook's answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Answer {
    /// Its word and the reason for it.
    pub(super) word: Word,
    /// Another input for the call.
    pub(super) updated_input: Option<Json>,
    /// Changes to the permissions, with a yes to a request.
    pub(super) updated_permissions: Vec<Json>,
    /// Whether a no to a request also stops the turn.
    pub(super) interrupt: bool,
    /// For the model.
    pub(super) context: Option<String>,
    /// For the user.
    pub(super) system_message: Option<String>,
    /// Why the whole run must stop.
    pub(super) stop: Option<String>,
    /// Whether its output is not worth showing.
    pub(super) suppress_output: bool,
    /// What stands in the place of the call's result.
    pub(super) replaced_result: Option<Json>,
    /// What it said that only few events know.
    pub(super) extras: Extras,
    /// Everything it said for its event alone.
    pub(super) specific: Option<Json>,
    /// Words for the log: why an exit code was ignored and the like.
    pub(super) note: Option<String>,
}

/// What a hook said, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Word {
    #[default]
    Nothing,
    Allow(String),
    Ask(String),
    Block(String),
    Deny(String),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It broke: crashed, hung, babbled or cannot be understood. A broken gate is a closed one.
    Broken(String),
    /// It reported an error of its own, which blocks nothing unless it was set up to.
    Error(String),
}

/// How a hook's process ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    Code(i32),
    Signal(i32),
}

impl Word {
    /// The word alone, for the log.
    pub(super) fn kind(&self) -> HookWord {
        match self {
            Self::Nothing => HookWord::Nothing,
            Self::Allow(_) => HookWord::Allow,
            Self::Ask(_) => HookWord::Ask,
            Self::Block(_) => HookWord::Block,
            Self::Deny(_) => HookWord::Deny,
        }
    }

    /// An objection, as strong as the event lets it be.
    pub(super) fn objection(event: HookEvent, reason: String) -> Self {
        match event.power() {
            Power::Gate => Self::Deny(reason),
            Power::Steer => Self::Block(reason),
            Power::Watch => Self::Nothing,
        }
    }
}

/// Reads what a process left behind.
pub(super) fn of_process(
    event: HookEvent,
    exit: Exit,
    stdout: &[u8],
    stderr: &str,
) -> Result<Answer, Trouble> {
    let stderr = stderr.trim();
    let code = match exit {
        // A shell tells its child's death by a signal as 128 and more, a missing program as 126 and 127.
        Exit::Code(code @ (126.. | ..0)) => return Err(Trouble::Broken(told(&crash(code), stderr))),
        Exit::Signal(signal) => {
            return Err(Trouble::Broken(told(&format!("was killed by signal {signal}"), stderr)));
        }
        Exit::Code(code) => code,
    };
    let output = of_stdout(event, stdout);
    match (code, output) {
        (0, Ok(None)) => Ok(of_plain_text(event, stdout)),
        (2, output) => Ok(objected(event, output.ok().flatten(), &reason_in(stdout, stderr))),
        (_, Err(trouble)) => Err(trouble),
        (1.., Ok(_)) if event == HookEvent::WorktreeCreate => {
            Err(Trouble::Broken(told(&format!("exited with {code}"), stderr)))
        }
        (_, Ok(Some(answer))) => Ok(answer),
        (_, Ok(None)) => Err(Trouble::Error(told(&format!("exited with {code}"), stderr))),
    }
}

fn crash(code: i32) -> String {
    match code {
        126 => "could not be executed".to_owned(),
        127 => "was not found".to_owned(),
        129..=192 => format!("was killed by signal {}", code - 128),
        _ => format!("exited with {code}"),
    }
}

fn told(what: &str, stderr: &str) -> String {
    if stderr.is_empty() { format!("it {what}") } else { format!("it {what}: {stderr}") }
}

/// What stands on stdout, if it is JSON at all.
fn of_stdout(event: HookEvent, stdout: &[u8]) -> Result<Option<Answer>, Trouble> {
    if stdout.trim_ascii_start().first() != Some(&b'{') {
        return Ok(None);
    }
    of_bytes(event, stdout).map(Some)
}

/// Reads a JSON answer. The reader bounds the depth.
pub(super) fn of_bytes(event: HookEvent, bytes: &[u8]) -> Result<Answer, Trouble> {
    let value: Json = serde_json::from_slice(bytes)
        .map_err(|error| Trouble::Broken(format!("its answer is not JSON: {error}")))?;
    of_json(event, &value)
}

/// Plain words are context where a session or prompt begins, a path where a worktree is wanted.
fn of_plain_text(event: HookEvent, stdout: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(stdout);
    let text = text.trim_end();
    let is_heard = matches!(
        event,
        HookEvent::SessionStart | HookEvent::UserPromptSubmit | HookEvent::UserPromptExpansion
    );
    let path = text.lines().last().filter(|_| event == HookEvent::WorktreeCreate);
    Answer {
        context: (is_heard && !text.is_empty()).then(|| text.to_owned()),
        specific: path.map(|path| json!({"hookEventName": event, "worktreePath": path.trim()})),
        ..Answer::default()
    }
}

/// The reason for exit code 2: what JSON on stdout gives as one, or else the words on stderr.
fn reason_in(stdout: &[u8], stderr: &str) -> String {
    let output: Json = serde_json::from_slice(stdout).unwrap_or_default();
    let reasons =
        ["/hookSpecificOutput/permissionDecisionReason", "/hookSpecificOutput/decision/message", "/reason"];
    let said = reasons.iter().filter_map(|at| output.pointer(at).and_then(Json::as_str)).chain([stderr]);
    said.map(str::trim).find(|reason| !reason.is_empty()).unwrap_or("it gave no reason").to_owned()
}

/// Exit code 2: an objection, whatever else was said.
fn objected(event: HookEvent, answer: Option<Answer>, reason: &str) -> Answer {
    // A request that is not answered is put to the user, who can still say no.
    let is_ignored = event == HookEvent::PermissionRequest;
    let word = if is_ignored { Word::Nothing } else { Word::objection(event, reason.to_owned()) };
    let note = (word == Word::Nothing).then(|| format!("exit code 2 has no effect on {event}: {reason}"));
    Answer { word, note, updated_input: None, updated_permissions: Vec::new(), ..answer.unwrap_or_default() }
}

/// The answer as it may be written; other keys are left alone.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    #[serde(rename = "continue")]
    goes_on: Option<bool>,
    stop_reason: Option<String>,
    suppress_output: Option<bool>,
    system_message: Option<String>,
    decision: Option<Legacy>,
    reason: Option<String>,
    hook_specific_output: Option<Specific>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Legacy {
    Approve,
    Block,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Specific {
    hook_event_name: String,
    permission_decision: Option<Permission>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Map<String, Json>>,
    additional_context: Option<String>,
    decision: Option<Json>,
    updated_tool_output: Option<Json>,
    #[serde(rename = "updatedMCPToolOutput")]
    updated_mcp_tool_output: Option<Json>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Permission {
    Allow,
    Deny,
    Ask,
    Defer,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestDecision {
    behavior: Behavior,
    updated_input: Option<Map<String, Json>>,
    updated_permissions: Option<Vec<Json>>,
    message: Option<String>,
    interrupt: Option<bool>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Behavior {
    Allow,
    Deny,
}

/// Reads an answer that is JSON already.
pub(super) fn of_json(event: HookEvent, value: &Json) -> Result<Answer, Trouble> {
    let output = Written::deserialize(value)
        .map_err(|error| Trouble::Broken(format!("its answer is not a hook's answer: {error}")))?;
    let reason = output.reason.unwrap_or_default();
    let word = match (output.decision, event) {
        (Some(Legacy::Block), _) => Word::objection(event, reason.clone()),
        (Some(Legacy::Approve), HookEvent::PreToolUse) => Word::Allow(reason.clone()),
        (Some(Legacy::Approve) | None, _) => Word::Nothing,
    };
    let stop_reason = output.stop_reason.unwrap_or_else(|| "it gave no reason".to_owned());
    let mut answer = Answer {
        word,
        system_message: output.system_message,
        stop: (output.goes_on == Some(false)).then_some(stop_reason),
        suppress_output: output.suppress_output.unwrap_or(false),
        ..Answer::default()
    };
    if let Some(specific) = output.hook_specific_output {
        answer.specific = value.get("hookSpecificOutput").cloned();
        answer.extras = Extras::read(event, &value["hookSpecificOutput"])
            .map_err(|error| Trouble::Broken(format!("its answer is not a hook's answer: {error}")))?;
        read_specific(event, specific, &reason, &mut answer)?;
    }
    Ok(answer)
}

fn read_specific(
    event: HookEvent,
    specific: Specific,
    reason: &str,
    answer: &mut Answer,
) -> Result<(), Trouble> {
    if specific.hook_event_name != event.as_str() {
        let name = specific.hook_event_name;
        return Err(Trouble::Broken(format!("its answer is about {name}, but it was asked about {event}")));
    }
    answer.context = specific.additional_context;
    if event == HookEvent::PostToolUse {
        answer.replaced_result = specific.updated_tool_output.or(specific.updated_mcp_tool_output);
    }
    if event == HookEvent::PreToolUse {
        answer.updated_input = specific.updated_input.map(Json::Object);
        let reason = specific.permission_decision_reason.unwrap_or_else(|| reason.to_owned());
        match specific.permission_decision {
            Some(Permission::Allow) => answer.word = Word::Allow(reason),
            Some(Permission::Deny) => answer.word = Word::Deny(reason),
            // Whoever defers wants somebody to decide later: nobody but the user can.
            Some(Permission::Ask | Permission::Defer) => answer.word = Word::Ask(reason),
            None => {}
        }
    }
    if let (HookEvent::PermissionRequest, Some(decision)) = (event, &specific.decision) {
        let decision = RequestDecision::deserialize(decision)
            .map_err(|error| Trouble::Broken(format!("its decision cannot be read: {error}")))?;
        let message = decision.message.unwrap_or_default();
        match decision.behavior {
            Behavior::Allow => {
                answer.word = Word::Allow(message);
                answer.updated_input = decision.updated_input.map(Json::Object);
                answer.updated_permissions = decision.updated_permissions.unwrap_or_default();
            }
            Behavior::Deny => {
                answer.word = Word::Deny(message);
                answer.interrupt = decision.interrupt.unwrap_or(false);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
