//! What hooks have to do with one call: asked before it is judged, told after it ran. A gate that
//! cannot answer has said no already; here its word is only carried to the judge.

use super::{
    ExecEvent,
    call::{Outcome, Worker},
};
use crate::hooks::{CallFacts, Fired, Occasion, occasion::Failure, plain, reminder};
use ostler_proto::{Block, HookEvent, Json, Verdict, session::CallState};
use std::sync::PoisonError;

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

    fn is_heard(&self, event: HookEvent) -> bool {
        self.shared.hooks.as_ref().is_some_and(|hooks| hooks.listen_to(event))
    }

    /// Fires, reports it, and notes what is for the model and the turn.
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
}
