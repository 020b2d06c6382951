//! A batch of replacements in one file, worked out on its content and put in place: what `Edit` and
//! `MultiEdit` share. Only lines the model has seen as they are now may be touched, and either all
//! replacements happen or none.

use super::{
    EditNeeds, MAX_WHOLE,
    diff::{Diff, diff, diff_at},
    draft::{Draft, Ends, column, line_of, visible},
    index::Index,
    matching::{By, Found, find, overlaps_itself},
    near::near_misses,
    search::{is_file, missing},
    shown,
    snippet::{line_end, line_start, snippet},
    source::Source,
};
use crate::{
    PlanContext,
    host::{
        Content, Edited, Expected, Hash, HostError, Lines, Replacement, Standing, Version, blocking,
        read_opened,
    },
};
use memchr::memchr_iter;
use ostler_proto::{Json, PathFact, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, ops::Range, path::Path, sync::Arc};

/// How many of the places found are named.
const MAX_PLACES: usize = 20;
/// From how many steps on a text of how many bytes is searched for all of them at once.
const MANY: usize = 4;
const LONG: usize = 16 * 1024;
/// How many lines around an edit are enough to show and compare it.
const NEAR: usize = 16;

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
    pub(super) needs: EditNeeds,
    pub(super) cx: PlanContext,
}

/// A job worked out on one content of its file.
pub(super) struct Change {
    expected: Expected,
    content: Content,
    knowledge: Knowledge,
    pub(super) diff: Diff,
    /// The changed parts as they read now, numbered.
    pub(super) snippet: String,
    /// In how many places something is replaced.
    pub(super) places: usize,
}

/// What a change means for what the model knows.
enum Knowledge {
    /// All lines of the file are its own.
    New { lines: usize },
    /// What it has seen moves: for each step, what gave way to what.
    Edit { original: Arc<String>, edits: Vec<Vec<Edited>> },
}

/// The steps of a job, worked out on a text.
struct Worked {
    new: New,
    diff: Diff,
    snippet: String,
    places: usize,
    edits: Vec<Vec<Edited>>,
}

/// What is new in a file.
enum New {
    Whole(Vec<u8>),
    /// Other text in the place of some lines.
    Lines(Range<usize>, String),
}

/// The steps of a job, taken.
struct Taken {
    draft: Draft,
    places: usize,
    edits: Vec<Vec<Edited>>,
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
            content: std::mem::replace(&mut change.content, Content::Whole(Vec::new())),
            expected: change.expected.clone(),
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

impl Change {
    /// Whether the file had a text before.
    pub(super) fn is_edit(&self) -> bool {
        matches!(self.knowledge, Knowledge::Edit { .. })
    }

    /// The text before and the difference, as programs get them. They may be long, so they are given away.
    pub(super) fn into_structured(self) -> (Json, Json) {
        drop(self.expected);
        let original = match self.knowledge {
            Knowledge::New { .. } => String::new(),
            // Nobody else holds the text once the file is replaced.
            Knowledge::Edit { original, .. } => Arc::unwrap_or_clone(original),
        };
        (original.into(), self.diff.hunks.into())
    }
}

impl Job {
    /// Reads the file and works the steps out.
    pub(super) async fn change(self: &Arc<Self>) -> Result<Change, ToolError> {
        let job = Arc::clone(self);
        let (host, target) = (&self.cx.host, &self.fact.target);
        // What the model has never seen is not even opened.
        if self.cx.files.version(target).is_none() && is_file(host.as_ref(), target).await? {
            return Err(self.unread());
        }
        let opening = host.open(target);
        let changed = blocking(move || -> Result<Result<Change, ToolError>, HostError> {
            let (_, bytes) = match opening() {
                Err(HostError::Missing(_)) if job.creates() => return Ok(job.create()),
                opened => read_opened(opened?, job.fact.target.clone(), MAX_WHOLE)?,
            };
            Ok(job.edit(bytes))
        });
        match changed.await {
            Err(HostError::Missing(_)) => Err(missing(&self.fact, &self.cx).await),
            changed => changed?,
        }
    }

    /// Whether the first step makes a new file.
    fn creates(&self) -> bool {
        self.steps.first().is_some_and(|first| first.old_string.is_empty())
    }

