//! How fast `Read` is, as ratios to what the shell does: run with `--release`.
//! Prints one line per question and exits with an error when an answer is over its bound.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it sets its own scene on the disk")]
#![expect(clippy::print_stdout, reason = "its answers are for people")]

use ostler_proto::Json;
use ostler_tools::{
    PlanContext, Progress, ReadPolicy, Registry, RunContext,
    builtin::all,
    host::{FileState, Local},
};
use serde_json::json;
use std::{
    error::Error,
    fs::File,
    io::{BufWriter, Seek, SeekFrom, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const LONG: u64 = 2 << 30;
const HUGE: u64 = 100 << 30;
const LINE: &[u8] = b"lorem ipsum dolor sit amet elit sed\n";
const ROUNDS: usize = 3;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let temp = tempfile::tempdir()?;
    let dir = temp.path().canonicalize()?;
    let lines = write_long(&dir.join("long"))?;
    let from = lines - 2000;

    let tail = best(|| shell(&dir, &format!("tail -n +{from} long | head -2000")))?;
    let before = resident()?;
    let input = json!({"file_path": "long", "offset": from, "limit": 2000});
    let mut read = Duration::MAX;
    for _ in 0..ROUNDS {
        read = read.min(timed_read(&dir, &input).await?);
    }
    let grown = resident()?.saturating_sub(before);
    let ratio = read.as_secs_f64() / tail.as_secs_f64();
    println!("the end of 2 GB: {read:.2?}, tail|head {tail:.2?}, ratio {ratio:.2} (at most 1.5)");
    println!("memory grew by {} KB (at most 16000)", grown / 1000);

    std::fs::write(dir.join("small"), "fn main() {}\n".repeat(200))?;
    let mut small = Duration::MAX;
    for _ in 0..200 {
        small = small.min(timed_read(&dir, &json!({"file_path": "small"})).await?);
    }
    println!("a small file: {:.3} ms (at most 0.3)", small.as_secs_f64() * 1e3);

    let mut huge = File::create(dir.join("huge"))?;
    huge.write_all(b"first\n")?;
    huge.seek(SeekFrom::Start(HUGE))?;
    huge.write_all(b"\nlast line\n")?;
    drop(huge);
    let head = timed_read(&dir, &json!({"file_path": "huge", "limit": 1})).await?;
    println!("the start of 100 GB: {head:.2?}");
    if std::env::args().any(|argument| argument == "--huge") {
        let end = timed_read(&dir, &json!({"file_path": "huge", "offset": 3, "limit": 1})).await?;
        println!("the end of 100 GB: {end:.2?}, memory {} KB", resident()?.saturating_sub(before) / 1000);
    }
    if ratio > 1.5 || grown > 16_000_000 || small > Duration::from_micros(300) {
        return Err("over a bound".into());
    }
    Ok(())
}

/// Writes the long file and returns how many lines it has.
fn write_long(path: &Path) -> std::io::Result<usize> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (mut lines, mut bytes) = (0, 0);
    while bytes < LONG {
        file.write_all(LINE)?;
        bytes += LINE.len() as u64;
        lines += 1;
    }
    file.flush()?;
    Ok(lines)
}

fn best(work: impl Fn() -> Result<Duration, Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    (0..ROUNDS).try_fold(Duration::MAX, |best, _| Ok(best.min(work()?)))
}

fn shell(dir: &Path, command: &str) -> Result<Duration, Box<dyn Error>> {
    let start = Instant::now();
    Command::new("sh").args(["-c", command]).current_dir(dir).stdout(Stdio::null()).status()?;
    Ok(start.elapsed())
}

/// One read in a session of its own, so that none is answered by a former one.
async fn timed_read(dir: &Path, input: &Json) -> Result<Duration, Box<dyn Error>> {
    let cx = PlanContext {
        cwd: dir.to_owned(),
        roots: vec![dir.to_owned()],
        host: Arc::new(Local::new(dir.to_owned(), Vec::new())),
        files: Arc::new(FileState::default()),
        read_policy: ReadPolicy::open(),
        plan_file: None,
    };
    let tools = Registry::new(all())?;
    let tool = tools.find("Read").ok_or("no Read")?;
    let start = Instant::now();
    let plan = tool.plan(input.clone(), &cx).await?;
    let (tx, _rx) = mpsc::channel(1);
    let run = RunContext {
        call: "call".into(),
        cancel: CancellationToken::new(),
        progress: Progress::to(tx),
        terms: ostler_tools::host::Terms::default(),
    };
    plan.effect.run(run).await?;
    Ok(start.elapsed())
}

/// The most memory this process ever held, in bytes.
fn resident() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no VmHWM")?;
    let kilobytes: u64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kilobytes * 1024)
}
