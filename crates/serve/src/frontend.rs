//! What a frontend does about each event and each line: show, send a command, put or settle a question.
//! Holds no state of the conversation beyond what is still owed.

use crate::ask::{choices, question, typed};
use crate::cap;
use crate::control::{self, Served};
use crate::form::{Filled, Form};
use crate::frame::SessionState;
use crate::hook::{self, Calls};
use crate::line::{Line, from_line};
use crate::print::{About, Asks, Input, Print};
use crate::queue::Queue;
use crate::result::exit_code;
use crate::screen::Screen;
use ostler_proto::{
    AgentEvent, AgentId, Answer, Ask, AskId, Block, Command, EntryId, Envelope, HookCall, HookNews, Wording,
};
use std::collections::VecDeque;
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;
use uuid::Uuid;

/// Exit code when nobody reads the output any more: as if SIGPIPE had ended us.
const BROKEN_PIPE: u8 = 141;
/// Input is not read while this many commands wait for the engine.
const OUTBOX: usize = 64;

/// The state of one run of print mode.
pub(crate) struct Frontend<W, E> {
    asks: Asks,
    about: About,
    is_dialogue: bool,
    screen: Screen<W, E>,
    outbox: VecDeque<Command>,
    queue: Queue,
    /// Questions without an answer, oldest first.
    open: VecDeque<Ask>,
    /// Callbacks without an answer.
    callbacks: Calls,
    /// What a person has answered so far of the oldest, if it has several parts.
    form: Option<Form>,
    lines_read: u64,
    input_ended: bool,
    /// Whether the engine was told to stop because nobody reads.
    stopped: bool,
    exit: Option<u8>,
}

impl<W: AsyncWrite + Unpin, E: AsyncWrite + Unpin> Frontend<W, E> {
    /// A frontend that has its prompt, if it was given one, ready to send.
    pub(crate) fn new(print: Print, stdout: W, stderr: E) -> Self {
        let screen = Screen::new(print.output, &print.about.version, stdout, stderr);
        let is_dialogue = matches!(print.input, Input::StreamJson);
        // Stdin is either a host's or a person's; a question to the other would never be answered.
        let asks = match print.asks {
            Asks::Terminal if is_dialogue => Asks::Nobody,
            Asks::ControlProtocol if !is_dialogue => Asks::Nobody,
            asks @ (Asks::Nobody | Asks::Terminal | Asks::ControlProtocol) => asks,
        };
        let mut frontend = Self {
            asks,
            about: print.about,
            is_dialogue,
            screen,
            outbox: VecDeque::new(),
            queue: Queue::default(),
            open: VecDeque::new(),
            callbacks: Calls::default(),
            form: None,
            lines_read: 0,
            input_ended: false,
            stopped: false,
            exit: None,
        };
        if let Input::Prompt(content) = print.input {
            frontend.prompt(content, EntryId(Uuid::new_v4().to_string()), Wording::Typed);
        }
        frontend
    }

    fn prompt(&mut self, content: Vec<Block>, id: EntryId, wording: Wording) {
        self.queue.sent(id.clone());
        self.outbox.push_back(Command::Prompt { content, id: Some(id), wording });
    }

    /// Sends the oldest command now that there is room, or nowhere if there never will be.
    pub(crate) fn send(&mut self, room: Option<mpsc::Permit<'_, Command>>) {
        match (room, self.outbox.pop_front()) {
            (Some(room), Some(command)) => room.send(command),
            // The engine is gone; what it still said is in the channel of events.
            (None, _) | (_, None) => self.outbox.clear(),
        }
    }

    /// Whether a line of input is wanted.
    pub(crate) fn is_reading(&self) -> bool {
        // A person's lines are read even when nothing is asked: what was typed before a question is no answer.
        let wanted = self.is_dialogue || self.asks == Asks::Terminal;
        wanted && !self.input_ended && self.outbox.len() < OUTBOX
    }

