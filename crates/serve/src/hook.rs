//! A host's callbacks as hooks: how `initialize` names them, how they are called and how it answers. Holds the
//! calls that are open, so that each gets one answer, even when the host goes.

use crate::cap;
use ostler_proto::{
    Command, HookCall, HookEvent, HookId, HookReply, HostHook, Json,
    listener::{HookOutput, HookRunning, OnFailure},
};
use serde::Deserialize;
use serde_json::json;
use std::{collections::BTreeMap, time::Duration};

/// The longest a callback may be given.
const MAX_TIMEOUT: Duration = Duration::from_hours(24);

/// What `initialize` says about hooks.
#[derive(Debug, PartialEq)]
pub(crate) struct Lent {
    /// The callbacks.
    pub(crate) hooks: Vec<HostHook>,
    /// Events of a newer host, which nobody here knows.
    pub(crate) unknown: Vec<String>,
}

/// Calls of callbacks that have no answer yet.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: Vec<HookId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    matcher: Option<String>,
    #[serde(default)]
    hook_callback_ids: Vec<String>,
    timeout: Option<f64>,
    on_failure: Option<Json>,
}

/// Reads the `hooks` of an `initialize` request; `null` is none.
pub(crate) fn read(hooks: &Json) -> Result<Lent, String> {
    let groups = Option::<BTreeMap<String, Option<Vec<Group>>>>::deserialize(hooks)
        .map_err(|error| format!("hooks cannot be read: {error}"))?;
    let mut lent = Lent { hooks: Vec::new(), unknown: Vec::new() };
    for (name, groups) in groups.unwrap_or_default() {
        let Ok(event) = name.parse::<HookEvent>() else {
            lent.unknown.push(name);
            continue;
        };
        for group in groups.into_iter().flatten() {
            let timeout = group.timeout.map(seconds).transpose();
            let timeout = timeout.map_err(|problem| format!("hooks.{event}: timeout {problem}"))?;
            let matcher = group.matcher.unwrap_or_default();
            // Whoever wants something else than to go on wants to be safe.
            let on_failure = match group.on_failure.as_ref().map(Json::as_str) {
                None | Some(Some("continue")) => OnFailure::Continue,
                Some(_) => OnFailure::Block,
            };
            lent.hooks.extend(group.hook_callback_ids.into_iter().map(|callback| HostHook {
                event,
                matcher: matcher.clone(),
                callback,
                timeout,
                on_failure,
            }));
        }
    }
    Ok(lent)
}

fn seconds(number: f64) -> Result<Duration, String> {
    let duration = Duration::try_from_secs_f64(number).ok().filter(|duration| !duration.is_zero());
    let duration = duration.ok_or_else(|| format!("must be a number of seconds above 0, not {number}"))?;
    Ok(duration.min(MAX_TIMEOUT))
}

impl Calls {
    /// The request that calls a callback, or the answer to give in its place.
    pub(crate) fn call(&mut self, call: &HookCall) -> Result<Json, Command> {
        let request = json!({
            "subtype": "hook_callback", "callback_id": call.callback, "input": call.input,
            "tool_use_id": call.tool_use_id,
        });
        let frame = json!({"type": "control_request", "request_id": call.id.to_string(), "request": request});
        // A guard that sees half an input would approve half an input.
        if cap::whole_line(&frame).is_none() {
            return Err(unreachable(call.id, "the input is too large to be shown to the host"));
        }
        self.open.push(call.id);
        Ok(frame)
    }

    /// The host answered a request of ours, if it is one of these.
    pub(crate) fn answered(&mut self, id: &str, response: &Result<Json, String>) -> Option<Command> {
        let place = self.open.iter().position(|open| open.to_string() == id)?;
        let id = self.open.remove(place);
        let reply = match response {
            Ok(output) => HookReply::Output(output.clone()),
            Err(error) => HookReply::Error(error.clone()),
        };
        Some(Command::AnswerHook { id, reply })
    }

    /// An answer is no longer needed; whether the host must be told.
    pub(crate) fn withdrawn(&mut self, id: HookId) -> bool {
        let before = self.open.len();
        self.open.retain(|open| *open != id);
        self.open.len() < before
    }

