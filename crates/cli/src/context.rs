//! `ostler context`: what fills a session's context window, read from its log. Nothing is sent or written.

use crate::{args::Args, machine::Machine, say, wire};

/// The words after `ostler context`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ContextArgs {
    /// The session; without it, the newest of this folder
    session: Option<String>,

    /// The model to measure by, instead of the session's
    #[arg(long)]
    model: Option<String>,

    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Shows it.
pub(crate) fn run(args: &Args, words: &ContextArgs, machine: Machine) -> anyhow::Result<u8> {
    let args = Args { resume: words.session.clone(), model: words.model.clone(), ..args.clone() };
    let usage = wire::context_usage(&args, machine)?;
    say(&if words.json { format!("{:#}\n", usage.to_json()) } else { usage.to_text() + "\n" });
    Ok(0)
}
