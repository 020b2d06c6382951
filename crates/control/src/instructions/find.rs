//! Where instructions can stand, in the order in which they count: from those for everybody to those for this very
//! folder. Only names and owners are looked at here; nothing is read.

use super::{Places, Sources};
use globset::GlobSet;
use ostler_proto::{InstructionScope, LoadReason};
use std::{
    collections::HashSet,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// A file that may hold instructions, if it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) scope: InstructionScope,
    pub(super) reason: LoadReason,
    pub(super) parent: Option<PathBuf>,
    pub(super) trigger: Option<PathBuf>,
    pub(super) kind: Kind,
    /// The folder that the file, and what it imports, must not lead out of without trust.
    pub(super) bounds: Option<PathBuf>,
    pub(super) owner: Owner,
}

/// What the file is to the folder it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Counts as a whole.
    Whole,
    /// A rule, whose head may name the files it is about, by paths relative to one of these.
    Rule(Vec<PathBuf>),
}

/// Who must own the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// Nobody in particular.
    Anybody,
    /// The user, or root: it stands beside the project, where others might put something.
    User,
    /// The machine's owner.
    Machine(u32),
}

/// Names in the folders of the machine's owner and of the user.
const OWN: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// Names in a project's folder.
const PROJECT: [&str; 4] = ["AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", ".ostler/AGENTS.md"];
const PROJECT_RULES: [&str; 2] = [".claude/rules", ".ostler/rules"];
/// Names of what the user keeps to themselves in a project's folder.
const LOCAL: [&str; 2] = ["CLAUDE.local.md", "AGENTS.local.md"];
/// Folders of other people's code: who reads it does not work for its authors.
const FOREIGN: [&str; 9] = [
    ".git",
    "node_modules",
    "bower_components",
    "vendor",
    "third_party",
    ".venv",
    "venv",
    "site-packages",
    ".cargo",
];
/// More rules than these, or more folders and names to find them in, are not looked for.
const MOST_RULES: usize = 256;
const MOST_FOLDERS: usize = 128;
const MOST_ENTRIES: usize = 4096;

/// Everything that counts from the start, in order; files need not be there.
pub(super) fn at_start(places: &Places) -> Vec<Candidate> {
    let mut all = Vec::new();
    let machine = Owner::Machine(places.managed_owner);
    for folder in &places.managed {
        all.extend(own(folder, places, InstructionScope::Managed, machine));
    }
    if places.sources.user {
        for folder in &places.user {
            all.extend(own(folder, places, InstructionScope::User, Owner::Anybody));
        }
    }
    let mut folders: Vec<&Path> = places.cwd.ancestors().collect();
    folders.reverse();
    for folder in folders.into_iter().chain(places.more.iter().map(PathBuf::as_path)) {
        all.extend(in_folder(places, folder, LoadReason::SessionStart));
    }
    all
}

/// What a folder of the project, or above it, says; nothing if others could have put it there.
pub(super) fn in_folder(places: &Places, folder: &Path, reason: LoadReason) -> Vec<Candidate> {
    let Sources { project, local, .. } = places.sources;
    let is_inside =
        folder.starts_with(&places.project) || places.more.iter().any(|more| folder.starts_with(more));
    if !(project || local) || !(is_inside || is_private(folder)) {
        return Vec::new();
    }
    let candidate = |path: PathBuf, scope| Candidate {
        path,
        scope,
        reason,
        parent: None,
        trigger: None,
        kind: Kind::Whole,
        bounds: Some(if folder.starts_with(&places.project) { &places.project } else { folder }.to_owned()),
        owner: if is_inside { Owner::Anybody } else { Owner::User },
    };
    let mut all = Vec::new();
    if project {
        // The user's own folders may lie on the way; they are another source.
        let is_users = |path: &Path| places.user.iter().any(|own| path.starts_with(own));
        let whole = PROJECT.iter().map(|name| folder.join(name)).filter(|path| !is_users(path));
        all.extend(whole.map(|path| candidate(path, InstructionScope::Project)));
        for rules in PROJECT_RULES.iter().map(|name| folder.join(name)).filter(|path| !is_users(path)) {
            all.extend(markdown_below(&rules).into_iter().map(|path| Candidate {
                kind: Kind::Rule(vec![folder.to_owned()]),
                ..candidate(path, InstructionScope::Project)
            }));
        }
    }
    if local {
        all.extend(LOCAL.iter().map(|name| candidate(folder.join(name), InstructionScope::Local)));
    }
    all
}

