//! A batch of replacements in one file, worked out on its content and put in place: what `Edit` and
//! `MultiEdit` share. Only lines the model has seen as they are now may be touched, and either all
//! replacements happen or none.

use super::{
    MAX_WHOLE,
    diff::{Diff, diff, diff_at},
    draft::{Draft, line_of, visible},
    matching::{Found, find, overlaps_itself},
    near::{near_misses, short},
    shown,
    source::Source,
};
use crate::{
    PlanContext,
    host::{Expected, HostError, Lines, Replacement, Standing, Version, blocking, read_opened},
};
use memchr::{memchr, memchr_iter, memrchr};
use ostler_proto::{PathFact, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt::Write, ops::Range, sync::Arc};

/// How much of the changed parts is shown: lines around each, and in all.
const AROUND: usize = 4;
const MAX_SNIPPET: usize = 60;
/// How many of the places found are named.
const MAX_PLACES: usize = 20;

/// One replacement.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// The text to replace, with enough around it to be unique.
    pub(super) old_string: String,
    /// The text to put there.
    pub(super) new_string: String,
    /// Replace every place where the text stands.
    #[serde(default)]
    pub(super) replace_all: bool,
    /// Replace every place, and fail if there are not exactly so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expected_replacements: Option<usize>,
}

/// Replacements in one file, to be made in order.
pub(super) struct Job {
    pub(super) fact: PathFact,
    pub(super) steps: Vec<Step>,
    pub(super) cx: PlanContext,
}

/// A job worked out on one content of its file.
pub(super) struct Change {
    expected: Expected,
    /// The text before; nothing for a new file.
    pub(super) original: Option<String>,
    bytes: Vec<u8>,
    pub(super) diff: Diff,
    /// The changed parts as they read now, numbered.
    pub(super) snippet: String,
    /// In how many places something is replaced.
    pub(super) places: usize,
    /// For each step, the lines it starts on and by how many each place made the file longer.
    moves: Vec<Vec<(usize, isize)>>,
    lines: usize,
}

/// Why a step cannot be taken.
enum Problem {
    Nothing,
    Creates,
    NotFound { near: String },
    TooMany { lines: Vec<usize> },
    Miscounted { found: usize, wanted: usize },
    Overlaps { line: usize },
    Unseen { lines: Range<usize>, seen: Lines },
}

/// Puts the changes of all jobs in place, or none. Earlier calls of the same turn may have changed
/// the files since the changes were planned; then they are worked out anew.
pub(super) async fn apply(jobs: &[Arc<Job>], mut planned: Vec<Change>) -> Result<Vec<Change>, ToolError> {
    let versions = match put(jobs, &mut planned).await {
        Err(HostError::Changed(_)) => {
            planned.clear();
            for job in jobs {
                planned.push(job.change().await?);
            }
            put(jobs, &mut planned).await?
        }
        put => put?,
    };
    for ((job, change), version) in jobs.iter().zip(&planned).zip(versions) {
        job.record(change, version);
    }
    Ok(planned)
}

/// Hands the new contents to the host.
async fn put(jobs: &[Arc<Job>], changes: &mut [Change]) -> Result<Vec<Version>, HostError> {
    let mut replacements: Vec<Replacement> = jobs
        .iter()
        .zip(changes)
        .map(|(job, change)| Replacement {
            target: job.fact.target.clone(),
            bytes: std::mem::take(&mut change.bytes),
            expected: change.expected,
        })
        .collect();
    let Some(job) = jobs.first() else { return Ok(Vec::new()) };
    match (replacements.pop(), replacements.is_empty()) {
        (Some(only), true) => Ok(vec![job.cx.host.replace(only).await?]),
        (last, _) => {
            replacements.extend(last);
            job.cx.host.replace_all(replacements).await
        }
    }
}

