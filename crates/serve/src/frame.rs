//! Envelopes as stream-json frames: one exhaustive mapping, plus the little that a frame needs to know of
//! its predecessors. Field names here are a wire format and stay as they are.

use crate::hook;
use crate::partial::Partial;
use crate::print::{StateFrames, StreamOptions};
use crate::result::{again, api_error, problem, result};
use ostler_proto::{
    AgentEvent, Block, CallId, Compaction, Decision, Entry, EntryId, Envelope, ErrorKind, HookEvent,
    HookNews, Job, JobState, Json, ModelEvent, Reason, Round, SessionEvent, SessionId, SessionInfo,
    ToolResult, TurnEnd, TurnOutcome, Usage,
};
use serde_json::json;
use std::collections::HashMap;
use uuid::Uuid;

/// The protocol generation we speak, in the numbers hosts compare with.
pub(crate) const COMPATIBLE_VERSION: &str = "2.1.325";

/// What a host may count on beyond the protocol itself.
pub(crate) const CAPABILITIES: [&str; 2] = ["interrupt_receipt_v1", "interrupt_cancel_queued_v1"];

/// What a host is told about what it asked to be told.
pub(crate) struct Framer {
    options: StreamOptions,
    version: String,
    session: SessionId,
    in_turn: bool,
    /// What the last turn started from.
    info: Option<SessionInfo>,
    /// Frames that came between turns; they follow the next init, which must be first.
    early: Vec<Json>,
    /// The first prompt of the turn.
    prompt: Option<EntryId>,
    /// Whether the turn began because a command in the background ended.
    woken: bool,
    /// Commands in the background.
    jobs: Vec<Job>,
    /// Tool names by call: decisions are recorded without them.
    tools: HashMap<CallId, String>,
    /// The entry that stands for a failed request.
    failure: Option<(EntryId, String)>,
    partial: Partial,
}

/// A host's view of what the session is doing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SessionState {
    Running,
    RequiresAction,
    Idle,
}

impl Framer {
    pub(crate) fn new(options: StreamOptions, version: String) -> Self {
        Self {
            options,
            version,
            session: SessionId(String::new()),
            in_turn: false,
            info: None,
            early: Vec::new(),
            prompt: None,
            woken: false,
            jobs: Vec::new(),
            tools: HashMap::new(),
            failure: None,
            partial: Partial::default(),
        }
    }

    /// The frames one envelope stands for, in order.
    pub(crate) fn frames(&mut self, envelope: &Envelope) -> Vec<Json> {
        if envelope.agent.is_some() {
            // Agents below the main one speak through the result of the call that started them.
            return Vec::new();
        }
        self.session.clone_from(&envelope.session);
        match &envelope.event {
            AgentEvent::TurnStarted(info) => self.turn_started(info),
            AgentEvent::TurnEnded(end) => self.turn_ended(end),
            AgentEvent::Recorded(entry) => {
                let frames = self.recorded(entry);
                self.in_turn_only(frames)
            }
            AgentEvent::Requesting => self.requesting(),
            AgentEvent::Delta(event) => self.delta(event),
            AgentEvent::Retrying { attempt, max_attempts, delay_ms, status, kind, message: _ } => {
                let mut frames = self.aborted();
                frames.push(self.system(
                    "api_retry",
                    json!({"attempt": attempt, "max_retries": max_attempts, "retry_delay_ms": delay_ms,
                        "error_status": status, "error": kind}),
                ));
                frames
            }
            AgentEvent::WentRound(round) => self.went_round(*round).into_iter().collect(),
            AgentEvent::Notice { text } => {
                let frame = self.system("informational", json!({"content": text, "level": "notice"}));
                self.in_turn_only(vec![frame])
            }
            AgentEvent::JobChanged { job, at_ms } => self.job_changed(job, *at_ms),
            AgentEvent::Compacting { .. } => vec![self.system("status", json!({"status": "compacting"}))],
            AgentEvent::CompactionFailed { message } => vec![self.system(
                "status",
                json!({"status": null, "compact_result": "failed", "compact_error": message}),
            )],
            AgentEvent::Hook(news) => self.hook(news),
            AgentEvent::Reset { to, prompt } => {
                self.jobs.clear();
                vec![json!({"type": "conversation_reset", "new_conversation_id": to, "trigger": "clear",
                    "user_message_uuid": prompt, "session_id": self.session, "uuid": to})]
            }
            // Questions travel as control requests; running calls show only their results.
            AgentEvent::Asked(_)
            | AgentEvent::AskWithdrawn { .. }
            | AgentEvent::Answered { .. }
            | AgentEvent::CallStarted { .. }
            | AgentEvent::CallProgress { .. }
            | AgentEvent::Closed => Vec::new(),
        }
    }

