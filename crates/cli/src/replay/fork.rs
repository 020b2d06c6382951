//! `ostler replay SESSION --from N`: a new session with the conversation up to prompt N, which is sent again, to another
//! model if one is named. From there on it is a session like any other.

use super::Replay;
use crate::{Ended, args, machine::Machine, rewind, wire};
use anyhow::{Context, bail, ensure};
use ostler_engine::{
    rewind::{Row, find, rows, table},
    session::{Loaded, each_entry, each_line, load},
};
use ostler_proto::{Block, EntryId, Json, SessionEvent};
use std::path::{Path, PathBuf};

/// What was said at a place of a conversation.
struct Said {
    content: Vec<Block>,
    /// The line it followed; none at the very start.
    after: Option<EntryId>,
}

/// Sends a prompt again.
pub(super) async fn run(
    words: &Replay,
    from: &str,
    transcript: &Path,
    machine: &Machine,
) -> anyhow::Result<Ended> {
    let loaded = load(transcript)?;
    let machine = machine.moved_to(folder(transcript)?);
    let prompt = prompt(from, &loaded, &machine)?;
    let said = said(&prompt, transcript)?;
    let args = match args::parse(words_of_session(words, &loaded, &said)) {
        Ok(args) => args,
        Err(wrong) => {
            wrong.print();
            return Ok(Ended::InOrder(1));
        }
    };
    wire::run_prompt(args, machine, said.content).await
}

/// The prompt somebody means, as `ostler rewind` numbers them.
fn prompt(from: &str, loaded: &Loaded, machine: &Machine) -> anyhow::Result<EntryId> {
    let listed = if rewind::place(machine).folder.exists() {
        rewind::open(machine)?.checkpoints(&loaded.id)?
    } else {
        Vec::new()
    };
    let rows = rows(listed, &loaded.state);
    match find(&rows, from) {
        Some(Row { prompt: Some(prompt), is_said: true, .. }) => Ok(prompt.clone()),
        Some(_) => bail!("prompt '{from}' is no longer part of the conversation {}", loaded.id),
        None => bail!("session {} has no prompt '{from}'; it has\n{}", loaded.id, table(&rows)),
    }
}

fn said(prompt: &EntryId, transcript: &Path) -> anyhow::Result<Said> {
    let mut said = None;
    each_entry(transcript, |entry| {
        if let (true, SessionEvent::Prompted { content, .. }) = (entry.id == *prompt, entry.event) {
            said = Some(Said { content, after: entry.parent });
        }
    })?;
    said.with_context(|| format!("prompt {prompt} cannot be found in {}", transcript.display()))
}

/// The folder that the session began in.
fn folder(transcript: &Path) -> anyhow::Result<PathBuf> {
    let mut folder = None;
    each_line(transcript, |line| {
        if folder.is_none() {
            let line: Option<Json> = serde_json::from_str(line).ok();
            folder = line.and_then(|line| Some(PathBuf::from(line.get("cwd")?.as_str()?)));
        }
    })?;
    let folder = folder.with_context(|| format!("{} names no folder", transcript.display()))?;
    ensure!(folder.is_dir(), "the session was in {}, which is gone", folder.display());
    Ok(folder)
}

fn words_of_session(words: &Replay, loaded: &Loaded, said: &Said) -> Vec<String> {
    let mut all = vec!["ostler".to_owned(), "--print".to_owned()];
    let mut add = |flag: &str, value: &str| all.extend([flag.to_owned(), value.to_owned()]);
    if let Some(line) = &said.after {
        add("--resume", loaded.id.as_str());
        add("--resume-session-at", line.as_str());
    }
    if let Some(model) = words.model.as_deref().or(loaded.state.model.as_deref()) {
        add("--model", model);
    }
    if let Some(format) = &words.output_format {
        add("--output-format", format);
    }
    all.extend(said.after.is_some().then(|| "--fork-session".to_owned()));
    let is_stream = words.output_format.as_deref() == Some("stream-json");
    all.extend((words.verbose || is_stream).then(|| "--verbose".to_owned()));
    all.extend(words.more.iter().cloned());
    all
}
