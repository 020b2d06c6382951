//! Says who changed the lines of a file: which call of which session, or that it was not us. It
//! only reads; the versions in the log are compared one after another.

use super::{
    CheckpointError,
    capture::Core,
    lines::text,
    operation::{self, Kind, Logged, Operation, OperationId},
    standing::Standing,
};
use ostler_proto::SessionId;
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
    /// Other sessions that may have made the change of an operation instead.
    pub doubts: BTreeMap<OperationId, Vec<SessionId>>,
    /// Whether the file was changed by others after the last of them.
    pub is_changed_since: bool,
}

impl Blame {
    /// Other sessions that may have made the change of an operation instead.
    pub fn others(&self, id: OperationId) -> &[SessionId] {
        self.doubts.get(&id).map(Vec::as_slice).unwrap_or_default()
    }

    /// The operation a line came with.
    pub fn operation(&self, id: OperationId) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.id == id)
    }
}

/// Lines with the operations they came with.
type Authored = Vec<(String, Option<OperationId>)>;

/// How many names of one file are followed back.
const MOST_NAMES: usize = 16;

pub(super) fn blame(core: &mut Core, path: &Path) -> Result<Blame, CheckpointError> {
    let current = core.transact(|observer, store| observer.look(store, &[path.to_owned()]))?;
    let current = current.into_values().next().map_or(Standing::Absent, |(standing, _)| standing);
    let history = history(core, path)?;
    let text_of = |standing: &Standing| text(&core.store, standing);
    let mut lines = Authored::new();
    let (mut operations, mut doubts) = (BTreeMap::new(), BTreeMap::new());
    let mut last = None;
    let mut is_seen_only = false;
    // A rewind brings a version back, and with it its authors.
    let mut versions: Vec<(Standing, Authored)> = Vec::new();
    for change in history {
        let found = operation::find(core.store.reader(), change.operation);
        let Some(operation) = found.map_err(|error| core.store.failed(error))? else { continue };
        let after = change.after.unwrap_or_else(|| change.before.clone());
        let others = operation::doubts_at(core.store.reader(), operation.id, &change.path);
        let others = others.map_err(|error| core.store.failed(error))?;
        if !others.is_empty() && last.as_ref() == Some(&after) {
            // The same change, as another session has it.
            continue;
        }
        if last.as_ref() != Some(&change.before) {
            lines = carry(&lines, text_of(&change.before)?, None);
        }
        versions.push((change.before, lines.clone()));
        let author = (operation.kind != Kind::Observed).then_some(operation.id);
        let known = versions.iter().rev().find(|(standing, _)| *standing == after);
        lines = match known.filter(|_| operation.kind == Kind::Restore) {
            Some((_, known)) => known.clone(),
            None => carry(&lines, text_of(&after)?, author),
        };
        is_seen_only = author.is_none();
        if !others.is_empty() {
            doubts.insert(operation.id, others);
        }
        if author.is_some() {
            operations.insert(operation.id, operation);
        }
        last = Some(after);
    }
    let is_changed_since =
        !operations.is_empty() && (is_seen_only || last.is_some_and(|last| last != current));
    let lines = carry(&lines, text_of(&current)?, None);
    Ok(Blame { lines, operations: operations.into_values().collect(), doubts, is_changed_since })
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
            Some(born) => source_of(core, born)?,
            None => None,
        };
        match &source {
            Some(Source { standing, .. }) if changes[0].after.as_ref() == Some(standing) => {
                // The move itself changed no line.
                changes.remove(0);
            }
            Some(Source { standing, .. }) => changes[0].before = standing.clone(),
            None => {}
        }
        history.splice(0..0, changes);
        match (source, born) {
            (Some(source), Some(born)) => (path, until) = (source.path, born.operation.0),
            _ => break,
        }
    }
    Ok(history)
}

/// A file that was taken away by the operation that made another one, which is it under a new name.
struct Source {
    path: PathBuf,
    standing: Standing,
}

/// Of how many files it is asked whether they are the one that was moved and changed at once.
const MOST_SOURCES: usize = 100;

/// Where a file came from that an operation made: the one it took away with the same content, or else
/// the one with the most lines in common, if that is half of them.
fn source_of(core: &Core, born: &Logged) -> Result<Option<Source>, CheckpointError> {
    let Some(after) = born.after.as_ref().filter(|after| after.content().is_some()) else { return Ok(None) };
    let gone = operation::changes_of(core.store.reader(), born.operation);
    let gone = gone
        .map_err(|error| core.store.failed(error))?
        .into_iter()
        .filter(|change| change.after == Some(Standing::Absent) && change.before.content().is_some());
    let gone: Vec<Source> =
        gone.map(|change| Source { path: change.path, standing: change.before }).collect();
    if let Some(same) = gone.iter().position(|source| source.standing.content() == after.content()) {
        let path = gone[same].path.clone();
        // A new mode is no new line.
        return Ok(Some(Source { path, standing: after.clone() }));
    }
    let Some(new) = text(&core.store, after)?.filter(|new| new.len() <= LONGEST) else { return Ok(None) };
    let mut best: Option<(f32, Source)> = None;
    for source in gone.into_iter().take(MOST_SOURCES) {
        let Some(old) = text(&core.store, &source.standing)?.filter(|old| old.len() <= LONGEST) else {
            continue;
        };
        let ratio = TextDiff::configure().algorithm(Algorithm::Histogram).diff_lines(&old, &new).ratio();
        if ratio >= 0.5 && best.as_ref().is_none_or(|(most, _)| ratio > *most) {
            best = Some((ratio, source));
        }
    }
    Ok(best.map(|(_, source)| source))
}

/// Longer files are only found by their whole content.
const LONGEST: usize = 1 << 20;

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
