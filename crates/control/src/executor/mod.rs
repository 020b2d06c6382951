//! Runs proposed calls while the model is still speaking: each as soon as its input is whole,
//! side by side where what they touch allows it, results handed out in call order.
//! This is the only place where a plan's effect is let loose.

mod amend;
mod call;
mod cancel;
mod hooked;
mod input;
mod listeners;
mod outside;
mod recall;
mod reload;
mod result;
mod rewind;
mod scan;
mod schedule;
mod undo;
mod update;
mod watch;

pub use cancel::Cause;
pub use input::CallInput;
pub use listeners::{Facts, SessionHooks};
pub use outside::ChangedFile;
pub use recall::{Recalled, Recollection, Room};
pub use reload::{Reload, Reloaded};
pub use scan::{Scan, Scanner};
pub use undo::{Keeping, Kept, recovery};

use crate::{
    hooks::{Fired, Occasion, Told},
    memory::Memory,
    permission::{Demand, Line, Policy},
    settings::Changed,
};
use call::Worker;
use cancel::Cancellation;
use ostler_proto::{
    Answer, Ask, AskId, CallId, Decision, HookEvent, HookRecord, Intent, Job, JobId, Json, Mode, SessionId,
    StateChange, ToolCall, ToolResult, ToolSpec, session::CallState,
};
use ostler_tools::{
    Artifacts, PlanContext, Registry,
    builtin::CONSULTING,
    host::{FileState, Host, Jobs, Terms},
};
use schedule::Schedule;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, atomic::AtomicU64},
};
use tokio::{
    sync::{OnceCell, Semaphore, mpsc, oneshot},
    task::JoinSet,
};
use tracing::Instrument;
use undo::Undo;

/// How many calls run at once unless told otherwise.
pub const DEFAULT_PARALLEL: usize = 10;

/// What an executor needs from its session.
pub struct Setup {
    /// The tools.
    pub registry: Registry,
    /// The machine.
    pub host: Arc<dyn Host>,
    /// Modes and rules.
    pub policy: Policy,
    /// Where the session starts.
    pub cwd: PathBuf,
    /// Whether anybody can answer a question.
    pub attendance: Attendance,
    /// How many calls may run at once.
    pub parallel: usize,
    /// Where results too long to show are kept; the model may read there.
    pub artifacts: Option<Artifacts>,
    /// Where rules are kept that the user grants for longer than the session.
    pub memory: Memory,
    /// Looks whether settings changed and gives the policy they now make.
    pub reload: Option<Reload>,
    /// Where checkpoints go; none means that nothing can be undone.
    pub keeping: Option<Keeping>,
    /// Commands in the background: those that the tools start.
    pub jobs: Arc<Jobs>,
    /// Hooks, if there are any.
    pub hooks: Option<Arc<SessionHooks>>,
}

/// Whether anybody can answer a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attendance {
    /// A person or a program will answer.
    Attended,
    /// Nobody will: what would ask is denied.
    Unattended,
}

/// What an executor reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ExecEvent {
    /// The judge decided about a call.
    Decided {
        /// The call.
        call: CallId,
        /// What it would do.
        intent: Intent,
        /// The decision.
        decision: Decision,
    },
    /// Hooks were asked about a call.
    Hooked {
        /// For the log.
        record: HookRecord,
        /// For the user.
        messages: Vec<String>,
    },
    /// Hooks tell what nobody waits for.
    Told(Told),
    /// A call begins to run.
    Started {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// What it does.
        intent: Intent,
    },
    /// A running call shows output.
    Progress {
        /// The call.
        call: CallId,
        /// The output.
        text: String,
    },
    /// Somebody must answer.
    Asked(Ask),
    /// A question needs no answer any more.
    AskWithdrawn(AskId),
    /// A command in the background began or ended.
    JobChanged(Job),
    /// Something the user should know.
    Noticed(String),
    /// The permission mode is another now, by an answer or by what a call put to the user.
    ModeChanged(Mode),
    /// A hook stops the run, for this reason; the call it spoke about has its result already.
    Stopped(String),
    /// A call has its one result. These come in call order.
    Finished(Finished),
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The call.
    pub call: ToolCall,
    /// For the model.
    pub result: ToolResult,
    /// For programs.
    pub structured: Json,
    /// How it ended.
    pub state: CallState,
    /// Changes to shared state, applied already.
    pub changes: Vec<StateChange>,
    /// Whether files of the project are known to be other than before.
    pub changed_files: bool,
    /// Run time without waiting.
    pub duration_ms: u64,
    /// What the whole turn must do about it.
    pub turn: AfterCall,
}