    /// The frame for a change of state, if the host asked for such frames.
    pub(crate) fn state(&self, state: SessionState) -> Option<Json> {
        let name = match state {
            SessionState::Running => "running",
            SessionState::RequiresAction => "requires_action",
            SessionState::Idle => "idle",
        };
        match self.options.session_state {
            StateFrames::Off => None,
            StateFrames::Everyone => Some(self.system("session_state_changed", json!({"state": name}))),
            StateFrames::HostOnly => {
                Some(self.system("session_state_changed", json!({"state": name, "sdk_host_only": true})))
            }
        }
    }

    fn turn_started(&mut self, info: &SessionInfo) -> Vec<Json> {
        self.in_turn = true;
        let mut frames: Vec<Json> = self.state(SessionState::Running).into_iter().collect();
        frames.push(self.init(info));
        frames.append(&mut self.early);
        self.info = Some(info.clone());
        frames
    }

    /// What the session is made of, for hosts that just met it or must look again.
    fn init(&self, info: &SessionInfo) -> Json {
        let tools: Vec<&str> =
            info.tools.iter().map(|tool| if tool == "Agent" { "Task" } else { tool.as_str() }).collect();
        self.system(
            "init",
            json!({
                "cwd": info.cwd, "tools": tools, "mcp_servers": [], "model": info.model,
                "permissionMode": info.mode, "slash_commands": info.commands, "apiKeySource": info.key_source,
                "claude_code_version": COMPATIBLE_VERSION, "ostler_version": self.version,
                "output_style": "default", "agents": [], "skills": [], "plugins": [],
                "capabilities": CAPABILITIES,
            }),
        )
    }

    /// A host that reads on from here has all the model has.
    fn compacted(&self, entry: &Entry, boundary: &EntryId, compaction: &Compaction) -> Vec<Json> {
        let mut frames = vec![self.system("status", json!({"status": null, "compact_result": "success"}))];
        let Compaction { trigger, pre_tokens, post_tokens, duration_ms, carried, pruned, .. } = compaction;
        if carried.is_empty() {
            let text = format!(
                "{} old results were set aside to save room: about {pre_tokens} tokens became about {post_tokens}",
                pruned.len()
            );
            frames.push(self.system("informational", json!({"content": text, "level": "notice"})));
            return frames;
        }
        let mut mark = self.system(
            "compact_boundary",
            json!({
                "compact_metadata": {"trigger": trigger, "pre_tokens": pre_tokens, "post_tokens": post_tokens,
                    "duration_ms": duration_ms},
                "logical_parent_uuid": entry.parent,
            }),
        );
        mark["uuid"] = json!(boundary);
        frames.push(mark);
        frames.extend(self.info.as_ref().map(|info| self.init(info)));
        let mut summary = self.entry_frame("user", entry, json!({"role": "user", "content": carried}));
        summary["isSynthetic"] = json!(true);
        summary["isCompactSummary"] = json!(true);
        frames.push(summary);
        frames
    }

