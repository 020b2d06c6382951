//! Measures edits of a file of 1 MB through the whole contract, with everything synced, against a
//! plain write, sync and rename of the same bytes: `edit_speed [rounds]`.
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
    io::Write,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tokio_util::sync::CancellationToken;

const LINES: usize = 20_000;

/// About 50 bytes a line.
fn content(ending: &str) -> String {
    let lines: Vec<String> = (0..LINES)
        .map(|line| format!("let variable_{line:05} = compute(some, arguments);  {ending}"))
        .collect();
    lines.concat()
}

fn plain(dir: &Path, bytes: &[u8]) {
    let temporary = dir.join("temporary");
    let mut file = std::fs::File::create(&temporary).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
    std::fs::rename(temporary, dir.join("plain")).unwrap();
}

async fn call(tools: &Registry, cx: &PlanContext, tool: &str, input: Json) {
    let tool = tools.find(tool).unwrap();
    tool.validate(&input).unwrap();
    let (progress, _) = tokio::sync::mpsc::channel(1);
    let run = RunContext {
        cancel: CancellationToken::new(),
        progress: Progress::to(progress),
        terms: ostler_tools::host::Terms::default(),
    };
    tool.plan(input, cx).await.unwrap().effect.run(run).await.unwrap();
}

/// The time that a quarter of the rounds took at most: other work on the machine only adds.
fn quick(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 4]
}

#[tokio::main]
async fn main() {
    let rounds: usize = std::env::args().nth(1).map_or(31, |word| word.parse().unwrap());
    for (name, ending) in [("LF", "\n")] {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        let cx = PlanContext {
            cwd: dir.clone(),
            roots: vec![dir.clone()],
            host: Arc::new(Local::new(dir.clone(), Vec::new())),
            files: Arc::new(FileState::default()),
            read_policy: ReadPolicy::open(),
        };
        let tools = Registry::new(all()).unwrap();
        let text = content(ending);
        std::fs::write(dir.join("f"), &text).unwrap();
        let hash = blake3::hash(text.as_bytes());
        let version = Version { hash, size: text.len() as u64, modified: SystemTime::UNIX_EPOCH };
        cx.files.record_written(&dir.join("f"), version, LINES + 1);
        let (mut plains, mut edits, mut batches) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds {
            let start = Instant::now();
            if rounds % 2 == 1 {
                plain(&dir, text.as_bytes());
            }
            plains.push(start.elapsed());
            let target = |line: usize, from: usize, to: usize| {
                let named = |round: usize| match round {
                    0 => format!("variable_{line:05} ="),
                    round => format!("variable_{line:05} = {round} +"),
                };
                json!({"old_string": named(from), "new_string": named(to)})
            };
            let mut one = target(LINES / 2 + 1, round, round + 1);
            one["file_path"] = json!("f");
            let start = Instant::now();
            call(&tools, &cx, "Edit", one).await;
            edits.push(start.elapsed());
            let hundred: Vec<Json> = (0..100).map(|n| target(n * LINES / 100, round, round + 1)).collect();
            let start = Instant::now();
            if rounds % 2 == 1 {
                call(&tools, &cx, "MultiEdit", json!({"file_path": "f", "edits": hundred})).await;
            }
            batches.push(start.elapsed());
        }
        let (plain, edit, batch) = (quick(plains), quick(edits), quick(batches));
        println!(
            "{name}: plain {plain:.2?}, edit {edit:.2?} ({:.2}x plain), 100 edits {batch:.2?} ({:.2}x one edit)",
            edit.as_secs_f64() / plain.as_secs_f64(),
            batch.as_secs_f64() / edit.as_secs_f64()
        );
    }
}
