//! `LS`: a glance at a tree. Shallow folders come first and whole levels at a time, so that what
//! is left out is always the deepest.

use super::{
    parse, resolve,
    search::{Sieve, check_folder},
    shown, spec,
};
use crate::{
    Effect, Plan, PlanContext, RunContext, Tool,
    host::{self, EntryKind, Folder, HostError, blocking},
};
use futures_util::future::BoxFuture;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::WalkBuilder;
use ostler_proto::{Access, Intent, Interrupt, Json, PathFact, Preview, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::{
    collections::HashSet,
    ffi::OsString,
    fmt::Write as _,
    path::{Path, PathBuf},
};
use tokio_util::sync::CancellationToken;

const DESCRIPTION: &str = "Lists a folder as a tree, a few levels deep, at most 200 entries. Folders end with /, \
links show where they lead, … marks what was not opened, and what ignore files name is marked too.";
const GUIDANCE: &str = "Get an overview of an unfamiliar folder with LS rather than ls or tree.";

const MAX_ENTRIES: usize = 200;
const MAX_DEPTH: usize = 4;
/// A folder with more entries is listed only so far.
const MAX_LISTED: usize = 10_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The folder, unless it is the working directory.
    path: Option<String>,
    /// Globs of what to leave out.
    #[serde(default)]
    ignore: Vec<String>,
}

/// The tool.
pub(super) struct Ls {
    spec: ToolSpec,
}

impl Ls {
    pub(super) fn new() -> Self {
        Self { spec: spec::<Input>("LS", DESCRIPTION, Interrupt::Cancel).guided(GUIDANCE) }
    }
}

impl Tool for Ls {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("LS", input)?;
            let unwanted = unwanted(&input.ignore)?;
            let fact = resolve(input.path.as_deref().unwrap_or("."), cx).await?;
            let intent = Intent {
                title: format!("LS {}", shown(&fact.requested, &cx.cwd)),
                access: Access::Read { paths: vec![fact.clone()] },
                preview: Preview::None,
            };
            let cx = cx.clone();
            Ok(Plan { intent, effect: Effect::new(move |run| list(unwanted, fact, cx, run)) })
        })
    }
}

/// A glob without a slash counts at any depth.
fn unwanted(globs: &[String]) -> Result<GlobSet, ToolError> {
    let failed = |error: globset::Error| ToolError::Failed(format!("an ignore glob is not valid: {error}"));
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let glob = glob.trim_end_matches('/');
        let anywhere = if glob.contains('/') { glob.to_owned() } else { format!("**/{glob}") };
        set.add(GlobBuilder::new(&anywhere).literal_separator(true).build().map_err(failed)?);
    }
    set.build().map_err(failed)
}

async fn list(
    unwanted: GlobSet,
    fact: PathFact,
    cx: PlanContext,
    run: RunContext,
) -> Result<ToolOutput, ToolError> {
    check_folder(&fact, &cx).await?;
    let sieve = Sieve::new(&fact, &cx);
    let cancel = run.cancel.child_token();
    let _cancel_on_drop = cancel.clone().drop_guard();
    let mut tree = Tree::new(fact.target.clone());
    let mut level = vec![0];
    for _ in 0..MAX_DEPTH {
        let mut deeper = Vec::new();
        for folder in level {
            let path = tree.nodes[folder].path.clone();
            let (skip, stop, root) = (unwanted.clone(), cancel.clone(), fact.target.clone());
            let listed = blocking(move || read(&path, &root, &skip, &stop)).await;
            let entries = permitted(listed, &sieve, &cx).await;
            deeper.extend(tree.fill(folder, entries));
        }
        level = deeper;
    }
    Ok(output(&fact, &cx, &tree, &sieve))
}

/// What a folder holds, or why it could not be listed.
type Listed = Result<Vec<Entry>, String>;

struct Entry {
    path: PathBuf,
    kind: EntryKind,
    /// Ignore files name it.
    ignored: bool,
}

