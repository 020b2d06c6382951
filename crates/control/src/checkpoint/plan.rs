//! Decides what a rewind puts back and what it leaves alone. Pure: it is given what was logged and
//! what stands there now.

use super::{
    git,
    operation::Logged,
    standing::{Omission, Stamp, Standing},
};
use ostler_proto::SessionId;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
};

/// Whether a rewind may overwrite what others did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// What others changed is kept.
    KeepOthers,
    /// Files that others changed are put in the store and overwritten; a repository that they used is kept.
    OverwriteFiles,
    /// All of it is put in the store and overwritten.
    OverwriteOthers,
}

/// Something a rewind leaves as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Where.
    pub path: PathBuf,
    /// Why.
    pub why: Why,
}

/// Why a rewind leaves something as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// Somebody else changed it after the session did.
    ChangedByOthers,
    /// Somebody else changed it between two changes of the session.
    MixedWithOthers,
    /// It was changed while commands of these sessions were running too, so it may be theirs.
    Shared(BTreeSet<SessionId>),
    /// Somebody else changed the repository it is part of.
    Repository(PathBuf),
    /// Its content was not kept.
    NotCovered(Omission),
    /// Its content in the store is damaged.
    Damaged,
    /// A folder that holds something that is not the session's.
    InUse,
    /// The system refused.
    Failed(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChangedByOthers => f.write_str("changed by others since"),
            Self::MixedWithOthers => f.write_str("changed by others in between"),
            Self::Shared(sessions) => {
                let sessions: Vec<&str> = sessions.iter().map(SessionId::as_str).collect();
                write!(f, "it may have been session {}, which was running a command", sessions.join(" or "))
            }
            Self::Repository(repository) => {
                write!(f, "others have used the repository {} since", repository.display())
            }
            Self::NotCovered(reason) => write!(f, "not covered: {reason}"),
            Self::Damaged => f.write_str("its content in the checkpoint store is damaged"),
            Self::InUse => f.write_str("it holds files of others"),
            Self::Failed(problem) => f.write_str(problem),
        }
    }
}

/// What stands at a path, and its stamp if anything does.
pub(super) type Current = BTreeMap<PathBuf, (Standing, Option<Stamp>)>;

/// One path on its way back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) path: PathBuf,
    pub(super) from: Standing,
    pub(super) to: Standing,
    /// Of what is to be replaced.
    pub(super) stamp: Option<Stamp>,
}

/// What a session did to one path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Course {
    /// How it was first found.
    target: Standing,
    /// How it was last left.
    left: Standing,
    /// All that it was found or left as.
    known: Vec<Standing>,
    /// Whether somebody else changed it in between.
    is_mixed: bool,
    /// Other sessions that may have changed it instead.
    shared: BTreeSet<SessionId>,
}

/// Sums up what a session did, given oldest first, and which of it other sessions may have done.
pub(super) fn courses(
    logged: Vec<Logged>,
    mut doubts: BTreeMap<PathBuf, BTreeSet<SessionId>>,
) -> BTreeMap<PathBuf, Course> {
    let mut courses = BTreeMap::new();
    for Logged { path, before, after, .. } in logged {
        // Absent while a call runs; then nothing more is known than what stood there before.
        let left = after.unwrap_or_else(|| before.clone());
        match courses.entry(path) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                let known = vec![before.clone(), left.clone()];
                let shared = doubts.remove(entry.key()).unwrap_or_default();
                entry.insert(Course { target: before, left, known, is_mixed: false, shared });
            }
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                let course: &mut Course = entry.get_mut();
                // Calls that overlap may find what an earlier one found.
                course.is_mixed |= !course.known.contains(&before);
                course.known.push(left.clone());
                course.left = left;
            }
        }
    }
    courses
}

