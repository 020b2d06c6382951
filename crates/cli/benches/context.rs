//! Does a turn late in a long session cost more than one early in it? Measures the time from the end of an answer
//! to the next request, less what a client needs that only resends those bytes, at the beginning and at the end of
//! 500 round trips. Reports and never fails on a number.

#[path = "shared/client.rs"]
mod client;
#[path = "shared/stage.rs"]
mod stage;
#[path = "shared/table.rs"]
mod table;

use anyhow::{Context, ensure};
use client::Client;
use ostler_proto::script::{Script, Turn};
use ostler_testkit::{Options, Recorded, Server, call, say, turn};
use serde_json::json;
use stage::Stage;
use std::{
    fmt::Write as _,
    ops::Range,
    time::{Duration, Instant},
};
use table::{Row, Samples};

const TRIPS: usize = 500;
const EARLY: Range<usize> = 5..25;
/// More than the caches of one core hold.
const NEAREST_CACHE: usize = 4 << 20;
const LATE: Range<usize> = TRIPS - 20..TRIPS;

/// What is measured over some round trips.
#[derive(Default)]
struct Span {
    ours: Samples,
    /// Sending the same bytes, and nothing else.
    resent: Samples,
    /// Writing the same bytes out of memory.
    written: Samples,
}

fn main() -> anyhow::Result<()> {
    let stage = Stage::new(&[]);
    for number in 0..TRIPS {
        stage.repo.write(&file(number), source(number));
    }
    let (mut early, mut late) = (Span::default(), Span::default());
    let mut sent = 0;
    for _ in 0..table::repeats(3) {
        let server = start(&stage)?;
        stage.ask(&server, "claude-sonnet-5-5", &["--forbid-cache-break"])?.finish()?;
        server.assert_no_failures();
        let requests = server.requests();
        ensure!(requests.len() == TRIPS + 1, "{} requests instead of {}", requests.len(), TRIPS + 1);
        sent = requests.last().map_or(0, |request| request.body.len());
        let server = start(&stage)?;
        let mut client = Client::connect(server.url())?;
        for request in &requests {
            client.ask(&request.body)?;
        }
        let resent = server.requests();
        for (span, range) in [(&mut early, EARLY), (&mut late, LATE)] {
            for trip in range {
                span.ours.push(gap(&requests, trip)?);
                span.resent.push(gap(&resent, trip)?);
                span.written.push(writing(&requests[trip + 1])?);
            }
        }
    }
    let row = |what: &str, ours, floor, at_most_floors| Row {
        what: what.to_owned(),
        unit: "ms",
        ours,
        floor,
        at_most_floors,
        ..Row::default()
    };
    let rows = [
        row(
            "trip 10, answer sent to next request",
            early.ours.quantile(0.5),
            Some(early.resent.quantile(0.5)),
            None,
        ),
        row("trip 500, the same", late.ours.quantile(0.5), Some(late.resent.quantile(0.5)), None),
        row("trip 500, writing its bytes", late.written.quantile(0.5), None, None),
        row("trip 500 against trip 10, less the bytes", late.own(), Some(early.own()), Some(1.5)),
    ];
    let title = format!(
        "context ({TRIPS} Read calls one after the other, the last request of {} kB; floor: a client that only resends the bytes; last line: trip 10)",
        sent / 1000
    );
    table::print(&title, &rows)
}

impl Span {
    /// What is left of our time without the bytes.
    fn own(&self) -> f64 {
        self.ours.quantile(0.5) - self.resent.quantile(0.5) - self.written.quantile(0.5)
    }
}

fn start(stage: &Stage) -> anyhow::Result<Server> {
    let read = |number| turn([call("Read", json!({"file_path": stage.repo.join(&file(number))}))]);
    let mut turns: Vec<Turn> = (0..TRIPS).map(read).collect();
    turns.push(turn([say("Done.")]));
    Ok(Server::start_with(Script { model: None, turns }, Options::default())?)
}

fn gap(requests: &[Recorded], trip: usize) -> anyhow::Result<Duration> {
    let answered = requests[trip].answered.context("an answer was not sent")?;
    Ok(requests[trip + 1].arrived_complete.saturating_duration_since(answered))
}

/// How long it takes to write a request from memory.
fn writing(request: &Recorded) -> anyhow::Result<Duration> {
    let body = request.body_json();
    // By then the program has done other things, and its nearest cache holds those.
    std::hint::black_box(vec![1u8; NEAREST_CACHE]);
    let began = Instant::now();
    let bytes = serde_json::to_vec(&body)?;
    let took = began.elapsed();
    ensure!(bytes.len() == request.body.len(), "the same request became other bytes");
    Ok(took)
}

fn file(number: usize) -> String {
    format!("src/part_{number}.rs")
}

fn source(number: usize) -> String {
    let mut text = String::new();
    for line in 0..30 {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "pub fn step_{number}_{line}(input: usize) -> usize {{ input + {line} }}");
    }
    text
}
