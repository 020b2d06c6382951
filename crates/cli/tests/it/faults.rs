//! Everything that can go wrong between us and a model: a clear message, a sensible exit code, a
//! session that goes on, and never an effect twice or a call without a result.

use crate::stage::{APIS, Api, Stage};
use ostler_proto::Json;
use serde_json::json;

const AFTERWARDS: &str =
    "\n[[turn]]\nsteps = [{ text = 'recovered' }]\n[[turn]]\nsteps = [{ text = 'and on' }]";

/// A fault that is overcome: the run succeeds and goes on.
#[track_caller]
fn check_overcome(api: Api, fault: &str) -> Stage {
    check_overcome_within(api, fault, "300")
}

/// The same, with so many milliseconds of silence allowed.
#[track_caller]
fn check_overcome_within(api: Api, fault: &str, idle: &str) -> Stage {
    let stage =
        Stage::speaking(api, &format!("{fault}{AFTERWARDS}")).with_env("OSTLER_STREAM_IDLE_TIMEOUT_MS", idle);
    let done = stage.run(&["-p", "go", "--allowedTools", "Bash", "--permission-mode", "acceptEdits"]);
    assert_eq!(done.check_ok().stdout, "recovered\n", "{api:?} {fault}");
    stage.server.assert_valid_histories();
    stage.check_resumable();
    stage
}

/// A fault that ends the run: exit code 1, the message says what it was, the session goes on.
#[track_caller]
fn check_fatal(fault: &str, parts: &[&str]) -> Stage {
    let stage = Stage::new(&format!("{fault}{AFTERWARDS}")).with_env("CLAUDE_CODE_MAX_RETRIES", "1");
    let frames = stage.frames(&[]);
    assert_eq!(frames.code, Some(1), "{fault}: {}", frames.stderr);
    let result = frames.result().clone();
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(true)), "{result}");
    for part in parts {
        assert!(result["result"].as_str().unwrap().contains(part), "{part}: {result}");
    }
    stage.check_resumable();
    stage
}

#[test]
fn a_stream_that_breaks_before_anything_ran_is_asked_again() {
    for api in APIS {
        for cut in ["reset", "truncate", "stall", "garbage", "overload"] {
            let fault = format!(
                "[[turn]]\nwire = {{ cut = {{ after_steps = 1, then = '{cut}' }} }}\nsteps = [{{ text = 'half' }}, {{ text = 'more' }}]"
            );
            let stage = check_overcome(api, &fault);
            let messages = stage.server.requests()[1].body_json().to_string();
            assert!(!messages.contains("half"), "{api:?} {cut}: a dropped answer is not in the conversation");
        }
    }
}

#[test]
fn a_stream_that_breaks_after_a_read_is_asked_again() {
    for api in APIS {
        let fault = "[[turn]]\nwire = { cut = { after_steps = 2, then = 'reset' } }\nsteps = [{ call = 'Read', input = { file_path = 'a.txt' } }, { pause_ms = 200 }, { text = 'x' }]";
        let stage = check_overcome(api, fault);
        let again = stage.server.requests()[1].body_json().to_string();
        assert!(!again.contains("three"), "{api:?}: the dropped read is not in the conversation");
    }
}

#[test]
fn a_stream_that_breaks_after_an_effect_is_kept_and_the_turn_goes_on() {
    for api in APIS {
        let fault = "[[turn]]\nwire = { cut = { after_steps = 2, then = 'reset' } }\nsteps = [{ call = 'Bash', input = { command = 'echo again >> count.txt; cat count.txt' } }, { pause_ms = 3000 }, { text = 'x' }]";
        // The command must have begun before the silence counts as broken.
        let stage = check_overcome_within(api, fault, "1500");
        assert_eq!(stage.repo.read("count.txt"), "again\n", "{api:?}: the effect happened once");
        let next = stage.server.requests()[1].body_json().to_string();
        assert!(next.contains("count.txt") && next.contains("again"), "{api:?}: call and result are kept");
    }
}

#[test]
fn a_reset_in_the_middle_of_an_input_runs_nothing() {
    for cut in ["reset", "truncate", "stall"] {
        let fault = format!(
            "[[turn]]\nwire = {{ cut = {{ after_bytes = 900, then = '{cut}' }} }}\nsteps = [{{ call = 'Write', input = {{ file_path = 'w.txt', content = '{}' }} }}]",
            "x".repeat(3000)
        );
        let stage = check_overcome(Api::Anthropic, &fault);
        assert!(!stage.repo.has("w.txt"));
    }
}

