//! A stage for print mode: the test plays the engine and the host at once.

use ostler_proto::envelope::ModelSpend;
use ostler_proto::session::CallState;
use ostler_proto::{
    Access, AgentEvent, Ask, AskId, Block, Command, Entry, Envelope, Intent, Json, Mode, ModelEvent, Preview,
    Reason, SessionEvent, SessionInfo, StopReason, Suggestion, ToolCall, ToolResult, TurnEnd, TurnOutcome,
    Usage,
};
use ostler_serve::{
    About, Asks, Input, ModelChoice, Narrate, Output, Pipes, Print, StateFrames, StreamOptions,
};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc;

/// Room for everything a test writes before somebody reads.
const PIPE: usize = 16 * 1024 * 1024;
/// Input is written while it is read.
pub(crate) const STDIN_PIPE: usize = 64;

/// The other ends of everything print mode holds.
pub(crate) struct Stage {
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) events: Option<mpsc::Sender<Envelope>>,
    pub(crate) stdin: Option<DuplexStream>,
    pub(crate) stdout: Option<BufReader<DuplexStream>>,
    pub(crate) stderr: BufReader<DuplexStream>,
    seq: u64,
}

/// What was left to read when the run was over.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) exit: u8,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs print mode beside a script.
pub(crate) async fn play(print: Print, script: impl AsyncFnOnce(&mut Stage)) -> Played {
    let (commands, commands_rx) = mpsc::channel(4);
    let (events, events_rx) = mpsc::channel(4);
    let (stdin, their_stdin) = tokio::io::duplex(STDIN_PIPE);
    let (stdout, their_stdout) = tokio::io::duplex(PIPE);
    let (stderr, their_stderr) = tokio::io::duplex(PIPE);
    let mut stage = Stage {
        commands: commands_rx,
        events: Some(events),
        stdin: Some(stdin),
        stdout: Some(BufReader::new(stdout)),
        stderr: BufReader::new(stderr),
        seq: 0,
    };
    let pipes = Pipes { stdin: their_stdin, stdout: their_stdout, stderr: their_stderr };
    let played = async {
        script(&mut stage).await;
        stage.events = None;
    };
    let (exit, ()) = tokio::join!(ostler_serve::run(print, commands, events_rx, pipes), played);
    let mut rest = Played { exit, stdout: String::new(), stderr: String::new() };
    if let Some(mut stdout) = stage.stdout {
        stdout.read_to_string(&mut rest.stdout).await.unwrap();
    }
    stage.stderr.read_to_string(&mut rest.stderr).await.unwrap();
    rest
}

impl Stage {
    pub(crate) async fn tell(&mut self, event: AgentEvent) {
        self.seq += 1;
        let envelope = Envelope { seq: self.seq, session: "s-1".into(), agent: None, event };
        self.events.as_ref().unwrap().send(envelope).await.unwrap();
    }

    pub(crate) async fn record(&mut self, id: &str, event: SessionEvent) {
        let timestamp = "2026-01-02T03:04:05.678Z".to_owned();
        self.tell(AgentEvent::Recorded(Entry { id: id.into(), parent: None, timestamp, event })).await;
    }

    pub(crate) async fn command(&mut self) -> Command {
        self.commands.recv().await.unwrap()
    }

    /// Takes the prompt and plays a turn up to where the model speaks.
    pub(crate) async fn start_turn(&mut self) {
        let Command::Prompt { content, id, .. } = self.command().await else { panic!("no prompt") };
        self.tell(AgentEvent::TurnStarted(info())).await;
        self.record(id.unwrap().as_str(), SessionEvent::Prompted { content, meta: false }).await;
    }

    pub(crate) async fn end_turn(&mut self, end: TurnEnd) {
        self.tell(AgentEvent::TurnEnded(end)).await;
    }

    /// Waits for the close command and obeys.
    pub(crate) async fn close(&mut self) {
        assert_eq!(self.command().await, Command::Close);
        self.tell(AgentEvent::Closed).await;
    }

    pub(crate) async fn write(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
    }

    pub(crate) async fn say(&mut self, line: Json) {
        self.write(&format!("{line}\n")).await;
    }

    pub(crate) async fn say_user(&mut self, text: &str) {
        self.say(json!({"type": "user", "message": {"role": "user", "content": text}})).await;
    }

    pub(crate) async fn request(&mut self, id: &str, request: Json) -> Json {
        self.say(json!({"type": "control_request", "request_id": id, "request": request})).await;
        let frame = self.frame().await;
        assert_eq!(frame["type"], "control_response");
        assert_eq!(frame["response"]["request_id"], id);
        frame["response"].clone()
    }

    pub(crate) async fn frame(&mut self) -> Json {
        let mut line = String::new();
        self.stdout.as_mut().unwrap().read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Reads stderr up to and including a text.
    pub(crate) async fn stderr_until(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            read.push(self.stderr.read_u8().await.unwrap());
        }
        String::from_utf8(read).unwrap()
    }
}

