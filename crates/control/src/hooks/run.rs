//! One hook's part in a firing: it is run by what it is, its trouble is made into a word by what
//! the event lets a broken hook say, and its words are cut to what can be passed on.

use super::{
    Around, Late,
    answer::{Answer, Trouble, Word},
    command,
    config::{Handler, Hook},
    exchange::{Exchange, Told},
    export::Exports,
    host, http, prompt,
};
use ostler_proto::{
    CallId, HookEvent, HookNews, Json,
    hook::{HookEnd, HookRun, Power, Spent},
    listener::{HookOutcome, HookOutput, HookRunning, OnFailure},
};
use ostler_tools::Artifacts;
use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// How much of a hook's words is passed on.
const MAX_TEXT: usize = 10_000;

/// A hook with everything it needs to run, wherever it is polled.
pub(super) struct Job {
    pub(super) hook: Arc<Hook>,
    pub(super) around: Arc<Around>,
    pub(super) cwd: PathBuf,
    pub(super) input: Arc<Json>,
    pub(super) text: Arc<str>,
    pub(super) call: Option<CallId>,
    pub(super) about: Option<String>,
    pub(super) limit: Duration,
}

/// What came of it.
pub(super) struct Ran {
    pub(super) run: HookRun,
    pub(super) answer: Answer,
    pub(super) exports: Option<Exports>,
}

/// How a hook ended, whatever kind it is.
pub(super) struct Ended {
    pub(super) end: HookEnd,
    pub(super) result: Result<Answer, Trouble>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) exports: Option<Exports>,
    pub(super) spent: Option<Spent>,
}

/// A run that frontends were told of; they learn of its end even if it is dropped.
struct Shown<'a> {
    exchange: &'a Exchange,
    running: HookRunning,
    output: HookOutput,
}

impl Job {
    /// Runs the hook to its end.
    pub(super) async fn run(self) -> Ran {
        let began = Instant::now();
        let event = self.hook.info.event;
        let mut shown = Shown::new(&self.around.surroundings.exchange, event, self.about.clone());
        let ended = self.handle(event).await;
        shown.output = ended.shown();
        drop(shown);
        let (mut answer, problem) = match ended.result {
            Ok(answer) => (answer, None),
            Err(trouble) => in_trouble(event, self.hook.on_failure, trouble, &self.hook.info.hook),
        };
        shorten_all(&mut answer, self.around.surroundings.artifacts.as_ref()).await;
        let run = HookRun {
            hook: self.hook.info.hook.clone(),
            source: self.hook.info.source.clone(),
            end: ended.end,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            word: answer.word.kind(),
            problem: problem.or_else(|| answer.note.clone()),
            spent: ended.spent,
        };
        if let Some(problem) = &run.problem {
            tracing::warn!(%event, hook = run.hook, source = %run.source, problem, "a hook had a problem");
        }
        Ran { run, answer, exports: ended.exports }
    }

    /// The same for a hook nobody waited for.
    pub(super) async fn run_late(self) -> Late {
        let (wakes, event) = (self.hook.wakes, self.hook.info.event);
        let (call, about) = (self.call.clone(), self.about.clone());
        let Ran { run, answer, .. } = self.run().await;
        let objects = run.end == HookEnd::Exited { code: 2 };
        let reason = match answer.word {
            Word::Block(reason) | Word::Deny(reason) => Some(reason),
            Word::Nothing | Word::Allow(_) | Word::Ask(_) => run.problem.clone(),
        };
        Late {
            event,
            call,
            about,
            run,
            additional_context: answer.context.into_iter().collect(),
            system_messages: answer.system_message.into_iter().collect(),
            wakes: reason.filter(|_| wakes && objects),
        }
    }

    async fn handle(&self, event: HookEvent) -> Ended {
        let around = &self.around.surroundings;
        match &self.hook.handler {
            Handler::Command(program) => {
                let call = command::Call { event, cwd: &self.cwd, input: &self.text, vars: &self.hook.vars };
                command::run(program, &call, around, self.limit).await
            }
            Handler::Http(address) => {
                let limits = &self.around.limits;
                http::run(address, (event, &self.text), (around, limits), self.limit).await.into()
            }
            Handler::Prompt(question) => {
                prompt::run(question, (event, &self.text), around.ask_model.as_ref(), self.limit).await
            }
            Handler::Callback(callback) => {
                let call = host::Call {
                    callback,
                    event,
                    input: Json::clone(&self.input),
                    tool_use_id: self.call.as_ref().map(|call| call.as_str().to_owned()),
                    on_failure: self.hook.on_failure,
                };
                host::run(call, &around.exchange, self.limit).await.into()
            }
            Handler::Unsupported(problem) => (HookEnd::Failed, Err(Trouble::Broken(problem.clone()))).into(),
        }
    }
}

