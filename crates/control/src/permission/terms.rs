//! The terms a call's processes run on. The rules that judge a command line also bound what the
//! operating system lets it do; where the two disagree, the stricter wins.

use super::{
    Class, Line, Policy, command,
    path::{self, GitWork},
    patterns,
    shell::{
        facts::{How, Word},
        table::canonical,
    },
};
use ostler_proto::Json;
use ostler_tools::host::{Bounds, Confinement, Network, Terms};
use std::path::{Path, PathBuf};

/// How command lines are confined.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sandboxing {
    /// Whether commands are to be confined.
    pub demand: Demand,
    /// Whether they are: it is wanted, and this machine can.
    pub in_force: bool,
    /// Whether a confined command needs no further leave.
    pub auto_allow: bool,
    /// Patterns of commands that run outside, on the usual permissions.
    pub excluded: Vec<String>,
    /// Whether a command may ask to run outside.
    pub may_leave: bool,
    /// Trees that may be written beside the working directories.
    pub writable: Vec<PathBuf>,
    /// Paths that may not be written, wherever they are.
    pub frozen: Vec<PathBuf>,
    /// Paths that may not be read.
    pub hidden: Vec<PathBuf>,
    /// Hosts that may be reached.
    pub hosts: Vec<String>,
    /// Hosts that may not, whatever else names them.
    pub denied_hosts: Vec<String>,
    /// Where temporary files of the session go.
    pub temp: Option<PathBuf>,
}

/// Whether commands are to be confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Demand {
    /// No.
    #[default]
    Off,
    /// Where the machine can.
    Wanted,
    /// Or they do not run at all.
    Required,
}

/// Keeps git from running what a repository's own configuration names, when it is only to look.
const GIT_LOOKS_ONLY: [(&str, &str); 12] = [
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.sshCommand", "false"),
    ("core.askPass", "false"),
    ("credential.helper", ""),
    ("gpg.program", "false"),
    ("log.showSignature", "false"),
    ("safe.bareRepository", "explicit"),
    // Git runs itself in submodules, without these overrides.
    ("diff.ignoreSubmodules", "all"),
    ("diff.submodule", "short"),
    ("status.submoduleSummary", "false"),
];
/// Attributes come from the tree that holds nothing: no filter and no text conversion is named.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Where people keep what opens other doors, below their home.
const SECRETS: [&str; 16] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".kube",
    ".docker/config.json",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".config/gh",
    ".cargo/credentials.toml",
    ".cargo/credentials",
    ".local/share/keyrings",
    ".password-store",
];

/// Places that no command may read and no text may be taken from.
pub(crate) fn secrets(home: &Path) -> impl Iterator<Item = PathBuf> {
    SECRETS.iter().map(|name| home.join(name))
}

impl Policy {
    /// Whether the input of a call asks to leave the sandbox, and whether that means anything.
    pub(super) fn asks_to_leave(&self, input: &Json) -> bool {
        let asks = input.get("dangerouslyDisableSandbox").and_then(Json::as_bool) == Some(true);
        asks && self.sandboxing.in_force && self.sandboxing.may_leave
    }

    /// Whether the line runs outside the sandbox by the user's settings.
    pub(super) fn is_excluded(&self, line: &Line) -> bool {
        self.sandboxing.excluded.iter().any(|pattern| command::is_named(pattern, line))
    }

    /// On which terms the processes of an approved call run.
    pub fn terms(&self, input: &Json, line: Option<&Line>) -> Terms {
        let class = line.map(|line| line.class(self));
        let looks_only = class == Some(Class::ReadOnly);
        let confinement = match line {
            _ if !self.sandboxing.in_force => Confinement::Free,
            // A flag of the model's cannot loosen what was let through for being harmless.
            _ if !looks_only && self.asks_to_leave(input) => Confinement::Free,
            Some(line) if !looks_only && self.is_excluded(line) => Confinement::Free,
            line => Confinement::Within(self.bounds(line, looks_only)),
        };
        let mut env = Vec::new();
        if looks_only && line.is_some_and(Line::reads_git) {
            env.extend(git_looks_only());
        }
        if let (Confinement::Within(_), Some(temp)) = (&confinement, &self.sandboxing.temp) {
            env.push(("TMPDIR".to_owned(), temp.display().to_string()));
        }
        Terms { confinement, env, hold: None }
    }

