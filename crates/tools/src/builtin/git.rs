//! `GitSummary`: branch, status, changes and recent commits in one call, without running anything that the
//! repository's own configuration names. It only reads.

mod porcelain;

use super::{parse, resolve, spec};
use crate::{
    Effect, Plan, PlanContext, Progress, ReadPolicy, RunContext, Sight, Tool,
    host::{Exit, Host, Line, Recording, Shell, Terms},
    text,
};
use futures_util::future::BoxFuture;
use ostler_proto::{Access, Block, Intent, Interrupt, Json, Preview, ToolError, ToolOutput, ToolSpec};
use porcelain::{Change, Status};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio_util::sync::CancellationToken;

const DESCRIPTION: &str =
    "Shows branch, status, staged and unstaged diff and recent commits of the working directory in one call.";

/// Longest part of a diff that is shown, in characters.
const MAX_DIFF: usize = 12_000;
const MAX_FILES: usize = 200;
const MAX_LOG: u32 = 50;
const DEFAULT_LOG: u32 = 10;
/// What is kept of each end of what a git prints.
const KEPT: usize = 512 * 1024;
const PATIENCE: Duration = Duration::from_secs(20);
/// With more files to leave out than this, no diff is shown.
const MAX_EXCLUDED: usize = 300;

/// Settings that name programs, or make git look where it should not, set to something harmless. On the
/// command line they win over the repository's own.
const HARMLESS: [&str; 23] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.pager=cat",
    "core.sshCommand=false",
    "core.askPass=false",
    "core.quotePath=false",
    "color.ui=never",
    "credential.helper=",
    "diff.external=",
    "diff.ignoreSubmodules=all",
    "diff.submodule=short",
    "diff.noprefix=false",
    "diff.orderFile=/dev/null",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "gpg.x509.program=false",
    "log.showSignature=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "status.submoduleSummary=false",
    "submodule.recurse=false",
    "gc.auto=0",
];

/// The same for the environment. A partial clone would otherwise fetch what is missing.
const SURROUNDINGS: [(&str, &str); 5] = [
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("LC_ALL", "C"),
];

/// Diffs that run neither a differ nor a converter.
const DIFF: [&str; 7] = [
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--ignore-submodules=all",
    "--stat=100",
    "--patch",
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// How many commits: 10 unless told, at most 50.
    commits: Option<u32>,
}

/// The tool.
pub(super) struct GitSummary {
    spec: ToolSpec,
}

/// A repository, and how git is run in it.
struct Git {
    host: Arc<dyn Host>,
    cwd: PathBuf,
    terms: Terms,
}

/// Which changes a diff shows.
#[derive(Debug, Clone, Copy)]
enum Side {
    Staged,
    Unstaged,
}

impl GitSummary {
    pub(super) fn new() -> Self {
        Self { spec: spec::<Input>("GitSummary", DESCRIPTION, Interrupt::Cancel) }
    }
}

impl Tool for GitSummary {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("GitSummary", input)?;
            let fact = resolve(".", cx).await?;
            let intent = Intent {
                title: "Look at the git repository".to_owned(),
                access: Access::Read { paths: vec![fact] },
                preview: Preview::None,
            };
            let cx = cx.clone();
            let commits = input.commits.unwrap_or(DEFAULT_LOG).clamp(1, MAX_LOG);
            Ok(Plan { intent, effect: Effect::new(move |run| summarise(commits, cx, run)) })
        })
    }
}

