//! What sessions on disk cost: listing very many, resuming a very long one, and waiting for the disk at
//! every line. Reports and never fails on a number.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "lays out sessions to measure on")]

#[path = "shared/stage.rs"]
mod stage;
#[path = "shared/table.rs"]
mod table;

use anyhow::Context;
use ostler_engine::session::{Log, Session, Stamp, State, project_key};
use ostler_proto::{
    Access, Block, Decision, Fingerprint, Intent, Json, PathFact, Preview, Reason, SessionEvent, SessionId,
    StopReason, Usage, script::Script, settings::Fsync,
};
use ostler_testkit::{Options, Server, say, turn};
use serde_json::json;
use stage::{OSTLER, Run, Stage};
use std::{
    fs::{self, File, OpenOptions},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use table::{Row, Samples};

const SESSIONS: usize = 10_000;
const EVENTS: usize = 100_000;
const APPENDS: usize = 300;
const MODEL: &str = "claude-sonnet-4-5";
const LONG: &str = "aaaaaaaa-2222-4333-8444-555555555555";
/// All of it is sent, though it is longer than any window.
const GO_ON: [&str; 4] = ["--resume", LONG, "--settings", r#"{"autoCompactEnabled": false}"#];

fn main() -> anyhow::Result<()> {
    let mut rows = listing(table::repeats(20))?;
    rows.extend(resuming(table::repeats(10))?);
    rows.extend(appending()?);
    table::print("sessions (floors: cat of the same file; write and fdatasync of the same bytes)", &rows)
}

fn folder(stage: &Stage) -> anyhow::Result<PathBuf> {
    let folder = stage.home.join(".ostler/projects").join(project_key(stage.repo.path()));
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn listing(runs: usize) -> anyhow::Result<Vec<Row>> {
    let stage = Stage::new(&[]);
    let folder = folder(&stage)?;
    for number in 0..SESSIONS {
        let id = format!("{number:08x}-2222-4333-8444-555555555555");
        let mut text = String::new();
        for event in 0..4 {
            text.push_str(&prompt(&format!("{id}{event}"), &format!("prompt {event} of session {number}")));
        }
        fs::write(folder.join(format!("{id}.jsonl")), text)?;
    }
    let all = ["session", "list", "--limit", "10000"];
    let cold = stage.start(OSTLER, &all, &[])?.finish()?;
    let (mut whole, mut newest) = (Samples::default(), Samples::default());
    for _ in 0..runs {
        whole.push(stage.start(OSTLER, &all, &[])?.finish()?);
        newest.push(stage.start(OSTLER, &["session", "list"], &[])?.finish()?);
    }
    let row = |what: &str, ours, at_most| Row {
        what: format!("{what} of {SESSIONS} sessions"),
        unit: "ms",
        ours,
        at_most,
        ..Row::default()
    };
    Ok(vec![
        row("list all, warm, median,", whole.quantile(0.5), Some(50.0)),
        row("list all, warm, least,", whole.quantile(0.0), Some(50.0)),
        row("list the newest 50, warm, median,", newest.quantile(0.5), Some(50.0)),
        row("list all, no index yet,", cold.as_secs_f64() * 1e3, None),
    ])
}

fn resuming(runs: usize) -> anyhow::Result<Vec<Row>> {
    let stage = Stage::new(&[]);
    let path = folder(&stage)?.join(format!("{LONG}.jsonl"));
    long_session(&path)?;
    let megabytes = path.metadata()?.len() / 1_000_000;
    let (mut ours, mut floor, mut peak) = (Samples::default(), Samples::default(), 0.0_f64);
    for _ in 0..runs {
        let server = start()?;
        let run = stage.ask(&server, MODEL, &GO_ON)?;
        let began = run.began;
        run.finish()?;
        let request = server.all_requests().into_iter().next().context("no request came")?;
        ours.push(request.arrived - began);
        let cat = format!("cat {} > /dev/null", path.display());
        floor.push(stage.start("sh", &["-c", &cat], &[])?.finish()?);
        // Watching takes time, so it is done in another run.
        peak = peak.max(peak_megabytes(stage.ask(&start()?, MODEL, &GO_ON)?)?);
    }
    let row = |name: &str, share| Row {
        what: format!("{EVENTS} events, {megabytes} MB: start to first request, {name}"),
        unit: "ms",
        ours: ours.quantile(share),
        floor: Some(floor.quantile(share)),
        at_most_floors: Some(10.0),
        ..Row::default()
    };
    Ok(vec![
        row("median", 0.5),
        row("least", 0.0),
        Row {
            what: "peak memory of that, with its turn".to_owned(),
            unit: "MB",
            ours: peak,
            at_most: Some(150.0),
            ..Row::default()
        },
    ])
}

/// A hundred thousand events in the proportions of real work: each round trip says something, calls a tool,
/// is judged, returns and is booked.
fn long_session(path: &Path) -> anyhow::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut parent = String::new();
    for number in 0..EVENTS / 5 {
        let id = |kind: usize| format!("{number:08x}-0000-4000-8000-{kind:012x}");
        if number % 20 == 0 {
            out.write_all(prompt(&id(0), "please go on with the next part of the work").as_bytes())?;
            parent = id(0);
        }
        let message = |block| json!({"id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": MODEL, "content": [block], "stop_reason": null, "usage": {"input_tokens": 10, "output_tokens": 20}});
        let line = |kind: &str, id: &str, parent: &str, body| {
            let mut line = json!({"parentUuid": parent, "isSidechain": false, "type": kind, "message": body});
            stamp(&mut line, id);
            line
        };
        let words = "I shall look at the next file to see how it does this. ".repeat(3);
        let call = format!("toolu_{number:024}");
        let said = line("assistant", &id(1), &parent, message(json!({"type": "text", "text": words})));
        let input =
            json!({"file_path": format!("/srv/project/src/part_{number}.rs"), "offset": 100, "limit": 20});
        let asked = line(
            "assistant",
            &id(2),
            &id(1),
            message(json!({"type": "tool_use", "id": call, "name": "Read", "input": input})),
        );
        let decided = own(&decided(&call, &format!("/srv/project/src/part_{number}.rs")), &id(3));
        let content = "    let total = items.iter().map(|item| item.price).sum::<u64>();\n".repeat(8);
        let result =
            json!([{"type": "tool_result", "tool_use_id": call, "content": content, "is_error": false}]);
        let mut returned = line("user", &id(4), &id(2), json!({"role": "user", "content": result}));
        returned["toolUseResult"] = json!({"type": "text", "file": {"filePath": "/srv/project/src/part.rs", "content": content, "numLines": 8}});
        returned["ostler"] = json!({"tool": "Read", "state": "complete", "changes": [], "duration_ms": 1});
        let sampled = own(&sampled(number), &id(5));
        writeln!(out, "{said}\n{asked}\n{decided}\n{returned}\n{sampled}")?;
        parent = id(4);
    }
    out.flush()?;
    Ok(())
}

/// A line of our own; its event is a real one, so that the line cannot become one that nobody writes any more.
fn own(event: &SessionEvent, id: &str) -> Json {
    let mut line = json!({"type": "ostler", "v": 1, "data": event});
    stamp(&mut line, id);
    line
}

fn decided(call: &str, path: &str) -> SessionEvent {
    let fact = PathFact { requested: path.into(), hops: Vec::new(), target: path.into(), exists: true };
    SessionEvent::Decided {
        call: call.into(),
        intent: Intent {
            title: format!("Read {path}"),
            access: Access::Read { paths: vec![fact] },
            preview: Preview::None,
        },
        decision: Decision::Allow {
            because: Reason::Check { text: "it only reads inside the working directories".to_owned() },
        },
    }
}

fn sampled(number: usize) -> SessionEvent {
    let hash = || "382a3506f6913676dd934b82".to_owned();
    SessionEvent::Sampled {
        message: format!("msg_{number}"),
        model: MODEL.to_owned(),
        stop: Some(StopReason::ToolUse),
        usage: Usage { input: 10, output: 20, ..Usage::default() },
        cost_usd: 0.001,
        duration_ms: 900,
        request: Some(Fingerprint {
            model: MODEL.to_owned(),
            manner: hash(),
            tools: hash(),
            system: hash(),
            conversation: hash(),
            blocks: number,
            bytes: 12_760,
            tokens: 3_707,
        }),
    }
}

fn prompt(id: &str, text: &str) -> String {
    let mut line = json!({"parentUuid": null, "isSidechain": false, "type": "user", "message": {"role": "user", "content": text}});
    stamp(&mut line, id);
    format!("{line}\n")
}

fn stamp(line: &mut Json, id: &str) {
    line["uuid"] = json!(id);
    line["timestamp"] = json!("2026-01-01T00:00:00.000Z");
    line["sessionId"] = json!(LONG);
    line["cwd"] = json!("/srv/project");
    line["version"] = json!("0.1.0");
    line["gitBranch"] = json!("main");
    line["userType"] = json!("external");
    line["entrypoint"] = json!("sdk-cli");
}

fn start() -> anyhow::Result<Server> {
    let script = Script { model: None, turns: vec![turn([say("Hello.")])] };
    Ok(Server::start_with(script, Options::default())?)
}

/// The kernel's high-water mark, looked at until the process is gone.
fn peak_megabytes(run: Run) -> anyhow::Result<f64> {
    let status = format!("/proc/{}/status", run.child.id());
    let mut peak = 0.0;
    let deadline = Instant::now() + Duration::from_mins(1);
    while let Ok(text) = fs::read_to_string(&status)
        && Instant::now() < deadline
    {
        let Some(line) = text.lines().find_map(|line| line.strip_prefix("VmHWM:")) else { break };
        let kilobytes: f64 = line.trim_end_matches("kB").trim().parse()?;
        peak = kilobytes / 1024.0;
        std::thread::sleep(Duration::from_millis(1));
    }
    run.finish()?;
    Ok(peak)
}

fn appending() -> anyhow::Result<Vec<Row>> {
    let stage = Stage::new(&[]);
    let folder = folder(&stage)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (events, mut told) = tokio::sync::mpsc::channel(4 * APPENDS);
    let path = folder.join(format!("{LONG}.jsonl"));
    let log = Log::at(path.clone()).with_fsync(Fsync::Strict);
    let mut session = Session::new(SessionId::from(LONG), State::default(), log, Stamp::default(), events);
    let mut plain = OpenOptions::new().create(true).append(true).open(folder.join("plain"))?;
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    let text = "what the user said, at some length. ".repeat(20);
    for _ in 0..APPENDS {
        let event = SessionEvent::Prompted { content: vec![Block::text(text.clone())], meta: false };
        let (before, began) = (length(&path), Instant::now());
        runtime.block_on(session.record(event))?;
        ours.push(began.elapsed());
        let bytes = vec![b'x'; usize::try_from(length(&path) - before)?];
        let began = Instant::now();
        plain.write_all(&bytes)?;
        plain.sync_data()?;
        floor.push(began.elapsed());
        while told.try_recv().is_ok() {}
    }
    let row = |name: &str, share| Row {
        what: format!("record a line in strict mode, {name}"),
        unit: "ms",
        ours: ours.quantile(share),
        floor: Some(floor.quantile(share)),
        at_most_floors: Some(1.3),
        ..Row::default()
    };
    Ok(vec![row("median", 0.5), row("p90", 0.9), row("least", 0.0)])
}

/// A file that is not there yet is empty.
fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}
