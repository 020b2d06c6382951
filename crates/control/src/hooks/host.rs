//! Hooks of the program that started us: it names callbacks when it connects, and is called back
//! over the control protocol.

use super::{
    answer::{Answer, Trouble, of_json},
    exchange::Exchange,
};
use ostler_proto::{HookEvent, HookReply, Json, hook::HookEnd, listener::OnFailure};
use std::time::Duration;

/// One call of a callback.
pub(super) struct Call<'a> {
    /// The callback, by the name the host gave it.
    pub(super) callback: &'a str,
    /// The event.
    pub(super) event: HookEvent,
    /// The hook's input.
    pub(super) input: Json,
    /// The call of a tool it is about.
    pub(super) tool_use_id: Option<String>,
    /// Whether saying nothing at all is a failure that counts.
    pub(super) on_failure: OnFailure,
}

/// Calls back and reads the answer.
pub(super) async fn run(
    call: Call<'_>,
    exchange: &Exchange,
    limit: Duration,
) -> (HookEnd, Result<Answer, Trouble>) {
    let called = exchange.call_back(call.callback, call.input, call.tool_use_id);
    match tokio::time::timeout(limit, called).await {
        Err(_) => {
            let problem = format!("it took longer than {} s", limit.as_secs_f64());
            (HookEnd::TimedOut, Err(Trouble::Broken(problem)))
        }
        Ok(HookReply::Error(error)) => (HookEnd::Failed, Err(Trouble::Error(error))),
        Ok(HookReply::Unreachable(problem)) => (HookEnd::Failed, Err(Trouble::Broken(problem))),
        // A guard that forgets to answer has not agreed; elsewhere silence is nothing to say.
        Ok(HookReply::Output(Json::Null)) => match call.on_failure {
            OnFailure::Block => (HookEnd::Answered, Err(Trouble::Error("it returned nothing".to_owned()))),
            OnFailure::Continue => (HookEnd::Answered, Ok(Answer::default())),
        },
        Ok(HookReply::Output(output)) => (HookEnd::Answered, of_json(call.event, &output)),
    }
}
