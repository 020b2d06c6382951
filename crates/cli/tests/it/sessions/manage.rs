//! `ostler session`: what a user does with sessions, and that the index behind it is only a cache.
#![expect(clippy::disallowed_types, reason = "makes a file old, and holds it")]

use super::TALK;
use crate::stage::Stage;
use ostler_proto::Json;

const FIRST: &str = "11111111-2222-4333-8444-555555555555";
const SECOND: &str = "22222222-2222-4333-8444-555555555555";
const SECRET: &str = "ghp_9vK2mQ7xR4tY8wZ1nB5cD3fG6hJ0kL2pS4aE";

fn two() -> Stage {
    let stage = Stage::new(&TALK.repeat(3));
    stage.run(&["-p", &format!("the key is {SECRET}"), "--session-id", FIRST]).check_ok();
    stage.run(&["-p", "the weather\u{1b}[31m in Spain", "--session-id", SECOND]).check_ok();
    stage
}

#[track_caller]
fn out(stage: &Stage, words: &[&str]) -> String {
    stage.run(&[&["session"], words].concat()).check_ok().stdout.clone()
}

#[test]
fn sessions_are_listed_named_found_and_shown() {
    let stage = two();
    let listed = out(&stage, &["list"]);
    assert!(listed.find("Spain") < listed.find("the key is"), "the last used first: {listed}");
    assert!(!listed.contains('\u{1b}'), "{listed:?}");
    out(&stage, &["rename", "2222", "Rain"]);
    assert!(out(&stage, &["list"]).contains("Rain"));
    let json: Vec<Json> =
        out(&stage, &["list", "--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(json[0]["title"], "Rain");
    assert_eq!(json[0]["id"], SECOND);
    assert!(out(&stage, &["search", "weath", "spain"]).starts_with("22222222"));
    assert!(out(&stage, &["search", "Rain"]).contains("Rain"), "titles are searched");
    assert_eq!(stage.run(&["session", "search", "snow"]).code, Some(1));
    let shown = out(&stage, &["show", "1111"]);
    assert!(shown.contains(SECRET) && shown.contains("noted"), "{shown}");
}

#[test]
fn an_empty_id_means_no_session() {
    let stage = Stage::new(TALK);
    stage.run(&["-p", "the only one", "--session-id", FIRST]).check_ok();
    for id in ["", "1"] {
        let done = stage.run(&["session", "delete", id]);
        assert!(done.code == Some(1) && done.stderr.contains("too short for an id"), "{}", done.stderr);
    }
    assert!(out(&stage, &["list"]).contains("the only one"));
}

#[test]
fn a_damaged_or_missing_index_is_made_anew() {
    let stage = two();
    let listed = out(&stage, &["list"]);
    let index = stage.home.join(".ostler/sessions.db");
    for damage in [&b"garbage"[..], b"SQLite format 3\0 and then nothing of the kind"] {
        std::fs::write(&index, damage).unwrap();
        assert_eq!(out(&stage, &["list"]), listed);
        assert!(out(&stage, &["search", "weather"]).contains("22222222"));
    }
    let mut bytes = std::fs::read(&index).unwrap();
    let middle = bytes.len() / 2;
    bytes[4096..middle].fill(0xff);
    std::fs::write(&index, bytes).unwrap();
    assert_eq!(out(&stage, &["list"]), listed);
    std::fs::remove_file(&index).unwrap();
    assert_eq!(out(&stage, &["list"]), listed);
    assert!(out(&stage, &["search", "weather"]).contains("22222222"));
}

#[test]
fn exports_hold_everything_but_secrets() {
    let stage = two();
    stage.home.write("odd", "{\"type\":\"from-the-future\",\"x\":1}\n");
    let path = stage.transcripts().into_iter().find(|path| path.ends_with(format!("{FIRST}.jsonl"))).unwrap();
    let text = std::fs::read_to_string(&path).unwrap() + &stage.home.read("odd");
    std::fs::write(&path, &text).unwrap();
    for format in ["md", "json", "html"] {
        let file = stage.home.join(format);
        let done =
            stage.run(&["session", "export", "11111111", "--format", format, "-o", file.to_str().unwrap()]);
        assert!(done.check_ok().stderr.contains("taken out; others may be there"), "{}", done.stderr);
        let exported = stage.home.read(format);
        assert!(!exported.contains(SECRET) && exported.contains("[redacted:"), "{format}: {exported}");
        assert!(exported.contains("noted"), "{format}");
    }
    assert!(stage.home.read("md").starts_with(&format!("# Session {FIRST}\n")), "it has no title");
    out(&stage, &["rename", "1111", &format!("Keys & <b>{SECRET}</b>\u{1b}[31m")]);
    let titled = out(&stage, &["export", "1111"]);
    assert!(titled.starts_with("# Keys & <b>[redacted:") && titled.contains(&format!("Session {FIRST}")));
    assert!(!titled.contains('\u{1b}'), "{titled:?}");
    let page = out(&stage, &["export", "1111", "--format", "html"]);
    for heading in ["<title>Keys &amp; &lt;b&gt;[redacted:", "<h1>Keys &amp; &lt;b&gt;[redacted:"] {
        assert!(page.contains(heading), "{page}");
    }
    let exported = stage.home.read("json");
    assert_eq!(exported.lines().count(), text.lines().count(), "every line");
    assert!(exported.contains("from-the-future"));
    assert!(exported.lines().all(|line| serde_json::from_str::<Json>(line).is_ok()));
}

#[test]
fn removing_takes_what_lies_beside_and_spares_what_is_open() {
    let stage = two();
    let path = stage.transcripts().into_iter().find(|path| path.ends_with(format!("{FIRST}.jsonl"))).unwrap();
    let beside = path.with_extension("").join("tool-results");
    std::fs::create_dir_all(&beside).unwrap();
    std::fs::write(path.with_file_name("memory"), "mine").unwrap();
    assert_eq!(stage.run(&["session", "delete", "1111", "3333"]).code, Some(1));
    assert!(path.exists(), "a slip in one removes none");
    out(&stage, &["delete", "1111"]);
    assert!(!path.exists() && !path.with_extension("").exists());
    assert!(!out(&stage, &["list"]).contains("the key"));
    assert!(!out(&stage, &["search", "weather"]).is_empty());

    let old = std::time::SystemTime::now() - std::time::Duration::from_hours(40 * 24);
    let second = path.with_file_name(format!("{SECOND}.jsonl"));
    let file = std::fs::OpenOptions::new().append(true).open(&second).unwrap();
    file.set_modified(old).unwrap();
    assert!(out(&stage, &["prune", "--dry-run"]).contains("1 session would be removed"));
    assert!(out(&stage, &["prune", "--older-than", "60d"]).contains("removed 0"));
    file.lock().unwrap();
    assert!(out(&stage, &["prune"]).contains("removed 0"), "it is open");
    drop(file);
    std::fs::remove_file(stage.home.join(".ostler/last-prune")).unwrap();
    stage.run(&["-p", "hello"]).check_ok();
    assert!(!second.exists(), "old sessions go by themselves");
    assert!(path.with_file_name("memory").exists());
}

#[test]
fn damage_is_told_and_mended() {
    let stage = two();
    let path = stage.transcripts().into_iter().find(|path| path.ends_with(format!("{FIRST}.jsonl"))).unwrap();
    let whole = std::fs::read_to_string(&path).unwrap();
    let twice = whole.lines().find(|line| line.contains("\"type\":\"user\"")).unwrap();
    let damaged = format!("{whole}{twice}\ngarbage\n{{\"type\":\"from-the-future\"}}\n{{\"type\":\"assi");
    std::fs::write(&path, &damaged).unwrap();
    let found = stage.run(&["session", "fsck", FIRST]);
    assert_eq!(found.code, Some(1));
    assert_eq!(found.stdout.matches("cannot be read").count(), 2, "{}", found.stdout);
    assert_eq!(found.stdout.matches("stands there twice").count(), 1, "{}", found.stdout);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged, "looking changes nothing");
    out(&stage, &["fsck", "--repair"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), whole + "{\"type\":\"from-the-future\"}\n");
    assert_eq!(std::fs::read_to_string(path.with_extension("jsonl.damaged-1")).unwrap(), damaged);
    assert!(out(&stage, &["fsck"]).contains("2 sessions, 0 damaged"));
}
