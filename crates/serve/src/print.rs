//! Print mode: one prompt, or a dialogue of JSON lines, until the session closes. Three sources (events,
//! input, room for commands) meet in one loop; it never waits for one of them alone, so neither a slow
//! engine nor a slow host can block the other.

use crate::frontend::Frontend;
use crate::line::Lines;
use ostler_proto::{AgentEvent, Block, Command, CommandInfo, Envelope};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// How a run speaks with whoever started it.
#[derive(Debug, Clone)]
pub struct Print {
    /// Where prompts come from.
    pub input: Input,
    /// What is written.
    pub output: Output,
    /// Who answers questions.
    pub asks: Asks,
    /// What a host may want to know.
    pub about: About,
}

/// Where prompts come from.
#[derive(Debug, Clone)]
pub enum Input {
    /// One prompt, one turn.
    Prompt(Vec<Block>),
    /// JSON lines from stdin until its end.
    StreamJson,
}

/// What is written to stdout.
#[derive(Debug, Clone)]
pub enum Output {
    /// The final answer.
    Text {
        /// Whether the run is told as it happens.
        narrate: Narrate,
        /// Whether the telling is coloured.
        color: bool,
    },
    /// One result object.
    Json,
    /// A frame for each thing that happens.
    StreamJson(StreamOptions),
}

/// Where a person watches the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Narrate {
    /// Nowhere.
    Off,
    /// On stdout; the answer is part of it and not repeated.
    Stdout,
    /// On stderr, beside the answer on stdout.
    Stderr,
}

/// Frames a host asks for.
#[derive(Debug, Clone, Default)]
pub struct StreamOptions {
    /// The answer in pieces, as `stream_event` frames.
    pub include_partial: bool,
    /// User messages echoed when they are recorded.
    pub replay_user: bool,
    /// Hooks at work, for all events.
    pub hook_events: bool,
    /// Changes of the session's state.
    pub session_state: StateFrames,
}

/// Whether `session_state_changed` frames are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StateFrames {
    /// Never.
    #[default]
    Off,
    /// For the SDK only, which hides them from its user.
    HostOnly,
    /// For everyone.
    Everyone,
}

/// Who answers questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// Nobody: every question is denied.
    Nobody,
    /// A person: questions on stderr, answers from stdin. Only with [`Input::Prompt`].
    Terminal,
    /// The host, by control requests. Only with [`Input::StreamJson`].
    ControlProtocol,
}

/// What a host may want to know or change.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// Our own version.
    pub version: String,
    /// The model the session started with.
    pub model: String,
    /// Models a host may choose from.
    pub models: Vec<ModelChoice>,
    /// Commands a prompt may begin with.
    pub commands: Vec<CommandInfo>,
    /// Whether a host may have files put back.
    pub rewinds_files: bool,
    /// Whether the session was started so that `bypassPermissions` may be set.
    pub bypass_allowed: bool,
    /// Whether callbacks that a host lends as hooks count.
    pub hears_callbacks: bool,
}

/// One model a host may choose.
#[derive(Debug, Clone)]
pub struct ModelChoice {
    /// What `set_model` takes.
    pub value: String,
    /// Its name for people.
    pub display_name: String,
    /// What it is good for.
    pub description: String,
}

/// The three streams of a process.
#[derive(Debug)]
pub struct Pipes<R, W, E> {
    /// Messages of a host, or answers of a person.
    pub stdin: R,
    /// Results.
    pub stdout: W,
    /// Notes, questions and errors.
    pub stderr: E,
}

/// Runs until the session closes and returns the exit code.
pub async fn run<R, W, E>(
    print: Print,
    commands: mpsc::Sender<Command>,
    mut events: mpsc::Receiver<Envelope>,
    pipes: Pipes<R, W, E>,
) -> u8
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    E: AsyncWrite + Unpin,
{
    let mut lines = Lines::new(pipes.stdin);
    let mut frontend = Frontend::new(print, pipes.stdout, pipes.stderr);
    loop {
        tokio::select! {
            room = commands.reserve(), if frontend.is_sending() => frontend.send(room.ok()),
            envelope = events.recv() => match envelope {
                Some(envelope) if envelope.event != AgentEvent::Closed => frontend.watch(&envelope).await,
                Some(_) | None => return frontend.finish().await,
            },
            line = lines.next(), if frontend.is_reading() => frontend.read(line).await,
        }
        if events.is_empty() {
            frontend.flush().await;
        }
        frontend.stop_if_unread();
    }
}
