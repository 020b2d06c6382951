//! What programs that start the binary read: formats, exit codes, stdin, flags.

use crate::stage::{Done, Stage};
use ostler_proto::Json;
use serde_json::json;
use std::{io::Write, process::Stdio};

const HELLO: &str = "[[turn]]\nsteps = [{ text = 'Hello there.' }]";
const READ: &str = r#"
[[turn]]
steps = [{ text = "Reading." }, { call = "Read", id = "c1", input = { file_path = "{{cwd}}/a.txt" } }]
[[turn]]
steps = [{ text = "Read." }]
"#;

#[test]
fn text_is_the_answer_and_nothing_else() {
    let done = Stage::new(HELLO).run(&["-p", "hi"]);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str(), done.code), ("Hello there.\n", "", Some(0)));
}

#[test]
fn json_is_one_result_object() {
    let done = Stage::new(READ).run(&["-p", "hi", "--output-format", "json"]);
    let result: Json = serde_json::from_str(&done.check_ok().stdout).unwrap();
    assert_eq!(result["type"], "result");
    assert_eq!(
        (&result["subtype"], &result["is_error"], &result["num_turns"]),
        (&json!("success"), &json!(false), &json!(2))
    );
    assert_eq!(result["result"], "Read.");
    assert!(result["usage"]["input_tokens"].as_u64().unwrap() > 0);
    assert!(result["modelUsage"]["claude-sonnet-4-5"]["costUSD"].as_f64().unwrap() > 0.0);
}

#[test]
fn stream_json_has_a_frame_for_each_thing_and_ids_match_the_transcript() {
    let stage = Stage::new(READ);
    let frames = stage.frames(&[]);
    assert_eq!(frames.kinds(), "system/init assistant assistant user assistant result/success");
    assert_eq!(frames.all[0]["tools"].as_array().unwrap().len(), 14);
    assert_eq!(frames.all[3]["tool_use_result"]["file"]["totalLines"], 4);
    let transcript = std::fs::read_to_string(stage.transcript()).unwrap();
    for frame in &frames.all[1..5] {
        assert!(transcript.contains(frame["uuid"].as_str().unwrap()), "{frame}");
    }
}

#[test]
fn partial_messages_come_in_the_apis_order() {
    let frames = Stage::new(READ).frames(&["--include-partial-messages"]);
    let events: Vec<&str> = frames
        .all
        .iter()
        .map(|frame| frame["event"]["type"].as_str().or(frame["type"].as_str()).unwrap())
        .filter(|kind| !matches!(*kind, "system" | "content_block_delta"))
        .take(8)
        .collect();
    let expected = [
        "message_start",
        "content_block_start",
        "assistant",
        "content_block_stop",
        "content_block_start",
        "assistant",
        "content_block_stop",
        "user",
    ];
    let mut sorted = events.clone();
    sorted.sort_unstable();
    let mut expected_sorted = expected;
    expected_sorted.sort_unstable();
    // The result may overtake the end of the stream, everything else keeps its order.
    if sorted == expected_sorted {
        let without =
            |list: &[&'static str]| list.iter().copied().filter(|kind| *kind != "user").collect::<Vec<_>>();
        let seen: Vec<&str> = events.iter().copied().filter(|kind| *kind != "user").collect();
        assert_eq!(seen, without(&expected));
    } else {
        assert_eq!(&events[..7], &expected[..7]);
    }
}

#[test]
fn piped_text_is_added_to_the_prompt() {
    let run = |words: Option<&str>, piped: &str| -> (Done, Vec<Json>) {
        let stage = Stage::new(HELLO);
        let mut args = vec!["-p"];
        args.extend(words);
        let mut child = stage.command(&args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(piped.as_bytes()).unwrap();
        let done = Done::from(child.wait_with_output().unwrap());
        (done, stage.server.requests().iter().map(ostler_testkit::Recorded::body_json).collect())
    };
    let (done, requests) = run(Some("explain"), "some log");
    done.check_ok();
    let said = requests[0]["messages"][0]["content"].to_string();
    assert!(said.contains("explain") && said.contains("some log"), "{said}");
    let (done, requests) = run(None, "all from the pipe");
    done.check_ok();
    assert!(requests[0]["messages"][0]["content"].to_string().contains("all from the pipe"));
    let (done, requests) = run(None, "");
    assert_eq!((done.code, requests.len()), (Some(1), 0));
    assert!(done.stderr.contains("nothing to do"), "{}", done.stderr);
}

#[test]
fn stream_json_input_holds_a_conversation() {
    let stage = Stage::new(
        "[[turn]]\nsteps = [{ text = 'first' }]\n[[turn]]\nsteps = [{ text = 'second {{prompt}}' }]",
    );
    let args = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
    let mut child = stage.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let user = |text: &str| json!({"type": "user", "message": {"role": "user", "content": text}});
    let lines = [
        json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "initialize"}}),
        user("one"),
        json!({"type": "control_request", "request_id": "r2", "request": {"subtype": "dance"}}),
        user("two"),
    ];
    for line in lines {
        writeln!(stdin, "{line}").unwrap();
    }
    drop(stdin);
    let frames = Done::from(child.wait_with_output().unwrap()).frames();
    assert_eq!(frames.code, Some(0), "{}", frames.stderr);
    let results: Vec<&Json> = frames.all.iter().filter(|frame| frame["type"] == "result").collect();
    assert_eq!((&results[0]["result"], &results[1]["result"]), (&json!("first"), &json!("second two")));
    let answers: Vec<&Json> = frames.all.iter().filter(|frame| frame["type"] == "control_response").collect();
    assert_eq!(answers[0]["response"]["subtype"], "success");
    assert_eq!(answers[1]["response"]["error"], "Unsupported control request subtype: dance");
    stage.server.assert_valid_histories();
}

