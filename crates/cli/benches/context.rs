//! Does a turn late in a long session cost more than one early in it? Measures the time from the end of an answer
//! to the next request at the beginning and at the end of 500 round trips, less what the same HTTP stack needs to
//! send bodies of those sizes that lie ready. Reports and never fails on a number.

#[path = "shared/stage.rs"]
mod stage;
#[path = "shared/table.rs"]
mod table;

use anyhow::{Context, ensure};
use ostler_proto::script::{Script, Turn};
use ostler_testkit::{Options, Recorded, Server, call, say, turn};
use serde_json::json;
use stage::Stage;
use std::{fmt::Write as _, ops::Range, time::Duration};
use table::{Row, Samples};

const TRIPS: usize = 500;
const EARLY: Range<usize> = 5..25;
const LATE: Range<usize> = TRIPS - 20..TRIPS;

/// What is measured over some round trips.
#[derive(Default)]
struct Span {
    ours: Samples,
    /// Sending the same bytes, and nothing else.
    resent: Samples,
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
        resend(&server, &requests)?;
        let resent = server.requests();
        for (span, range) in [(&mut early, EARLY), (&mut late, LATE)] {
            for trip in range {
                span.ours.push(gap(&requests, trip)?);
                span.resent.push(gap(&resent, trip)?);
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
        row("trip 500 against trip 10, less the bytes", late.own(), Some(early.own()), Some(1.5)),
    ];
    let title = format!(
        "context ({TRIPS} Read calls one after the other, the last request of {} kB; floor: the same HTTP stack with ready bodies; last line: trip 10)",
        sent / 1000
    );
    table::print(&title, &rows)
}

impl Span {
    /// What is left of our time without the bytes.
    fn own(&self) -> f64 {
        self.ours.quantile(0.5) - self.resent.quantile(0.5)
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

/// Sends the same bodies over the same HTTP stack, and does nothing else.
fn resend(server: &Server, requests: &[Recorded]) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
        let url = format!("{}/v1/messages", server.url());
        for request in requests {
            let sending = client.post(&url).header("content-type", "application/json");
            let mut response = sending.body(request.body.clone()).send().await?.error_for_status()?;
            while response.chunk().await?.is_some() {}
        }
        Ok(())
    })
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
