//! Answers that stop short, models that will not answer, agents that go in circles, and what the user says
//! in the meantime: each way on is bounded, told, and leaves a sound history.

use crate::stage::{APIS, Done, Stage};
use ostler_proto::Json;
use ostler_testkit::process;
use serde_json::json;
use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

/// The texts of the notices of a run.
fn notices(frames: &[Json]) -> Vec<&str> {
    let told = frames.iter().filter(|frame| frame["subtype"] == "informational");
    told.filter_map(|frame| frame["content"].as_str()).collect()
}

#[test]
fn an_answer_that_hits_the_output_limit_goes_on_and_is_one_answer() {
    for api in APIS {
        let stage = Stage::speaking(
            api,
            "[[turn]]\nstop = 'max_tokens'\nsteps = [{ text = 'one two th' }]\n[[turn]]\nexpect = ['Go on from exactly where it stopped']\nsteps = [{ text = 'ree four' }]",
        );
        let frames = stage.frames(&[]);
        assert_eq!(frames.result()["result"], "one two three four", "{api:?} {}", frames.stderr);
        assert!(notices(&frames.all)[0].contains("output limit"), "{api:?}");
        stage.server.assert_no_failures();
        stage.server.assert_valid_histories();
        stage.server.assert_append_only();
    }
}

#[test]
fn three_continuations_are_enough() {
    let stage =
        Stage::new("[[turn]]\nwire = { repeat = 99 }\nstop = 'max_tokens'\nsteps = [{ text = 'and on ' }]");
    let frames = stage.frames(&[]);
    let result = frames.result();
    assert_eq!((frames.code, &result["is_error"]), (Some(1), &json!(true)), "{result}");
    assert!(result["result"].as_str().unwrap().contains("output token maximum"), "{result}");
    assert_eq!(stage.server.requests().len(), 4);
    let error = frames.all.iter().find(|frame| frame["is_api_error_message"] == true).unwrap();
    assert_eq!(error["error"], "max_output_tokens");
    stage.check_resumable();
}

#[test]
fn a_call_that_was_cut_off_is_not_run_and_not_tried_for_ever() {
    let cut = r#"[[turn]]
wire = { repeat = 99 }
stop = "max_tokens"
steps = [{ call = "Write", raw = "{\"file_path\": \"w.txt\", \"content\": \"half" }]"#;
    let stage = Stage::new(cut);
    let frames = stage.frames(&["--permission-mode", "acceptEdits"]);
    assert!(!stage.repo.has("w.txt"));
    assert_eq!(stage.server.requests().len(), 4);
    assert!(frames.tool_results().iter().all(|text| text.contains("cut off")), "{:?}", frames.tool_results());
    assert_eq!(frames.code, Some(1));
    stage.server.assert_valid_histories();
}

#[test]
fn a_whole_call_runs_even_if_the_answer_behind_it_was_cut() {
    let stage = Stage::new(
        "[[turn]]\nstop = 'max_tokens'\nsteps = [{ call = 'Write', input = { file_path = 'w.txt', content = 'x' } }, { text = 'and th' }]\n[[turn]]\nsteps = [{ text = 'done' }]",
    );
    let done = stage.run(&["-p", "go", "--permission-mode", "acceptEdits"]);
    assert_eq!(done.check_ok().stdout, "done\n");
    assert_eq!(stage.repo.read("w.txt"), "x");
    stage.server.assert_valid_histories();
}

#[test]
fn a_refusal_is_asked_about_once_and_then_said_plainly() {
    let refusal = "[[turn]]\nstop = 'refusal'\nsteps = []";
    let helped =
        Stage::new(&format!("{refusal}\n[[turn]]\nexpect = ['refusal']\nsteps = [{{ text = 'a part' }}]"));
    assert_eq!(helped.run(&["-p", "go"]).check_ok().stdout, "a part\n");
    let stage = Stage::new(&format!("{refusal}\n{refusal}"));
    let frames = stage.frames(&[]);
    assert_eq!((frames.code, stage.server.requests().len()), (Some(1), 2));
    let result = frames.result();
    assert!(result["result"].as_str().unwrap().contains("will not answer"), "{result}");
    stage.server.assert_valid_histories();
}

