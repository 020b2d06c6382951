//! Hooks where a call would ask: with nobody there and beside somebody, with another input, with changes to the
//! permissions; and what is told when a call is denied or somebody is needed.

use super::{
    host::Host,
    session::{DONE, bash, calls, check_audit, hooks, last_request, new_stage, says, write},
};
use crate::stage::{Frames, Stage};
use ostler_proto::Json;
use serde_json::json;

/// A hook that decides so about a request.
fn decides(decision: &Json) -> String {
    says("PermissionRequest", json!({ "decision": decision }))
}

#[track_caller]
fn decided(script: &str, decision: &Json, args: &[&str]) -> (Stage, Frames) {
    let stage = new_stage(script, &hooks(&[("PermissionRequest", &decides(decision))]));
    let frames = stage.frames(args);
    stage.server.assert_valid_histories();
    (stage, frames)
}

#[test]
fn with_nobody_there_a_hook_answers() {
    let (stage, frames) = decided(&write(), &json!({"behavior": "allow"}), &[]);
    assert!(stage.repo.has("new.txt"), "{:?}", frames.tool_results());
    check_audit(&stage, "unguarded");
    let no = json!({"behavior": "deny", "message": "not on a Friday"});
    let (stage, frames) = decided(&write(), &no, &[]);
    assert!(!stage.repo.has("new.txt") && frames.tool_results()[0].contains("not on a Friday"));
    assert_eq!(frames.result()["permission_denials"][0]["tool_name"], "Write");
    let (stage, frames) =
        decided(&write(), &json!({"behavior": "deny", "message": "stop", "interrupt": true}), &[]);
    assert_eq!(frames.result()["subtype"], "error_during_execution");
    assert_eq!(stage.server.requests().len(), 1);
    // A hook without a word leaves it as it was.
    let stage = new_stage(&write(), &hooks(&[("PermissionRequest", "true")]));
    let frames = stage.frames(&[]);
    assert!(!stage.repo.has("new.txt") && frames.tool_results()[0].contains("nobody is there"));
}

#[test]
fn a_yes_answers_an_ask_rule_and_loosens_nothing_else() {
    let yes = json!({"behavior": "allow"});
    let ask = json!({"permissions": {"ask": ["Edit"]}}).to_string();
    let (stage, _) = decided(&write(), &yes, &["--settings", &ask, "--permission-mode", "acceptEdits"]);
    assert!(stage.repo.has("new.txt"));
    let (stage, _) = decided(&write(), &yes, &["--disallowedTools", "Edit(new.txt)"]);
    assert!(!stage.repo.has("new.txt"));
    let protected = write().replace("new.txt", ".mcp.json");
    let (stage, frames) = decided(&protected, &yes, &[]);
    assert!(!stage.repo.has(".mcp.json"), "only the user's own word is enough: {:?}", frames.tool_results());
}

#[test]
fn another_input_is_judged_from_the_start() {
    let with = |command: &str| json!({"behavior": "allow", "updatedInput": {"command": command}});
    let (stage, _) = decided(&bash("touch one"), &with("touch two"), &[]);
    assert!(!stage.repo.has("one") && stage.repo.has("two"));
    let (stage, frames) =
        decided(&bash("touch one"), &with("rm a.txt"), &["--disallowedTools", "Bash(rm *)"]);
    assert!(stage.repo.has("a.txt"), "{:?}", frames.tool_results());
    let (stage, frames) = decided(&bash("touch one"), &with("echo x > .mcp.json"), &[]);
    assert!(!stage.repo.has(".mcp.json"), "{:?}", frames.tool_results());
    let odd = json!({"behavior": "allow", "updatedInput": {"command": 7}});
    let (stage, _) = decided(&bash("touch one"), &odd, &[]);
    assert!(!stage.repo.has("one"));
    // A guard sees what became of it, too.
    let guard = "grep -q 'touch two' && { echo not two >&2; exit 2; }; exit 0";
    let all = hooks(&[("PermissionRequest", &decides(&with("touch two"))), ("PreToolUse", guard)]);
    let stage = new_stage(&bash("touch one"), &all);
    let frames = stage.frames(&[]);
    assert!(
        !stage.repo.has("two") && frames.tool_results()[0].contains("not two"),
        "{:?}",
        frames.tool_results()
    );
    check_audit(&stage, "covered");
}

