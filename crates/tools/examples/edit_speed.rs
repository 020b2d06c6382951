//! Measures edits of a file of 1 MB through the whole contract against a plain write, sync and rename
//! of the same bytes: `edit_speed [rounds]`. The ways take turns in every round, and medians are told.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures what the tools do beside them"
)]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "it is run by hand and read by people")]

use ostler_proto::Json;
use ostler_tools::{
    PlanContext, Progress, ReadPolicy, Registry, RunContext,
    builtin::all,
    host::{FileState, Local, Version},
};
use serde_json::json;
use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tokio_util::sync::CancellationToken;

const LINES: usize = 20_000;
const EDITED: &str = "f";

/// Whether a plain write also makes the name last, as the tools do.
#[derive(Clone, Copy)]
enum Folder {
    Left,
    Synced,
}

/// What one round took, each way.
#[derive(Default)]
struct Times {
    plain: Vec<Duration>,
    plain_synced: Vec<Duration>,
    edit: Vec<Duration>,
    batch: Vec<Duration>,
}

/// A folder with the file in it, which the model has seen.
struct Scene {
    _temp: tempfile::TempDir,
    dir: PathBuf,
    tools: Registry,
    cx: PlanContext,
}

impl Scene {
    fn new(ending: &str) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        let cx = PlanContext {
            cwd: dir.clone(),
            roots: vec![dir.clone()],
            host: Arc::new(Local::new(dir.clone(), Vec::new()).with_journal(dir.join("journal"))),
            files: Arc::new(FileState::default()),
            read_policy: ReadPolicy::open(),
            plan_file: None,
        };
        let text = content(ending);
        std::fs::write(dir.join(EDITED), &text).unwrap();
        let hash = blake3::hash(text.as_bytes());
        let version = Version { hash, size: text.len() as u64, modified: SystemTime::UNIX_EPOCH };
        cx.files.record_written(&dir.join(EDITED), version, LINES + 1);
        Self { _temp: temp, dir, tools: Registry::new(all()).unwrap(), cx }
    }

    /// Everything that happens between a call of the model's and its result.
    async fn call(&self, tool: &str, input: Json) -> Duration {
        let start = Instant::now();
        let tool = self.tools.find(tool).unwrap();
        tool.validate(&input).unwrap();
        let (progress, _) = tokio::sync::mpsc::channel(1);
        let run = RunContext {
            call: "call".into(),
            cancel: CancellationToken::new(),
            progress: Progress::to(progress),
            terms: ostler_tools::host::Terms::default(),
        };
        let output = tool.plan(input, &self.cx).await.unwrap().effect.run(run).await.unwrap();
        let elapsed = start.elapsed();
        drop(output);
        elapsed
    }

    /// What an edit costs at the least.
    fn plain(&self, folder: Folder) -> Duration {
        let bytes = std::fs::read(self.dir.join(EDITED)).unwrap();
        let start = Instant::now();
        let temporary = self.dir.join("temporary");
        let mut file = File::create(&temporary).unwrap();
        file.write_all(&bytes).unwrap();
        file.sync_all().unwrap();
        std::fs::rename(temporary, self.dir.join("plain")).unwrap();
        match folder {
            Folder::Left => {}
            Folder::Synced => File::open(&self.dir).unwrap().sync_all().unwrap(),
        }
        start.elapsed()
    }

    async fn round(&self, round: usize, times: &mut Times) {
        let edit = |line: usize| {
            let named = |round: usize| match round {
                0 => format!("variable_{line:05} ="),
                round => format!("variable_{line:05} = {round} +"),
            };
            json!({"old_string": named(round), "new_string": named(round + 1)})
        };
        let mut one = edit(LINES / 2 + 1);
        one["file_path"] = json!(EDITED);
        let hundred: Vec<Json> = (0..100).map(|place| edit(place * LINES / 100)).collect();
        times.plain.push(self.plain(Folder::Left));
        times.edit.push(self.call("Edit", one).await);
        times.plain_synced.push(self.plain(Folder::Synced));
        times.batch.push(self.call("MultiEdit", json!({"file_path": EDITED, "edits": hundred})).await);
    }
}

#[tokio::main]
async fn main() {
    let rounds: usize = std::env::args().nth(1).map_or(101, |word| word.parse().unwrap());
    for (name, ending) in [("LF", "\n"), ("CRLF", "\r\n")] {
        let scene = Scene::new(ending);
        let mut times = Times::default();
        // The first rounds pay for memory and caches.
        for round in 0..5 {
            scene.round(round, &mut Times::default()).await;
        }
        for round in 5..rounds + 5 {
            scene.round(round, &mut times).await;
        }
        report(name, times, &scene.dir);
    }
}

/// About 50 bytes a line.
fn content(ending: &str) -> String {
    let lines: Vec<String> = (0..LINES)
        .map(|line| format!("let variable_{line:05} = compute(some, arguments);  {ending}"))
        .collect();
    lines.concat()
}

fn report(name: &str, times: Times, dir: &Path) {
    let size = std::fs::metadata(dir.join(EDITED)).unwrap().len();
    let Times { plain, plain_synced, edit, batch } = times;
    let [plain, plain_synced, edit, batch] = [plain, plain_synced, edit, batch].map(median);
    let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
    println!("{name}, {size} bytes, medians:");
    println!("  write, fsync, rename               {plain:.2?}");
    println!("  the same, and fsync of the folder  {plain_synced:.2?}");
    println!(
        "  one Edit                           {edit:.2?} = {:.2} x the first (at most 2), {:.2} x the second",
        ratio(edit, plain),
        ratio(edit, plain_synced)
    );
    println!(
        "  100 edits at once                  {batch:.2?} = {:.2} x one Edit (at most 3)",
        ratio(batch, edit)
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