    /// Whether commands wait to be sent.
    pub(crate) fn is_sending(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Follows what happened and shows it.
    pub(crate) async fn watch(&mut self, envelope: &Envelope) {
        self.queue.watch(envelope);
        self.screen.show(envelope).await;
        match &envelope.event {
            AgentEvent::Asked(ask) => self.asked(ask, envelope.agent.as_ref()).await,
            AgentEvent::AskWithdrawn { ask } => self.withdrawn(*ask).await,
            AgentEvent::TurnStarted(_) if self.stopped => self.outbox.push_back(Command::Interrupt),
            AgentEvent::TurnEnded(end) if envelope.agent.is_none() => {
                self.exit = Some(exit_code(&end.outcome));
                if !self.is_dialogue && !self.stopped {
                    self.outbox.push_back(Command::Close);
                }
                if self.queue.is_idle() {
                    self.screen.state(SessionState::Idle).await;
                }
            }
            AgentEvent::Hook(HookNews::Called(call)) => self.called(call).await,
            AgentEvent::Hook(HookNews::Withdrawn(id)) => {
                if self.callbacks.withdrawn(*id) {
                    self.screen.frame(&control::cancel(&id.to_string())).await;
                }
            }
            AgentEvent::Answered { id, answer } => {
                self.queue.called_off(&control::called_off(answer));
                self.screen.frame(&control::answered(id, answer)).await;
            }
            AgentEvent::TurnStarted(_)
            | AgentEvent::Recorded(_)
            | AgentEvent::Requesting
            | AgentEvent::WentRound(_)
            | AgentEvent::Delta(_)
            | AgentEvent::CallStarted { .. }
            | AgentEvent::CallProgress { .. }
            | AgentEvent::Hook(HookNews::Started(_) | HookNews::Ended(..))
            | AgentEvent::JobChanged { .. }
            | AgentEvent::Reset { .. }
            | AgentEvent::Retrying { .. }
            | AgentEvent::Compacting { .. }
            | AgentEvent::CompactionFailed { .. }
            | AgentEvent::Notice { .. }
            | AgentEvent::TurnEnded(_)
            | AgentEvent::Closed => {}
        }
    }

    async fn asked(&mut self, ask: &Ask, agent: Option<&AgentId>) {
        let who = if self.input_ended { Asks::Nobody } else { self.asks };
        match who {
            Asks::Nobody => self.answer(ask.id, nobody()),
            Asks::Terminal => {
                self.open.push_back(ask.clone());
                if self.open.len() == 1 {
                    self.ask_next().await;
                }
            }
            Asks::ControlProtocol => {
                let request = control::can_use_tool(ask, agent);
                // A host that sees half an input would approve, and send back, half an input.
                if cap::whole_line(&request).is_none() {
                    let message = "the call is too large to be shown to the host; split it up".to_owned();
                    return self.answer(ask.id, Answer::Deny { message, interrupt: false });
                }
                self.open.push_back(ask.clone());
                self.screen.state(SessionState::RequiresAction).await;
                self.screen.frame(&request).await;
            }
        }
    }

    async fn called(&mut self, call: &HookCall) {
        if self.input_ended {
            return self.outbox.push_back(hook::gone(call.id));
        }
        match self.callbacks.call(call) {
            Ok(frame) => self.screen.frame(&frame).await,
            Err(answer) => self.outbox.push_back(answer),
        }
    }

    async fn withdrawn(&mut self, id: AskId) {
        let Some(position) = self.open.iter().position(|ask| ask.id == id) else { return };
        self.open.remove(position);
        match self.asks {
            Asks::ControlProtocol => {
                self.screen.frame(&control::cancel(&id.to_string())).await;
                self.resumed().await;
            }
            Asks::Terminal if position == 0 => {
                self.screen.ask("(no answer needed any more)\n").await;
                self.ask_next().await;
            }
            Asks::Terminal | Asks::Nobody => {}
        }
    }

    /// Takes a line of input, or its end.
    pub(crate) async fn read(&mut self, line: Option<Result<Vec<u8>, String>>) {
        self.lines_read += 1;
        match line {
            None => self.end_input(),
            Some(line) if self.is_dialogue => self.heard(line).await,
            Some(line) => self.typed(&line.unwrap_or_default()).await,
        }
    }

    async fn typed(&mut self, line: &[u8]) {
        let Some(ask) = self.open.front() else { return };
        let (id, line) = (ask.id, String::from_utf8_lossy(line));
        let filled = match &mut self.form {
            Some(form) => match form.typed(&line) {
                Filled::Done(answer) => Ok(answer),
                Filled::Ask => Err(form.question()),
            },
            None => typed(&line, ask).ok_or_else(|| choices(ask)),
        };
        let answer = match filled {
            Ok(answer) => answer,
            Err(again) => return self.screen.ask(&again).await,
        };
        self.open.pop_front();
        self.answer(id, answer);
        self.ask_next().await;
    }

    async fn ask_next(&mut self) {
        self.form = self.open.front().and_then(Form::of);
        if let Some(ask) = self.open.front() {
            let shown = self.form.as_ref().map_or_else(|| question(ask), Form::question);
            self.screen.ask(&shown).await;
        }
    }

    async fn heard(&mut self, line: Result<Vec<u8>, String>) {
        match line.and_then(|line| from_line(&line)) {
            Ok(Line::User { content, id, wording }) => self.prompt(content, id, wording),
            Ok(Line::Aside { content, id }) => {
                self.outbox.push_back(Command::Append { content, id: Some(id) });
            }
            Ok(Line::Request { id, request }) => {
                self.outbox.extend(control::plan_instructions(&request));
                let served = control::serve(&id, &request, &self.about);
                self.serve(served).await;
            }
            Ok(Line::Response { id, response }) => {
                self.outbox.extend(self.callbacks.answered(&id, &response));
                let position = self.open.iter().position(|ask| ask.id.to_string() == id);
                // An answer may cross its cancellation on the way.
                if let Some(ask) = position.and_then(|position| self.open.remove(position)) {
                    let answered = control::answer(&response, &ask, &self.about);
                    self.answer(ask.id, answered.answer);
                    for note in answered.notes {
                        self.screen.note(&note).await;
                    }
                    self.resumed().await;
                }
            }
            Ok(Line::Cancel | Line::Blank) => {}
            Err(problem) => {
                let note = format!("input line {}: {problem}", self.lines_read);
                self.screen.note(&note).await;
            }
        }
    }

    async fn serve(&mut self, served: Served) {
        if let Some(response) = &served.response {
            self.screen.frame(response).await;
        }
        self.outbox.extend(served.command);
        if let Some(note) = served.note {
            self.screen.note(&note).await;
        }
        if served.ends {
            self.end_input();
        }
    }

    /// The turn goes on once the last question is settled.
    async fn resumed(&mut self) {
        if self.open.is_empty() && self.queue.is_running() {
            self.screen.state(SessionState::Running).await;
        }
    }

    fn end_input(&mut self) {
        self.input_ended = true;
        for ask in std::mem::take(&mut self.open) {
            self.answer(ask.id, nobody());
        }
        self.outbox.extend(self.callbacks.closed());
        if self.is_dialogue {
            self.outbox.push_back(Command::Close);
        }
    }

    fn answer(&mut self, ask: AskId, answer: Answer) {
        self.outbox.push_back(Command::Answer { ask, answer });
    }

    /// Ends the session when nobody reads what it says.
    pub(crate) fn stop_if_unread(&mut self) {
        if self.screen.broken && !self.stopped {
            self.stopped = true;
            self.outbox.clear();
            self.outbox.push_back(Command::Interrupt);
            self.end_input();
            if !self.is_dialogue {
                self.outbox.push_back(Command::Close);
            }
        }
    }

    /// Hands on what was shown.
    pub(crate) async fn flush(&mut self) {
        self.screen.flush().await;
    }

    /// The exit code, once the session is closed.
    pub(crate) async fn finish(mut self) -> u8 {
        self.screen.flush().await;
        if self.screen.broken {
            return BROKEN_PIPE;
        }
        if !self.queue.is_idle() || (self.exit.is_none() && !self.is_dialogue) {
            self.screen.note("the session closed before the turn ended").await;
            return 1;
        }
        self.exit.unwrap_or(0)
    }
}

fn nobody() -> Answer {
    let message = "nobody can answer the question whether this may run; an allow rule or another permission mode would settle it beforehand";
    Answer::Deny { message: message.to_owned(), interrupt: false }
}
