//! Repositories: what commands did to them is taken back, and nobody else's work is lost.

use super::stage::{Stage, assert_restored, begin, shell};
use ostler_control::checkpoint::{Checkpoints, Force, Omission, Rewound, Why};
use ostler_proto::{EntryId, SessionId};
use std::process::Command;

fn repository() -> Stage {
    let stage = Stage::new();
    stage.write("tracked", "1\n");
    stage.write("ignored/file", "precious\n");
    stage.write(".gitignore", "ignored\n");
    shell(
        &stage.project(),
        "git init -q -b main . && git config user.email a@b && git config user.name n && git add -A && git commit -q -m first",
    );
    stage
}

fn git(stage: &Stage, words: &[&str]) -> String {
    let output = Command::new("git").args(words).current_dir(stage.project()).output().unwrap();
    assert!(output.status.success(), "git {words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn rewind(checkpoints: &Checkpoints, force: Force) -> Rewound {
    let session = SessionId::from("s1");
    let to = checkpoints.checkpoint(&session, &EntryId::from("p1")).unwrap();
    checkpoints.restore(&session, to, force).unwrap()
}

#[track_caller]
fn check(commands: &[&str]) {
    let stage = repository();
    let (before, log) = (stage.tree(), git(&stage, &["log", "--oneline", "--all"]));
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    for command in commands {
        stage.run(&checkpoints, command);
    }
    assert_eq!(rewind(&checkpoints, Force::KeepOthers).kept, [], "{commands:?}");
    assert_restored(&stage.tree(), &before, &format!("{commands:?}"));
    assert_eq!(git(&stage, &["log", "--oneline", "--all"]), log, "{commands:?}");
    assert_eq!(git(&stage, &["status", "--porcelain"]), "", "{commands:?}");
    git(&stage, &["fsck", "--strict"]);
}

#[test]
fn what_commands_did_to_a_repository_is_taken_back() {
    check(&["echo 2 > tracked; git commit -qam second"]);
    check(&["git checkout -q -b side; echo 2 > tracked; git commit -qam second; git branch -qD main"]);
    check(&["echo 2 > tracked; git stash -q", "git gc -q --prune=now"]);
    check(&["git clean -fdxq; git reset -q --hard"]);
    check(&["rm -rf .git"]);
    check(&["rm -rf .git; git init -q -b other ."]);
    check(&["git mv tracked moved; git commit -qm moved", "git tag t; git pack-refs --all"]);
}

#[test]
fn a_repository_made_by_a_command_goes_again() {
    let stage = Stage::new();
    stage.write("a", "1");
    let before = stage.tree();
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.run(&checkpoints, "git init -q . && git add -A");
    assert_eq!(rewind(&checkpoints, Force::KeepOthers).kept, []);
    assert_eq!(stage.tree(), before);
}

#[test]
fn a_commit_of_the_user_is_not_lost() {
    let stage = repository();
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.run(&checkpoints, "echo 2 > tracked; git commit -qam second");
    stage.write("mine", "mine\n");
    shell(&stage.project(), "git add mine && git commit -qm mine");
    let log = git(&stage, &["log", "--oneline"]);
    let rewound = rewind(&checkpoints, Force::KeepOthers);
    assert_eq!(git(&stage, &["log", "--oneline"]), log);
    assert_eq!(stage.read("tracked"), "1\n", "the file itself goes back");
    assert!(rewound.kept.iter().any(|kept| matches!(kept.why, Why::Repository(_))), "{:?}", rewound.kept);
    git(&stage, &["fsck", "--strict"]);
    rewind(&checkpoints, Force::OverwriteOthers);
    assert_eq!(git(&stage, &["log", "--format=%s"]), "first\n");
    git(&stage, &["fsck", "--strict"]);
}

#[test]
fn looking_at_a_repository_is_no_change() {
    let stage = repository();
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.run(&checkpoints, "echo 2 > tracked; git commit -qam second");
    shell(&stage.project(), "touch tracked; git update-index --really-refresh; git status");
    assert_eq!(rewind(&checkpoints, Force::KeepOthers).kept, []);
    assert_eq!(git(&stage, &["log", "--format=%s"]), "first\n");
}

#[test]
fn a_long_pack_is_kept_without_being_copied_and_comes_back() {
    let stage = repository();
    let noise: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(3 << 20).collect();
    stage.write("noise", &noise);
    shell(&stage.project(), "git add -A; git commit -qm noise; git gc -q; rm noise; git checkout -q noise");
    let before = stage.tree();
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.run(&checkpoints, "rm -rf .git");
    let links = std::fs::read_dir(stage.place().folder.join("links")).unwrap().count();
    assert_eq!(links, 1);
    assert_eq!(rewind(&checkpoints, Force::KeepOthers).kept, []);
    assert_restored(&stage.tree(), &before, "pack");
    git(&stage, &["fsck", "--strict"]);
}

#[test]
fn a_linked_worktree_says_that_its_history_is_elsewhere() {
    let stage = repository();
    let side = stage.temp.path().canonicalize().unwrap().join("side");
    git(&stage, &["worktree", "add", "-q", side.to_str().unwrap()]);
    let checkpoints = stage.open();
    checkpoints.warm(std::slice::from_ref(&side)).unwrap();
    assert_eq!(checkpoints.uncovered(), [(side.join(".git"), Omission::GitElsewhere)]);
}
