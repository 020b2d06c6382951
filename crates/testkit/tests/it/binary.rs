//! The program: what it prints, logs and refuses.
#![expect(clippy::disallowed_methods, reason = "the program under test is a process with files")]

use crate::anthropic;
use ostler_testkit::TempRepo;
use serde_json::Value;
use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Output, Stdio},
};

/// A running program, killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ostler-testkit"))
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

#[tokio::test]
async fn it_serves_a_script_again_and_again_and_logs() {
    let repo = TempRepo::new(&[("script.toml", "[[turn]]\nsteps = [{ text = 'in {{cwd}}' }]\n")]);
    let mut child = program()
        .args(["serve", "script.toml", "--loop", "--cwd", "/somewhere", "--log", "log.jsonl"])
        .current_dir(repo.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let running = Running(child);
    let url = lines.next().unwrap().strip_prefix("ANTHROPIC_BASE_URL=").unwrap().to_owned();
    assert_eq!(lines.next().unwrap(), format!("OPENAI_BASE_URL={url}/v1"));
    for number in 1..=2 {
        let request = crate::client().post(format!("{url}/v1/messages")).header("x-api-key", "secret");
        let response = request.body(anthropic("go").to_string()).send().await.unwrap();
        assert!(response.text().await.unwrap().contains("in /somewhere"));
        let line = lines.next().unwrap();
        assert!(line.starts_with(&format!("{number} POST /v1/messages: turn 1 (1 messages, ")), "{line}");
    }
    // A further request's line shows that the log of those before is written.
    crate::client().get(format!("{url}/elsewhere")).send().await.unwrap();
    assert_eq!(lines.next().unwrap().split(':').next(), Some("3 GET /elsewhere"));
    let log = repo.read("log.jsonl");
    let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!((&first["body"], first["turn"].as_u64()), (&anthropic("go"), Some(1)));
    assert!(!log.contains("secret"));
    drop(running);
}

#[test]
fn a_bad_script_is_refused_with_its_line() {
    let repo = TempRepo::new(&[("bad.toml", "[[turn]]\nsteps = [{ says = 'hi' }]\n")]);
    let output = run(&["serve", repo.join("bad.toml").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let problem = String::from_utf8(output.stderr).unwrap();
    assert!(problem.contains("bad.toml:2: step 1 of turn 1 is none"), "{problem}");
}

#[test]
fn wrong_arguments_are_explained() {
    let refused = |arguments: &[&str], expected: &str| {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(1));
        let problem = String::from_utf8(output.stderr).unwrap();
        assert!(problem.contains(expected), "{problem}");
    };
    refused(&[], "usage:");
    refused(&["serve"], "needs a script");
    refused(&["serve", "/no/such/file"], "cannot read /no/such/file");
    refused(&["serve", "a", "b"], "more than one script");
    refused(&["serve", "a", "--port", "many"], "--port many: not a port");
    refused(&["serve", "a", "--fast"], "there is no --fast");
}

#[test]
fn the_example_is_printed_whole() {
    assert_eq!(String::from_utf8(run(&["example"]).stdout).unwrap(), ostler_testkit::EXAMPLE);
}
