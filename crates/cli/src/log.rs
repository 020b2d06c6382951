//! The debug log: off unless asked for, never on stdout. Nothing reaches it but through `Filtered`, so that it holds
//! no secret that can be told as one, and nothing that acts on the terminal it is read in.
#![expect(clippy::disallowed_types, reason = "the debug log is a plain file the user named")]

use crate::{args::Args, machine::Machine};
use anyhow::Context;
use ostler_proto::content::{Redactor, Sink, clean};
use std::{
    fs::File,
    io::{self, Write},
    sync::Mutex,
};
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
            builder.with_writer(Mutex::new(Filtered::new(file))).init();
        }
        None => builder.with_writer(Mutex::new(Filtered::new(io::stderr()))).init(),
    }
    Ok(())
}

/// Takes out secrets and whatever acts on a terminal. Each event comes in one piece.
struct Filtered<W> {
    inner: W,
    redactor: Redactor,
}

impl<W> Filtered<W> {
    fn new(inner: W) -> Self {
        Self { inner, redactor: Redactor::new() }
    }
}

impl<W: Write> Write for Filtered<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let bare = clean(&text, Sink::Log).text;
        self.inner.write_all(self.redactor.redact(&bare).text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_sequences_stay_out_of_the_log() {
        let mut log = Filtered::new(Vec::new());
        let token = format!("ghp_{}", "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2");
        log.write_all(format!("sent {token}\u{1b}]0;x\u{7}\n").as_bytes()).unwrap();
        assert_eq!(String::from_utf8(log.inner).unwrap(), "sent [redacted:github-token]\n");
    }
}
