//! `ostler-testkit`: the scripted model as a program, for any client.
//! Arguments, printing and the file of requests; the server itself is the library's.
#![expect(clippy::print_stderr, reason = "a program speaks to its user")]

use anyhow::{Context as _, bail};
use ostler_testkit::{AtEnd, EXAMPLE, Options, Recorded, Server, load};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

const USAGE: &str = "\
A scripted model on loopback: Anthropic Messages, OpenAI Chat Completions and OpenAI Responses.

usage: ostler-testkit serve SCRIPT.toml [--port N] [--log REQUESTS.jsonl] [--cwd DIR] [--loop]
       ostler-testkit example

serve     answers requests with the script's turns until killed
  --port  listens on this port instead of any free one
  --log   writes each request, once answered, as one line of JSON
  --cwd   is what {{cwd}} in the script stands for
  --loop  starts the script again at its end instead of refusing
example   prints a script that shows everything a script can do";

/// What the user asked for.
enum Task {
    Help,
    Example,
    Serve(Serving),
}

struct Serving {
    script: PathBuf,
    options: Options,
    log: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(std::env::args_os().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ostler-testkit: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    match parse(arguments)? {
        Task::Help => tell(USAGE),
        Task::Example => tell(EXAMPLE.trim_end()),
        Task::Serve(serving) => serve(serving)?,
    }
    Ok(())
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> anyhow::Result<Task> {
    match arguments.next().as_deref().and_then(|argument| argument.to_str()) {
        Some("serve") => {}
        Some("example") => return Ok(Task::Example),
        Some("help" | "--help" | "-h") => return Ok(Task::Help),
        Some(other) => bail!("there is no {other:?}\n\n{USAGE}"),
        None => bail!("nothing to do\n\n{USAGE}"),
    }
    let (mut script, mut log, mut options) = (None, None, Options::default());
    while let Some(argument) = arguments.next() {
        let mut value = |name: &str| arguments.next().with_context(|| format!("{name} needs a value"));
        match argument.to_str() {
            Some("--port") => {
                let port = value("--port")?;
                let number = port.to_str().and_then(|port| port.parse().ok());
                options.port = number.with_context(|| format!("--port {}: not a port", port.display()))?;
            }
            Some("--log") => log = Some(PathBuf::from(value("--log")?)),
            Some("--cwd") => options.cwd = Some(PathBuf::from(value("--cwd")?)),
            Some("--loop") => options.at_end = AtEnd::StartAgain,
            Some("--help" | "-h") => return Ok(Task::Help),
            Some(flag) if flag.starts_with("--") => bail!("there is no {flag}\n\n{USAGE}"),
            _ if script.is_some() => bail!("more than one script: {}", argument.display()),
            _ => script = Some(PathBuf::from(argument)),
        }
    }
    let script = script.context("serve needs a script (ostler-testkit example prints one)")?;
    Ok(Task::Serve(Serving { script, options, log }))
}

fn serve(serving: Serving) -> anyhow::Result<()> {
    let script = load(&serving.script)?;
    let mut log = serving.log.as_deref().map(open_log).transpose()?;
    let port = serving.options.port;
    let server = Server::start_with(script, serving.options)
        .with_context(|| format!("cannot listen on port {port} of 127.0.0.1"))?;
    tell(&format!("ANTHROPIC_BASE_URL={}\nOPENAI_BASE_URL={}", server.url(), server.openai_url()));
    let started = Instant::now();
    let (mut announced, mut over) = (0, BTreeSet::new());
    let mut failed: Option<io::Error> = None;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(server.wait_until(|requests| {
        for (index, request) in requests.iter().enumerate() {
            if request.ended.is_none() || !over.insert(index) {
                continue;
            }
            if let Some(problem) = &request.problem {
                tell(&format!("{} was refused: {problem}", index + 1));
            }
            if let Some(log) = &mut log {
                failed = failed.take().or(writeln!(log, "{}", entry(index + 1, request, started)).err());
            }
        }
        for (index, request) in requests.iter().enumerate().skip(announced) {
            tell(&line(index + 1, request));
            announced = index + 1;
        }
        failed.is_some()
    }));
    match failed {
        Some(error) => Err(error).context("cannot write the log of requests"),
        None => Ok(()),
    }
}

fn tell(line: &str) {
    // Whoever read the address may have stopped reading; the server goes on.
    let _ = writeln!(io::stdout(), "{line}");
}

#[expect(clippy::disallowed_types, reason = "the log is a file the user names, appended line by line")]
fn open_log(path: &Path) -> anyhow::Result<std::fs::File> {
    let opened: io::Result<_> = std::fs::File::create(path);
    opened.with_context(|| format!("cannot write {}", path.display()))
}

fn line(number: usize, request: &Recorded) -> String {
    let Recorded { method, path, connection, .. } = request;
    let answered = match request.turn {
        Some(turn) => format!("turn {}", turn + 1),
        None => "no turn".to_owned(),
    };
    let body = request.body_json();
    let messages = body["messages"].as_array().or(body["input"].as_array()).map_or(0, Vec::len);
    let size = request.body.len();
    format!(
        "{number} {method} {path}: {answered} ({messages} messages, {size} bytes, connection {connection})"
    )
}

fn entry(number: usize, request: &Recorded, started: Instant) -> Value {
    let milliseconds = |at: Instant| at.saturating_duration_since(started).as_secs_f64() * 1000.0;
    let headers = request.headers.iter().map(|(name, value)| {
        let secret = matches!(name.as_str(), "authorization" | "x-api-key" | "api-key");
        (name.clone(), json!(if secret { "…" } else { value }))
    });
    let marks = request.marks.iter().map(|mark| json!({"step": mark.step, "ms": milliseconds(mark.at)}));
    json!({
        "number": number,
        "connection": request.connection,
        "method": request.method,
        "path": request.path,
        "headers": headers.collect::<serde_json::Map<_, _>>(),
        "turn": request.turn.map(|turn| turn + 1),
        "problem": request.problem,
        "status": request.status,
        "ended": request.ended.map(|ended| format!("{ended:?}")),
        "arrived_ms": milliseconds(request.arrived),
        "arrived_complete_ms": milliseconds(request.arrived_complete),
        "first_byte_ms": request.first_byte_sent.map(milliseconds),
        "answered_ms": request.answered.map(milliseconds),
        "marks": marks.collect::<Vec<_>>(),
        "body": request.body_json(),
    })
}
