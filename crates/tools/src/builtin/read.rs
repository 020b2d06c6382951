//! `Read`: shows lines of a text file, numbered, and remembers what was shown.

use super::{
    MAX_RESULT,
    lines::{self, Picked},
    parse, resolve, shown, spec,
};
use crate::{
    Effect, Plan, PlanContext, RunContext, Tool,
    host::{HostError, Version, blocking},
};
use futures_util::future::BoxFuture;
use ostler_proto::{Access, Intent, Interrupt, Json, PathFact, Preview, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::{fmt::Write as _, ops::Range, path::Path};

const DESCRIPTION: &str = "Reads a text file. Lines come as number, tab, text. Without offset and limit it \
shows the first 2000 lines; longer files are read in parts. Read a file before you change it.";

const DEFAULT_LIMIT: usize = 2000;
/// Largest file that is read without saying which part.
const MAX_UNRANGED: u64 = 256 * 1024;
/// Leaves room for a notice below the result's own limit.
const MAX_CHARS: usize = MAX_RESULT - 1000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file; absolute, or relative to the working directory.
    file_path: String,
    /// The first line to show, counted from 1.
    offset: Option<usize>,
    /// How many lines to show.
    #[schemars(range(min = 1))]
    limit: Option<usize>,
}

/// The tool.
pub(super) struct Read {
    spec: ToolSpec,
}

impl Read {
    pub(super) fn new() -> Self {
        Self { spec: spec::<Input>("Read", DESCRIPTION, Interrupt::Cancel) }
    }
}

impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("Read", input)?;
            let fact = resolve(&input.file_path, cx).await?;
            let intent = Intent {
                title: format!("Read {}", shown(&fact.requested, &cx.cwd)),
                access: Access::Read { paths: vec![fact.clone()] },
                preview: Preview::None,
            };
            let cx = cx.clone();
            Ok(Plan { intent, effect: Effect::new(move |run| read(input, fact, cx, run)) })
        })
    }
}

async fn read(
    input: Input,
    fact: PathFact,
    cx: PlanContext,
    run: RunContext,
) -> Result<ToolOutput, ToolError> {
    let file = match cx.host.open(&fact.target).await {
        Err(HostError::Missing(_)) => return Err(missing(fact, cx).await),
        Err(HostError::Directory(_)) => {
            let path = fact.requested.display();
            return Err(ToolError::Failed(format!(
                "{path} is a directory, not a file; list it with Glob or ls"
            )));
        }
        opened => opened?,
    };
    let ranged = input.offset.is_some() || input.limit.is_some();
    if !ranged && file.stat.size > MAX_UNRANGED {
        return Err(ToolError::Failed(format!(
            "{} has {} bytes, too many to read at once ({MAX_UNRANGED}); \
             say which part with offset and limit, or search it with Grep",
            fact.requested.display(),
            file.stat.size
        )));
    }
    let first = input.offset.unwrap_or(1).max(1) - 1;
    let range = first..first.saturating_add(input.limit.unwrap_or(DEFAULT_LIMIT));
    let cancel = run.cancel.child_token();
    let _cancel_on_drop = cancel.clone().drop_guard();
    let wanted = range.clone();
    let picked = blocking(move || lines::pick(file.reader, wanted, MAX_CHARS, &cancel)).await;
    let picked =
        picked.map_err(|error| HostError::Io { action: "read", path: fact.target.clone(), error })?;
    let Some(picked) = picked else {
        let path = fact.requested.display();
        return Err(ToolError::Failed(format!("{path} is a binary file and cannot be shown as text")));
    };
    if ranged && picked.overflowed {
        return Err(ToolError::Failed(format!(
            "lines {}-{} are too long to show together; ask for at most {} lines from there",
            range.start + 1,
            range.end.min(picked.total),
            picked.lines.len()
        )));
    }
    let version = Version { hash: picked.hash, size: picked.bytes, modified: file.stat.modified };
    cx.files.record_seen(&fact.target, version, first..first + picked.lines.len());
    Ok(output(&fact.requested, &range, input.limit, &picked))
}

fn output(path: &Path, range: &Range<usize>, limit: Option<usize>, picked: &Picked) -> ToolOutput {
    let mut structured = json!({"type": "text", "file": {
        "filePath": path,
        "content": picked.lines.join("\n"),
        "numLines": picked.lines.len(),
        "startLine": range.start + 1,
        "totalLines": picked.total,
    }});
    if picked.overflowed {
        structured["file"]["truncatedByTokenCap"] = json!(true);
    }
    ToolOutput::text(text(range, limit, picked), structured)
}

fn text(range: &Range<usize>, limit: Option<usize>, picked: &Picked) -> String {
    if picked.bytes == 0 {
        return "The file exists but is empty.".to_owned();
    }
    if picked.lines.is_empty() {
        return format!(
            "The file has only {} lines; line {} is past its end.",
            picked.total,
            range.start + 1
        );
    }
    let mut text = String::new();
    for (position, line) in picked.lines.iter().enumerate() {
        let newline = if position == 0 { "" } else { "\n" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{newline}{}\t{line}", range.start + position + 1);
    }
    let end = range.start + picked.lines.len();
    // Who set a limit knows that there may be more.
    if end < picked.total && (limit.is_none() || picked.overflowed) {
        let _ = write!(
            text,
            "\n\n[PARTIAL view: lines {}-{end} of {}; read on with offset {}]",
            range.start + 1,
            picked.total,
            end + 1
        );
    }
    text
}

/// Says that nothing is there, and what is there under a similar name.
async fn missing(fact: PathFact, cx: PlanContext) -> ToolError {
    let target = fact.target;
    let similar = blocking(move || similar_names(&target)).await;
    let hint = if similar.is_empty() {
        format!("the working directory is {}", cx.cwd.display())
    } else {
        format!("similar names in that folder: {}", similar.join(", "))
    };
    ToolError::Failed(format!("{} does not exist; {hint}", fact.requested.display()))
}

fn similar_names(target: &Path) -> Vec<String> {
    const MANY: usize = 5000;
    let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else { return Vec::new() };
    // Names are a courtesy: a folder that cannot be listed has none to offer.
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names: Vec<String> =
        entries.take(MANY).flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let close = similar::get_close_matches(name.to_string_lossy().as_ref(), &names, 3, 0.6);
    close.into_iter().map(str::to_owned).collect()
}
