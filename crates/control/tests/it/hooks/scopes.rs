//! Where hooks are set: every source at every event, and who may switch off or widen what.

use super::{Stage, bash, user};
use ostler_control::{
    Hooks,
    hooks::{Occasion, Scope},
};
use ostler_proto::{HookEvent, HookReply, HookSource, Json, RuleSource, Verdict, hook::Power};
use serde_json::{Map, json};
use std::sync::Arc;

/// All sources that settings and front matter can have.
fn sources() -> Vec<HookSource> {
    let of = HookSource::Settings;
    vec![
        of(RuleSource::Managed("/etc/ostler/managed-settings.json".into())),
        of(RuleSource::Flag("--settings".into())),
        of(RuleSource::Local("/p/.ostler/settings.local.json".into())),
        of(RuleSource::Project("/p/.ostler/settings.json".into())),
        user(),
        HookSource::Plugin("lint".into()),
        HookSource::Agent("reviewer".into()),
        HookSource::Skill("release".into()),
    ]
}

#[tokio::test]
async fn every_source_speaks_at_every_event() {
    let one = |event: HookEvent| async move {
        let mut stage = Stage::new();
        for (number, source) in sources().into_iter().enumerate() {
            let command = format!("cat > in{number}; echo {number} >&2; exit 2");
            stage.add(source, event, json!([{"hooks": [{"type": "command", "command": command}]}]));
        }
        let around = stage.surroundings();
        let exchange = Arc::clone(&around.exchange);
        let mut hooks = Hooks::new(&stage.scopes, around).unwrap();
        hooks.set_host(vec![super::of_host(event, "hook_0")]);
        let occasion = Occasion::sample(event);
        let no = HookReply::Output(json!({"decision": "block", "reason": "host"}));
        let fired = super::answering(&exchange, &no, hooks.fire(&stage.common(), &occasion)).await.0.fired;
        let mut expected = sources();
        // Everywhere but where the session begins, of which the host knows.
        if event != HookEvent::SessionStart {
            expected.push(HookSource::Host);
        }
        if event == HookEvent::Stop {
            // What an agent or skill says about its end is about a subagent's end.
            expected.retain(|source| !matches!(source, HookSource::Agent(_) | HookSource::Skill(_)));
        }
        let found: Vec<HookSource> = fired.runs.iter().map(|run| run.source.clone()).collect();
        assert_eq!(found, expected, "{event}");
        match event.power() {
            Power::Gate => assert!(matches!(fired.verdict, Some(Verdict::Deny { .. })), "{event}"),
            Power::Steer => assert!(fired.block.unwrap().contains("host"), "{event}"),
            Power::Watch => assert_eq!((fired.verdict, fired.block), (None, None), "{event}"),
        }
        let input: Json = serde_json::from_str(&stage.read("in0")).unwrap();
        assert_eq!(input, occasion.input(&stage.common()));
        assert_eq!(input["hook_event_name"], event.to_string());
    };
    for event in HookEvent::ALL {
        one(*event).await;
    }
}

#[tokio::test]
async fn an_agents_stop_is_a_subagents() {
    let mut stage = Stage::new();
    let groups = json!([{"hooks": [{"type": "command", "command": "exit 2"}]}]);
    stage.add(HookSource::Agent("reviewer".into()), HookEvent::Stop, groups);
    assert!(stage.fire(&Occasion::sample(HookEvent::Stop)).await.runs.is_empty());
    assert!(stage.fire(&Occasion::sample(HookEvent::SubagentStop)).await.block.is_some());
}

/// Which of the sources have hooks left when these say `disableAllHooks`.
fn left_when(said: &[(usize, bool)]) -> Vec<usize> {
    let mut stage = Stage::new();
    for (number, source) in sources().into_iter().enumerate() {
        let groups = json!([{"hooks": [{"type": "command", "command": format!("true {number}")}]}]);
        stage.add(source, HookEvent::PreToolUse, groups);
    }
    for (number, is_off) in said {
        stage.scopes[*number].disable_all = Some(*is_off);
    }
    let left = stage.hooks().list();
    let number = |source: &HookSource| sources().iter().position(|known| known == source).unwrap();
    left.iter().map(|hook| number(&hook.source)).collect()
}

