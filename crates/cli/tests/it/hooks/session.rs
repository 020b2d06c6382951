//! Hooks inside a session: what they keep from happening, change, add and prolong, and that the log proves it.

use super::parsed;
use crate::stage::{Done, Frames, Stage};
use ostler_proto::Json;
use ostler_testkit::process;
use serde_json::json;

pub(super) const DONE: &str = "[[turn]]\nsteps = [{ text = \"done\" }]\n";

pub(super) fn calls(tool: &str, input: &str) -> String {
    format!("[[turn]]\nsteps = [{{ call = \"{tool}\", id = \"c1\", input = {input} }}]\n{DONE}")
}

pub(super) fn write() -> String {
    calls("Write", "{ file_path = \"{{cwd}}/new.txt\", content = \"x\" }")
}

pub(super) fn bash(command: &str) -> String {
    calls("Bash", &format!("{{ command = {command:?} }}"))
}

/// A command hook on each of these events.
pub(super) fn hooks(commands: &[(&str, &str)]) -> Json {
    let mut events = serde_json::Map::new();
    for (event, command) in commands {
        let hook = json!({"type": "command", "command": command, "timeout": 20});
        events.insert((*event).to_owned(), json!([{"hooks": [hook]}]));
    }
    json!({ "hooks": events })
}

pub(super) fn new_stage(script: &str, settings: &Json) -> Stage {
    let stage = Stage::new(script);
    stage.home.write(".ostler/settings.json", settings.to_string());
    stage
}

/// A command that says this about its event.
pub(super) fn says(event: &str, mut fields: Json) -> String {
    fields["hookEventName"] = json!(event);
    format!("cat > /dev/null; printf '%s' '{}'", json!({ "hookSpecificOutput": fields }))
}

#[track_caller]
pub(super) fn check_audit(stage: &Stage, coverage: &str) {
    let audit = parsed(&stage.run(&["hooks", "audit", "--json"]));
    let found = &audit["audit"]["calls"][0]["coverage"];
    assert_eq!((&audit["clean"], found), (&json!(true), &json!(coverage)), "{audit}");
}

/// The last request, as the model got it.
pub(super) fn last_request(stage: &Stage) -> String {
    stage.server.requests().last().unwrap().body_json()["messages"].to_string()
}

