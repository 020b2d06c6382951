//! What a round trip costs beside the model: from the end of an answer to the next request, with a
//! tool run between. Reports and never fails on a number.

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
use std::fmt::Write as _;
use table::{Row, Samples};

const READS: usize = 20;

fn main() -> anyhow::Result<()> {
    let stage = Stage::new(&[]);
    for number in 0..READS {
        stage.repo.write(&file(number), source(number));
    }
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    let mut prompt = Vec::new();
    for _ in 0..table::repeats(10) {
        let server = start(&stage)?;
        stage.ask(&server, "claude-sonnet-4-5", &[])?.finish()?;
        server.assert_no_failures();
        server.assert_append_only();
        let requests = server.requests();
        ensure!(requests.len() == READS + 1, "{} requests instead of {}", requests.len(), READS + 1);
        push_gaps(&mut ours, &requests)?;
        prompt = prompt_rows(&requests[0]);

        // The same bytes again, from a client that has nothing to think about.
        let server = start(&stage)?;
        let mut client = Client::connect(server.url())?;
        for request in &requests {
            client.ask(&request.body)?;
        }
        push_gaps(&mut floor, &server.requests())?;
    }
    let row = |name: &str, share, at_most| Row {
        what: format!("answer sent to next request, {name}"),
        unit: "ms",
        ours: ours.quantile(share),
        floor: Some(floor.quantile(share)),
        at_most,
        ..Row::default()
    };
    let mut rows = vec![row("median", 0.5, Some(3.0)), row("p90", 0.9, Some(3.0)), row("least", 0.0, None)];
    rows.append(&mut prompt);
    let title = format!(
        "turns ({READS} Read calls one after the other; floor: a client that only resends the bytes)"
    );
    table::print(&title, &rows)
}

fn start(stage: &Stage) -> anyhow::Result<Server> {
    let read = |number| turn([call("Read", json!({"file_path": stage.repo.join(&file(number))}))]);
    let mut turns: Vec<Turn> = (0..READS).map(read).collect();
    turns.push(turn([say("Done.")]));
    Ok(Server::start_with(Script { model: None, turns }, Options::default())?)
}

fn push_gaps(samples: &mut Samples, requests: &[Recorded]) -> anyhow::Result<()> {
    for pair in requests.windows(2) {
        let answered = pair[0].answered.context("an answer was not sent")?;
        samples.push(pair[1].arrived_complete.saturating_duration_since(answered));
    }
    Ok(())
}

fn prompt_rows(first: &Recorded) -> Vec<Row> {
    let body = first.body_json();
    let bytes =
        |value: &ostler_proto::Json| u32::try_from(value.to_string().len()).map_or(f64::INFINITY, f64::from);
    let row = |what: &str, ours| Row { what: what.to_owned(), unit: "B", ours, ..Row::default() };
    vec![
        row("system prompt in the first request", bytes(&body["system"])),
        row("tool definitions in the first request", bytes(&body["tools"])),
        row("first request, whole", bytes(&body)),
    ]
}

fn file(number: usize) -> String {
    format!("src/part_{number}.rs")
}

/// Some hundred lines, as a source file has.
fn source(number: usize) -> String {
    let mut text = String::new();
    for line in 0..200 {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "pub fn step_{number}_{line}(input: usize) -> usize {{ input + {line} }}");
    }
    text
}
