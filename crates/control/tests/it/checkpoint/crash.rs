//! Processes that die, disks that are full, stores that are damaged.

use super::{
    random, spawn,
    stage::{Stage, assert_restored, begin, caller, shell},
};
use ostler_control::checkpoint::{CheckpointError, Checkpoints, Force, Kept, Kind, Limits, Progress, Why};
use ostler_proto::{EntryId, SessionId};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::{os::unix::process::ExitStatusExt, process::Command};

/// In memory where there is such a place: the disk's own pace says nothing about them.
#[track_caller]
fn check_histories(seeds: std::ops::Range<u64>) {
    let count = usize::try_from(seeds.end - seeds.start).unwrap();
    let memory = std::path::PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let rewinds: usize = seeds.map(|seed| random::run(seed, &folder, &spawn)).sum();
    assert!(rewinds > count, "{rewinds}");
}

#[test]
fn random_histories_rewind_exactly() {
    check_histories(0..100);
}

#[test]
fn more_random_histories_rewind_exactly() {
    check_histories(100..200);
}

#[test]
fn what_a_command_does_after_its_process_died_is_still_its_own() {
    let stage = Stage::new();
    stage.write("a", "1");
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    let session = SessionId::from("s1");
    let running = checkpoints.before_command(&caller("s1", "c1"), &[stage.project()]).unwrap();
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o600);
    let held = rustix::fs::open(checkpoints.hold(&session).unwrap(), flags, mode).unwrap();
    rustix::fs::flock(&held, FlockOperation::LockShared).unwrap();
    drop((running, checkpoints));
    let next = std::thread::scope(|scope| {
        let next = scope.spawn(|| stage.recover());
        // It is held up by the lock, so the order of the two does not matter.
        stage.write("a", "2");
        drop(held);
        next.join().unwrap().0
    });
    stage.run(&next, "echo 3 > a");
    let to = next.checkpoint(&session, &EntryId::from("p1")).unwrap();
    assert_eq!(next.restore(&session, to, Force::KeepOthers).unwrap().kept, []);
    assert_eq!(stage.read("a"), "1");
}

/// A history in which a rewind has all sorts of things to do.
fn eventful() -> Stage {
    let stage = Stage::new();
    shell(
        &stage.project(),
        "echo 1 > a; mkdir -p d/e; echo 1 > d/e/f; ln -s a l; mkdir gone; echo 1 > to-dir",
    );
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.run(
        &checkpoints,
        "echo 2 > a; rm -r d; echo x > d; rm l; mkdir l; touch l/x; rmdir gone; mkdir -p new/n; touch new/n/m; \
         rm to-dir; mkdir to-dir; chmod 500 new",
    );
    stage
}

fn order(stage: &Stage, action: &str, step: usize) -> bool {
    let order = format!("{action}\n{}\np1\n{step}", stage.place().folder.display());
    let status = spawn(&order).status().unwrap();
    assert!(status.success() || status.signal() == Some(9), "{status}");
    status.success()
}

#[test]
fn a_rewind_killed_at_any_step_is_finished_by_the_next_start() {
    let wanted = {
        let stage = eventful();
        let checkpoints = stage.open();
        let session = SessionId::from("s1");
        let to = checkpoints.checkpoint(&session, &EntryId::from("p1")).unwrap();
        checkpoints.restore(&session, to, Force::KeepOthers).unwrap();
        stage.tree()
    };
    for step in 0.. {
        let stage = eventful();
        let before = stage.tree();
        let is_done = order(&stage, "rewind", step);
        // The one that finishes it may die too.
        order(&stage, "recover", step % 5);
        let (_, recovered) = stage.recover();
        let tree = stage.tree();
        if step == 0 {
            assert_eq!((tree, recovered), (before, vec![]), "killed before it was logged");
            continue;
        }
        assert_restored(&tree, &wanted, &format!("killed at step {step}"));
        if is_done {
            assert!(step > 15, "there are many steps: {step}");
            break;
        }
    }
}

