//! What `Grep`, `Glob` and `LS` share: where a search starts, which files it may look into, and
//! keeping the newest of many; and what is said where nothing is there. The rules themselves are not here; they are asked.

use super::shown;
use crate::{
    PlanContext, ReadPolicy, Sight,
    host::{Folder, Host, HostError, Kind, Stat, blocking},
};
use ignore::WalkBuilder;
use ostler_proto::{PathFact, ToolError};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::SystemTime,
};

/// Trees the kernel makes up: reading there may block or have effects.
const KERNEL_TREES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Whether a file stands at a path, looked at without opening it.
pub(super) async fn is_file(host: &dyn Host, target: &Path) -> Result<bool, HostError> {
    Ok(host.stat(target).await?.is_some_and(|stat| stat.kind == Kind::File))
}

/// Makes sure that a search can start at a path.
pub(super) async fn check_root(fact: &PathFact, cx: &PlanContext) -> Result<Stat, ToolError> {
    let path = || fact.requested.clone();
    if KERNEL_TREES.iter().any(|tree| fact.target.starts_with(tree)) {
        return Err(HostError::Special { path: path(), kind: "part of the kernel's own trees" }.into());
    }
    let Some(stat) = cx.host.stat(&fact.target).await? else { return Err(missing(fact, cx).await) };
    match stat.kind {
        Kind::File | Kind::Directory => Ok(stat),
        Kind::Special(kind) => Err(HostError::Special { path: path(), kind }.into()),
    }
}

/// The same for what can only start at a folder.
pub(super) async fn check_folder(fact: &PathFact, cx: &PlanContext) -> Result<(), ToolError> {
    match check_root(fact, cx).await?.kind {
        Kind::Directory => Ok(()),
        Kind::File | Kind::Special(_) => {
            Err(ToolError::Failed(format!("{} is a file, not a directory", fact.requested.display())))
        }
    }
}

/// A walk from here that stays out of the kernel's trees.
pub(super) fn walk_from(root: &Path) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    if KERNEL_TREES.iter().any(|tree| Path::new(tree).starts_with(root)) {
        builder.filter_entry(|entry| !KERNEL_TREES.iter().any(|tree| entry.path() == Path::new(tree)));
    }
    builder
}

/// Says that nothing is there, and what is there under a similar name.
pub(super) async fn missing(fact: &PathFact, cx: &PlanContext) -> ToolError {
    let (target, policy) = (fact.target.clone(), cx.read_policy.clone());
    let (gap, similar) = blocking(move || {
        let gap = first_missing(&target);
        let similar = similar_names(&gap, &policy);
        (gap, similar)
    })
    .await;
    let path = fact.requested.display();
    let folder = if gap == fact.target {
        String::new()
    } else {
        format!("; there is no folder {}", shown(&gap, &cx.cwd))
    };
    let hint = if similar.is_empty() {
        format!("the working directory is {}", cx.cwd.display())
    } else {
        format!("similar names in that folder: {}", similar.join(", "))
    };
    ToolError::Failed(format!("{path} does not exist{folder}; {hint}"))
}

/// The first part of a path that is not there.
fn first_missing(target: &Path) -> PathBuf {
    let missing = |path: &&Path| path.symlink_metadata().is_err();
    target.ancestors().take_while(missing).last().unwrap_or(target).to_owned()
}

fn similar_names(target: &Path, policy: &ReadPolicy) -> Vec<String> {
    const MANY: usize = 5000;
    let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else { return Vec::new() };
    // Names are a courtesy: a folder that cannot be listed has none to offer.
    let Ok(entries) = Folder::open(folder).and_then(|folder| folder.list(MANY)) else { return Vec::new() };
    let is_open = |name: &OsString| policy.sight(&folder.join(name)) == Sight::Open;
    let names = entries.into_iter().map(|entry| entry.name).filter(is_open);
    let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let close = similar::get_close_matches(name.to_string_lossy().as_ref(), &names, 3, 0.6);
    close.into_iter().map(str::to_owned).collect()
}

