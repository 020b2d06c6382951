//! `Glob`: finds files by name. It looks at names only, and at times of those that match.

use super::{
    parse, resolve,
    search::{Newest, check_root},
    shown, spec,
};
use crate::{Effect, Plan, PlanContext, RunContext, Tool, host::blocking};
use futures_util::future::BoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use ignore::{WalkBuilder, WalkState};
use ostler_proto::{Access, Intent, Interrupt, Json, PathFact, Preview, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Instant, SystemTime},
};
use tokio_util::sync::CancellationToken;

const DESCRIPTION: &str = "Finds files by name pattern, such as `**/*.rs` or `src/{a,b}/*.ts`, newest first, at \
most 100. A pattern without a slash matches at any depth. Hidden and ignored files are found too, all but .git.";

const MAX_FILES: usize = 100;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The pattern.
    pattern: String,
    /// The folder to look in, unless it is the working directory.
    path: Option<String>,
}

/// The tool.
pub(super) struct Glob {
    spec: ToolSpec,
}

impl Glob {
    pub(super) fn new() -> Self {
        Self { spec: spec::<Input>("Glob", DESCRIPTION, Interrupt::Cancel) }
    }
}

impl Tool for Glob {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("Glob", input)?;
            let (folder, rest) = split(input.pattern.trim());
            let matcher = GlobBuilder::new(&rest)
                .literal_separator(true)
                .build()
                .map_err(|error| ToolError::Failed(format!("the pattern is not a glob: {error}")))?
                .compile_matcher();
            let base = resolve(input.path.as_deref().unwrap_or("."), cx).await?;
            let fact = match folder {
                "" => base,
                folder => cx.host.resolve(folder, &base.requested).await?,
            };
            let intent = Intent {
                title: format!("Glob {} in {}", input.pattern, shown(&fact.requested, &cx.cwd)),
                access: Access::Read { paths: vec![fact.clone()] },
                preview: Preview::None,
            };
            let cx = cx.clone();
            Ok(Plan { intent, effect: Effect::new(move |run| glob(matcher, fact, cx, run)) })
        })
    }
}

/// Splits a pattern into the folder it names literally, which is where the search starts and what
/// is judged, and the rest.
fn split(pattern: &str) -> (&str, String) {
    if !pattern.contains('/') {
        return ("", format!("**/{pattern}"));
    }
    let literal = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    match pattern[..literal].rfind('/') {
        Some(slash) => (&pattern[..=slash], pattern[slash + 1..].to_owned()),
        None => ("", pattern.to_owned()),
    }
}

async fn glob(
    matcher: GlobMatcher,
    fact: PathFact,
    cx: PlanContext,
    run: RunContext,
) -> Result<ToolOutput, ToolError> {
    check_root(&fact, &cx).await?;
    let started = Instant::now();
    let cancel = run.cancel.child_token();
    let _cancel_on_drop = cancel.clone().drop_guard();
    let root = fact.target.clone();
    let (total, files) = blocking(move || walk(&root, &matcher, &cancel)).await;
    // Found below the real folder, shown below the one that was asked for.
    let files: Vec<String> = files
        .iter()
        .map(|file| fact.requested.join(file.strip_prefix(&fact.target).unwrap_or(file)))
        .map(|file| shown(&file, &cx.cwd))
        .collect();
    let mut text = if files.is_empty() { "No files found".to_owned() } else { files.join("\n") };
    if total > files.len() {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n\n[{total} files match; the {} newest are shown]", files.len());
    }
    let structured = json!({
        "filenames": files,
        "numFiles": files.len(),
        "truncated": total > files.len(),
        "durationMs": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "totalMatches": total,
    });
    Ok(ToolOutput::text(text, structured))
}

fn walk(root: &Path, matcher: &GlobMatcher, cancel: &CancellationToken) -> (usize, Vec<PathBuf>) {
    let newest = Mutex::new(Newest::new(MAX_FILES));
    let mut builder = WalkBuilder::new(root);
    builder.standard_filters(false).filter_entry(|entry| entry.file_name() != ".git");
    builder.build_parallel().run(|| {
        Box::new(|entry| {
            if cancel.is_cancelled() {
                return WalkState::Quit;
            }
            // A folder that cannot be listed has nothing to show.
            let Ok(entry) = entry else { return WalkState::Continue };
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            let fits = || matcher.is_match(entry.path().strip_prefix(root).unwrap_or(entry.path()));
            if is_file && fits() {
                // A file that vanished meanwhile sorts last.
                let modified = entry.metadata().ok().and_then(|metadata| metadata.modified().ok());
                let mut newest = newest.lock().unwrap_or_else(PoisonError::into_inner);
                newest.add(entry.path(), modified.unwrap_or(SystemTime::UNIX_EPOCH));
            }
            WalkState::Continue
        })
    });
    newest.into_inner().unwrap_or_else(PoisonError::into_inner).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, folder: &str, rest: &str) {
        assert_eq!(split(pattern), (folder, rest.to_owned()), "{pattern}");
    }

    #[test]
    fn the_literal_part_of_a_pattern_is_where_the_search_starts() {
        check("*.rs", "", "**/*.rs");
        check("src/*.rs", "src/", "*.rs");
        check("src/main.rs", "src/", "main.rs");
        check("/a/b{c,d}/x", "/a/", "b{c,d}/x");
        check("../x/**/y", "../x/", "**/y");
        check("**/*.rs", "", "**/*.rs");
        check("/*", "/", "*");
    }
}
