//! `Glob`: finds files by name. It looks at names only, and at times of those that match.

use super::{
    Found, Options, parse, resolve,
    search::{Newest, Sieve, check_folder, walk_from},
    shown, spec,
};
use crate::{
    Effect, Plan, PlanContext, RunContext, Tool,
    host::{EntryKind, Kind, Lookout, blocking},
};
use futures_util::future::BoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkState;
use ostler_proto::{Access, Intent, Interrupt, Json, PathFact, Preview, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

const GUIDANCE: &str = "Find files by name with Glob rather than find.";

const MAX_FILES: usize = 100;
/// Links that are followed to see whether they are files.
const MAX_LINKS: usize = 1000;

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
    scope: Scope,
}

/// Which files are found beside the plain ones.
#[derive(Debug, Clone, Copy)]
struct Scope {
    ignored: Found,
    hidden: Found,
}

impl Glob {
    pub(super) fn new(options: Options) -> Self {
        let scope = Scope { ignored: options.glob_ignored, hidden: options.glob_hidden };
        Self { spec: spec::<Input>("Glob", &scope.description(), Interrupt::Cancel).guided(GUIDANCE), scope }
    }
}

impl Scope {
    fn description(self) -> String {
        let beside = match (self.hidden, self.ignored) {
            (Found::Yes, Found::Yes) => "Hidden and ignored files are found too, all but .git.",
            (Found::Yes, Found::No) => "Skips what ignore files name; hidden files are found, all but .git.",
            (Found::No, Found::Yes) => "Skips hidden files; ignored ones are found.",
            (Found::No, Found::No) => "Skips hidden files and what ignore files name.",
        };
        format!(
            "Finds files by name pattern, such as `**/*.rs` or `src/{{a,b}}/*.ts`, newest first, at most {MAX_FILES}. \
             A pattern without a slash matches at any depth. {beside}"
        )
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
            let (scope, cx) = (self.scope, cx.clone());
            Ok(Plan { intent, effect: Effect::new(move |run| glob(matcher, scope, fact, cx, run)) })
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
    scope: Scope,
    fact: PathFact,
    cx: PlanContext,
    run: RunContext,
) -> Result<ToolOutput, ToolError> {
    check_folder(&fact, &cx).await?;
    let started = Instant::now();
    let cancel = run.cancel.child_token();
    let _cancel_on_drop = cancel.clone().drop_guard();
    let sieve = Sieve::new(&fact, &cx);
    let root = fact.target.clone();
    let (mut found, sieve) = blocking(move || (walk(&root, scope, &matcher, &sieve, &cancel), sieve)).await;
    add_links(&mut found, &sieve, &cx).await;
    let (total, files) = found.newest.finish();
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
    text.push_str(&sieve.note());
    let structured = json!({
        "filenames": files,
        "numFiles": files.len(),
        "truncated": total > files.len(),
        "durationMs": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "totalMatches": total,
    });
    Ok(ToolOutput::text(text, structured))
}

/// What fits the pattern. Links are kept aside: where they lead is not known yet.
struct Fitting {
    newest: Newest,
    links: Vec<PathBuf>,
}

fn walk(
    root: &Path,
    scope: Scope,
    matcher: &GlobMatcher,
    sieve: &Sieve,
    cancel: &CancellationToken,
) -> Fitting {
    let found = Mutex::new(Fitting { newest: Newest::new(MAX_FILES), links: Vec::new() });
    let lock = || found.lock().unwrap_or_else(PoisonError::into_inner);
    let mut builder = walk_from(root);
    builder.standard_filters(scope.ignored == Found::No).hidden(scope.hidden == Found::No);
    builder.build_parallel().run(|| {
        let mut lookout = Lookout::default();
        let (lock, sieve) = (&lock, &sieve);
        Box::new(move |entry| {
            if cancel.is_cancelled() {
                return WalkState::Quit;
            }
            // A folder that cannot be listed has nothing to show.
            let Ok(entry) = entry else { return WalkState::Continue };
            let Some(kind) = entry.file_type() else { return WalkState::Continue };
            if kind.is_dir() {
                return if entry.file_name() == ".git" { WalkState::Skip } else { WalkState::Continue };
            }
            let fits = || matcher.is_match(entry.path().strip_prefix(root).unwrap_or(entry.path()));
            let may_show = (kind.is_file() && fits() && sieve.lets_through(entry.path()))
                || (kind.is_symlink() && fits());
            // The walk goes by names; what is shown must really be there.
            match may_show.then(|| lookout.look(entry.path())).flatten() {
                Some((EntryKind::File, modified)) if kind.is_file() => {
                    lock().newest.add(entry.path(), modified);
                }
                Some((EntryKind::Link(_), _)) if kind.is_symlink() => {
                    let links = &mut lock().links;
                    if links.len() < MAX_LINKS {
                        links.push(entry.into_path());
                    }
                }
                Some(_) | None => {}
            }
            WalkState::Continue
        })
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the links that lead to files which may be shown. Links to folders are not followed, so
/// none can lead in a circle.
async fn add_links(found: &mut Fitting, sieve: &Sieve, cx: &PlanContext) {
    for link in std::mem::take(&mut found.links) {
        // What cannot be followed, or leads nowhere, is no file.
        let Some(name) = link.to_str() else { continue };
        let Ok(leads) = cx.host.resolve(name, &cx.cwd).await else { continue };
        let Ok(Some(stat)) = cx.host.stat(&leads.target).await else { continue };
        if stat.kind == Kind::File && sieve.lets_link_through(&link, &leads) {
            found.newest.add(&link, stat.modified);
        }
    }
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