    /// Hosts that settings and allow rules open to every confined command.
    fn hosts(&self) -> Vec<String> {
        let domains = self.rules.allow.iter().filter(|rule| rule.tool == "WebFetch");
        let domains =
            domains.filter_map(|rule| rule.pattern.as_deref()?.strip_prefix("domain:")).map(str::to_owned);
        let denied = &self.sandboxing.denied_hosts;
        self.sandboxing
            .hosts
            .iter()
            .cloned()
            .chain(domains)
            .filter(|host| host != "*" && !denied.contains(host))
            .collect()
    }

    /// What an approved command may touch: the working directories, and what it said it would.
    fn bounds(&self, line: Option<&Line>, looks_only: bool) -> Bounds {
        let said: Vec<PathBuf> = line
            .iter()
            .flat_map(|line| line.touched.iter().flatten())
            .filter(|touched| touched.how != How::Read)
            .filter_map(|touched| Some(touched.fact.as_ref()?.target.clone()))
            .collect();
        let mut writable: Vec<PathBuf> = self.sandboxing.temp.iter().cloned().collect();
        if !looks_only {
            writable.extend(self.roots.iter().chain(&self.sandboxing.writable).cloned());
            // Making, renaming and removing a file are changes of its folder; and a path that was made
            // writable by itself could be none of these.
            let elsewhere = said.iter().filter(|path| !self.roots.iter().any(|root| path.starts_with(root)));
            writable.extend(elsewhere.filter_map(|path| path.parent()).map(Path::to_owned));
        }
        let was_approved =
            |frozen: &Path| said.iter().any(|path| path.starts_with(frozen) || frozen.starts_with(path));
        let (mut frozen, mut kept) = (self.sandboxing.frozen.clone(), Vec::new());
        if !looks_only {
            let git = line.map_or(GitWork::None, git_work);
            let protected = self.roots.iter().flat_map(|root| path::protected_below(root, git));
            frozen.extend(protected.filter(|frozen| !was_approved(frozen)));
            kept.extend(
                self.roots.iter().flat_map(|root| path::kept_below(root)).filter(|kept| !was_approved(kept)),
            );
        }
        let mut hidden: Vec<PathBuf> = secrets(&self.home).collect();
        hidden.extend(self.sandboxing.hidden.iter().cloned());
        // What rules deny by a plain path is denied to processes as well.
        let denied = |tool: &str| {
            let rules = self.rules.deny.iter().filter(move |rule| rule.tool == tool);
            rules.filter_map(|rule| patterns::plain_path(rule, self)).collect::<Vec<_>>()
        };
        hidden.extend(denied("Read"));
        kept.extend(denied("Edit"));
        let network = match line {
            Some(line) if line.footprint().network && line.reading.problem.is_none() => Network::Open,
            Some(_) | None => match self.hosts() {
                hosts if hosts.is_empty() => Network::Cut,
                hosts => Network::Hosts(hosts),
            },
        };
        Bounds { writable, frozen, kept, hidden, network }
    }
}

/// What the git commands of an approved line need of a repository's own folder.
fn git_work(line: &Line) -> GitWork {
    let commands = line.reading.commands.iter().filter(|command| !command.effects.git);
    let subcommands = commands.filter_map(|command| {
        let words = canonical(&command.words);
        (words.first()?.known() == Some("git"))
            .then(|| words.get(1).and_then(Word::known).unwrap_or_default().to_owned())
    });
    let makes = |sub: String| ["init", "clone", "worktree", "submodule", ""].contains(&sub.as_str());
    subcommands
        .map(|sub| if makes(sub) { GitWork::Makes } else { GitWork::Changes })
        .max()
        .unwrap_or(GitWork::None)
}

fn git_looks_only() -> impl Iterator<Item = (String, String)> {
    let count = ("GIT_CONFIG_COUNT".to_owned(), GIT_LOOKS_ONLY.len().to_string());
    let fixed = [("GIT_OPTIONAL_LOCKS", "0"), ("GIT_NO_LAZY_FETCH", "1"), ("GIT_ATTR_SOURCE", EMPTY_TREE)];
    let fixed = fixed.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let pairs = GIT_LOOKS_ONLY.iter().enumerate().flat_map(|(index, (key, value))| {
        [
            (format!("GIT_CONFIG_KEY_{index}"), (*key).to_owned()),
            (format!("GIT_CONFIG_VALUE_{index}"), (*value).to_owned()),
        ]
    });
    std::iter::once(count).chain(fixed).chain(pairs)
}