impl Job {
    /// Reads the file and works the steps out.
    pub(super) async fn change(self: &Arc<Self>) -> Result<Change, ToolError> {
        let job = Arc::clone(self);
        match self.cx.host.open(&self.fact.target).await {
            Err(HostError::Missing(_)) => blocking(move || job.create()).await,
            Err(error) => Err(error.into()),
            Ok(opened) => {
                blocking(move || {
                    let (_, bytes) = read_opened(opened, job.fact.target.clone(), MAX_WHOLE)?;
                    job.edit(Expected::Content(blake3::hash(&bytes)), bytes)
                })
                .await
            }
        }
    }

    fn record(&self, change: &Change, version: Version) {
        let (files, target) = (&self.cx.files, &self.fact.target);
        if change.original.is_none() {
            files.record_written(target, version, change.lines);
            return;
        }
        for moves in &change.moves {
            files.record_edited(target, version, moves);
        }
    }

    /// Works out a new file: the first step gives its content.
    fn create(&self) -> Result<Change, ToolError> {
        let Some((first, rest)) = self.steps.split_first().filter(|(first, _)| first.old_string.is_empty())
        else {
            return Err(ToolError::Failed(format!("{} does not exist", self.path())));
        };
        if first.new_string.is_empty() && !rest.is_empty() {
            return Err(self.failed(0, &Problem::Nothing));
        }
        let mut draft = Draft::new(&first.new_string);
        let lines = Lines::first(line_count(draft.text()));
        let (places, _) = self.take(&mut draft, 1, lines)?;
        let snippet = snippet(&draft);
        let text = draft.into_raw();
        Ok(Change {
            expected: Expected::Absent,
            original: None,
            diff: diff(&self.name(), "", &text),
            snippet,
            places: places + 1,
            moves: Vec::new(),
            lines: line_count(&text),
            bytes: text.into_bytes(),
        })
    }

    fn edit(&self, expected: Expected, bytes: Vec<u8>) -> Result<Change, ToolError> {
        let seen = self.seen(expected)?;
        let refused =
            |reason: String| ToolError::Failed(format!("{} cannot be edited: {reason}", self.path()));
        let source = Source::decode(bytes).map_err(refused)?;
        let mut draft = Draft::new(source.text());
        let before =
            if draft.is_raw() { Cow::Borrowed(source.text()) } else { draft.text().to_owned().into() };
        let is_filled = self.steps.first().is_some_and(|first| first.old_string.is_empty());
        if is_filled {
            if !source.text().is_empty() {
                return Err(self.failed(0, &Problem::Creates));
            }
            draft.fill(&visible(&self.steps[0].new_string));
        }
        let known = if is_filled { Lines::first(line_count(draft.text())) } else { seen };
        let (places, moves) = self.take(&mut draft, usize::from(is_filled), known)?;
        let diff = diff_at(&self.name(), &before, draft.text(), draft.changed());
        let (snippet, lines) = (snippet(&draft), line_count(draft.text()));
        let edited = draft.into_raw();
        if edited == source.text() {
            return Err(ToolError::Failed(format!(
                "the edits of {} undo each other: nothing would change",
                self.path()
            )));
        }
        let bytes = source.encode(edited).map_err(refused)?;
        Ok(Change {
            expected,
            bytes,
            diff,
            snippet,
            places: places + usize::from(is_filled),
            // A file that was filled is known as a whole, like a new one.
            original: (!is_filled).then(|| source.into_raw()),
            lines,
            moves,
        })
    }

    /// The lines of this content that the model has seen.
    fn seen(&self, expected: Expected) -> Result<Lines, ToolError> {
        let standing = match expected {
            Expected::Absent => Standing::Unseen,
            Expected::Content(hash) => self.cx.files.standing(&self.fact.target, hash),
        };
        let path = self.path();
        match standing {
            Standing::Current(lines) => Ok(lines),
            Standing::Unseen => {
                Err(ToolError::Failed(format!("{path} has not been read; read it before editing it")))
            }
            Standing::Changed => Err(ToolError::Failed(format!(
                "{path} changed on disk since it was read; read it again first"
            ))),
        }
    }