#[test]
fn pauses_of_the_server_are_bounded() {
    let stage =
        Stage::new("[[turn]]\nwire = { repeat = 99 }\nstop = 'pause_turn'\nsteps = [{ text = 'wait' }]");
    let frames = stage.frames(&[]);
    assert_eq!((frames.code, stage.server.requests().len()), (Some(1), 9));
    assert!(frames.result()["result"].as_str().unwrap().contains("paused"));
}

#[test]
fn a_context_that_is_full_is_made_shorter_and_the_turn_goes_on() {
    let stage = Stage::new(
        "[[turn]]\nstop = 'model_context_window_exceeded'\nsteps = [{ text = 'as far as' }]\n\
         [[turn]]\nsteps = [{ text = 'what was said so far' }]\n\
         [[turn]]\nexpect = ['Go on from exactly where it stopped']\nsteps = [{ text = 'done' }]\n\
         [[turn]]\nsteps = [{ text = 'on' }]",
    );
    let frames = stage.frames(&[]);
    assert_eq!((frames.code, frames.result()["result"].as_str()), (Some(0), Some("done")));
    assert!(frames.kinds().contains("system/compact_boundary"), "{}", frames.kinds());
    let last = stage.server.requests()[2].body_json().to_string();
    assert!(last.contains("what was said so far"), "{last}");
    stage.check_resumable();
}

const OVERLOADED: &str =
    "[[turn]]\nwire = { status = 529, repeat = 2, headers = { retry-after-ms = '1' } }\n";

