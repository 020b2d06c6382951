//! Requests extend each other or it is on record why not; what fills the window can be asked; the model is reminded
//! of what it would not see by itself.

mod reminders;

use crate::stage::{Done, Stage};
use ostler_proto::Json;
use serde_json::json;
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

/// Answers for a short talk, with a call in the first turn.
const TALK: &str = r#"
[[turn]]
steps = [{ text = "Looking." }, { call = "Read", input = { file_path = "{{cwd}}/a.txt" } }]
[[turn]]
steps = [{ text = "seen" }]
[[turn]]
steps = [{ text = "again" }]
[[turn]]
steps = [{ text = "and again" }]
"#;

/// A host that talks with the binary line by line.
pub(crate) struct Host {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Host {
    pub(crate) fn start(stage: &Stage, more: &[&str]) -> Self {
        let mut args = vec!["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
        args.extend(more);
        let mut child = stage.command(&args).stdin(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    pub(crate) fn say(&mut self, line: &Json) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    /// Reads up to the next frame of a kind.
    pub(crate) fn until(&mut self, kind: &str) -> Json {
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "it ended before a {kind}");
            let frame: Json = serde_json::from_str(&line).unwrap();
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    pub(crate) fn turn(&mut self, text: &str) -> Json {
        self.say(&json!({"type": "user", "message": {"role": "user", "content": text}}));
        self.until("result")
    }

    pub(crate) fn context_usage(&mut self) -> Json {
        let request = json!({"subtype": "get_context_usage"});
        self.say(&json!({"type": "control_request", "request_id": "q", "request": request}));
        self.until("control_response")["response"]["response"].clone()
    }

    pub(crate) fn end(mut self) {
        drop(self.stdin);
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut self.stdout, &mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

/// The cache breaks on record.
fn breaks(stage: &Stage) -> Vec<Json> {
    let text = std::fs::read_to_string(stage.transcript()).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let data = lines.filter(|line| line["type"] == "ostler").map(|line| line["data"].clone());
    data.filter(|data| data["event"] == "cache_broken").collect()
}

#[track_caller]
fn check_break(stage: &Stage, cause: &str) -> Json {
    let breaks = breaks(stage);
    assert_eq!(breaks.len(), 1, "{breaks:?}");
    assert_eq!(breaks[0]["by"]["cause"], cause);
    assert!(breaks[0]["bytes"].as_u64().unwrap() > 0, "{breaks:?}");
    assert!(breaks[0]["est_cost_usd"].as_f64().unwrap() > 0.0, "{breaks:?}");
    breaks[0].clone()
}

fn parsed(done: &Done) -> Json {
    serde_json::from_str(&done.check_ok().stdout).unwrap()
}

#[test]
fn a_resumed_session_extends_its_last_request() {
    let stage = Stage::new(TALK);
    stage.run(&["-p", "go", "--forbid-cache-break"]).check_ok();
    stage.run(&["-p", "/context", "--continue", "--forbid-cache-break"]).check_ok();
    stage.run(&["-p", "more", "--continue", "--forbid-cache-break"]).check_ok();
    // Another prompt given now does not count: the recorded one is part of what was sent.
    stage
        .run(&["-p", "more", "--continue", "--forbid-cache-break", "--append-system-prompt", "Be kind."])
        .check_ok();
    assert_eq!(stage.server.requests().len(), 4);
    stage.server.assert_append_only();
    assert_eq!(breaks(&stage), Vec::<Json>::new());
}

#[test]
fn another_model_breaks_the_cache_on_record_and_may_be_forbidden() {
    let stage = Stage::new(TALK);
    let mut host = Host::start(&stage, &[]);
    host.turn("go");
    host.turn("/model claude-haiku-4-5");
    host.turn("more");
    let usage = host.context_usage();
    host.end();
    let broken = check_break(&stage, "model_changed");
    assert_eq!(broken["by"]["to"], "claude-haiku-4-5");
    assert_eq!(usage["cacheBreaks"][0]["by"], broken["by"]);
    assert_eq!(stage.server.requests().len(), 3);

    let frames = stage.frames(&["--continue", "--forbid-cache-break", "--model", "claude-sonnet-4-5"]);
    assert_eq!((frames.code, &frames.result()["subtype"]), (Some(1), &json!("error_during_execution")));
    let why = frames.result().to_string();
    assert!(why.contains("the model changed from claude-haiku-4-5 to claude-sonnet-4-5"), "{why}");
    assert_eq!(stage.server.requests().len(), 3, "nothing was sent");
    assert_eq!(breaks(&stage).len(), 1, "what was not sent broke nothing");
}

#[test]
fn what_else_breaks_the_cache_is_told_apart() {
    let check = |first: &[&str], then: &[&str], cause: &str| {
        let stage = Stage::new(TALK);
        stage.run(&[&["-p", "go"], first].concat()).check_ok();
        stage.run(&[&["-p", "more", "--continue"], then].concat()).check_ok();
        check_break(&stage, cause);
        let shown = stage.run(&["context"]);
        assert!(shown.check_ok().stdout.contains("Cache lost 20"), "{}", shown.stdout);
    };
    check(&[], &["--tools", "Read"], "tools_changed");
    check(&[], &["--effort", "low"], "manner_changed");
    let fresh = ["--system-prompt-snapshot", "off", "--append-system-prompt", "Be kind."];
    check(&[], &fresh, "system_changed");
}

#[test]
fn an_edited_log_and_a_rewound_one_are_told_apart() {
    let stage = Stage::new(TALK);
    stage.run(&["-p", "go"]).check_ok();
    let path = stage.transcript();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("Looking."));
    std::fs::write(&path, text.replace("Looking.", "Hm.")).unwrap();
    stage.run(&["-p", "more", "--continue"]).check_ok();
    check_break(&stage, "history_edited");

    let stage = Stage::new(
        r#"
        [[turn]]
        steps = [{ text = "hello" }]
        [[turn]]
        steps = [{ call = "Write", input = { file_path = "{{cwd}}/new.txt", content = "n" } }]
        [[turn]]
        steps = [{ text = "written" }]
        [[turn]]
        steps = [{ text = "else" }]
        "#,
    );
    stage.run(&["-p", "hi"]).check_ok();
    stage.run(&["-p", "write", "--continue", "--permission-mode", "acceptEdits"]).check_ok();
    stage.run(&["rewind", "--to", "1", "--conversation"]).check_ok();
    stage.run(&["-p", "else", "--continue"]).check_ok();
    check_break(&stage, "rewind");
}

#[test]
fn the_fresh_prompt_of_a_resumed_session_is_the_recorded_one_from_then_on() {
    let stage = Stage::new(TALK);
    stage.run(&["-p", "go"]).check_ok();
    let fresh = ["--system-prompt-snapshot", "off", "--append-system-prompt", "Be kind."];
    stage.run(&[&["-p", "more", "--continue"], &fresh[..]].concat()).check_ok();
    stage.run(&["-p", "more", "--continue", "--forbid-cache-break"]).check_ok();
    let last = stage.server.requests().last().unwrap().body_json();
    assert!(last["system"].to_string().contains("Be kind."), "{}", last["system"]);
}

#[test]
fn dynamic_sections_may_stand_in_the_first_message() {
    let stage = Stage::new(TALK);
    stage.run(&["-p", "go", "--exclude-dynamic-system-prompt-sections", "--forbid-cache-break"]).check_ok();
    stage.run(&["-p", "on", "--continue", "--exclude-dynamic-system-prompt-sections"]).check_ok();
    let cwd = stage.repo.path().to_str().unwrap();
    let requests = stage.server.requests();
    for request in &requests {
        let body = request.body_json();
        assert!(!body["system"].to_string().contains(cwd), "{}", body["system"]);
        let first = body["messages"][0].to_string();
        assert!(first.contains(cwd) && first.contains("<system-reminder>"), "{first}");
    }
    let last = requests.last().unwrap().body_json()["messages"].to_string();
    assert_eq!(last.matches("Working directory: ").count(), 1, "it is said once: {last}");
    stage.server.assert_append_only();
    assert_eq!(breaks(&stage), Vec::<Json>::new());
}

#[test]
fn marks_stand_on_the_boundaries_unless_caching_is_off() {
    let stage = Stage::new(TALK);
    stage.run(&["-p", "go"]).check_ok();
    let body = stage.server.requests()[1].body_json();
    let marked = |part: &Json| part.get("cache_control").is_some();
    let system: Vec<bool> = body["system"].as_array().unwrap().iter().map(marked).collect();
    assert_eq!(system, [false, true, false, true], "what all sessions share, and what this one has");
    assert_eq!(body.to_string().matches("cache_control").count(), 3);

    let stage = Stage::new(TALK).with_env("DISABLE_PROMPT_CACHING", "1");
    stage.run(&["-p", "go"]).check_ok();
    assert!(!stage.server.requests()[1].body_json().to_string().contains("cache_control"));
}

#[test]
fn what_fills_the_window_can_be_asked_in_three_ways() {
    let stage = Stage::new(TALK);
    let mut host = Host::start(&stage, &[]);
    let before = host.context_usage();
    assert_eq!(before["apiUsage"], Json::Null);
    host.turn("go");
    let usage = host.context_usage();
    host.say(&json!({"type": "user", "message": {"role": "user", "content": "/context"}}));
    assert_eq!(host.until("assistant")["context_usage"], usage, "programs get the figures beside the words");
    let said = host.until("result")["result"].as_str().unwrap().to_owned();
    host.end();
    let number = |value: &Json| value.as_u64().unwrap_or_else(|| panic!("{value}"));
    let charged = number(&usage["apiUsage"]["input_tokens"])
        + number(&usage["apiUsage"]["cache_read_input_tokens"])
        + number(&usage["apiUsage"]["cache_creation_input_tokens"]);
    let total = number(&usage["totalTokens"]);
    // The last answer came on top of what was charged for.
    assert!(total > charged && total < charged + 30, "{total} for {charged}");
    let sum: u64 = usage["categories"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|part| !["Free space", "Reserved for the answer"].contains(&part["name"].as_str().unwrap()))
        .map(|part| number(&part["tokens"]))
        .sum();
    assert_eq!(sum, total);
    assert_eq!((&usage["rawMaxTokens"], &usage["maxTokens"]), (&json!(200_000), &json!(180_000)));
    let of_read = &usage["messageBreakdown"]["toolCallsByType"][0];
    assert!(of_read["name"] == "Read" && number(&of_read["resultTokens"]) > 0, "{of_read}");
    let sections = usage["systemPromptSections"].as_array().unwrap();
    assert_eq!(sections[2]["name"], "Surroundings");
    assert!(said.contains("results of Read") && said.contains("Last request: "), "{said}");

    let id = stage.transcript().file_stem().unwrap().to_str().unwrap().to_owned();
    assert_eq!(parsed(&stage.run(&["context", &id, "--json"])), usage);
    assert_eq!(stage.run(&["context"]).check_ok().stdout, said + "\n");
    let other = parsed(&stage.run(&["context", "--json", "--model", "claude-opus-5-5"]));
    assert_eq!(other["rawMaxTokens"], 1_000_000);
}

#[test]
fn instructions_and_the_place_of_compaction_are_in_the_account() {
    let stage = Stage::new(TALK);
    stage.repo.write("AGENTS.md", "Use tabs.");
    let mut host = Host::start(&stage, &["--autocompact", "100000"]);
    host.turn("go");
    let usage = host.context_usage();
    host.end();
    let file = &usage["memoryFiles"][0];
    assert!(file["path"].as_str().unwrap().ends_with("/AGENTS.md"), "{file}");
    assert!(file["type"] == "Project" && file["tokens"].as_u64() > Some(0), "{file}");
    assert_eq!(
        (&usage["isAutoCompactEnabled"], &usage["autoCompactThreshold"]),
        (&json!(true), &json!(70_000))
    );
    let shown = stage.run(&["context"]);
    assert!(shown.check_ok().stdout.contains("AGENTS.md (Project)"), "{}", shown.stdout);
    stage.home.write(".ostler/settings.json", r#"{"autoCompactEnabled": false}"#);
    let never = parsed(&stage.run(&["context", "--json"]));
    assert_eq!(never["isAutoCompactEnabled"], false);
}

#[test]
fn a_folder_without_sessions_shows_what_a_new_one_would_begin_with() {
    let stage = Stage::new(TALK);
    let usage = parsed(&stage.run(&["context", "--json", "--model", "claude-sonnet-4-5"]));
    assert_eq!(usage["messageBreakdown"]["userMessageTokens"], 0);
    assert!(usage["systemTools"].as_array().unwrap().iter().any(|tool| tool["name"] == "Bash"));
    assert!(stage.transcripts().is_empty());
    let unknown = stage.run(&["context", "11111111-2222-4333-8444-555555555555"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("no conversation found"), "{}", unknown.stderr);
}
