//! The loop. One `select!` decides what happens next; everything else is a plain reaction that
//! records what happened and moves the turn to its next phase.

mod answer;
mod hook;
mod job;

use crate::{
    ledger::Ledger,
    session::{LogError, Session, unknown_outcome},
    spawn::{Lifetime, Limits},
    turn::{Next, Phase, Turn},
};
use futures_util::StreamExt;
use ostler_control::{ExecEvent, Executor, Finished, executor::AfterCall};
use ostler_model::{Chosen, EventStream, ModelError, Models};
use ostler_proto::{
    AgentEvent, Block, Command, EntryId, Job, Json, ModelEvent, SessionEvent, SessionInfo, ToolSpec, TurnEnd,
    TurnOutcome, envelope::Denial, session::CallState,
};
use std::{collections::VecDeque, pin::Pin, sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::Sleep};

/// What an agent is made of.
pub(crate) struct Parts {
    pub(crate) session: Session,
    pub(crate) executor: Executor,
    pub(crate) models: Models,
    pub(crate) chosen: Chosen,
    pub(crate) system: Vec<String>,
    pub(crate) limits: Limits,
    pub(crate) inbox: mpsc::Receiver<Command>,
}

/// One conversation and its loop.
pub(crate) struct Agent {
    parts: Parts,
    tools: Arc<[ToolSpec]>,
    ledger: Ledger,
    turn: Option<Turn>,
    queue: VecDeque<(Vec<Block>, Option<EntryId>)>,
    /// Whether the session's opening is recorded.
    opened: bool,
    /// Whether the inbox can still bring something.
    listening: bool,
    closing: bool,
    /// Commands that came while hooks were asked.
    waiting: VecDeque<Command>,
    /// What hooks said that the model will read with its next request.
    unheard: Vec<String>,
}

/// What the loop reacts to.
#[expect(clippy::large_enum_variant, reason = "one at a time, handed on at once")]
enum Input {
    Command(Command),
    FrontendGone,
    Model(Option<Result<ModelEvent, ModelError>>),
    Tools(ExecEvent),
    PauseOver,
}

type Reaction = Result<(), LogError>;

impl Agent {
    pub(crate) fn new(parts: Parts) -> Self {
        let tools = parts.executor.offered().into();
        Self {
            parts,
            tools,
            ledger: Ledger::default(),
            turn: None,
            queue: VecDeque::new(),
            opened: false,
            listening: true,
            closing: false,
            waiting: VecDeque::new(),
            unheard: Vec::new(),
        }
    }

    /// Runs until closed.
    pub(crate) async fn run(mut self) {
        while !(self.closing && self.turn.is_none() && self.queue.is_empty()) {
            let reaction = match self.next_input().await {
                Input::Command(command) => self.on_command(command).await,
                Input::FrontendGone => {
                    self.listening = false;
                    self.closing = true;
                    self.queue.clear();
                    self.stop(self.interrupted()).await
                }
                Input::Model(event) => self.on_model(event).await,
                Input::Tools(event) => self.on_tools(event).await,
                Input::PauseOver => self.request().await,
            };
            if let Err(error) = reaction {
                self.give_up(error).await;
            }
        }
        if let Err(error) = self.end_jobs().await {
            tracing::warn!(%error, "the end of background commands could not be recorded");
        }
        if let Err(error) = self.tell_hooks_of_end().await {
            tracing::warn!(%error, "the end could not be recorded");
        }
        self.parts.session.tell(AgentEvent::Closed).await;
    }

    async fn next_input(&mut self) -> Input {
        if let Some(command) = self.waiting.pop_front() {
            return Input::Command(command);
        }
        let (stream, pause) = match self.turn.as_mut().map(|turn| &mut turn.phase) {
            Some(Phase::Answering(answering)) => (Some(&mut answering.stream), None),
            Some(Phase::Waiting(pause)) => (None, Some(pause)),
            Some(Phase::Draining { .. }) | None => (None, None),
        };
        tokio::select! {
            command = self.parts.inbox.recv(), if self.listening => {
                command.map_or(Input::FrontendGone, Input::Command)
            }
            event = next_event(stream) => Input::Model(event),
            event = self.parts.executor.next() => Input::Tools(event),
            () = end_of(pause) => Input::PauseOver,
        }
    }

    async fn on_command(&mut self, command: Command) -> Reaction {
        match command {
            Command::Prompt { content, id } => {
                self.queue.push_back((content, id));
                self.start_next_turn().await
            }
            Command::Answer { ask, answer } => {
                self.parts.executor.answer(ask, answer);
                Ok(())
            }
            Command::SetMode(mode) => {
                self.parts.executor.set_mode(mode);
                self.record_if_open(SessionEvent::ModeChanged { mode }).await
            }
            Command::SetModel(name) => self.change_model(&name).await,
            Command::StopJob(id) => {
                self.parts.executor.stop_job(&id);
                Ok(())
            }
            Command::Interrupt => self.stop(self.interrupted()).await,
            Command::Close => {
                self.closing = true;
                Ok(())
            }
        }
    }

