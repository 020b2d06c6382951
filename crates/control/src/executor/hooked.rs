//! What hooks have to do with one call: asked before it is judged and where it would ask, told when it is
//! denied and after it ran. A gate that cannot answer has said no already; here its word is only carried on.

use super::{
    Attendance, ExecEvent,
    call::{Outcome, Worker},
};
use crate::{
    hooks::{CallFacts, Fired, Occasion, occasion::Failure, plain, reminder},
    permission::{Author, Question, decide},
};
use ostler_proto::{
    Answer, Ask, Block, Decision, HookEvent, Json, Reason, StateChange, Verdict, session::CallState,
};
use std::{
    path::PathBuf,
    sync::{
        PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::oneshot;

/// What the model reads where a hook thinks better of a denial.
const RETRY: &str = "A hook that was told of this denial says that the call may be tried again.";

/// What hooks said about a call that is not for the judge.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// For the model, beside the result.
    pub(super) beside: Vec<Block>,
    /// Why the run must stop.
    pub(super) stop: Option<String>,
}

impl Worker {
    /// Asks the hooks about a call as it is proposed: their verdict, and another input if they want one.
    pub(super) async fn hooks_before(
        &self,
        call: CallFacts<'_>,
    ) -> Result<(Option<Verdict>, Option<Json>), Outcome> {
        if !self.is_heard(HookEvent::PreToolUse) {
            return Ok((None, None));
        }
        let occasion = Occasion::pre_tool_use(call);
        let fired = self.or_cancelled(self.fire(&occasion, call)).await?;
        Ok(fired.map(|fired| (fired.verdict, fired.updated_input)).unwrap_or_default())
    }

    /// Puts a question to whoever can answer: the user or host, and the hooks at the same time. The first
    /// word counts and the other side is told that none is needed; nothing if there is nobody.
    pub(super) async fn settle(
        &self,
        ask: &Ask,
        question: &Question<'_>,
        attendance: Attendance,
    ) -> Result<Option<(Answer, Reason)>, Outcome> {
        if attendance == Attendance::Unattended {
            return self.or_cancelled(self.hooks_on_request(ask, question)).await;
        }
        let (tx, answer) = oneshot::channel();
        self.shared.asks().insert(ask.id, tx);
        self.report(ExecEvent::Asked(ask.clone())).await;
        self.notify(ask);
        let settled = self.or_cancelled(self.first_word(ask, question, answer)).await;
        if self.shared.asks().remove(&ask.id).is_some() {
            self.report(ExecEvent::AskWithdrawn(ask.id)).await;
        }
        settled.map(Some)
    }

    /// The user's answer, or a decision of hooks if it comes before.
    async fn first_word(
        &self,
        ask: &Ask,
        question: &Question<'_>,
        answer: oneshot::Receiver<Answer>,
    ) -> (Answer, Reason) {
        let are_heard = AtomicBool::new(false);
        let hooks = async {
            let decided = self.hooks_on_request(ask, question).await;
            are_heard.store(true, Ordering::Relaxed);
            match decided {
                Some(decided) => decided,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            answer = answer => {
                if !are_heard.load(Ordering::Relaxed) {
                    self.note_outrun(ask).await;
                }
                // A question that is dropped unanswered is a no.
                let none = Answer::Deny { message: String::new(), interrupt: false };
                (answer.unwrap_or(none), Reason::User)
            }
            decided = hooks => decided,
        }
    }

    /// What hooks decide about a question. Their yes answers it unless only the user's would.
    async fn hooks_on_request(&self, ask: &Ask, question: &Question<'_>) -> Option<(Answer, Reason)> {
        if !self.is_heard(HookEvent::PermissionRequest) {
            return None;
        }
        let facts = facts(ask);
        let occasion = Occasion::permission_request(facts, ask.offers());
        let fired = self.fire(&occasion, facts).await?;
        let because = |hook: &str, text: &str| Reason::Hook { name: hook.to_owned(), text: text.to_owned() };
        let author = if fired.updated_input.is_some() { Author::Hook } else { question.author };
        let asked = Question { author, ..*question };
        match &fired.verdict {
            Some(Verdict::Deny { hook, reason }) => {
                let message = if reason.is_empty() {
                    format!("a hook does not let '{}' run", ask.intent.title)
                } else {
                    plain(reason)
                };
                Some((Answer::Deny { message, interrupt: fired.interrupt }, because(hook, reason)))
            }
            Some(Verdict::Allow { hook, reason }) if self.may_be_answered_by_hooks(&asked) => {
                self.update_permissions(&fired.updated_permissions, &ask.suggestions).await;
                let input = fired.updated_input.clone().filter(|input| *input != ask.input);
                Some((Answer::Allow { input }, because(hook, reason)))
            }
            Some(Verdict::Allow { .. } | Verdict::Ask { .. }) | None => None,
        }
    }

    /// Whether a hook's yes is enough. What decides about tools themselves only the user can wave through;
    /// an ask rule wants somebody to look, and a hook that was set up for it is somebody.
    pub(super) fn may_be_answered_by_hooks(&self, question: &Question<'_>) -> bool {
        let mut policy = self.shared.policy().clone();
        policy.rules.ask.clear();
        let yes = Verdict::Allow { hook: String::new(), reason: String::new() };
        matches!(decide(question, &policy, Some(&yes)), Decision::Allow { .. })
    }

    /// The log learns which hooks were asked although somebody else was faster.
    async fn note_outrun(&self, ask: &Ask) {
        let Some(hooks) = self.shared.hooks.as_ref().filter(|_| self.is_heard(HookEvent::PermissionRequest))
        else {
            return;
        };
        let occasion = Occasion::permission_request(facts(ask), Vec::new());
        let record = hooks.current().outrun(&occasion, ask.call.clone());
        self.report(ExecEvent::Hooked { record, messages: Vec::new() }).await;
    }

    /// Tells hooks that somebody is needed. Nobody waits for them.
    fn notify(&self, ask: &Ask) {
        let message = format!("Ostler needs your permission to use {}", ask.tool);
        let at = self.shared.place();
        if let Some(hooks) = &self.shared.hooks {
            hooks.fire_aside(at, Occasion::notification("permission_prompt", &message));
        }
    }

    /// Tells hooks that a call was denied.
    pub(super) async fn hooks_on_denial(&self, call: CallFacts<'_>, because: &Reason) -> Result<(), Outcome> {
        if self.is_heard(HookEvent::PermissionDenied) {
            let occasion = Occasion::permission_denied(call, &because.to_string());
            let fired = self.or_cancelled(self.fire(&occasion, call)).await?;
            if fired.is_some_and(|fired| fired.extras.retry) {
                let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
                said.beside.push(Block::text(reminder(RETRY)));
            }
        }
        Ok(())
    }

    /// Tells the hooks what became of a call. After an interrupt nobody waits for them.
    pub(super) async fn hooks_after(&self, call: CallFacts<'_>, mut outcome: Outcome) -> Outcome {
        let event = match outcome.state {
            CallState::Complete => HookEvent::PostToolUse,
            CallState::Failed => HookEvent::PostToolUseFailure,
            CallState::Denied | CallState::Cancelled | CallState::Unknown => return outcome,
        };
        if !self.is_heard(event) {
            return outcome;
        }
        let duration_ms = u64::try_from(outcome.ran_for.as_millis()).unwrap_or(u64::MAX);
        let occasion = if event == HookEvent::PostToolUse {
            Occasion::post_tool_use(call, outcome.structured.clone(), duration_ms)
        } else {
            let texts: Vec<&str> = outcome.content.iter().filter_map(Block::as_text).collect();
            let failure = Failure { is_interrupt: false, duration_ms };
            Occasion::post_tool_use_failure(call, &texts.join("\n"), failure)
        };
        let Ok(Some(fired)) = self.or_cancelled(self.fire(&occasion, call)).await else { return outcome };
        if let Some(replaced) = fired.replaced_result {
            let text = replaced.as_str().map_or_else(|| replaced.to_string(), str::to_owned);
            outcome.content = vec![Block::text(plain(&text))];
            outcome.structured = replaced;
        }
        outcome
    }

    /// Moves the session where a call left it, and tells hooks of it before later calls run there.
    pub(super) async fn move_on(&self, changes: &[StateChange]) {
        for change in changes {
            match change {
                StateChange::Cwd(cwd) => {
                    let old: PathBuf = std::mem::replace(&mut *self.shared.cwd(), cwd.clone());
                    if old != *cwd && self.is_heard(HookEvent::CwdChanged) {
                        let occasion = Occasion::cwd_changed(&old, cwd);
                        // After an interrupt nobody waits for them.
                        let _ = self.or_cancelled(self.tell(&occasion)).await;
                    }
                }
                StateChange::Todos(_) => {}
            }
        }
    }

    fn is_heard(&self, event: HookEvent) -> bool {
        self.shared.hooks.as_ref().is_some_and(|hooks| hooks.listen_to(event))
    }

    /// Fires about a call, reports it, and notes what is for the model and the turn.
    async fn fire(&self, occasion: &Occasion, call: CallFacts<'_>) -> Option<Fired> {
        let (mut fired, record) = self.shared.fire(occasion, Some(call.id.clone())).await?;
        let messages = std::mem::take(&mut fired.system_messages);
        self.report(ExecEvent::Hooked { record, messages }).await;
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let feedback = fired.block.take().map(|text| format!("{} hook: {}", occasion.event, plain(&text)));
        said.beside.extend(feedback.map(Block::text));
        said.beside.extend(fired.additional_context.drain(..).map(|text| Block::text(reminder(&text))));
        said.stop = said.stop.take().or_else(|| fired.stop.take());
        drop(said);
        Some(fired)
    }

    /// Fires about what is no call, and reports it.
    async fn tell(&self, occasion: &Occasion) {
        if let Some((fired, record)) = self.shared.fire(occasion, None).await {
            self.report(ExecEvent::Hooked { record, messages: fired.system_messages }).await;
            let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            said.stop = said.stop.take().or(fired.stop);
        }
    }
}

fn facts(ask: &Ask) -> CallFacts<'_> {
    CallFacts { tool: &ask.tool, input: &ask.input, id: &ask.call, intent: &ask.intent }
}