/// What the turn must do after a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterCall {
    /// Go on.
    GoOn,
    /// Stop: whoever was asked said so.
    Interrupt,
    /// End with this error.
    Fatal(String),
}

/// Whether the calls of an answer could be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Abandoned {
    /// They are gone without a trace in the world.
    Yes,
    /// One of them has, or may have, changed something.
    EffectBegan,
}

/// Decides the race between an answer being dropped and its first effect.
enum Gate {
    NoEffectYet,
    EffectBegan,
    Closed,
}

/// Runs the calls of one session.
pub struct Executor {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
    events: mpsc::Receiver<(u64, ExecEvent)>,
    /// Finished calls that wait for an earlier one.
    early: BTreeMap<u64, Finished>,
    next_number: u64,
    next_result: u64,
    /// What calls off all open calls.
    cancel: Cancellation,
    seen_before: Option<FileState>,
    reload: Option<Reload>,
    /// Files whose change hooks did not want.
    refused: Vec<Changed>,
    /// Changed settings that nobody has decided about.
    postponed: Option<Reloaded>,
    /// What is done beside the calls: the project is taken in for undo.
    upkeep: JoinSet<()>,
    /// Watches files for hooks.
    watching: JoinSet<()>,
}

/// What every call of the session shares.
struct Shared {
    registry: Registry,
    host: Arc<dyn Host>,
    files: Arc<FileState>,
    policy: RwLock<Policy>,
    cwd: Mutex<PathBuf>,
    attendance: Attendance,
    slots: Semaphore,
    /// The sandbox's temporary folder; none when there is no sandbox.
    sandbox: OnceCell<Option<tempfile::TempDir>>,
    memory: Memory,
    undo: Undo,
    artifacts: Option<Artifacts>,
    jobs: Arc<Jobs>,
    hooks: Option<Arc<SessionHooks>>,
    schedule: Arc<Schedule>,
    tx: mpsc::Sender<(u64, ExecEvent)>,
    asks: Mutex<HashMap<AskId, oneshot::Sender<Answer>>>,
    next_ask: AtomicU64,
    gate: Mutex<Gate>,
}

impl Executor {
    /// An executor with nothing to do.
    pub fn new(setup: Setup) -> Self {
        let (tx, events) = mpsc::channel(256);
        let mut policy = setup.policy;
        policy.readable.extend(setup.artifacts.iter().map(Artifacts::folder));
        let shared = Arc::new(Shared {
            registry: setup.registry,
            host: setup.host,
            files: Arc::new(FileState::default()),
            policy: RwLock::new(policy),
            cwd: Mutex::new(setup.cwd),
            attendance: setup.attendance,
            slots: Semaphore::new(setup.parallel.max(1)),
            sandbox: OnceCell::new(),
            artifacts: setup.artifacts,
            memory: setup.memory,
            undo: Undo::new(setup.keeping),
            jobs: setup.jobs,
            hooks: setup.hooks,
            schedule: Schedule::new(),
            tx,
            asks: Mutex::new(HashMap::new()),
            next_ask: AtomicU64::new(1),
            gate: Mutex::new(Gate::NoEffectYet),
        });
        Self {
            shared,
            tasks: JoinSet::new(),
            events,
            early: BTreeMap::new(),
            next_number: 0,
            next_result: 0,
            cancel: Cancellation::default(),
            seen_before: None,
            reload: setup.reload,
            refused: Vec::new(),
            postponed: None,
            upkeep: JoinSet::new(),
            watching: JoinSet::new(),
        }
    }

    /// What the model may be offered: every tool no bare deny rule removes, in a stable order. What is put to
    /// the user is offered only where somebody can answer.
    pub fn offered(&self) -> Vec<ToolSpec> {
        let policy = self.shared.policy();
        let answerable = |spec: &&ToolSpec| {
            self.shared.attendance == Attendance::Attended || !CONSULTING.contains(&spec.name.as_str())
        };
        let offered =
            self.shared.registry.specs().filter(|spec| !policy.hides(&spec.name)).filter(answerable);
        offered.cloned().collect()
    }

    /// A new answer begins: from here on, effects and reads are counted for it.
    pub fn begin_answer(&mut self) {
        *self.shared.gate() = Gate::NoEffectYet;
        self.seen_before = Some(self.shared.files.snapshot());
    }

    /// The process goes on with another session: what the model has seen counts as unseen, and what is kept for it
    /// lies beside its own transcript.
    pub fn enter(&self, session: &SessionId, transcript: Option<PathBuf>) {
        self.shared.undo.enter(session.clone());
        let mut policy = self.shared.policy.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = &mut policy.plan_file {
            plan.set_file_name(format!("{session}.md"));
        }
        if let (Some(artifacts), Some(transcript)) = (&self.shared.artifacts, &transcript) {
            let folder = artifacts.move_beside(transcript);
            policy.readable.push(folder);
        }
        drop(policy);
        self.shared.files.restore(FileState::default());
        if let Some(hooks) = &self.shared.hooks {
            hooks.enter(session.clone(), transcript);
        }
    }

