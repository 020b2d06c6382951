//! The prompt of a one-shot run: the words on the command line, and what is piped in.

use crate::{complain, machine::Machine, session::one_line};
use anyhow::{Context, bail};
use ostler_engine::session::Loaded;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// More than this is not a prompt but a file to point at.
const MOST_PIPED: u64 = 10 << 20;

/// How long a pipe may stay silent when there are words already.
const PATIENCE: Duration = Duration::from_secs(3);

/// Puts the prompt together.
pub(crate) async fn read(words: Option<&str>, machine: &Machine) -> anyhow::Result<String> {
    let piped = if machine.terminals.stdin { String::new() } else { read_pipe(words.is_some()).await? };
    let words = words.map(str::trim).unwrap_or_default();
    match (words.is_empty(), piped.trim().is_empty()) {
        (false, true) => Ok(words.to_owned()),
        (true, false) => Ok(piped),
        (false, false) => Ok(format!("{words}\n\n{piped}")),
        (true, true) => {
            bail!("nothing to do: give a prompt, e.g. ostler -p \"explain this project\", or pipe one in")
        }
    }
}

/// Asks the person at the terminal how to go on with a session.
pub(crate) fn ask(loaded: &Loaded) -> anyhow::Result<String> {
    let last = loaded.state.prompts().last().map_or("(nothing)", |(_, words)| words);
    complain(&format!("session {}\nsaid last: {}\nwhat next? ", loaded.id, one_line(last)));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("cannot read the answer")?;
    match line.trim() {
        "" => bail!("nothing was said, and the session stays as it is"),
        words => Ok(words.to_owned()),
    }
}

async fn read_pipe(have_words: bool) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let mut stdin = tokio::io::stdin().take(MOST_PIPED + 1);
    let first = stdin.read_buf(&mut bytes);
    if have_words {
        let Ok(read) = tokio::time::timeout(PATIENCE, first).await else {
            complain(
                "ostler: nothing came from stdin for 3 s, going on without it (use < /dev/null to say so)\n",
            );
            return Ok(String::new());
        };
        read.context("cannot read stdin")?;
    } else {
        first.await.context("cannot read stdin")?;
    }
    stdin.read_to_end(&mut bytes).await.context("cannot read stdin")?;
    if bytes.len() as u64 > MOST_PIPED {
        bail!("stdin holds more than 10 MB; save it to a file and name the file in the prompt");
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