#[test]
fn overload_and_rate_limits_are_waited_out() {
    for api in APIS {
        for status in [429, 500, 503, 529] {
            check_overcome(
                api,
                &format!(
                    "[[turn]]\nwire = {{ status = {status}, repeat = 1, headers = {{ retry-after = '0' }} }}"
                ),
            );
        }
    }
}

#[test]
fn a_storm_of_429_ends_after_the_last_retry() {
    let stage =
        Stage::new("[[turn]]\nwire = { status = 429, repeat = 99, headers = { retry-after-ms = '1' } }")
            .with_env("CLAUDE_CODE_MAX_RETRIES", "4");
    let frames = stage.frames(&[]);
    assert_eq!(stage.server.requests().len(), 5);
    assert_eq!(frames.all.iter().filter(|frame| frame["subtype"] == "api_retry").count(), 4);
    assert_eq!((frames.code, &frames.result()["api_error_status"]), (Some(1), &json!(429)));
}

#[test]
fn pieces_of_any_size_are_one_answer() {
    for api in APIS {
        for split in [1, 7, 1000] {
            let stage = Stage::speaking(
                api,
                &format!(
                    "[[turn]]\nwire = {{ split = {split} }}\nsteps = [{{ text = 'héllo wörld 🐎' }}, {{ call = 'Read', input = {{ file_path = 'b.txt' }} }}]{AFTERWARDS}"
                ),
            );
            stage.run(&["-p", "go"]).check_ok();
            let next = stage.server.requests()[1].body_json().to_string();
            assert!(next.contains("héllo wörld 🐎") && next.contains("bee"), "{api:?} {split}");
        }
    }
}

#[test]
fn a_wrong_key_says_which_variable_to_set() {
    check_fatal("[[turn]]\nwire = { status = 401 }", &["401", "ANTHROPIC_API_KEY"]);
}

#[test]
fn html_instead_of_events_points_at_the_address() {
    let page = "[[turn]]\nwire = { status = 200, headers = { content-type = 'text/html' }, body = '<html>Sign in to the hotel WLAN</html>' }";
    check_fatal(page, &["text/html", "base URL"]);
}

#[test]
fn a_redirect_is_not_followed() {
    let stage = check_fatal(
        "[[turn]]\nwire = { status = 307, repeat = 5, headers = { location = '{{url}}/v1/messages' } }",
        &["redirect"],
    );
    assert_eq!(stage.server.requests()[0].status, Some(307));
}

#[test]
fn malformed_events_are_asked_again_and_then_reported() {
    let broken = r#"[[turn]]
wire = { repeat = 1, body = "event: message_start\ndata: {\"type\":\"message_start\",\"mess\n\n" }"#;
    let stage = check_fatal(broken, &["API Error"]);
    assert!(stage.server.requests().len() >= 2);
}

