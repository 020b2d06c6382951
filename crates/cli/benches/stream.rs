//! Whether long answers cost time in proportion: many deltas of text, and tool inputs of growing size
//! in pieces of several sizes. Reports and never fails on a number.
//!
//! The input belongs to a tool that does not exist, so that only streaming, recording and the next
//! request are measured; the last curve writes files for real.
#![expect(clippy::disallowed_methods, reason = "what was written is looked at and removed")]

#[path = "shared/client.rs"]
mod client;
#[path = "shared/stage.rs"]
mod stage;
#[path = "shared/table.rs"]
mod table;

use anyhow::{Context, ensure};
use client::Client;
use ostler_proto::script::{Script, Step, Turn, Wire};
use ostler_testkit::{Options, Server, call, say, turn};
use serde_json::json;
use stage::Stage;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};
use table::{Row, Samples};

/// Sizes of inputs in bytes, each twice the one before.
const SIZES: [usize; 4] = [625_000, 1_250_000, 2_500_000, 5_000_000];
/// Sizes of pieces in bytes, and how many of the sizes are streamed in them: in single bytes each
/// event is a hundred times its content.
const PIECES: [(&str, usize, usize); 4] =
    [("1 B", 1, 2), ("64 B", 64, 4), ("1 KB", 1024, 4), ("64 KB", 65536, 4)];
const DELTAS: [usize; 3] = [10_000, 20_000, 40_000];
/// Events are written together up to this size, so that the server does not set the pace.
const WRITE: usize = 64 * 1024;
const DOUBLING: f64 = 2.2;

/// One answer, streamed again and again.
struct Case {
    name: String,
    words: &'static [&'static str],
    answer: Turn,
    /// The file it should write, and how long that should be.
    written: Option<(PathBuf, usize)>,
    ours: Samples,
    floor: Samples,
}

fn main() -> anyhow::Result<()> {
    let stage = Stage::new(&[("README.md", "A small project.\n")]);
    let plain: &[&str] = &[];
    let partial: &[&str] = &["--output-format", "stream-json", "--verbose", "--include-partial-messages"];
    let mut curves: Vec<Vec<Case>> = vec![
        DELTAS.map(|count| Case::new(format!("{count} text deltas"), plain, text(count))).into(),
        DELTAS.map(|count| Case::new(format!("{count} text deltas, shown"), partial, text(count))).into(),
    ];
    for (name, piece, sizes) in PIECES {
        let case = |&size: &usize| {
            Case::new(format!("{} KB of input in {name}", size / 1000), plain, absorb(size, piece))
        };
        curves.push(SIZES.iter().take(sizes).map(case).collect());
    }
    let write = SIZES.map(|size| {
        let what = format!("{} KB by Write in 1 KB", size / 1000);
        let path = stage.repo.join(&format!("written_{size}"));
        let case = Case::new(what, &["--permission-mode", "acceptEdits"], write(&path, size));
        Case { written: Some((path, size)), ..case }
    });
    curves.push(write.into());
    for _ in 0..table::repeats(5) {
        for case in curves.iter_mut().flatten() {
            case.measure(&stage)?;
        }
    }
    let rows: Vec<Row> = curves.iter().flatten().map(Case::row).collect();
    table::print(
        "stream (first byte of the answer to next request; floor: a client that only reads; medians)",
        &rows,
    )?;
    let rows: Vec<Row> = curves.iter().flat_map(|curve| curve.windows(2)).map(doubling).collect();
    table::print("stream, each size against half of it (floor: the half; leasts)", &rows)
}

impl Case {
    fn new(name: String, words: &'static [&'static str], answer: Turn) -> Self {
        Self { name, words, answer, written: None, ours: Samples::default(), floor: Samples::default() }
    }

    fn measure(&mut self, stage: &Stage) -> anyhow::Result<()> {
        let server = self.serve()?;
        stage.ask(&server, "claude-sonnet-4-5", self.words)?.finish()?;
        server.assert_no_failures();
        let requests = server.requests();
        ensure!(requests.len() == 2, "{} requests instead of 2", requests.len());
        self.ours.push(requests[1].arrived - first_byte(&server)?);
        if let Some((path, size)) = &self.written {
            let length = fs::metadata(path)?.len();
            ensure!(usize::try_from(length)? == *size, "{} has {length} bytes", path.display());
            // Replacing a file that was not read is another matter than writing one.
            fs::remove_file(path)?;
        }
        drop(server);

        let server = self.serve()?;
        Client::connect(server.url())?.ask(br#"{"model":"m","stream":true,"messages":[]}"#)?;
        let read = Instant::now();
        self.floor.push(read - first_byte(&server)?);
        Ok(())
    }

    fn row(&self) -> Row {
        Row {
            what: self.name.clone(),
            unit: "ms",
            ours: self.ours.quantile(0.5),
            floor: Some(self.floor.quantile(0.5)),
            ..Row::default()
        }
    }

    fn serve(&self) -> anyhow::Result<Server> {
        let turns = vec![self.answer.clone(), turn([say("Done.")])];
        Ok(Server::start_with(Script { model: None, turns }, Options::default())?)
    }
}

fn first_byte(server: &Server) -> anyhow::Result<Instant> {
    let first = server.requests().into_iter().next().context("no request came")?;
    first.first_byte_sent.context("nothing was answered")
}

/// Many deltas, each in a write of its own, and a call so that another request follows.
fn text(deltas: usize) -> Turn {
    let text = Step::Text { text: "Some more words. ".repeat(deltas), over_ms: 0, pieces: deltas };
    turn([text, call("Absorb", json!({}))])
}

fn absorb(size: usize, piece: usize) -> Turn {
    streamed("Absorb", json!({"content": content(size)}).to_string(), piece)
}

fn write(path: &Path, size: usize) -> Turn {
    streamed("Write", json!({"file_path": path, "content": content(size)}).to_string(), 1024)
}

fn streamed(tool: &str, input: String, piece: usize) -> Turn {
    let pieces = input.len().div_ceil(piece);
    let call = Step::Call {
        call: tool.to_owned(),
        input: json!({}),
        raw: Some(input),
        id: None,
        over_ms: 0,
        pieces,
    };
    Turn { wire: Some(Wire { split: WRITE, ..Wire::default() }), ..turn([call]) }
}

/// Lines of source, with what JSON must escape.
fn content(size: usize) -> String {
    "    let \"name\" = 'value';\n".chars().cycle().take(size).collect()
}

/// Twice the work should take twice the time.
fn doubling(pair: &[Case]) -> Row {
    Row {
        what: pair[1].name.clone(),
        unit: "ms",
        ours: pair[1].ours.quantile(0.0),
        floor: Some(pair[0].ours.quantile(0.0)),
        at_most_floors: Some(DOUBLING),
        ..Row::default()
    }
}
