//! Says who changed the lines of a file: which call of which session, or that it was not us. It
//! only reads; the versions in the log are compared one after another.

use super::{
    CheckpointError,
    capture::Core,
    index::path_from,
    lines::text,
    operation::{self, Kind, Logged, Operation, OperationId},
    standing::Standing,
};
use rusqlite::params;
use similar::{Algorithm, DiffTag, TextDiff};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Who changed a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Blame {
    /// Each line and the operation it came with; `None` when it was not us.
    pub lines: Vec<(String, Option<OperationId>)>,
    /// The operations that changed the file, oldest first.
    pub operations: Vec<Operation>,
    /// Whether the file was changed by others after the last of them.
    pub is_changed_since: bool,
}

impl Blame {
    /// The operation a line came with.
    pub fn operation(&self, id: OperationId) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.id == id)
    }
}

/// How many names of one file are followed back.
const MOST_NAMES: usize = 16;

pub(super) fn blame(core: &mut Core, path: &Path) -> Result<Blame, CheckpointError> {
    let current = core.transact(|observer, store| observer.look(store, &[path.to_owned()]))?;
    let current = current.into_values().next().map_or(Standing::Absent, |(standing, _)| standing);
    let history = history(core, path)?;
    let text_of = |standing: &Standing| text(&core.store, standing);
    let mut lines: Vec<(String, Option<OperationId>)> = Vec::new();
    let mut operations = BTreeMap::new();
    let mut last = None;
    for change in history {
        let found = operation::find(core.store.reader(), change.operation);
        let Some(operation) = found.map_err(|error| core.store.failed(error))? else { continue };
        let after = change.after.unwrap_or_else(|| change.before.clone());
        if last.as_ref() != Some(&change.before) {
            lines = carry(&lines, text_of(&change.before)?, None);
        }
        let author = (operation.kind != Kind::Observed).then_some(operation.id);
        lines = carry(&lines, text_of(&after)?, author);
        if author.is_some() {
            operations.insert(operation.id, operation);
        }
        last = Some(after);
    }
    let is_changed_since = last.is_some_and(|last| last != current);
    let lines = carry(&lines, text_of(&current)?, None);
    Ok(Blame { lines, operations: operations.into_values().collect(), is_changed_since })
}

/// What happened to a file, oldest first, also while it had another name.
fn history(core: &Core, path: &Path) -> Result<Vec<Logged>, CheckpointError> {
    let failed = |error| core.store.failed(error);
    let mut history: Vec<Logged> = Vec::new();
    let mut path = path.to_owned();
    let mut until = i64::MAX;
    for _ in 0..MOST_NAMES {
        let changes = operation::changes_at(core.store.reader(), &path).map_err(failed)?;
        let mut changes: Vec<Logged> =
            changes.into_iter().filter(|change| change.operation.0 < until).collect();
        // Before it last came into being here, something else had the name.
        let begin = changes.iter().rposition(|change| change.before == Standing::Absent);
        changes.drain(..begin.unwrap_or(0));
        let born = changes.first().filter(|change| change.before == Standing::Absent).cloned();
        let source = match &born {
            Some(born) => renamed_from(core, born).map_err(failed)?,
            None => None,
        };
        if source.is_some() {
            // The move itself changed no line.
            changes.remove(0);
        }
        history.splice(0..0, changes);
        match (source, born) {
            (Some(source), Some(born)) => (path, until) = (source, born.operation.0),
            _ => break,
        }
    }
    Ok(history)
}

/// The name under which the same content was taken away by the same operation.
fn renamed_from(core: &Core, born: &Logged) -> rusqlite::Result<Option<PathBuf>> {
    let Some(content) = born.after.as_ref().and_then(Standing::content) else { return Ok(None) };
    let mut select = core.store.reader().prepare_cached(
        "SELECT path FROM changes WHERE operation = ?1 AND before_kind = 1 AND before_content = ?2 AND after_kind = 0",
    )?;
    let mut rows = select.query(params![born.operation.0, content.as_bytes()])?;
    Ok(match rows.next()? {
        Some(row) => Some(path_from(row.get(0)?)),
        None => None,
    })
}

/// Carries authors over to the next version: lines that stay keep theirs.
fn carry(
    lines: &[(String, Option<OperationId>)],
    next: Option<String>,
    author: Option<OperationId>,
) -> Vec<(String, Option<OperationId>)> {
    // What is not text has no lines.
    let next = next.unwrap_or_default();
    let old: Vec<&str> = lines.iter().map(|(line, _)| line.as_str()).collect();
    let new: Vec<&str> = next.split_inclusive('\n').collect();
    let diff = TextDiff::configure().algorithm(Algorithm::Histogram).diff_slices(&old, &new);
    let mut carried = Vec::with_capacity(new.len());
    for op in diff.ops() {
        let is_equal = op.tag() == DiffTag::Equal;
        for (at, line) in new[op.new_range()].iter().enumerate() {
            let kept = if is_equal { lines[op.old_range().start + at].1 } else { author };
            carried.push(((*line).to_owned(), kept));
        }
    }
    carried
}