impl Played {
    pub(crate) fn frames(&self) -> Vec<Json> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Each frame by its type and subtype.
    pub(crate) fn kinds(&self) -> Vec<String> {
        self.frames().iter().map(kind).collect()
    }
}

pub(crate) fn kind(frame: &Json) -> String {
    let inner = match frame["type"].as_str().unwrap() {
        "system" => frame["subtype"].as_str(),
        "stream_event" => frame["event"]["type"].as_str(),
        "control_request" => frame["request"]["subtype"].as_str(),
        other => Some(other),
    };
    let state = frame["state"].as_str().map(|state| format!(" {state}")).unwrap_or_default();
    format!("{}{state}", inner.unwrap())
}

pub(crate) fn one_shot(output: Output) -> Print {
    Print { input: Input::Prompt(vec![Block::text("fix it")]), output, asks: Asks::Nobody, about: about() }
}

pub(crate) fn plain() -> Output {
    Output::Text { narrate: Narrate::Off, color: false }
}

pub(crate) fn stream() -> Output {
    Output::StreamJson(StreamOptions::default())
}

pub(crate) fn dialogue() -> Print {
    let options = StreamOptions { session_state: StateFrames::HostOnly, ..StreamOptions::default() };
    Print {
        input: Input::StreamJson,
        output: Output::StreamJson(options),
        asks: Asks::ControlProtocol,
        about: about(),
    }
}

pub(crate) fn about() -> About {
    let small =
        ModelChoice { value: "small".into(), display_name: "Small".into(), description: "quick".into() };
    About {
        version: "0.1.0".into(),
        model: "big".into(),
        models: vec![small],
        commands: vec![],
        hears_callbacks: true,
        rewinds_files: true,
        bypass_allowed: false,
    }
}

pub(crate) fn info() -> SessionInfo {
    SessionInfo {
        commands: vec![],
        cwd: "/w".into(),
        model: "big".into(),
        mode: Mode::Default,
        tools: vec!["Agent".into(), "Bash".into(), "Read".into()],
        key_source: "ANTHROPIC_API_KEY".into(),
        transcript: None,
    }
}

pub(crate) fn end(outcome: TurnOutcome, text: &str) -> TurnEnd {
    let usage = Usage { input: 200, output: 20, cache_write: 40, cache_read: 60 };
    let spend = ModelSpend { usage, cost_usd: 0.0014, context_window: 200_000, max_output_tokens: 32_000 };
    TurnEnd {
        outcome,
        text: text.into(),
        stop: Some(StopReason::EndTurn),
        round_trips: 2,
        duration_ms: 622,
        api_ms: 79,
        usage,
        by_model: [("big".to_owned(), spend)].into(),
        by_agent: [].into(),
        by_tool: [].into(),
        cost_usd: 0.0014,
        denials: Vec::new(),
        stopped_jobs: Vec::new(),
    }
}

pub(crate) fn done() -> TurnEnd {
    end(TurnOutcome::Completed, "all good")
}

pub(crate) fn replied(block: Block) -> SessionEvent {
    SessionEvent::Replied {
        message: "msg_1".into(),
        model: "big-2".into(),
        request: Some("req_1".into()),
        block,
        usage: Usage { input: 100, output: 1, cache_write: 0, cache_read: 0 },
    }
}

pub(crate) fn call(id: &str, tool: &str, input: Json) -> Block {
    Block::ToolUse(ToolCall { id: id.into(), name: tool.into(), input, problem: None })
}

pub(crate) fn returned(id: &str, tool: &str, text: &str, structured: Json, state: CallState) -> SessionEvent {
    let is_error = state != CallState::Complete;
    SessionEvent::ToolReturned {
        tool: tool.into(),
        result: ToolResult { id: id.into(), content: vec![Block::text(text)], is_error },
        structured,
        state,
        changes: Vec::new(),
        duration_ms: 3,
    }
}

pub(crate) fn started(model: &str) -> ModelEvent {
    ModelEvent::Started {
        message: "msg_1".into(),
        model: model.into(),
        request: None,
        usage: Usage::default(),
    }
}

pub(crate) fn ask(id: u64, command: &str) -> Ask {
    let access = Access::Execute {
        command: command.into(),
        cwd: "/w".into(),
        footprint: ostler_proto::Footprint::default(),
    };
    Ask {
        id: AskId(id),
        call: "toolu_1".into(),
        tool: "Bash".into(),
        input: json!({"command": command}),
        intent: Intent { title: "Run a command".into(), access, preview: Preview::Text(command.into()) },
        because: Reason::Mode { mode: Mode::Default },
        suggestions: vec![Suggestion { rule: "Bash(make *)".into() }],
    }
}
