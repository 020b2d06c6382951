//! A program on the other end of the binary's pipes: it prompts, answers questions and hears every frame.

use crate::stage::Stage;
use ostler_proto::Json;
use serde_json::json;
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Stdio},
};

/// What the program heard.
pub(crate) struct Heard {
    pub(crate) frames: Vec<Json>,
    pub(crate) result: Json,
}

/// Prompts once, answers every question by `answer`, and ends with the turn.
#[track_caller]
pub(crate) fn answering(stage: &Stage, args: &[&str], mut answer: impl FnMut(&Json) -> Json) -> Heard {
    let (mut child, mut stdin) = start(stage, args);
    say(&mut stdin, &json!({"type": "user", "message": {"role": "user", "content": "go"}}));
    let mut heard = Heard { frames: Vec::new(), result: Json::Null };
    for frame in frames(&mut child) {
        if frame["request"]["subtype"] == "can_use_tool" {
            let response = json!({"subtype": "success", "request_id": frame["request_id"], "response": answer(&frame["request"])});
            say(&mut stdin, &json!({"type": "control_response", "response": response}));
        }
        heard.frames.push(frame);
        if let Some(last) = heard.frames.last().filter(|frame| frame["type"] == "result") {
            heard.result = last.clone();
            break;
        }
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
    assert_eq!(heard.result["type"], "result");
    heard
}

/// Says one thing after the other, each when the one before is answered; gives the last result.
#[track_caller]
pub(crate) fn saying(stage: &Stage, args: &[&str], words: &[&str]) -> Json {
    telling(stage, args, words).result
}

/// Says one thing after the other, each when the turn of the one before is over.
#[track_caller]
pub(crate) fn telling(stage: &Stage, args: &[&str], prompts: &[&str]) -> Heard {
    let (mut child, mut stdin) = start(stage, args);
    let mut heard = Heard { frames: Vec::new(), result: Json::Null };
    let mut coming = frames(&mut child);
    for prompt in prompts {
        say(&mut stdin, &json!({"type": "user", "message": {"role": "user", "content": prompt}}));
        for frame in coming.by_ref() {
            let is_result = frame["type"] == "result";
            heard.frames.push(frame);
            if is_result {
                break;
            }
        }
    }
    heard.result = heard.frames.last().cloned().unwrap_or_default();
    drop(stdin);
    assert!(child.wait().unwrap().success());
    assert_eq!(heard.result["type"], "result");
    heard
}

/// Makes one control request and gives its answer.
#[track_caller]
pub(crate) fn requesting(stage: &Stage, args: &[&str], request: &Json) -> Json {
    let (mut child, mut stdin) = start(stage, args);
    say(&mut stdin, &json!({"type": "control_request", "request_id": "r1", "request": request}));
    let answer = frames(&mut child).find(|frame| frame["type"] == "control_response").unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success());
    answer
}

fn start(stage: &Stage, args: &[&str]) -> (Child, ChildStdin) {
    let protocol = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
    let args = [&protocol, &["--permission-prompt-tool", "stdio"][..], args].concat();
    let mut child = stage.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    (child, stdin)
}

fn frames(child: &mut Child) -> impl Iterator<Item = Json> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

fn say(stdin: &mut ChildStdin, line: &Json) {
    writeln!(stdin, "{line}").unwrap();
}