/// Lets through the files that a search may look into and counts the others. It must be asked
/// before a file is opened: a count that depends on what closed files hold would tell of it.
pub(super) struct Sieve {
    policy: ReadPolicy,
    target: PathBuf,
    /// The other spellings of where the search starts.
    others: Vec<PathBuf>,
    /// The start itself was asked about, and the answer was yes.
    asked: bool,
    hidden: AtomicUsize,
}

impl Sieve {
    pub(super) fn new(fact: &PathFact, cx: &PlanContext) -> Self {
        let policy = cx.read_policy.clone();
        let asked = fact.spellings().any(|path| policy.sight(path) == Sight::Asks);
        let mut others: Vec<PathBuf> = fact.hops.iter().chain([&fact.requested]).cloned().collect();
        others.retain(|path| *path != fact.target);
        Self { policy, target: fact.target.clone(), others, asked, hidden: AtomicUsize::new(0) }
    }

    /// Whether something met below the start may be looked into.
    pub(super) fn lets_through(&self, path: &Path) -> bool {
        if self.policy.is_open() {
            return true;
        }
        let below = path.strip_prefix(&self.target).unwrap_or(path);
        let is_open = self.opens(path) && self.others.iter().all(|start| self.opens(&start.join(below)));
        self.count_unless(is_open)
    }

    /// The same for a link, which also is what it leads to.
    pub(super) fn lets_link_through(&self, path: &Path, leads: &PathFact) -> bool {
        self.policy.is_open()
            || (self.lets_through(path) && self.count_unless(leads.spellings().all(|path| self.opens(path))))
    }

    /// How many were held back.
    pub(super) fn hidden(&self) -> usize {
        self.hidden.load(Ordering::Relaxed)
    }

    /// What the model is told about those held back; never which.
    pub(super) fn note(&self) -> String {
        match self.hidden() {
            0 => String::new(),
            1 => "\n\n[1 file was left out because a permission rule covers it]".to_owned(),
            many => format!("\n\n[{many} files were left out because permission rules cover them]"),
        }
    }

    fn opens(&self, path: &Path) -> bool {
        match self.policy.sight(path) {
            Sight::Open => true,
            Sight::Asks => self.asked,
            Sight::Closed => false,
        }
    }

    fn count_unless(&self, is_open: bool) -> bool {
        if !is_open {
            self.hidden.fetch_add(1, Ordering::Relaxed);
        }
        is_open
    }
}

/// The newest of many files, in bounded memory, and how many there were.
pub(super) struct Newest {
    keep: usize,
    total: usize,
    oldest_first: BinaryHeap<Reverse<(SystemTime, Reverse<PathBuf>)>>,
}

impl Newest {
    pub(super) fn new(keep: usize) -> Self {
        Self { keep, total: 0, oldest_first: BinaryHeap::new() }
    }

    pub(super) fn add(&mut self, path: &Path, modified: SystemTime) {
        self.total += 1;
        if self.oldest_first.len() == self.keep
            && self.oldest_first.peek().is_some_and(|Reverse((oldest, _))| modified < *oldest)
        {
            return;
        }
        self.oldest_first.push(Reverse((modified, Reverse(path.to_owned()))));
        if self.oldest_first.len() > self.keep {
            self.oldest_first.pop();
        }
    }

    /// How many there were, and the kept ones, newest first; by name where the time is the same.
    pub(super) fn finish(self) -> (usize, Vec<PathBuf>) {
        let sorted = self.oldest_first.into_sorted_vec();
        (self.total, sorted.into_iter().map(|Reverse((_, Reverse(path)))| path).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_newest_are_kept_in_order() {
        let mut newest = Newest::new(3);
        for (path, seconds) in [("a", 1), ("d", 4), ("c", 4), ("b", 2), ("e", 3)] {
            newest.add(Path::new(path), SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        }
        assert_eq!(newest.finish(), (5, ["c", "d", "e"].map(PathBuf::from).to_vec()));
    }
}
