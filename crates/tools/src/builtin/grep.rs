//! `Grep`: searches file contents with ripgrep's engine, in this process.
//! What it keeps is bounded by what it shows; what it counts covers everything.

mod find;

use self::find::{Findings, Query, Start};
use super::{
    counted, parse, resolve,
    search::{Sieve, check_root, walk_from},
    shown, spec,
};
use crate::{
    Effect, Plan, PlanContext, RunContext, Tool,
    host::{Kind, blocking},
    text,
};
use futures_util::future::BoxFuture;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use ignore::{
    WalkBuilder,
    overrides::{Override, OverrideBuilder},
    types::{FileTypeDef, Types, TypesBuilder},
};
use ostler_proto::{Access, Intent, Interrupt, Json, PathFact, Preview, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::{fmt::Write as _, path::Path};

const DESCRIPTION: &str = "Searches file contents for a regular expression (Rust syntax: no look-around, no \
backreferences). Skips what ignore files name, hidden files and binary files, unless path names them. Shows \
matching file names, newest first, unless output_mode says otherwise.";
const GUIDANCE: &str = "Search file contents with Grep rather than grep or rg.";

const DEFAULT_LIMIT: usize = 250;
/// What `head_limit: 0` means.
const NO_LIMIT: usize = 10_000;
/// How far into the findings one can page; what lies before is held while searching.
const MAX_OFFSET: usize = 100_000;
/// Lines of one file among several, unless the call says how many it wants.
const PER_FILE: usize = 100;
/// Context lines around a match.
const MAX_CONTEXT: usize = 1000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The regular expression.
    pattern: String,
    /// File or folder to search, unless it is the working directory.
    path: Option<String>,
    /// Only files that match, such as `*.rs` or `!tests/**` below path; several are separated by spaces.
    glob: Option<String>,
    /// Only files of a type ripgrep knows: rust, py, js, ….
    r#type: Option<String>,
    /// content: lines; count: matching lines per file.
    #[serde(default)]
    output_mode: Mode,
    /// Ignore case.
    #[serde(rename = "-i", default)]
    ignore_case: bool,
    /// Show line numbers in content mode; on unless false.
    #[serde(rename = "-n")]
    line_numbers: Option<bool>,
    /// Show only the matching parts.
    #[serde(rename = "-o", default)]
    only_matching: bool,
    /// Lines to show after each match.
    #[serde(rename = "-A")]
    after: Option<usize>,
    /// Lines to show before each match.
    #[serde(rename = "-B")]
    before: Option<usize>,
    /// Lines to show around each match.
    #[serde(rename = "-C")]
    around: Option<usize>,
    /// The same as -C.
    context: Option<usize>,
    /// Show so many lines or files: 250 unless told, 0 for all.
    head_limit: Option<usize>,
    /// Leave out so many first.
    #[serde(default)]
    #[schemars(range(max = MAX_OFFSET))]
    offset: usize,
    /// Let a match span lines; `.` matches newlines too.
    #[serde(default)]
    multiline: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Content,
    #[default]
    FilesWithMatches,
    Count,
}

/// The tool.
pub(super) struct Grep {
    spec: ToolSpec,
}

impl Grep {
    pub(super) fn new() -> Self {
        Self { spec: spec::<Input>("Grep", DESCRIPTION, Interrupt::Cancel).guided(GUIDANCE) }
    }
}

impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("Grep", input)?;
            let exact = matcher(&input, Returns::Unseen)?;
            // A matcher that knows nothing of returns is much quicker, and what it finds is looked at again.
            let matcher =
                if may_search_quickly(&input) { Some(matcher(&input, Returns::Seen)?) } else { None };
            let types = input.r#type.as_deref().map(types).transpose()?;
            // Filters count from where the search starts, but whether they are any good is known before.
            overrides(&input, &cx.cwd)?;
            let fact = resolve(input.path.as_deref().unwrap_or("."), cx).await?;
            let mut walk = walk_from(&fact.target);
            if let Some(overrides) = overrides(&input, &fact.target)? {
                walk.overrides(overrides);
            }
            if let Some(types) = types {
                walk.types(types);
            }
            let intent = Intent {
                title: format!("Grep {} in {}", input.pattern, shown(&fact.requested, &cx.cwd)),
                access: Access::Read { paths: vec![fact.clone()] },
                preview: Preview::None,
            };
            let query = query(&input, exact, matcher, &fact, cx);
            let cx = cx.clone();
            Ok(Plan { intent, effect: Effect::new(move |run| grep(query, walk, fact, cx, run)) })
        })
    }
}

