//! What judging costs: one decision with 200 rules in force, and the whole way of a call through the executor.
//! The floor is one look at the file. Reports and never fails on a number.
#![expect(clippy::disallowed_methods, reason = "the floor is a look at a real file")]

#[path = "shared/table.rs"]
mod table;

use anyhow::{Context, ensure};
use ostler_control::{
    ExecEvent, Executor, Policy, Question, Setup, decide, examine,
    executor::{Attendance, DEFAULT_PARALLEL},
    memory::Memory,
    permission::Author,
};
use ostler_proto::{
    Access, Decision, Footprint, Intent, Json, Mode, PathFact, Preview, Rule, RuleSource, Rules, ToolCall,
};
use ostler_tools::{
    Registry, builtin,
    host::{Jobs, Local},
};
use serde_json::json;
use std::{
    hint::black_box,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use table::{Row, Samples};

/// Decisions in one measurement, so that the clock itself does not count.
const BATCH: u32 = 200;
/// Calls that the executor takes in one measurement.
const CALLS: u32 = 200;

fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let root = folder.path().canonicalize()?;
    let file = root.join("src/deep/file.rs");
    std::fs::create_dir_all(file.parent().context("a parent")?)?;
    std::fs::write(&file, "text\n")?;
    let repeats = table::repeats(200);
    let floor = micros(repeats, BATCH, || drop(black_box(std::fs::metadata(&file))));
    let mut rows = decisions(&root, &file, repeats, floor)?;
    rows.extend(pipeline(&root, &file, repeats.min(50), floor)?);
    table::print("decide (200 rules in force; floor: one stat of the file)", &rows)
}

/// One side of the rules.
type Side = fn(&mut Rules) -> &mut Vec<Rule>;

/// 200 rules as people write them, about nothing that is asked here unless told.
fn policy(root: &Path, last: Option<(&str, Side)>) -> anyhow::Result<Policy> {
    let source = || RuleSource::User(root.join("settings.json"));
    let mut rules = Rules::default();
    for number in 0..40 {
        let parse = |text: String| Rule::parse(&text, source());
        rules.deny.push(parse(format!("Read(secret{number}/**)"))?);
        rules.deny.push(parse(format!("Edit(~/.config/app{number}/*.toml)"))?);
        rules.ask.push(parse(format!("Edit(/generated/{number}/**/*.rs)"))?);
        rules.allow.push(parse(format!("Edit(docs/{number}/*.md)"))?);
        rules.allow.push(parse(format!("Bash(tool{number} run *)"))?);
    }
    if let Some((text, side)) = last {
        side(&mut rules).push(Rule::parse(text, source())?);
    }
    Ok(Policy { rules, roots: vec![root.to_owned()], home: PathBuf::from("/home/user"), ..Policy::default() })
}

