//! One call from proposal to result: prepare (check, plan, judge, ask), run, finish.
//! However it goes, exactly one result comes out.

use super::{AfterCall, Attendance, ExecEvent, Finished, Shared, hooked::Said, result, schedule::Ticket};
use crate::{
    examine::examine,
    hooks::CallFacts,
    permission::{Line, Question, decide},
};
use futures_util::FutureExt;
use ostler_proto::{
    Answer, Ask, AskId, Block, CallId, Decision, Intent, Interrupt, Json, Reason, Rule, RuleSource,
    StateChange, Suggestion, ToolCall, ToolError, ToolOutput, ToolResult, Verdict, session::CallState,
};
use ostler_tools::{Effect, Plan, PlanContext, Progress, Registered, RunContext, host::Terms};
use std::{
    any::Any,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Carries one call through.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) ticket: Ticket,
    pub(super) number: u64,
    pub(super) cancel: CancellationToken,
    pub(super) said: Mutex<Said>,
}

/// How a call came out, before it is shaped for the model.
pub(super) struct Outcome {
    pub(super) state: CallState,
    pub(super) content: Vec<Block>,
    pub(super) structured: Json,
    changes: Vec<StateChange>,
    pub(super) ran_for: Duration,
    turn: AfterCall,
}

/// A plan, taken apart into what is judged and what is held back.
struct Proposal {
    subject: Subject,
    effect: Effect,
}

/// What a call would do, and what was read out of its command line.
struct Subject {
    intent: Intent,
    line: Option<Line>,
}

/// Whether hooks have seen the call as it now stands, and what they said.
enum Heard {
    NotYet,
    Word(Option<Verdict>),
}

/// What an answer to a question leads to.
enum Answered {
    Go,
    GoWith(Json),
    Stop(Outcome),
}

impl Worker {
    /// Runs the call to its end and reports it.
    pub(super) async fn process(self, call: ToolCall) {
        let outcome = match self.prepare_and_run(&call).await {
            Ok(outcome) | Err(outcome) => outcome,
        };
        for change in &outcome.changes {
            match change {
                StateChange::Cwd(cwd) => self.shared.cwd().clone_from(cwd),
                StateChange::Todos(_) => {}
            }
        }
        let max = self.shared.registry.find(&call.name).map_or(usize::MAX, |tool| tool.spec().max_result);
        let mut content = result::shape(outcome.content, max, self.shared.artifacts.as_ref()).await;
        let said = self.said.into_inner().unwrap_or_else(PoisonError::into_inner);
        content.extend(said.beside);
        let finished = Finished {
            result: ToolResult {
                id: call.id.clone(),
                content,
                is_error: outcome.state != CallState::Complete,
            },
            structured: outcome.structured,
            state: outcome.state,
            changes: outcome.changes,
            duration_ms: u64::try_from(outcome.ran_for.as_millis()).unwrap_or(u64::MAX),
            turn: match (outcome.turn, said.stop) {
                (AfterCall::GoOn, Some(reason)) => AfterCall::Stop(reason),
                (turn, _) => turn,
            },
            call,
        };
        tracing::debug!(state = ?finished.state, ms = finished.duration_ms, "finished");
        // Later calls may go before the report is read: its order is kept by number.
        drop(self.ticket);
        report(&self.shared, self.number, ExecEvent::Finished(finished)).await;
    }

