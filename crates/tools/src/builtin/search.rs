//! What `Grep` and `Glob` share: where a search starts, and keeping the newest files of many.

use crate::{
    PlanContext,
    host::{HostError, Kind, Stat},
};
use ostler_proto::{PathFact, ToolError};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Makes sure that a search can start at a path.
pub(super) async fn check_root(fact: &PathFact, cx: &PlanContext) -> Result<Stat, ToolError> {
    let path = || fact.requested.clone();
    if ["/proc", "/sys"].iter().any(|tree| fact.target.starts_with(tree)) {
        return Err(HostError::Special { path: path(), kind: "part of the kernel's own trees" }.into());
    }
    let stat = cx.host.stat(&fact.target).await?.ok_or_else(|| HostError::Missing(path()))?;
    match stat.kind {
        Kind::File | Kind::Directory => Ok(stat),
        Kind::Special(kind) => Err(HostError::Special { path: path(), kind }.into()),
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
