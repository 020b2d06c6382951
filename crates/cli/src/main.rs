//! The `ostler` binary: arguments, wiring, choice of frontend. No logic of its own.

mod args;
mod demo;
mod doctor;
mod log;
mod machine;
mod prompt;
mod signals;
mod wire;

use args::{Args, Subcommand};
use machine::Machine;
use std::{process::ExitCode, time::Duration};

/// What was built, e.g. `0.1.0`.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    // Asked for by scripts at every turn: answered before anything else is set up.
    if let [_, word] = words.as_slice()
        && matches!(word.as_str(), "--version" | "-v" | "-V")
    {
        return say_version();
    }
    let args = match args::parse(words) {
        Ok(args) if args.version => return say_version(),
        Ok(args) => args,
        Err(shown) => return shown.print(),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::Error::from(error).context("cannot start")),
    };
    // On a worker beside the agent: talking to it then wakes no other thread.
    let running = runtime.spawn(run(args));
    match runtime.block_on(running).unwrap_or_else(|error| Err(error.into())) {
        Ok(Ended::InOrder(code)) => {
            // A thread may still wait for stdin; nothing else is left.
            runtime.shutdown_background();
            ExitCode::from(code)
        }
        Ok(Ended::ByForce(code)) => {
            // Dropping the runtime drops every task, and with it every process group that still runs.
            runtime.shutdown_timeout(Duration::from_millis(500));
            ExitCode::from(code)
        }
        Err(error) => {
            runtime.shutdown_background();
            fail(&error)
        }
    }
}

fn say_version() -> ExitCode {
    say(&format!("{VERSION} (Ostler)\n"));
    ExitCode::SUCCESS
}

/// How a run ended, with its exit code.
enum Ended {
    /// Nothing is left running.
    InOrder(u8),
    /// Something would not end in time.
    ByForce(u8),
}

async fn run(args: Args) -> anyhow::Result<Ended> {
    let machine = Machine::look()?;
    log::start(&args, &machine)?;
    match &args.command {
        Some(Subcommand::Doctor) => doctor::run(&machine).await.map(Ended::InOrder),
        Some(Subcommand::Demo { keep }) => demo::run(&machine, *keep).await,
        None => wire::run(args, machine).await,
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    complain(&format!("ostler: {error:#}\n"));
    ExitCode::FAILURE
}

/// Writes to stdout; a reader that has gone is no reason to panic.
fn say(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stdout().lock(), text.as_bytes());
}

/// Writes to stderr, likewise.
fn complain(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr().lock(), text.as_bytes());
}
