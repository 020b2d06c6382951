//! The debug log: off unless asked for, never on stdout.
#![expect(clippy::disallowed_types, reason = "the debug log is a plain file the user named")]

use crate::{args::Args, machine::Machine};
use anyhow::Context;
use std::{fs::File, sync::Mutex};
use tracing_subscriber::EnvFilter;

/// Starts it if `--debug`, `--debug-file` or `OSTLER_LOG` says so.
pub(crate) fn start(args: &Args, machine: &Machine) -> anyhow::Result<()> {
    let filter = machine.var("OSTLER_LOG");
    if !args.debug && args.debug_file.is_none() && filter.is_none() {
        return Ok(());
    }
    let filter = filter.unwrap_or_else(|| {
        "ostler=debug,ostler_model=debug,ostler_engine=debug,ostler_control=debug,ostler_tools=debug"
            .to_owned()
    });
    let filter =
        EnvFilter::try_new(&filter).with_context(|| format!("OSTLER_LOG: cannot read '{filter}'"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
    match &args.debug_file {
        Some(path) => {
            let file = File::create(path)
                .with_context(|| format!("--debug-file: cannot write {}", path.display()))?;
            builder.with_writer(Mutex::new(file)).init();
        }
        None => builder.with_writer(std::io::stderr).init(),
    }
    Ok(())
}
