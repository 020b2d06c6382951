//! `ostler memory`: the notes that sessions keep about this project. Only looks.

use crate::{
    args::{Args, MemoryCommand},
    machine::Machine,
    say, wire,
};
use anyhow::{Context, anyhow};
use ostler_control::notes::INDEX;
use ostler_serve::visible;
use std::path::Path;

/// Shows notes.
pub(crate) fn run(command: &MemoryCommand, args: &Args, machine: &Machine) -> anyhow::Result<()> {
    let notes = wire::instructions(args, machine)?.and_then(|instructions| instructions.notes);
    let notes = notes.context("no notes are kept here: settings or the environment switch them off")?;
    let now_ms = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default();
    match command {
        MemoryCommand::Path => say(&format!("{}\n", notes.folder().display())),
        MemoryCommand::List => {
            let all = notes.list(now_ms);
            if all.is_empty() {
                say(&format!("there are no notes in {}\n", notes.folder().display()));
            }
            for note in all {
                say(&format!("{}\n", visible(&note.to_string())));
            }
        }
        MemoryCommand::Show { note } => {
            let wanted = note.as_deref().unwrap_or(INDEX);
            let by_name =
                || notes.list(now_ms).into_iter().find(|note| note.name == wanted).map(|note| note.file);
            let is_file = Path::new(wanted).extension().is_some_and(|end| end == "md");
            let file = if is_file { Some(wanted.to_owned()) } else { by_name() };
            let file = file.unwrap_or_else(|| format!("{wanted}.md"));
            let text = notes.read(&file).map_err(|why| anyhow!(why))?;
            text.lines().for_each(|line| say(&format!("{}\n", visible(line))));
        }
    }
    Ok(())
}
