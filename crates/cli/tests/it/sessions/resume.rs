//! Which session is gone on with, from which line, and in which file.

use super::{TALK, lines};
use crate::stage::Stage;
use ostler_proto::Json;
use serde_json::json;

const FIRST: &str = "11111111-2222-4333-8444-555555555555";
const SECOND: &str = "22222222-2222-4333-8444-555555555555";

fn said(request: &Json) -> Vec<String> {
    let texts = |message: &Json| match &message["content"] {
        Json::String(text) => text.clone(),
        content => content.as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect(),
    };
    request["messages"].as_array().unwrap().iter().map(texts).collect()
}

#[track_caller]
fn last_said(stage: &Stage) -> Vec<String> {
    said(&stage.server.requests().last().unwrap().body_json())
}

#[test]
fn a_copy_goes_on_and_the_original_stays_byte_for_byte() {
    let stage = Stage::new(TALK);
    stage.run(&["-p", "remember 42", "--session-id", FIRST, "--name", "numbers"]).check_ok();
    let path = stage.transcript();
    let odd = "{\"type\":\"from-the-future\",\"sessionId\":\"x\",\"x\":1}\n";
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + odd).unwrap();
    let before = std::fs::read(&path).unwrap();
    stage.run(&["-p", "and?", "--resume", FIRST, "--fork-session", "--session-id", SECOND]).check_ok();
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(last_said(&stage), ["remember 42", "noted", "and?"]);
    let copy = std::fs::read_to_string(path.with_file_name(format!("{SECOND}.jsonl"))).unwrap();
    assert!(copy.contains(odd) && copy.contains("numbers (fork)"), "{copy}");
    let copied = copy.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    assert!(copied.filter(|line| line["type"] != "from-the-future").all(|line| line["sessionId"] == SECOND));
    stage.run(&["-p", "more", "--resume", SECOND]).check_ok();
    assert_eq!(last_said(&stage).len(), 5);
    stage.server.assert_valid_histories();
}

#[test]
fn a_session_is_found_by_its_beginning_its_title_and_its_words() {
    let stage = Stage::new(&TALK.repeat(4));
    stage.run(&["-p", "remember the harbour", "--session-id", FIRST, "--name", "ships"]).check_ok();
    stage.run(&["-p", "remember the quay", "--session-id", SECOND]).check_ok();
    for wanted in ["1111", "SHIPS", "harbour"] {
        stage.run(&["-p", "on", "--resume", wanted]).check_ok();
        assert_eq!(last_said(&stage)[0], "remember the harbour", "{wanted}");
    }
    let asked = stage.server.requests().len();
    let several = stage.run(&["-p", "on", "--resume", "remember"]);
    assert_eq!(several.code, Some(1));
    assert!(several.stderr.contains("11111111") && several.stderr.contains("22222222"), "{}", several.stderr);
    let none = stage.run(&["-p", "on", "--resume", "submarine"]);
    assert!(none.stderr.contains("no conversation found"), "{}", none.stderr);
    let unsaid = stage.run(&["-p", "on", "--resume"]);
    assert!(unsaid.stderr.contains("say which session"), "{}", unsaid.stderr);
    assert_eq!(stage.server.requests().len(), asked, "nothing was asked of the model");
}

#[test]
fn a_conversation_goes_on_from_an_earlier_line() {
    let stage = Stage::new(&TALK.repeat(3));
    stage.run(&["-p", "one", "--session-id", FIRST]).check_ok();
    stage.run(&["-p", "two", "--resume", FIRST]).check_ok();
    let uuid = |text: &str| {
        let is_it = |line: &&Json| {
            line["message"]["content"] == text || line["message"]["content"][0]["text"] == text
        };
        lines(&stage).iter().find(is_it).unwrap()["uuid"].as_str().unwrap().to_owned()
    };
    let (answer, second) = (uuid("noted"), uuid("two"));
    let wrong = stage.run(&[
        "-p",
        "x",
        "--resume",
        FIRST,
        "--resume-session-at",
        &answer,
        "--resume-drops-turn",
        &answer,
    ]);
    assert!(wrong.stderr.contains("Resume rejected by --resume-drops-turn:"), "{}", wrong.stderr);
    let unknown = stage.run(&["-p", "x", "--resume", FIRST, "--resume-session-at", SECOND]);
    assert!(unknown.stderr.contains("has no line"), "{}", unknown.stderr);
    let at = ["--resume", FIRST, "--resume-session-at", &answer, "--resume-drops-turn", &second];
    stage.run(&[&["-p", "three"], at.as_slice()].concat()).check_ok();
    assert_eq!(last_said(&stage), ["one", "noted", "three"]);
    stage.run(&["-p", "four", "--resume", FIRST]).check_ok();
    assert_eq!(last_said(&stage)[..3], ["one", "noted", "three"], "what was left out stays out");
    assert_eq!(stage.transcripts().len(), 1, "in the session's own file");
    stage.server.assert_valid_histories();
}

