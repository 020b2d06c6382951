//! Summaries that fail, lie or never come, models that refuse, users who lose patience, and processes that die:
//! the task is never lost, nothing runs twice, and the conversation is the old or the new one.

use super::{FRAMES, WORK, body, carried, transcript};
use crate::{
    context::Host,
    stage::{Done, Stage},
};
use ostler_proto::Json;
use serde_json::json;

const TOO_LONG: &str = r#"
[[turn]]
wire = { status = 400, headers = { content-type = "application/json" }, body = '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}' }
"#;

#[test]
fn a_model_that_says_too_long_is_asked_again_with_less() {
    let stage = Stage::new(&format!(
        "{WORK}{TOO_LONG}\n[[turn]]\nsteps = [{{ text = 'summed up' }}]\n[[turn]]\nsteps = [{{ text = 'fits now' }}]"
    ));
    stage.run(&["-p", "mend it", "--allowedTools", "Bash"]).check_ok();
    let done = stage.run(&["-p", "and the rest", "--continue"]);
    assert_eq!(done.check_ok().stdout, "fits now\n");
    let carried = carried(&stage, 6);
    assert!(carried.contains("1 of 2]\nmend it") && carried.contains("2 of 2]\nand the rest"), "{carried}");
    assert!(body(&stage, 6).to_string().len() < body(&stage, 4).to_string().len());
    stage.server.assert_valid_histories();
}

#[test]
fn two_futile_tries_are_the_last() {
    // Nothing in it is long enough to be set aside.
    let work = WORK.replace("seq 1 2000", "true");
    let stage =
        Stage::new(&format!("{work}{}\n[[turn]]\nsteps = [{{ text = 'here again' }}]", TOO_LONG.repeat(3)));
    stage.run(&["-p", "mend it", "--allowedTools", "Bash"]).check_ok();
    let mut arguments = vec!["-p", "and the rest", "--continue"];
    arguments.extend(FRAMES);
    let frames = stage.run(&arguments).frames();
    let result = frames.result();
    assert_eq!((frames.code, &result["terminal_reason"]), (Some(1), &json!("prompt_too_long")), "{result}");
    assert_eq!((&result["is_error"], &result["subtype"]), (&json!(true), &json!("success")));
    assert!(result["result"].as_str().unwrap().contains("tried twice"), "{result}");
    assert!(frames.all.iter().any(|frame| frame["compact_result"] == "failed"), "{}", frames.kinds());
    assert_eq!(stage.server.requests().len(), 6, "the turn, and two tries");
    let done = stage.run(&["-p", "still there?", "--continue"]);
    assert_eq!(done.check_ok().stdout, "here again\n");
    assert!(body(&stage, 7).to_string().contains("boom"), "nothing was taken out");
    stage.server.assert_valid_histories();
}