    async fn change_model(&mut self, name: &str) -> Reaction {
        match self.parts.models.choose(name) {
            Ok(chosen) => {
                let model = chosen.name.clone();
                self.parts.chosen = chosen;
                self.record_if_open(SessionEvent::ModelChanged { model }).await
            }
            Err(error) => {
                let text = format!("the model stays {}: {error}", self.parts.chosen.name);
                self.parts.session.tell(AgentEvent::Notice { text }).await;
                Ok(())
            }
        }
    }

    /// Before the first prompt nothing is written; opening records what is in force then.
    async fn record_if_open(&mut self, event: SessionEvent) -> Reaction {
        if self.opened {
            self.parts.session.record(event).await?;
        }
        Ok(())
    }

    async fn start_next_turn(&mut self) -> Reaction {
        if self.turn.is_some() {
            return Ok(());
        }
        let Some((content, id)) = self.queue.pop_front() else { return Ok(()) };
        self.begin_turn().await?;
        let title: String = content.iter().filter_map(Block::as_text).collect::<Vec<_>>().join(" ");
        if let Some(outcome) = self.hooks_on_prompt(&content).await? {
            return self.end(outcome).await;
        }
        let event = SessionEvent::Prompted { content, meta: false };
        let id = match id {
            Some(id) => self.parts.session.record_as(id, event).await?,
            None => self.parts.session.record(event).await?,
        };
        self.parts.executor.prompted(id, title);
        self.advance().await
    }

    async fn begin_turn(&mut self) -> Reaction {
        self.turn = Some(Turn::new());
        let info = self.info();
        self.parts.session.tell(AgentEvent::TurnStarted(info)).await;
        self.open().await
    }

    fn info(&self) -> SessionInfo {
        SessionInfo {
            cwd: self.parts.executor.cwd(),
            model: self.parts.chosen.name.clone(),
            mode: self.parts.executor.mode(),
            tools: self.tools.iter().map(|tool| tool.name.clone()).collect(),
            key_source: self.parts.chosen.key_source.clone(),
            transcript: self.parts.session.transcript().map(std::path::Path::to_path_buf),
        }
    }

    /// Writes down what the session starts from, and answers calls a former process left open.
    async fn open(&mut self) -> Reaction {
        if self.opened {
            return Ok(());
        }
        self.opened = true;
        let is_resumed = self.parts.session.state().model.is_some();
        let event = SessionEvent::Opened {
            cwd: self.parts.executor.cwd(),
            model: self.parts.chosen.name.clone(),
            mode: self.parts.executor.mode(),
            system: self.parts.system.clone(),
        };
        self.parts.session.record(event).await?;
        for call in self.parts.session.state().unanswered() {
            let result = unknown_outcome(call.id);
            let event = SessionEvent::ToolReturned {
                tool: call.name,
                structured: Json::String(result.text()),
                result,
                state: CallState::Unknown,
                changes: Vec::new(),
                duration_ms: 0,
            };
            self.parts.session.record(event).await?;
        }
        self.hooks_at_start(is_resumed).await
    }

    async fn on_tools(&mut self, event: ExecEvent) -> Reaction {
        let session = &mut self.parts.session;
        match event {
            ExecEvent::Decided { call, intent, decision } => {
                session.record(SessionEvent::Decided { call, intent, decision }).await?;
            }
            ExecEvent::Hooked { record, messages } => {
                session.record(SessionEvent::Hooked { record }).await?;
                for text in messages {
                    session.tell(AgentEvent::Notice { text }).await;
                }
            }
            ExecEvent::Started { call, tool, intent } => {
                session.tell(AgentEvent::CallStarted { call, tool, intent }).await;
            }
            ExecEvent::Progress { call, text } => {
                session.tell(AgentEvent::CallProgress { call, text }).await;
            }
            ExecEvent::Asked(ask) => session.tell(AgentEvent::Asked(ask)).await,
            ExecEvent::AskWithdrawn(ask) => session.tell(AgentEvent::AskWithdrawn { ask }).await,
            ExecEvent::JobChanged(job) => return self.on_job(job).await,
            ExecEvent::Finished(finished) => return self.on_finished(finished).await,
        }
        Ok(())
    }

