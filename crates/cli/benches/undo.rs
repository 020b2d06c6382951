//! What undo costs beside git, in a tree of 50,000 files: the first look at a project, the looks around a command, a
//! rewind of 1,000 files. Reports and never fails on a number.
#![expect(clippy::unwrap_used, reason = "a program for measuring")]
#![expect(clippy::disallowed_methods, reason = "it makes a tree of its own and runs git on it")]

#[path = "shared/table.rs"]
mod table;

use ostler_control::checkpoint::{Caller, Checkpoints, Force, Limits, Place};
use ostler_proto::{EntryId, SessionId};
use std::{
    fmt::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use table::{Row, Samples};

const FILES: usize = 50_000;

fn main() -> anyhow::Result<()> {
    let rounds = table::repeats(15);
    let temp = tempfile::tempdir()?;
    let project = temp.path().canonicalize()?.join("project");
    furnish(&project);
    let mut rows = vec![first(temp.path(), &project)];
    rows.extend(later(temp.path(), &project, rounds));
    rows.push(rewind(temp.path(), &project));
    table::print(
        "undo in 50,000 files (floors: git add -A, git diff-files, git checkout; all without fsync)",
        &rows,
    )
}

fn furnish(project: &Path) {
    let mut random = fastrand::Rng::with_seed(7);
    for number in 0..FILES {
        let folder = project.join(format!("d{}/e{}", number % 25, number % 2500 / 25));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("file{number}.rs")), text(&mut random)).unwrap();
    }
}

/// Something like source code: words that come again.
fn text(random: &mut fastrand::Rng) -> String {
    let length = random.choice([200, 800, 1500, 3000, 6000]).unwrap();
    let mut text = String::new();
    while text.len() < length {
        write!(text, "word{} ", random.u32(0..3000)).unwrap();
        if random.u8(..) < 20 {
            text.push('\n');
        }
    }
    text
}

fn open(store: &Path) -> Checkpoints {
    let limits = Limits::default();
    Checkpoints::open(&Place { folder: store.to_owned(), excluded: Vec::new(), limits }).unwrap().0
}

fn caller() -> Caller {
    Caller { session: "s".into(), agent: None, call: "c".into(), title: "c".into() }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let value = work();
    (value, began.elapsed())
}

fn git(repository: &Path, project: &Path, words: &[&str]) -> Duration {
    let mut command = Command::new("git");
    command.args(["-c", "core.fsync=none", "-c", "gc.auto=0", "-c", "user.name=n", "-c", "user.email=a@b"]);
    command.arg("--git-dir").arg(repository).arg("--work-tree").arg(project).args(words).current_dir(project);
    command.stdout(Stdio::null());
    let (status, time) = timed(|| command.status().unwrap());
    assert!(status.code().is_some());
    time
}

fn repository(temp: &Path, number: usize) -> PathBuf {
    let repository = temp.join(format!("git{number}"));
    assert!(Command::new("git").args(["init", "-q", "--bare"]).arg(&repository).status().unwrap().success());
    repository
}

fn first(temp: &Path, project: &Path) -> Row {
    let (mut ours, mut theirs) = (Samples::default(), Samples::default());
    for number in 0..3 {
        theirs.push(git(&repository(temp, number), project, &["add", "-A"]));
        let checkpoints = open(&temp.join(format!("store{number}")));
        ours.push(timed(|| checkpoints.warm(&[project.to_owned()]).unwrap()).1);
    }
    Row {
        what: "first look, median".to_owned(),
        unit: "ms",
        ours: ours.quantile(0.5),
        floor: Some(theirs.quantile(0.5)),
        at_most_floors: Some(1.5),
        ..Row::default()
    }
}

/// The looks around commands that change 10 files; the first one of a process reads what is known before.
fn later(temp: &Path, project: &Path, rounds: usize) -> Vec<Row> {
    let checkpoints = open(&temp.join("store0"));
    checkpoints.begin(&SessionId::from("s"), &EntryId::from("p0"), "p0").unwrap();
    let ((), load) = timed(|| checkpoints.warm(&[project.to_owned()]).unwrap());
    let (mut before, mut after, mut status) = (Samples::default(), Samples::default(), Samples::default());
    let mut both = Samples::default();
    for round in 0..rounds {
        let (running, looked) =
            timed(|| checkpoints.before_command(&caller(), &[project.to_owned()]).unwrap());
        for number in 0..10 {
            let file = project.join(format!("d{number}/e0/file{number}.rs"));
            std::fs::write(file, format!("changed in round {round}")).unwrap();
        }
        let (recorded, looked_again) = timed(|| checkpoints.finish(running).unwrap().unwrap());
        assert_eq!(recorded.changes.len(), 10);
        before.push(looked);
        after.push(looked_again);
        both.push(looked + looked_again);
        status.push(git(&temp.join("git0"), project, &["diff-files", "--quiet"]));
    }
    let row = |what: &str, ours: f64| Row { what: what.to_owned(), unit: "ms", ours, ..Row::default() };
    let look = |what: &str, ours: f64, floor: f64| Row {
        floor: Some(floor),
        at_most: Some(60.0),
        ..row(what, ours)
    };
    vec![
        row("first look of a later session", load.as_secs_f64() * 1e3),
        look("look before a command, median", before.quantile(0.5), status.quantile(0.5)),
        look("look before a command, least", before.quantile(0.0), status.quantile(0.0)),
        look("look after it, 10 files changed, median", after.quantile(0.5), status.quantile(0.5)),
        look("look after it, 10 files changed, least", after.quantile(0.0), status.quantile(0.0)),
        row("both together, median", both.quantile(0.5)),
        row("both together, least", both.quantile(0.0)),
    ]
}

fn rewind(temp: &Path, project: &Path) -> Row {
    let checkpoints = open(&temp.join("store0"));
    let repository = repository(temp, 9);
    git(&repository, project, &["add", "-A"]);
    git(&repository, project, &["commit", "-q", "-m", "first"]);
    let session = SessionId::from("s");
    let mut random = fastrand::Rng::with_seed(9);
    let (mut ours, mut theirs) = (Samples::default(), Samples::default());
    for round in 0..7 {
        let prompt = EntryId::from(format!("r{round}"));
        checkpoints.begin(&session, &prompt, "r").unwrap();
        let running = checkpoints.before_command(&caller(), &[project.to_owned()]).unwrap();
        change(project, &mut random);
        checkpoints.finish(running).unwrap();
        let to = checkpoints.checkpoint(&session, &prompt).unwrap();
        let (rewound, time) = timed(|| checkpoints.restore(&session, to, Force::KeepOthers).unwrap());
        assert_eq!(rewound.changes.len(), 1000);
        ours.push(time);
        change(project, &mut random);
        theirs.push(git(&repository, project, &["checkout", "-q", "--", "d0", "d1"]));
    }
    Row {
        what: "rewind of 1,000 files, median".to_owned(),
        unit: "ms",
        ours: ours.quantile(0.5),
        floor: Some(theirs.quantile(0.5)),
        at_most_floors: Some(2.0),
        ..Row::default()
    }
}

/// Changes 1,000 files.
fn change(project: &Path, random: &mut fastrand::Rng) {
    let mut left = 1000;
    for folder in ["d0", "d1"] {
        for inner in 0..100 {
            let Ok(entries) = project.join(folder).join(format!("e{inner}")).read_dir() else { continue };
            let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
            paths.sort();
            for path in paths {
                if left == 0 {
                    return;
                }
                std::fs::write(path, text(random)).unwrap();
                left -= 1;
            }
        }
    }
}