    async fn prepare_and_run(&self, call: &ToolCall) -> Result<Outcome, Outcome> {
        if let Some(problem) = &call.problem {
            return Err(Outcome::failed(problem.clone()));
        }
        let tool = self.shared.registry.find(&call.name).ok_or_else(|| self.unknown_tool(&call.name))?;
        let mut input = call.input.clone();
        let mut approved = false;
        let mut heard = Heard::NotYet;
        let proposal = loop {
            tool.validate(&input).map_err(Outcome::from)?;
            let proposal = self.plan_in_order(&tool, &input).await?;
            let intent = &proposal.subject.intent;
            let hook = match heard {
                Heard::Word(verdict) => verdict,
                Heard::NotYet => {
                    let facts = CallFacts { tool: &tool.spec().name, input: &input, id: &call.id, intent };
                    let (verdict, changed) = self.hooks_before(facts).await?;
                    if let Some(changed) = changed {
                        // They have seen what they made of it; everybody else has not.
                        (input, approved, heard) = (changed, false, Heard::Word(verdict));
                        continue;
                    }
                    verdict
                }
            };
            heard = Heard::NotYet;
            match self.judge(call, &tool, &input, &proposal.subject, (approved, hook)).await? {
                Answered::Go => break proposal,
                // A changed input is a new proposal: it is checked, planned and judged again.
                Answered::GoWith(changed) => {
                    input = changed;
                    approved = true;
                }
                Answered::Stop(outcome) => return Err(outcome),
            }
        };
        let intent = proposal.subject.intent.clone();
        let outcome = self.run(call, &tool, &input, proposal).await?;
        let facts = CallFacts { tool: &tool.spec().name, input: &input, id: &call.id, intent: &intent };
        Ok(self.hooks_after(facts, outcome).await)
    }

    fn unknown_tool(&self, name: &str) -> Outcome {
        let known: Vec<&str> = self.shared.registry.specs().map(|spec| spec.name.as_str()).collect();
        Outcome::failed(format!("there is no tool named '{name}'; the tools are {}", known.join(", ")))
    }

