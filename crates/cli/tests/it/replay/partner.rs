//! A program that talks with the binary while it works: it answers questions, interrupts, and says more in between.

use crate::stage::Stage;
use ostler_proto::Json;
use serde_json::json;
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

pub(super) struct Partner {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Partner {
    pub(super) fn start(stage: &Stage, more: &[&str]) -> Self {
        let protocol = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
        let words = [&protocol[..], &["--permission-prompt-tool", "stdio"], more].concat();
        let mut child = stage.command(&words).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    pub(super) fn say(&mut self, text: &str, id: &str) {
        self.send(&json!({"type": "user", "uuid": id, "message": {"role": "user", "content": text}}));
    }

    pub(super) fn interrupt(&mut self) {
        self.request(&json!({"subtype": "interrupt"}));
    }

    /// Asks for something beside the conversation.
    pub(super) fn request(&mut self, request: &Json) {
        self.send(&json!({"type": "control_request", "request_id": "r", "request": request}));
    }

    /// Answers a question of the binary's.
    pub(super) fn answer(&mut self, question: &Json, response: &Json) {
        let response =
            json!({"subtype": "success", "request_id": question["request_id"], "response": response});
        self.send(&json!({"type": "control_response", "response": response}));
    }

    /// The next frame; none at the end.
    pub(super) fn hear(&mut self) -> Option<Json> {
        let mut line = String::new();
        let length = self.stdout.read_line(&mut line).unwrap();
        (length > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    /// Reads up to a frame of this type.
    #[track_caller]
    pub(super) fn until(&mut self, kind: &str) -> Json {
        loop {
            let frame = self.hear().unwrap_or_else(|| panic!("it ended before a {kind}"));
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// Says nothing more and hears the rest.
    pub(super) fn leave(mut self) {
        drop(self.stdin.take());
        while self.hear().is_some() {}
        self.child.wait().unwrap();
    }

    fn send(&mut self, line: &Json) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}
