//! What hooks say and what comes of it: words, new inputs, context, conditions, once, later.

use super::{Stage, bash, call, deny_reason, user};
use futures_util::{FutureExt, future::join_all};
use ostler_control::hooks::{Firing, Occasion};
use ostler_proto::{
    Access, HookEvent, HookRecord, HookSource, Json, PathFact, Verdict, hook::HookEnd, hook::HookWord,
};
use ostler_tools::Artifacts;
use serde_json::json;

const GUARD: HookEvent = HookEvent::PreToolUse;

/// Groups with one command each, in this order.
fn commands(lines: &[&str]) -> Json {
    let hooks: Vec<Json> = lines.iter().map(|line| json!({"type": "command", "command": line})).collect();
    json!([{ "hooks": hooks }])
}

fn says(fields: &str) -> String {
    format!(r#"cat >/dev/null; echo '{{"hookSpecificOutput": {{"hookEventName": "PreToolUse", {fields}}}}}'"#)
}

#[tokio::test]
async fn the_strictest_word_wins_whatever_its_place() {
    let word = |word: &str| {
        says(&format!(r#""permissionDecision": "{word}", "permissionDecisionReason": "{word}!""#))
    };
    let (allow, ask, deny) = (word("allow"), word("ask"), word("deny"));
    let stage = Stage::with(GUARD, commands(&[&allow, &ask]));
    let fired = stage.fire(&bash("ls")).await;
    assert!(matches!(fired.verdict, Some(Verdict::Ask { reason, .. }) if reason == "ask!"));
    let stage = Stage::with(GUARD, commands(&[&allow, &ask, &deny]));
    let fired = stage.fire(&bash("ls")).await;
    assert_eq!(deny_reason(&fired), "deny!");
    let words: Vec<HookWord> = fired.runs.iter().map(|run| run.word).collect();
    assert_eq!(words, [HookWord::Allow, HookWord::Ask, HookWord::Deny]);
    let HookRecord::Fired(record) = fired.record(&bash("ls"), None) else { panic!("not a firing") };
    assert_eq!(
        (record.call, record.about.as_deref(), record.runs.len()),
        (Some("toolu_1".into()), Some("Bash"), 3)
    );
}

#[tokio::test]
async fn a_guard_sees_what_another_hook_made_of_the_input() {
    let rewrite = says(r#""permissionDecision": "allow", "updatedInput": {"command": "rm -rf x"}"#);
    let guard = "grep -q 'rm -rf' && { echo no rm >&2; exit 2; }; exit 0";
    for order in [[rewrite.as_str(), guard], [guard, rewrite.as_str()]] {
        let fired = Stage::with(GUARD, commands(&order)).fire(&bash("ls")).await;
        assert_eq!((deny_reason(&fired), &fired.updated_input), ("no rm", &None));
    }
}

#[tokio::test]
async fn a_yes_is_about_the_input_that_was_seen() {
    // It says yes once, to what it sees first, and never again.
    let yes = format!("[ -e seen ] && exit 0; touch seen; {}", says(r#""permissionDecision": "allow""#));
    let rewrite = says(r#""updatedInput": {"command": "make"}"#);
    let fired = Stage::with(GUARD, commands(&[&yes, &rewrite])).fire(&bash("ls")).await;
    assert_eq!((fired.verdict, fired.updated_input), (None, Some(json!({"command": "make"}))));
    let own = says(r#""permissionDecision": "allow", "updatedInput": {"command": "make"}"#);
    let fired = Stage::with(GUARD, commands(&[&own])).fire(&bash("ls")).await;
    assert!(matches!(fired.verdict, Some(Verdict::Allow { .. })), "its own input it has seen");
}

#[tokio::test]
async fn new_inputs_build_on_each_other_and_come_to_an_end() {
    let append = |letter: &str| {
        format!(
            r#"sed -E 's/.*"command":"([^"]*)".*/{{"hookSpecificOutput": {{"hookEventName": "PreToolUse", "updatedInput": {{"command": "\1{letter}"}}}}}}/'"#
        )
    };
    let (a, b, c) = (append("a"), append("b"), append("c"));
    let stage = Stage::with(GUARD, commands(&[&a, &b, &c]));
    let fired = stage.fire(&bash("x")).await;
    assert_eq!(fired.updated_input, Some(json!({"command": "xabc"})));
    assert_eq!(fired.runs.len(), 6, "three, then two, then one");
}

#[tokio::test]
async fn context_messages_and_stops_are_collected() {
    let first = r#"echo '{"systemMessage": "one", "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "c1"}}'"#;
    let second = r#"echo '{"systemMessage": "two", "continue": false, "stopReason": "enough", "decision": "block", "reason": "lint", "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "c2", "updatedToolOutput": "new"}}'"#;
    let stage = Stage::with(HookEvent::PostToolUse, commands(&[first, second]));
    let fired = stage.fire(&Occasion::sample(HookEvent::PostToolUse)).await;
    assert_eq!(
        (fired.system_messages, fired.additional_context),
        (vec!["one".into(), "two".into()], vec!["c1".into(), "c2".into()])
    );
    assert_eq!(
        (fired.stop.as_deref(), fired.block.as_deref(), fired.replaced_result),
        (Some("enough"), Some("lint"), Some(json!("new")))
    );
    let stage = Stage::command(GUARD, r#"echo '{"continue": false, "stopReason": "halt"}'"#);
    assert_eq!(deny_reason(&stage.fire(&bash("ls")).await), "halt", "a stopped run runs no call");
}

#[tokio::test]
async fn exit_code_one_blocks_only_where_it_was_told_to() {
    let hook = |on_failure: &str| json!([{"hooks": [{"type": "command", "command": "echo hm >&2; exit 1", "onFailure": on_failure}]}]);
    let fired = Stage::with(GUARD, hook("continue")).fire(&bash("ls")).await;
    assert_eq!((fired.verdict, fired.runs[0].problem.as_deref()), (None, Some("it exited with 1: hm")));
    let fired = Stage::with(GUARD, hook("block")).fire(&bash("ls")).await;
    assert!(deny_reason(&fired).contains("hm"));
}

#[tokio::test]
async fn matchers_and_conditions_choose() {
    let group = |matcher: &str, condition: &str| json!([{"matcher": matcher, "hooks": [{"type": "command", "command": "true", "if": condition}]}]);
    let fact = PathFact {
        requested: "/p/src/a.rs".into(),
        hops: vec![],
        target: "/p/src/a.rs".into(),
        exists: true,
    };
    let edit =
        || call("Edit", &json!({"file_path": "/p/src/a.rs"}), Access::Write { paths: vec![fact.clone()] });
    let runs = |matcher: &str, condition: &str, occasion: Occasion| {
        let stage = Stage::with(occasion.event, group(matcher, condition));
        stage.hooks().matching(&occasion).len()
    };
    assert_eq!(runs("Edit|Write", "Edit", edit()), 1);
    assert_eq!(runs("Edit|Write", "Edit", bash("ls")), 0);
    assert_eq!(runs("", "Bash(git *)", bash("git status")), 1);
    assert_eq!(runs("", "Bash(git *)", bash("cd x && git push")), 1, "every part of a command counts");
    assert_eq!(runs("", "Bash(git *)", bash("ls")), 0);
    assert_eq!(runs("", "Edit(*.rs)", edit()), 0, "counts from the folder of the project");
    assert_eq!(runs("", "Edit(//p/**/*.rs)", edit()), 1);
    assert_eq!(runs("", "Read(//p/**/*.rs)", edit()), 0);
    assert_eq!(runs("", "Bash", Occasion::sample(HookEvent::Stop)), 0, "conditions are about calls");
    let unplanned = Occasion { intent: None, ..bash("ls") };
    assert_eq!(runs("", "Bash(git *)", unplanned), 1, "in doubt it runs");
}

#[tokio::test]
async fn once_is_once() {
    let stage = Stage::with(
        GUARD,
        json!([{"hooks": [{"type": "command", "command": "echo x >> count", "once": true}]}]),
    );
    let hooks = stage.hooks();
    let (common, occasion) = (stage.common(), bash("ls"));
    // Also when several calls come at once, and whichever thread they are on.
    join_all((0..5).map(|_| hooks.fire(&common, &occasion).boxed())).await;
    assert_eq!(stage.read("count"), "x\n");
}

#[tokio::test]
async fn nobody_waits_for_what_runs_in_the_background() {
    let hook = |fields: Json| {
        let mut hook = json!({"type": "command", "command": "cat >/dev/null; until [ -e go ]; do sleep 0.01; done; echo late >&2; exit 2"});
        hook.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!([{ "hooks": [hook] }])
    };
    for (fields, wakes) in [(json!({"async": true}), None), (json!({"asyncRewake": true}), Some("late"))] {
        let stage = Stage::with(GUARD, hook(fields));
        let Firing { fired, mut background } = stage.hooks().fire(&stage.common(), &bash("ls")).await;
        assert_eq!((fired.verdict, &fired.runs[0].end), (None, &HookEnd::Background));
        let late = background.pop().unwrap();
        std::fs::write(stage.path("go"), "").unwrap();
        let late = late.await;
        assert_eq!((late.run.end, late.wakes.as_deref()), (HookEnd::Exited { code: 2 }, wakes));
    }
}

#[tokio::test]
async fn programs_get_words_and_not_a_shell() {
    let hook = json!({"type": "command", "command": "/bin/sh", "args": ["-c", "printf '%s|' \"$@\" > words", "sh", "${CLAUDE_PROJECT_DIR}/a b", "$(touch pwned)", "${HOME}", "; exit 2"]});
    let stage = Stage::with(GUARD, json!([{"hooks": [hook]}]));
    let fired = stage.fire(&bash("ls")).await;
    assert_eq!(fired.runs[0].end, HookEnd::Exited { code: 0 });
    let project = stage.folder.path().display();
    assert_eq!(stage.read("words"), format!("{project}/a b|$(touch pwned)|${{HOME}}|; exit 2|"));
    assert!(!stage.path("pwned").exists());
}

#[tokio::test]
async fn commands_find_their_surroundings() {
    let mut stage = Stage::command(
        HookEvent::SessionStart,
        "env > env; pwd -P > cwd; echo 'export A=b' >> \"$CLAUDE_ENV_FILE\"",
    );
    stage.scopes[0].source = HookSource::Plugin("p".into());
    stage.scopes[0].vars = vec![("CLAUDE_PLUGIN_ROOT".into(), "/plugins/p".into())];
    let hooks = stage.hooks();
    let fired = hooks.fire(&stage.common(), &Occasion::session_start("startup", "m")).await.fired;
    let (mut exported, env) = (std::collections::BTreeMap::new(), stage.read("env"));
    assert_eq!(fired.exports[0].apply(&mut exported, &[]), [0usize; 0]);
    assert_eq!(exported.get("A").map(String::as_str), Some("b"));
    let file = env.lines().find_map(|line| line.strip_prefix("CLAUDE_ENV_FILE=")).unwrap();
    assert!(!std::path::Path::new(file).exists(), "it is gone when it is read");
    let project = stage.folder.path().canonicalize().unwrap();
    for line in [
        format!("CLAUDE_PROJECT_DIR={}", stage.folder.path().display()),
        "CLAUDE_PLUGIN_ROOT=/plugins/p".into(),
    ] {
        assert!(env.lines().any(|found| found == line), "{line} in {env}");
    }
    assert_eq!(stage.read("cwd").trim(), project.to_string_lossy());
    let gone = ostler_control::hooks::Common { cwd: stage.path("gone"), ..stage.common() };
    let fired = hooks.fire(&gone, &Occasion::session_start("startup", "m")).await.fired;
    assert_eq!(
        fired.runs[0].end,
        HookEnd::Exited { code: 0 },
        "a folder that is gone is no reason not to be asked"
    );
}

#[tokio::test]
async fn long_words_are_cut_and_kept() {
    let mut stage = Stage::command(HookEvent::SessionStart, "printf '%020000d' 7");
    stage.scopes[0].source = user();
    let occasion = Occasion::sample(HookEvent::SessionStart);
    let fired = stage.fire(&occasion).await;
    assert!(fired.additional_context[0].ends_with("[10000 more characters were left out]"));
    let artifacts = Some(Artifacts::new(&stage.path("kept")));
    let surroundings = ostler_control::hooks::Surroundings { artifacts, ..stage.surroundings() };
    let hooks = ostler_control::Hooks::new(&stage.scopes, surroundings).unwrap();
    let fired = hooks.fire(&stage.common(), &occasion).await.fired;
    let path = fired.additional_context[0].rsplit_once(" is in ").unwrap().1.trim_end_matches(']').to_owned();
    assert_eq!(std::fs::read_to_string(path).unwrap().len(), 20_000);
}

#[tokio::test]
async fn the_input_has_exactly_the_known_fields() {
    let stage = Stage::command(GUARD, "cat > in");
    let mut common = stage.common();
    common.prompt_id = Some("p1".into());
    common.effort = Some("high".into());
    common.agent = Some(("a1".into(), "Explore".into()));
    stage.hooks().fire(&common, &bash("ls")).await;
    let cwd = stage.folder.path().to_string_lossy().into_owned();
    let expected = json!({
        "session_id": "0b2c", "transcript_path": "/t/0b2c.jsonl", "cwd": cwd, "prompt_id": "p1",
        "permission_mode": "acceptEdits", "agent_id": "a1", "agent_type": "Explore", "effort": {"level": "high"},
        "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "toolu_1",
    });
    assert_eq!(stage.read("in"), expected.to_string());
}
