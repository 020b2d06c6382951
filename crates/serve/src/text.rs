//! A run told to a person as it happens: text while it streams, calls and what came of them, the bill.
//! Returns the words; where they go, and whether at all, is not decided here.

use crate::clean::{one_line, strip};
use crate::result::{again, problem};
use crate::spend::{seconds, table};
use crate::summary::{Shown, Tone, summary};
use ostler_proto::content::Stream;
use ostler_proto::session::{CallState, ModelChange};
use ostler_proto::{
    AgentEvent, Block, CallId, Compaction, Decision, Entry, Envelope, Json, ModelEvent, Preview,
    SessionEvent, SessionInfo, ToolCall, TurnEnd,
};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// The input that names what a call is about, most telling first.
const TELLING_INPUTS: [&str; 8] =
    ["file_path", "notebook_path", "command", "pattern", "path", "url", "query", "description"];

/// Follows a run and puts it into words.
pub(crate) struct Narrator {
    color: bool,
    /// Known once the session has introduced itself.
    cwd: Option<PathBuf>,
    line_open: bool,
    /// The answer on its way to the screen.
    stream: Stream,
    /// Whether the text block that comes was shown piece by piece.
    streamed: bool,
    calls: HashMap<CallId, Call>,
    /// The call whose line stands last on the screen.
    last_call: Option<CallId>,
    /// Milliseconds each model took to answer.
    answering: BTreeMap<String, u64>,
}

struct Call {
    label: String,
    preview: Preview,
    denied: Option<String>,
}

impl Narrator {
    pub(crate) fn new(color: bool) -> Self {
        Self {
            color,
            cwd: None,
            line_open: false,
            stream: Stream::default(),
            streamed: false,
            calls: HashMap::new(),
            last_call: None,
            answering: BTreeMap::new(),
        }
    }

    /// What to show for one envelope; often nothing.
    pub(crate) fn tell(&mut self, envelope: &Envelope) -> String {
        if envelope.agent.is_some() {
            return String::new();
        }
        match &envelope.event {
            AgentEvent::TurnStarted(info) => self.introduce(info),
            AgentEvent::Recorded(entry) => self.recorded(entry),
            AgentEvent::Delta(event) => self.delta(event),
            AgentEvent::CallStarted { call, tool, intent } => {
                let known = self.calls.entry(call.clone()).or_insert_with(|| Call {
                    label: format!("{}({})", one_line(tool, 40), one_line(&intent.title, 100)),
                    preview: Preview::None,
                    denied: None,
                });
                known.preview = intent.preview.clone();
                self.begin(call)
            }
            AgentEvent::Retrying { attempt, max_attempts, delay_ms, message, .. } => {
                let text = format!(
                    "↻ {}; trying again in {} ({attempt} of {max_attempts})",
                    one_line(message, 200),
                    seconds(*delay_ms)
                );
                self.line(Tone::Bad, &text)
            }
            AgentEvent::WentRound(round) => match again(*round) {
                Some(text) => self.line(Tone::Quiet, &format!("↻ {text}")),
                None => String::new(),
            },
            AgentEvent::JobChanged { job, .. } => {
                self.line(Tone::Quiet, &format!("· [{}] {}", job.id, one_line(&job.summary(), 200)))
            }
            AgentEvent::Notice { text } => self.line(Tone::Quiet, &format!("· {}", one_line(text, 400))),
            AgentEvent::Compacting { .. } => self.line(Tone::Quiet, "· compacting the conversation"),
            AgentEvent::CompactionFailed { message } => {
                self.line(Tone::Bad, &format!("· not compacted: {}", one_line(message, 400)))
            }
            AgentEvent::TurnEnded(end) => self.conclude(end),
            AgentEvent::Requesting
            | AgentEvent::CallProgress { .. }
            | AgentEvent::Asked(_)
            | AgentEvent::AskWithdrawn { .. }
            | AgentEvent::Answered { .. }
            | AgentEvent::Hook(_)
            | AgentEvent::Reset { .. }
            | AgentEvent::Closed => String::new(),
        }
    }

