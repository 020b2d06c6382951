//! Whether a tool runs while the answer still streams: how soon after its last input byte it starts,
//! and whether stream and tool together take longer than the longer of the two. Reports only.
#![expect(clippy::disallowed_methods, reason = "the tool reports wall time, which is mapped to ours")]

#[path = "shared/stage.rs"]
mod stage;
#[path = "shared/table.rs"]
mod table;

use anyhow::{Context, ensure};
use ostler_proto::script::{Script, Step};
use ostler_testkit::{Options, Server, say, turn};
use serde_json::json;
use stage::Stage;
use std::{
    fs,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use table::{Row, Samples};

/// The input of the call is spread over this.
const CALL_MS: u64 = 200;
const TOOL: Duration = Duration::from_secs(1);

/// One API: what it is called, and a model that is asked through it.
const APIS: [(&str, &str); 3] =
    [("Messages", "claude-sonnet-4-5"), ("Chat", "chat:scripted"), ("Responses", "openai:scripted")];

/// What was measured over one API, with one length of text after the call.
struct Case {
    name: String,
    model: &'static str,
    text_ms: u64,
    begun: Samples,
    turn: Samples,
    turn_path: Samples,
    process: Samples,
}

/// Maps the clock of other processes to ours.
struct Clock {
    instant: Instant,
    since_epoch: Duration,
}

fn main() -> anyhow::Result<()> {
    let stage = Stage::new(&[("README.md", "A small project.\n")]);
    let mut shell = Samples::default();
    let mut cases: Vec<Case> = Vec::new();
    for (api, model) in APIS {
        for (text_ms, which) in [(2000, "long stream"), (300, "long tool")] {
            let name = format!("{api}, {which}");
            let [begun, turn, turn_path, process] = <[Samples; 4]>::default();
            cases.push(Case { name, model, text_ms, begun, turn, turn_path, process });
        }
    }
    for _ in 0..table::repeats(5) {
        for case in &mut cases {
            shell.push(shell_start(&stage)?);
            case.measure(&stage)?;
        }
    }
    let rows: Vec<Row> = cases.iter().flat_map(|case| case.rows(&shell)).collect();
    table::print(
        "overlap (a Bash call of 1 s, whole at 0.2 s; then text for 2 s or 0.3 s; medians and leasts)\n  \
         floors: a shell started directly; the longer of the two paths",
        &rows,
    )
}

impl Case {
    fn measure(&mut self, stage: &Stage) -> anyhow::Result<()> {
        let stamp = stage.repo.join("started");
        let command = format!("date +%s%N > {}; sleep {}", stamp.display(), TOOL.as_secs());
        let tool = Step::Call {
            call: "Bash".to_owned(),
            input: json!({"command": command, "description": "Wait a second"}),
            raw: None,
            id: None,
            over_ms: CALL_MS,
            pieces: 0,
        };
        let text = Step::Text { text: "And so on. ".repeat(100), over_ms: self.text_ms, pieces: 0 };
        let script = Script { model: None, turns: vec![turn([tool, text]), turn([say("Done.")])] };
        let server = Server::start_with(script, Options::default())?;
        let clock = Clock::look()?;
        let process = stage.ask(&server, self.model, &["--allowedTools", "Bash"])?.finish()?;
        server.assert_no_failures();
        let requests = server.requests();
        ensure!(requests.len() == 2, "{} requests instead of 2", requests.len());
        let whole_call = requests[0].step_sent(0).context("the call was not sent")?;
        let sent = requests[0].answered.context("the answer was not sent")?;
        let longer_path = sent.max(whole_call + TOOL) - requests[0].arrived_complete;
        self.begun.push(clock.read(&stamp)?.saturating_duration_since(whole_call));
        self.turn.push(requests[1].arrived - requests[0].arrived_complete);
        self.turn_path.push(longer_path);
        self.process.push(process);
        Ok(())
    }

    fn rows(&self, shell: &Samples) -> Vec<Row> {
        let row = |what: &str, ours: f64, floor: f64| Row {
            what: format!("{}: {what}", self.name),
            unit: "ms",
            ours,
            floor: Some(floor),
            ..Row::default()
        };
        let begun = |name: &str, share| Row {
            at_most: Some(10.0),
            ..row(
                &format!("call whole to tool start, {name}"),
                self.begun.quantile(share),
                shell.quantile(share),
            )
        };
        let whole = |what: &str, samples: &Samples| Row {
            at_most_floors: Some(1.02),
            ..row(what, samples.quantile(0.5), self.turn_path.quantile(0.5))
        };
        vec![
            begun("median", 0.5),
            begun("least", 0.0),
            whole("request to next request", &self.turn),
            whole("whole process", &self.process),
        ]
    }
}

impl Clock {
    fn look() -> anyhow::Result<Self> {
        let instant = Instant::now();
        Ok(Self { instant, since_epoch: SystemTime::now().duration_since(UNIX_EPOCH)? })
    }

    /// When the tool wrote its stamp.
    fn read(&self, stamp: &Path) -> anyhow::Result<Instant> {
        let text = fs::read_to_string(stamp).context("the tool left no stamp")?;
        let since_epoch = Duration::from_nanos(text.trim().parse().context("the tool's stamp")?);
        fs::remove_file(stamp)?;
        Ok(self.instant + since_epoch.saturating_sub(self.since_epoch))
    }
}

/// How long a shell takes to write its stamp when nothing stands before it.
fn shell_start(stage: &Stage) -> anyhow::Result<Duration> {
    let stamp = stage.repo.join("started");
    let clock = Clock::look()?;
    let run = stage.start("bash", &["-c", &format!("date +%s%N > {}", stamp.display())], &[])?;
    let began = run.began;
    run.finish()?;
    Ok(clock.read(&stamp)?.saturating_duration_since(began))
}
