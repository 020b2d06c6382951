//! `"continue": false`: whichever hook says it, the run ends as stopped by a hook, everybody is told why, and calls
//! that were still open say truly what became of them.

use super::session::{DONE, bash, calls, hooks, new_stage, write};
use crate::stage::Frames;
use serde_json::json;

const ENOUGH: &str = "cat > /dev/null; echo '{\"continue\": false, \"stopReason\": \"enough\"}'";

#[track_caller]
fn check_stopped(frames: &Frames) {
    let result = frames.result();
    let facts = ["subtype", "is_error", "terminal_reason", "hook_stop_reason"].map(|key| &result[key]);
    let expect = [json!("success"), json!(false), json!("hook_stopped"), json!("enough")];
    assert_eq!((facts, frames.code), (expect.each_ref(), Some(0)), "{result} {}", frames.stderr);
    let told = frames.all.iter().filter(|frame| frame["prevent_continuation"] == true);
    let told: Vec<_> = told.map(|frame| &frame["content"]).collect();
    assert_eq!(told, [&json!("stopped by a hook: enough")]);
}

/// The hook of this event stops the run after so many requests.
#[track_caller]
fn check(event: &str, script: &str, args: &[&str], requests: usize) {
    let stage = new_stage(&format!("{script}{DONE}"), &hooks(&[(event, ENOUGH)]));
    stage.repo.write("AGENTS.md", "be brief");
    stage.repo.write("sub/x", "");
    let frames = stage.frames(args);
    check_stopped(&frames);
    assert_eq!(stage.server.requests().len(), requests, "{event}");
    stage.server.assert_valid_histories();
}

#[test]
fn any_hook_that_is_waited_for_can_stop_the_run() {
    let edits = ["--permission-mode", "acceptEdits"];
    check("SessionStart", DONE, &[], 0);
    check("UserPromptSubmit", DONE, &[], 0);
    check("InstructionsLoaded", DONE, &["--trust"], 0);
    check("PreToolUse", &write(), &edits, 1);
    check("PermissionRequest", &write(), &[], 1);
    check("PermissionDenied", &write(), &[], 1);
    check("PostToolUse", &write(), &edits, 1);
    check("PostToolUseFailure", &bash("exit 3"), &["--allowedTools", "Bash"], 1);
    check("PostToolBatch", &write(), &edits, 1);
    check("CwdChanged", &bash("cd sub"), &["--allowedTools", "Bash"], 1);
    check("Stop", DONE, &[], 1);
}

#[test]
fn a_call_that_a_stopping_hook_spoke_about_keeps_its_own_result() {
    let stage = new_stage(&write(), &hooks(&[("PreToolUse", ENOUGH)]));
    let frames = stage.frames(&["--permission-mode", "acceptEdits"]);
    assert!(
        !stage.repo.has("new.txt") && frames.tool_results()[0].contains("enough"),
        "{frames:?}",
        frames = frames.tool_results()
    );
    let stage = new_stage(&write(), &hooks(&[("PostToolUse", ENOUGH)]));
    let frames = stage.frames(&["--permission-mode", "acceptEdits"]);
    assert!(stage.repo.has("new.txt") && frames.tool_results()[0].contains("new.txt"));
    stage.check_resumable();
}

#[test]
fn calls_that_are_open_say_who_called_them_off() {
    let first = "{ call = \"Bash\", id = \"b\", input = { command = \"touch began; sleep 300\" } }";
    let second = "{ call = \"Read\", id = \"r\", input = { file_path = \"{{cwd}}/a.txt\" } }";
    let script = format!("[[turn]]\nsteps = [{first}, {second}]\n{DONE}");
    let waits = format!("until [ -e began ]; do sleep 0.01; done; {ENOUGH}");
    let hook = json!({"type": "command", "command": waits, "timeout": 20});
    let settings = json!({"hooks": {"PostToolUse": [{"matcher": "Read", "hooks": [hook]}]}});
    let stage = new_stage(&script, &settings);
    let frames = stage.frames(&["--allowedTools", "Bash"]);
    check_stopped(&frames);
    let results = frames.tool_results();
    let expect = "called off because a hook stopped the run (enough) while it ran";
    assert!(results[0].contains(expect) && results[1].contains("two"), "{results:?}");
    stage.check_resumable();
}

#[test]
fn people_and_programs_are_told_why() {
    let read = calls("Read", "{ file_path = \"{{cwd}}/a.txt\" }").replace(DONE, "");
    let stage = new_stage(&read.repeat(3), &hooks(&[("PostToolUse", ENOUGH)]));
    let done = stage.run(&["-p", "go"]);
    assert!(done.check_ok().stderr.contains("stopped by a hook: enough"), "{}", done.stderr);
    let audit = stage.run(&["hooks", "audit"]);
    assert!(audit.stdout.contains("stopped the run: enough"), "{}", audit.stdout);
    let told = stage.run(&["-p", "go", "--verbose"]);
    let shown = told.stdout + &told.stderr;
    assert!(shown.contains("stopped by a hook: enough"), "{shown}");
    let object = stage.run(&["-p", "go", "--output-format", "json"]);
    assert!(object.check_ok().stdout.contains("\"terminal_reason\":\"hook_stopped\""), "{}", object.stdout);
}

#[test]
fn a_turn_that_was_to_end_goes_on_with_what_a_hook_adds() {
    let adds = super::session::says("Stop", json!({"additionalContext": "the linter found two things"}));
    let once = format!("if [ -e told ]; then cat > /dev/null; else touch told; {adds}; fi");
    let stage = new_stage(&DONE.repeat(3), &hooks(&[("Stop", &once)]));
    stage.run(&["-p", "go"]).check_ok();
    assert_eq!(stage.server.requests().len(), 2);
    assert!(super::session::last_request(&stage).contains("the linter found two things"));
    stage.server.assert_valid_histories();
}
