//! What an agent costs that waits for its user: many of them in one process, each with all tools and one turn behind
//! it. Reports and never fails on a number.
#![expect(
    clippy::disallowed_methods,
    reason = "lays out a project, and reads what the kernel says of this process"
)]

#[path = "shared/table.rs"]
mod table;

use anyhow::Context;
use ostler_control::{
    Executor, Policy, Setup,
    executor::{Attendance, DEFAULT_PARALLEL},
    memory::Memory,
};
use ostler_engine::{
    Handle, Limits, Origin, Place, Recording, Snapshot, Start, Surroundings, default_system,
    session::{Log, Stamp, State, Store},
};
use ostler_model::{Catalog, Chosen, Environment, Models, script};
use ostler_proto::{AgentEvent, Block, Command, Mode, SessionId, Wording};
use ostler_tools::{
    Registry,
    builtin::{self, Kit},
    host::{Jobs, Local},
};
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Instant};
use table::{Row, Samples};

/// Agents before the first look: what all share has been paid for by then.
const FIRST: usize = 50;
const MANY: usize = 500;

const TURN: &str = r#"
[[turn]]
steps = [{ text = "I shall look." }, { call = "Read", input = { file_path = "a.txt" } }]
[[turn]]
steps = [{ text = "That is what it says." }]
"#;

fn main() -> anyhow::Result<()> {
    let more = table::repeats(MANY);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let rows = runtime.block_on(measure(more))?;
    table::print("agents (memory of this process, divided by its agents)", &rows)
}

async fn measure(more: usize) -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let project = folder.path().join("project");
    std::fs::create_dir(&project)?;
    std::fs::write(project.join("a.txt"), "one\ntwo\nthree\n".repeat(100))?;
    let mut idle = Vec::new();
    for _ in 0..FIRST {
        idle.push(rest(folder.path(), &project).await?);
    }
    let before = resident_kilobytes()?;
    let mut turns = Samples::default();
    for _ in 0..more {
        let began = Instant::now();
        idle.push(rest(folder.path(), &project).await?);
        turns.push(began.elapsed());
    }
    let grown = resident_kilobytes()? - before;
    let agents = f64::from(u32::try_from(more)?);
    for handle in idle {
        drop(handle.commands);
        drop(handle.events);
        handle.task.await?;
    }
    let memory = Row {
        what: format!("an agent that waits, of {more} in one process"),
        unit: "MB",
        ours: grown / agents / 1024.0,
        at_most: Some(1.0),
        ..Row::default()
    };
    let what = "starting one, with its turn, median".to_owned();
    Ok(vec![memory, Row { what, unit: "ms", ours: turns.quantile(0.5), ..Row::default() }])
}

/// An agent that has done its turn and waits for the next.
async fn rest(folder: &Path, project: &Path) -> anyhow::Result<Handle> {
    let mut handle = ostler_engine::spawn(start(folder, project)?);
    let content = vec![Block::text("What does a.txt say?")];
    handle.commands.send(Command::Prompt { content, id: None, wording: Wording::Typed }).await?;
    loop {
        let envelope = handle.events.recv().await.context("the agent ended")?;
        if let AgentEvent::TurnEnded(_) = envelope.event {
            return Ok(handle);
        }
    }
}

fn start(folder: &Path, project: &Path) -> anyhow::Result<Start> {
    let catalog = Catalog::new(&BTreeMap::new());
    let environment = Environment::from_vars(|_| None)?;
    let chosen = Chosen {
        name: "scripted".to_owned(),
        row: script::row(),
        provider: script::from_text(TURN, project.to_path_buf())?,
        key_source: "none".to_owned(),
    };
    let id = SessionId::from(uuid::Uuid::new_v4().to_string());
    let store = Store { homes: vec![folder.join("sessions")] };
    let executor = executor(folder, project)?;
    let surroundings = Surroundings {
        cwd: project.to_path_buf(),
        is_git: false,
        platform: "linux".to_owned(),
        today: "2026-11-16".to_owned(),
        place: Place::System,
    };
    Ok(Start {
        log: Log::at(store.path_for(project, &id)),
        id,
        state: State::default(),
        stamp: Stamp::default(),
        models: Models::new(catalog, environment, project.to_path_buf()),
        chosen,
        system: default_system(&surroundings, &executor.offered()),
        snapshot: Snapshot::default(),
        executor,
        instructions: None,
        limits: Limits::default(),
        origin: Origin::New,
        title: None,
        recording: Recording::Off,
    })
}

fn executor(folder: &Path, project: &Path) -> anyhow::Result<Executor> {
    let jobs = Arc::new(Jobs::new(None));
    let kit = Kit { jobs: Arc::clone(&jobs), ..Kit::default() };
    Ok(Executor::new(Setup {
        registry: Registry::new(builtin::all_with(kit))?,
        host: Arc::new(Local::new(folder.to_path_buf(), Vec::new())),
        policy: Policy {
            mode: Mode::Default,
            roots: vec![project.to_path_buf()],
            home: folder.to_path_buf(),
            ..Policy::default()
        },
        cwd: project.to_path_buf(),
        attendance: Attendance::Unattended,
        parallel: DEFAULT_PARALLEL,
        artifacts: None,
        memory: Memory::default(),
        reload: None,
        keeping: None,
        jobs,
        hooks: None,
    }))
}

fn resident_kilobytes() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("the kernel does not say")?;
    Ok(line.trim_end_matches("kB").trim().parse()?)
}