    fn record(&self, change: &Change, version: Version) {
        let (files, target) = (&self.cx.files, &self.fact.target);
        match &change.knowledge {
            Knowledge::New { lines } => files.record_written(target, version, *lines),
            Knowledge::Edit { edits, .. } => {
                for edits in edits {
                    files.record_edited(target, version, edits);
                }
            }
        }
    }

    /// Works out a new file: the first step gives its content.
    fn create(&self) -> Result<Change, ToolError> {
        let [first, rest @ ..] = self.steps.as_slice() else {
            return Err(ToolError::Failed(format!("there are no edits for {}", self.path())));
        };
        if first.new_string.is_empty() && !rest.is_empty() {
            return Err(self.failed(0, &Problem::Nothing));
        }
        let start = || self.draft(&first.new_string);
        let Taken { draft, places, .. } = self.take(start, 1, Lines::first(line_count(&first.new_string)))?;
        let snippet = snippet(&draft);
        let text = draft.into_raw();
        Ok(Change {
            expected: Expected::Absent,
            knowledge: Knowledge::New { lines: line_count(&text) },
            diff: diff(&self.name(), "", &text),
            snippet,
            places: places + 1,
            content: Content::Whole(text.into_bytes()),
        })
    }

    fn edit(&self, bytes: Vec<u8>) -> Result<Change, ToolError> {
        let hash = blake3::hash(&bytes);
        let seen = self.seen(hash)?;
        let source = Source::decode(bytes).map_err(|reason| self.refused(&reason))?;
        if let Some(first) = self.steps.first().filter(|first| first.old_string.is_empty()) {
            return self.fill(first, Expected::Content(hash), &source);
        }
        self.check_whole(&seen, source.text())?;
        let worked = match self.window(&source) {
            // A single small edit has to do with a few lines only.
            Some(lines) => self.edit_lines(source.text(), lines, seen)?,
            None => self.edit_whole(&source, seen)?,
        };
        let Worked { new, diff, snippet, places, edits } = worked;
        let (start, is_as_written) = (source.start(), source.is_as_written());
        let original = Arc::new(source.into_raw());
        let text = Arc::clone(&original);
        let content = match new {
            New::Whole(bytes) => Content::Whole(bytes),
            New::Lines(lines, new) => {
                let part = start + lines.start..start + lines.end;
                Content::Spliced { text: Arc::clone(&text), part, new }
            }
        };
        let expected = if is_as_written { Expected::Text { hash, text } } else { Expected::Content(hash) };
        Ok(Change {
            expected,
            content,
            knowledge: Knowledge::Edit { original, edits },
            diff,
            snippet,
            places,
        })
    }

    /// The lines around the only place that a single edit of a long text changes.
    fn window(&self, source: &Source) -> Option<Range<usize>> {
        let ([step], text) = (self.steps.as_slice(), source.text()) else { return None };
        if text.len() < LONG || !source.is_as_written() || step.old_string.contains('\r') {
            return None;
        }
        // A text within a line reads the same however the lines end.
        let old = if step.old_string.contains('\n') {
            Ends::alike(text, self.wanted())?.spelled(&step.old_string)
        } else {
            Cow::Borrowed(step.old_string.as_str())
        };
        let found = find(text, &old);
        match (found.ranges.as_slice(), found.by) {
            ([only], By::Text) if !overlaps_itself(text, only) => {
                Some(line_start(text, only.start, NEAR)..line_end(text, only.end, NEAR))
            }
            (_, By::Text | By::Quotes) => None,
        }
    }

    fn edit_lines(&self, text: &str, lines: Range<usize>, seen: Lines) -> Result<Worked, ToolError> {
        let start = || Draft::of_lines(text, lines.clone(), self.wanted());
        let Taken { draft, places, edits } = self.take(start, 0, seen)?;
        let diff = diff_at(&self.name(), &draft.text_of(&text[lines.clone()]), &draft);
        let snippet = snippet(&draft);
        Ok(Worked { new: New::Lines(lines, draft.into_raw()), diff, snippet, places, edits })
    }

    fn edit_whole(&self, source: &Source, seen: Lines) -> Result<Worked, ToolError> {
        let Taken { draft, places, edits } = self.take(|| self.draft(source.text()), 0, seen)?;
        let diff = diff_at(&self.name(), &draft.text_of(source.text()), &draft);
        let snippet = snippet(&draft);
        let edited = draft.into_raw();
        if edited == source.text() {
            return Err(ToolError::Failed(format!(
                "the edits of {} undo each other: nothing would change",
                self.path()
            )));
        }
        let bytes = source.encode(edited).map_err(|reason| self.refused(&reason))?;
        Ok(Worked { new: New::Whole(bytes), diff, snippet, places, edits })
    }

