//! What others do: people at the same files, and other sessions at the same time.

use super::stage::{Stage, begin, caller, shell};
use ostler_control::checkpoint::{Blame, Caller, Checkpoints, Force, Kept, Kind, Why};
use ostler_proto::{AgentId, EntryId, SessionId};

fn rewind(checkpoints: &Checkpoints, session: &str, prompt: &str, force: Force) -> Vec<Kept> {
    let session = SessionId::from(session);
    let to = checkpoints.checkpoint(&session, &EntryId::from(prompt)).unwrap();
    checkpoints.restore(&session, to, force).unwrap().kept
}

#[test]
fn what_others_changed_is_kept_unless_forced_and_then_can_be_had_back() {
    let stage = Stage::new();
    stage.write("a", "1");
    stage.write("b", "1");
    stage.write("c", "1");
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.run(&checkpoints, "echo 2 > a; echo 2 > b; echo 2 > c; mkdir d; touch d/ours");
    stage.write("b", "mine");
    stage.write("d/mine", "mine");
    std::fs::remove_file(stage.at("c")).unwrap();
    let kept = rewind(&checkpoints, "s1", "p1", Force::KeepOthers);
    let kept: Vec<_> = kept.into_iter().map(|kept| (kept.path, kept.why)).collect();
    assert!(kept.contains(&(stage.at("b"), Why::ChangedByOthers)), "{kept:?}");
    assert!(kept.contains(&(stage.at("c"), Why::ChangedByOthers)), "{kept:?}");
    assert!(kept.contains(&(stage.at("d"), Why::InUse)), "{kept:?}");
    assert_eq!((stage.read("a").as_str(), stage.read("b").as_str()), ("1", "mine"));
    assert!(!stage.at("c").exists() && !stage.at("d/ours").exists() && stage.read("d/mine") == "mine");

    rewind(&checkpoints, "s1", "p1", Force::OverwriteOthers);
    assert_eq!((stage.read("b").as_str(), stage.read("c").as_str()), ("1", "1"));
    let session = SessionId::from("s1");
    checkpoints.restore(&session, checkpoints.last_rewind(&session).unwrap(), Force::KeepOthers).unwrap();
    assert_eq!(stage.read("b"), "mine");
    assert!(!stage.at("c").exists());
}

#[test]
fn a_change_between_two_of_ours_is_noticed() {
    let stage = Stage::new();
    stage.write("a", "1");
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.edit(&checkpoints, "a", "2");
    stage.write("a", "theirs");
    stage.edit(&checkpoints, "a", "theirs and ours");
    let kept = rewind(&checkpoints, "s1", "p1", Force::KeepOthers);
    assert_eq!(kept, [Kept { path: stage.at("a"), why: Why::MixedWithOthers }]);
}

#[test]
fn two_sessions_take_back_their_own() {
    let stage = Stage::new();
    let (one, two) = (stage.open(), stage.open());
    begin(&one, "s1", "p1");
    begin(&two, "s2", "p2");
    let project = [stage.project()];
    let first = one.before_command(&caller("s1", "c1"), &project).unwrap();
    stage.write("shared", "1");
    stage.write("of-one", "1");
    let edit = two.before_files(&caller("s2", "c2"), &[stage.at("of-two")]).unwrap();
    stage.write("of-two", "2");
    assert_eq!(two.finish(edit).unwrap().unwrap().changes.len(), 1);
    let recorded = one.finish(first).unwrap().unwrap();
    let paths: Vec<_> = recorded.changes.iter().map(|change| change.path.clone()).collect();
    assert_eq!(paths, [stage.at("of-one"), stage.at("shared")], "what the other recorded is not ours");
    let edit = two.before_files(&caller("s2", "c3"), &[stage.at("shared")]).unwrap();
    stage.write("shared", "2");
    two.finish(edit).unwrap();

    let kept = rewind(&one, "s1", "p1", Force::KeepOthers);
    assert_eq!(kept, [Kept { path: stage.at("shared"), why: Why::ChangedByOthers }]);
    assert!(!stage.at("of-one").exists() && stage.read("of-two") == "2");
    assert_eq!(rewind(&two, "s2", "p2", Force::KeepOthers), []);
    assert_eq!(stage.read("shared"), "1");
    assert!(!stage.at("of-two").exists());
}