    /// Plans when the plan can be true: a look at the world is repeated after earlier calls that
    /// may change what it sees.
    async fn plan_in_order(&self, tool: &Registered, input: &Json) -> Result<Proposal, Outcome> {
        self.or_cancelled(self.ticket.wait_for_earlier_plans()).await?;
        loop {
            match self.plan_once(tool, input).await {
                Ok(proposal) => {
                    let access = &proposal.subject.intent.access;
                    self.ticket.claim(access.clone());
                    if !self.ticket.is_blocked(access) {
                        return Ok(proposal);
                    }
                    self.or_cancelled(self.ticket.wait_until_clear(access)).await?;
                }
                Err(_) if self.ticket.follows_an_effect() => {
                    self.or_cancelled(self.ticket.wait_for_earlier_effects()).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn plan_once(&self, tool: &Registered, input: &Json) -> Result<Proposal, ToolError> {
        let (roots, home, read_policy) = {
            let policy = self.shared.policy();
            (policy.roots.clone(), policy.home.clone(), policy.for_searches())
        };
        let cx = PlanContext {
            cwd: self.shared.cwd().clone(),
            roots,
            host: Arc::clone(&self.shared.host),
            files: Arc::clone(&self.shared.files),
            read_policy,
        };
        let Plan { mut intent, effect } = AssertUnwindSafe(tool.plan(input.clone(), &cx))
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| Err(ToolError::Failed(panic_text(&tool.spec().name, panic.as_ref()))))?;
        let line = examine(&mut intent, &home, self.shared.host.as_ref()).await;
        if line.is_some() {
            self.shared.settle_sandbox().await;
        }
        Ok(Proposal { subject: Subject { intent, line }, effect })
    }

    async fn judge(
        &self,
        call: &ToolCall,
        tool: &Registered,
        input: &Json,
        subject: &Subject,
        (approved, hook): (bool, Option<Verdict>),
    ) -> Result<Answered, Outcome> {
        let Subject { intent, line } = subject;
        let question = Question { tool: &tool.spec().name, input, intent, line: line.as_ref() };
        let mut decision = decide(&question, &self.shared.policy(), hook.as_ref());
        if let Decision::Ask { because, .. } = &decision {
            if approved {
                decision = Decision::Allow { because: Reason::User };
            } else if self.shared.attendance == Attendance::Unattended {
                decision =
                    Decision::Deny { tell_model: unattended(intent, because), because: Reason::Unattended };
            }
        }
        tracing::debug!(title = intent.title, ?decision, "decided");
        let decided =
            ExecEvent::Decided { call: call.id.clone(), intent: intent.clone(), decision: decision.clone() };
        self.report(decided).await;
        match decision {
            Decision::Allow { .. } => Ok(Answered::Go),
            Decision::Deny { tell_model, .. } => Ok(Answered::Stop(Outcome::denied(tell_model))),
            Decision::Ask { because, suggestions } => {
                let id = AskId(self.shared.next_ask.fetch_add(1, Ordering::Relaxed));
                let (call, tool) = (call.id.clone(), tool.spec().name.clone());
                let (input, intent) = (input.clone(), intent.clone());
                self.ask(Ask { id, call, tool, input, intent, because, suggestions }).await
            }
        }
    }

    async fn ask(&self, ask: Ask) -> Result<Answered, Outcome> {
        let (tx, rx) = oneshot::channel();
        let (id, call, offered) = (ask.id, ask.call.clone(), ask.suggestions.clone());
        let (intent, title) = (ask.intent.clone(), ask.intent.title.clone());
        self.shared.asks().insert(id, tx);
        self.report(ExecEvent::Asked(ask)).await;
        let Ok(answer) = self.or_cancelled(rx).await else {
            self.shared.asks().remove(&id);
            self.report(ExecEvent::AskWithdrawn(id)).await;
            return Err(Outcome::cancelled());
        };
        // A question that is dropped unanswered is a no.
        let answer = answer.unwrap_or(Answer::Deny { message: String::new(), interrupt: false });
        let decision = match &answer {
            Answer::Allow { .. } | Answer::AllowAlways { .. } => Decision::Allow { because: Reason::User },
            Answer::Deny { message, .. } => {
                Decision::Deny { because: Reason::User, tell_model: refused(&title, message) }
            }
        };
        self.report(ExecEvent::Decided { call, intent, decision }).await;
        Ok(match answer {
            Answer::Allow { input: None } => Answered::Go,
            Answer::Allow { input: Some(input) } => Answered::GoWith(input),
            Answer::AllowAlways { rules, keep } => {
                let granted = self.grant(&rules, &offered);
                if let Err(error) = self.shared.memory.keep(granted, keep).await {
                    tracing::warn!(%error, "a rule holds for this session only");
                }
                Answered::Go
            }
            Answer::Deny { message, interrupt } => {
                let mut outcome = Outcome::denied(refused(&title, &message));
                if interrupt {
                    outcome.turn = AfterCall::Interrupt;
                }
                Answered::Stop(outcome)
            }
        })
    }

    /// Grants exactly what was offered with the question, nothing an answer made up.
    fn grant(&self, rules: &[String], offered: &[Suggestion]) -> Vec<String> {
        let mut policy = self.shared.policy.write().unwrap_or_else(PoisonError::into_inner);
        let mut granted = Vec::new();
        for text in rules {
            let was_offered = offered.iter().any(|suggestion| &suggestion.rule == text);
            match Rule::parse(text, RuleSource::Session) {
                Ok(rule) if was_offered => {
                    policy.rules.allow.push(rule);
                    granted.push(text.clone());
                }
                Ok(_) => tracing::warn!(rule = text, "a rule that was not offered is not added"),
                Err(error) => tracing::warn!(%error, "a rule in an answer cannot be read"),
            }
        }
        granted
    }

    async fn run(
        &self,
        call: &ToolCall,
        tool: &Registered,
        input: &Json,
        proposal: Proposal,
    ) -> Result<Outcome, Outcome> {
        let Proposal { subject: Subject { intent, line }, effect } = proposal;
        let terms = self.shared.terms(input, line.as_ref());
        self.or_cancelled(self.ticket.wait_until_clear(&intent.access)).await?;
        // The semaphore is never closed while the session lives.
        let _slot = self.or_cancelled(self.shared.slots.acquire()).await?;
        let has_effect = intent.access.has_effect();
        let roots = self.shared.policy().roots.clone();
        let watched = if self.cancel.is_cancelled() {
            None
        } else {
            self.shared.undo.before(&call.id, &intent.title, &intent.access, &roots).await
        };
        let name = tool.spec().name.clone();
        self.report(ExecEvent::Started { call: call.id.clone(), tool: name, intent }).await;
        if self.cancel.is_cancelled() || (has_effect && !self.shared.gate().pass()) {
            return Err(Outcome::cancelled());
        }
        let began = Instant::now();
        let mut outcome = self.let_loose(&call.id, tool, effect, terms).await;
        outcome.ran_for = began.elapsed();
        if let Some(watched) = watched {
            watched.finish().await;
        }
        Ok(outcome)
    }

    /// The one place where an effect happens.
    async fn let_loose(&self, call: &CallId, tool: &Registered, effect: Effect, terms: Terms) -> Outcome {
        let (tx, mut shown) = mpsc::channel(64);
        let cx =
            RunContext { call: call.clone(), cancel: self.cancel.clone(), progress: Progress::to(tx), terms };
        let running = AssertUnwindSafe(async move { effect.run(cx).await }).catch_unwind();
        tokio::pin!(running);
        let droppable = tool.spec().interrupt == Interrupt::Cancel;
        let ended = loop {
            tokio::select! {
                biased;
                ended = &mut running => break ended,
                () = self.cancel.cancelled(), if droppable => return Outcome::cancelled_while_running(),
                Some(text) = shown.recv() => {
                    self.report(ExecEvent::Progress { call: call.clone(), text }).await;
                }
            }
        };
        while let Ok(text) = shown.try_recv() {
            self.report(ExecEvent::Progress { call: call.clone(), text }).await;
        }
        match ended {
            Ok(Ok(output)) => Outcome::from(output),
            Ok(Err(error)) => Outcome::from(error),
            Err(panic) => Outcome::failed(panic_text(&tool.spec().name, panic.as_ref())),
        }
    }

    pub(super) async fn or_cancelled<T>(&self, waiting: impl Future<Output = T>) -> Result<T, Outcome> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Outcome::cancelled()),
            done = waiting => Ok(done),
        }
    }