#[test]
fn within_a_turn_a_copy_goes_on() {
    let stage = Stage::new(
        r#"
        [[turn]]
        steps = [{ text = "looking" }, { call = "Read", id = "c1", input = { file_path = "a.txt" } }]
        [[turn]]
        steps = [{ text = "end" }]
        [[turn]]
        steps = [{ text = "again" }]
        "#,
    );
    stage.run(&["-p", "go", "--session-id", FIRST]).check_ok();
    let path = stage.transcript();
    let before = std::fs::read(&path).unwrap();
    let call = lines(&stage).into_iter().find(|line| line["message"]["content"][0]["id"] == "c1").unwrap();
    let at = call["uuid"].as_str().unwrap();
    let done = stage.run(&["-p", "differently", "--resume", FIRST, "--resume-session-at", at]);
    assert!(done.check_ok().stderr.contains("in a copy"), "{}", done.stderr);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(stage.server.requests()[2].body_json().to_string().contains("outcome unknown"));
    stage.server.assert_valid_histories();
}

#[test]
fn a_session_of_another_program_is_copied_and_its_choices_are_kept() {
    let stage = Stage::new(TALK);
    let key = ostler_engine::session::project_key(stage.repo.path());
    let line = |uuid: &str, parent: Json, mut more: Json| {
        more["uuid"] = json!(uuid);
        more["parentUuid"] = parent;
        more["isSidechain"] = json!(false);
        more["sessionId"] = json!(FIRST);
        more["timestamp"] = json!("2026-01-01T00:00:00.000Z");
        format!("{more}\n")
    };
    let user = |text: &str| json!({"type": "user", "permissionMode": "acceptEdits", "message": {"role": "user", "content": text}});
    let answer = |text: &str| {
        let content = json!([{"type": "text", "text": text}]);
        json!({"type": "assistant", "message": {"id": text, "role": "assistant", "model": "claude-sonnet-4-5", "content": content}})
    };
    let system = json!({"type": "system", "subtype": "turn_duration"});
    let text = line("u1", Json::Null, user("first"))
        + &line("a1", json!("u1"), answer("yes"))
        + &line("s1", json!("a1"), system)
        + &line("u2", json!("s1"), user("given up"))
        + &line("a2", json!("u2"), answer("too bad"))
        + &line("u3", json!("s1"), user("instead"))
        + &line("a3", json!("u3"), answer("better"));
    let file = format!(".claude/projects/{key}/{FIRST}.jsonl");
    stage.home.write(&file, &text);
    // Nothing says which model: the session does.
    let words = ["--print", "now", "--resume", FIRST, "--output-format", "stream-json", "--verbose"];
    let frames = stage.run(&words).frames();
    assert_eq!(frames.code, Some(0), "{}", frames.stderr);
    assert_eq!(frames.all[0]["permissionMode"], "acceptEdits");
    assert_eq!(frames.all[0]["model"], "claude-sonnet-4-5");
    assert_ne!(frames.all[0]["session_id"], FIRST);
    assert_eq!(last_said(&stage), ["first", "yes", "instead", "better", "now"]);
    assert_eq!(stage.home.read(&file), text, "not ours to write");
    assert!(frames.stderr.contains("another program"), "{}", frames.stderr);
    assert_eq!(stage.transcripts().len(), 1);
}

#[test]
fn what_is_kept_for_a_cleared_conversation_lies_beside_its_own_transcript() {
    let print = "[[turn]]\nsteps = [{ call = 'Bash', input = { command = 'seq 1 30000' } }]\n";
    let stage = Stage::new(&format!(
        "{print}[[turn]]\nsteps = [{{ text = 'one' }}]\n{print}[[turn]]\nsteps = [{{ text = 'two' }}]"
    ));
    let mut host = crate::context::Host::start(&stage, &["--allowedTools", "Bash"]);
    host.turn("go");
    host.turn("/clear");
    host.turn("go again");
    host.end();
    let with_results: Vec<_> = stage
        .transcripts()
        .into_iter()
        .filter(|path| path.with_extension("").join("tool-results").is_dir())
        .collect();
    assert_eq!(with_results.len(), 2, "{:?}", stage.transcripts());
}

#[test]
fn clear_begins_another_session() {
    let stage = Stage::new(TALK);
    let prompt =
        |text: &str| json!({"type": "user", "message": {"role": "user", "content": text}}).to_string() + "\n";
    let mut command =
        stage.command(&["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let input = prompt("remember 42") + &prompt("/clear") + &prompt("what was it?");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    let frames = crate::stage::Done::from(child.wait_with_output().unwrap()).frames();
    let at = frames.all.iter().position(|frame| frame["type"] == "conversation_reset").unwrap();
    let reset = &frames.all[at];
    assert_eq!((&reset["trigger"], &reset["session_id"]), (&json!("clear"), &frames.all[0]["session_id"]));
    assert_ne!(reset["new_conversation_id"], reset["session_id"]);
    assert!(frames.all[at + 1..].iter().all(|frame| frame["session_id"] == reset["new_conversation_id"]));
    assert_eq!(last_said(&stage), ["what was it?"]);
    assert_eq!(stage.transcripts().len(), 2);
    let old = reset["session_id"].as_str().unwrap();
    stage.run(&["-p", "back again", "--resume", old]).check_ok();
    assert_eq!(last_said(&stage), ["remember 42", "noted", "back again"]);
}
