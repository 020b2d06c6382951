//! Hooks as they are set and fired: real programs in a folder of their own, from every source, at
//! every event.
#![expect(clippy::disallowed_methods, reason = "what hooks wrote is looked at")]

mod faults;
mod host;
mod scopes;
mod speech;

use ostler_control::{
    Hooks,
    hooks::{CallFacts, Common, Exchange, Fired, Occasion, Scope, Surroundings, Told},
};
use ostler_proto::{
    Access, Footprint, HookCall, HookEvent, HookNews, HookReply, HookSource, HostHook, Intent, Json, Mode,
    Preview, RuleSource, Verdict, listener::OnFailure,
};
use ostler_tools::host::Confinement;
use serde_json::json;
use std::path::{Path, PathBuf};

/// A folder with hooks to fire.
pub(super) struct Stage {
    pub(super) folder: tempfile::TempDir,
    pub(super) scopes: Vec<Scope>,
}

impl Stage {
    pub(super) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), scopes: Vec::new() }
    }

    /// With hooks of one event in the user's settings.
    pub(super) fn with(event: HookEvent, groups: Json) -> Self {
        let mut stage = Self::new();
        stage.add(user(), event, groups);
        stage
    }

    /// With one command of one event in the user's settings.
    pub(super) fn command(event: HookEvent, command: &str) -> Self {
        Self::with(event, json!([{"hooks": [{"type": "command", "command": command}]}]))
    }

    pub(super) fn add(&mut self, source: HookSource, event: HookEvent, groups: Json) {
        let hooks = [(event.to_string(), groups)].into_iter().collect();
        self.scopes.push(Scope::of_front_matter(source, hooks));
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(super) fn common(&self) -> Common {
        Common {
            session_id: "0b2c".into(),
            transcript_path: Some("/t/0b2c.jsonl".into()),
            cwd: self.folder.path().to_path_buf(),
            permission_mode: Mode::AcceptEdits,
            prompt_id: None,
            effort: None,
            agent: None,
        }
    }

    pub(super) fn surroundings(&self) -> Surroundings {
        Surroundings {
            project: self.folder.path().to_path_buf(),
            home: "/home/u".into(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("TOKEN".into(), "secret".into())],
            confinement: Confinement::Free,
            warden: None,
            artifacts: None,
            post: None,
            ask_model: None,
            at_end: None,
            exchange: std::sync::Arc::default(),
        }
    }

    pub(super) fn hooks(&self) -> Hooks {
        Hooks::new(&self.scopes, self.surroundings()).unwrap()
    }

    pub(super) async fn fire(&self, occasion: &Occasion) -> Fired {
        self.hooks().fire(&self.common(), occasion).await.fired
    }
}

/// A callback of the host on everything an event is about.
pub(super) fn of_host(event: HookEvent, callback: &str) -> HostHook {
    let (matcher, callback) = (String::new(), callback.to_owned());
    HostHook { event, matcher, callback, timeout: None, on_failure: OnFailure::Continue }
}

/// Waits for something while the host answers every call with the same; what it was called with comes too.
pub(super) async fn answering<T>(
    exchange: &Exchange,
    reply: &HookReply,
    waiting: impl Future<Output = T>,
) -> (T, Vec<HookCall>) {
    let mut calls = Vec::new();
    let host = async {
        loop {
            if let Told::News(HookNews::Called(call)) = exchange.next().await {
                exchange.answer(call.id, reply.clone());
                calls.push(call);
            }
        }
    };
    let done = tokio::select! {
        done = waiting => done,
        () = host => unreachable!("a host has no end"),
    };
    (done, calls)
}

pub(super) fn user() -> HookSource {
    HookSource::Settings(RuleSource::User("/home/u/.ostler/settings.json".into()))
}

/// A call of Bash that is about to be judged.
pub(super) fn bash(command: &str) -> Occasion {
    let access =
        Access::Execute { command: command.into(), cwd: "/".into(), footprint: Footprint::default() };
    call("Bash", &json!({ "command": command }), access)
}

pub(super) fn call(tool: &str, input: &Json, access: Access) -> Occasion {
    let intent = Intent { title: tool.into(), access, preview: Preview::None };
    Occasion::pre_tool_use(CallFacts { tool, input, id: &"toolu_1".into(), intent: &intent })
}

pub(super) fn deny_reason(fired: &Fired) -> &str {
    match &fired.verdict {
        Some(Verdict::Deny { reason, .. }) => reason,
        Some(Verdict::Allow { .. } | Verdict::Ask { .. }) | None => panic!("not denied: {fired:?}"),
    }
}

pub(super) fn none_left(folder: &Path) {
    ostler_testkit::process::assert_none_running_in(folder);
}
