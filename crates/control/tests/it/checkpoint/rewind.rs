//! What comes back: contents, modes, links, folders, names; and nothing outside the project.

use super::stage::{Stage, assert_restored, begin, caller, shell, tree};
use ostler_control::checkpoint::{
    CheckpointError, Checkpoints, Force, Kept, Omission, OperationId, Rewound, Standing, Why,
};
use ostler_proto::{EntryId, SessionId};
use rustix::fs;
use std::{
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

fn session() -> SessionId {
    "s1".into()
}

fn to(checkpoints: &Checkpoints, prompt: &str) -> OperationId {
    checkpoints.checkpoint(&session(), &EntryId::from(prompt)).unwrap()
}

fn rewind(checkpoints: &Checkpoints, prompt: &str) -> Rewound {
    checkpoints.restore(&session(), to(checkpoints, prompt), Force::KeepOthers).unwrap()
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

/// Runs commands as calls after a first checkpoint, rewinds, and takes that back.
#[track_caller]
fn check(commands: &[&str]) {
    let stage = Stage::new();
    for (name, content) in [("a", "one\n"), ("b", "two\n"), ("dir/c", "three\n"), ("dir/sub/d", "four\n")] {
        stage.write(name, content);
    }
    shell(&stage.project(), "ln -s a link; ln -s dir tolink; mkdir -p empty/inner; chmod 640 b");
    let before = stage.tree();
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    for command in commands {
        stage.run(&checkpoints, command);
    }
    let after = stage.tree();
    assert_ne!(before, after, "{commands:?} change something");
    let rewound = rewind(&checkpoints, "p1");
    assert_eq!(rewound.kept, [], "{commands:?}");
    assert_restored(&stage.tree(), &before, &format!("{commands:?}"));
    let undo = checkpoints.last_rewind(&session()).unwrap();
    checkpoints.restore(&session(), undo, Force::KeepOthers).unwrap();
    assert_restored(&stage.tree(), &after, &format!("{commands:?}, undone"));
    checkpoints.restore(&session(), checkpoints.last_rewind(&session()).unwrap(), Force::KeepOthers).unwrap();
    assert_restored(&stage.tree(), &before, &format!("{commands:?}, done again"));
}

#[test]
fn commands_of_all_sorts_are_taken_back() {
    check(&["echo more >> a"]);
    check(&["rm -rf dir empty"]);
    check(&["mv dir moved", "echo x > moved/c"]);
    check(&["chmod 755 a b; chmod 700 dir"]);
    check(&["rm link tolink; ln -s b link; mkdir tolink; echo x > tolink/y"]);
    check(&["rm -r dir; ln -s empty dir"]);
    check(&["rm a; mkdir a; echo x > a/x"]);
    check(&["mkdir -p new/deep/er; touch new/deep/file", "rmdir new/deep/er"]);
    check(&[": > a; : > dir/c"]);
    check(&["printf 'ONE\\n' > a"]);
    check(&["rm -rf ./*"]);
    check(&["chmod 500 dir/sub; rm -f a", "echo y > dir/c"]);
    check(&["printf 'a\\0b' > bin; mv bin 'odd\nname'"]);
}

#[test]
fn edits_are_taken_back_with_the_folders_made_for_them() {
    let stage = Stage::new();
    stage.write("a", "one");
    let before = stage.tree();
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.edit(&checkpoints, "a", "two");
    let recorded = stage.edit(&checkpoints, "new/deep/b", "b");
    assert_eq!(recorded.changes.len(), 3, "the file and two folders");
    begin(&checkpoints, "s1", "p2");
    let middle = stage.tree();
    stage.edit(&checkpoints, "a", "three");
    assert_eq!(rewind(&checkpoints, "p2").changes.len(), 1);
    assert_restored(&stage.tree(), &middle, "p2");
    rewind(&checkpoints, "p1");
    assert_restored(&stage.tree(), &before, "p1 after p2");
    let listed = checkpoints.checkpoints(&session()).unwrap();
    let prompts: Vec<_> = listed.iter().map(|listed| listed.operation.title.clone().unwrap()).collect();
    assert_eq!(prompts, ["p1", "p2"]);
    let changed: Vec<_> = listed.iter().map(|listed| listed.changed).collect();
    assert_eq!(changed, [4, 1], "what rewinds changed is not the prompts' doing");
}

#[test]
fn a_dry_run_counts_and_changes_nothing() {
    let stage = Stage::new();
    stage.write("a", "one\ntwo\nthree\n");
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.edit(&checkpoints, "a", "one\n2\nthree\nfour\n");
    stage.edit(&checkpoints, "b", "x\ny\n");
    let now = stage.tree();
    let (plan, lines) =
        checkpoints.plan_restore(&session(), to(&checkpoints, "p1"), Force::KeepOthers).unwrap();
    let mut files: Vec<_> = plan.files().map(|change| change.path.clone()).collect();
    files.sort();
    assert_eq!(files, [stage.at("a"), stage.at("b")]);
    assert_eq!((lines.insertions, lines.deletions), (1, 4));
    assert_eq!(stage.tree(), now);
    let missing = checkpoints.checkpoint(&session(), &EntryId::from("nowhere")).unwrap_err();
    assert!(matches!(missing, CheckpointError::NotFound));
    assert_eq!(missing.to_string(), "no file checkpoint found for this message");
}

#[test]
fn nothing_is_written_through_a_link() {
    let stage = Stage::new();
    stage.write("dir/file", "old");
    let outside = stage.temp.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "theirs").unwrap();
    let before = stage.tree();
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.edit(&checkpoints, "dir/file", "new");
    stage.run(&checkpoints, "rm -r dir; ln -s ../outside dir");
    rewind(&checkpoints, "p1");
    assert_restored(&stage.tree(), &before, "the link is replaced by the folder");
    assert_eq!(tree(&outside).len(), 1);
    assert_eq!(std::fs::read(outside.join("file")).unwrap(), b"theirs");
}

#[test]
fn a_link_that_others_put_in_the_way_stays_even_when_forced() {
    let stage = Stage::new();
    stage.write("dir/file", "old");
    let outside = stage.temp.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "theirs").unwrap();
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.edit(&checkpoints, "dir/file", "new");
    std::fs::remove_dir_all(stage.at("dir")).unwrap();
    symlink(&outside, stage.at("dir")).unwrap();
    let rewound = rewind(&checkpoints, "p1");
    assert_eq!(rewound.kept, [Kept { path: stage.at("dir/file"), why: Why::ChangedByOthers }]);
    let forced = checkpoints.restore(&session(), to(&checkpoints, "p1"), Force::OverwriteOthers).unwrap();
    assert!(forced.changes.is_empty() && matches!(forced.kept[0].why, Why::Failed(_)), "{forced:?}");
    assert_eq!(std::fs::read(outside.join("file")).unwrap(), b"theirs");
    assert!(stage.at("dir").is_symlink());
}