    /// Takes a proposed call. It is judged and run as soon as earlier calls allow.
    pub fn start(&mut self, call: ToolCall) {
        let number = self.next_number;
        self.next_number += 1;
        let worker = Worker {
            shared: Arc::clone(&self.shared),
            ticket: self.shared.schedule.open(number),
            number,
            cancel: self.cancel.child(),
            said: Mutex::default(),
        };
        let span = tracing::info_span!("call", tool = call.name, id = %call.id);
        self.tasks.spawn(worker.process(call).instrument(span));
    }

    /// An id for a question of the caller's own; no call's question has it.
    pub fn new_ask(&self) -> AskId {
        AskId(self.shared.next_ask.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }

    /// Whether a command still runs in the background.
    pub fn has_running_jobs(&self) -> bool {
        self.shared.jobs.list().iter().any(|job| job.state == ostler_proto::JobState::Running)
    }

    /// Calls that have no result yet.
    pub fn open_calls(&self) -> u64 {
        self.next_number - self.next_result
    }

    /// The next report; waits forever when nothing is open. Safe to drop and call again.
    pub async fn next(&mut self) -> ExecEvent {
        loop {
            if let Some(finished) = self.early.remove(&self.next_result) {
                self.next_result += 1;
                while self.tasks.try_join_next().is_some() {}
                return ExecEvent::Finished(finished);
            }
            let (number, event) = tokio::select! {
                biased;
                // A job is told of before the result of the call that started it.
                job = self.shared.jobs.next_change() => return ExecEvent::JobChanged(job),
                told = self.shared.next_told() => return ExecEvent::Told(told),
                // The sender lives in `shared`, so the channel cannot end before we do.
                Some(reported) = self.events.recv() => reported,
            };
            match event {
                // Left over from calls that were abandoned.
                _ if number < self.next_result => {}
                ExecEvent::Finished(finished) => {
                    self.early.insert(number, finished);
                }
                event @ (ExecEvent::Decided { .. }
                | ExecEvent::Hooked { .. }
                | ExecEvent::Told(_)
                | ExecEvent::Started { .. }
                | ExecEvent::Progress { .. }
                | ExecEvent::Asked(_)
                | ExecEvent::AskWithdrawn(_)
                | ExecEvent::ModeChanged(_)
                | ExecEvent::Stopped(_)
                | ExecEvent::JobChanged(_)
                | ExecEvent::Noticed(_)) => return event,
            }
        }
    }

    /// Delivers an answer. An unknown or withdrawn question is ignored.
    pub fn answer(&self, ask: AskId, answer: Answer) {
        if let Some(waiting) = self.shared.asks().remove(&ask) {
            // The call may have been cancelled in this very moment; then nobody needs the answer.
            let _ = waiting.send(answer);
        }
    }

    /// Cancels every open call. Each still gets its result, through [`Self::next`].
    pub fn cancel(&mut self, cause: Cause) {
        self.cancel.cancel(cause);
        self.cancel = Cancellation::default();
    }

    /// Forgets the calls of this answer, if nothing with an effect has begun since
    /// [`Self::begin_answer`]: they are stopped, their results never appear, and what they read
    /// counts as unseen. Otherwise nothing changes and the answer must be kept.
    pub async fn abandon(&mut self) -> Abandoned {
        if !self.shared.gate().close() {
            return Abandoned::EffectBegan;
        }
        self.forget_all().await;
        Abandoned::Yes
    }

    /// Stops every call, whatever it did, and forgets it: for when the session cannot go on.
    pub async fn forget_all(&mut self) {
        self.cancel(Cause::User);
        self.tasks.shutdown().await;
        self.early.clear();
        self.next_result = self.next_number;
        self.shared.asks().clear();
        if let Some(seen) = self.seen_before.take() {
            self.shared.files.restore(seen);
        }
    }

    /// Whether a command in the background ended and the model does not know.
    pub fn has_unheard_jobs(&self) -> bool {
        self.shared.jobs.has_unheard()
    }

    /// The commands that ended and that the model does not know of; it will be told now.
    pub fn take_unheard_jobs(&self) -> Vec<Job> {
        self.shared.jobs.take_unheard()
    }

    /// Stops a command in the background.
    pub fn stop_job(&self, id: &JobId) {
        self.shared.jobs.tell_to_stop(id);
    }

    /// Stops all commands in the background and waits for their end; gives those that still ran. What
    /// [`Self::next`] did not tell yet is given by [`Self::pending_job_change`].
    pub async fn stop_jobs(&self) -> Vec<Job> {
        self.shared.jobs.stop_all().await
    }

    /// A change of a job that has happened already.
    pub fn pending_job_change(&self) -> Option<Job> {
        self.shared.jobs.pending_change()
    }

    /// Tells hooks of an event that is about no call. Nothing when none listens. At the end those that still speak
    /// are let finish, for a while.
    pub fn fire(&self, occasion: &Occasion) -> impl Future<Output = Option<(Fired, HookRecord)>> + use<> {
        let (shared, occasion) = (Arc::clone(&self.shared), occasion.clone());
        async move {
            let fired = shared.fire(&occasion, None).await;
            if let (HookEvent::SessionEnd, Some(hooks)) = (occasion.event, &shared.hooks) {
                hooks.see_off().await;
            }
            fired
        }
    }

    /// The session's hooks.
    pub fn hooks(&self) -> Option<&Arc<SessionHooks>> {
        self.shared.hooks.as_ref()
    }

    /// The permission mode.
    pub fn mode(&self) -> Mode {
        self.shared.policy().mode
    }

    /// Changes the permission mode for calls judged from now on, or says why not.
    pub fn set_mode(&self, mode: Mode) -> Result<(), String> {
        self.shared.policy.write().unwrap_or_else(PoisonError::into_inner).set_mode(mode)
    }

    /// Where the session's plan is kept.
    pub fn plan_file(&self) -> Option<PathBuf> {
        self.shared.policy().plan_file.clone()
    }

    /// Where relative paths start and commands run.
    pub fn cwd(&self) -> PathBuf {
        self.shared.cwd().clone()
    }
}

impl Gate {
    /// Lets an effect begin, unless its answer was dropped.
    fn pass(&mut self) -> bool {
        if matches!(self, Self::Closed) {
            return false;
        }
        *self = Self::EffectBegan;
        true
    }

