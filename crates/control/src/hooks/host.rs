//! Hooks of the program that started us: it names callbacks when it connects, and is called back
//! over the control protocol by a function handed in.

use super::answer::{Answer, Trouble, of_json};
use futures_util::future::BoxFuture;
use ostler_proto::{HookEvent, Json, hook::HookEnd};
use serde::Deserialize;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Calls the host back and hands over its answer. Dropping the future withdraws the call.
pub type Callback = Arc<dyn Fn(CallbackRequest) -> BoxFuture<'static, Result<Json, String>> + Send + Sync>;

/// What the host is told: the payload of a `hook_callback` request.
#[derive(Debug, Clone, PartialEq)]
pub struct CallbackRequest {
    /// The callback, by the name the host gave it.
    pub callback_id: String,
    /// The hook's input.
    pub input: Json,
    /// The call it is about.
    pub tool_use_id: Option<String>,
}

/// One callback as the host named it in `initialize`.
#[derive(Debug, Clone, PartialEq)]
pub struct HostHook {
    /// When it wants to be called.
    pub event: HookEvent,
    /// About what.
    pub matcher: String,
    /// Its name.
    pub callback_id: String,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// What an error of it means.
    pub on_failure: OnFailure,
}

/// What it means when a hook reports an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// Nothing: the action goes on.
    #[default]
    Continue,
    /// An objection.
    Block,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    matcher: Option<String>,
    #[serde(default)]
    hook_callback_ids: Vec<String>,
    timeout: Option<f64>,
    on_failure: Option<OnFailure>,
}

/// Reads the `hooks` of an `initialize` request; `null` is none. Events of a newer host are left out
/// and named.
pub fn read(hooks: &Json) -> Result<(Vec<HostHook>, Vec<String>), String> {
    let groups = Option::<BTreeMap<String, Option<Vec<Group>>>>::deserialize(hooks)
        .map_err(|error| format!("hooks cannot be read: {error}"))?;
    let (mut read, mut unknown) = (Vec::new(), Vec::new());
    for (name, groups) in groups.unwrap_or_default() {
        let Ok(event) = name.parse::<HookEvent>() else {
            unknown.push(name);
            continue;
        };
        for group in groups.into_iter().flatten() {
            let timeout = group.timeout.map(super::config::seconds).transpose();
            let timeout = timeout.map_err(|problem| format!("hooks.{event}: timeout {problem}"))?;
            let matcher = group.matcher.unwrap_or_default();
            read.extend(group.hook_callback_ids.into_iter().map(|callback_id| HostHook {
                event,
                matcher: matcher.clone(),
                callback_id,
                timeout,
                on_failure: group.on_failure.unwrap_or_default(),
            }));
        }
    }
    Ok((read, unknown))
}

/// Calls back and reads the answer.
pub(super) async fn run(
    callback: &Callback,
    request: CallbackRequest,
    event: HookEvent,
    limit: Duration,
) -> (HookEnd, Result<Answer, Trouble>) {
    match tokio::time::timeout(limit, callback(request)).await {
        Err(_) => {
            let problem = format!("it took longer than {} s", limit.as_secs_f64());
            (HookEnd::TimedOut, Err(Trouble::Broken(problem)))
        }
        Ok(Err(error)) => (HookEnd::Failed, Err(Trouble::Error(error))),
        // A host that says nothing at all has nothing to say.
        Ok(Ok(Json::Null)) => (HookEnd::Answered, Ok(Answer::default())),
        Ok(Ok(output)) => (HookEnd::Answered, of_json(event, &output)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn callbacks_are_read_as_hosts_send_them() {
        let (hooks, unknown) = read(&json!({
            "PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["hook_0", "hook_1"], "timeout": 5, "onFailure": "block"}],
            "Stop": [{"matcher": null, "hookCallbackIds": ["hook_2"]}],
            "PreModelSwitch": [{"hookCallbackIds": ["hook_3"]}],
            "SessionEnd": null,
        }))
        .unwrap();
        assert_eq!(unknown, ["PreModelSwitch"]);
        assert_eq!(hooks.len(), 3);
        let first = HostHook {
            event: HookEvent::PreToolUse,
            matcher: "Bash".into(),
            callback_id: "hook_0".into(),
            timeout: Some(Duration::from_secs(5)),
            on_failure: OnFailure::Block,
        };
        assert_eq!(hooks[0], first);
        assert_eq!(read(&Json::Null).unwrap(), (vec![], vec![]));
        assert!(
            read(&json!({"Stop": [{"hookCallbackIds": [], "timeout": -1}]})).unwrap_err().contains("timeout")
        );
        assert!(read(&json!({"Stop": 3})).is_err());
    }
}