#[test]
fn unknown_events_blocks_and_deltas_are_ignored() {
    let body = [
        r#"{"type":"message_start","message":{"id":"m","model":"x","usage":{"input_tokens":1,"novelty":{"a":1}}}}"#,
        r#"{"type":"from_the_future","x":1}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"hologram","beam":[1]}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"beam_delta","beam":2}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"fine"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tired"},"usage":{"output_tokens":1}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let events: String = body.iter().map(|data| format!("data: {data}\\n\\n").replace('"', "\\\"")).collect();
    let stage = Stage::new(&format!("[[turn]]\nwire = {{ body = \"{events}\" }}{AFTERWARDS}"));
    assert_eq!(stage.run(&["-p", "go"]).check_ok().stdout, "fine\n");
    stage.check_resumable();
}

#[test]
fn wrong_calls_are_told_to_the_model_and_the_turn_goes_on() {
    let deep = format!("{}1{}", "{\\\"a\\\":".repeat(200_000), "}".repeat(200_000));
    for (step, part) in [
        (r"{ call = 'Dance', input = {} }".to_owned(), "no tool named 'Dance'"),
        (r"{ call = 'Read', input = { file_path = 3 } }".to_owned(), "file_path"),
        (r"{ call = 'Read', input = { path = 'a.txt' } }".to_owned(), "file_path"),
        (r#"{ call = "Read", raw = "{\"file_path\": \"a.t" }"#.to_owned(), "cut off"),
        (r#"{ call = "Read", raw = "[1, 2]" }"#.to_owned(), "must be a JSON object"),
        (r#"{ call = "Read", raw = "{\"file_path\": }" }"#.to_owned(), "not valid JSON"),
        (format!("{{ call = \"Read\", raw = \"{deep}\", pieces = 50 }}"), "recursion limit"),
        (r"{ call = 'Read', input = { file_path = 'missing.txt' } }".to_owned(), "does not exist"),
    ] {
        for api in APIS {
            let stage = Stage::speaking(api, &format!("[[turn]]\nsteps = [{step}]{AFTERWARDS}"));
            let frames = stage.frames(&[]);
            assert_eq!(frames.code, Some(0), "{api:?} {part}: {}", frames.stderr);
            let results = frames.tool_results();
            assert!(results[0].contains(part), "{api:?} {part}: {results:?}");
            stage.server.assert_valid_histories();
        }
    }
}

#[test]
fn nobody_listening_is_said_with_the_address() {
    let stage = Stage::new("")
        .with_env("CLAUDE_CODE_MAX_RETRIES", "0")
        .with_env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    let done = stage.run(&["-p", "go"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("127.0.0.1:9"), "{}", done.stderr);
}

#[test]
fn a_read_only_tree_is_told_and_nothing_is_lost() {
    let stage = Stage::new(&format!(
        "[[turn]]\nsteps = [{{ call = 'Write', input = {{ file_path = 'ro/new.txt', content = 'x' }} }}]{AFTERWARDS}"
    ));
    stage.repo.write("ro/old.txt", "old");
    // Root may write anywhere, so the tree is made read-only by a mount where that is possible.
    let folder = stage.repo.join("ro");
    let mount = format!(
        "mount --bind {0} {0} && mount -o remount,ro,bind {0} && exec \"$0\" \"$@\"",
        folder.display()
    );
    let probe = std::process::Command::new("unshare").args(["-m", "-r", "sh", "-c", &mount, "true"]).output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        eprintln!("skipped: this machine cannot mount a folder read-only in a namespace");
        return;
    }
    let ours = stage.command(&[
        "-p",
        "go",
        "--permission-mode",
        "acceptEdits",
        "--output-format",
        "stream-json",
        "--verbose",
    ]);
    let mut command = std::process::Command::new("unshare");
    command.args(["-m", "-r", "sh", "-c", &mount]).arg(ours.get_program()).args(ours.get_args());
    command.env_clear().current_dir(stage.repo.path());
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let frames = crate::stage::Done::from(command.output().unwrap()).frames();
    assert_eq!(frames.code, Some(0), "{}", frames.stderr);
    let results = frames.tool_results();
    assert!(results[0].to_lowercase().contains("read-only"), "{results:?}");
    assert_eq!(stage.repo.read("ro/old.txt"), "old");
    assert!(!stage.repo.has("ro/new.txt"));
}

#[test]
fn answers_without_an_id_or_with_the_same_one_stay_apart() {
    let chunk = |delta: &str, finish: &str, id: &str| {
        format!(r#"data: {{{id}"choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}"#)
            + "\n\n"
    };
    for id in ["", "\"id\":\"same\","] {
        let call = r#"{"tool_calls":[{"function":{"name":"Read","arguments":"{\"file_path\":\"b.txt\"}"}}]}"#;
        let first = chunk(call, "\"tool_calls\"", id);
        let second = chunk(r#"{"content":"done"}"#, "\"stop\"", id);
        let turn = |body: &str| format!("[[turn]]\nwire = {{ body = '''\n{body}''' }}\n");
        let stage = Stage::speaking(
            Api::Chat,
            &format!("{}{}{}{AFTERWARDS}", turn(&first), turn(&first), turn(&second)),
        );
        let done = stage.run(&["-p", "go"]);
        assert_eq!(done.check_ok().stdout, "done\n");
        stage.server.assert_valid_histories();
        stage.server.assert_append_only();
        let last = stage.server.requests()[2].body_json();
        assert_eq!(
            last["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool").count(),
            2
        );
    }
}

/// One event of the Messages API as it goes over the wire.
fn event(data: &Json) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

fn begin() -> String {
    event(
        &json!({"type": "message_start", "message": {"id": "m", "model": "x", "usage": {"input_tokens": 1}}}),
    )
}

/// A call that leaves a line behind, in a block of that number.
fn leave_line(index: u32, id: &str) -> Vec<String> {
    let input = json!({"command": "echo x >> lines.txt"}).to_string();
    let (head, tail) = input.split_at(9);
    let delta = |text: &str| {
        let delta = json!({"type": "input_json_delta", "partial_json": text});
        event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
    };
    let block = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {}});
    vec![
        event(&json!({"type": "content_block_start", "index": index, "content_block": block})),
        delta(head),
        delta(tail),
        event(&json!({"type": "content_block_stop", "index": index})),
    ]
}

fn finish() -> String {
    event(
        &json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}}),
    )
}

fn stop() -> String {
    event(&json!({"type": "message_stop"}))
}

/// An answer of exactly these bytes: so many calls of it are run, each once, and the session goes on. Of an
/// answer that broke off a call has run if it had begun by then.
#[track_caller]
fn check_bytes(name: &str, body: &str, runs: std::ops::RangeInclusive<usize>) {
    let script = format!("[[turn]]\nwire = {{ body = {} }}{AFTERWARDS}", json!(body));
    let stage = Stage::new(&script).with_env("OSTLER_STREAM_IDLE_TIMEOUT_MS", "2000");
    let frames = stage.frames(&["--allowedTools", "Bash"]);
    assert_eq!(frames.code, Some(0), "{name}: {}", frames.stderr);
    let lines = if stage.repo.has("lines.txt") { stage.repo.read("lines.txt").lines().count() } else { 0 };
    assert!(runs.contains(&lines), "{name}: {lines}");
    let mut ids: Vec<String> = frames
        .all
        .iter()
        .filter_map(|frame| frame["message"]["content"][0]["tool_use_id"].as_str().map(str::to_owned))
        .collect();
    let told = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), told, "{name}: one result a call");
    stage.server.assert_valid_histories();
    stage.check_resumable();
}

