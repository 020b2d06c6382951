//! Compares `Grep` and `Glob` with the `rg` binary on a generated tree of 50,000 files: by the clock,
//! and by processor time, which says more on a machine that is busy with other things.
//! Run it with `cargo run --release -p ostler-tools --example search_bench [files] [rounds]`.
#![expect(clippy::disallowed_methods, reason = "generates a tree and starts the binary to compare with")]
#![expect(clippy::print_stdout, reason = "prints a table")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use ostler_proto::Json;
use ostler_tools::{
    PlanContext, Progress, ReadPolicy, Registry, RunContext, Sight,
    builtin::all,
    host::{FileState, Local},
};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{runtime::Runtime, sync::mpsc};
use tokio_util::sync::CancellationToken;

/// What is compared: a call, and the same question to `rg`.
struct Case {
    name: &'static str,
    tool: &'static str,
    input: Json,
    rg: &'static [&'static str],
    /// Allowed ratio.
    most: f64,
}

fn cases() -> Vec<Case> {
    let grep = |name, input, rg| Case { name, tool: "Grep", input, rg, most: 1.1 };
    vec![
        grep("rare literal, files", json!({"pattern": "xylophone"}), &["-l", "xylophone"]),
        grep("common literal, files", json!({"pattern": "harbour"}), &["-l", "harbour"]),
        grep(
            "literal, content",
            json!({"pattern": "xylophone", "output_mode": "content", "head_limit": 0}),
            &["-n", "xylophone"],
        ),
        grep(
            "regex, count",
            json!({"pattern": r"\b[a-z]+(bour|dle)\s+\d{3}", "output_mode": "count"}),
            &["-c", r"\b[a-z]+(bour|dle)\s+\d{3}"],
        ),
        grep(
            "ignoring case, type",
            json!({"pattern": "XYLOPHONE", "-i": true, "type": "rust"}),
            &["-l", "-i", "-trust", "XYLOPHONE"],
        ),
        grep("no match", json!({"pattern": "zzzzqqqq"}), &["-l", "zzzzqqqq"]),
        Case {
            name: "**/*.rs",
            tool: "Glob",
            input: json!({"pattern": "**/*.rs"}),
            rg: &["--files", "-g", "**/*.rs"],
            most: 1.2,
        },
        Case {
            name: "src_1/**/*.md",
            tool: "Glob",
            input: json!({"pattern": "**/deep_1*/*.md"}),
            rg: &["--files", "-g", "**/deep_1*/*.md"],
            most: 1.2,
        },
    ]
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|word| word.parse::<usize>().ok());
    let files = arguments.next().unwrap_or(50_000);
    let rounds = arguments.next().unwrap_or(15);
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    let bytes = generate(&root, files);
    println!(
        "{files} files, {:.0} MB, {rounds} rounds: median ms by the clock, mean ms of processor\n",
        bytes as f64 / 1e6
    );
    let runtime = Runtime::new().unwrap();
    let tools = Registry::new(all()).unwrap();
    let no_env = |path: &Path| if path.ends_with(".env") { Sight::Closed } else { Sight::Open };
    let plain = context(&root, ReadPolicy::open());
    let ruled = context(&root, ReadPolicy::new(no_env));
    println!(
        "{:28}{:>24}{:>10}{:>24}{:>6}",
        "", "rg   ours  ratio", "ruled", "cpu: rg   ours  ratio", "most"
    );
    for case in cases() {
        let [mut theirs, mut ours, mut with_rules] = [(); 3].map(|()| Taken::default());
        for round in 0..=rounds {
            let times = [
                timed(Processor::Children, || run_rg(&root, case.rg)),
                timed(Processor::Own, || runtime.block_on(call(&tools, &plain, &case))),
                timed(Processor::Own, || runtime.block_on(call(&tools, &ruled, &case))),
            ];
            // The first round warms the caches.
            if round > 0 {
                [&mut theirs, &mut ours, &mut with_rules]
                    .into_iter()
                    .zip(times)
                    .for_each(|(all, time)| all.add(time));
            }
        }
        let name = format!("{} {}", case.tool, case.name);
        let ([rg, us, ruled], [rg_cpu, our_cpu]) = (
            [&mut theirs, &mut ours, &mut with_rules].map(Taken::median),
            [&theirs, &ours].map(Taken::processor),
        );
        println!(
            "{name:28}{rg:10.1}{us:7.1}{:7.2}{ruled:10.1}{rg_cpu:10.1}{our_cpu:7.1}{:7.2}{:6.1}",
            us / rg,
            our_cpu / rg_cpu,
            case.most
        );
    }
}