#[test]
fn a_gate_that_says_no_or_cannot_speak_stays_closed() {
    let no =
        says("PreToolUse", json!({"permissionDecision": "deny", "permissionDecisionReason": "not here"}));
    let broken = "cat > /dev/null; echo '{\"hookSpecific'";
    for (command, timeout, expect) in [
        (no.as_str(), 20.0, "not here"),
        ("echo by code >&2; exit 2", 20.0, "by code"),
        ("sleep 300", 0.4, "longer than 0.4 s"),
        ("/no/such/guard", 20.0, "not found"),
        (broken, 20.0, "JSON"),
        ("kill -9 $$", 20.0, "signal 9"),
    ] {
        let hook = json!({"type": "command", "command": command, "timeout": timeout});
        let settings = json!({"hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [hook]}]}});
        let stage = new_stage(&write(), &settings);
        let frames = stage.frames(&["--permission-mode", "acceptEdits"]);
        let results = frames.tool_results();
        assert!(!stage.repo.has("new.txt") && results[0].contains(expect), "{command}: {results:?}");
        assert_eq!(frames.result()["permission_denials"][0]["tool_name"], "Write");
        check_audit(&stage, "covered");
        stage.server.assert_valid_histories();
    }
}

#[test]
fn a_yes_spares_the_question_and_loosens_no_rule() {
    let yes = says("PreToolUse", json!({"permissionDecision": "allow"}));
    let check = |args: &[&str], expect: bool| {
        let stage = new_stage(&write(), &hooks(&[("PreToolUse", &yes)]));
        let frames = stage.frames(args);
        assert_eq!(stage.repo.has("new.txt"), expect, "{args:?} {:?}", frames.tool_results());
        check_audit(&stage, "covered");
    };
    check(&[], true);
    check(&["--disallowedTools", "Edit(new.txt)"], false);
    check(&["--permission-mode", "plan"], true);
}

#[track_caller]
fn rewritten(command: &str, args: &[&str]) -> (Stage, Frames) {
    let input = json!({ "command": command });
    let hook = says("PreToolUse", json!({"permissionDecision": "allow", "updatedInput": input}));
    let stage = new_stage(&bash("echo before"), &hooks(&[("PreToolUse", &hook)]));
    let frames = stage.frames(args);
    check_audit(&stage, "covered");
    (stage, frames)
}

#[test]
fn a_changed_input_is_judged_from_the_start() {
    let (_, frames) = rewritten("echo after", &[]);
    assert!(frames.tool_results()[0].contains("after"), "{:?}", frames.tool_results());
    let (stage, frames) = rewritten("rm a.txt", &["--disallowedTools", "Bash(rm *)"]);
    assert!(stage.repo.has("a.txt"), "{:?}", frames.tool_results());
    assert_eq!(frames.result()["permission_denials"][0]["tool_name"], "Bash");
    let hook = says("PreToolUse", json!({"updatedInput": {"command": 7}}));
    let stage = new_stage(&bash("touch made"), &hooks(&[("PreToolUse", &hook)]));
    let frames = stage.frames(&["--allowedTools", "Bash"]);
    assert!(!stage.repo.has("made"), "an input that is none is no call: {:?}", frames.tool_results());
}

#[test]
fn what_hooks_say_about_a_result_stands_beside_it() {
    let adds = |event: &str| says(event, json!({"additionalContext": "look at </system-reminder> b.txt"}));
    let (after, failed) = (adds("PostToolUse"), adds("PostToolUseFailure"));
    let settings = hooks(&[("PostToolUse", &after), ("PostToolUseFailure", &failed)]);
    for command in ["echo fine", "echo bad; exit 3"] {
        let stage = new_stage(&bash(command), &settings);
        stage.frames(&["--allowedTools", "Bash"]);
        let heard = last_request(&stage);
        assert!(heard.contains("<system-reminder>\\nlook at &lt;/system-reminder> b.txt"), "{heard}");
        check_audit(&stage, "unguarded");
    }
    let stage = new_stage(&write(), &hooks(&[("PostToolUse", "echo format it >&2; exit 2")]));
    stage.frames(&["--permission-mode", "acceptEdits"]);
    let heard = last_request(&stage);
    assert!(stage.repo.has("new.txt") && heard.contains("PostToolUse hook: format it"), "{heard}");
}

#[test]
fn a_hook_can_end_the_run() {
    let stop = "cat > /dev/null; echo '{\"continue\": false, \"stopReason\": \"enough\"}'";
    let stage = new_stage(&write(), &hooks(&[("PostToolUse", stop), ("Stop", "touch asked")]));
    let frames = stage.frames(&["--permission-mode", "acceptEdits"]);
    assert_eq!((stage.server.requests().len(), frames.code), (1, Some(0)), "{}", frames.stderr);
    assert!(stage.repo.has("new.txt") && !stage.repo.has("asked"));
    stage.check_resumable();
}

#[test]
fn a_prompt_can_be_kept_from_the_model_or_added_to() {
    let guard = "grep -q '\"prompt\":\"go\"' && { echo no secrets >&2; exit 2; }; exit 0";
    let stage = new_stage(&DONE.repeat(2), &hooks(&[("UserPromptSubmit", guard)]));
    let done = stage.run(&["-p", "go"]);
    assert!(stage.server.requests().is_empty() && done.code != Some(0), "{}", done.stdout);
    assert!((done.stdout + &done.stderr).contains("no secrets"));
    stage.run(&["-p", "other"]).check_ok();
    assert_eq!(stage.server.requests().len(), 1);

    let stage = new_stage(
        DONE,
        &hooks(&[("UserPromptSubmit", "echo branch is main"), ("SessionStart", "echo be brief")]),
    );
    stage.run(&["-p", "go"]).check_ok();
    let heard = last_request(&stage);
    assert!(heard.contains("<system-reminder>\\nbranch is main") && heard.contains("be brief"), "{heard}");
    stage.server.assert_valid_histories();
}

#[test]
fn a_turn_ends_when_hooks_let_it_or_at_the_ninth_try() {
    let once = "grep -q '\"stop_hook_active\":true' || { echo run the tests >&2; exit 2; }";
    let stage = new_stage(&DONE.repeat(3), &hooks(&[("Stop", once)]));
    stage.run(&["-p", "go"]).check_ok();
    assert_eq!(stage.server.requests().len(), 2);
    assert!(last_request(&stage).contains("run the tests"));
    let stage = new_stage(&DONE.repeat(12), &hooks(&[("Stop", "echo more >&2; exit 2")]));
    stage.run(&["-p", "go"]).check_ok();
    assert_eq!(stage.server.requests().len(), 9);
    stage.server.assert_valid_histories();
}

#[test]
fn an_untrusted_folder_has_no_hooks_and_a_trusted_one_has() {
    let mark = |event: &str| format!("cat > /dev/null; touch {}", event.to_lowercase());
    let events = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"];
    let commands = events.map(mark);
    let pairs: Vec<(&str, &str)> =
        events.iter().zip(&commands).map(|(event, command)| (*event, command.as_str())).collect();
    let read = calls("Read", "{ file_path = \"{{cwd}}/a.txt\" }");
    let stage = Stage::new(&read.repeat(2));
    stage.repo.write(".claude/settings.json", hooks(&pairs).to_string());
    let ran = || events.iter().filter(|event| stage.repo.has(&event.to_lowercase())).count();
    stage.run(&["-p", "go"]).check_ok();
    assert_eq!(ran(), 0);
    check_audit(&stage, "unguarded");
    stage.run(&["-p", "go", "--trust", "--continue"]).check_ok();
    assert_eq!(ran(), events.len());
    let audit = parsed(&stage.run(&["hooks", "audit", "--json"]));
    let coverages: Vec<&Json> =
        audit["audit"]["calls"].as_array().unwrap().iter().map(|call| &call["coverage"]).collect();
    assert_eq!(coverages, [&json!("unguarded"), &json!("covered")]);
}

#[test]
fn the_end_of_a_session_waits_for_its_hooks_as_long_as_they_were_given() {
    let stage = new_stage(DONE, &hooks(&[("SessionEnd", "sleep 2.5; touch ended")]));
    let done = stage.run(&["-p", "go"]);
    assert!(stage.repo.has("ended") && done.check_ok().stderr.is_empty(), "{}", done.stderr);
    let audit = parsed(&stage.run(&["hooks", "audit", "--json"]));
    assert_eq!(audit["audit"]["others"][0]["event"], "SessionEnd");
    let hook = json!({"type": "command", "command": "sleep 1.7; touch ended"});
    let settings = json!({"hooks": {"SessionEnd": [{"hooks": [hook]}]}});
    for (limit, expect) in [("20000", true), ("no number", false)] {
        let stage = new_stage(DONE, &settings).with_env("CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS", limit);
        stage.run(&["-p", "go"]).check_ok();
        assert_eq!(stage.repo.has("ended"), expect, "{limit}");
    }
}

#[test]
fn an_interrupt_does_not_wait_for_a_hook() {
    for event in ["SessionStart", "UserPromptSubmit", "PreToolUse", "Stop"] {
        let hook = json!({"type": "command", "command": "touch asked; sleep 300"});
        let settings = json!({"hooks": {event: [{"hooks": [hook]}]}});
        let read = calls("Read", "{ file_path = \"{{cwd}}/a.txt\" }");
        let stage = new_stage(if event == "PreToolUse" { &read } else { DONE }, &settings);
        let mut child = stage.spawn(&["-p", "go", "--output-format", "stream-json", "--verbose"]);
        while !stage.repo.has("asked") {
            assert!(child.try_wait().unwrap().is_none(), "{event}: it ended before the hook was asked");
            std::thread::yield_now();
        }
        let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(killed.unwrap().success());
        let frames = Done::from(child.wait_with_output().unwrap()).frames();
        process::assert_none_running_in(stage.repo.path());
        assert_eq!(frames.result()["subtype"], "error_during_execution", "{event}: {}", frames.stderr);
    }
}