#[cfg(target_os = "linux")]
#[test]
fn a_racing_link_is_never_followed() {
    let stage = Stage::new();
    let (outside, link) = (stage.temp.path().join("outside"), stage.temp.path().join("link"));
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, &link).unwrap();
    let (dir, names) = (stage.at("dir"), 0..20);
    let swap = || fs::renameat_with(fs::CWD, &dir, fs::CWD, &link, fs::RenameFlags::EXCHANGE).unwrap();
    let checkpoints = stage.open();
    let mut restored = 0;
    for round in 0..30 {
        names.clone().for_each(|name| stage.write(&format!("dir/{name}"), "old"));
        let prompt = format!("p{round}");
        begin(&checkpoints, "s1", &prompt);
        stage.run(&checkpoints, "rm dir/*");
        let to = to(&checkpoints, &prompt);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    swap();
                }
            });
            let rewound = checkpoints.restore(&session(), to, Force::OverwriteOthers).unwrap();
            restored += rewound.changes.len();
            ended.store(true, Ordering::Relaxed);
        });
        if dir.is_symlink() {
            swap();
        }
    }
    assert!(restored > 0, "the race was on: {restored}");
    assert!(tree(&outside).is_empty(), "{:?}", tree(&outside).keys());
}

#[test]
fn other_names_of_a_file_keep_what_they_have() {
    let stage = Stage::new();
    stage.write("a", "old");
    stage.write("b", "old");
    let outside = stage.temp.path().join("outside");
    for name in ["a", "b"] {
        std::fs::hard_link(stage.at(name), outside.with_extension(name)).unwrap();
    }
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.run(&checkpoints, "echo new > a; chmod 755 b");
    rewind(&checkpoints, "p1");
    assert_eq!((stage.read("a").as_str(), mode(&stage.at("b"))), ("old", 0o644));
    assert_eq!(std::fs::read_to_string(outside.with_extension("a")).unwrap(), "new\n");
    assert_eq!(mode(&outside.with_extension("b")), 0o755);
    assert_eq!(stage.at("a").metadata().unwrap().nlink(), 1);
}

