//! The store stays small, and what living sessions need stays in it.

use super::stage::{Stage, begin, caller, shell};
use ostler_control::checkpoint::{Checkpoints, Force, Place, Retention, prune_neglected};
use ostler_proto::{EntryId, SessionId};
use std::time::Duration;

fn noise() -> Vec<u8> {
    std::iter::repeat_with(|| fastrand::u8(..)).take(100_000).collect()
}

fn retention(max_bytes: u64, keep_newest: usize) -> Retention {
    Retention { max_age: Duration::from_hours(24), max_bytes, keep_newest, ..Retention::default() }
}

#[test]
fn equal_contents_are_stored_once() {
    let stage = Stage::new();
    let noise = noise();
    for number in 0..10 {
        stage.write(&format!("{number}"), &noise);
    }
    let checkpoints = stage.open();
    checkpoints.warm(&[stage.project()]).unwrap();
    assert_eq!(checkpoints.statistics().unwrap().contents, 1);
    drop(checkpoints);
    let second = stage.open();
    begin(&second, "s2", "p1");
    let running = second.before_command(&caller("s2", "c"), &[stage.project()]).unwrap();
    shell(&stage.project(), "cp 1 copy");
    second.finish(running).unwrap();
    assert_eq!(second.statistics().unwrap().contents, 1);
}

#[test]
fn pruning_forgets_the_oldest_but_not_what_a_living_session_needs() {
    let stage = Stage::new();
    stage.write("a", "first");
    let checkpoints = stage.open();
    for number in 0..10 {
        begin(&checkpoints, "s1", &format!("p{number}"));
        stage.edit(&checkpoints, "a", noise());
    }
    let before = checkpoints.statistics().unwrap();
    assert!(before.bytes > 900_000, "{before:?}");
    let pruned = checkpoints.prune(&retention(300_000, 3)).unwrap();
    assert!(pruned.operations >= 7 && pruned.bytes_after < pruned.bytes_before / 2, "{pruned:?}");
    let session = SessionId::from("s1");
    let left = checkpoints.checkpoints(&session).unwrap();
    assert_eq!(left.len(), 3);
    let rewound = checkpoints.restore(&session, left[0].operation.id, Force::KeepOthers).unwrap();
    assert_eq!((rewound.changes.len(), rewound.kept.len()), (1, 0));
    assert!(checkpoints.checkpoint(&session, &EntryId::from("p0")).is_err());
    drop(checkpoints);

    // With nobody there, all of it may go, and the next session starts from scratch.
    let later = stage.open();
    later.prune(&retention(0, 3)).unwrap();
    assert_eq!(later.statistics().unwrap().contents, 0);
    begin(&later, "s2", "p1");
    let running = later.before_command(&caller("s2", "c"), &[stage.project()]).unwrap();
    std::fs::remove_file(stage.at("a")).unwrap();
    assert_eq!(later.finish(running).unwrap().unwrap().changes.len(), 1);
    let session = SessionId::from("s2");
    let to = later.checkpoint(&session, &EntryId::from("p1")).unwrap();
    later.restore(&session, to, Force::KeepOthers).unwrap();
    assert!(stage.at("a").exists());
}

#[test]
fn a_content_pruned_by_another_process_is_stored_again() {
    let stage = Stage::new();
    let (one, two) = (stage.open(), stage.open());
    let noise = noise();
    begin(&one, "s1", "p1");
    stage.edit(&one, "a", &noise);
    stage.edit(&one, "a", "short");
    drop(one);
    let three = stage.open();
    begin(&two, "s2", "p1");
    // It knows the content from here on.
    let running = two.before_files(&caller("s2", "c"), &[stage.at("a")]).unwrap();
    stage.write("a", &noise);
    two.finish(running).unwrap();
    three.prune(&retention(0, 1)).unwrap();
    begin(&two, "s2", "p2");
    let running = two.before_files(&caller("s2", "c"), &[stage.at("a")]).unwrap();
    stage.write("a", "x");
    two.finish(running).unwrap();
    let session = SessionId::from("s2");
    let to = two.checkpoint(&session, &EntryId::from("p2")).unwrap();
    assert_eq!(two.restore(&session, to, Force::KeepOthers).unwrap().kept, []);
    assert!(std::fs::read(stage.at("a")).unwrap() == noise);
}

#[test]
fn the_store_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::new();
    drop(stage.open());
    let folder = stage.place().folder;
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let refused = ostler_control::checkpoint::Checkpoints::open(&stage.place());
    assert!(refused.is_err_and(|error| error.to_string().contains("0700")));
}

#[test]
fn pruning_keeps_so_many_checkpoints_and_is_due_once_a_day() {
    let stage = Stage::new();
    stage.write("a", "0");
    let checkpoints = stage.open();
    for number in 0..6 {
        begin(&checkpoints, "s1", &format!("p{number}"));
        stage.edit(&checkpoints, "a", format!("{number}"));
    }
    drop(checkpoints);
    let checkpoints = stage.open();
    let few = Retention { max_checkpoints: 2, ..Retention::default() };
    let pruned = checkpoints.prune_if_due(&few).unwrap().unwrap();
    assert_eq!(pruned.operations, 8, "a prompt and an edit of each of the four oldest");
    assert_eq!(checkpoints.checkpoints(&SessionId::from("s1")).unwrap().len(), 2);
    assert_eq!(checkpoints.prune_if_due(&few).unwrap(), None, "not twice a day");
}

#[test]
fn stores_of_projects_that_nobody_uses_shrink_too() {
    let (used, neglected) = (Stage::new(), Stage::new());
    let all = used.temp.path().join("all");
    let place = |stage: &Stage, name: &str| Place { folder: all.join(name), ..stage.place() };
    for (stage, name) in [(&used, "used"), (&neglected, "neglected")] {
        let (checkpoints, _) = Checkpoints::open(&place(stage, name)).unwrap();
        begin(&checkpoints, "s1", "p1");
        stage.edit(&checkpoints, "a", noise());
    }
    let count = |name: &str| {
        let (checkpoints, _) = Checkpoints::open(&place(&used, name)).unwrap();
        checkpoints.statistics().unwrap().operations
    };
    let at_once = Retention { max_age: Duration::ZERO, ..Retention::default() };
    prune_neglected(&place(&used, "used"), &Retention::default());
    assert_eq!((count("used"), count("neglected")), (2, 2), "both were used a moment ago");
    prune_neglected(&place(&used, "used"), &at_once);
    assert_eq!((count("used"), count("neglected")), (2, 0));
}
