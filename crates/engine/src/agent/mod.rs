//! The loop. One `select!` decides what happens next; everything else is a plain reaction that
//! records what happened and moves the turn to its next phase.

mod answer;
mod circle;
mod command;
mod compact;
mod hook;
mod instruct;
mod job;
mod limit;
mod plan;
mod prepare;
mod queue;
mod recover;
mod settings;

pub use compact::AutoCompact;
pub(crate) use compact::Outcome as Compacted;
pub(crate) use instruct::Instructing;

use crate::{
    budget::{Node, Used},
    commands,
    context::{self, Snapshot, audit::Auditor},
    ledger::Ledger,
    session::{LogError, Session, unknown_outcome},
    spawn::{Lifetime, Limits, Origin},
    stuck::Trace,
    turn::{Next, Phase, Turn},
    world::{Came, deck::Deck, hands::Hands, model},
};
use futures_util::StreamExt;
use ostler_control::{ExecEvent, Finished, executor::AfterCall};
use ostler_model::{Chosen, EventStream, ModelError, Models};
use ostler_proto::{
    AgentEvent, Command, ErrorKind, HookEvent, Job, Json, ModelEvent, Scope, Section, SessionEvent,
    SessionInfo, ToolSpec, TurnEnd, TurnOutcome, Wording,
    envelope::Denial,
    session::{CallState, ModelChange},
};
use plan::KnownPlan;
use queue::{LeadsTo, Prompt};
use serde_json::json;
use std::{collections::VecDeque, pin::Pin, sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::Sleep};

/// What an agent is made of.
pub(crate) struct Parts {
    pub(crate) session: Session,
    pub(crate) deck: Arc<Deck>,
    pub(crate) executor: Hands,
    /// None when all answers come from a tape.
    pub(crate) models: Option<Models>,
    pub(crate) chosen: Chosen,
    pub(crate) system: Vec<Section>,
    pub(crate) snapshot: Snapshot,
    pub(crate) instructing: Instructing,
    pub(crate) limits: Limits,
    pub(crate) inbox: mpsc::Receiver<Command>,
    pub(crate) origin: Origin,
    pub(crate) title: Option<String>,
}

/// One conversation and its loop.
pub(crate) struct Agent {
    pub(crate) parts: Parts,
    pub(crate) tools: Arc<[ToolSpec]>,
    pub(crate) ledger: Ledger,
    pub(crate) auditor: Auditor,
    pub(crate) turn: Option<Turn>,
    /// This process's place in the budget.
    budget: Node,
    /// The user's choice of a model, while another answers in its stead.
    first_choice: Option<Chosen>,
    queue: VecDeque<Prompt>,
    /// Whether the session's opening is recorded.
    opened: bool,
    /// What the session came from.
    origin: Origin,
    /// Whether the inbox can still bring something.
    listening: bool,
    closing: bool,
    /// Commands that came while hooks were asked.
    waiting: VecDeque<Command>,
    /// What the model will read with its next request: words of hooks, and that files were put back.
    pub(crate) unheard: Vec<String>,
    /// What hooks want the model to read before the first prompt, as the user's words.
    opening: Option<String>,
    attempts: compact::Attempts,
    /// When the model must read it.
    urgency: Urgency,
    /// What the model knows of plan mode.
    known_plan: KnownPlan,
    /// What a host wants the model to know besides when plan mode begins.
    plan_instructions: Option<String>,
}

/// When the model must read what hooks said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Urgency {
    /// With its next request.
    InTime,
    /// Soon: a hook in the background wakes it.
    Now,
}

/// What the loop reacts to.
#[expect(clippy::large_enum_variant, reason = "one at a time, handed on at once")]
enum Input {
    Command(Command),
    FrontendGone,
    Model(Option<Result<ModelEvent, ModelError>>),
    Tools(ExecEvent),
    PauseOver,
    TimeOver,
}

type Reaction = Result<(), LogError>;