#[test]
fn what_is_left_out_is_said() {
    let mut stage = Stage::new();
    stage.limits.max_file = 1000;
    stage.limits.heavy_entries = 10;
    stage.write("huge", vec![0; 2000]);
    stage.write("small", "old");
    for number in 0..20 {
        stage.write(&format!("node_modules/{number}"), "x");
        stage.write(&format!("plain/{number}"), "x");
    }
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    checkpoints.warm(&[stage.project()]).unwrap();
    let left_out = [(stage.at("huge"), Omission::TooLarge), (stage.at("node_modules"), Omission::TooMany)];
    assert_eq!(checkpoints.uncovered(), left_out);
    let recorded = stage.run(&checkpoints, "rm huge; rm -r plain node_modules; rm small; mkfifo pipe");
    let said: Vec<_> = recorded.uncovered().map(|(path, reason)| (path.to_owned(), reason)).collect();
    assert_eq!(said[..2], left_out);
    assert_eq!(said[2], (stage.at("pipe"), Omission::Special));
    let rewound = rewind(&checkpoints, "p1");
    let kept: Vec<_> = rewound.kept.into_iter().map(|kept| (kept.path, kept.why)).collect();
    assert_eq!(kept[0], (stage.at("huge"), Why::NotCovered(Omission::TooLarge)));
    assert_eq!(kept[1], (stage.at("node_modules"), Why::NotCovered(Omission::TooMany)));
    assert_eq!(kept[2], (stage.at("pipe"), Why::NotCovered(Omission::Special)));
    assert!(stage.at("plain/7").exists() && stage.read("small") == "old");
}

#[test]
fn a_tree_too_large_to_walk_still_covers_edits() {
    let mut stage = Stage::new();
    stage.limits.max_entries = 30;
    for number in 0..50 {
        stage.write(&format!("d{}/{number}", number % 7), "x");
    }
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    assert_eq!(stage.run(&checkpoints, "rm -r d1").changes, []);
    assert_eq!(checkpoints.uncovered(), [(stage.project(), Omission::TooMany)]);
    stage.edit(&checkpoints, "d2/2", "new");
    rewind(&checkpoints, "p1");
    assert_eq!(stage.read("d2/2"), "x");
}

#[test]
fn excluded_folders_are_not_walked_and_off_does_nothing() {
    let stage = Stage::new();
    stage.write("own/log", "1");
    let mut place = stage.place();
    place.excluded = vec![stage.at("own")];
    let (checkpoints, _) = Checkpoints::open(&place).unwrap();
    begin(&checkpoints, "s1", "p1");
    assert_eq!(stage.run(&checkpoints, "echo 2 > own/log").changes, []);

    let off = Checkpoints::off();
    begin(&off, "s1", "p1");
    let running = off.before_command(&caller("s1", "x"), &[stage.project()]).unwrap();
    assert_eq!(off.finish(running).unwrap(), None);
    assert!(!off.is_on() && off.checkpoints(&session()).unwrap().is_empty());
}

#[test]
fn changes_within_one_tick_of_the_clock_are_seen() {
    let stage = Stage::new();
    stage.write("a", "0000");
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    for number in 1..50 {
        let recorded = {
            let running = checkpoints.before_command(&caller("s1", "x"), &[stage.project()]).unwrap();
            stage.write("a", format!("{number:04}"));
            checkpoints.finish(running).unwrap().unwrap()
        };
        assert_eq!(recorded.changes.len(), 1, "{number}");
        assert!(matches!(recorded.changes[0].after, Standing::File { .. }));
    }
    rewind(&checkpoints, "p1");
    assert_eq!(stage.read("a"), "0000");
}