async fn summarise(commits: u32, cx: PlanContext, run: RunContext) -> Result<ToolOutput, ToolError> {
    let mut git = Git { host: Arc::clone(&cx.host), cwd: cx.cwd.clone(), terms: run.terms };
    let top = git.neutralise().await?;
    let status =
        git.run(["status", "--porcelain=v2", "-z", "--branch", "--ignore-submodules=all", "--", "."]);
    let count = format!("-n{commits}");
    let log = ["log", &count, "--no-show-signature", "--no-notes", "--date=short", "--format=%h %ad %an: %s"];
    let log = git.run(log);
    let (status, log, [staged, unstaged], hidden) = if cx.read_policy.is_open() {
        let (status, log, staged, unstaged) =
            tokio::join!(status, log, git.diff(Side::Staged, &[]), git.diff(Side::Unstaged, &[]));
        (Status::parse(&status?), log, [staged?, unstaged?], 0)
    } else {
        let (status, log) = tokio::join!(status, log);
        let mut status = Status::parse(&status?);
        let hidden = hide(&mut status, &top, &cx.read_policy);
        let diffs = git.diffs_without(&hidden).await?;
        (status, log, diffs, hidden.len())
    };
    // A branch without a commit has no log, which git calls an error.
    let log = String::from_utf8_lossy(&log.unwrap_or_default()).into_owned();
    let mut output = told(&status, &text::clean(&log), [&staged, &unstaged], hidden);
    if top != cx.cwd
        && let Some(Block::Text(text)) = output.content.first_mut()
    {
        text.insert_str(0, &format!("Paths are counted from {}\n", top.display()));
    }
    Ok(output)
}