fn read(folder: &Path, root: &Path, unwanted: &GlobSet, cancel: &CancellationToken) -> Listed {
    let listing = Folder::open(folder).and_then(|folder| folder.list(MAX_LISTED));
    let listing = listing.map_err(|error| {
        let HostError::Io { error, .. } = error else { return error.to_string() };
        error.to_string()
    })?;
    let tracked = tracked(folder, cancel);
    let mut entries = Vec::new();
    for host::Entry { name, kind } in listing {
        let path = folder.join(&name);
        if !unwanted.is_match(path.strip_prefix(root).unwrap_or(&path)) {
            entries.push(Entry { path, kind, ignored: !tracked.contains(&name) });
        }
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

/// The names in a folder that no ignore file names.
fn tracked(folder: &Path, cancel: &CancellationToken) -> HashSet<OsString> {
    let walk = WalkBuilder::new(folder).hidden(false).max_depth(Some(1)).build();
    let entries = walk.take_while(|_| !cancel.is_cancelled()).flatten().filter(|entry| entry.depth() == 1);
    entries.take(MAX_LISTED).map(|entry| entry.file_name().to_owned()).collect()
}

/// Takes out what permission rules cover, links to it too.
async fn permitted(listed: Listed, sieve: &Sieve, cx: &PlanContext) -> Listed {
    let mut kept = Vec::new();
    for entry in listed? {
        let is_open = match (&entry.kind, entry.path.to_str()) {
            (EntryKind::Link(_), Some(path)) => match cx.host.resolve(path, &cx.cwd).await {
                Ok(leads) => sieve.lets_link_through(&entry.path, &leads),
                Err(_) => sieve.lets_through(&entry.path),
            },
            (EntryKind::Link(_) | EntryKind::File | EntryKind::Folder | EntryKind::Special, _) => {
                sieve.lets_through(&entry.path)
            }
        };
        if is_open {
            kept.push(entry);
        }
    }
    Ok(kept)
}

/// A folder tree under construction; the first node is the start.
struct Tree {
    nodes: Vec<Node>,
}

struct Node {
    path: PathBuf,
    kind: EntryKind,
    ignored: bool,
    content: Content,
}

/// What is known of a folder's content.
#[derive(Debug, PartialEq, Eq)]
enum Content {
    Unopened,
    Shown(Vec<usize>),
    /// So many entries that only some, or none, are shown.
    Cut {
        shown: Vec<usize>,
        total: usize,
    },
    Failed(String),
}

impl Tree {
    fn new(root: PathBuf) -> Self {
        Self {
            nodes: vec![Node {
                path: root,
                kind: EntryKind::Folder,
                ignored: false,
                content: Content::Unopened,
            }],
        }
    }

    /// Puts a folder's entries into the tree, as many as there is room for, and returns the folders
    /// among them that are worth opening.
    fn fill(&mut self, folder: usize, listed: Listed) -> Vec<usize> {
        let entries = match listed {
            Ok(entries) => entries,
            Err(reason) => {
                self.nodes[folder].content = Content::Failed(reason);
                return Vec::new();
            }
        };
        let total = entries.len();
        let room = MAX_ENTRIES + 1 - self.nodes.len();
        // Half a folder says less than its size, except at the very start.
        let take = if total <= room || folder == 0 { total.min(room) } else { 0 };
        let first = self.nodes.len();
        for Entry { path, kind, ignored } in entries.into_iter().take(take) {
            self.nodes.push(Node { path, kind, ignored, content: Content::Unopened });
        }
        let shown: Vec<usize> = (first..self.nodes.len()).collect();
        let worth_opening = |node: &Node| {
            node.kind == EntryKind::Folder
                && !node.ignored
                && node.path.file_name().is_none_or(|name| name != ".git")
        };
        let deeper = shown.iter().copied().filter(|node| worth_opening(&self.nodes[*node])).collect();
        self.nodes[folder].content =
            if take == total { Content::Shown(shown) } else { Content::Cut { shown, total } };
        deeper
    }

    fn write(&self, text: &mut String, node: usize, depth: usize) {
        let indent = "  ".repeat(depth);
        // Writing to a string cannot fail.
        let (shown, more) = match &self.nodes[node].content {
            Content::Unopened => (&[][..], None),
            Content::Shown(shown) => (shown.as_slice(), None),
            Content::Cut { shown, total } => (shown.as_slice(), Some(total - shown.len())),
            Content::Failed(reason) => {
                let _ = write!(text, "\n{indent}[cannot be listed: {reason}]");
                (&[][..], None)
            }
        };
        for child in shown {
            let Node { path, kind, ignored, content } = &self.nodes[*child];
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let mark = match kind {
                EntryKind::Folder if *content == Content::Unopened && !ignored => "/ …".to_owned(),
                EntryKind::Folder => "/".to_owned(),
                EntryKind::Link(end) => format!(" -> {}", end.display()),
                EntryKind::File => String::new(),
                EntryKind::Special => " [not a regular file]".to_owned(),
            };
            let _ = write!(text, "\n{indent}{name}{mark}{}", if *ignored { " [ignored]" } else { "" });
            self.write(text, *child, depth + 1);
        }
        if let Some(more) = more {
            let of_all = if shown.is_empty() { "" } else { " more" };
            let _ = write!(text, "\n{indent}[{more}{of_all} entries]");
        }
    }
}

fn output(fact: &PathFact, cx: &PlanContext, tree: &Tree, sieve: &Sieve) -> ToolOutput {
    let start = shown(&fact.requested, &cx.cwd);
    let mut text = format!("{}/", start.trim_end_matches('/'));
    if tree.nodes[0].content == Content::Shown(Vec::new()) {
        text.push_str("\n  [empty]");
    }
    tree.write(&mut text, 0, 1);
    let cut = tree.nodes.iter().any(|node| matches!(node.content, Content::Cut { .. }));
    let unopened = tree
        .nodes
        .iter()
        .any(|node| node.kind == EntryKind::Folder && !node.ignored && node.content == Content::Unopened);
    text.push_str(&sieve.note());
    let below = |node: &Node| shown(&node.path, &fact.target);
    let paths: Vec<String> = tree.nodes[1..].iter().map(below).collect();
    let structured = json!({
        "path": fact.requested.to_string_lossy(),
        "entries": paths,
        "numEntries": paths.len(),
        "truncated": cut || unopened,
    });
    ToolOutput::text(text, structured)
}