#[test]
fn a_prompt_that_alone_is_too_long_is_said_at_once() {
    let stage = Stage::new(TOO_LONG);
    let done = stage.run(&["-p", "go"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("nothing in it that could be taken out"), "{}", done.stderr);
    assert_eq!(stage.server.requests().len(), 1);
}

#[test]
fn a_conversation_that_stays_too_long_is_compacted_once() {
    let stage =
        Stage::new(&format!("{WORK}{TOO_LONG}\n[[turn]]\nsteps = [{{ text = 'summed up' }}]{TOO_LONG}"));
    stage.run(&["-p", "mend it", "--allowedTools", "Bash"]).check_ok();
    let done = stage.run(&["-p", "and the rest", "--continue"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("compacting it was not enough"), "{}", done.stderr);
    assert_eq!(stage.server.requests().len(), 6);
}

/// Rounds that fill a small window with results, which can be set aside.
fn full(last: &str) -> Stage {
    let fill = |number: usize| {
        format!(
            "[[turn]]\nsteps = [{{ text = '{}' }}, {{ call = 'Bash', input = {{ command = 'echo {number} >> ran; seq 1 900' }} }}]\n",
            "w ".repeat(600)
        )
    };
    let script: String = (1..=4).map(fill).collect();
    Stage::new(&format!("{script}{last}"))
}

fn run_full(stage: &Stage) -> Done {
    let mut arguments = vec!["-p", "the task", "--allowedTools", "Bash", "--autocompact", "13000"];
    arguments.extend(FRAMES);
    stage.run(&arguments)
}

#[test]
fn an_empty_summary_leaves_what_pruning_can_do() {
    let empty = "[[turn]]\nsteps = [{ text = '  ' }]\n";
    let stage = full(&format!(
        "{empty}{empty}[[turn]]\nsteps = [{{ text = 'went on' }}]\n[[turn]]\nsteps = [{{ text = 'spare' }}]"
    ));
    let frames = run_full(&stage).frames();
    assert_eq!(frames.result()["subtype"], "success", "{}", frames.result());
    let notes: Vec<&Json> = frames.all.iter().filter(|frame| frame["subtype"] == "informational").collect();
    let said = |words: &str| notes.iter().any(|note| note["content"].as_str().unwrap().contains(words));
    assert!(said("empty summary, tried twice; old results were set aside instead"), "{notes:?}");
    let last = stage.server.requests().last().unwrap().body_json().to_string();
    assert!(last.contains("the task") && last.contains("was set aside"), "{last}");
    assert_eq!(stage.repo.read("ran"), "1\n2\n3\n4\n", "nothing ran twice");
    stage.server.assert_valid_histories();
}

#[test]
fn an_overlong_summary_is_cut() {
    let stage = Stage::new(&format!(
        "{}\n[[turn]]\nsteps = [{{ text = 'START {} END' }}]\n[[turn]]\nsteps = [{{ text = 'on it' }}]",
        WORK.replace("Looking.", &"look ".repeat(12_000)),
        "blah ".repeat(40_000)
    ));
    stage.run(&["-p", "mend it", "--allowedTools", "Bash"]).check_ok();
    stage.run(&["-p", "/compact", "--continue"]).check_ok();
    stage.run(&["-p", "go on", "--continue"]).check_ok();
    let carried = carried(&stage, 5);
    assert!(
        carried.contains("START blah") && carried.contains("because the summary is too long"),
        "{}",
        carried.len()
    );
    assert!(carried.len() < 60_000, "{}", carried.len());
    assert!(carried.contains("1 of 1]\nmend it"));
}

#[test]
fn an_interrupt_leaves_the_conversation_as_it_was() {
    let stage = Stage::new(&format!(
        "{WORK}\n[[turn]]\nsteps = [{{ text = 'half' }}, {{ pause_ms = 60000 }}]\n[[turn]]\nsteps = [{{ text = 'as before' }}]"
    ));
    stage.run(&["-p", "mend it", "--allowedTools", "Bash"]).check_ok();
    let before = std::fs::read_to_string(transcript(&stage)).unwrap();
    let mut child = stage.spawn(&["-p", "/compact", "--continue"]);
    while stage.server.requests().len() < 4 {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::yield_now();
    }
    let status = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let done = Done::from(child.wait_with_output().unwrap());
    assert!(done.stdout.contains("stays as it was"), "{} {}", done.stdout, done.stderr);
    let after = std::fs::read_to_string(transcript(&stage)).unwrap();
    assert!(!after[before.len()..].contains("isCompactSummary"));
    stage.run(&["-p", "go on", "--continue"]).check_ok();
    let (old, new) = (body(&stage, 3), body(&stage, 5));
    assert_eq!(new["messages"][2].to_string(), old["messages"][2].to_string());
    stage.server.assert_valid_histories();
}

#[test]
fn whoever_asks_while_a_summary_is_written_is_answered() {
    let stage = Stage::new(&format!(
        "{WORK}\n[[turn]]\nsteps = [{{ text = 'half' }}, {{ pause_ms = 60000 }}]\n[[turn]]\nsteps = [{{ text = 'heard' }}]"
    ));
    stage.run(&["-p", "mend it", "--allowedTools", "Bash"]).check_ok();
    let mut host = Host::start(&stage, &["--continue"]);
    let user = |text: &str| json!({"type": "user", "message": {"role": "user", "content": text}});
    let control =
        |id: &str, request: Json| json!({"type": "control_request", "request_id": id, "request": request});
    host.say(&user("/compact"));
    while stage.server.requests().len() < 4 {
        std::thread::yield_now();
    }
    assert!(
        host.context_usage()["totalTokens"].as_u64() > Some(0),
        "answered while the summary is not there"
    );
    host.say(&control("m", json!({"subtype": "set_permission_mode", "mode": "acceptEdits"})));
    assert_eq!(host.until("control_response")["response"]["request_id"], "m");
    host.say(&user("and then?"));
    host.say(&control("i", json!({"subtype": "interrupt"})));
    assert_eq!(host.until("control_response")["response"]["request_id"], "i");
    let result = host.until("result");
    assert!(result["result"].as_str().unwrap().contains("stays as it was"), "{result}");
    assert_eq!(host.until("result")["result"], "heard", "what was said meanwhile has its turn");
    host.end();
    let text = std::fs::read_to_string(transcript(&stage)).unwrap();
    assert!(text.contains("acceptEdits") && !text.contains("isCompactSummary"));
    stage.server.assert_valid_histories();
}

#[test]
fn a_second_try_for_a_summary_is_told() {
    let busy = "[[turn]]\nwire = { status = 529, headers = { retry-after = '0' }, body = '{}' }\n";
    let stage = Stage::new(&format!("{WORK}{busy}\n[[turn]]\nsteps = [{{ text = 'summed up' }}]"));
    stage.run(&["-p", "mend it", "--allowedTools", "Bash"]).check_ok();
    let frames = super::compacted(&stage, "/compact");
    let retry = frames.all.iter().find(|frame| frame["subtype"] == "api_retry").unwrap();
    assert!(retry["attempt"] == 1 && retry["error_status"] == 529, "{retry}");
    assert!(frames.kinds().contains("compact_boundary"), "{}", frames.kinds());
}

#[test]
fn an_interrupt_while_making_room_ends_the_turn_and_takes_nothing_out() {
    let stage = full(
        "[[turn]]\nsteps = [{ text = 'half' }, { pause_ms = 60000 }]\n[[turn]]\nsteps = [{ text = 'as before' }]",
    );
    let mut arguments = vec!["-p", "the task", "--allowedTools", "Bash", "--autocompact", "13000"];
    arguments.extend(FRAMES);
    let mut child = stage.spawn(&arguments);
    let asked = || {
        let last = stage.server.requests().last().map(|request| request.body_json().to_string());
        last.is_some_and(|body| body.contains("Answer with the summary alone"))
    };
    while !asked() {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::yield_now();
    }
    let status = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let frames = Done::from(child.wait_with_output().unwrap()).frames();
    assert_eq!(frames.result()["terminal_reason"], "aborted_streaming", "{}", frames.result());
    let written = std::fs::read_to_string(transcript(&stage)).unwrap();
    assert!(!written.contains("isCompactSummary") && !written.contains("\"compacted\""));
    stage.check_resumable();
}

#[test]
fn a_process_that_dies_leaves_the_old_conversation_or_the_new_one() {
    let stage = Stage::new(&format!(
        "{WORK}\n[[turn]]\nsteps = [{{ text = 'summed up' }}]\n{}",
        "[[turn]]\nsteps = [{ text = 'on it' }]\n".repeat(8)
    ));
    stage.run(&["-p", "mend it", "--allowedTools", "Bash", "--permission-mode", "acceptEdits"]).check_ok();
    let path = transcript(&stage);
    let before = std::fs::read(&path).unwrap();
    stage.run(&["-p", "/compact", "--continue"]).check_ok();
    let whole = std::fs::read(&path).unwrap();
    let newline = |from: usize| from + whole[from..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let find = |part: &str| whole.windows(part.len()).rposition(|window| window == part.as_bytes()).unwrap();
    let mark = newline(find("\"compact_boundary\""));
    let summary = newline(find("\"isCompactSummary\""));
    let mut kinds = Vec::new();
    for cut in [before.len(), mark - 20, mark, mark + 500, summary - 2, summary - 1, summary, whole.len()] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let mut arguments = vec!["-p", "go on", "--continue"];
        arguments.extend(FRAMES);
        let frames = stage.run(&arguments).frames();
        assert_eq!(frames.result()["subtype"], "success", "{}", frames.result());
        assert_eq!(frames.all[0]["permissionMode"], "acceptEdits", "what may run is the same");
        let last = stage.server.requests().last().unwrap().body_json().to_string();
        assert!(last.contains("mend it") && last.contains("mend the parser"));
        kinds.push(if last.contains("summed up") { "new" } else { "old" });
    }
    assert_eq!(kinds, ["old", "old", "old", "old", "old", "new", "new", "new"]);
    stage.server.assert_valid_histories();
}