#[test]
fn hooks_are_switched_off_only_by_who_may() {
    let [managed, flag, local, project, user] = [0, 1, 2, 3, 4];
    let all: Vec<usize> = (0..sources().len()).collect();
    assert_eq!(left_when(&[]), all);
    assert_eq!(left_when(&[(managed, true)]), [0usize; 0]);
    assert_eq!(left_when(&[(user, true)]), [managed]);
    assert_eq!(left_when(&[(flag, true)]), [managed]);
    assert_eq!(left_when(&[(project, true)]), [managed, flag, user], "a project silences only its own");
    assert_eq!(left_when(&[(local, true)]), [managed, flag, user]);
    assert_eq!(left_when(&[(user, true), (project, false)]), [managed], "a project cannot take it back");
    assert_eq!(left_when(&[(managed, false), (user, true)]), all);
    assert_eq!(left_when(&[(flag, false), (user, true)]), all, "the flag is stronger");
}

#[test]
fn the_owner_can_keep_all_others_out() {
    let mut stage = Stage::new();
    for source in sources() {
        stage.add(
            source,
            HookEvent::PreToolUse,
            json!([{"hooks": [{"type": "command", "command": "true"}]}]),
        );
    }
    let with_host = |stage: &Stage| {
        let mut hooks = stage.hooks();
        hooks.set_host(vec![super::of_host(HookEvent::PreToolUse, "hook_0")]);
        (hooks.list().len(), hooks.hears_host())
    };
    stage.scopes[3].managed_only = Some(true);
    assert_eq!(with_host(&stage), (sources().len() + 1, true), "a project has no say in that");
    stage.scopes[0].managed_only = Some(true);
    assert_eq!(with_host(&stage), (1, false));
    stage.scopes[0].managed_only = None;
    stage.scopes[4].disable_all = Some(true);
    assert_eq!(with_host(&stage), (1, false), "the user switches off what a host lends");
}

#[tokio::test]
async fn the_same_command_of_several_files_runs_once() {
    let mut stage = Stage::new();
    let groups = json!([{"hooks": [{"type": "command", "command": "echo x >> count"}]}, {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo x >> count"}]}]);
    for source in sources() {
        stage.add(source, HookEvent::PreToolUse, groups.clone());
    }
    let fired = stage.fire(&bash("ls")).await;
    // Once for all files, and each copy of the plugin, the agent and the skill by itself.
    assert_eq!((fired.runs.len(), stage.read("count").lines().count()), (7, 7));
}

#[test]
fn what_settings_get_wrong_is_named() {
    let check = |event: &str, groups: Json, part: &str| {
        let hooks: Map<String, Json> = [(event.to_owned(), groups)].into_iter().collect();
        let scope = Scope::of_front_matter(user(), hooks);
        let problem = ostler_control::hooks::check(&scope).unwrap_err();
        assert!(problem.contains(part), "{problem}");
    };
    check("Stop", json!({"hooks": []}), "hooks.Stop");
    check("Stop", json!([{"hooks": [{}]}]), "hooks.Stop[0].hooks[0]");
    check("Stop", json!([{"hooks": [{"type": "http"}]}]), "'url'");
    check("PreToolUse", json!([{"hooks": [{"type": "prompt", "prompt": " "}]}]), "'prompt'");
    check(
        "Stop",
        json!([{"hooks": [{"type": "command", "command": "x", "onFailure": "explode"}]}]),
        "explode",
    );
}

#[tokio::test]
async fn what_cannot_be_done_keeps_a_gate_closed() {
    for hook in [
        json!({"type": "agent", "prompt": "x"}),
        json!({"type": "mcp_tool"}),
        json!({"type": "new"}),
        json!({"type": "command", "command": "x", "shell": "fish"}),
    ] {
        let stage = Stage::with(HookEvent::PreToolUse, json!([{"hooks": [hook]}]));
        let fired = stage.fire(&bash("ls")).await;
        assert!(super::deny_reason(&fired).contains("not supported"), "{fired:?}");
    }
    let stage = Stage::with(
        HookEvent::SessionStart,
        json!([{"hooks": [{"type": "http", "url": "http://localhost/"}]}]),
    );
    let fired = stage.fire(&Occasion::sample(HookEvent::SessionStart)).await;
    assert!(fired.runs[0].problem.as_ref().unwrap().contains("SessionStart"));
}