    /// Takes the steps from `from` on. Returns in how many places, and how lines moved.
    #[expect(clippy::type_complexity, reason = "the pair is taken apart at once")]
    fn take(
        &self,
        draft: &mut Draft,
        from: usize,
        mut seen: Lines,
    ) -> Result<(usize, Vec<Vec<(usize, isize)>>), ToolError> {
        let (mut places, mut all_moves) = (0, Vec::new());
        // Needed only to say which of several steps is in the way of another.
        let start = (self.steps.len() > from + 1).then(|| draft.clone());
        for (index, step) in self.steps.iter().enumerate().skip(from) {
            let moves = match take_step(draft, step, &seen) {
                Ok(moves) => moves,
                Err(problem) => {
                    let error = self.failed(index, &problem);
                    return Err(match start {
                        None => error,
                        Some(start) => self.blame(error, start, from..index, &problem),
                    });
                }
            };
            seen = seen.moved(&moves);
            places += moves.len();
            all_moves.push(moves);
        }
        Ok((places, all_moves))
    }

    /// The error of the step after `earlier`, and whether one of those is behind it.
    fn blame(
        &self,
        error: ToolError,
        mut draft: Draft,
        earlier: Range<usize>,
        problem: &Problem,
    ) -> ToolError {
        let what = match problem {
            Problem::NotFound { .. } => "changed the text it speaks of",
            Problem::TooMany { .. } | Problem::Miscounted { .. } | Problem::Overlaps { .. } => {
                "changed in how many places it stands"
            }
            Problem::Nothing | Problem::Creates | Problem::Unseen { .. } => return error,
        };
        let step = &self.steps[earlier.end];
        if locate(&draft, step, None).is_err() {
            return error;
        }
        for index in earlier {
            if let Ok(found) = locate(&draft, &self.steps[index], None) {
                draft.replace(&found, &visible(&self.steps[index].new_string));
            }
            if locate(&draft, step, None).is_err() {
                return ToolError::Failed(format!(
                    "{error}; it would have matched, but edit {} {what}: join the two, or change their order",
                    index + 1
                ));
            }
        }
        error
    }

    fn failed(&self, index: usize, problem: &Problem) -> ToolError {
        let path = self.path();
        let which = match self.steps.len() {
            1 => String::new(),
            count => format!("edit {} of {count} failed and nothing was changed: ", index + 1),
        };
        let numbers = |lines: &[usize]| {
            let named: Vec<String> =
                lines.iter().take(MAX_PLACES).map(|line| (line + 1).to_string()).collect();
            format!("{}{}", named.join(", "), if lines.len() > MAX_PLACES { ", …" } else { "" })
        };
        ToolError::Failed(match problem {
            Problem::Nothing => {
                format!("{which}old_string and new_string are the same: there is nothing to change")
            }
            Problem::Creates => format!("{which}{path} exists; an empty old_string only creates new files"),
            Problem::NotFound { near } => format!("{which}old_string was not found in {path}{near}"),
            Problem::TooMany { lines } => format!(
                "{which}old_string stands {} times in {path}, on lines {}; \
                 add text around it to say which one, or set replace_all",
                lines.len(),
                numbers(lines)
            ),
            Problem::Miscounted { found, wanted } => format!(
                "{which}old_string stands {found} times in {path}, but expected_replacements is {wanted}"
            ),
            Problem::Overlaps { line } => format!(
                "{which}old_string stands more than once in {path}: it overlaps itself on line {}; \
                 add text around it to say which one",
                line + 1
            ),
            Problem::Unseen { lines, seen } => format!(
                "{which}lines {}-{} of {path} have not been read (only {seen}); read them before editing them",
                lines.start + 1,
                lines.end
            ),
        })
    }

    fn path(&self) -> impl std::fmt::Display {
        self.fact.requested.display()
    }

    fn name(&self) -> String {
        shown(&self.fact.requested, &self.cx.cwd)
    }
}