#[test]
fn after_three_overloads_another_model_is_asked_until_the_next_turn() {
    let stage = Stage::new(&format!(
        "{OVERLOADED}[[turn]]\nsteps = [{{ text = 'from the second' }}]\n[[turn]]\nsteps = [{{ text = 'from the first' }}]"
    ));
    let mut dialogue = Dialogue::start(&stage, &["--fallback-model", "claude-haiku-4-5,claude-opus-4-5"]);
    dialogue.say("one");
    assert_eq!(dialogue.result()["result"], "from the second");
    dialogue.say("two");
    let frames = dialogue.end();
    let last = frames.last().unwrap();
    assert_eq!(
        (&last["result"], last["modelUsage"].as_object().unwrap().len()),
        (&json!("from the first"), 2)
    );
    let models: Vec<String> = stage
        .server
        .requests()
        .iter()
        .map(|request| request.body_json()["model"].as_str().unwrap().to_owned())
        .collect();
    let first = "claude-sonnet-4-5";
    assert_eq!(models, [first, first, first, "claude-haiku-4-5", first]);
    let log = std::fs::read_to_string(stage.transcript()).unwrap();
    assert!(log.contains(r#""because":{"fallback":{"reason":"the API answered 529"#), "{log}");
    assert!(log.contains(r#""because":"restored""#));
}

#[test]
fn a_fallback_is_no_choice_for_the_next_run() {
    let stage = Stage::new(&format!(
        "{OVERLOADED}[[turn]]\nsteps = [{{ text = 'second' }}]\n[[turn]]\nsteps = [{{ text = 'first' }}]"
    ));
    stage.home.write(".ostler/settings.json", r#"{"fallbackModel": ["claude-haiku-4-5"]}"#);
    let done = stage.run(&["-p", "go"]);
    assert_eq!(done.check_ok().stdout, "second\n");
    assert!(
        done.stderr.contains("claude-haiku-4-5 is asked instead of claude-sonnet-4-5"),
        "{}",
        done.stderr
    );
    let args = ["--continue", "--print", "on"];
    assert_eq!(stage.run(&args).check_ok().stdout, "first\n");
    assert_eq!(stage.server.requests()[4].body_json()["model"], "claude-sonnet-4-5");
}

#[test]
fn a_model_that_is_not_there_is_replaced_and_a_wrong_name_found_at_the_start() {
    let missing = "[[turn]]\nwire = { status = 404 }\n[[turn]]\nsteps = [{ text = 'instead' }]";
    let stage = Stage::new(missing);
    let done = stage.run(&["-p", "go", "--fallback-model", "claude-haiku-4-5"]);
    assert_eq!(done.check_ok().stdout, "instead\n");
    let done = stage.run(&["-p", "go", "--fallback-model", "script:no-such-file.toml"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("--fallback-model"), "{}", done.stderr);
}

#[test]
fn the_last_model_of_the_list_is_tried_to_the_end() {
    let stage =
        Stage::new("[[turn]]\nwire = { status = 503, repeat = 99, headers = { retry-after-ms = '1' } }")
            .with_env("CLAUDE_CODE_MAX_RETRIES", "4");
    let frames = stage.frames(&["--fallback-model", "claude-haiku-4-5"]);
    assert_eq!((frames.code, stage.server.requests().len()), (Some(1), 3 + 5));
    assert_eq!(frames.result()["api_error_status"], 503);
}

#[test]
fn an_agent_that_goes_in_circles_is_stopped_where_nobody_can_be_asked() {
    let script = "[[turn]]\nwire = { repeat = 99 }\nsteps = [{ call = 'Bash', input = { command = 'test -e missing.txt' } }]";
    let stage = Stage::new(script);
    let frames = stage.frames(&["--allowedTools", "Bash"]);
    let result = frames.result();
    assert_eq!(
        (frames.code, &result["subtype"], stage.server.requests().len()),
        (Some(1), &json!("error_during_execution"), 3),
        "{result}"
    );
    assert!(result["errors"][0].as_str().unwrap().contains("goes in circles"), "{result}");
    let told = stage.server.requests()[2].body_json()["messages"].to_string();
    assert!(told.contains("Making them again will not help"), "the model was told first");
    stage.check_resumable();
}

#[test]
fn a_host_may_let_an_agent_go_on_in_circles() {
    let again =
        "[[turn]]\nwire = { repeat = 3 }\nsteps = [{ call = 'Read', input = { file_path = 'missing.txt' } }]";
    let stage = Stage::new(&format!("{again}\n[[turn]]\nsteps = [{{ text = 'out of it' }}]"));
    let mut dialogue = Dialogue::start(&stage, &["--permission-prompt-tool", "stdio"]);
    dialogue.say("go");
    let ask = dialogue.wait_for(|frame| frame["type"] == "control_request");
    let request = &ask["request"];
    assert_eq!((&request["subtype"], &request["tool_name"]), (&json!("can_use_tool"), &json!("Read")));
    assert!(request["decision_reason"].as_str().unwrap().contains("goes in circles"), "{request}");
    let answer = json!({"behavior": "allow", "updatedInput": request["input"]});
    dialogue.send(&json!({"type": "control_response", "response":
        {"subtype": "success", "request_id": ask["request_id"], "response": answer}}));
    assert_eq!(dialogue.result()["result"], "out of it");
    dialogue.end();
}

#[test]
fn an_interrupt_withdraws_the_question_whether_to_go_on() {
    let stage = Stage::new(
        "[[turn]]\nwire = { repeat = 99 }\nsteps = [{ call = 'Read', input = { file_path = 'missing.txt' } }]",
    );
    let mut dialogue = Dialogue::start(&stage, &["--permission-prompt-tool", "stdio"]);
    dialogue.say("go");
    let ask = dialogue.wait_for(|frame| frame["type"] == "control_request");
    dialogue.request("i", &json!({"subtype": "interrupt"}));
    dialogue.wait_for(|frame| {
        frame["type"] == "control_cancel_request" && frame["request_id"] == ask["request_id"]
    });
    assert_eq!(dialogue.result()["subtype"], "error_during_execution");
    dialogue.end();
}

#[test]
fn work_that_repeats_itself_and_gets_on_is_left_alone() {
    let test = "[[turn]]\nsteps = [{ call = 'Bash', input = { command = 'grep -c x n.txt' } }]\n";
    let edit = "[[turn]]\nsteps = [{ call = 'Bash', input = { command = 'echo y >> n.txt' } }]\n";
    let script = format!("{}[[turn]]\nsteps = [{{ text = 'done' }}]", format!("{test}{edit}").repeat(5));
    let stage = Stage::new(&script);
    stage.repo.write("n.txt", "x\n");
    let done = stage.run(&["-p", "go", "--allowedTools", "Bash"]);
    assert_eq!(done.check_ok().stdout, "done\n", "the shell changes a file between two looks at it");
}

/// A call that ends when the test makes a file.
const UNTIL_GO: &str = "[[turn]]\nsteps = [{ call = 'Bash', input = { command = 'touch started; while ! [ -e go ]; do sleep 0.02; done' } }]\n";

#[test]
fn what_is_said_during_a_turn_goes_along_with_the_next_request() {
    let stage = Stage::new(&format!("{UNTIL_GO}[[turn]]\nsteps = [{{ text = 'both' }}]"));
    let mut dialogue = Dialogue::start(&stage, &["--allowedTools", "Bash"]);
    dialogue.say("one");
    dialogue.until(|| stage.repo.has("started"));
    dialogue.say("two");
    dialogue.say("three");
    dialogue.sync();
    stage.repo.write("go", "");
    let frames = dialogue.end();
    let results: Vec<&Json> = frames.iter().filter(|frame| frame["type"] == "result").collect();
    assert_eq!(results.len(), 1, "one turn took all of it up");
    assert_eq!(results[0]["result"], "both");
    let body = stage.server.requests()[1].body_json();
    let last = body["messages"].as_array().unwrap().last().unwrap()["content"].as_array().unwrap().clone();
    assert_eq!(last[0]["type"], "tool_result");
    assert_eq!((&last[1]["text"], &last[2]["text"]), (&json!("two"), &json!("three")));
    stage.server.assert_valid_histories();
    stage.server.assert_append_only();
}

#[test]
fn a_command_that_is_queued_keeps_its_own_turn_and_its_place() {
    let stage = Stage::new(&format!(
        "{UNTIL_GO}[[turn]]\nsteps = [{{ text = 'first' }}]\n[[turn]]\nsteps = [{{ text = 'last' }}]"
    ));
    let mut dialogue = Dialogue::start(&stage, &["--allowedTools", "Bash"]);
    dialogue.say("one");
    dialogue.until(|| stage.repo.has("started"));
    dialogue.say("/cost");
    dialogue.say("after it");
    dialogue.sync();
    stage.repo.write("go", "");
    let frames = dialogue.end();
    let results: Vec<&Json> = frames.iter().filter(|frame| frame["type"] == "result").collect();
    assert_eq!(results.len(), 3);
    assert!(results[1]["result"].as_str().unwrap().starts_with("Total:"), "{}", results[1]);
    assert_eq!(results[2]["result"], "last");
}

#[test]
fn an_interrupt_can_call_off_what_is_queued() {
    for cancel in [true, false] {
        let stage = Stage::new(&format!("{UNTIL_GO}[[turn]]\nsteps = [{{ text = 'next' }}]"));
        let mut dialogue = Dialogue::start(&stage, &["--allowedTools", "Bash"]);
        dialogue.say("one");
        dialogue.until(|| stage.repo.has("started"));
        let id = "7d3f1b53-8c1c-4b0c-9c62-0f4f3a1c0a11";
        dialogue.send(&json!({"type": "user", "uuid": id, "message": {"role": "user", "content": "two"}}));
        let receipt = dialogue.request("i", &json!({"subtype": "interrupt", "cancel_queued": cancel}));
        let expected = if cancel {
            json!({"still_queued": [], "cancelled": [id]})
        } else {
            json!({"still_queued": [id]})
        };
        assert_eq!(receipt["response"], expected);
        let frames = dialogue.end();
        let results: Vec<&Json> = frames.iter().filter(|frame| frame["type"] == "result").collect();
        assert_eq!(results.len(), if cancel { 1 } else { 2 });
        let log = std::fs::read_to_string(stage.transcript()).unwrap();
        assert_eq!(log.contains("\"two\""), !cancel, "what was called off was never recorded");
    }
}

#[test]
fn a_message_that_asks_for_nothing_waits_for_the_next_turn() {
    let stage = Stage::new("[[turn]]\nexpect = ['by the way', 'now']\nsteps = [{ text = 'both heard' }]");
    let mut dialogue = Dialogue::start(&stage, &[]);
    dialogue.send(
        &json!({"type": "user", "shouldQuery": false, "message": {"role": "user", "content": "by the way"}}),
    );
    dialogue.sync();
    assert!(stage.server.requests().is_empty());
    let id = "7d3f1b53-8c1c-4b0c-9c62-0f4f3a1c0a11";
    dialogue.send(&json!({"type": "user", "uuid": id, "message": {"role": "user", "content": "now"}}));
    let result = dialogue.result();
    assert_eq!((&result["result"], &result["user_message_uuid"]), (&json!("both heard"), &json!(id)));
    dialogue.end();
    stage.server.assert_no_failures();
}

#[test]
fn a_process_that_was_stopped_goes_on_where_it_was() {
    let stage = Stage::new("[[turn]]\nsteps = [{ text = 'a' }, { pause_ms = 600 }, { text = 'b' }]")
        .with_env("OSTLER_STREAM_IDLE_TIMEOUT_MS", "900");
    let mut child = stage.spawn(&["-p", "go"]);
    let signal = |name: &str| {
        let status = std::process::Command::new("kill").args([name, &child.id().to_string()]).status();
        assert!(status.unwrap().success());
    };
    while stage.server.requests().first().is_none_or(|request| request.step_sent(0).is_none()) {
        std::thread::yield_now();
    }
    signal("-STOP");
    // Longer than any silence that is allowed, and until all has been sent.
    while stage.server.requests()[0].answered.is_none() {
        std::thread::yield_now();
    }
    std::thread::sleep(std::time::Duration::from_secs(1));
    signal("-CONT");
    assert!(child.wait().unwrap().success());
    assert_eq!(stage.server.requests().len(), 1, "nothing was asked twice");
}

/// The binary as a host speaks with it, line by line.
struct Dialogue<'a> {
    stage: &'a Stage,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    seen: Vec<Json>,
}

impl<'a> Dialogue<'a> {
    fn start(stage: &'a Stage, args: &[&str]) -> Self {
        let mut all = vec!["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
        all.extend(args);
        let mut child = stage.command(&all).stdin(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { stage, child, stdin, stdout, seen: Vec::new() }
    }

    fn send(&mut self, line: &Json) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn say(&mut self, text: &str) {
        self.send(&json!({"type": "user", "message": {"role": "user", "content": text}}));
    }

    /// Sends a control request and gives its response.
    fn request(&mut self, id: &str, request: &Json) -> Json {
        self.send(&json!({"type": "control_request", "request_id": id, "request": request}));
        let is_it =
            |frame: &Json| frame["type"] == "control_response" && frame["response"]["request_id"] == id;
        self.wait_for(is_it)["response"].clone()
    }

    /// Waits until the engine has heard everything that was sent.
    fn sync(&mut self) {
        self.request("sync", &json!({"subtype": "get_context_usage"}));
    }

    #[track_caller]
    fn wait_for(&mut self, is_it: impl Fn(&Json) -> bool) -> Json {
        loop {
            let Some(frame) = self.next() else { panic!("it ended before the frame came: {:?}", self.seen) };
            if is_it(&frame) {
                return frame;
            }
        }
    }

    #[track_caller]
    fn result(&mut self) -> Json {
        self.wait_for(|frame| frame["type"] == "result")
    }

    fn until(&mut self, ready: impl Fn() -> bool) {
        while !ready() {
            assert!(self.child.try_wait().unwrap().is_none(), "it ended before the stage was reached");
            std::thread::yield_now();
        }
    }

    /// Closes the input and gives all frames there were.
    #[track_caller]
    fn end(mut self) -> Vec<Json> {
        drop(self.stdin.take());
        while self.next().is_some() {}
        let done = Done::from(self.child.wait_with_output().unwrap());
        assert!(!done.stderr.contains("before the turn ended"), "{}", done.stderr);
        process::assert_none_running_in(self.stage.repo.path());
        self.seen
    }

    fn next(&mut self) -> Option<Json> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let frame: Json = serde_json::from_str(line.trim()).ok()?;
        self.seen.push(frame.clone());
        Some(frame)
    }
}
