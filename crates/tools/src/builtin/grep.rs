//! `Grep`: searches file contents with ripgrep's engine, in this process.
//! What it keeps is bounded by what it shows; what it counts covers everything.

mod find;

use self::find::{Findings, Query};
use super::{parse, resolve, search::check_root, shown, spec};
use crate::{Effect, Plan, PlanContext, RunContext, Tool, host::blocking};
use futures_util::future::BoxFuture;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use ignore::{WalkBuilder, overrides::OverrideBuilder, types::TypesBuilder};
use ostler_proto::{Access, Intent, Interrupt, Json, PathFact, Preview, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write as _;

const DESCRIPTION: &str = "Searches file contents for a regular expression (Rust syntax). Skips what ignore files \
name, hidden files and binary files. Shows matching file names, newest first, unless output_mode says otherwise.";

const DEFAULT_LIMIT: usize = 250;
/// What `head_limit: 0` means.
const NO_LIMIT: usize = 10_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The regular expression.
    pattern: String,
    /// File or folder to search, unless it is the working directory.
    path: Option<String>,
    /// Only files that match, such as `*.rs` or `!tests/**`; several are separated by spaces.
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
        Self { spec: spec::<Input>("Grep", DESCRIPTION, Interrupt::Cancel) }
    }
}

impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("Grep", input)?;
            let matcher = matcher(&input)?;
            let fact = resolve(input.path.as_deref().unwrap_or("."), cx).await?;
            let walk = walk(&input, &fact)?;
            let intent = Intent {
                title: format!("Grep {} in {}", input.pattern, shown(&fact.requested, &cx.cwd)),
                access: Access::Read { paths: vec![fact.clone()] },
                preview: Preview::None,
            };
            let query = query(&input, matcher, &fact, cx);
            let cx = cx.clone();
            Ok(Plan { intent, effect: Effect::new(move |run| grep(query, walk, fact, cx, run)) })
        })
    }
}

fn matcher(input: &Input) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(input.ignore_case).multi_line(true);
    if input.multiline {
        builder.dot_matches_new_line(true);
    } else {
        // `$` matches before either line ending, as the model never sees a return.
        builder.line_terminator(Some(b'\n')).crlf(true);
    }
    builder.build(&input.pattern).map_err(|error| {
        let hint =
            if error.to_string().contains("\\n") { "; set multiline to match across lines" } else { "" };
        ToolError::Failed(format!("the pattern is not a valid regular expression: {error}{hint}"))
    })
}

fn walk(input: &Input, fact: &PathFact) -> Result<WalkBuilder, ToolError> {
    let failed = |error: ignore::Error| ToolError::Failed(format!("the filter is not valid: {error}"));
    let mut builder = WalkBuilder::new(&fact.target);
    if let Some(globs) = &input.glob {
        let mut overrides = OverrideBuilder::new(&fact.target);
        for glob in globs.split_whitespace() {
            overrides.add(glob).map_err(failed)?;
        }
        builder.overrides(overrides.build().map_err(failed)?);
    }
    if let Some(name) = &input.r#type {
        let types = TypesBuilder::new().add_defaults().select(name).build();
        builder.types(types.map_err(|error| {
            ToolError::Failed(format!("{error}; use ripgrep's names such as rust, py, ts, or use glob"))
        })?);
    }
    Ok(builder)
}

fn query(input: &Input, matcher: RegexMatcher, fact: &PathFact, cx: &PlanContext) -> Query {
    let around = input.context.or(input.around).unwrap_or(0);
    let limit = match input.head_limit {
        None => DEFAULT_LIMIT,
        Some(0) => NO_LIMIT,
        Some(limit) => limit.min(NO_LIMIT),
    };
    Query {
        matcher,
        mode: input.output_mode,
        line_numbers: input.line_numbers.unwrap_or(true),
        only_matching: input.only_matching,
        before: input.before.unwrap_or(around),
        after: input.after.unwrap_or(around),
        multiline: input.multiline,
        offset: input.offset,
        limit,
        target: fact.target.clone(),
        requested: fact.requested.clone(),
        cwd: cx.cwd.clone(),
    }
}

async fn grep(
    query: Query,
    walk: WalkBuilder,
    fact: PathFact,
    cx: PlanContext,
    run: RunContext,
) -> Result<ToolOutput, ToolError> {
    check_root(&fact, &cx).await?;
    let cancel = run.cancel.child_token();
    let _cancel_on_drop = cancel.clone().drop_guard();
    Ok(blocking(move || output(&query, find::search(&query, &walk, &cancel))).await)
}

/// Words the findings for the model and for programs.
fn output(query: &Query, findings: Findings) -> ToolOutput {
    let Findings { files, matches, total, entries, skipped } = findings;
    let more = total.saturating_sub(query.offset + entries.len());
    let list = entries.join("\n");
    let (mut text, mut structured) = match query.mode {
        Mode::FilesWithMatches => (
            match files {
                0 => "No files found".to_owned(),
                1 => format!("Found 1 file\n{list}"),
                files => format!("Found {files} files\n{list}"),
            },
            json!({"mode": "files_with_matches", "numFiles": files, "filenames": &entries}),
        ),
        Mode::Content => (
            if total == 0 { "No matches found".to_owned() } else { list.clone() },
            json!({
                "mode": "content", "numFiles": files, "filenames": [],
                "content": list, "numLines": entries.len(),
            }),
        ),
        Mode::Count => (
            match files {
                0 => "No matches found".to_owned(),
                files => format!("{list}\n\nFound {matches} matching lines in {files} files"),
            },
            json!({
                "mode": "count", "numFiles": files, "filenames": [],
                "content": list, "numMatches": matches,
            }),
        ),
    };
    let next = query.offset + entries.len();
    if more > 0 {
        structured["appliedLimit"] = json!(query.limit);
        // Writing to a string cannot fail.
        let _ = write!(text, "\n\n[{more} more of {total}; go on with offset {next}]");
    }
    if query.offset > 0 {
        structured["appliedOffset"] = json!(query.offset);
    }
    if skipped > 0 {
        let _ = write!(text, "\n\n[{skipped} files could not be searched]");
    }
    ToolOutput::text(text, structured)
}