    fn refused(&self, reason: &str) -> ToolError {
        ToolError::Failed(format!("{} cannot be edited: {reason}", self.path()))
    }

    /// Works out the first content of an empty file, which then is known as a whole, like a new one.
    fn fill(&self, first: &Step, expected: Expected, source: &Source) -> Result<Change, ToolError> {
        if !source.text().is_empty() {
            return Err(self.failed(0, &Problem::Creates));
        }
        let change = self.create()?;
        if first.new_string.is_empty() {
            return Err(self.failed(0, &Problem::Nothing));
        }
        let text: Vec<u8> = change.content.slices().concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let bytes = source.encode(text).map_err(|reason| self.refused(&reason))?;
        Ok(Change { expected, content: Content::Whole(bytes), ..change })
    }

    fn draft(&self, raw: &str) -> Draft {
        Draft::new(raw, self.wanted())
    }

    /// All that is looked for or put in.
    fn wanted(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().flat_map(|step| [step.old_string.as_str(), step.new_string.as_str()])
    }

    /// The lines of this content that the model has seen.
    fn seen(&self, hash: Hash) -> Result<Lines, ToolError> {
        let path = self.path();
        match self.cx.files.standing(&self.fact.target, hash) {
            Standing::Current(lines) => Ok(lines),
            Standing::Unseen => Err(self.unread()),
            Standing::Changed => Err(ToolError::Failed(format!(
                "{path} changed on disk since it was read; read it again first"
            ))),
        }
    }

    /// Where the settings demand it, makes sure that all lines were seen.
    fn check_whole(&self, seen: &Lines, text: &str) -> Result<(), ToolError> {
        let total = match self.needs {
            EditNeeds::TouchedLines => return Ok(()),
            EditNeeds::WholeFile => line_count(text),
        };
        if seen.cover(&(0..total)) {
            return Ok(());
        }
        Err(ToolError::Failed(format!(
            "{} (the setting requireFullRead demands that a file is read as a whole before it is edited)",
            partly_read(&self.fact.requested, seen, total)
        )))
    }

    fn unread(&self) -> ToolError {
        ToolError::Failed(format!("{} has not been read; read it before editing it", self.path()))
    }

    /// Takes the steps from `from` on, beginning with the draft that `start` makes.
    fn take(&self, start: impl Fn() -> Draft, from: usize, mut seen: Lines) -> Result<Taken, ToolError> {
        let mut draft = start();
        let (mut places, mut all_edits) = (0, Vec::new());
        let index = self.index(&draft, from);
        for (number, step) in self.steps.iter().enumerate().skip(from) {
            let known = index.as_ref().map(|index| index.places(number - from));
            let edits = match take_step(&mut draft, step, known, &seen) {
                Ok(edits) => edits,
                Err(problem) => {
                    return Err(self.blame(start(), from..number, &problem));
                }
            };
            seen = seen.moved(&edits);
            places += edits.len();
            all_edits.push(edits);
        }
        Ok(Taken { draft, places, edits: all_edits })
    }

    /// Where the steps find their texts, if it is worth looking for all at once.
    fn index(&self, draft: &Draft, from: usize) -> Option<Index> {
        let steps = &self.steps[from..];
        let is_long = steps.len() >= MANY && draft.text().len() >= LONG;
        if !is_long || steps.iter().any(|step| step.old_string.is_empty()) {
            return None;
        }
        let wanted: Vec<Cow<'_, str>> = steps.iter().map(|step| draft.spelled(&step.old_string)).collect();
        let wanted: Vec<&str> = wanted.iter().map(Cow::as_ref).collect();
        Some(Index::of(draft.text(), &wanted))
    }