/// Where a step would replace something. Near misses are looked for among the lines seen.
fn locate(draft: &Draft, step: &Step, seen: Option<&Lines>) -> Result<Found, Problem> {
    let old = visible(&step.old_string);
    if old.is_empty() {
        return Err(Problem::Creates);
    }
    if old == visible(&step.new_string) {
        return Err(Problem::Nothing);
    }
    let text = draft.text();
    let found = find(text, &old);
    let lines = |found: &Found| found.ranges.iter().map(|range| line_of(text, range.start)).collect();
    match (found.ranges.as_slice(), step.expected_replacements) {
        ([], _) => {
            let near = seen.map(|seen| near_misses(text, &old, seen)).unwrap_or_default();
            Err(Problem::NotFound { near })
        }
        (ranges, Some(wanted)) if ranges.len() != wanted => {
            Err(Problem::Miscounted { found: ranges.len(), wanted })
        }
        (_, Some(_)) => Ok(found),
        _ if step.replace_all => Ok(found),
        ([only], None) if overlaps_itself(text, only) => {
            Err(Problem::Overlaps { line: line_of(text, only.start) })
        }
        ([_], None) => Ok(found),
        (_, None) => Err(Problem::TooMany { lines: lines(&found) }),
    }
}

/// Takes one step. Returns the line each place starts on and by how many lines it became longer.
fn take_step(draft: &mut Draft, step: &Step, seen: &Lines) -> Result<Vec<(usize, isize)>, Problem> {
    let found = locate(draft, step, Some(seen))?;
    let new = visible(&step.new_string);
    let bytes = draft.text().as_bytes();
    let count = |range: Range<usize>| memchr_iter(b'\n', &bytes[range]).count();
    let added = memchr_iter(b'\n', new.as_bytes()).count();
    let mut moves = Vec::with_capacity(found.ranges.len());
    let mut position = found.ranges.first().map_or(0, |first| first.start);
    let mut line = draft.line_at(position);
    for range in &found.ranges {
        line += count(position..range.start);
        position = range.start;
        let touched = line..line + count(range.start..range.end - 1) + 1;
        if !seen.cover(&touched) {
            return Err(Problem::Unseen { lines: touched, seen: seen.clone() });
        }
        moves.push((line, added.cast_signed() - count(range.clone()).cast_signed()));
    }
    draft.replace(&found, &new);
    Ok(moves)
}

/// Lines as `Read` counts them: what follows a last newline is a line too.
pub(super) fn line_count(text: &str) -> usize {
    memchr_iter(b'\n', text.as_bytes()).count() + 1
}

/// The changed parts, numbered, with some lines around them.
fn snippet(draft: &Draft) -> String {
    let text = draft.text();
    let (mut shown, mut count, mut done) = (String::new(), 0, 0);
    for part in draft.changed() {
        let start = line_start(text, part.new.start).max(done);
        let end = line_end(text, part.new.end);
        if start > done && count > 0 {
            shown.push_str("…\n");
        }
        let number = line_of(text, start);
        let lines =
            text[start..end].strip_suffix('\n').filter(|_| end < text.len()).unwrap_or(&text[start..end]);
        for (index, line) in lines.split('\n').enumerate().filter(|_| start < end) {
            if count == MAX_SNIPPET {
                shown.push('…');
                return shown;
            }
            count += 1;
            // Writing to a string cannot fail.
            let _ = writeln!(shown, "{}\t{}", number + index + 1, short(line));
        }
        done = end;
    }
    shown.truncate(shown.trim_end_matches('\n').len());
    shown
}

/// Where the lines shown before a position start.
fn line_start(text: &str, position: usize) -> usize {
    let mut start = position;
    for _ in 0..=AROUND {
        match memrchr(b'\n', &text.as_bytes()[..start]) {
            Some(newline) => start = newline,
            None => return 0,
        }
    }
    start + 1
}

/// Where the lines shown after a position end.
fn line_end(text: &str, position: usize) -> usize {
    let mut end = position;
    for _ in 0..=AROUND {
        match memchr(b'\n', &text.as_bytes()[end..]) {
            Some(newline) => end += newline + 1,
            None => return text.len(),
        }
    }
    end
}