#[test]
fn what_a_running_command_changed_is_its_own_whoever_looks_meanwhile() {
    let stage = Stage::new();
    stage.write("a", "1");
    let (one, two) = (stage.open(), stage.open());
    begin(&one, "s1", "p1");
    let project = [stage.project()];
    let running = one.before_command(&caller("s1", "c1"), &project).unwrap();
    stage.write("a", "2");
    one.warm(&project).unwrap();
    stage.write("b", "2");
    two.warm(&project).unwrap();
    stage.write("a", "3");
    stage.write("c", "3");
    two.warm(&project).unwrap();
    std::fs::remove_file(stage.at("c")).unwrap();
    let recorded = one.finish(running).unwrap().unwrap();
    let paths: Vec<_> = recorded.changes.iter().map(|change| change.path.clone()).collect();
    assert_eq!(paths, [stage.at("a"), stage.at("b")]);
    let again = stage.run(&one, "echo 4 > a");
    assert_eq!(again.changes.len(), 1);
    assert_eq!(rewind(&two, "s1", "p1", Force::KeepOthers), []);
    assert!(stage.read("a") == "1" && !stage.at("b").exists());
}

#[test]
fn calls_of_one_session_that_overlap_go_back_in_whatever_order_they_ended() {
    let stage = Stage::new();
    stage.write("a", "1");
    stage.write("b", "1");
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    let project = [stage.project()];
    let before = |call: &str| checkpoints.before_command(&caller("s1", call), &project).unwrap();
    let (first, second) = (before("c1"), before("c2"));
    stage.write("a", "2");
    let edit = checkpoints.before_files(&caller("s1", "c3"), &[stage.at("b")]).unwrap();
    stage.write("b", "2");
    checkpoints.finish(edit).unwrap();
    checkpoints.finish(second).unwrap();
    stage.write("a", "3");
    stage.write("b", "3");
    checkpoints.finish(first).unwrap();
    assert_eq!(rewind(&checkpoints, "s1", "p1", Force::KeepOthers), []);
    assert_eq!((stage.read("a").as_str(), stage.read("b").as_str()), ("1", "1"));
}

#[test]
fn what_either_of_two_sessions_may_have_changed_is_neither_s_to_take_back() {
    let stage = Stage::new();
    let (one, two) = (stage.open(), stage.open());
    begin(&one, "s1", "p1");
    begin(&two, "s2", "p2");
    let project = [stage.project()];
    let long = one.before_command(&caller("s1", "long"), &project).unwrap();
    stage.write("of-one", "1\n");
    let short = two.before_command(&caller("s2", "short"), &project).unwrap();
    stage.write("either", "1\n");
    two.finish(short).unwrap();
    stage.write("later", "1\n");
    one.finish(long).unwrap();

    let blame = two.blame(&stage.at("either")).unwrap();
    let id = blame.lines[0].1.unwrap();
    let author = blame.operation(id).unwrap().session.clone().unwrap();
    assert_eq!((author.as_str(), blame.others(id)), ("s2", &[SessionId::from("s1")][..]));
    assert_eq!(
        one.blame(&stage.at("of-one")).unwrap().doubts.len(),
        0,
        "it was there before the other began"
    );

    let shared = |with: &str| [Kept { path: stage.at("either"), why: Why::Shared([with.into()].into()) }];
    assert_eq!(rewind(&two, "s2", "p2", Force::OverwriteFiles), shared("s1"));
    assert_eq!(rewind(&one, "s1", "p1", Force::KeepOthers), shared("s2"));
    assert!(stage.read("either") == "1\n" && !stage.at("of-one").exists() && !stage.at("later").exists());
    assert_eq!(rewind(&two, "s2", "p2", Force::OverwriteOthers), []);
    assert!(!stage.at("either").exists());
    let session = SessionId::from("s2");
    two.restore(&session, two.last_rewind(&session).unwrap(), Force::KeepOthers).unwrap();
    assert_eq!(stage.read("either"), "1\n", "that can be taken back as well");
}

#[test]
fn many_sessions_at_once_lose_nothing_and_keep_one_log() {
    const ROUNDS: usize = 12;
    let stage = Stage::new();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let stage = &stage;
            scope.spawn(move || {
                let checkpoints = stage.open();
                let session = format!("s{number}");
                for round in 0..ROUNDS {
                    begin(&checkpoints, &session, &format!("{session}-{round}"));
                    let path = stage.at(&format!("{session}/file"));
                    let running = checkpoints
                        .before_files(&caller(&session, "edit"), std::slice::from_ref(&path))
                        .unwrap();
                    stage.write(&format!("{session}/file"), format!("{round}"));
                    assert!(!checkpoints.finish(running).unwrap().unwrap().changes.is_empty());
                }
                rewind(&checkpoints, &session, &format!("{session}-{}", ROUNDS / 2), Force::KeepOthers);
                assert_eq!(
                    std::fs::read_to_string(path_of(stage, &session)).unwrap(),
                    format!("{}", ROUNDS / 2 - 1)
                );
            });
        }
    });
    let checkpoints = stage.open();
    let mut all = Vec::new();
    for number in 0..4 {
        let session = SessionId::from(format!("s{number}"));
        assert_eq!(checkpoints.checkpoints(&session).unwrap().len(), ROUNDS);
        all.extend(checkpoints.operations(&session).unwrap());
    }
    all.sort_by_key(|operation| operation.id);
    assert_eq!(all.len(), 4 * (2 * ROUNDS + 1));
    for pair in all.windows(2) {
        assert_eq!(pair[1].parent, Some(pair[0].id), "each follows the one before it");
    }
}