    fn turn_ended(&mut self, end: &TurnEnd) -> Vec<Json> {
        let mut frames = self.aborted();
        match &end.outcome {
            TurnOutcome::ApiError { status, kind, message } => {
                frames.push(self.api_failure(*status, *kind, message));
            }
            TurnOutcome::PromptTooLong { status, message } => {
                frames.push(self.api_failure(*status, ErrorKind::InvalidRequest, message));
            }
            TurnOutcome::HookStopped { .. } => {
                let fields = json!({"content": problem(&end.outcome), "level": "notice", "prevent_continuation": true});
                frames.push(self.system("informational", fields));
            }
            TurnOutcome::Completed
            | TurnOutcome::MaxTurns { .. }
            | TurnOutcome::BudgetExhausted { .. }
            | TurnOutcome::Interrupted { .. }
            | TurnOutcome::Failed { .. } => {}
        }
        let prompt = self.prompt.take();
        let mut result = result(end, &self.session, prompt.as_ref());
        if std::mem::take(&mut self.woken) {
            result["origin"] = json!({"kind": "task-notification"});
        }
        frames.push(result);
        self.in_turn = false;
        self.failure = None;
        self.tools.clear();
        frames
    }

    fn recorded(&mut self, entry: &Entry) -> Vec<Json> {
        match &entry.event {
            SessionEvent::Prompted { content, meta: false } => {
                if self.in_turn {
                    self.prompt.get_or_insert_with(|| entry.id.clone());
                }
                if self.options.replay_user { vec![self.replay(entry, content)] } else { Vec::new() }
            }
            SessionEvent::Commanded { name, output, figures, .. } => {
                self.prompt.get_or_insert_with(|| entry.id.clone());
                let block = Block::text(output.clone());
                let answer = Answer {
                    id: entry.id.as_str(),
                    model: "<synthetic>",
                    block: &block,
                    usage: Usage::default(),
                };
                let mut frame = self.entry_frame("assistant", entry, answer.to_json());
                if let Some(figures) = figures {
                    frame[format!("{name}_usage")] = figures.clone();
                }
                vec![frame]
            }
            SessionEvent::Replied { message, model, request, block, usage } => {
                if let Block::ToolUse(call) = block {
                    self.tools.insert(call.id.clone(), call.name.clone());
                }
                let message = Answer { id: message, model, block, usage: *usage };
                let mut frame = self.entry_frame("assistant", entry, message.to_json());
                if let Some(request) = request {
                    frame["request_id"] = json!(request);
                }
                let mut frames = vec![frame];
                if self.options.include_partial {
                    frames.extend(self.partial.replied().into_iter().map(|event| self.stream_event(event)));
                }
                frames
            }
            SessionEvent::ToolReturned { result, structured, .. } => {
                vec![self.tool_result(entry, result, structured)]
            }
            SessionEvent::Decided { call, decision, .. } => self.denied(call, decision).into_iter().collect(),
            SessionEvent::Interrupted { during_tools } => {
                let text = if *during_tools {
                    "[Request interrupted by user for tool use]"
                } else {
                    "[Request interrupted by user]"
                };
                let content = [Block::text(text)];
                let mut frames = self.aborted();
                frames.push(self.entry_frame("user", entry, json!({"role": "user", "content": content})));
                frames
            }
            SessionEvent::Failed { .. } => {
                self.failure = Some((entry.id.clone(), entry.timestamp.clone()));
                Vec::new()
            }
            SessionEvent::ModeChanged { mode } => {
                vec![self.system("status", json!({"status": null, "permissionMode": mode}))]
            }
            SessionEvent::Dropped { .. } => self.aborted(),
            SessionEvent::Compacted { boundary, compaction } => self.compacted(entry, boundary, compaction),
            SessionEvent::Prompted { meta: true, .. } => {
                self.woken |= self.prompt.is_none();
                Vec::new()
            }
            SessionEvent::Opened { .. }
            | SessionEvent::Sampled { .. }
            | SessionEvent::CacheBroken { .. }
            | SessionEvent::Hooked { .. }
            | SessionEvent::Instructed { .. }
            | SessionEvent::ModelChanged { .. }
            | SessionEvent::Rewound { .. }
            | SessionEvent::RewindUndone
            | SessionEvent::Uncompacted => Vec::new(),
        }
    }