/// Says what to move where, in the order of paths, and what to keep.
pub(super) fn decide(
    courses: &BTreeMap<PathBuf, Course>,
    current: &Current,
    force: Force,
) -> (Vec<Move>, Vec<Kept>) {
    let mut moves = Vec::new();
    let mut kept = Vec::new();
    for (path, course) in courses {
        let (standing, stamp) = current.get(path).cloned().unwrap_or((Standing::Absent, None));
        if standing == course.target {
            continue;
        }
        match objection(path, course, &standing, force) {
            Some(why) => kept.push(Kept { path: path.clone(), why }),
            None => moves.push(Move { path: path.clone(), from: standing, to: course.target.clone(), stamp }),
        }
    }
    let repositories: BTreeSet<PathBuf> = kept
        .iter()
        .filter(|kept| matches!(kept.why, Why::ChangedByOthers | Why::MixedWithOthers | Why::Shared(_)))
        .filter_map(|kept| git::state_of(&kept.path))
        .collect();
    moves.retain(|step| match git::state_of(&step.path).filter(|state| repositories.contains(state)) {
        None => true,
        Some(repository) => {
            kept.push(Kept { path: step.path.clone(), why: Why::Repository(repository) });
            false
        }
    });
    drop_object_removals(&mut moves);
    kept.sort_by(|a, b| a.path.cmp(&b.path));
    (moves, kept)
}

/// Commits of others may share objects: they go only with their whole repository.
fn drop_object_removals(moves: &mut Vec<Move>) {
    let gone: BTreeSet<PathBuf> = moves
        .iter()
        .filter(|step| step.path.ends_with(".git") && step.to == Standing::Absent)
        .map(|step| step.path.clone())
        .collect();
    moves.retain(|step| {
        step.to != Standing::Absent
            || !git::is_object(&step.path)
            || step.path.ancestors().any(|ancestor| gone.contains(ancestor))
    });
}

