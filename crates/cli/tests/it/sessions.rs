//! The log on disk: durable, readable by others, resumable, and honest when it cannot be written.

mod manage;
mod public;
mod resume;
mod room;
mod terminal;

use crate::stage::Stage;
use ostler_proto::Json;
use ostler_testkit::process;
use serde_json::json;

const TALK: &str = r#"
[[turn]]
steps = [{ text = "noted" }]
[[turn]]
steps = [{ text = "you said {{prompt}}" }]
[[turn]]
steps = [{ text = "third" }]
"#;

fn lines(stage: &Stage) -> Vec<Json> {
    let text = std::fs::read_to_string(stage.transcript()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn continue_and_resume_go_on_in_one_file() {
    let stage = Stage::new(TALK);
    stage.run(&["-p", "remember 42"]).check_ok();
    stage.run(&["-p", "what was it?", "--continue"]).check_ok();
    let id = stage.transcript().file_stem().unwrap().to_str().unwrap().to_owned();
    assert_eq!(stage.run(&["-p", "more", "--resume", &id]).check_ok().stdout, "third\n");
    let last = stage.server.requests()[2].body_json();
    assert_eq!(last["messages"].as_array().unwrap().len(), 5);
    assert!(last.to_string().contains("remember 42"));
    stage.server.assert_valid_histories();
    stage.server.assert_append_only();
}

#[test]
fn a_resumed_shell_stands_where_it_stood() {
    let stage = Stage::new(
        r#"
        [[turn]]
        steps = [{ call = "Bash", input = { command = "mkdir sub; cd sub" } }]
        [[turn]]
        steps = [{ text = "moved" }]
        [[turn]]
        steps = [{ call = "Bash", input = { command = "pwd" } }]
        [[turn]]
        steps = [{ text = "{{result.1}}" }]
        "#,
    );
    stage.run(&["-p", "go", "--allowedTools", "Bash"]).check_ok();
    let done = stage.run(&["-p", "where?", "--continue", "--allowedTools", "Bash"]);
    assert_eq!(done.check_ok().stdout.trim(), stage.repo.join("sub").to_str().unwrap());
}

#[test]
fn lines_have_the_shape_public_readers_know() {
    let stage = Stage::new(
        r#"
        [[turn]]
        steps = [{ text = "t" }, { call = "Read", id = "c1", input = { file_path = "a.txt" } }, { call = "Read", id = "c2", input = { file_path = "b.txt" } }]
        [[turn]]
        steps = [{ text = "end" }]
        "#,
    );
    let session = "11111111-2222-4333-8444-555555555555";
    stage.run(&["-p", "go", "--session-id", session]).check_ok();
    assert!(stage.transcript().ends_with(format!("{session}.jsonl")));
    let lines = lines(&stage);
    let is_message = |line: &&Json| line["type"] == "user" || line["type"] == "assistant";
    let messages: Vec<&Json> = lines.iter().filter(is_message).collect();
    let kinds: Vec<&str> = messages.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "assistant").count(), 4);
    for line in &messages {
        for key in [
            "uuid",
            "sessionId",
            "timestamp",
            "cwd",
            "version",
            "userType",
            "entrypoint",
            "message",
            "isSidechain",
        ] {
            assert!(!line[key].is_null(), "{key} in {line}");
        }
        assert_eq!(line["sessionId"], session);
    }
    let entry_of = |id: &str| {
        messages.iter().find(|line| line["message"]["content"][0]["id"] == id).unwrap()["uuid"].clone()
    };
    for id in ["c1", "c2"] {
        let result = messages.iter().find(|line| line["message"]["content"][0]["tool_use_id"] == id).unwrap();
        assert_eq!(
            (&result["parentUuid"], &result["sourceToolAssistantUUID"]),
            (&entry_of(id), &entry_of(id))
        );
        assert!(result["toolUseResult"]["file"]["filePath"].is_string());
    }
    assert_eq!(messages[0]["parentUuid"], json!(null));
    let last = &lines[lines.len() - 1];
    assert_eq!((&last["type"], &last["lastPrompt"]), (&json!("last-prompt"), &json!("go")));
    assert_eq!(last["leafUuid"], messages[messages.len() - 1]["uuid"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(stage.transcript().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_killed_process_leaves_a_session_that_goes_on_truthfully() {
    let stage = Stage::new(
        r#"
        [[turn]]
        steps = [{ call = "Bash", id = "c", input = { command = "echo ran > ran.txt; sleep 60" } }]
        [[turn]]
        steps = [{ text = "{{result.c}}" }]
        "#,
    );
    let mut child = stage.spawn(&["-p", "go", "--allowedTools", "Bash"]);
    while !stage.repo.has("ran.txt") {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // The command does not outlive the process that started it, however that ends.
    while !process::running_in(stage.repo.path()).is_empty() {
        std::thread::yield_now();
    }
    let done = stage.run(&["-p", "what happened?", "--continue"]);
    assert!(done.check_ok().stdout.contains("outcome unknown"), "{}", done.stdout);
    stage.server.assert_valid_histories();
    assert_eq!(stage.server.requests().len(), 2, "nothing was silently run again");
}

#[test]
fn a_copy_goes_on_while_a_command_of_the_original_runs() {
    let stage = Stage::new(
        r#"
        [[turn]]
        steps = [{ call = "Bash", input = { command = "echo ran > ran.txt; sleep 60" } }]
        [[turn]]
        steps = [{ text = "from the copy" }]
        "#,
    );
    let mut child = stage.spawn(&["-p", "go", "--allowedTools", "Bash"]);
    while !stage.repo.has("ran.txt") {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::yield_now();
    }
    let copy = stage.command(&["-p", "me too", "--continue", "--fork-session"]).output().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    while !process::running_in(stage.repo.path()).is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(String::from_utf8_lossy(&copy.stdout), "from the copy\n", "{copy:?}");
    stage.server.assert_valid_histories();
}

#[test]
fn damaged_lines_cost_only_themselves() {
    let stage = Stage::new(TALK);
    stage.run(&["-p", "remember 42"]).check_ok();
    let path = stage.transcript();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend(b"{\"type\":\"user\",\"mess\n\0\0\0\0\n{\"type\":\"from-the-future\",\"x\":1}\n{\"type\":\"assistant\",\"torn");
    std::fs::write(&path, bytes).unwrap();
    let done = stage.run(&["-p", "what was it?", "--continue"]);
    assert_eq!(done.check_ok().stdout, "you said what was it?\n");
    assert!(done.stderr.contains("cannot be read and was left out"), "{}", done.stderr);
    assert!(done.stderr.contains("only zero bytes"), "{}", done.stderr);
    let health = stage.run(&["session", "fsck"]);
    assert!(health.stdout.contains("only zero bytes"), "{}{}", health.stdout, health.stderr);
    let last = stage.server.requests()[1].body_json();
    assert_eq!(last["messages"].as_array().unwrap().len(), 3, "the conversation before the damage is whole");
    let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
    assert!(text.contains("\"torn\n{"), "the torn line was closed before the next was written");
}

#[test]
fn one_writer_per_session() {
    let stage = Stage::new(
        "[[turn]]\nsteps = [{ text = 'a' }, { pause_ms = 1500 }]\n[[turn]]\nsteps = [{ text = 'b' }]",
    );
    let id = "11111111-2222-4333-8444-555555555555";
    let child = stage.spawn(&["-p", "long", "--session-id", id]);
    while stage.server.requests().is_empty() {
        std::thread::yield_now();
    }
    let second = stage.run(&["-p", "me too", "--resume", id]);
    assert_eq!(second.code, Some(1));
    let held = format!("open in another process (process {} on ", child.id());
    assert!(second.stderr.contains(&held), "{}", second.stderr);
    assert!(second.stderr.contains("--fork-session"), "{}", second.stderr);
    assert!(child.wait_with_output().unwrap().status.success());
    let existing = stage.run(&["-p", "x", "--session-id", id]);
    assert!(existing.stderr.contains("exists already"), "{}", existing.stderr);
}

#[test]
fn a_session_that_cannot_be_written_runs_nothing() {
    let stage = Stage::new("[[turn]]\nsteps = [{ text = 'a' }]");
    stage.home.write("file", "");
    let blocked = stage.home.join("file/below").display().to_string();
    let stage = stage.with_env("OSTLER_CONFIG_DIR", &blocked);
    let frames = stage.frames(&[]);
    assert_eq!((frames.code, &frames.result()["subtype"]), (Some(1), &json!("error_during_execution")));
    assert!(frames.result().to_string().contains("cannot write the session log"), "{}", frames.result());
    assert!(stage.server.requests().is_empty(), "nothing was asked or run");
    let done = stage.run(&["-p", "hi", "--no-session-persistence"]);
    assert_eq!(done.check_ok().stdout, "a\n");
}

#[test]
fn no_persistence_writes_nothing() {
    let stage = Stage::new(TALK);
    stage.run(&["-p", "hi", "--no-session-persistence"]).check_ok();
    assert!(stage.transcripts().is_empty());
}

#[test]
fn when_the_disk_is_waited_for_is_a_setting() {
    let stage = Stage::new(TALK);
    for value in ["turn", "strict", "off"] {
        let settings = json!({"session": {"fsync": value}}).to_string();
        stage.run(&["-p", "hi", "--settings", &settings]).check_ok();
    }
    let wrong = stage.run(&["-p", "hi", "--settings", r#"{"session": {"fsync": "sometimes"}}"#]);
    assert!(wrong.stderr.contains("sometimes"), "{}", wrong.stderr);
    assert_eq!(stage.transcripts().len(), 3);
}