    /// The error of the step after `earlier`, and whether one of those is behind it.
    fn blame(&self, mut draft: Draft, earlier: Range<usize>, problem: &Problem) -> ToolError {
        let number = earlier.end;
        let (step, error) = (&self.steps[number], self.failed(number, problem));
        // What comes near says less than who is to blame.
        let (bare, what) = match problem {
            Problem::NotFound { .. } => (
                self.failed(number, &Problem::NotFound { near: String::new() }),
                "changed the text it speaks of",
            ),
            Problem::TooMany { .. } | Problem::Miscounted { .. } | Problem::Overlaps { .. } => {
                (error.clone(), "changed in how many places it stands")
            }
            Problem::Nothing | Problem::Creates | Problem::Unseen { .. } => return error,
        };
        if locate(&draft, step, None).is_err() {
            return error;
        }
        for index in earlier {
            if let Ok(found) = locate(&draft, &self.steps[index], None) {
                let new = draft.spelled(&self.steps[index].new_string);
                draft.replace(&found, &new);
            }
            if locate(&draft, step, None).is_err() {
                return ToolError::Failed(format!(
                    "{bare}; it would have matched, but edit {} {what}: join the two, or change their order",
                    index + 1
                ));
            }
        }
        error
    }

    /// Which of several steps an error speaks of.
    fn which(&self, index: usize) -> String {
        match self.steps.len() {
            1 => String::new(),
            count => format!("edit {} of {count} failed and nothing was changed: ", index + 1),
        }
    }

    fn failed(&self, index: usize, problem: &Problem) -> ToolError {
        let path = self.path();
        let which = self.which(index);
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
            Problem::Unseen { lines, seen } => match seen.first_cut(lines) {
                Some(line) => format!(
                    "{which}line {} of {path} is too long and was shown only in part, and this edit goes beyond \
                     that part; read more of it with offset {} and limit 1, or change it with a command",
                    line + 1,
                    line + 1
                ),
                None => format!(
                    "{which}lines {}-{} of {path} have not been read (only {seen}); read them before editing them",
                    lines.start + 1,
                    lines.end
                ),
            },
        })
    }

    fn path(&self) -> impl std::fmt::Display {
        self.fact.requested.display()
    }

    fn name(&self) -> String {
        shown(&self.fact.requested, &self.cx.cwd)
    }
}

/// Where a step would replace something. `places` is where its text stood before anything was
/// changed, if that is known.
fn locate(draft: &Draft, step: &Step, places: Option<&[usize]>) -> Result<Found, Problem> {
    let old = draft.spelled(&step.old_string);
    if old.is_empty() {
        return Err(Problem::Creates);
    }
    if old == draft.spelled(&step.new_string) {
        return Err(Problem::Nothing);
    }
    let text = draft.text();
    let found = match places {
        Some(places) => draft.find(&old, places),
        None => find(text, &old),
    };
    let lines = |found: &Found| found.ranges.iter().map(|range| line_of(text, range.start)).collect();
    match (found.ranges.as_slice(), step.expected_replacements) {
        ([], _) => Err(Problem::NotFound { near: String::new() }),
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

/// Takes one step. Returns what gave way to what, from front to back.
fn take_step(
    draft: &mut Draft,
    step: &Step,
    places: Option<&[usize]>,
    seen: &Lines,
) -> Result<Vec<Edited>, Problem> {
    let found = locate(draft, step, places).map_err(|problem| {
        if let Problem::NotFound { .. } = problem {
            let near = near_misses(&visible(draft.text()), &visible(&step.old_string), seen);
            return Problem::NotFound { near };
        }
        problem
    })?;
    let bytes = draft.text().as_bytes();
    let newlines = |range: Range<usize>| memchr_iter(b'\n', &bytes[range]).count();
    let mut position = found.ranges.first().map_or(0, |first| first.start);
    let mut line = draft.line_at(position);
    for range in &found.ranges {
        line += newlines(position..range.start);
        position = range.start;
        // A newline belongs to the line it ends.
        let lines = line..line + newlines(range.start..range.end - 1) + 1;
        if !seen.cover_text(&lines, column(draft.text(), range.end - 1) + 1) {
            return Err(Problem::Unseen { lines, seen: seen.clone() });
        }
    }
    let new = draft.spelled(&step.new_string);
    Ok(draft.replace(&found, &new))
}

/// Says which lines of a file were not read, and how to read them.
pub(super) fn partly_read(path: &Path, lines: &Lines, total: usize) -> String {
    let path = path.display();
    match lines.first_cut(&(0..total)) {
        Some(line) => format!(
            "line {} of {path} is too long and was shown only in part; read more of it with offset {} and limit 1",
            line + 1,
            line + 1
        ),
        None => format!("of {path} only lines {lines} of {total} were read; read the rest first"),
    }
}

/// Lines as `Read` counts them: what follows a last newline is a line too.
pub(super) fn line_count(text: &str) -> usize {
    memchr_iter(b'\n', text.as_bytes()).count() + 1
}