fn objection(path: &Path, course: &Course, standing: &Standing, force: Force) -> Option<Why> {
    if let Standing::Uncovered { reason, .. } = course.target {
        return Some(Why::NotCovered(reason));
    }
    let may_force = match force {
        Force::KeepOthers => false,
        Force::OverwriteFiles => git::state_of(path).is_none(),
        Force::OverwriteOthers => true,
    };
    if force != Force::OverwriteOthers && !course.shared.is_empty() {
        // Nobody was asked about the work of another session, and an index alone would not fit what is kept.
        return Some(Why::Shared(course.shared.clone()));
    }
    if let Standing::Uncovered { reason, .. } = *standing {
        // Forced, a file goes for good. A whole tree that nobody knows never does.
        let is_single = match reason {
            Omission::TooLarge | Omission::Budget | Omission::Special | Omission::Unreadable => true,
            Omission::TooMany | Omission::OtherDevice | Omission::GitElsewhere => false,
        };
        return (!may_force || !is_single).then_some(Why::NotCovered(reason));
    }
    if let Standing::Uncovered { reason, .. } = course.left {
        return (!may_force).then_some(Why::NotCovered(reason));
    }
    if may_force || git::is_index(path) {
        return None;
    }
    if course.left != *standing {
        return Some(Why::ChangedByOthers);
    }
    course.is_mixed.then_some(Why::MixedWithOthers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::OperationId;
    use ostler_tools::host::Hash;

    fn file(content: u8) -> Standing {
        Standing::File { mode: 0o644, content: Hash::from_bytes([content; 32]) }
    }

    const GONE: Standing = Standing::Absent;

    /// Histories of paths as before/after pairs, what stands there now, and what is moved or kept.
    #[track_caller]
    fn check(history: &[(&str, Standing, Standing)], now: &[(&str, Standing)], force: Force, expect: &str) {
        check_shared(history, &[], now, force, expect);
    }

    /// As [`check`], with the paths that session `b` may have changed instead.
    #[track_caller]
    fn check_shared(
        history: &[(&str, Standing, Standing)],
        shared: &[&str],
        now: &[(&str, Standing)],
        force: Force,
        expect: &str,
    ) {
        let doubts = shared.iter().map(|path| (path.into(), BTreeSet::from(["b".into()]))).collect();
        let logged = history.iter().enumerate().map(|(at, (path, before, after))| Logged {
            operation: OperationId(i64::try_from(at).unwrap()),
            path: path.into(),
            before: before.clone(),
            after: Some(after.clone()),
        });
        let now = now.iter().map(|(path, standing)| (path.into(), (standing.clone(), None))).collect();
        let (moves, kept) = decide(&courses(logged.collect(), doubts), &now, force);
        let moves = moves.iter().map(|step| format!("move {}", step.path.display()));
        let kept = kept.iter().map(|kept| format!("keep {} ({})", kept.path.display(), kept.why));
        assert_eq!(moves.chain(kept).collect::<Vec<_>>().join("; "), expect);
    }

    #[test]
    fn what_only_the_session_changed_goes_back() {
        let (keep, force) = (Force::KeepOthers, Force::OverwriteOthers);
        check(&[("/a", file(1), file(2))], &[("/a", file(2))], keep, "move /a");
        check(&[("/a", file(1), file(2)), ("/a", file(2), file(1))], &[("/a", file(1))], keep, "");
        check(&[("/a", file(1), file(2))], &[("/a", file(3))], keep, "keep /a (changed by others since)");
        check(&[("/a", file(1), file(2))], &[("/a", file(3))], force, "move /a");
        check(&[("/a", file(1), file(2))], &[], keep, "keep /a (changed by others since)");
        let overlapping = [("/a", GONE, file(2)), ("/a", GONE, file(2))];
        check(&overlapping, &[("/a", file(2))], keep, "move /a");
        let mixed = [("/a", file(1), file(2)), ("/a", file(3), file(4))];
        check(&mixed, &[("/a", file(4))], keep, "keep /a (changed by others in between)");
        check(&mixed, &[("/a", file(4))], force, "move /a");
        check(&mixed, &[("/a", file(4))], Force::OverwriteFiles, "move /a");
    }

    #[test]
    fn a_repository_goes_back_whole_or_not_at_all_and_keeps_its_objects() {
        let commit = [
            ("/p/.git/index", file(1), file(2)),
            ("/p/.git/objects/ab/cd", GONE, file(9)),
            ("/p/.git/refs/heads/main", file(3), file(4)),
        ];
        let now = |main| {
            [
                ("/p/.git/index", file(7)),
                ("/p/.git/objects/ab/cd", file(9)),
                ("/p/.git/refs/heads/main", main),
            ]
        };
        let keep = Force::KeepOthers;
        check(&commit, &now(file(4)), keep, "move /p/.git/index; move /p/.git/refs/heads/main");
        check(
            &commit,
            &now(file(5)),
            Force::OverwriteFiles,
            "keep /p/.git/index (others have used the repository /p/.git since); \
             keep /p/.git/refs/heads/main (changed by others since)",
        );
        check(
            &commit,
            &now(file(5)),
            keep,
            "keep /p/.git/index (others have used the repository /p/.git since); \
             keep /p/.git/refs/heads/main (changed by others since)",
        );
        let init =
            [("/p/.git", GONE, Standing::Folder { mode: 0o755 }), ("/p/.git/objects/ab/cd", GONE, file(9))];
        let now = [("/p/.git", Standing::Folder { mode: 0o755 }), ("/p/.git/objects/ab/cd", file(9))];
        check(&init, &now, keep, "move /p/.git; move /p/.git/objects/ab/cd");
    }

    #[test]
    fn what_may_be_another_sessions_stays_unless_that_is_said() {
        let theirs = "keep /a (it may have been session b, which was running a command)";
        let one = [("/a", GONE, file(1)), ("/b", GONE, file(2))];
        let now = [("/a", file(1)), ("/b", file(2))];
        check_shared(&one, &["/a"], &now, Force::KeepOthers, &format!("move /b; {theirs}"));
        check_shared(&one, &["/a"], &now, Force::OverwriteFiles, &format!("move /b; {theirs}"));
        check_shared(&one, &["/a"], &now, Force::OverwriteOthers, "move /a; move /b");
        check_shared(&one, &["/a"], &[], Force::KeepOthers, "");
        let commit = [("/.git/index", file(1), file(2)), ("/.git/HEAD", file(3), file(4))];
        let now = [("/.git/index", file(2)), ("/.git/HEAD", file(4))];
        let all = "keep /.git/HEAD (it may have been session b, which was running a command); \
                   keep /.git/index (others have used the repository /.git since)";
        check_shared(&commit, &["/.git/HEAD"], &now, Force::OverwriteFiles, all);
    }

    #[test]
    fn what_was_not_kept_is_said() {
        let huge = Standing::Uncovered { reason: Omission::TooLarge, size: 1, modified: 1 };
        let text = "keep /a (not covered: file over the size limit)";
        check(&[("/a", huge.clone(), GONE)], &[], Force::OverwriteOthers, text);
        check(&[("/a", GONE, huge.clone())], &[("/a", huge.clone())], Force::KeepOthers, text);
        check(&[("/a", GONE, huge.clone())], &[("/a", huge)], Force::OverwriteOthers, "move /a");
    }
}