/// What several runs took.
#[derive(Default)]
struct Taken {
    clock: Vec<Duration>,
    ticks: u64,
}

/// Whose processor time counts.
#[derive(Clone, Copy)]
enum Processor {
    Own,
    Children,
}

impl Taken {
    fn add(&mut self, (clock, ticks): (Duration, u64)) {
        self.clock.push(clock);
        self.ticks += ticks;
    }

    fn median(&mut self) -> f64 {
        self.clock.sort();
        self.clock[self.clock.len() / 2].as_secs_f64() * 1000.0
    }

    /// Mean milliseconds; the kernel counts in ticks of ten.
    fn processor(&self) -> f64 {
        self.ticks as f64 * 10.0 / self.clock.len() as f64
    }
}

fn timed(whose: Processor, work: impl FnOnce()) -> (Duration, u64) {
    let (start, before) = (Instant::now(), ticks(whose));
    work();
    (start.elapsed(), ticks(whose) - before)
}

/// User and system time so far, from `/proc/self/stat`.
fn ticks(whose: Processor) -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let from = match whose {
        Processor::Own => 11,
        Processor::Children => 13,
    };
    after_name.split_whitespace().skip(from).take(2).map(|number| number.parse::<u64>().unwrap()).sum()
}

fn context(root: &Path, read_policy: ReadPolicy) -> PlanContext {
    PlanContext {
        cwd: root.to_owned(),
        roots: vec![root.to_owned()],
        host: Arc::new(Local::new(PathBuf::from("/nonexistent"), Vec::new())),
        files: Arc::new(FileState::default()),
        read_policy,
        plan_file: None,
    }
}

async fn call(tools: &Registry, cx: &PlanContext, case: &Case) {
    let tool = tools.find(case.tool).unwrap();
    tool.validate(&case.input).unwrap();
    let (tx, _) = mpsc::channel(1);
    let run = RunContext {
        call: "call".into(),
        cancel: CancellationToken::new(),
        progress: Progress::to(tx),
        terms: ostler_tools::host::Terms::default(),
    };
    let output = tool.plan(case.input.clone(), cx).await.unwrap().effect.run(run).await.unwrap();
    assert!(!output.is_error);
}

fn run_rg(root: &Path, arguments: &[&str]) {
    let mut rg = Command::new("rg");
    rg.args(["--no-config", "--no-messages"]).args(arguments).arg("--no-heading");
    if arguments[0] != "--files" {
        rg.arg("./");
    }
    let output = rg.current_dir(root).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.code().is_some_and(|code| code < 2));
}

/// Writes a tree like a large project's: folders three deep, most files small, one folder ignored.
fn generate(root: &Path, files: usize) -> usize {
    const WORDS: [&str; 16] = [
        "harbour", "candle", "let", "value", "return", "stone", "fn", "bundle", "orbit", "match", "loop",
        "handle", "river", "self", "struct", "window",
    ];
    const ENDINGS: [&str; 5] = ["rs", "rs", "md", "json", "txt"];
    std::fs::create_dir_all(root.join(".git")).unwrap();
    std::fs::write(root.join(".gitignore"), "ignored/\n*.log\n").unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut bytes = 0;
    for number in 0..files {
        let top = if number % 50 == 0 { "ignored".to_owned() } else { format!("src_{}", number % 10) };
        let folder = root
            .join(top)
            .join(format!("mid_{}", number / 10 % 20))
            .join(format!("deep_{}", number / 200 % 10));
        if number < 10_000 {
            std::fs::create_dir_all(&folder).unwrap();
        }
        let mut text = String::new();
        for _ in 0..random.usize(5..120) {
            for _ in 0..random.usize(1..9) {
                text.push_str(WORDS[random.usize(..WORDS.len())]);
                text.push(' ');
            }
            text.push_str(&random.u32(..5000).to_string());
            text.push('\n');
        }
        if random.usize(..200) == 0 {
            text.push_str("the xylophone\n");
        }
        bytes += text.len();
        let name = format!("file_{number}.{}", ENDINGS[number / 7 % ENDINGS.len()]);
        std::fs::write(folder.join(name), text).unwrap();
    }
    bytes
}