    pub(super) async fn report(&self, event: ExecEvent) {
        report(&self.shared, self.number, event).await;
    }
}

async fn report(shared: &Shared, number: u64, event: ExecEvent) {
    // The receiver goes only with the whole executor; then nobody is left to tell.
    let _ = shared.tx.send((number, event)).await;
}

fn unattended(intent: &Intent, because: &Reason) -> String {
    format!(
        "permission to run '{}' was not granted: {because}, and nobody is there to answer. \
         The user can allow it with --allowedTools or --permission-mode",
        intent.title
    )
}

fn refused(title: &str, message: &str) -> String {
    if message.is_empty() { format!("the user does not want to run '{title}'") } else { message.to_owned() }
}

fn panic_text(tool: &str, panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("{tool} failed because of a bug in it: {}", text.unwrap_or("no message"))
}

impl Outcome {
    fn told(state: CallState, text: String) -> Self {
        Self {
            state,
            structured: Json::String(text.clone()),
            content: vec![Block::Text(text)],
            changes: Vec::new(),
            ran_for: Duration::ZERO,
            turn: AfterCall::GoOn,
        }
    }

    fn failed(text: String) -> Self {
        Self::told(CallState::Failed, text)
    }

    fn denied(text: String) -> Self {
        Self::told(CallState::Denied, text)
    }

    fn cancelled() -> Self {
        Self::told(CallState::Cancelled, "interrupted by the user before it ran".to_owned())
    }

    fn cancelled_while_running() -> Self {
        Self::told(
            CallState::Cancelled,
            "interrupted by the user while it ran; what it had done until then stays done".to_owned(),
        )
    }
}

impl From<ToolError> for Outcome {
    fn from(error: ToolError) -> Self {
        match error {
            ToolError::Failed(text) => Self::failed(text),
            ToolError::Fatal(text) => Self { turn: AfterCall::Fatal(text.clone()), ..Self::failed(text) },
        }
    }
}

impl From<ToolOutput> for Outcome {
    fn from(output: ToolOutput) -> Self {
        Self {
            state: if output.is_error { CallState::Failed } else { CallState::Complete },
            content: output.content,
            structured: output.structured,
            changes: output.changes,
            ran_for: Duration::ZERO,
            turn: AfterCall::GoOn,
        }
    }
}
