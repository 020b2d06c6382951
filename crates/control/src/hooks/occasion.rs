//! An event as a hook is told of it: the fields every input has and those of its event.
//! Only data; nothing here knows which hooks there are.

use ostler_proto::{CallId, HookEvent, Intent, Json, Mode, SessionId};
use serde_json::{Map, json};
use std::path::{Path, PathBuf};

/// What every input says about the session.
#[derive(Debug, Clone, PartialEq)]
pub struct Common {
    /// The session.
    pub session_id: SessionId,
    /// Its transcript, if it is written.
    pub transcript_path: Option<PathBuf>,
    /// Where the session stands; commands start there.
    pub cwd: PathBuf,
    /// The permission mode.
    pub permission_mode: Mode,
    /// The prompt the turn began with.
    pub prompt_id: Option<String>,
    /// How hard the model tries.
    pub effort: Option<String>,
    /// Id and kind of the agent, if it is not the main one.
    pub agent: Option<(String, String)>,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Occasion {
    /// Which.
    pub event: HookEvent,
    /// The fields of its own.
    pub details: Map<String, Json>,
    /// What the call would do, for conditions on it; only calls have one.
    pub intent: Option<Intent>,
}

/// A call as the events about calls tell it.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Its input, paths absolute.
    pub input: &'a Json,
    /// The call's id.
    pub id: &'a CallId,
    /// What it would do, or did.
    pub intent: &'a Intent,
}

impl Occasion {
    /// An event without fields of its own.
    pub fn new(event: HookEvent) -> Self {
        Self { event, details: Map::new(), intent: None }
    }

    /// The same with one more field.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Json>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// A session begins: `startup`, `resume`, `clear`, `compact` or `fork`.
    pub fn session_start(source: &str, model: &str) -> Self {
        Self::new(HookEvent::SessionStart).with("source", source).with("model", model)
    }

    /// A session ends: `clear`, `resume`, `logout`, `prompt_input_exit` or `other`.
    pub fn session_end(reason: &str) -> Self {
        Self::new(HookEvent::SessionEnd).with("reason", reason)
    }

    /// The user submitted a prompt.
    pub fn user_prompt_submit(prompt: &str) -> Self {
        Self::new(HookEvent::UserPromptSubmit).with("prompt", prompt)
    }

    /// A call is about to be judged.
    pub fn pre_tool_use(call: CallFacts<'_>) -> Self {
        Self::about_call(HookEvent::PreToolUse, call).with("tool_use_id", call.id.as_str())
    }

    /// A call is about to ask. It carries no id of the call, as its readers expect.
    pub fn permission_request(call: CallFacts<'_>, suggestions: Vec<Json>) -> Self {
        Self::about_call(HookEvent::PermissionRequest, call).with("permission_suggestions", suggestions)
    }

    /// A call succeeded.
    pub fn post_tool_use(call: CallFacts<'_>, response: Json, duration_ms: u64) -> Self {
        Self::about_call(HookEvent::PostToolUse, call)
            .with("tool_response", response)
            .with("tool_use_id", call.id.as_str())
            .with("duration_ms", duration_ms)
    }

    /// A call ran and failed.
    pub fn post_tool_use_failure(call: CallFacts<'_>, error: &str, failure: Failure) -> Self {
        Self::about_call(HookEvent::PostToolUseFailure, call)
            .with("tool_use_id", call.id.as_str())
            .with("error", error)
            .with("is_interrupt", failure.is_interrupt)
            .with("duration_ms", failure.duration_ms)
    }

    /// The user should notice something, e.g. `permission_prompt` or `idle_prompt`.
    pub fn notification(kind: &str, message: &str) -> Self {
        Self::new(HookEvent::Notification).with("message", message).with("notification_type", kind)
    }

    /// The turn is about to end.
    pub fn stop(last_message: &str, again: Again) -> Self {
        Self::new(HookEvent::Stop)
            .with("stop_hook_active", again == Again::Yes)
            .with("last_assistant_message", last_message)
            .with("background_tasks", json!([]))
            .with("session_crons", json!([]))
    }

    /// The turn ended because the model could not be asked: the kind of error, and its words.
    pub fn stop_failure(error: &str, details: &str, last_message: &str) -> Self {
        Self::new(HookEvent::StopFailure)
            .with("error", error)
            .with("error_details", details)
            .with("last_assistant_message", last_message)
    }