    async fn on_finished(&mut self, finished: Finished) -> Reaction {
        let Finished { call, result, structured, state, changes, duration_ms, turn: after } = finished;
        if let Some(turn) = &mut self.turn {
            turn.failed_calls = if state == CallState::Complete { 0 } else { turn.failed_calls + 1 };
            if state == CallState::Denied {
                let denial =
                    Denial { tool: call.name.clone(), call: call.id.clone(), input: call.input.clone() };
                turn.denials.push(denial);
            }
        }
        let event =
            SessionEvent::ToolReturned { tool: call.name, result, structured, state, changes, duration_ms };
        self.parts.session.record(event).await?;
        match after {
            AfterCall::GoOn => self.advance().await,
            AfterCall::Interrupt => self.stop(TurnOutcome::Interrupted { during_tools: true }).await,
            AfterCall::Stop(reason) => {
                self.note_stop(&reason).await;
                self.stop(TurnOutcome::Completed).await
            }
            AfterCall::Fatal(message) => self.stop(TurnOutcome::Failed { message }).await,
        }
    }

    /// Moves on when nothing is left to wait for.
    async fn advance(&mut self) -> Reaction {
        let has_news = self.parts.executor.has_unheard_jobs() && self.limit_reached().is_none();
        let Some(turn) = &mut self.turn else { return Ok(()) };
        let Phase::Draining { then } = &mut turn.phase else { return Ok(()) };
        if self.parts.executor.open_calls() > 0 {
            return Ok(());
        }
        let may_go_on = !turn.ended_by_hook;
        match std::mem::replace(then, Next::Request) {
            Next::Request => self.request().await,
            // What ended in the meantime is told before the turn does.
            Next::End(TurnOutcome::Completed) if has_news && may_go_on => self.request().await,
            Next::End(TurnOutcome::Completed) if may_go_on => self.hooks_before_end().await,
            Next::Wait(pause) => {
                turn.phase = Phase::Waiting(Box::pin(tokio::time::sleep(pause)));
                Ok(())
            }
            Next::End(outcome) => self.end(outcome).await,
        }
    }

    async fn end(&mut self, outcome: TurnOutcome) -> Reaction {
        match &outcome {
            TurnOutcome::Interrupted { during_tools } => {
                let event = SessionEvent::Interrupted { during_tools: *during_tools };
                self.parts.session.record(event).await?;
            }
            TurnOutcome::ApiError { status, message, .. } => {
                let message = api_error_text(*status, message);
                self.parts.session.record(SessionEvent::Failed { message }).await?;
            }
            TurnOutcome::Completed
            | TurnOutcome::MaxTurns { .. }
            | TurnOutcome::BudgetExhausted { .. }
            | TurnOutcome::Failed { .. } => {}
        }
        let stopped_jobs = match self.parts.limits.lifetime {
            Lifetime::Conversation => Vec::new(),
            Lifetime::OneTurn => self.end_jobs().await?,
        };
        self.parts.session.sync()?;
        self.finish_turn(outcome, stopped_jobs).await;
        Box::pin(self.start_next_turn()).await
    }

    async fn finish_turn(&mut self, outcome: TurnOutcome, stopped_jobs: Vec<Job>) {
        let Some(turn) = self.turn.take() else { return };
        tracing::info!(round_trips = turn.round_trips, ?outcome, "turn ended");
        let end = TurnEnd {
            outcome,
            text: turn.text,
            stop: turn.stop,
            round_trips: turn.round_trips,
            duration_ms: millis(turn.began.elapsed()),
            api_ms: millis(turn.waited_for_model),
            usage: turn.usage,
            by_model: self.ledger.by_model.clone(),
            cost_usd: self.ledger.total_usd(),
            denials: turn.denials,
            stopped_jobs,
        };
        self.parts.session.tell(AgentEvent::TurnEnded(end)).await;
    }

    /// The log cannot be written: nothing more may happen that it would not know of.
    async fn give_up(&mut self, error: LogError) {
        self.parts.executor.forget_all().await;
        self.parts.executor.stop_jobs().await;
        self.queue.clear();
        self.finish_turn(TurnOutcome::Failed { message: error.to_string() }, Vec::new()).await;
    }

    fn interrupted(&self) -> TurnOutcome {
        TurnOutcome::Interrupted { during_tools: self.parts.executor.open_calls() > 0 }
    }
}

async fn next_event(stream: Option<&mut EventStream>) -> Option<Result<ModelEvent, ModelError>> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

async fn end_of(pause: Option<&mut Pin<Box<Sleep>>>) {
    match pause {
        Some(pause) => pause.await,
        None => std::future::pending().await,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The words that stand for an answer that never came.
fn api_error_text(status: Option<u16>, message: &str) -> String {
    match status {
        Some(status) => format!("API Error: {status} {message}"),
        None => format!("API Error: {message}"),
    }
}
