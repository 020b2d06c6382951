//! `ostler rewind`, `blame` and `checkpoints` on a real store, and conversations that go back.

use crate::{host, stage::Stage};
use ostler_control::checkpoint::{Caller, Checkpoints, Limits, Place};
use ostler_engine::session::project_key;
use ostler_proto::{EntryId, Json, SessionId};

const TALK: &str = r#"
[[turn]]
steps = [{ text = "noted" }]
[[turn]]
steps = [{ text = "second" }]
[[turn]]
steps = [{ text = "third" }]
"#;

fn checkpoints(stage: &Stage) -> Checkpoints {
    let cwd = stage.repo.path().canonicalize().unwrap();
    let folder = stage.home.join(".ostler/checkpoints").join(project_key(&cwd));
    let place = Place { folder, excluded: Vec::new(), limits: Limits::default() };
    Checkpoints::open(&place).unwrap().0
}

/// Changes a file as a call of the session does.
fn edit(stage: &Stage, session: &str, prompt: &str, text: &str) {
    let checkpoints = checkpoints(stage);
    checkpoints.begin(&SessionId::from(session), &EntryId::from(prompt), "add a line").unwrap();
    let path = stage.repo.path().canonicalize().unwrap().join("a.txt");
    let caller =
        Caller { session: session.into(), agent: None, call: "toolu_1".into(), title: "Edit a.txt".into() };
    let running = checkpoints.before_files(&caller, std::slice::from_ref(&path)).unwrap();
    std::fs::write(path, text).unwrap();
    checkpoints.finish(running).unwrap();
}

fn text(stage: &Stage) -> String {
    std::fs::read_to_string(stage.repo.join("a.txt")).unwrap()
}

#[test]
fn files_go_back_and_forth() {
    let stage = Stage::new(TALK);
    edit(&stage, "s1", "p1", "one\ntwo\nthree\nfour\n");
    edit(&stage, "s1", "p2", "one\n2\nthree\nfour\n");
    let list = stage.run(&["rewind", "--list"]).check_ok().stdout.clone();
    assert!(list.starts_with("session s1\n  1  ") && list.contains("p2  add a line"), "{list}");
    let dry = stage.run(&["rewind", "--to", "1", "--dry-run"]).check_ok().stdout.clone();
    assert_eq!(dry, "  a.txt\nwould change 1 file, 1 line added, 2 taken away\n");
    assert_eq!(text(&stage), "one\n2\nthree\nfour\n");

    stage.run(&["rewind", "--to", "p1"]).check_ok();
    assert_eq!(text(&stage), "one\ntwo\nthree\n");
    stage.run(&["rewind", "--undo"]).check_ok();
    assert_eq!(text(&stage), "one\n2\nthree\nfour\n");

    let blame = stage.run(&["blame", "a.txt:4"]).check_ok().stdout.clone();
    assert!(
        blame.starts_with("four\n") && blame.contains("edit, session s1, call toolu_1, prompt p1"),
        "{blame}"
    );
    stage.repo.write("a.txt", "mine\n");
    let kept = stage.run(&["rewind", "--to", "2"]);
    assert_eq!(kept.code, Some(1), "what is kept shows in the exit code");
    assert!(kept.stdout.contains("kept a.txt: changed by others since"), "{}", kept.stdout);
    stage.run(&["rewind", "--to", "2", "--force"]).check_ok();
    assert_eq!(text(&stage), "one\ntwo\nthree\nfour\n");
}

#[test]
fn lines_are_blamed_on_calls_or_on_nobody() {
    let stage = Stage::new(TALK);
    edit(&stage, "5e551011-0000", "p1", "one\ntwo\nthree\nfour\n");
    let whole = stage.run(&["blame", "a.txt"]).check_ok().stdout.clone();
    for (author, number, line) in [("-", 3, "three"), ("5e551011 #2", 4, "four")] {
        assert!(whole.contains(&format!("{author:<24} {number:>5}  {line}\n")), "{whole}");
    }
    assert!(whole.contains("edit, session 5e551011-0000, call toolu_1, prompt p1: Edit a.txt"), "{whole}");
    let nobody = stage.run(&["blame", "b.txt:1"]).check_ok().stdout.clone();
    assert_eq!(nobody, "bee\nnot changed by any session that is on record\n");
    assert!(stage.run(&["blame", "a.txt:99"]).stderr.contains("has 4 lines"));
    std::fs::remove_file(stage.repo.join("a.txt")).unwrap();
    let gone = stage.run(&["blame", "a.txt:4"]).check_ok().stdout.clone();
    assert!(
        gone.contains("is not there now") && gone.contains("Edit a.txt") && gone.contains("others"),
        "{gone}"
    );
    let never = stage.run(&["blame", "never.txt"]);
    assert!(never.code == Some(1) && never.stderr.contains("does not exist"), "{}", never.stderr);
}