    /// A call was denied, for this reason.
    pub fn permission_denied(call: CallFacts<'_>, reason: &str) -> Self {
        Self::about_call(HookEvent::PermissionDenied, call)
            .with("tool_use_id", call.id.as_str())
            .with("reason", reason)
    }

    /// All calls of an answer have their results; each as `{tool_name, tool_input, tool_use_id, tool_response}`.
    pub fn post_tool_batch(calls: Vec<Json>) -> Self {
        Self::new(HookEvent::PostToolBatch).with("tool_calls", calls)
    }

    /// The conversation is about to be compacted: `manual` or `auto`, and what the user said about it.
    pub fn pre_compact(trigger: &str, custom_instructions: &str) -> Self {
        Self::new(HookEvent::PreCompact)
            .with("trigger", trigger)
            .with("custom_instructions", custom_instructions)
    }

    /// The conversation was compacted to this.
    pub fn post_compact(trigger: &str, summary: &str) -> Self {
        Self::new(HookEvent::PostCompact).with("trigger", trigger).with("compact_summary", summary)
    }

    /// An instruction file was read: `User`, `Project`, `Local` or `Managed`, at `session_start`, … . Globs, the
    /// file that led to it and the file that names it are added with [`Self::with`].
    pub fn instructions_loaded(path: &Path, memory_type: &str, load_reason: &str) -> Self {
        Self::new(HookEvent::InstructionsLoaded)
            .with("file_path", path.to_string_lossy())
            .with("memory_type", memory_type)
            .with("load_reason", load_reason)
    }

    /// A settings file changed: `user_settings`, `project_settings`, `local_settings`, `policy_settings`.
    pub fn config_change(source: &str, path: &Path) -> Self {
        Self::new(HookEvent::ConfigChange).with("source", source).with("file_path", path.to_string_lossy())
    }

    /// The working directory changed.
    pub fn cwd_changed(old: &Path, new: &Path) -> Self {
        Self::new(HookEvent::CwdChanged)
            .with("old_cwd", old.to_string_lossy())
            .with("new_cwd", new.to_string_lossy())
    }

    /// A watched file changed: `add`, `change` or `unlink`.
    pub fn file_changed(path: &Path, event: &str) -> Self {
        Self::new(HookEvent::FileChanged).with("file_path", path.to_string_lossy()).with("event", event)
    }

    fn about_call(event: HookEvent, call: CallFacts<'_>) -> Self {
        let occasion = Self::new(event).with("tool_name", call.tool).with("tool_input", call.input.clone());
        Self { intent: Some(call.intent.clone()), ..occasion }
    }

    /// What matchers are tried on.
    pub fn about(&self) -> Option<String> {
        let text = self.details.get(self.event.subject()?)?.as_str()?;
        // Watched files are matched by their names, wherever they lie.
        let is_file = self.event == HookEvent::FileChanged;
        let name = text.rsplit('/').next().filter(|_| is_file);
        Some(name.unwrap_or(text).to_owned())
    }

    /// The call it is about.
    pub fn call(&self) -> Option<CallId> {
        self.details.get("tool_use_id").and_then(Json::as_str).map(CallId::from)
    }

    /// The whole input as hooks get it.
    pub fn input(&self, common: &Common) -> Json {
        let transcript = common.transcript_path.as_ref().map(|path| path.to_string_lossy().into_owned());
        let mut input = Map::new();
        let mut put = |key: &str, value: Json| {
            input.insert(key.to_owned(), value);
        };
        put("session_id", json!(common.session_id));
        put("transcript_path", json!(transcript.unwrap_or_default()));
        put("cwd", json!(common.cwd.to_string_lossy()));
        if let Some(prompt) = &common.prompt_id {
            put("prompt_id", json!(prompt));
        }
        put("permission_mode", json!(common.permission_mode));
        if let Some((id, kind)) = &common.agent {
            put("agent_id", json!(id));
            put("agent_type", json!(kind));
        }
        if let Some(level) = &common.effort {
            put("effort", json!({ "level": level }));
        }
        put("hook_event_name", json!(self.event));
        for (key, value) in &self.details {
            if key != "hook_event_name" {
                put(key, value.clone());
            }
        }
        Json::Object(input)
    }

    /// An event of this kind as it might come, to try hooks on.
    pub fn sample(event: HookEvent) -> Self {
        let details = match sample(event) {
            Json::Object(details) => details,
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => Map::new(),
        };
        Self { event, details, intent: None }
    }
}

/// How a failed call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Whether the user stopped it.
    pub is_interrupt: bool,
    /// How long it ran.
    pub duration_ms: u64,
}