impl From<(HookEnd, Result<Answer, Trouble>)> for Ended {
    fn from((end, result): (HookEnd, Result<Answer, Trouble>)) -> Self {
        Self { end, result, stdout: String::new(), stderr: String::new(), exports: None, spent: None }
    }
}

impl Ended {
    /// What frontends may see of it.
    fn shown(&self) -> HookOutput {
        let start = |text: &str| text[..text.floor_char_boundary(MAX_TEXT)].to_owned();
        let code = match self.end {
            HookEnd::Exited { code } => Some(code),
            HookEnd::Killed { .. }
            | HookEnd::Answered
            | HookEnd::TimedOut
            | HookEnd::Babbled
            | HookEnd::Failed
            | HookEnd::Background
            | HookEnd::Withdrawn => None,
        };
        let outcome = match (&self.end, code) {
            (HookEnd::TimedOut, _) => HookOutcome::Cancelled,
            (_, Some(0)) => HookOutcome::Success,
            (_, None) if self.result.is_ok() => HookOutcome::Success,
            (_, Some(_) | None) => HookOutcome::Error,
        };
        HookOutput { stdout: start(&self.stdout), stderr: start(&self.stderr), code, outcome }
    }
}

impl<'a> Shown<'a> {
    fn new(exchange: &'a Exchange, event: HookEvent, about: Option<String>) -> Self {
        let running = HookRunning { id: exchange.new_id(), event, about };
        exchange.tell(Told::News(HookNews::Started(running.clone())));
        let (stdout, stderr) = (String::new(), String::new());
        let output = HookOutput { stdout, stderr, code: None, outcome: HookOutcome::Cancelled };
        Self { exchange, running, output }
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        let news = HookNews::Ended(self.running.clone(), self.output.clone());
        self.exchange.tell(Told::News(news));
    }
}

/// What a hook in trouble says: a broken gate is closed, other trouble is only noted.
fn in_trouble(
    event: HookEvent,
    on_failure: OnFailure,
    trouble: Trouble,
    hook: &str,
) -> (Answer, Option<String>) {
    // A hook that is broken for good must not keep an agent from ever ending.
    let is_an_end = matches!(
        event,
        HookEvent::Stop | HookEvent::SubagentStop | HookEvent::TaskCompleted | HookEvent::TeammateIdle
    );
    let blocks = on_failure == OnFailure::Block && !is_an_end;
    let (problem, objects) = match trouble {
        Trouble::Broken(problem) => (problem, event.power() == Power::Gate || blocks),
        Trouble::Error(problem) => (problem, blocks),
    };
    let reason = format!("the hook '{hook}' did not answer: {problem}");
    let word = if objects { Word::objection(event, reason) } else { Word::Nothing };
    (Answer { word, ..Answer::default() }, Some(problem))
}

async fn shorten_all(answer: &mut Answer, artifacts: Option<&Artifacts>) {
    let reason = match &mut answer.word {
        Word::Nothing => None,
        Word::Allow(reason) | Word::Ask(reason) | Word::Block(reason) | Word::Deny(reason) => Some(reason),
    };
    let texts = [
        reason,
        answer.context.as_mut(),
        answer.system_message.as_mut(),
        answer.stop.as_mut(),
        answer.note.as_mut(),
        answer.extras.opening.as_mut(),
    ];
    for text in texts.into_iter().flatten() {
        shorten(text, artifacts).await;
    }
}

/// Cuts a text and says where the whole of it is.
async fn shorten(text: &mut String, artifacts: Option<&Artifacts>) {
    let Some((end, _)) = text.char_indices().nth(MAX_TEXT) else { return };
    let left_out = text[end..].chars().count();
    let kept = match artifacts {
        // A disk that takes no more is no reason to lose the start as well.
        Some(artifacts) => artifacts.keep(text.clone()).await.ok(),
        None => None,
    };
    let note = match kept {
        Some(kept) => format!("\n[{left_out} more characters; the whole text is in {}]", kept.path.display()),
        None => format!("\n[{left_out} more characters were left out]"),
    };
    text.truncate(end);
    text.push_str(&note);
}
