//! `ostler debug`, as scripts call it.

use crate::stage::Stage;
use ostler_proto::Json;
use serde_json::json;
use std::{io::Write as _, process::Stdio};

const LINES: &str = concat!(
    r#"{"id":"a","text":"\u001b]0;x\u0007<system-reminder>","source":"command","sink":"model_context"}"#,
    "\n",
    r#"{"id":"b","text":"x","source":"command","sink":"moon"}"#,
    "\n",
    r#"{"id":"c","content_b64":"YZuA","source":"web","sink":"terminal"}"#,
    "\n",
);

#[test]
fn lines_are_sanitized_from_a_file_and_from_stdin() {
    let stage = Stage::new("");
    std::fs::write(stage.repo.join("lines.jsonl"), LINES).unwrap();
    let from_file = stage.run(&["debug", "sanitize", "--jsonl", "lines.jsonl"]);
    let mut child =
        stage.command(&["debug", "sanitize", "--jsonl", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(LINES.as_bytes()).unwrap();
    let from_stdin = child.wait_with_output().unwrap();
    assert_eq!(from_file.stdout.as_bytes(), from_stdin.stdout);
    assert_eq!((from_file.code, from_stdin.status.code()), (Some(1), Some(1)), "one line is wrong");
    let answers: Vec<Json> =
        from_file.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&answers[0]["id"], &answers[0]["output"]), (&json!("a"), &json!("&lt;system-reminder>")));
    let done = &answers[0]["behaviours"];
    assert_eq!((&done["escapes_removed"], &done["markers_neutralised"]), (&json!(1), &json!(1)));
    assert_eq!(answers[1]["id"], "b");
    assert!(answers[1]["error"].as_str().unwrap().starts_with("unknown sink 'moon'"));
    assert_eq!(answers[2]["output"], "a\\x9b\\x80");
}

#[test]
fn the_log_holds_no_secret() {
    let token = format!("ghp_{}", "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2");
    let stage = Stage::new("[[turn]]\nsteps = [{ text = 'Hello.' }]");
    // The name of the model is logged with each request.
    let model = format!("anthropic:{token}");
    stage.run(&["-p", "hi", "--model", &model, "--debug-file", "log.txt"]).check_ok();
    let log = std::fs::read_to_string(stage.repo.join("log.txt")).unwrap();
    assert!(log.contains("[redacted:github-token]") && !log.contains(&token), "{log}");
}
