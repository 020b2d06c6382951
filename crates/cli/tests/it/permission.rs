//! The control plane from outside: nothing that needs a yes happens without one.

use crate::stage::Stage;
use serde_json::json;
use std::{
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

const WRITE: &str = r#"
[[turn]]
steps = [{ call = "Write", id = "w", input = { file_path = "{{cwd}}/new.txt", content = "x" } }]
[[turn]]
steps = [{ text = "{{result.w}}" }]
"#;

#[test]
fn without_anybody_to_ask_a_write_is_denied_and_reported() {
    let stage = Stage::new(WRITE);
    let frames = stage.frames(&[]);
    assert!(!stage.repo.has("new.txt"));
    assert_eq!(frames.code, Some(0));
    let result = frames.result();
    assert_eq!(result["permission_denials"][0]["tool_name"], "Write");
    assert!(frames.kinds().contains("system/permission_denied"), "{}", frames.kinds());
    assert!(frames.tool_results()[0].contains("--allowedTools"), "{:?}", frames.tool_results());
}

#[test]
fn modes_rules_and_settings_allow_and_deny() {
    let check = |args: &[&str], settings: &str, expect: bool| {
        let stage = Stage::new(WRITE);
        stage.repo.write(".claude/settings.json", settings);
        stage.run(&[&["-p", "go"], args].concat()).check_ok();
        assert_eq!(stage.repo.has("new.txt"), expect, "{args:?} {settings}");
    };
    check(&["--permission-mode", "acceptEdits"], "{}", true);
    check(&["--allowedTools", "Write"], "{}", true);
    check(&["--allowedTools", "Edit(*.txt)"], "{}", true);
    check(&["--allowedTools", "Edit(*.md)"], "{}", false);
    check(&["--permission-mode", "acceptEdits", "--disallowedTools", "Edit(new.txt)"], "{}", false);
    check(&["--permission-mode", "plan", "--allowedTools", "Write"], "{}", false);
    check(&["--permission-mode", "dontAsk"], "{}", false);
    check(&[], r#"{"permissions": {"allow": ["Write"], "defaultMode": "acceptEdits"}}"#, false);
    check(&["--permission-mode", "acceptEdits"], r#"{"permissions": {"deny": ["Write"]}}"#, false);
}

#[test]
fn a_bare_deny_rule_hides_the_tool() {
    let stage = Stage::new(WRITE);
    stage.run(&["-p", "go", "--disallowedTools", "Write", "Bash"]).check_ok();
    let tools = stage.server.requests()[0].body_json()["tools"].to_string();
    assert!(!tools.contains("\"Write\"") && tools.contains("\"Edit\""), "{tools}");
}

#[test]
fn outside_the_working_directories_and_protected_names_ask_even_for_accepted_edits() {
    for path in [
        "/tmp/ostler-outside-test.txt",
        "{{cwd}}/.git/hooks/pre-commit",
        "{{cwd}}/.mcp.json",
        "{{cwd}}/link/x",
    ] {
        let stage = Stage::new(&WRITE.replace("{{cwd}}/new.txt", path));
        std::os::unix::fs::symlink("/tmp", stage.repo.join("link")).unwrap();
        let frames = stage.frames(&["--permission-mode", "acceptEdits"]);
        assert_eq!(frames.result()["permission_denials"][0]["tool_name"], "Write", "{path}");
    }
}

#[test]
fn secrets_of_the_agent_do_not_reach_commands() {
    let script = "[[turn]]\nsteps = [{ call = 'Bash', input = { command = 'env' } }]\n[[turn]]\nsteps = [{ text = '{{result.1}}' }]";
    let done = Stage::new(script).run(&["-p", "go", "--allowedTools", "Bash"]);
    assert!(done.check_ok().stdout.contains("OSTLER=1"), "{}", done.stdout);
    assert!(!done.stdout.contains("key-for-tests"), "{}", done.stdout);
}

#[test]
fn a_program_on_the_other_end_can_answer() {
    for (answer, expect) in [
        (
            json!({"behavior": "allow", "updatedInput": {"file_path": "other.txt", "content": "changed"}}),
            "other.txt",
        ),
        (json!({"behavior": "deny", "message": "not now"}), ""),
    ] {
        let stage = Stage::new(WRITE);
        let args = [
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-prompt-tool",
            "stdio",
        ];
        let mut child = stage.command(&args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "{}", json!({"type": "user", "message": {"role": "user", "content": "go"}})).unwrap();
        let mut result = json!(null);
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let frame: ostler_proto::Json = serde_json::from_str(&line.unwrap()).unwrap();
            if frame["request"]["subtype"] == "can_use_tool" {
                assert_eq!(frame["request"]["tool_name"], "Write");
                let response =
                    json!({"subtype": "success", "request_id": frame["request_id"], "response": answer});
                writeln!(stdin, "{}", json!({"type": "control_response", "response": response})).unwrap();
            } else if frame["type"] == "result" {
                result = frame;
                break;
            }
        }
        drop(stdin);
        assert!(child.wait().unwrap().success());
        assert!(!stage.repo.has("new.txt"));
        assert_eq!(stage.repo.has("other.txt"), expect == "other.txt");
        let text = result["result"].as_str().unwrap();
        assert!(if expect.is_empty() { text == "not now" } else { text.contains("other.txt") }, "{text}");
    }
}
