//! How long checkpoints take beside git, in a tree of 50,000 files:
//! `cargo run --release --example checkpoint_speed -- [FOLDER] [FILES]`.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for measuring")]
#![expect(clippy::disallowed_methods, reason = "it makes a tree of its own and runs git on it")]

use ostler_control::checkpoint::{Caller, Checkpoints, Force, Limits, Place};
use ostler_proto::{EntryId, SessionId};
use std::{
    fmt::Write,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

fn main() {
    let mut words = std::env::args().skip(1);
    let folder = words.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let files: usize = words.next().map_or(50_000, |word| word.parse().unwrap());
    let temp = tempfile::tempdir_in(folder).unwrap();
    let project = temp.path().canonicalize().unwrap().join("project");
    furnish(&project, files);
    first_and_later(temp.path(), &project, files);
    rewind(temp.path(), &project);
}

fn furnish(project: &Path, files: usize) {
    let mut random = fastrand::Rng::with_seed(7);
    for number in 0..files {
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

/// The time this process has spent on processors: it says more where others use them too.
fn spent() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn git(repository: &Path, project: &Path, words: &[&str]) -> Duration {
    let mut command = Command::new("git");
    command.args(["-c", "core.fsync=none", "-c", "gc.auto=0", "-c", "user.name=n", "-c", "user.email=a@b"]);
    command.arg("--git-dir").arg(repository).arg("--work-tree").arg(project).args(words).current_dir(project);
    let (status, time) = timed(|| command.status().unwrap());
    assert!(status.code().is_some());
    time
}

fn repository(temp: &Path, number: usize) -> PathBuf {
    let repository = temp.join(format!("git{number}"));
    assert!(Command::new("git").args(["init", "-q", "--bare"]).arg(&repository).status().unwrap().success());
    repository
}

fn first_and_later(temp: &Path, project: &Path, files: usize) {
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for number in 0..3 {
        theirs.push(git(&repository(temp, number), project, &["add", "-A"]));
        let checkpoints = open(&temp.join(format!("store{number}")));
        ours.push(timed(|| checkpoints.warm(&[project.to_owned()]).unwrap()).1);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!("first, {files} files: {ours:?}; git add -A: {theirs:?}; ratio {:.2}", ratio(ours, theirs));
    let checkpoints = open(&temp.join("store0"));
    checkpoints.begin(&SessionId::from("s"), &EntryId::from("p0"), "p0").unwrap();
    let ((), load) = timed(|| checkpoints.warm(&[project.to_owned()]).unwrap());
    println!("first of a later session: {load:?}");
    let mut before = Vec::new();
    let mut after = Vec::new();
    let mut processor = Vec::new();
    for round in 0..15 {
        let began = spent();
        let (running, time) = timed(|| checkpoints.before_command(&caller(), &[project.to_owned()]).unwrap());
        before.push(time);
        processor.push(spent().saturating_sub(began));
        for number in 0..10 {
            let file = project.join(format!("d{number}/e0/file{number}.rs"));
            std::fs::write(file, format!("changed in round {round}")).unwrap();
        }
        let (recorded, time) = timed(|| checkpoints.finish(running).unwrap().unwrap());
        assert_eq!(recorded.changes.len(), 10);
        after.push(time);
    }
    let best = before.iter().chain(&after).min().copied().unwrap_or_default();
    let (before, after, processor) = (median(before), median(after), median(processor));
    println!(
        "later, 10 changed: before {before:?} (processor {processor:?}), after {after:?}, best {best:?}"
    );
    let status: Vec<_> =
        (0..5).map(|_| git(&temp.join("git0"), project, &["diff-files", "--quiet"])).collect();
    println!("git diff-files: {:?}", median(status));
}

fn rewind(temp: &Path, project: &Path) {
    let checkpoints = open(&temp.join("store0"));
    let repository = repository(temp, 9);
    git(&repository, project, &["add", "-A"]);
    git(&repository, project, &["commit", "-q", "-m", "first"]);
    let session = SessionId::from("s");
    let mut random = fastrand::Rng::with_seed(9);
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
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
    let (ours, theirs) = (median(ours), median(theirs));
    println!("rewind of 1,000 files: {ours:?}; git checkout: {theirs:?}; ratio {:.2}", ratio(ours, theirs));
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

fn ratio(ours: Duration, theirs: Duration) -> f64 {
    ours.as_secs_f64() / theirs.as_secs_f64()
}