    /// Drops the answer, unless an effect has begun.
    fn close(&mut self) -> bool {
        if matches!(self, Self::EffectBegan) {
            return false;
        }
        *self = Self::Closed;
        true
    }
}

impl Shared {
    /// Finds out, once, whether commands are confined in this session, and makes a place for their
    /// temporary files.
    async fn settle_sandbox(&self) {
        if self.policy().sandboxing.demand == Demand::Off || self.policy().sandboxing.in_force {
            return;
        }
        let temp = self.sandbox.get_or_init(|| async {
            match self.host.can_confine().await {
                Ok(()) => tempfile::Builder::new().prefix("ostler-").tempdir().ok(),
                Err(why) => {
                    tracing::warn!(why, "commands run unconfined: this machine has no sandbox");
                    None
                }
            }
        });
        if let Some(temp) = temp.await {
            let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
            policy.sandboxing.in_force = true;
            policy.sandboxing.temp = temp.path().canonicalize().ok();
        }
    }

    async fn fire(&self, occasion: &Occasion, call: Option<CallId>) -> Option<(Fired, HookRecord)> {
        let hooks = self.hooks.as_ref().filter(|hooks| hooks.listen_to(occasion.event))?;
        Some(hooks.fire(self.place(), occasion, call).await)
    }

    /// Where the session stands, as hooks are told.
    fn place(&self) -> (PathBuf, Mode) {
        (self.cwd().clone(), self.policy().mode)
    }

    async fn next_told(&self) -> Told {
        match &self.hooks {
            Some(hooks) => hooks.exchange().next().await,
            None => std::future::pending().await,
        }
    }

    /// What tools may look at while they plan.
    fn plan_context(&self) -> PlanContext {
        let (roots, read_policy, plan_file) = {
            let policy = self.policy();
            (policy.roots.clone(), policy.for_searches(), policy.plan_file.clone())
        };
        PlanContext {
            cwd: self.cwd().clone(),
            roots,
            host: Arc::clone(&self.host),
            files: Arc::clone(&self.files),
            read_policy,
            plan_file,
        }
    }

    fn terms(&self, input: &Json, line: Option<&Line>) -> Terms {
        let mut terms = self.policy().terms(input, line);
        // What is set for a command's safety counts more than what hooks left.
        let exported = self.hooks.as_ref().map(|hooks| hooks.exported()).unwrap_or_default();
        terms.env = exported.into_iter().chain(terms.env).collect();
        terms
    }

    fn policy(&self) -> std::sync::RwLockReadGuard<'_, Policy> {
        self.policy.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cwd(&self) -> MutexGuard<'_, PathBuf> {
        self.cwd.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asks(&self) -> MutexGuard<'_, HashMap<AskId, oneshot::Sender<Answer>>> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