#[test]
fn a_command_whose_process_was_killed_can_be_taken_back() {
    let stage = Stage::new();
    stage.write("a", "1");
    let before = stage.tree();
    {
        let checkpoints = stage.open();
        begin(&checkpoints, "s1", "p1");
    }
    let order = format!("command\n{}\nrm a; echo x > b\n0", stage.place().folder.display());
    assert_eq!(spawn(&order).status().unwrap().signal(), Some(9));
    assert!(!stage.at("a").exists());
    let (checkpoints, recovered) = stage.recover();
    assert_eq!(recovered.iter().map(|r| (r.kind, r.changed)).collect::<Vec<_>>(), [(Kind::Command, 2)]);
    let session = SessionId::from("s1");
    let to = checkpoints.checkpoint(&session, &EntryId::from("p1")).unwrap();
    checkpoints.restore(&session, to, Force::KeepOthers).unwrap();
    assert_restored(&stage.tree(), &before, "recovered");
}

#[test]
fn a_running_call_of_another_process_is_left_alone() {
    let stage = Stage::new();
    let (one, two) = (stage.open(), stage.open());
    begin(&one, "s1", "p1");
    stage.edit(&one, "a", "1");
    let running = one.before_command(&caller("s1", "c"), &[stage.project()]).unwrap();
    stage.open();
    let session = SessionId::from("s1");
    let to = two.checkpoint(&session, &EntryId::from("p1")).unwrap();
    let refused = two.restore(&session, to, Force::KeepOthers).unwrap_err();
    assert!(matches!(refused, CheckpointError::Running(_)), "{refused}");
    one.finish(running).unwrap();
    two.restore(&session, to, Force::KeepOthers).unwrap();
    assert!(!stage.at("a").exists());
}

#[test]
fn a_call_that_nobody_reports_on_is_closed_by_the_next_one() {
    let stage = Stage::new();
    stage.write("a", "1");
    let before = stage.tree();
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    let running = checkpoints.before_command(&caller("s1", "c"), &[stage.project()]).unwrap();
    stage.write("a", "2");
    drop(running);
    let session = SessionId::from("s1");
    let to = checkpoints.checkpoint(&session, &EntryId::from("p1")).unwrap();
    assert_eq!(checkpoints.restore(&session, to, Force::KeepOthers).unwrap().kept, []);
    assert_restored(&stage.tree(), &before, "dropped");
    let cut_off = checkpoints.operations(&session).unwrap()[1].progress;
    assert_eq!(cut_off, Progress::CutOff);
}

