//! One call from proposal to result: prepare (check, plan, judge, ask), run, finish.
//! However it goes, exactly one result comes out.

use super::{
    AfterCall, Attendance, ExecEvent, Finished, Shared, cancel::Cancellation, hooked::Said, result,
    schedule::Ticket, undo::Watched,
};
use crate::{
    examine::examine,
    hooks::CallFacts,
    permission::{Author, Line, Question, decide},
};
use futures_util::FutureExt;
use ostler_proto::{
    Access, Addressee, Answer, Ask, AskId, Block, CallId, Decision, Intent, Interrupt, Json, Mode, Reason,
    Rule, RuleSource, StateChange, Suggestion, ToolCall, ToolError, ToolOutput, ToolResult, Verdict,
    session::CallState,
};
use ostler_tools::{Artifacts, Effect, Plan, Progress, Registered, RunContext, host::Terms};
use std::{
    any::Any,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// Carries one call through.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) ticket: Ticket,
    pub(super) number: u64,
    pub(super) cancel: Cancellation,
    pub(super) said: Mutex<Said>,
}

/// How a call came out, before it is shaped for the model.
pub(super) struct Outcome {
    pub(super) state: CallState,
    pub(super) content: Vec<Block>,
    pub(super) structured: Json,
    changes: Vec<StateChange>,
    changed_files: bool,
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
/// Who has had a say about an input so far.
struct Standing {
    author: Author,
    /// Whose yes it already has.
    approved: Option<Reason>,
    /// What hooks said before the judge.
    hook: Option<Verdict>,
}

enum Answered {
    Go,
    /// Another input, and who wants it.
    GoWith(Json, Reason),
    Stop(Outcome),
}

impl Worker {
    /// Runs the call to its end and reports it.
    pub(super) async fn process(self, call: ToolCall) {
        let outcome = match self.prepare_and_run(&call).await {
            Ok(outcome) | Err(outcome) => outcome,
        };
        self.move_on(&outcome.changes).await;
        let max = self.shared.registry.find(&call.name).map_or(usize::MAX, |tool| tool.spec().max_result);
        let mut content = result::shape(outcome.content, max, self.shared.artifacts.as_ref()).await;
        let about_artifacts = self.shared.artifacts.as_ref().and_then(Artifacts::news);
        let about_room =
            if outcome.state == CallState::Failed { result::want_of_room(&content) } else { None };
        for news in about_artifacts.into_iter().chain(about_room) {
            self.report(ExecEvent::Noticed(news)).await;
        }
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
            changed_files: outcome.changed_files,
            duration_ms: u64::try_from(outcome.ran_for.as_millis()).unwrap_or(u64::MAX),
            turn: outcome.turn,
            call,
        };
        tracing::debug!(state = ?finished.state, ms = finished.duration_ms, "finished");
        // Later calls may go before the report is read: its order is kept by number.
        drop(self.ticket);
        if let Some(reason) = said.stop {
            // Results come in order; what stops the run waits for nobody.
            report(&self.shared, self.number, ExecEvent::Stopped(reason)).await;
        }
        report(&self.shared, self.number, ExecEvent::Finished(finished)).await;
    }