    /// Why the model is asked again, where nothing else tells.
    fn went_round(&self, round: Round) -> Option<Json> {
        let text = again(round)?;
        Some(self.system(
            "informational",
            json!({"content": text, "level": "notice", "reason": round.why, "attempt": round.times}),
        ))
    }

    /// A hook at work, where the host wants to see it. Callbacks travel as control requests.
    fn hook(&mut self, news: &HookNews) -> Vec<Json> {
        let (subtype, running, fields) = match news {
            HookNews::Started(running) => ("hook_started", running, hook::started(running)),
            HookNews::Ended(running, output) => ("hook_response", running, hook::ended(running, output)),
            HookNews::Called(_) | HookNews::Withdrawn(_) => return Vec::new(),
        };
        let is_always_shown = matches!(running.event, HookEvent::SessionStart | HookEvent::Setup);
        if !(is_always_shown || self.options.hook_events) {
            return Vec::new();
        }
        let frame = self.system(subtype, fields);
        // Between turns they come when it happens; only the very first init must be waited for.
        if is_always_shown || self.info.is_some() { vec![frame] } else { self.in_turn_only(vec![frame]) }
    }

    /// A job's start, or its end twice over: hosts follow either the updates or the notifications.
    fn job_changed(&mut self, job: &Job, at_ms: u64) -> Vec<Json> {
        self.jobs.retain(|known| known.id != job.id);
        let (status, patched) = match job.state {
            JobState::Running => {
                self.jobs.push(job.clone());
                let started = self.system(
                    "task_started",
                    json!({"task_id": job.id.0, "tool_use_id": job.call, "description": job.description,
                        "task_type": "local_bash", "is_backgrounded": true}),
                );
                return vec![started, self.background_tasks()];
            }
            JobState::Exited(0) => ("completed", "completed"),
            JobState::Exited(_) | JobState::Lost => ("failed", "failed"),
            JobState::Stopped => ("stopped", "killed"),
        };
        let file = job.output.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let usage = json!({"total_tokens": 0, "tool_uses": 0, "duration_ms": job.ran_for_ms});
        vec![
            self.system(
                "task_updated",
                json!({"task_id": job.id.0, "patch": {"status": patched, "end_time": at_ms}}),
            ),
            self.system(
                "task_notification",
                json!({"task_id": job.id.0, "tool_use_id": job.call, "status": status, "output_file": file,
                    "summary": job.summary(), "usage": usage}),
            ),
            self.background_tasks(),
        ]
    }

    fn background_tasks(&self) -> Json {
        let tasks: Vec<Json> = self
            .jobs
            .iter()
            .map(
                |job| json!({"task_id": job.id.0, "task_type": "local_bash", "description": job.description}),
            )
            .collect();
        self.system("background_tasks_changed", json!({"tasks": tasks}))
    }

    fn replay(&self, entry: &Entry, content: &[Block]) -> Json {
        let content = match content {
            [Block::Text(text)] => json!(text),
            blocks => json!(blocks),
        };
        let mut frame = self.entry_frame("user", entry, json!({"role": "user", "content": content}));
        frame["isReplay"] = json!(true);
        frame
    }

    fn tool_result(&self, entry: &Entry, result: &ToolResult, structured: &Json) -> Json {
        let mut frame = self.entry_frame("user", entry, json!({"role": "user", "content": [result]}));
        let as_text = result.is_error || structured.is_null();
        frame["tool_use_result"] = if as_text { json!(result.text()) } else { structured.clone() };
        frame
    }