impl Git {
    /// Finds out what must be switched off in this repository, and where its top is.
    async fn neutralise(&mut self) -> Result<PathBuf, ToolError> {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        self.terms.env.extend(SURROUNDINGS.map(owned));
        let where_ = self.run(["rev-parse", "--show-object-format", "--show-toplevel"]);
        let filters = self.run(["config", "--null", "--name-only", "--get-regexp", r"^filter\."]);
        let (where_, filters) = tokio::join!(where_, filters);
        let where_ = where_.map_err(|error| {
            ToolError::Failed(format!("{} is not in a git working tree: {error}", self.cwd.display()))
        })?;
        let mut lines = where_.splitn(2, |byte| *byte == b'\n');
        let format = lines.next().unwrap_or_default();
        let top = lines.next().unwrap_or_default().trim_ascii_end();
        // Attributes come from the empty tree, so that no file of the repository names a filter; filters
        // that other places name are emptied one by one.
        let empty_tree = if format == b"sha256" {
            "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
        } else {
            "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        };
        self.terms.env.push(owned(("GIT_ATTR_SOURCE", empty_tree)));
        // No filter at all is an error of `git config`, too.
        self.terms.env.extend(without_filters(&filters.unwrap_or_default()));
        Ok(PathBuf::from(OsStr::from_bytes(top)))
    }

    /// Runs one git and returns what it prints.
    async fn run<I: IntoIterator<Item: AsRef<OsStr>>>(&self, args: I) -> Result<Vec<u8>, ToolError> {
        let mut words: Vec<OsString> =
            ["git", "--no-pager", "--no-optional-locks"].map(OsString::from).into();
        words.extend(HARMLESS.iter().flat_map(|setting| ["-c".into(), OsString::from(setting)]));
        words.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        let output = Recording::bytes(KEPT);
        let shell = Shell {
            line: Line::Program(words),
            cwd: self.cwd.clone(),
            terms: self.terms.clone(),
            output: Arc::clone(&output),
            stop: CancellationToken::new(),
        };
        let finished = tokio::time::timeout(PATIENCE, self.host.run(shell, Progress::unseen())).await;
        let finished = finished.map_err(|_| ToolError::failed("git took too long"))??;
        let captured = output.captured();
        match finished.exit {
            Exit::Code(0) => {
                let whole = captured.whole();
                Ok(whole.unwrap_or_else(|| captured.texts().0.into_bytes()))
            }
            Exit::Code(code) => Err(ToolError::Failed(format!("git returned {code}"))),
            Exit::Stopped => Err(ToolError::failed("git was stopped")),
        }
    }

    async fn diff(&self, side: Side, without: &[OsString]) -> Result<String, ToolError> {
        let cached = match side {
            Side::Staged => Some("--cached"),
            Side::Unstaged => None,
        };
        let args = DIFF.into_iter().chain(cached).chain(["--", "."]).map(OsString::from);
        let bytes = self.run(args.chain(without.iter().cloned())).await?;
        Ok(text::clean(&String::from_utf8_lossy(&bytes)))
    }

    /// The staged and the unstaged diff without some files.
    async fn diffs_without(&self, hidden: &BTreeSet<PathBuf>) -> Result<[String; 2], ToolError> {
        if hidden.len() > MAX_EXCLUDED {
            let note = "(not shown: rules about reading speak about too many of the files)".to_owned();
            return Ok([note.clone(), note]);
        }
        let exclude = |path: &PathBuf| {
            let mut spec = OsString::from(":(top,exclude,literal)");
            spec.push(path);
            spec
        };
        let without: Vec<OsString> = hidden.iter().map(exclude).collect();
        let (staged, unstaged) =
            tokio::join!(self.diff(Side::Staged, &without), self.diff(Side::Unstaged, &without));
        Ok([staged?, unstaged?])
    }
}

/// Variables that empty every filter that is configured, given as NUL-separated keys.
fn without_filters(keys: &[u8]) -> Vec<(String, String)> {
    let keys = String::from_utf8_lossy(keys);
    let names: BTreeSet<&str> = keys
        .split('\0')
        .filter_map(|key| key.strip_prefix("filter.")?.rsplit_once('.').map(|(name, _)| name))
        .collect();
    let settings = names.iter().flat_map(|name| {
        [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")]
            .map(|(key, value)| (format!("filter.{name}.{key}"), value.to_owned()))
    });
    let mut vars = Vec::new();
    for (position, (key, value)) in settings.enumerate() {
        vars.push((format!("GIT_CONFIG_KEY_{position}"), key));
        vars.push((format!("GIT_CONFIG_VALUE_{position}"), value));
    }
    let count = vars.len() / 2;
    vars.push(("GIT_CONFIG_COUNT".to_owned(), count.to_string()));
    vars
}

/// Takes out the files that rules keep from being read, and names them.
fn hide(status: &mut Status, top: &Path, policy: &ReadPolicy) -> BTreeSet<PathBuf> {
    let closed = |path: &Path| policy.sight(&top.join(path)) != Sight::Open;
    let mut hidden = BTreeSet::new();
    status.changes.retain(|change| {
        let paths = std::iter::once(&change.path).chain(&change.from);
        let closed: Vec<PathBuf> = paths.filter(|path| closed(path)).cloned().collect();
        let is_open = closed.is_empty();
        hidden.extend(closed);
        is_open
    });
    hidden
}

fn told(status: &Status, log: &str, diffs: [&str; 2], hidden: usize) -> ToolOutput {
    let [staged, unstaged] = diffs.map(|diff| text::cut(diff.trim_end(), MAX_DIFF, ""));
    let files: Vec<String> = status.changes.iter().take(MAX_FILES).map(shown).collect();
    let mut parts = vec![status.branch_line()];
    parts.push(match status.changes.len() {
        0 => "Nothing changed.".to_owned(),
        all if all > MAX_FILES => {
            format!("Status:\n{}\n… {} more files", files.join("\n"), all - MAX_FILES)
        }
        _ => format!("Status:\n{}", files.join("\n")),
    });
    if hidden > 0 {
        let files = if hidden == 1 { "1 file was".to_owned() } else { format!("{hidden} files were") };
        parts.push(format!("[{files} left out because of rules about reading]"));
    }
    for (name, part) in [
        ("Staged changes", &staged),
        ("Unstaged changes", &unstaged),
        ("Recent commits", &log.trim_end().to_owned()),
    ] {
        if !part.is_empty() {
            parts.push(format!("{name}:\n{part}"));
        }
    }
    let structured = json!({
        "branch": status.branch, "upstream": status.upstream, "ahead": status.ahead, "behind": status.behind,
        "files": files, "numFiles": status.changes.len(), "staged": staged, "unstaged": unstaged,
        "log": log.lines().collect::<Vec<_>>(),
    });
    ToolOutput::text(parts.join("\n\n"), structured)
}

fn shown(change: &Change) -> String {
    let path = |path: &Path| text::clean(&path.to_string_lossy()).replace('\n', " ");
    match &change.from {
        Some(from) => format!("{} {} -> {}", change.state, path(from), path(&change.path)),
        None => format!("{} {}", change.state, path(&change.path)),
    }
}