impl Agent {
    pub(crate) fn new(mut parts: Parts) -> Self {
        let tools = parts.executor.offered().into();
        let state = parts.session.state();
        let auditor = Auditor::after(state.cache.last.clone());
        let budget = limit::of_process(&parts.limits, state);
        parts.system = context::in_force(parts.system, &state.system, parts.snapshot);
        let origin = parts.origin;
        Self {
            parts,
            tools,
            origin,
            ledger: Ledger::default(),
            auditor,
            turn: None,
            budget,
            first_choice: None,
            queue: VecDeque::new(),
            opened: false,
            listening: true,
            closing: false,
            waiting: VecDeque::new(),
            unheard: Vec::new(),
            opening: None,
            attempts: compact::Attempts::default(),
            urgency: Urgency::InTime,
            known_plan: KnownPlan::default(),
            plan_instructions: None,
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
                    self.hang_up();
                    self.stop(self.interrupted()).await
                }
                Input::Model(event) => self.on_model(event).await,
                Input::Tools(event) => self.on_tools(event).await,
                Input::PauseOver => self.request().await,
                Input::TimeOver => self.on_time_over().await,
            };
            if let Err(error) = reaction {
                self.give_up(error).await;
            }
        }
        if let Err(error) = self.end_jobs().await {
            tracing::warn!(%error, "the end of background commands could not be recorded");
        }
        if let Err(error) = self.tell_hooks_of_end("other").await {
            tracing::warn!(%error, "the end could not be recorded");
        }
        if let Err(error) = self.parts.session.close() {
            let text = format!("the end of the session could not be saved: {error}");
            self.parts.session.tell(AgentEvent::Notice { text }).await;
        }
        self.keep_recording(self.parts.deck.close()).await;
        self.parts.session.tell(AgentEvent::Closed).await;
    }

    async fn next_input(&mut self) -> Input {
        if let Some(command) = self.waiting.pop_front() {
            return Input::Command(command);
        }
        if self.parts.deck.is_replaying() {
            return self.next_input_again().await;
        }
        let (mut stream, mut pause, mut deadline) = (None, None, None);
        if let Some(turn) = &mut self.turn {
            match &mut turn.phase {
                Phase::Answering(answering) => stream = Some(&mut answering.stream),
                Phase::Waiting(waiting) => pause = Some(waiting),
                Phase::Draining { .. } | Phase::Asking { .. } => {}
            }
            deadline = turn.spending.deadline.as_mut();
        }
        let input = tokio::select! {
            command = self.parts.inbox.recv(), if self.listening => {
                command.map_or(Input::FrontendGone, Input::Command)
            }
            event = next_event(stream) => Input::Model(event),
            event = self.parts.executor.next() => Input::Tools(event),
            () = end_of(pause) => Input::PauseOver,
            () = end_of(deadline) => Input::TimeOver,
        };
        self.parts.deck.came(|| input.came());
        input
    }

    /// The same from a tape.
    async fn next_input_again(&mut self) -> Input {
        let came = self.parts.deck.next().await;
        match came {
            Came::Command(command) => Input::Command(*command),
            Came::Gone => Input::FrontendGone,
            Came::Heard => match self.turn.as_mut().map(|turn| &mut turn.phase) {
                Some(Phase::Answering(answering)) => Input::Model(answering.stream.next().await),
                Some(Phase::Draining { .. } | Phase::Waiting(_) | Phase::Asking { .. }) | None => {
                    self.parts.deck.is_no_use(&came).await
                }
            },
            Came::Broke(error) => Input::Model(Some(Err(*error))),
            Came::Ended => Input::Model(None),
            Came::Tools(event) => {
                self.parts.executor.note(&event).await;
                Input::Tools(*event)
            }
            Came::PauseOver => Input::PauseOver,
            Came::TimeOver => Input::TimeOver,
            Came::Fired(_) | Came::Told(_) => self.parts.deck.is_no_use(&came).await,
        }
    }

    async fn on_command(&mut self, command: Command) -> Reaction {
        match command {
            Command::Prompt { content, id, wording } => {
                self.queue.push_back(Prompt::new(content, id, wording, LeadsTo::Turn));
                self.start_next_turn().await
            }
            Command::Append { content, id } => {
                self.queue.push_back(Prompt::new(content, id, Wording::Verbatim, LeadsTo::Nothing));
                self.start_next_turn().await
            }
            Command::Query { id, query } => self.on_query(id, query).await,
            Command::Answer { ask, answer } => self.on_answer(ask, answer).await,
            Command::SetHooks(callbacks) => self.set_host_hooks(callbacks).await,
            Command::SetPlanInstructions(text) => {
                self.plan_instructions = Some(text);
                Ok(())
            }
            Command::AnswerHook { id, reply } => {
                self.parts.executor.answer_hook(id, reply);
                Ok(())
            }
            Command::SetMode(mode) => {
                if let Err(text) = self.parts.executor.set_mode(mode) {
                    self.parts.session.tell(AgentEvent::Notice { text }).await;
                    return Ok(());
                }
                self.record_if_open(SessionEvent::ModeChanged { mode }).await
            }
            Command::SetModel(name) => {
                if let Err(text) = self.change_model(&name).await? {
                    self.parts.session.tell(AgentEvent::Notice { text }).await;
                }
                Ok(())
            }
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

    /// Changes the model from the next request on, or says why not.
    pub(crate) async fn change_model(&mut self, name: &str) -> Result<Result<(), String>, LogError> {
        let chosen = match self.choose(name) {
            Ok(chosen) => chosen,
            Err(error) => {
                return Ok(Err(format!("the model stays {}: {error}", self.parts.chosen.name)));
            }
        };
        let model = chosen.name.clone();
        self.parts.chosen = chosen;
        self.first_choice = None;
        let because = ModelChange::Asked;
        self.record_if_open(SessionEvent::ModelChanged { model, because }).await?;
        if self.opened {
            self.tell_of_unknown_price().await;
        }
        Ok(Ok(()))
    }

    /// The model of that name, or why it cannot be had.
    pub(crate) fn choose(&self, name: &str) -> Result<Chosen, String> {
        model::choose(&self.parts.deck, self.parts.models.as_ref(), name)
    }

    /// Before the first prompt nothing is written; opening records what is in force then.
    async fn record_if_open(&mut self, event: SessionEvent) -> Reaction {
        if self.opened {
            self.parts.session.record(event).await?;
        }
        Ok(())
    }

    async fn begin_turn(&mut self) -> Reaction {
        self.restore_model().await?;
        self.turn = Some(Turn::new(self.new_spending(), self.parts.deck.now()));
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
            commands: commands::commands().into_iter().map(|info| info.name).collect(),
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
        for text in self.parts.executor.recover().await {
            self.parts.session.tell(AgentEvent::Notice { text }).await;
        }
        self.tell_of_unknown_price().await;
        let event = SessionEvent::Opened {
            cwd: self.parts.executor.cwd(),
            model: self.parts.chosen.name.clone(),
            mode: self.parts.executor.mode(),
            system: self.parts.system.iter().filter(|part| part.scope != Scope::Ephemeral).cloned().collect(),
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
        if let Some(title) = self.parts.title.take() {
            self.parts.session.name(&title)?;
        }
        self.tell_of_now().await?;
        self.hooks_at_start().await?;
        self.instruct_at_start().await
    }

    async fn on_tools(&mut self, event: ExecEvent) -> Reaction {
        let session = &mut self.parts.session;
        match event {
            ExecEvent::Decided { call, intent, decision } => {
                session.record(SessionEvent::Decided { call, intent, decision }).await?;
            }
            ExecEvent::Hooked { record, messages } => {
                self.record_hooks(record).await?;
                for text in messages {
                    self.parts.session.tell(AgentEvent::Notice { text }).await;
                }
            }
            ExecEvent::Told(told) => return self.on_told(told).await,
            ExecEvent::Stopped(reason) => return self.stop(TurnOutcome::HookStopped { reason }).await,
            ExecEvent::Started { call, tool, intent } => {
                self.parts.instructing.note_touched(&intent.access);
                session.tell(AgentEvent::CallStarted { call, tool, intent }).await;
            }
            ExecEvent::Progress { call, text } => {
                session.tell(AgentEvent::CallProgress { call, text }).await;
            }
            ExecEvent::Asked(ask) => session.tell(AgentEvent::Asked(ask)).await,
            ExecEvent::AskWithdrawn(ask) => session.tell(AgentEvent::AskWithdrawn { ask }).await,
            ExecEvent::JobChanged(job) => return self.on_job(job).await,
            ExecEvent::Noticed(text) => session.tell(AgentEvent::Notice { text }).await,
            ExecEvent::ModeChanged(mode) => return self.on_mode(mode).await,
            ExecEvent::Finished(finished) => return self.on_finished(finished).await,
        }
        Ok(())
    }

    async fn on_finished(&mut self, finished: Finished) -> Reaction {
        let Finished { call, result, structured, state, changes, changed_files, duration_ms, turn: after } =
            finished;
        let has_listeners = self.is_heard(HookEvent::PostToolBatch);
        if let Some(turn) = &mut self.turn {
            turn.batch.extend(has_listeners.then(|| {
                json!({"tool_name": call.name, "tool_input": call.input, "tool_use_id": call.id,
                    "tool_response": result.text()})
            }));
            let trace = Trace { changed: changed_files || !changes.is_empty(), ran_ms: duration_ms };
            turn.watch.saw(&call, &result, trace);
            turn.spending.node.spend(Used { calls: 1, ..Used::default() });
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
            AfterCall::Fatal(message) => self.stop(TurnOutcome::Failed { message }).await,
        }
    }

    /// Moves on when nothing is left to wait for.
    async fn advance(&mut self) -> Reaction {
        let has_news = (self.parts.executor.has_unheard_jobs() || self.urgency == Urgency::Now)
            && self.limit_reached().is_none();
        let Some(turn) = &mut self.turn else { return Ok(()) };
        let Phase::Draining { then } = &mut turn.phase else { return Ok(()) };
        if self.parts.executor.open_calls() > 0 {
            return Ok(());
        }
        match (std::mem::replace(then, Next::Request), turn.stopped_by_hook.clone()) {
            (Next::Request | Next::Wait(_) | Next::End(TurnOutcome::Completed), Some(reason)) => {
                self.end(TurnOutcome::HookStopped { reason }).await
            }
            (Next::Request, None) => self.hooks_after_batch().await,
            // What ended in the meantime is told before the turn does.
            (Next::End(TurnOutcome::Completed), None) if has_news => self.request().await,
            (Next::End(TurnOutcome::Completed), None) => self.hooks_before_end().await,
            (Next::Wait(pause), None) => {
                turn.phase = Phase::Waiting(Box::pin(tokio::time::sleep(pause)));
                Ok(())
            }
            (Next::End(outcome), _) => self.end(outcome).await,
        }
    }

    async fn end(&mut self, outcome: TurnOutcome) -> Reaction {
        let outcome = match (outcome, self.stopped_by_hook()) {
            (TurnOutcome::Completed, Some(stopped)) => stopped,
            (outcome, _) => outcome,
        };
        match &outcome {
            TurnOutcome::Interrupted { during_tools } => {
                let event = SessionEvent::Interrupted { during_tools: *during_tools };
                self.parts.session.record(event).await?;
            }
            TurnOutcome::ApiError { status, kind, message } => {
                let text = api_error_text(*status, message);
                self.parts.session.record(SessionEvent::Failed { message: text }).await?;
                self.hooks_on_failure(*kind, message).await?;
            }
            TurnOutcome::PromptTooLong { status, message } => {
                let text = api_error_text(*status, message);
                self.parts.session.record(SessionEvent::Failed { message: text }).await?;
                self.hooks_on_failure(ErrorKind::InvalidRequest, message).await?;
            }
            TurnOutcome::Completed
            | TurnOutcome::MaxTurns { .. }
            | TurnOutcome::BudgetExhausted { .. }
            | TurnOutcome::HookStopped { .. }
            | TurnOutcome::Failed { .. } => {}
        }
        let stopped_jobs = match self.parts.limits.lifetime {
            Lifetime::Conversation => Vec::new(),
            Lifetime::OneTurn => self.end_jobs().await?,
        };
        self.parts.session.sync()?;
        self.keep_recording(self.parts.deck.flush()).await;
        self.finish_turn(outcome, stopped_jobs).await;
        Box::pin(self.start_next_turn()).await
    }

    async fn finish_turn(&mut self, outcome: TurnOutcome, stopped_jobs: Vec<Job>) {
        let Some(turn) = self.turn.take() else { return };
        let took = self.parts.deck.since(turn.began);
        self.budget.work(took);
        tracing::info!(round_trips = turn.round_trips, ?outcome, "turn ended");
        let end = TurnEnd {
            outcome,
            text: turn.text,
            stop: turn.stop,
            round_trips: turn.round_trips,
            duration_ms: millis(took),
            api_ms: millis(turn.waited_for_model),
            usage: turn.usage,
            by_model: self.ledger.by_model.clone(),
            by_agent: self.ledger.by_agent.clone(),
            by_tool: self.parts.session.state().spent.by_tool.clone(),
            cost_usd: self.ledger.total_usd(),
            denials: turn.denials,
            stopped_jobs,
        };
        self.parts.session.tell(AgentEvent::TurnEnded(end)).await;
    }

    /// The work goes on without a recording that cannot be written.
    async fn keep_recording(&mut self, problem: Option<String>) {
        if let Some(problem) = problem {
            let text = format!("the session is not recorded any further: cannot write {problem}");
            self.parts.session.tell(AgentEvent::Notice { text }).await;
        }
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

impl Input {
    /// What of it goes on a tape.
    fn came(&self) -> Came {
        match self {
            Self::Command(command) => Came::Command(Box::new(command.clone())),
            Self::FrontendGone => Came::Gone,
            Self::Model(Some(Ok(_))) => Came::Heard,
            Self::Model(Some(Err(error))) => Came::Broke(Box::new(error.clone())),
            Self::Model(None) => Came::Ended,
            Self::Tools(event) => Came::Tools(Box::new(event.clone())),
            Self::PauseOver => Came::PauseOver,
            Self::TimeOver => Came::TimeOver,
        }
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
