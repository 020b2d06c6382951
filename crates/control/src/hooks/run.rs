//! One hook's part in a firing: it is run by what it is, its trouble is made into a word by what
//! the event lets a broken hook say, and its words are cut to what can be passed on.

use super::{
    Around, Late,
    answer::{Answer, Trouble, Word},
    command,
    config::{Handler, Hook},
    host::{self, CallbackRequest, OnFailure},
    http, prompt,
};
use ostler_proto::{
    CallId, HookEvent, Json,
    hook::{HookEnd, HookRun, Power},
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
    pub(super) limit: Duration,
}

/// What came of it.
pub(super) struct Ran {
    pub(super) run: HookRun,
    pub(super) answer: Answer,
}

impl Job {
    /// Runs the hook to its end.
    pub(super) async fn run(self) -> Ran {
        let began = Instant::now();
        let event = self.hook.info.event;
        let (end, result) = self.handle(event).await;
        let (mut answer, problem) = match result {
            Ok(answer) => (answer, None),
            Err(trouble) => in_trouble(event, self.hook.on_failure, trouble, &self.hook.info.hook),
        };
        shorten_all(&mut answer, self.around.surroundings.artifacts.as_ref()).await;
        let run = HookRun {
            hook: self.hook.info.hook.clone(),
            source: self.hook.info.source.clone(),
            end,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            word: answer.word.kind(),
            problem: problem.or_else(|| answer.note.clone()),
        };
        if let Some(problem) = &run.problem {
            tracing::warn!(%event, hook = run.hook, source = %run.source, problem, "a hook had a problem");
        }
        Ran { run, answer }
    }

    /// The same for a hook nobody waited for.
    pub(super) async fn run_late(self) -> Late {
        let wakes = self.hook.wakes;
        let Ran { run, answer } = self.run().await;
        let objects = run.end == HookEnd::Exited { code: 2 };
        let reason = match answer.word {
            Word::Block(reason) | Word::Deny(reason) => Some(reason),
            Word::Nothing | Word::Allow(_) | Word::Ask(_) => run.problem.clone(),
        };
        Late {
            run,
            additional_context: answer.context.into_iter().collect(),
            system_messages: answer.system_message.into_iter().collect(),
            wakes: reason.filter(|_| wakes && objects),
        }
    }

    async fn handle(&self, event: HookEvent) -> (HookEnd, Result<Answer, Trouble>) {
        let around = &self.around.surroundings;
        match &self.hook.handler {
            Handler::Command(program) => {
                let call = command::Call { event, cwd: &self.cwd, input: &self.text, vars: &self.hook.vars };
                command::run(program, &call, around, self.limit).await
            }
            Handler::Http(address) => {
                http::run(address, (event, &self.text), (around, &self.around.limits), self.limit).await
            }
            Handler::Prompt(question) => {
                prompt::run(question, (event, &self.text), around.ask_model.as_ref(), self.limit).await
            }
            Handler::Callback(id, callback) => {
                let request = CallbackRequest {
                    callback_id: id.clone(),
                    input: Json::clone(&self.input),
                    tool_use_id: self.call.as_ref().map(|call| call.as_str().to_owned()),
                };
                host::run(callback, request, event, self.limit).await
            }
            Handler::Unsupported(problem) => (HookEnd::Failed, Err(Trouble::Broken(problem.clone()))),
        }
    }
}

/// What a hook in trouble says: a broken gate is closed, other trouble is only noted.
fn in_trouble(
    event: HookEvent,
    on_failure: OnFailure,
    trouble: Trouble,
    hook: &str,
) -> (Answer, Option<String>) {
    let (problem, objects) = match trouble {
        Trouble::Broken(problem) => (problem, event.power() == Power::Gate || on_failure == OnFailure::Block),
        Trouble::Error(problem) => (problem, on_failure == OnFailure::Block),
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
