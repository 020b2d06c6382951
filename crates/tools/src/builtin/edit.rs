//! `Edit`: replaces an exact piece of a text file. Only lines the model has seen as they are now
//! may be touched, and errors quote no others.

use super::{
    MAX_WHOLE,
    diff::{Diff, diff},
    parse, resolve, shown,
    source::{Source, find_all, visible},
    spec,
    write::{self, Written},
};
use crate::{
    Effect, Plan, PlanContext, Tool,
    host::{Expected, Hash, Lines, Replacement, Standing, Version, blocking, read_whole},
    text,
};
use futures_util::future::BoxFuture;
use ostler_proto::{Access, Intent, Interrupt, Json, PathFact, Preview, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::{ops::Range, sync::Arc};

const DESCRIPTION: &str = "Replaces exact text in a file that was read before. old_string must match the file \
character for character (without line numbers) and stand there only once, unless replace_all is set. \
An empty old_string creates a new file.";

/// How much of the changed part is shown: lines around it, and in all.
const AROUND: usize = 4;
const MAX_SNIPPET: usize = 60;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file; absolute, or relative to the working directory.
    file_path: String,
    /// The text to replace, with enough around it to be unique.
    old_string: String,
    /// The text to put there.
    new_string: String,
    /// Replace every place where the text stands.
    #[serde(default)]
    replace_all: bool,
}

/// The tool.
pub(super) struct Edit {
    spec: ToolSpec,
}

impl Edit {
    pub(super) fn new() -> Self {
        Self { spec: spec::<Input>("Edit", DESCRIPTION, Interrupt::Finish) }
    }
}

impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("Edit", input)?;
            if input.old_string == input.new_string {
                return Err(ToolError::failed(
                    "old_string and new_string are the same: there is nothing to change",
                ));
            }
            let fact = resolve(&input.file_path, cx).await?;
            let path = fact.requested.display();
            match (input.old_string.is_empty(), cx.host.stat(&fact.target).await?) {
                (true, Some(stat)) if stat.size > 0 => Err(ToolError::Failed(format!(
                    "{path} exists; an empty old_string only creates new files"
                ))),
                (true, _) => write::plan_whole(fact, input.new_string, cx, created).await,
                (false, None) => Err(ToolError::Failed(format!("{path} does not exist"))),
                (false, Some(_)) => plan_edit(Arc::new(Job { input, fact, cx: cx.clone() })).await,
            }
        })
    }
}

fn created(written: &Written<'_>) -> Json {
    json!({
        "filePath": written.path,
        "oldString": "",
        "newString": written.content,
        "originalFile": written.before.text,
        "structuredPatch": written.diff.hunks,
        "userModified": false,
        "replaceAll": false,
    })
}

/// One edit of one file.
struct Job {
    input: Input,
    fact: PathFact,
    cx: PlanContext,
}

/// An edit worked out on one content of the file.
struct Change {
    hash: Hash,
    original: String,
    edited: String,
    diff: Diff,
    snippet: String,
    /// For [`crate::host::FileState::record_edited`].
    moves: Vec<(usize, isize)>,
}

async fn plan_edit(job: Arc<Job>) -> Result<Plan, ToolError> {
    let planned = change(&job, None).await?;
    let intent = Intent {
        title: format!("Edit {}", shown(&job.fact.requested, &job.cx.cwd)),
        access: Access::Write { paths: vec![job.fact.clone()] },
        preview: Preview::Diff(planned.diff.unified.clone()),
    };
    Ok(Plan { intent, effect: Effect::new(move |_| apply(job, planned)) })
}

async fn apply(job: Arc<Job>, planned: Change) -> Result<ToolOutput, ToolError> {
    // An earlier call of the same turn may have changed the file; then the edit is worked out anew.
    let change = change(&job, Some(planned)).await?;
    let bytes = change.edited.into_bytes();
    let hash = blake3::hash(&bytes);
    let target = job.fact.target.clone();
    let replacement = Replacement { target, bytes, expected: Expected::Content(change.hash) };
    let stat = job.cx.host.replace(replacement).await?;
    let version = Version { hash, size: stat.size, modified: stat.modified };
    job.cx.files.record_edited(&job.fact.target, version, &change.moves);
    let path = &job.fact.requested;
    let places = match change.moves.len() {
        1 => String::new(),
        many => format!(" in {many} places"),
    };
    Ok(ToolOutput::text(
        format!("Edited {}{places}. It now reads:\n{}", path.display(), change.snippet),
        json!({
            "filePath": path,
            "oldString": job.input.old_string,
            "newString": job.input.new_string,
            "originalFile": change.original,
            "structuredPatch": change.diff.hunks,
            "userModified": false,
            "replaceAll": job.input.replace_all,
        }),
    ))
}