    /// Denials that nobody was asked about; a hook's host knows of its own.
    fn denied(&self, call: &CallId, decision: &Decision) -> Option<Json> {
        let Decision::Deny { because, tell_model } = decision else { return None };
        let reason_type = match because {
            Reason::User | Reason::Hook { .. } => return None,
            Reason::Rule { .. } => "rule",
            Reason::Mode { .. } => "mode",
            Reason::Check { .. } => "safetyCheck",
            Reason::Unattended => "other",
        };
        let tool = self.tools.get(call).map_or("", String::as_str);
        Some(self.system(
            "permission_denied",
            json!({"tool_name": tool, "tool_use_id": call, "decision_reason_type": reason_type,
                "decision_reason": because.to_string(), "message": tell_model}),
        ))
    }

    fn api_failure(&self, status: Option<u16>, kind: ErrorKind, message: &str) -> Json {
        let (id, timestamp) = match &self.failure {
            Some((id, timestamp)) => (id.to_string(), Some(timestamp)),
            None => (Uuid::new_v4().to_string(), None),
        };
        let block = Block::text(api_error(status, message));
        let answer = Answer { id: &id, model: "<synthetic>", block: &block, usage: Usage::default() };
        json!({
            "type": "assistant", "message": answer.to_json(), "parent_tool_use_id": null,
            "session_id": self.session, "uuid": id, "timestamp": timestamp,
            "error": kind, "is_api_error_message": true, "api_error_status": status,
        })
    }

    fn requesting(&mut self) -> Vec<Json> {
        let mut frames = self.aborted();
        if self.options.include_partial {
            frames.push(self.system("status", json!({"status": "requesting"})));
        }
        frames
    }

    fn delta(&mut self, event: &ModelEvent) -> Vec<Json> {
        if !self.options.include_partial {
            return Vec::new();
        }
        self.partial.events(event).into_iter().map(|event| self.stream_event(event)).collect()
    }

    fn aborted(&mut self) -> Vec<Json> {
        self.partial.abort().into_iter().map(|event| self.stream_event(event)).collect()
    }

    fn in_turn_only(&mut self, mut frames: Vec<Json>) -> Vec<Json> {
        if self.in_turn {
            return frames;
        }
        self.early.append(&mut frames);
        frames
    }

    fn stream_event(&self, event: Json) -> Json {
        let mut frame = json!({"type": "stream_event"});
        frame["event"] = event;
        frame["session_id"] = json!(self.session);
        frame["parent_tool_use_id"] = Json::Null;
        frame["uuid"] = json!(Uuid::new_v4().to_string());
        frame
    }

    fn system(&self, subtype: &str, fields: Json) -> Json {
        let mut frame = json!({"type": "system", "subtype": subtype});
        if let (Some(frame), Json::Object(fields)) = (frame.as_object_mut(), fields) {
            frame.extend(fields);
        }
        frame["session_id"] = json!(self.session);
        frame["uuid"] = json!(Uuid::new_v4().to_string());
        frame
    }

    /// A frame about a transcript entry carries the entry's own id: hosts match the two.
    fn entry_frame(&self, kind: &str, entry: &Entry, message: Json) -> Json {
        let mut frame = json!({"type": kind});
        frame["message"] = message;
        frame["parent_tool_use_id"] = Json::Null;
        frame["session_id"] = json!(self.session);
        frame["uuid"] = json!(entry.id);
        frame["timestamp"] = json!(entry.timestamp);
        frame
    }
}

/// One block of an answer as a whole API message: why it stopped is not known when a block ends.
struct Answer<'a> {
    id: &'a str,
    model: &'a str,
    block: &'a Block,
    usage: Usage,
}

impl Answer<'_> {
    fn to_json(&self) -> Json {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model,
            "content": [self.block], "stop_reason": null, "stop_sequence": null, "usage": self.usage,
        })
    }
}