#[test]
fn permissions_change_as_far_as_they_were_offered() {
    let two = format!(
        "{}{}",
        bash("touch one").replace(DONE, "").replace("c1", "c0"),
        bash("touch one").replace("c1", "c2")
    );
    let asked = |updates: Json| {
        let decision = json!({"behavior": "allow", "updatedPermissions": updates});
        let command = format!("echo x >> asked; {}", decides(&decision));
        let stage = new_stage(&two, &hooks(&[("PermissionRequest", &command)]));
        stage.frames(&[]);
        stage.repo.read("asked").lines().count()
    };
    let add = |rule: &str| json!([{"type": "addRules", "behavior": "allow", "destination": "session", "rules": [{"toolName": "Bash", "ruleContent": rule}]}]);
    assert_eq!(asked(json!([])), 2);
    assert_eq!(asked(add("touch one")), 1, "what was offered holds");
    assert_eq!(asked(add("*")), 2, "what was not offered is not added");
    assert_eq!(asked(json!([{"type": "setMode", "mode": "bypassPermissions"}])), 2);
    // Tightening needs no offer, and a mode short of bypassing can be set.
    let no_more = json!([{"type": "addRules", "behavior": "deny", "rules": [{"toolName": "Bash"}]}]);
    assert_eq!(asked(no_more), 1);
    let two = format!("{}{}", write().replace(DONE, "").replace("c1", "c0"), write().replace("new", "other"));
    let mode =
        json!({"behavior": "allow", "updatedPermissions": [{"type": "setMode", "mode": "acceptEdits"}]});
    let command = format!("echo x >> asked; {}", decides(&mode));
    let stage = new_stage(&two, &hooks(&[("PermissionRequest", &command)]));
    let frames = stage.frames(&[]);
    assert!(stage.repo.has("other.txt") && stage.repo.read("asked").lines().count() == 1);
    assert!(
        frames
            .all
            .iter()
            .any(|frame| frame["permissionMode"] == "acceptEdits" && frame["subtype"] == "status")
    );
}

#[test]
fn a_slow_hook_loses_to_the_host_and_is_killed() {
    let hook = json!({"type": "command", "command": "touch asked; sleep 300"});
    let stage = new_stage(&write(), &json!({"hooks": {"PermissionRequest": [{"hooks": [hook]}]}}));
    let mut host = Host::start(&stage, &["--permission-prompt-tool", "stdio"]);
    host.prompt();
    let question = host.until_request("can_use_tool");
    while !stage.repo.has("asked") {
        std::thread::yield_now();
    }
    host.answer(&question, &json!({"behavior": "allow", "updatedInput": question["request"]["input"]}));
    host.until(|frame| frame["type"] == "result");
    host.finish(&stage);
    assert!(stage.repo.has("new.txt"));
}

#[test]
fn denials_are_told_with_their_reason() {
    let hook = "cat >> denied";
    let check = |args: &[&str], more: &[(&str, &str)], part: &str| {
        let mut all = vec![("PermissionDenied", hook)];
        all.extend(more);
        let stage = new_stage(&write(), &hooks(&all));
        stage.frames(args);
        let told: Json = serde_json::from_str(&stage.repo.read("denied")).unwrap();
        assert_eq!((&told["tool_name"], &told["tool_use_id"]), (&json!("Write"), &json!("c1")));
        assert!(told["reason"].as_str().unwrap().contains(part), "{told}");
    };
    check(&[], &[], "nobody");
    check(&["--disallowedTools", "Edit(new.txt)"], &[], "Edit(new.txt)");
    check(&[], &[("PreToolUse", "echo never >&2; exit 2")], "never");
    let stage =
        new_stage(&calls("Read", "{ file_path = \"{{cwd}}/a.txt\" }"), &hooks(&[("PermissionDenied", hook)]));
    stage.frames(&[]);
    assert!(!stage.repo.has("denied"), "what runs was not denied");
}

#[test]
fn somebody_who_is_needed_is_notified_while_the_question_stands() {
    let stage = new_stage(&write(), &hooks(&[("Notification", "cat > part; mv part note")]));
    let mut host = Host::start(&stage, &["--permission-prompt-tool", "stdio"]);
    host.prompt();
    let question = host.until_request("can_use_tool");
    while !stage.repo.has("note") {
        std::thread::yield_now();
    }
    let note: Json = serde_json::from_str(&stage.repo.read("note")).unwrap();
    assert_eq!(
        (&note["notification_type"], note["message"].as_str().unwrap().contains("Write")),
        (&json!("permission_prompt"), true)
    );
    host.answer(&question, &json!({"behavior": "deny", "message": "no"}));
    host.until(|frame| frame["type"] == "result");
    host.finish(&stage);
    assert!(last_request(&stage).contains("no"));
    // With nobody to need, nobody is notified.
    let stage = new_stage(&write(), &hooks(&[("Notification", "touch note")]));
    stage.frames(&[]);
    assert!(!stage.repo.has("note"));
}