#[test]
fn a_prompt_never_waits_and_is_logged_in_its_place() {
    let stage = Stage::new();
    let checkpoints = stage.open();
    let database = rusqlite::Connection::open(stage.place().folder.join("store.db")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    begin(&checkpoints, "s1", "p1");
    begin(&checkpoints, "s1", "p2");
    database.execute_batch("COMMIT").unwrap();
    stage.edit(&checkpoints, "a", "1");
    begin(&checkpoints, "s1", "p3");
    let kinds: Vec<_> = checkpoints
        .operations(&SessionId::from("s1"))
        .unwrap()
        .iter()
        .map(|operation| operation.kind)
        .collect();
    assert_eq!(kinds, [Kind::Prompt, Kind::Prompt, Kind::Edit, Kind::Prompt]);
}

#[test]
fn checkpoints_survive_the_project() {
    let stage = Stage::new();
    stage.write("d/a", "1");
    let before = stage.tree();
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    let running = checkpoints.before_command(&caller("s1", "rm"), &[stage.project()]).unwrap();
    std::fs::remove_dir_all(stage.project()).unwrap();
    checkpoints.finish(running).unwrap();
    let session = SessionId::from("s1");
    let to = checkpoints.checkpoint(&session, &EntryId::from("p1")).unwrap();
    checkpoints.restore(&session, to, Force::KeepOthers).unwrap();
    assert_restored(&stage.tree(), &before, "the whole project was removed");
}

#[test]
fn a_damaged_store_is_named_and_can_be_set_aside() {
    let stage = Stage::new();
    let folder = stage.place().folder;
    drop(stage.open());
    std::fs::write(folder.join("store.db"), vec![7; 10_000]).unwrap();
    let Err(error) = Checkpoints::open(&stage.place()) else { panic!("a damaged store was opened") };
    assert!(matches!(error, CheckpointError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("store.db"), "{error}");
    let aside = ostler_control::checkpoint::set_aside(&folder).unwrap().unwrap();
    assert!(aside.join("store.db").exists());
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.edit(&checkpoints, "a", "1");
}

#[test]
fn a_damaged_content_costs_only_itself() {
    let stage = Stage::new();
    stage.write("a", "precious content of a, long enough to be packed and packed and packed and packed");
    stage.write("b", "1");
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.run(&checkpoints, "echo 2 > a; echo 2 > b");
    let database = rusqlite::Connection::open(stage.place().folder.join("store.db")).unwrap();
    let damaged =
        database.execute("UPDATE blobs SET data = CAST(x'00' || data AS BLOB) WHERE size > 50", []).unwrap();
    assert_eq!(damaged, 1);
    let session = SessionId::from("s1");
    let to = checkpoints.checkpoint(&session, &EntryId::from("p1")).unwrap();
    let rewound = checkpoints.restore(&session, to, Force::KeepOthers).unwrap();
    assert_eq!(rewound.kept, [Kept { path: stage.at("a"), why: Why::Damaged }]);
    assert_eq!((stage.read("a").as_str(), stage.read("b").as_str()), ("2\n", "1"));
}

#[test]
fn a_full_store_says_so_and_loses_nothing() {
    let mut stage = Stage::new();
    stage.limits.quota = 600 * 1024;
    stage.write("a", "1");
    let checkpoints = stage.open();
    begin(&checkpoints, "s1", "p1");
    stage.edit(&checkpoints, "a", "2");
    let noise: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(1 << 20).collect();
    stage.write("noise", noise);
    let refused = checkpoints.before_command(&caller("s1", "c"), &[stage.project()]).unwrap_err();
    assert!(matches!(refused, CheckpointError::NoSpace(_)), "{refused}");
    std::fs::remove_file(stage.at("noise")).unwrap();
    stage.run(&checkpoints, "echo 3 > a");
    let session = SessionId::from("s1");
    let to = checkpoints.checkpoint(&session, &EntryId::from("p1")).unwrap();
    checkpoints.restore(&session, to, Force::KeepOthers).unwrap();
    assert_eq!(stage.read("a"), "1");
}

/// On a small disk of our own; where none can be had, the kernel gives no way to test it.
#[test]
fn a_full_disk_stops_a_rewind_before_anything_has_changed() {
    let stage = Stage::new();
    let order = format!("full\n{}\n-\n0", stage.temp.path().display());
    let script = format!("mount -t tmpfs -o size=600k none {} && exec \"$@\"", stage.project().display());
    let test = spawn(&order);
    let mut words = vec!["-rm".to_owned(), "sh".into(), "-c".into(), script, "sh".into()];
    words.push(test.get_program().to_string_lossy().into_owned());
    words.extend(test.get_args().map(|word| word.to_string_lossy().into_owned()));
    let output = Command::new("unshare").args(words).env(random::ORDER, order).output();
    let Ok(output) = output else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    let is_possible = !said.contains("unshare:") && !said.contains("mount:");
    assert!(output.status.success() || !is_possible, "{said}\n{}", String::from_utf8_lossy(&output.stdout));
}

/// What the test above does on its small disk.
pub(super) fn fill(temp: &std::path::Path) {
    let temp = temp.canonicalize().unwrap();
    let project = temp.join("project");
    let noise = || -> Vec<u8> { std::iter::repeat_with(|| fastrand::u8(..)).take(250 << 10).collect() };
    let old = noise();
    std::fs::write(project.join("a"), &old).unwrap();
    std::fs::write(project.join("b"), "1").unwrap();
    let place = super::stage::place(&temp.join("store"), &Limits::default());
    let (checkpoints, _) = Checkpoints::open(&place).unwrap();
    begin(&checkpoints, "s1", "p1");
    let running = checkpoints.before_command(&caller("s1", "c"), std::slice::from_ref(&project)).unwrap();
    std::fs::write(project.join("a"), noise()).unwrap();
    std::fs::write(project.join("b"), "2").unwrap();
    checkpoints.finish(running).unwrap();
    std::fs::write(project.join("theirs"), noise()).unwrap();
    let before = super::stage::tree(&project);
    let session = SessionId::from("s1");
    let to = checkpoints.checkpoint(&session, &EntryId::from("p1")).unwrap();
    let refused = checkpoints.restore(&session, to, Force::KeepOthers).unwrap_err();
    assert!(matches!(refused, CheckpointError::NoRoom(_)), "{refused}");
    assert!(super::stage::tree(&project) == before, "nothing has changed");
    assert!(checkpoints.last_rewind(&session).is_err(), "it never was");
    std::fs::remove_file(project.join("theirs")).unwrap();
    checkpoints.restore(&session, to, Force::KeepOthers).unwrap();
    assert!(std::fs::read(project.join("a")).unwrap() == old);
}