/// Whether a pattern can match the return at the end of a line. The model never sees one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Returns {
    Seen,
    Unseen,
}

/// Whether whatever matches where returns are unseen also matches where they are seen. Lines around a
/// match are shown before it can be looked at again.
fn may_search_quickly(input: &Input) -> bool {
    let around = [input.before, input.after, input.around, input.context];
    !input.multiline && !input.pattern.contains('$') && around.iter().all(|lines| lines.unwrap_or(0) == 0)
}

fn matcher(input: &Input, returns: Returns) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(input.ignore_case).multi_line(true);
    if input.multiline {
        builder.dot_matches_new_line(true);
    } else {
        // Unseen, `$` matches before either line ending.
        builder.line_terminator(Some(b'\n')).crlf(returns == Returns::Unseen);
    }
    builder.build(&input.pattern).map_err(|error| {
        let error = error.to_string();
        let hint = if error.contains("look-around") {
            "; search for the part that must match, with context lines if needed, and pick from what is shown"
        } else if error.contains("backreferences") {
            "; spell out the repeated text, or search for its first half and pick from what is shown"
        } else if error.contains("\\n") {
            "; set multiline to match across lines"
        } else if input.pattern.contains(['(', '[', '{', '*', '+', '?']) {
            "; put a backslash before a character that is meant literally"
        } else {
            ""
        };
        ToolError::Failed(format!("the pattern is not a valid regular expression: {error}{hint}"))
    })
}

/// The file type of that name, or which names come near.
fn types(name: &str) -> Result<Types, ToolError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    let known = builder.definitions();
    builder.select(name).build().map_err(|_| {
        let names: Vec<&str> = known.iter().map(FileTypeDef::name).collect();
        let by_suffix = format!("*.{}", name.trim_start_matches(['*', '.']));
        let mut near: Vec<&str> =
            known.iter().filter(|known| known.globs().contains(&by_suffix)).map(FileTypeDef::name).collect();
        near.extend(similar::get_close_matches(name, &names, 3, 0.6));
        near.dedup();
        let hint = match near.as_slice() {
            [] => "use ripgrep's names such as rust, py, ts".to_owned(),
            near => format!("near ones are {}", near.join(", ")),
        };
        ToolError::Failed(format!("there is no file type '{name}'; {hint}, or use glob"))
    })
}

/// The globs of the input, counted from a folder. Commas separate too, outside of braces.
fn overrides(input: &Input, root: &Path) -> Result<Option<Override>, ToolError> {
    let failed = |error: ignore::Error| ToolError::Failed(format!("the glob is not valid: {error}"));
    let Some(globs) = &input.glob else { return Ok(None) };
    let mut builder = OverrideBuilder::new(root);
    for word in globs.split_whitespace() {
        let separator = if word.contains('{') { '\0' } else { ',' };
        for glob in word.split(separator).filter(|glob| !glob.is_empty()) {
            builder.add(glob).map_err(failed)?;
        }
    }
    builder.build().map(Some).map_err(failed)
}

