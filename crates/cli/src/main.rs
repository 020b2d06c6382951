//! The `ostler` binary: arguments, wiring, choice of frontend. No logic of its own.

mod args;
mod blame;
mod config;
mod context;
mod debug;
mod demo;
mod doctor;
mod hooks;
mod instructions;
mod log;
mod machine;
mod notes;
mod options;
mod permissions;
mod post;
mod prompt;
mod replay;
mod rewind;
mod session;
mod signals;
mod trust;
mod wire;

use args::{Args, ConfigCommand, PermissionsCommand, Subcommand, TrustCommand};
use machine::Machine;
use std::{process::ExitCode, time::Duration};

/// What was built, e.g. `0.1.0`.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() -> ExitCode {
    // Started by ourselves between us and a command: before any thread is, and with no other duty.
    if let Some(code) = ostler_tools::host::enter_warden() {
        return code;
    }
    keep_memory_private();
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
    // A process that is set apart stays so: before any thread is there.
    if let Some(Subcommand::Replay(words)) = &args.command
        && let Err(error) = replay::enter(words)
    {
        return fail(&error);
    }
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

/// Commands that run free share our user: they must not read our keys out of `/proc`. Where that cannot
/// be had, everything else that keeps them apart still holds.
fn keep_memory_private() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
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
        Some(Subcommand::Context(words)) => context::run(&args, words, machine).map(Ended::InOrder),
        Some(Subcommand::Hooks(words)) => hooks::run(&args, words, &machine).await.map(Ended::InOrder),
        Some(Subcommand::Permissions { command }) => match command {
            PermissionsCommand::Explain { call, tool, json } => {
                let (policy, reach) = wire::policy(&args, &machine)?;
                permissions::explain(&machine, (&policy, &reach), tool, call, *json).await?;
                Ok(Ended::InOrder(0))
            }
            PermissionsCommand::Check { jsonl } => {
                let whole = permissions::check(&machine, jsonl).await?;
                Ok(Ended::InOrder(u8::from(!whole)))
            }
        },
        Some(Subcommand::Config { command }) => configure(command, &args, &machine),
        Some(Subcommand::Trust { command }) => {
            match command {
                TrustCommand::Show => trust::show(&machine),
                TrustCommand::Add => trust::add(&machine),
                TrustCommand::Remove => trust::remove(&machine),
                TrustCommand::List => trust::list_all(&machine),
            }?;
            Ok(Ended::InOrder(0))
        }
        Some(Subcommand::Instructions { json, touching }) => {
            instructions::run(&args, &machine, *json, touching).map(|()| Ended::InOrder(0))
        }
        Some(Subcommand::Memory { command }) => {
            notes::run(command, &args, &machine).map(|()| Ended::InOrder(0))
        }
        Some(Subcommand::Debug { filter }) => debug::run(filter).map(Ended::InOrder),
        Some(Subcommand::Session { command }) => {
            session::run(command, &args, &machine).await.map(Ended::InOrder)
        }
        Some(Subcommand::Replay(words)) => replay::run(words, &args, &machine).await,
        Some(Subcommand::Rewind(rewind)) => rewind::run(rewind, &machine).await.map(Ended::InOrder),
        Some(Subcommand::Blame { place }) => blame::run(place, &machine).await.map(Ended::InOrder),
        Some(Subcommand::Checkpoints { upkeep }) => {
            let upkeep = upkeep.clone().unwrap_or(rewind::Upkeep::Stat);
            rewind::upkeep(upkeep, &args, &machine).await.map(Ended::InOrder)
        }
        None => wire::run(args, machine).await,
    }
}

fn configure(command: &ConfigCommand, args: &Args, machine: &Machine) -> anyhow::Result<Ended> {
    match command {
        ConfigCommand::Get { key } => config::get(&wire::settings_in_force(args, machine)?, key),
        ConfigCommand::List => config::list(&wire::settings_in_force(args, machine)?),
        ConfigCommand::Explain { key } => config::explain(&wire::settings_in_force(args, machine)?, key),
        ConfigCommand::Set { key, value, scope } => config::set(machine, *scope, key, Some(value)),
        ConfigCommand::Unset { key, scope } => config::set(machine, *scope, key, None),
        ConfigCommand::Schema => {
            say(&format!("{:#}\n", ostler_proto::Settings::schema()));
            Ok(())
        }
    }?;
    Ok(Ended::InOrder(0))
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
