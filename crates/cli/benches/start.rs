//! How fast the program starts and how little it takes: its version, its first request, its memory.
//! Reports and never fails on a number.
#![expect(clippy::disallowed_methods, reason = "the kernel tells a process's memory in a file")]

#[path = "shared/stage.rs"]
mod stage;
#[path = "shared/table.rs"]
mod table;

use anyhow::Context;
use ostler_proto::script::Script;
use ostler_testkit::{AtEnd, Options, Server, say, turn};
use stage::{OSTLER, Run, Stage};
use std::{
    fs,
    time::{Duration, Instant},
};
use table::{Row, Samples};

const MODEL: &str = "claude-sonnet-4-5";
const NO_WORDS: [&str; 0] = [];

fn main() -> anyhow::Result<()> {
    let runs = table::repeats(100);
    let stage = Stage::new(&[("README.md", "A small project.\n")]);
    let script = Script { model: None, turns: vec![turn([say("Hello.")])] };
    let server = Server::start_with(script, Options { at_end: AtEnd::StartAgain, ..Options::default() })?;
    let mut rows = versions(&stage, runs)?;
    rows.extend(first_requests(&stage, &server, runs.div_ceil(3))?);
    rows.push(memory(&stage, &server, runs.div_ceil(10))?);
    table::print("start (floors: /bin/true; a shell that sends one request)", &rows)
}

fn versions(stage: &Stage, runs: usize) -> anyhow::Result<Vec<Row>> {
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    for _ in 0..runs {
        ours.push(stage.start(OSTLER, &["--version"], &[])?.finish()?);
        floor.push(stage.start("/bin/true", &NO_WORDS, &[])?.finish()?);
    }
    let row = |name: &str, share| Row {
        what: format!("ostler --version, {name}"),
        unit: "ms",
        ours: ours.quantile(share),
        floor: Some(floor.quantile(share)),
        at_most_floors: Some(3.0),
        ..Row::default()
    };
    Ok(vec![row("median", 0.5), row("least", 0.0)])
}

fn first_requests(stage: &Stage, server: &Server, runs: usize) -> anyhow::Result<Vec<Row>> {
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    let (mut leaving, mut whole, mut whole_floor) =
        (Samples::default(), Samples::default(), Samples::default());
    let words = shell_client(server);
    for _ in 0..runs {
        let run = stage.ask(server, MODEL, &[])?;
        let began = run.began;
        let took = run.finish()?;
        let request = last_request(server)?;
        ours.push(request.arrived - began);
        let answered = request.answered.context("the program left before its answer was over")?;
        leaving.push((began + took).saturating_duration_since(answered));
        whole.push(took);

        let run = stage.start("bash", &words, &[])?;
        let began = run.began;
        whole_floor.push(run.finish()?);
        floor.push(last_request(server)?.arrived - began);
    }
    let row = |what: &str, ours: &Samples, floor: Option<&Samples>, share: f64| Row {
        what: what.to_owned(),
        unit: "ms",
        ours: ours.quantile(share),
        floor: floor.map(|floor| floor.quantile(share)),
        ..Row::default()
    };
    let limited = |row| Row { at_most: Some(25.0), ..row };
    Ok(vec![
        limited(row("start to first request, median", &ours, Some(&floor), 0.5)),
        limited(row("start to first request, least", &ours, Some(&floor), 0.0)),
        row("answer sent to exit, median", &leaving, None, 0.5),
        row("whole one-shot turn, median", &whole, Some(&whole_floor), 0.5),
    ])
}

fn memory(stage: &Stage, server: &Server, runs: usize) -> anyhow::Result<Row> {
    let words = shell_client(server);
    let (mut ours, mut floor) = (0.0_f64, 0.0_f64);
    for _ in 0..runs {
        ours = ours.max(peak_megabytes(stage.ask(server, MODEL, &[])?)?);
        floor = floor.max(peak_megabytes(stage.start("bash", &words, &[])?)?);
    }
    Ok(Row {
        what: "peak memory of a one-shot turn".to_owned(),
        unit: "MB",
        ours,
        floor: Some(floor),
        at_most: Some(30.0),
        ..Row::default()
    })
}

/// Opens a connection, sends a request and waits for the answer's first line: a process that starts,
/// asks and ends, with nothing between.
fn shell_client(server: &Server) -> [String; 2] {
    let address = server.url().trim_start_matches("http://").replace(':', "/");
    let request = "GET / HTTP/1.1\\r\\nconnection: close\\r\\n\\r\\n";
    ["-c".to_owned(), format!("exec 3<>/dev/tcp/{address}; printf '{request}' >&3; read -r line <&3")]
}

fn last_request(server: &Server) -> anyhow::Result<ostler_testkit::Recorded> {
    server.all_requests().pop().context("no request came")
}

/// Looks at the kernel's own high-water mark until the process is gone. What the calls for resource
/// usage report instead starts with the size of the process that forked.
fn peak_megabytes(run: Run) -> anyhow::Result<f64> {
    let status = format!("/proc/{}/status", run.child.id());
    let mut peak = 0.0;
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Ok(text) = fs::read_to_string(&status)
        && Instant::now() < deadline
    {
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        // A process that has ended and waits to be reaped has none.
        let Some(line) = line else { break };
        let kilobytes: f64 = line.trim_end_matches("kB").trim().parse()?;
        peak = kilobytes / 1024.0;
        std::thread::sleep(Duration::from_micros(500));
    }
    run.finish()?;
    Ok(peak)
}