fn query(
    input: &Input,
    exact: RegexMatcher,
    quick: Option<RegexMatcher>,
    fact: &PathFact,
    cx: &PlanContext,
) -> Query {
    let around = input.context.or(input.around).unwrap_or(0);
    let limit = match input.head_limit {
        None => DEFAULT_LIMIT,
        Some(0) => NO_LIMIT,
        Some(limit) => limit.min(NO_LIMIT),
    };
    Query {
        exact,
        quick,
        mode: input.output_mode,
        line_numbers: input.line_numbers.unwrap_or(true),
        only_matching: input.only_matching,
        before: input.before.unwrap_or(around).min(MAX_CONTEXT),
        after: input.after.unwrap_or(around).min(MAX_CONTEXT),
        multiline: input.multiline,
        offset: input.offset.min(MAX_OFFSET),
        limit,
        per_file: if input.head_limit.is_none() { PER_FILE } else { usize::MAX },
        start: Start::Tree,
        target: fact.target.clone(),
        requested: fact.requested.clone(),
        cwd: cx.cwd.clone(),
    }
}

async fn grep(
    mut query: Query,
    walk: WalkBuilder,
    fact: PathFact,
    cx: PlanContext,
    run: RunContext,
) -> Result<ToolOutput, ToolError> {
    if check_root(&fact, &cx).await?.kind == Kind::File {
        query.start = Start::File;
        query.per_file = usize::MAX;
    }
    let sieve = Sieve::new(&fact, &cx);
    let cancel = run.cancel.child_token();
    let _cancel_on_drop = cancel.clone().drop_guard();
    let search = move || {
        let findings = find::search(&query, &walk, &sieve, &cancel);
        output(&query, &findings, &sieve)
    };
    Ok(blocking(search).await)
}

/// Words the findings for the model and for programs.
fn output(query: &Query, findings: &Findings, sieve: &Sieve) -> ToolOutput {
    let Findings { files, matches, total, entries, .. } = findings;
    let list = entries.join("\n");
    let (mut text, mut structured) = match query.mode {
        Mode::FilesWithMatches => (
            match files {
                0 => "No files found".to_owned(),
                files => format!("Found {}\n{list}", counted(*files as u64, "file")),
            },
            json!({"mode": "files_with_matches", "numFiles": files, "filenames": &entries}),
        ),
        Mode::Content => (
            if *files == 0 { "No matches found".to_owned() } else { list.clone() },
            json!({
                "mode": "content", "numFiles": files, "filenames": [],
                "content": list, "numLines": entries.len(),
            }),
        ),
        Mode::Count => (
            match files {
                0 => "No matches found".to_owned(),
                files => {
                    let what = if query.multiline { "match" } else { "matching line" };
                    let (matches, files) = (counted(*matches, what), counted(*files as u64, "file"));
                    format!("{list}\n\nFound {matches} in {files}")
                }
            },
            json!({
                "mode": "count", "numFiles": files, "filenames": [],
                "content": list, "numMatches": matches,
            }),
        ),
    };
    if *total > query.offset + entries.len() {
        structured["appliedLimit"] = json!(query.limit);
    }
    if query.offset > 0 {
        structured["appliedOffset"] = json!(query.offset);
    }
    text.push_str(&notes(query, findings));
    text.push_str(&sieve.note());
    ToolOutput::text(text::of_file(text), structured)
}

/// What is not in the list, and why.
fn notes(query: &Query, findings: &Findings) -> String {
    let Findings { total, entries, binary, failed, .. } = findings;
    let mut notes = String::new();
    let next = query.offset + entries.len();
    let entry = if query.mode == Mode::Content { "line" } else { "file" };
    // Writing to a string cannot fail.
    if *total > next {
        let more = counted((*total - next) as u64, &format!("more {entry}"));
        let _ = write!(notes, "\n\n[{more} of {total}; go on with offset {next}]");
    } else if entries.is_empty() && *total > 0 {
        let _ =
            write!(notes, "\n\n[offset {} is past the end: {}]", query.offset, counted(*total as u64, entry));
    }
    if *binary > 0 && query.start == Start::File {
        notes.push_str("\n\n[the file is binary and matches; from there on no lines are shown]");
    } else if *binary > 0 {
        let files = counted(*binary as u64, "file");
        let _ = write!(notes, "\n\n[{files} turned out to be binary and were searched only up to there]");
    }
    if let Some((count, reason)) = failed {
        let _ = write!(
            notes,
            "\n\n[{count} could not be searched: {reason}{}]",
            if *count > 1 { ", …" } else { "" }
        );
    }
    notes
}