#[test]
fn wrong_flags_are_named_and_exit_with_one() {
    let stage = Stage::new(HELLO);
    for (args, part) in [
        (&["-p", "x", "--no-such-flag"][..], "--no-such-flag"),
        (&["-p", "x", "--output-format", "stream-json"], "--verbose"),
        (&["-p", "x", "--permission-mode", "yolo"], "yolo"),
        (&["-p", "x", "--max-turns", "many"], "many"),
        (&["-p", "x", "--session-id", "nope"], "not a UUID"),
        (&["-p", "x", "--settings", "{\"model\": 1}"], "key 'model'"),
        (&["-p", "x", "--add-dir", "/no/such/dir"], "/no/such/dir"),
        (&["-p", "x", "--tools", "Dance"], "Dance"),
        (&["-p", "x", "--resume", "00000000-0000-4000-8000-000000000000"], "no conversation found"),
        (&["-p", "x", "--continue"], "no conversation to continue"),
        (&["-p", "x", "--allowedTools", "Bash(open"], "Bash(open"),
        (&["-p", "x", "--system-prompt-file", "/no/such/file"], "/no/such/file"),
    ] {
        let done = stage.run(args);
        assert_eq!(done.code, Some(1), "{args:?}: {}", done.stderr);
        assert!(done.stderr.contains(part), "{args:?}: {}", done.stderr);
        assert_eq!(done.stdout, "");
    }
    assert!(stage.server.requests().is_empty(), "none of these asks the model");
}

#[test]
fn limits_end_the_run_with_their_own_result() {
    let again = "[[turn]]\nwire = { repeat = 99 }\nusage = { input_tokens = 100000, output_tokens = 10 }\nsteps = [{ call = 'Read', input = { file_path = 'a.txt' } }]";
    let frames = Stage::new(again).frames(&["--max-turns", "3"]);
    let result = frames.result();
    assert_eq!(
        (&result["subtype"], &result["num_turns"], frames.code),
        (&json!("error_max_turns"), &json!(3), Some(1))
    );
    let frames = Stage::new(again).frames(&["--max-budget-usd", "0.5"]);
    let result = frames.result();
    assert_eq!((&result["subtype"], frames.code), (&json!("error_max_budget_usd"), Some(1)));
    assert!((0.5..0.9).contains(&result["total_cost_usd"].as_f64().unwrap()), "{result}");
}

#[test]
fn doctor_names_what_is_set_and_never_shows_a_value() {
    let stage = Stage::new(HELLO);
    let done = stage.run(&["doctor"]);
    done.check_ok();
    for part in ["version", "ANTHROPIC_API_KEY", "git", "Sandbox", "Terminal"] {
        assert!(done.stdout.contains(part), "{part}: {}", done.stdout);
    }
    assert!(!done.stdout.contains("key-for-tests"));
    stage.home.write(".ostler/settings.json", "{");
    let done = stage.run(&["doctor"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stdout.contains("PROBLEM"), "{}", done.stdout);
}

#[test]
fn version_and_help() {
    let stage = Stage::new(HELLO);
    let version = stage.command(&["--version"]).env_clear().output().unwrap();
    let text = String::from_utf8(version.stdout).unwrap();
    assert!(text.starts_with(env!("CARGO_PKG_VERSION")), "{text}");
    let help = stage.run(&["--help"]);
    assert!(help.check_ok().stdout.contains("--permission-mode"));
}