/// Reads the file and works the edit out, unless that was done for this very content before.
async fn change(job: &Arc<Job>, known: Option<Change>) -> Result<Change, ToolError> {
    let (_, bytes) = read_whole(job.cx.host.as_ref(), &job.fact.target, MAX_WHOLE).await?;
    let job = Arc::clone(job);
    blocking(move || {
        let hash = blake3::hash(&bytes);
        match known {
            Some(change) if change.hash == hash => Ok(change),
            Some(_) | None => job.work_out(hash, bytes),
        }
    })
    .await
}

impl Job {
    fn work_out(&self, hash: Hash, bytes: Vec<u8>) -> Result<Change, ToolError> {
        let path = self.fact.requested.display();
        let failed = |text: String| Err(ToolError::Failed(text));
        let seen = match self.cx.files.standing(&self.fact.target, hash) {
            Standing::Current(lines) => lines,
            Standing::Unseen => {
                return failed(format!("{path} has not been read; read it before editing it"));
            }
            Standing::Changed => {
                return failed(format!("{path} changed on disk since it was read; read it again first"));
            }
        };
        let Ok(raw) = String::from_utf8(bytes) else {
            return failed(format!("{path} is not UTF-8 text and cannot be edited"));
        };
        let source = Source::new(raw);
        let (old, new) = (visible(&self.input.old_string), visible(&self.input.new_string));
        let ranges = find_all(source.visible(), &old);
        self.check_matches(&source, &ranges, &old, &seen)?;
        let longer = newlines(&new).cast_signed() - newlines(&old).cast_signed();
        let moves = ranges.iter().map(|range| (source.line_of(range.start), longer)).collect();
        let edited = source.replaced(&ranges, &new);
        let name = shown(&self.fact.requested, &self.cx.cwd);
        Ok(Change {
            hash,
            diff: diff(&name, source.raw(), &edited),
            snippet: snippet(&edited, source.line_of(ranges[0].start), newlines(&new) + 1),
            original: source.raw().to_owned(),
            edited,
            moves,
        })
    }

    fn check_matches(
        &self,
        source: &Source,
        ranges: &[Range<usize>],
        old: &str,
        seen: &Lines,
    ) -> Result<(), ToolError> {
        let path = self.fact.requested.display();
        if ranges.is_empty() {
            return Err(ToolError::Failed(format!(
                "old_string was not found in {path}{}",
                nearest(source.visible(), old, seen)
            )));
        }
        if ranges.len() > 1 && !self.input.replace_all {
            let lines: Vec<String> =
                ranges.iter().take(20).map(|range| (source.line_of(range.start) + 1).to_string()).collect();
            let more = if ranges.len() > 20 { ", …" } else { "" };
            return Err(ToolError::Failed(format!(
                "old_string stands {} times in {path}, on lines {}{more}; \
                 add text around it to say which one, or set replace_all",
                ranges.len(),
                lines.join(", ")
            )));
        }
        match ranges.iter().map(|range| source.lines_of(range)).find(|lines| !seen.cover(lines)) {
            None => Ok(()),
            Some(lines) => Err(ToolError::Failed(format!(
                "lines {}-{} of {path} have not been read (only {seen}); read them before editing them",
                lines.start + 1,
                lines.end
            ))),
        }
    }
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}

/// The lines from `start` on, numbered, with some around them.
fn snippet(edited: &str, start: usize, count: usize) -> String {
    let from = start.saturating_sub(AROUND);
    let until = (start + count + AROUND).min(from + MAX_SNIPPET);
    let shown = visible(edited);
    let lines = shown.trim_start_matches('\u{FEFF}').split('\n').enumerate().skip(from).take(until - from);
    let numbered: Vec<String> =
        lines.map(|(number, line)| format!("{}\t{}", number + 1, short(line))).collect();
    numbered.join("\n")
}

/// Seen lines that are much like the first line looked for.
fn nearest(visible: &str, old: &str, seen: &Lines) -> String {
    const MANY: usize = 5000;
    let Some(wanted) = old.lines().map(str::trim).find(|line| !line.is_empty()) else { return String::new() };
    let mut lines: Vec<(usize, &str)> = Vec::new();
    for (number, line) in visible.split('\n').enumerate() {
        let plausible = line.trim().len() <= 4 * wanted.len() && seen.cover(&(number..number + 1));
        if plausible && !line.trim().is_empty() && lines.len() < MANY {
            lines.push((number, line));
        }
    }
    let candidates: Vec<&str> = lines.iter().map(|(_, line)| line.trim()).collect();
    let mut close = similar::get_close_matches(wanted, &candidates, 3, 0.6);
    close.dedup();
    let quoted: Vec<String> = close
        .iter()
        .filter_map(|found| lines.iter().find(|(_, line)| line.trim() == *found))
        .map(|(number, line)| format!("{}\t{}", number + 1, short(line)))
        .collect();
    if quoted.is_empty() { String::new() } else { format!("; the nearest lines are:\n{}", quoted.join("\n")) }
}

fn short(line: &str) -> String {
    text::first(line, 300).map_or_else(|| line.to_owned(), |start| format!("{start}…"))
}