#[test]
fn a_conversation_goes_on_from_before_a_prompt() {
    let stage = Stage::new(TALK);
    stage.run(&["-p", "remember 42"]).check_ok();
    stage.run(&["-p", "forget it", "--continue"]).check_ok();
    let lines = std::fs::read_to_string(stage.transcript()).unwrap();
    let lines: Vec<Json> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let prompts: Vec<&str> = lines
        .iter()
        .filter(|line| line["type"] == "user")
        .map(|line| line["uuid"].as_str().unwrap())
        .collect();
    let id = stage.transcript().file_stem().unwrap().to_str().unwrap().to_owned();
    edit(&stage, &id, prompts[1], "changed\n");
    let done = stage.run(&["rewind", "--to", prompts[1], "--both"]);
    assert!(done.check_ok().stdout.contains("the conversation goes on"), "{}", done.stdout);
    assert_eq!(text(&stage), "one\ntwo\nthree\n");
    stage.run(&["-p", "and now?", "--resume", &id]).check_ok();
    let last = stage.server.requests()[2].body_json();
    assert!(last.to_string().contains("remember 42") && !last.to_string().contains("forget it"), "{last}");
    assert_eq!(last["messages"].as_array().unwrap().len(), 3);
    stage.server.assert_valid_histories();
    let again = stage.run(&["rewind", "--to", prompts[1], "--conversation"]);
    assert!(again.stderr.contains("has no prompt"), "{}", again.stderr);
}

#[test]
fn the_store_is_looked_after() {
    let stage = Stage::new(TALK);
    assert!(stage.run(&["rewind", "--list"]).stderr.contains("there are no checkpoints"));
    edit(&stage, "s1", "p1", "x\n");
    let stat = stage.run(&["checkpoints", "stat"]).check_ok().stdout.clone();
    assert!(stat.starts_with("1 checkpoints in 1 sessions, 2 operations\n2 contents"), "{stat}");
    let pruned = stage.run(&["checkpoints", "prune", "--megabytes", "0"]).check_ok().stdout.clone();
    assert!(pruned.starts_with("forgot 2 operations and 2 contents"), "{pruned}");
    let reset = stage.run(&["checkpoints", "reset"]).check_ok().stdout.clone();
    assert!(reset.contains("aside-1"), "{reset}");
}

#[test]
fn a_session_is_named_by_how_its_id_begins_and_a_wrong_name_is_said() {
    let stage = Stage::new(TALK);
    let result = stage.frames(&[]).result().clone();
    let id = result["session_id"].as_str().unwrap();
    edit(&stage, id, "p1", "changed\n");
    let list = stage.run(&["rewind", "--list", "--session", &id[..8]]).check_ok().stdout.clone();
    assert!(list.starts_with(&format!("session {id}\n  1  ")), "{list}");
    let wrong = stage.run(&["rewind", "--list", "--session", "ffffffff"]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("no session 'ffffffff'"), "{}", wrong.stderr);
}

#[test]
#[expect(clippy::disallowed_types, reason = "the test holds the session's lock as another process would")]
fn files_stay_where_another_process_has_the_conversation() {
    let stage = Stage::new(TALK);
    let result = stage.frames(&[]).result().clone();
    let id = result["session_id"].as_str().unwrap();
    edit(&stage, id, result["user_message_uuid"].as_str().unwrap(), "changed\n");
    let held = std::fs::OpenOptions::new().append(true).open(stage.transcript()).unwrap();
    held.lock().unwrap();
    let refused = stage.run(&["rewind", "--to", "1", "--both"]);
    assert!(
        refused.code == Some(1) && refused.stderr.contains("open in another process"),
        "{}",
        refused.stderr
    );
    assert_eq!(text(&stage), "changed\n");
    drop(held);
    stage.run(&["rewind", "--to", "1", "--both"]).check_ok();
    assert_eq!(text(&stage), "one\ntwo\nthree\n");
}

#[test]
fn a_prompt_before_a_compaction_can_be_gone_back_to() {
    let stage = Stage::new(&"[[turn]]\nsteps = [{ text = 'ok' }]\n".repeat(4));
    let heard = host::telling(&stage, &[], &["one", "two", "/compact", "/rewind 2 conversation", "three"]);
    assert_eq!(heard.result["result"], "ok");
    let last = stage.server.requests().last().unwrap().body_json();
    let said = |message: &Json| message["content"][0]["text"].as_str().unwrap().to_owned();
    let said: Vec<String> = last["messages"].as_array().unwrap().iter().map(said).collect();
    assert_eq!(said, ["one", "ok", "three"]);
}