#[test]
fn whatever_the_bytes_a_whole_call_runs_once_and_half_a_call_never() {
    let call = leave_line(0, "a");
    let whole = [begin(), call.concat(), finish(), stop()].concat();
    let (second, same_index) = (leave_line(1, "b").concat(), leave_line(0, "b").concat());
    let overloaded =
        event(&json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}));
    let unknown = event(&json!({"type": "from_the_future", "index": 0}));
    let out_of_order = [&call[1], &call[0], &call[1], &call[2], &call[3]].map(String::as_str).concat();
    let cases = [
        ("as it should be", whole.clone(), 1..=1),
        ("line ends of another system", whole.replace('\n', "\r\n"), 1..=1),
        ("a mark at the start", format!("\u{feff}{whole}"), 1..=1),
        ("no message_stop", [begin(), call.concat(), finish()].concat(), 0..=1),
        ("nothing after the call", [begin(), call.concat()].concat(), 0..=1),
        ("no end of the block", [begin(), call[..3].concat()].concat(), 0..=1),
        ("half an input", [begin(), call[..2].concat()].concat(), 0..=0),
        ("an event cut in two", whole[..whole.len() / 3].to_owned(), 0..=0),
        ("an index twice", [begin(), call.concat(), same_index, finish(), stop()].concat(), 2..=2),
        ("two calls", [begin(), call.concat(), second, finish(), stop()].concat(), 2..=2),
        (
            "a call twice",
            [begin(), call.concat(), leave_line(1, "a").concat(), finish(), stop()].concat(),
            1..=1,
        ),
        ("a piece before its block", [begin(), out_of_order, finish(), stop()].concat(), 0..=1),
        (
            "unknown events between",
            [begin(), unknown.clone(), call.join(&unknown), finish(), stop()].concat(),
            1..=1,
        ),
        ("an error behind the call", [begin(), call.concat(), overloaded.clone()].concat(), 0..=1),
        ("an error within the input", [begin(), call[..2].concat(), overloaded].concat(), 0..=0),
        ("an empty body", String::new(), 0..=0),
        ("nothing but comments", ": hello\n\n: hello\n\n".to_owned(), 0..=0),
    ];
    // Most of the time goes into pauses between attempts.
    std::thread::scope(|scope| {
        for (name, body, runs) in cases {
            scope.spawn(move || check_bytes(name, &body, runs));
        }
    });
}

#[test]
fn a_limit_on_spending_is_not_run_against() {
    let body = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "this would exceed your monthly spend limit"}});
    let fault = format!("[[turn]]\nwire = {{ status = 429, body = {} }}", json!(body.to_string()));
    let stage = check_fatal(&fault, &["429", "spend limit"]);
    assert_eq!(stage.server.requests()[0].status, Some(429));
    assert_eq!(stage.server.requests()[1].status, Some(200), "the next request is that of the next run");
}

#[test]
fn text_that_broke_off_is_kept_and_marked() {
    let fault = "[[turn]]\nwire = { cut = { after_steps = 1, then = 'truncate' } }\nsteps = [{ text = 'the first half' }, { text = 'x' }]";
    let stage = check_overcome(Api::Anthropic, fault);
    let log = std::fs::read_to_string(stage.transcript()).unwrap();
    let dropped = log.lines().find(|line| line.contains(r#""event":"dropped""#)).unwrap();
    assert!(dropped.contains("broke off"), "{dropped}");
    assert!(log.contains("the first half"), "what came is in the transcript");
}