fn decisions(root: &Path, file: &Path, repeats: usize, floor: f64) -> anyhow::Result<Vec<Row>> {
    let fact =
        PathFact { requested: file.to_owned(), hops: Vec::new(), target: file.to_owned(), exists: true };
    let read = Access::Read { paths: vec![fact.clone()] };
    let write = Access::Write { paths: vec![fact] };
    let command = Access::Execute {
        command: "git log --oneline -n 20 -- src | head -5".to_owned(),
        cwd: root.to_owned(),
        footprint: Footprint::default(),
    };
    let allow: Side = |rules| &mut rules.allow;
    let deny: Side = |rules| &mut rules.deny;
    let mut rows = Vec::new();
    for (what, tool, access, last, expect) in [
        ("a read inside the project", "Read", &read, None, "allow"),
        ("an edit nobody speaks about", "Edit", &write, None, "ask"),
        ("an edit that the last rule allows", "Edit", &write, Some(("Edit(src/**)", allow)), "allow"),
        ("an edit that the last rule denies", "Edit", &write, Some(("Edit(*.rs)", deny)), "deny"),
        ("a command that was read", "Bash", &command, None, "allow"),
    ] {
        let policy = policy(root, last)?;
        let mut intent = Intent { title: what.to_owned(), access: access.clone(), preview: Preview::None };
        let host = Local::new(policy.home.clone(), Vec::new());
        let line = block_on(examine(&mut intent, &policy.home, &host))?;
        let input = json!({"file_path": file});
        let question =
            Question { tool, input: &input, intent: &intent, line: line.as_ref(), author: Author::Model };
        let decision = match decide(&question, &policy, None) {
            Decision::Allow { .. } => "allow",
            Decision::Ask { .. } => "ask",
            Decision::Deny { .. } => "deny",
        };
        ensure!(decision == expect, "{what}: {decision} instead of {expect}");
        let ours = micros(repeats, BATCH, || drop(black_box(decide(&question, &policy, None))));
        let at_most = (tool != "Bash").then_some(50.0);
        rows.push(Row {
            what: what.to_owned(),
            unit: "µs",
            ours,
            floor: Some(floor),
            at_most,
            ..Row::default()
        });
    }
    Ok(rows)
}

/// Calls one after the other through the executor: checked, planned, judged, run, reported.
fn pipeline(root: &Path, file: &Path, repeats: usize, floor: f64) -> anyhow::Result<Vec<Row>> {
    let todos = json!({"todos": [{"content": "a", "status": "pending", "activeForm": "a"}]});
    let read = json!({"file_path": file, "limit": 1});
    let mut rows = Vec::new();
    for (what, tool, input, at_most) in [
        ("a call that does nothing, through the executor", "TodoWrite", todos, Some(100.0)),
        ("a small Read, through the executor", "Read", read, None),
    ] {
        let mut executor = executor(root)?;
        let mut samples = Samples::default();
        for repeat in 0..repeats {
            samples.push(block_on(calls(&mut executor, tool, &input, repeat))??);
        }
        let ours = samples.quantile(0.5) * 1e3;
        rows.push(Row {
            what: what.to_owned(),
            unit: "µs",
            ours,
            floor: Some(floor),
            at_most,
            ..Row::default()
        });
    }
    Ok(rows)
}

fn executor(root: &Path) -> anyhow::Result<Executor> {
    Ok(Executor::new(Setup {
        registry: Registry::new(builtin::all())?,
        host: Arc::new(Local::new(PathBuf::from("/home/user"), Vec::new())),
        policy: Policy { mode: Mode::Default, ..policy(root, None)? },
        cwd: root.to_owned(),
        attendance: Attendance::Unattended,
        parallel: DEFAULT_PARALLEL,
        artifacts: None,
        memory: Memory::default(),
        reload: None,
        keeping: None,
        jobs: Arc::new(Jobs::new(None)),
        hooks: None,
    }))
}

async fn calls(executor: &mut Executor, tool: &str, input: &Json, repeat: usize) -> anyhow::Result<Duration> {
    let began = Instant::now();
    for number in 0..CALLS {
        let id = format!("{repeat}-{number}").as_str().into();
        executor.start(ToolCall { id, name: tool.to_owned(), input: input.clone(), problem: None });
        loop {
            if let ExecEvent::Finished(finished) = executor.next().await {
                ensure!(!finished.result.is_error, "{}", finished.result.text());
                break;
            }
        }
    }
    Ok(began.elapsed() / CALLS)
}

fn block_on<T>(future: impl Future<Output = T>) -> anyhow::Result<T> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(future))
}

/// The median time of one run in microseconds.
fn micros(repeats: usize, batch: u32, mut run: impl FnMut()) -> f64 {
    let mut samples = Samples::default();
    for _ in 0..repeats {
        let began = Instant::now();
        (0..batch).for_each(|_| run());
        samples.push(began.elapsed() / batch);
    }
    samples.quantile(0.5) * 1e3
}