/// The folders between the project and a touched file that were not looked at from the start, outermost first.
pub(super) fn below<'a>(places: &'a Places, touched: &'a Path) -> impl Iterator<Item = &'a Path> {
    let roots = std::iter::once(&places.project).chain(&places.more);
    let root = roots.filter(|root| touched.starts_with(root)).max_by_key(|root| root.as_os_str().len());
    let folders = touched.ancestors().skip(1).take_while(move |folder| {
        root.is_some_and(|root| folder.starts_with(root) && *folder != root.as_path())
    });
    let is_foreign = |folder: &Path| {
        let inside = root.and_then(|root| folder.strip_prefix(root).ok()).into_iter().flat_map(Path::iter);
        inside.into_iter().any(|name| FOREIGN.iter().any(|foreign| name == *foreign))
    };
    let mut folders: Vec<&Path> =
        folders.filter(|folder| !places.cwd.starts_with(folder) && !is_foreign(folder)).collect();
    folders.reverse();
    folders.into_iter()
}

/// What a folder of the machine's owner or of the user says.
fn own(folder: &Path, places: &Places, scope: InstructionScope, owner: Owner) -> Vec<Candidate> {
    let candidate = |path: PathBuf| Candidate {
        path,
        scope,
        reason: LoadReason::SessionStart,
        parent: None,
        trigger: None,
        kind: Kind::Whole,
        bounds: None,
        owner,
    };
    let mut all: Vec<Candidate> = OWN.iter().map(|name| candidate(folder.join(name))).collect();
    let bases = vec![places.cwd.clone(), places.project.clone()];
    all.extend(
        markdown_below(&folder.join("rules"))
            .into_iter()
            .map(|path| Candidate { kind: Kind::Rule(bases.clone()), ..candidate(path) }),
    );
    all
}

/// The markdown files of a folder of rules and of those in it, by name. A folder that is a link counts once.
fn markdown_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut ahead = vec![folder.to_owned()];
    // A link may lead to a tree of any size.
    while let Some(folder) = ahead.pop().filter(|_| seen.len() < MOST_FOLDERS && found.len() < MOST_RULES) {
        // Mostly there is none, and then this is the only look.
        let Ok(entries) = folder.read_dir() else { continue };
        if !folder.canonicalize().is_ok_and(|real| seen.insert(real)) {
            continue;
        }
        let mut paths: Vec<PathBuf> =
            entries.take(MOST_ENTRIES).filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        let is_rule = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
        let (rules, others): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(is_rule);
        found.extend(rules);
        ahead.extend(others.into_iter().rev().filter(|path| path.is_dir()));
    }
    found.sort();
    found.truncate(MOST_RULES);
    found
}

/// Whether only the user and root can put files in a folder, or where others can, none can be taken for theirs.
fn is_private(folder: &Path) -> bool {
    let Ok(metadata) = folder.metadata() else { return false };
    let user = rustix::process::geteuid().as_raw();
    let is_sticky = metadata.mode() & 0o1000 != 0;
    // Many systems give each user a group of their own, which may write what is theirs.
    let open = if metadata.uid() == user { 0o002 } else { 0o022 };
    [0, user].contains(&metadata.uid()) && (is_sticky || metadata.mode() & open == 0)
}

impl Candidate {
    /// The same, because this file was touched.
    pub(super) fn because_of(mut self, touched: &Path) -> Self {
        self.trigger = Some(touched.to_owned());
        self
    }

    /// Whether a rule is about this file.
    pub(super) fn is_about(&self, patterns: &GlobSet, touched: &Path) -> bool {
        let Kind::Rule(bases) = &self.kind else { return false };
        bases.iter().any(|base| touched.strip_prefix(base).is_ok_and(|path| patterns.is_match(path)))
    }
}
