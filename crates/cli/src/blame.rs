//! `ostler blame FILE[:LINE]`: which session, agent and call changed each line, or that it was not
//! us. Only reads.

use crate::{machine::Machine, rewind, say};
use anyhow::{Context, ensure};
use ostler_control::checkpoint::{Blame, Kind, Operation, OperationId};
use ostler_engine::rewind::{plain, when};
use ostler_proto::{AgentId, CallId, EntryId, SessionId};
use std::path::{Path, PathBuf};

/// Tells who changed a file, or one line of it.
pub(crate) async fn run(place: &str, machine: &Machine) -> anyhow::Result<u8> {
    let (path, line) = split(place, &machine.cwd)?;
    let here = machine.clone();
    let blame = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || {
            let checkpoints = rewind::open(&here)?;
            // What others did since the last session is seen now, moves of files among it.
            checkpoints.warm(std::slice::from_ref(&here.cwd))?;
            anyhow::Ok(checkpoints.blame(&path)?)
        })
        .await??
    };
    let is_gone = path.symlink_metadata().is_err();
    ensure!(
        !is_gone || !blame.operations.is_empty(),
        "{} does not exist, and no session removed it",
        path.display()
    );
    match line {
        _ if is_gone => say(&format!("{} is not there now\n{}", path.display(), whole(&blame))),
        None => say(&whole(&blame)),
        Some(line) => {
            let found = line.checked_sub(1).and_then(|at| blame.lines.get(at));
            let (text, author) =
                found.with_context(|| format!("{} has {} lines", path.display(), blame.lines.len()))?;
            let author = author.and_then(|id| blame.operation(id));
            say(&format!(
                "{}\n{}\n",
                plain(text.trim_end()),
                author.map_or_else(stranger, |author| described(author, &blame))
            ));
        }
    }
    Ok(0)
}

/// A path that may end in a line number, unless a file has that very name. The file may be gone.
fn split(place: &str, cwd: &Path) -> anyhow::Result<(PathBuf, Option<usize>)> {
    if let Ok(path) = cwd.join(place).canonicalize() {
        return Ok((path, None));
    }
    let numbered = place.rsplit_once(':').and_then(|(name, line)| Some((name, line.parse().ok()?)));
    let (name, line) = numbered.map_or((place, None), |(name, line)| (name, Some(line)));
    let path = cwd.join(name);
    let path = match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(path), _, _) => path,
        (Err(_), Some(folder), Some(name)) => {
            folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).join(name)
        }
        (Err(error), _, _) => return Err(error).with_context(|| format!("cannot find {name}")),
    };
    ensure!(!path.is_dir(), "{} is a folder", path.display());
    Ok((path, line))
}

fn whole(blame: &Blame) -> String {
    let line = |(number, (line, author)): (usize, &(String, Option<OperationId>))| {
        let author = author.and_then(|id| blame.operation(id)).map_or_else(|| "-".to_owned(), short);
        format!("{author:<24} {:>5}  {}", number + 1, plain(line.trim_end_matches(['\n', '\r'])))
    };
    let mut text: Vec<String> = blame.lines.iter().enumerate().map(line).collect();
    if blame.operations.is_empty() {
        text.push(stranger());
    } else {
        text.push(String::new());
        let operations = blame.operations.iter();
        text.extend(
            operations.map(|operation| format!("{:<24} {}", short(operation), described(operation, blame))),
        );
    }
    if blame.is_changed_since {
        text.push("others have changed it since".to_owned());
    }
    text.join("\n") + "\n"
}

fn stranger() -> String {
    "not changed by any session that is on record".to_owned()
}

/// Names an operation in a column.
fn short(operation: &Operation) -> String {
    let session = operation.session.as_ref().map_or("", |id| id.as_str());
    let session: String = session.chars().take(8).collect();
    format!("{session} #{}", operation.id.0)
}

fn described(operation: &Operation, blame: &Blame) -> String {
    let what = match operation.kind {
        Kind::Edit => "edit",
        Kind::Command => "command",
        Kind::Restore => "rewind",
        Kind::Prompt | Kind::Observed => "change",
    };
    let Operation { session, agent, call, prompt, .. } = operation;
    let parts = [
        ("session", session.as_ref().map(SessionId::as_str)),
        ("agent", agent.as_ref().map(AgentId::as_str)),
        ("call", call.as_ref().map(CallId::as_str)),
        ("prompt", prompt.as_ref().map(EntryId::as_str)),
    ];
    let parts = parts.into_iter().filter_map(|(name, value)| Some(format!(", {name} {}", value?)));
    let title = operation.title.as_ref().map(|title| format!(": {}", plain(title))).unwrap_or_default();
    let others = blame.others(operation.id).iter().map(|other| format!(", or session {other}"));
    let others: String = others.collect();
    format!("{} {what}{}{others}{title}", when(operation.made), parts.collect::<String>())
}