    async fn prepare_and_run(&self, call: &ToolCall) -> Result<Outcome, Outcome> {
        if let Some(problem) = &call.problem {
            return Err(Outcome::failed(problem.clone()));
        }
        let tool = self.shared.registry.find(&call.name).ok_or_else(|| self.unknown_tool(&call.name))?;
        let mut input = as_proposed(&tool, &call.input);
        let mut author = Author::Model;
        let mut approved = None;
        let mut heard = Heard::NotYet;
        let proposal = loop {
            tool.validate(&input).map_err(Outcome::from)?;
            let proposal = self.plan_in_order(&tool, &input).await?;
            let intent = &proposal.subject.intent;
            if let Access::Consult(matter) = &intent.access {
                input = matter.completed(&input);
                if let Some(text) = self.out_of_place(matter).filter(|_| author == Author::Model) {
                    return Err(Outcome::failed(text));
                }
            }
            let hook = match heard {
                Heard::Word(verdict) => verdict,
                Heard::NotYet => {
                    let facts = CallFacts { tool: &tool.spec().name, input: &input, id: &call.id, intent };
                    let (verdict, changed) = self.hooks_before(facts).await?;
                    if let Some(changed) = changed {
                        // They have seen what they made of it; everybody else has not.
                        (input, author, heard) = (changed, Author::Hook, Heard::Word(verdict));
                        approved = None;
                        continue;
                    }
                    verdict
                }
            };
            heard = Heard::NotYet;
            let heard_so_far = Standing { author, approved: approved.take(), hook };
            match self.judge(call, &tool, &input, &proposal.subject, heard_so_far).await? {
                Answered::Go => break proposal,
                // A changed input is a new proposal: it is checked, planned and judged again.
                Answered::GoWith(changed, because) => {
                    author = if because == Reason::User { Author::User } else { Author::Hook };
                    (input, approved) = (changed, Some(because));
                }
                Answered::Stop(outcome) => return Err(outcome),
            }
        };
        let intent = proposal.subject.intent.clone();
        let outcome = self.run(call, &tool, &input, proposal).await?;
        if let (Access::Consult(matter), CallState::Complete) = (&intent.access, outcome.state) {
            self.settled(matter).await;
        }
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
            // Asked before the look: an earlier call that ends during it may be what it missed.
            let follows = self.ticket.follows_any();
            match self.plan_once(tool, input).await {
                Ok(proposal) => {
                    let access = &proposal.subject.intent.access;
                    self.ticket.claim(access.clone());
                    if !self.ticket.is_blocked(access) {
                        return Ok(proposal);
                    }
                    self.or_cancelled(self.ticket.wait_until_clear(access)).await?;
                }
                // A read counts too: an edit behind it may be of what it shows.
                Err(_) if follows => {
                    self.or_cancelled(self.ticket.wait_for_earlier_calls()).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn plan_once(&self, tool: &Registered, input: &Json) -> Result<Proposal, ToolError> {
        let home = self.shared.policy().home.clone();
        let cx = self.shared.plan_context();
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
        Standing { author, approved, hook }: Standing,
    ) -> Result<Answered, Outcome> {
        let Subject { intent, line } = subject;
        let question = Question { tool: &tool.spec().name, input, intent, line: line.as_ref(), author };
        let mut decision = decide(&question, &self.shared.policy(), hook.as_ref());
        if let (Decision::Ask { .. }, Some(because)) = (&decision, approved)
            && (because == Reason::User || self.may_be_answered_by_hooks(&question))
        {
            decision = Decision::Allow { because };
        }
        tracing::debug!(title = intent.title, ?decision, "decided");
        let facts = CallFacts { tool: &tool.spec().name, input, id: &call.id, intent };
        match decision {
            Decision::Ask { because, suggestions, to } => {
                let id = AskId(self.shared.next_ask.fetch_add(1, Ordering::Relaxed));
                let (call, tool) = (call.id.clone(), tool.spec().name.clone());
                let (input, intent) = (input.clone(), intent.clone());
                self.ask(Ask { id, call, tool, input, intent, because, suggestions }, &question, to).await
            }
            Decision::Deny { because, tell_model } => {
                self.decided(facts, Decision::Deny { because, tell_model: tell_model.clone() }).await?;
                Ok(Answered::Stop(Outcome::denied(tell_model)))
            }
            Decision::Allow { because } => {
                self.decided(facts, Decision::Allow { because }).await?;
                Ok(Answered::Go)
            }
        }
    }

    /// Reports a decision; hooks learn of a denial.
    async fn decided(&self, call: CallFacts<'_>, decision: Decision) -> Result<(), Outcome> {
        let (id, intent) = (call.id.clone(), call.intent.clone());
        self.report(ExecEvent::Decided { call: id, intent, decision: decision.clone() }).await;
        match decision {
            Decision::Deny { because, .. } => self.hooks_on_denial(call, &because).await,
            Decision::Allow { .. } | Decision::Ask { .. } => Ok(()),
        }
    }

    async fn ask(&self, ask: Ask, question: &Question<'_>, to: Addressee) -> Result<Answered, Outcome> {
        let facts = CallFacts { tool: &ask.tool, input: &ask.input, id: &ask.call, intent: &ask.intent };
        // Whoever is above answers, or finds somebody who does.
        let attendance = match to {
            Addressee::User => self.shared.attendance,
            Addressee::Parent => Attendance::Attended,
        };
        if attendance == Attendance::Attended {
            let (because, suggestions) = (ask.because.clone(), ask.suggestions.clone());
            self.decided(facts, Decision::Ask { because, suggestions, to }).await?;
        }
        let Some((answer, because)) = self.settle(&ask, question, attendance).await? else {
            let tell_model = unattended(&ask);
            let because = Reason::Unattended;
            self.decided(facts, Decision::Deny { because, tell_model: tell_model.clone() }).await?;
            return Ok(Answered::Stop(Outcome::denied(tell_model)));
        };
        let (offered, title) = (&ask.suggestions, &ask.intent.title);
        let decision = match &answer {
            Answer::Allow { .. } | Answer::AllowAlways { .. } | Answer::AllowWith { .. } => {
                Decision::Allow { because: because.clone() }
            }
            Answer::Deny { message, .. } => {
                Decision::Deny { because: because.clone(), tell_model: refused(title, message) }
            }
        };
        self.decided(facts, decision).await?;
        Ok(match answer {
            Answer::Allow { input: None } => Answered::Go,
            Answer::Allow { input: Some(input) } => Answered::GoWith(input, because),
            Answer::AllowAlways { rules, keep } => {
                let granted = self.grant(&rules, offered);
                if let Err(error) = self.shared.memory.keep(granted, keep).await {
                    tracing::warn!(%error, "a rule holds for this session only");
                }
                Answered::Go
            }
            Answer::AllowWith { input, updates } => {
                self.update(updates).await;
                input.map_or(Answered::Go, |input| Answered::GoWith(input, because))
            }
            Answer::Deny { message, interrupt } => {
                let mut outcome = Outcome::denied(refused(title, &message));
                if interrupt {
                    outcome.turn = AfterCall::Interrupt;
                }
                Answered::Stop(outcome)
            }
        })
    }

    /// Grants exactly what was offered with the question, nothing an answer made up.
    pub(super) fn grant(&self, rules: &[String], offered: &[Suggestion]) -> Vec<String> {
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
        let is_write = matches!(intent.access, Access::Write { .. });
        let roots = self.shared.policy().roots.clone();
        let watched = if self.cancel.is_cancelled() {
            None
        } else {
            // Who does not want to wait for it need not.
            let taken = self.shared.undo.before(&call.id, &intent.title, &intent.access, &roots);
            match self.or_cancelled(taken).await? {
                Ok(watched) => watched,
                Err(why) => {
                    self.report(ExecEvent::Noticed(format!("{}: {why}", intent.title))).await;
                    return Err(Outcome::failed(why));
                }
            }
        };
        let terms = Terms { hold: watched.as_ref().and_then(Watched::hold), ..terms };
        let name = tool.spec().name.clone();
        self.report(ExecEvent::Started { call: call.id.clone(), tool: name, intent }).await;
        if self.cancel.is_cancelled() || (has_effect && !self.shared.gate().pass()) {
            return Err(Outcome::cancelled(&self.cancel));
        }
        let began = Instant::now();
        let mut outcome = self.let_loose(&call.id, tool, effect, terms).await;
        outcome.ran_for = began.elapsed();
        let seen = match watched {
            Some(watched) => {
                let finished = self.shared.undo.finish(watched).await;
                for text in finished.left_out {
                    self.report(ExecEvent::Noticed(text)).await;
                }
                finished.changed
            }
            None => None,
        };
        // Where nobody looked: a file tool that succeeded has written.
        outcome.changed_files = seen.unwrap_or(is_write && outcome.state == CallState::Complete);
        Ok(outcome)
    }

    /// The one place where an effect happens.
    async fn let_loose(&self, call: &CallId, tool: &Registered, effect: Effect, terms: Terms) -> Outcome {
        let (tx, mut shown) = mpsc::channel(64);
        let cx =
            RunContext { call: call.clone(), cancel: self.cancel.token(), progress: Progress::to(tx), terms };
        let running = AssertUnwindSafe(async move { effect.run(cx).await }).catch_unwind();
        tokio::pin!(running);
        let droppable = tool.spec().interrupt == Interrupt::Cancel;
        let ended = loop {
            tokio::select! {
                biased;
                ended = &mut running => break ended,
                () = self.cancel.cancelled(), if droppable => return Outcome::cancelled_while_running(&self.cancel),
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
            () = self.cancel.cancelled() => Err(Outcome::cancelled(&self.cancel)),
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

/// What the model proposes. Answers of the user are the user's to give: none of its own are taken.
fn as_proposed(tool: &Registered, input: &Json) -> Json {
    let mut input = input.clone();
    if let Some(fields) = input.as_object_mut().filter(|_| tool.spec().name == "AskUserQuestion") {
        fields.shift_remove("answers");
        fields.shift_remove("annotations");
    }
    input
}

fn unattended(ask: &Ask) -> String {
    let Ask { intent, because, suggestions, .. } = ask;
    let by_mode = matches!(because, Reason::Mode { mode } if *mode != Mode::Plan);
    // What is not offered to be remembered may be what asks whatever the rules say.
    let way_out = if by_mode || !suggestions.is_empty() {
        "The user can allow it with --allowedTools or --permission-mode"
    } else {
        "Somebody who is asked can allow it: in a terminal, or through a host program"
    };
    format!(
        "permission to run '{}' was not granted: {because}, and nobody is there to answer. {way_out}",
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
            changed_files: false,
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

    fn cancelled(by: &Cancellation) -> Self {
        Self::told(CallState::Cancelled, format!("{} before it ran", by.words()))
    }

    fn cancelled_while_running(by: &Cancellation) -> Self {
        let words = by.words();
        Self::told(
            CallState::Cancelled,
            format!("{words} while it ran; what it had done until then stays done"),
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
            changed_files: false,
            ran_for: Duration::ZERO,
            turn: AfterCall::GoOn,
        }
    }
}