    /// The host is gone.
    pub(crate) fn closed(&mut self) -> Vec<Command> {
        self.open.drain(..).map(gone).collect()
    }
}

/// The answer for a host that is gone.
pub(crate) fn gone(id: HookId) -> Command {
    unreachable(id, "Stream closed")
}

fn unreachable(id: HookId, why: &str) -> Command {
    Command::AnswerHook { id, reply: HookReply::Unreachable(why.to_owned()) }
}

/// The fields of a frame about a hook that begins to run.
pub(crate) fn started(running: &HookRunning) -> Json {
    json!({"hook_id": running.id.to_string(), "hook_name": running.name(), "hook_event": running.event})
}

/// The fields of a frame about a hook that has run.
pub(crate) fn ended(running: &HookRunning, output: &HookOutput) -> Json {
    let mut fields = started(running);
    let shown = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
    fields["output"] = json!(shown);
    fields["stdout"] = json!(output.stdout);
    fields["stderr"] = json!(output.stderr);
    if let Some(code) = output.code {
        fields["exit_code"] = json!(code);
    }
    fields["outcome"] = json!(output.outcome);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_are_read_as_hosts_send_them() {
        let lent = read(&json!({
            "PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["hook_0", "hook_1"], "timeout": 5, "onFailure": "block"}],
            "Stop": [{"matcher": null, "hookCallbackIds": ["hook_2"], "onFailure": null}],
            "PreModelSwitch": [{"hookCallbackIds": ["hook_3"]}],
            "SessionEnd": null,
        }))
        .unwrap();
        assert_eq!((lent.unknown, lent.hooks.len()), (vec!["PreModelSwitch".to_owned()], 3));
        let first = HostHook {
            event: HookEvent::PreToolUse,
            matcher: "Bash".into(),
            callback: "hook_0".into(),
            timeout: Some(Duration::from_secs(5)),
            on_failure: OnFailure::Block,
        };
        assert_eq!(lent.hooks[0], first);
        assert_eq!(lent.hooks[2].on_failure, OnFailure::Continue);
        let newer = read(&json!({"Stop": [{"hookCallbackIds": ["h"], "onFailure": "retry"}]})).unwrap();
        assert_eq!(newer.hooks[0].on_failure, OnFailure::Block);
        assert_eq!(read(&Json::Null).unwrap(), Lent { hooks: vec![], unknown: vec![] });
        let problem = read(&json!({"Stop": [{"hookCallbackIds": [], "timeout": -1}]})).unwrap_err();
        assert!(problem.contains("timeout"), "{problem}");
        assert!(read(&json!({"Stop": 3})).is_err());
    }

    #[test]
    fn each_call_has_one_answer() {
        let mut calls = Calls::default();
        let call =
            |id| HookCall { id: HookId(id), callback: "c".into(), input: json!({}), tool_use_id: None };
        for id in 1..=3 {
            assert_eq!(calls.call(&call(id)).unwrap()["request_id"], format!("hook_{id}"));
        }
        let reply = HookReply::Output(json!({"a": 1}));
        let answered = calls.answered("hook_2", &Ok(json!({"a": 1})));
        assert_eq!(answered, Some(Command::AnswerHook { id: HookId(2), reply }));
        assert_eq!(calls.answered("hook_2", &Ok(json!({}))), None);
        assert!(calls.withdrawn(HookId(1)) && !calls.withdrawn(HookId(1)));
        assert_eq!(calls.closed(), [gone(HookId(3))]);
    }

    proptest::proptest! {
        #[test]
        fn any_hooks_can_be_read(matcher in ".{0,8}", timeout in proptest::num::f64::ANY, ids in proptest::collection::vec(".{0,4}", 0..4)) {
            let hooks = json!({"Stop": [{"matcher": matcher, "timeout": timeout, "hookCallbackIds": ids}]});
            if let Ok(lent) = read(&hooks) {
                proptest::prop_assert_eq!(lent.hooks.len(), ids.len());
            }
        }
    }
}
