//! Where a run is shown: maps envelopes to the chosen output and writes them. Knows when nobody reads any
//! more; what to do about that is `print`'s business.

use crate::cap;
use crate::clean::{one_line, strip};
use crate::frame::{Framer, SessionState};
use crate::print::{Narrate, Output};
use crate::result::{problem, refused, result};
use crate::text::Narrator;
use ostler_proto::{AgentEvent, Envelope, Json, TurnEnd, TurnOutcome};
use tokio::io::{AsyncWrite, AsyncWriteExt, BufWriter};

/// The two streams we write, and the manner.
pub(crate) struct Screen<W, E> {
    stdout: BufWriter<W>,
    stderr: E,
    style: Style,
    /// Nobody reads stdout any more.
    pub(crate) broken: bool,
}

enum Style {
    Text { narrate: Narrate, narrator: Narrator },
    Json,
    Stream(Box<Framer>),
}

impl<W: AsyncWrite + Unpin, E: AsyncWrite + Unpin> Screen<W, E> {
    pub(crate) fn new(output: Output, version: &str, stdout: W, stderr: E) -> Self {
        let style = match output {
            Output::Text { narrate, color } => Style::Text { narrate, narrator: Narrator::new(color) },
            Output::Json => Style::Json,
            Output::StreamJson(options) => Style::Stream(Box::new(Framer::new(options, version.to_owned()))),
        };
        Self { stdout: BufWriter::new(stdout), stderr, style, broken: false }
    }

    /// Shows one envelope.
    pub(crate) async fn show(&mut self, envelope: &Envelope) {
        match &mut self.style {
            Style::Stream(framer) => {
                for frame in framer.frames(envelope) {
                    self.frame(&frame).await;
                }
            }
            Style::Json => match &envelope.event {
                AgentEvent::TurnEnded(end) if envelope.agent.is_none() => {
                    let object = result(end, &envelope.session, None);
                    self.write(&format!("{object}\n")).await;
                }
                AgentEvent::Notice { text } => self.note(text).await,
                AgentEvent::TurnStarted(_)
                | AgentEvent::Recorded(_)
                | AgentEvent::Requesting
                | AgentEvent::WentRound(_)
                | AgentEvent::Delta(_)
                | AgentEvent::CallStarted { .. }
                | AgentEvent::CallProgress { .. }
                | AgentEvent::Asked(_)
                | AgentEvent::AskWithdrawn { .. }
                | AgentEvent::Answered { .. }
                | AgentEvent::Hook(_)
                | AgentEvent::JobChanged { .. }
                | AgentEvent::Reset { .. }
                | AgentEvent::Retrying { .. }
                | AgentEvent::Compacting { .. }
                | AgentEvent::CompactionFailed { .. }
                | AgentEvent::TurnEnded(_)
                | AgentEvent::Closed => {}
            },
            Style::Text { narrate, narrator } => {
                let narrate = *narrate;
                let words = if narrate == Narrate::Off { String::new() } else { narrator.tell(envelope) };
                self.show_text(envelope, narrate, &words).await;
            }
        }
    }

    /// Writes one line of the dialogue with a host; other outputs have none.
    pub(crate) async fn frame(&mut self, frame: &Json) {
        let line = cap::line(frame) + "\n";
        self.write(&line).await;
    }

    /// Tells a host what the session is doing, if it wants to know.
    pub(crate) async fn state(&mut self, state: SessionState) {
        if let Style::Stream(framer) = &self.style
            && let Some(frame) = framer.state(state)
        {
            self.frame(&frame).await;
        }
    }

    /// Writes one line to the log.
    pub(crate) async fn note(&mut self, text: &str) {
        self.write_stderr(&format!("ostler: {}\n", one_line(text, 1000))).await;
    }

    /// Shows a question to the person at the terminal.
    pub(crate) async fn ask(&mut self, question: &str) {
        if let Style::Text { narrate, narrator } = &mut self.style {
            let ending = narrator.break_line();
            match narrate {
                Narrate::Off => {}
                Narrate::Stdout => self.write(ending).await,
                Narrate::Stderr => self.write_stderr(ending).await,
            }
        }
        self.write_stderr(question).await;
    }

    async fn show_text(&mut self, envelope: &Envelope, narrate: Narrate, words: &str) {
        match narrate {
            Narrate::Off => {}
            Narrate::Stdout => self.write(words).await,
            Narrate::Stderr => self.write_stderr(words).await,
        }
        if let AgentEvent::Notice { text } = &envelope.event
            && narrate == Narrate::Off
        {
            self.note(text).await;
        }
        if let AgentEvent::TurnEnded(end) = &envelope.event
            && envelope.agent.is_none()
        {
            self.answer(end, narrate).await;
        }
    }

    /// The answer itself, and why it is not whole if it is not.
    async fn answer(&mut self, end: &TurnEnd, narrate: Narrate) {
        let is_whole = end.outcome == TurnOutcome::Completed;
        if narrate != Narrate::Stdout && (is_whole || !end.text.is_empty()) {
            self.write(&format!("{}\n", strip(&end.text))).await;
        }
        // Who watches the run has been told already.
        if let (Narrate::Off, Some(problem)) = (narrate, problem(&end.outcome)) {
            self.note(&problem).await;
        }
        if let (Narrate::Off, Some(refused)) = (narrate, refused(&end.denials)) {
            self.note(&refused).await;
        }
    }

    async fn write(&mut self, text: &str) {
        if self.broken || text.is_empty() {
            return;
        }
        self.broken = self.stdout.write_all(text.as_bytes()).await.is_err();
    }

    /// Hands on what was written. Called whenever nothing more is waiting to be shown, so that a
    /// burst of small pieces costs one write and a pause shows everything before it.
    pub(crate) async fn flush(&mut self) {
        if !self.broken {
            self.broken = self.stdout.flush().await.is_err();
        }
    }

    async fn write_stderr(&mut self, text: &str) {
        // The two streams may be one terminal: they keep their order.
        self.flush().await;
        // Nobody can be told that the place for telling is gone.
        let _ = self.stderr.write_all(text.as_bytes()).await;
        let _ = self.stderr.flush().await;
    }
}