    /// Ends a line that is still open, so that something else may begin.
    pub(crate) fn break_line(&mut self) -> &'static str {
        if std::mem::take(&mut self.line_open) { "\n" } else { "" }
    }

    fn introduce(&mut self, info: &SessionInfo) -> String {
        if self.cwd.replace(info.cwd.clone()).is_some() {
            return String::new();
        }
        let facts = format!("{} · {} · {}", info.model, info.mode.as_str(), info.cwd.display());
        self.line(Tone::Quiet, &one_line(&facts, 200))
    }

    fn recorded(&mut self, entry: &Entry) -> String {
        match &entry.event {
            SessionEvent::Prompted { content, meta: false } => {
                let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
                self.line(Tone::Plain, &format!("> {}", one_line(&texts.join(" "), 400)))
            }
            SessionEvent::Commanded { output, .. } => self.say(output) + &self.say_rest() + self.break_line(),
            SessionEvent::Replied { block: Block::Text(text), .. } => {
                let text = if std::mem::take(&mut self.streamed) { "" } else { text };
                self.say(text) + &self.say_rest() + self.break_line()
            }
            SessionEvent::Replied { block: Block::ToolUse(call), .. } => {
                let label = self.label(call);
                let call = call.id.clone();
                self.calls.insert(call, Call { label, preview: Preview::None, denied: None });
                String::new()
            }
            SessionEvent::Sampled { model, duration_ms, .. } => {
                *self.answering.entry(model.clone()).or_default() += duration_ms;
                String::new()
            }
            SessionEvent::Decided { call, decision: Decision::Deny { because, .. }, .. } => {
                if let Some(call) = self.calls.get_mut(call) {
                    call.denied = Some(because.to_string());
                }
                String::new()
            }
            SessionEvent::ToolReturned { result, structured, state, .. } => {
                let preview = self.calls.get(&result.id).map_or(Preview::None, |call| call.preview.clone());
                let mut lines = summary(result, structured, *state, &preview);
                let denied = self.calls.get(&result.id).and_then(|call| call.denied.as_ref());
                if let (CallState::Denied, Some(because)) = (state, denied) {
                    lines = vec![(Tone::Bad, format!("denied: {}", one_line(because, 200)))];
                }
                self.returned(&result.id, &lines)
            }
            SessionEvent::Dropped { .. } => {
                self.streamed = false;
                self.stream = Stream::default();
                self.line(Tone::Bad, "the answer broke off and does not count")
            }
            SessionEvent::Interrupted { .. } => self.line(Tone::Bad, "■ interrupted"),
            SessionEvent::ModeChanged { mode } => {
                self.line(Tone::Quiet, &format!("· permission mode is now {}", mode.as_str()))
            }
            // A fallback comes with a notice of its own.
            SessionEvent::ModelChanged { model, because: ModelChange::Asked | ModelChange::Restored } => {
                self.line(Tone::Quiet, &format!("· the model is now {}", one_line(model, 100)))
            }
            SessionEvent::CacheBroken { by, est_cost_usd, .. } => {
                let text = format!("· the prompt cache was lost: {by} (about ${est_cost_usd:.4})");
                self.line(Tone::Quiet, &one_line(&text, 200))
            }
            SessionEvent::Rewound { .. } => self.line(Tone::Quiet, "· the conversation was rewound"),
            SessionEvent::Compacted { compaction, .. } => {
                let Compaction { pre_tokens, post_tokens, .. } = compaction;
                self.line(Tone::Quiet, &format!("· compacted: {pre_tokens} tokens became {post_tokens}"))
            }
            SessionEvent::Uncompacted => self.line(Tone::Quiet, "· the last compaction was taken back"),
            SessionEvent::RewindUndone => self.line(Tone::Quiet, "· the conversation is where it was before"),
            SessionEvent::Opened { .. }
            | SessionEvent::ModelChanged { .. }
            | SessionEvent::Prompted { meta: true, .. }
            | SessionEvent::Replied { .. }
            | SessionEvent::Decided { .. }
            | SessionEvent::Hooked { .. }
            | SessionEvent::Instructed { .. }
            | SessionEvent::Failed { .. } => String::new(),
        }
    }

    fn delta(&mut self, event: &ModelEvent) -> String {
        match event {
            ModelEvent::TextDelta { text, .. } => {
                self.streamed = true;
                self.say(text)
            }
            ModelEvent::BlockStarted { start: ostler_proto::BlockStart::Thinking, .. } => {
                self.line(Tone::Quiet, "✻ thinking")
            }
            ModelEvent::Started { .. }
            | ModelEvent::BlockStarted { .. }
            | ModelEvent::ThinkingDelta { .. }
            | ModelEvent::SignatureDelta { .. }
            | ModelEvent::InputDelta { .. }
            | ModelEvent::BlockStopped { .. }
            | ModelEvent::Usage(_)
            | ModelEvent::Ping
            | ModelEvent::Done { .. } => String::new(),
        }
    }

    fn say(&mut self, text: &str) -> String {
        let shown = self.stream.push(text);
        self.note_line_end(shown)
    }

    /// What had to wait for more text that did not come.
    fn say_rest(&mut self) -> String {
        let shown = self.stream.finish();
        self.note_line_end(shown)
    }

    fn note_line_end(&mut self, shown: String) -> String {
        if let Some(last) = shown.chars().last() {
            self.line_open = last != '\n';
        }
        shown
    }

    fn begin(&mut self, call: &CallId) -> String {
        let label = self.calls.get(call).map(|call| call.label.clone()).unwrap_or_default();
        self.last_call = Some(call.clone());
        let dot = self.paint(Tone::Added, "●");
        format!("{}{dot} {label}\n", self.break_line())
    }

    fn returned(&mut self, call: &CallId, lines: &[Shown]) -> String {
        // Calls overlap: the result names its call again unless it stands right under it.
        let is_under_it = self.last_call.as_ref() == Some(call);
        let mut shown = if is_under_it { self.break_line().to_owned() } else { self.begin(call) };
        for (position, (tone, line)) in lines.iter().enumerate() {
            let lead = if position == 0 { "  ⎿ " } else { "    " };
            shown.push_str(lead);
            shown.push_str(&self.paint(*tone, line));
            shown.push('\n');
        }
        self.calls.remove(call);
        self.last_call = None;
        shown
    }

    fn conclude(&mut self, end: &TurnEnd) -> String {
        let mut shown = match problem(&end.outcome) {
            Some(problem) => self.line(Tone::Bad, &format!("✗ {}", one_line(&problem, 400))),
            None => self.break_line().to_owned(),
        };
        shown.push('\n');
        for line in table(end, &self.answering).lines() {
            shown.push_str(&self.line(Tone::Quiet, line));
        }
        self.calls.clear();
        self.streamed = false;
        shown
    }

    fn label(&self, call: &ToolCall) -> String {
        let telling = TELLING_INPUTS.iter().find_map(|key| call.input.get(key).and_then(Json::as_str));
        let inside = self.cwd.as_ref().map(|cwd| format!("{}/", cwd.display())).unwrap_or_default();
        let telling = telling.map(|text| text.strip_prefix(inside.as_str()).unwrap_or(text));
        match telling {
            Some(text) => format!("{}({})", one_line(&call.name, 40), one_line(text, 100)),
            None => one_line(&call.name, 40),
        }
    }

    fn line(&mut self, tone: Tone, text: &str) -> String {
        format!("{}{}\n", self.break_line(), self.paint(tone, &strip(text)))
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            _ if !self.color => return text.to_owned(),
            Tone::Quiet => "2",
            Tone::Added => "32",
            Tone::Removed | Tone::Bad => "31",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}
