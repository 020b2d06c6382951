//! A command that prints far too much: `flood [GIGABYTES]`. Prints how long it took, the most memory this
//! process ever held, and the most that was ever on the disk.
#![expect(clippy::disallowed_methods, reason = "a program that looks at its own folder and memory")]
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use ostler_tools::{
    Artifacts, PlanContext, Progress, ReadPolicy, Registry, RunContext,
    builtin::{Kit, all_with},
    host::{FileState, Jobs, Local, Terms},
};
use serde_json::json;
use std::{
    error::Error,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let gigabytes: u64 = std::env::args().nth(1).as_deref().unwrap_or("10").parse()?;
    let temp = tempfile::tempdir()?;
    let (dir, kept) = (temp.path().join("work"), temp.path().join("kept"));
    std::fs::create_dir(&dir)?;
    let jobs = Arc::new(Jobs::new(Some(Artifacts::new(&kept))));
    let tools = Registry::new(all_with(Kit { jobs, ..Kit::default() }))?;
    let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
    let cx = PlanContext {
        cwd: dir.clone(),
        roots: vec![dir.clone()],
        host: Arc::new(Local::new(dir, vec![path])),
        files: Arc::new(FileState::default()),
        read_policy: ReadPolicy::open(),
        plan_file: None,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let watching = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || peak(&kept, &stop)
    });
    let began = Instant::now();
    let command = format!("yes 'all work and no play' | head -c {gigabytes}G");
    let tool = tools.find("Bash").ok_or("no Bash")?;
    let plan = tool.plan(json!({"command": command, "timeout": 600_000}), &cx).await?;
    let run = RunContext {
        call: "flood".into(),
        cancel: CancellationToken::new(),
        progress: Progress::unseen(),
        terms: Terms::default(),
    };
    let output = plan.effect.run(run).await?;
    let seconds = began.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    let disk = watching.join().map_err(|_| "the watcher failed")?;
    let shown = output.structured["stdout"].as_str().unwrap_or_default().len();
    println!("{gigabytes} GB in {seconds:.1} s; {shown} bytes shown, error: {}", output.is_error);
    println!("most memory: {} MB, most disk: {} MB", resident()? >> 20, disk >> 20);
    println!(
        "kept: {} ({} bytes)",
        output.structured["persistedOutputPath"], output.structured["persistedOutputSize"]
    );
    Ok(())
}

/// The most bytes seen in a folder until told to stop.
fn peak(folder: &Path, stop: &AtomicBool) -> u64 {
    let mut most = 0;
    while !stop.load(Ordering::Relaxed) {
        let entries = folder.read_dir().into_iter().flatten().flatten();
        let now: u64 = entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum();
        most = most.max(now);
        std::thread::sleep(Duration::from_millis(5));
    }
    most
}

/// The most memory this process ever held, in bytes.
fn resident() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no VmHWM")?;
    let kilobytes: u64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kilobytes * 1024)
}