fn path_of(stage: &Stage, session: &str) -> std::path::PathBuf {
    stage.at(&format!("{session}/file"))
}

fn authors(blame: &Blame) -> Vec<(String, String)> {
    let name = |id| blame.operation(id).unwrap().call.clone().unwrap().0;
    let lines = blame.lines.iter();
    lines.map(|(line, author)| (line.trim_end().to_owned(), author.map_or("-".to_owned(), name))).collect()
}

#[track_caller]
fn check_blame(checkpoints: &Checkpoints, stage: &Stage, name: &str, expect: &[(&str, &str)]) -> Blame {
    let blame = checkpoints.blame(&stage.at(name)).unwrap();
    let found = authors(&blame);
    let found: Vec<_> = found.iter().map(|(line, author)| (line.as_str(), author.as_str())).collect();
    assert_eq!(found, expect);
    blame
}

#[test]
fn each_line_is_blamed_on_its_call_or_on_nobody() {
    let stage = Stage::new();
    stage.write("f", "one\ntwo\nthree\n");
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    let caller = Caller { agent: Some(AgentId::from("helper")), ..caller("s1", "call-1") };
    let running = checkpoints.before_files(&caller, &[stage.at("f")]).unwrap();
    stage.write("f", "one\n2\nthree\n");
    checkpoints.finish(running).unwrap();
    stage.write("f", "zero\none\n2\nthree\n");
    stage.run(&checkpoints, "echo four >> f");
    stage.write("f", "zero\none\n2\nthree\nfour\nfive\n");
    let blame = check_blame(
        &checkpoints,
        &stage,
        "f",
        &[
            ("zero", "-"),
            ("one", "-"),
            ("2", "call-1"),
            ("three", "-"),
            ("four", "echo four >> f"),
            ("five", "-"),
        ],
    );
    assert!(blame.is_changed_since);
    let first = &blame.operations[0];
    assert_eq!((first.kind, first.agent.clone()), (Kind::Edit, Some(AgentId::from("helper"))));
    assert_eq!(first.prompt, Some(EntryId::from("p1")));

    stage.run(&checkpoints, "mv f g; echo six >> g");
    stage.run(&checkpoints, "mv g h");
    stage.write("other", "x\n");
    check_blame(&checkpoints, &stage, "other", &[("x", "-")]);
    let blame = checkpoints.blame(&stage.at("h")).unwrap();
    let last: Vec<_> = authors(&blame).split_off(5);
    let owned = |line: &str, author: &str| (line.to_owned(), author.to_owned());
    assert_eq!(last, [owned("five", "-"), owned("six", "mv f g; echo six >> g")]);
}

#[test]
fn a_moved_file_keeps_its_authors() {
    let stage = Stage::new();
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    checkpoints.warm(&[stage.project()]).unwrap();
    stage.edit(&checkpoints, "f", "one\n");
    stage.run(&checkpoints, "mkdir d; mv f d/g");
    check_blame(&checkpoints, &stage, "d/g", &[("one", "f")]);
}

#[test]
fn a_file_that_was_moved_and_changed_at_once_keeps_the_authors_of_its_other_lines() {
    let stage = Stage::new();
    stage.write("f", "theirs\nmore of theirs\n");
    stage.write("other", "x\n");
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    checkpoints.warm(&[stage.project()]).unwrap();
    stage.edit(&checkpoints, "f", "theirs\nmore of theirs\nours\n");
    let command = "echo last >> f; mv f g; chmod 700 g; mv other another";
    stage.run(&checkpoints, command);
    shell(&stage.project(), "mv g h");
    checkpoints.warm(&[stage.project()]).unwrap();
    let lines = [("theirs", "-"), ("more of theirs", "-"), ("ours", "f"), ("last", command)];
    check_blame(&checkpoints, &stage, "h", &lines);
    check_blame(&checkpoints, &stage, "another", &[("x", "-")]);
}

#[test]
fn lines_that_a_rewind_brings_back_come_with_their_authors() {
    let stage = Stage::new();
    stage.write("f", "theirs\n");
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.edit(&checkpoints, "f", "theirs\nours\n");
    begin(&checkpoints, "s1", "p2");
    stage.run(&checkpoints, "echo other > f");
    check_blame(&checkpoints, &stage, "f", &[("other", "echo other > f")]);
    let session = SessionId::from("s1");
    let to = checkpoints.checkpoint(&session, &EntryId::from("p2")).unwrap();
    checkpoints.restore(&session, to, Force::KeepOthers).unwrap();
    check_blame(&checkpoints, &stage, "f", &[("theirs", "-"), ("ours", "f")]);
}