/// Whether a hook has already kept this turn from ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// This is the first time it wants to end.
    No,
    /// It was sent back before.
    Yes,
}

/// The fields of an event with everyday values.
fn sample(event: HookEvent) -> Json {
    let call = json!({"tool_name": "Bash", "tool_input": {"command": "git status", "description": "Show the state of the tree"}});
    let and = |more: Json| -> Json {
        let fields = [call.as_object(), more.as_object()].into_iter().flatten().flatten();
        Json::Object(fields.map(|(key, value)| (key.clone(), value.clone())).collect())
    };
    let stopping = json!({"stop_hook_active": false, "last_assistant_message": "Done.", "background_tasks": [], "session_crons": []});
    match event {
        HookEvent::SessionStart => json!({"source": "startup", "model": "claude-sonnet-4-5"}),
        HookEvent::SessionEnd => json!({"reason": "other"}),
        HookEvent::Setup => json!({"trigger": "init"}),
        HookEvent::UserPromptSubmit => json!({"prompt": "Fix the failing test"}),
        HookEvent::UserPromptExpansion => {
            json!({"expansion_type": "slash_command", "command_name": "review", "command_args": "", "command_source": "project", "prompt": "Review the changes"})
        }
        HookEvent::PreToolUse => and(json!({"tool_use_id": "toolu_sample"})),
        HookEvent::PermissionRequest => and(json!({"permission_suggestions": []})),
        HookEvent::PermissionDenied => and(json!({"tool_use_id": "toolu_sample", "reason": "too risky"})),
        HookEvent::PostToolUse => {
            let response = json!({"stdout": "nothing to commit", "stderr": "", "interrupted": false});
            and(json!({"tool_response": response, "tool_use_id": "toolu_sample", "duration_ms": 12}))
        }
        HookEvent::PostToolUseFailure => and(
            json!({"tool_use_id": "toolu_sample", "error": "Exit code 128", "is_interrupt": false, "duration_ms": 12}),
        ),
        HookEvent::PostToolBatch => {
            json!({"tool_calls": [and(json!({"tool_use_id": "toolu_sample", "tool_response": "{}"}))]})
        }
        HookEvent::Notification => {
            json!({"message": "Ostler needs your permission to use Bash", "notification_type": "permission_prompt"})
        }
        HookEvent::Stop => stopping,
        HookEvent::StopFailure => json!({"error": "rate_limit", "last_assistant_message": ""}),
        HookEvent::SubagentStart => json!({"agent_id": "agent_sample", "agent_type": "Explore"}),
        HookEvent::SubagentStop => {
            let mut fields = stopping;
            fields["agent_id"] = json!("agent_sample");
            fields["agent_type"] = json!("Explore");
            fields["agent_transcript_path"] = json!("");
            fields
        }
        HookEvent::PreCompact => json!({"trigger": "manual", "custom_instructions": ""}),
        HookEvent::PostCompact => json!({"trigger": "manual", "compact_summary": "What was done so far."}),
        HookEvent::TeammateIdle => json!({"teammate_name": "reviewer"}),
        HookEvent::TaskCreated | HookEvent::TaskCompleted => {
            json!({"task_id": "1", "task_subject": "Write the tests", "task_description": ""})
        }
        HookEvent::WorktreeCreate => json!({"name": "try-it"}),
        HookEvent::WorktreeRemove => json!({"worktree_path": "/tmp/try-it"}),
        HookEvent::ConfigChange => json!({"source": "user_settings", "file_path": "settings.json"}),
        HookEvent::InstructionsLoaded => {
            json!({"file_path": "CLAUDE.md", "memory_type": "Project", "load_reason": "session_start"})
        }
        HookEvent::CwdChanged => json!({"old_cwd": "/tmp", "new_cwd": "/tmp/sub"}),
        HookEvent::FileChanged => json!({"file_path": "/tmp/.envrc", "event": "change"}),
        HookEvent::DirectoryAdded => json!({"directory": "/tmp", "source": "add_dir"}),
        HookEvent::Elicitation => {
            json!({"mcp_server_name": "calc", "message": "Which unit?", "mode": "form"})
        }
        HookEvent::ElicitationResult => json!({"mcp_server_name": "calc", "action": "accept", "content": {}}),
        HookEvent::MessageDisplay => {
            json!({"turn_id": "1", "message_id": "msg_sample", "index": 0, "final": true, "delta": "Done."})
        }
    }
}
