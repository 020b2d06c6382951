//! Changes to several files survive a process that is killed at any step, and one that is killed
//! while it cleans up after that.

use crate::exists;
use ostler_tools::host::{
    Content, Expected, HostError, Replacement,
    journal::{self, Outcome, Recovered},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::Command,
};

/// Tells a child process what to do and before which step to die.
const ORDER: &str = "OSTLER_TEST_ORDER";

/// A project and a journal, apart from each other.
struct Yard {
    temp: tempfile::TempDir,
}

impl Yard {
    fn new() -> Self {
        let yard = Self { temp: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(yard.project().join("sub")).unwrap();
        for (name, content) in [("a", "old a"), ("sub/b", "old b"), ("other", "other")] {
            std::fs::write(yard.project().join(name), content).unwrap();
        }
        yard
    }

    fn project(&self) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join("project")
    }

    fn journal(&self) -> PathBuf {
        self.temp.path().join("journal")
    }

    /// Every path below the project with what it holds.
    fn tree(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut tree = BTreeMap::new();
        let mut ahead = vec![self.project()];
        while let Some(path) = ahead.pop() {
            for entry in std::fs::read_dir(path).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    ahead.push(path.clone());
                    tree.insert(path, None);
                } else {
                    tree.insert(path.clone(), Some(std::fs::read(&path).unwrap()));
                }
            }
        }
        tree.into_iter()
            .map(|(path, held)| (path.strip_prefix(self.project()).unwrap().to_owned(), held))
            .collect()
    }

    /// Runs an action in a process of its own that is killed before step `step`. Says whether it
    /// came to its end before.
    fn in_child(&self, action: &str, step: usize) -> bool {
        let order =
            json!({"action": action, "step": step, "project": self.project(), "journal": self.journal()});
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["journal::child", "--exact", "--quiet"])
            .env(ORDER, order.to_string())
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success() || status.signal() == Some(9), "{status}");
        status.success()
    }

    #[track_caller]
    fn assert_no_trace(&self) {
        assert_eq!(std::fs::read_dir(self.journal()).unwrap().count(), 0);
        assert!(
            !self.tree().keys().any(|path| path.to_string_lossy().contains(".ostler")),
            "{:?}",
            self.tree()
        );
    }
}

fn replacements(project: &Path) -> Vec<Replacement> {
    let replace = |name: &str, old: Option<&str>, new: &str| Replacement {
        target: project.join(name),
        content: Content::Whole(new.as_bytes().to_vec()),
        expected: old.map_or(Expected::Absent, |old| Expected::Content(blake3::hash(old.as_bytes()))),
    };
    vec![
        replace("a", Some("old a"), "new a"),
        replace("made/deep/c", None, "new c"),
        replace("sub/b", Some("old b"), "new b"),
        replace("made/d", None, "new d"),
    ]
}

#[test]
fn child() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let order: Value = serde_json::from_str(&order).unwrap();
    let path = |key: &str| PathBuf::from(order[key].as_str().unwrap());
    let mut left = order["step"].as_u64().unwrap();
    let mut die = |_: &'static str| {
        if left == 0 {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
        }
        left -= 1;
    };
    match order["action"].as_str().unwrap() {
        "replace" => {
            journal::replace_all(&path("journal"), &replacements(&path("project")), &mut die).unwrap();
        }
        "replace one" => {
            journal::replace_one(&path("journal"), &replacements(&path("project"))[0], &mut die).unwrap();
        }
        "create one" => {
            journal::replace_one(&path("journal"), &replacements(&path("project"))[1], &mut die).unwrap();
        }
        "recover" => {
            journal::recover_watched(&path("journal"), &mut die).unwrap();
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_kill_at_any_step_leaves_all_or_nothing() {
    let old = Yard::new().tree();
    let whole = Yard::new();
    journal::replace_all(&whole.journal(), &replacements(&whole.project()), &mut |_| {}).unwrap();
    whole.assert_no_trace();
    let new = whole.tree();
    assert_eq!(new[Path::new("made/deep/c")].as_deref(), Some(&b"new c"[..]));
    let (mut rolled_back, mut rolled_forward) = (0, 0);
    for step in 0.. {
        let yard = Yard::new();
        if yard.in_child("replace", step) {
            assert_eq!(yard.tree(), new);
            break;
        }
        let recovered = journal::recover(&yard.journal()).unwrap();
        assert!(recovered.len() <= 1, "{recovered:?}");
        let tree = yard.tree();
        match recovered.first().map(|recovered| &recovered.outcome) {
            // The record itself was not written yet.
            None => assert_eq!(tree, old, "step {step}"),
            Some(Outcome::Undone { left }) => {
                assert!(left.is_empty() && tree == old, "step {step}: {tree:?}");
                rolled_back += 1;
            }
            Some(Outcome::Completed) => {
                assert_eq!(tree, new, "step {step}");
                rolled_forward += 1;
            }
            Some(Outcome::Stuck { reason }) => panic!("step {step}: {reason}"),
        }
        if yard.journal().exists() {
            yard.assert_no_trace();
            assert_eq!(journal::recover(&yard.journal()).unwrap(), [], "nothing is recovered twice");
        }
    }
    assert!(rolled_back >= 10 && rolled_forward >= 10, "{rolled_back} back, {rolled_forward} forward");
}

#[test]
fn recovery_may_be_killed_too() {
    let (old, mut interrupted) = (Yard::new().tree(), 0);
    let whole = Yard::new();
    journal::replace_all(&whole.journal(), &replacements(&whole.project()), &mut |_| {}).unwrap();
    // Every fifth step is enough here: the other test goes through all of them.
    for step in (1..).step_by(5) {
        let mut done = false;
        for recovery_step in 0.. {
            let yard = Yard::new();
            if yard.in_child("replace", step) {
                done = true;
                break;
            }
            let finished = yard.in_child("recover", recovery_step);
            interrupted += usize::from(!finished);
            journal::recover(&yard.journal()).unwrap();
            let tree = yard.tree();
            assert!(tree == old || tree == whole.tree(), "{step}, {recovery_step}: {tree:?}");
            yard.assert_no_trace();
            if finished {
                break;
            }
        }
        if done {
            break;
        }
    }
    assert!(interrupted >= 10, "{interrupted}");
}

#[test]
fn a_single_file_is_old_or_new_at_any_step_and_leaves_nothing() {
    let old = Yard::new().tree();
    for (action, number) in [("replace one", 0), ("create one", 1)] {
        let whole = Yard::new();
        journal::replace_one(&whole.journal(), &replacements(&whole.project())[number], &mut |_| {}).unwrap();
        whole.assert_no_trace();
        let (new, mut undone) = (whole.tree(), 0);
        let mut is_new = Vec::new();
        for step in 0.. {
            let yard = Yard::new();
            let finished = yard.in_child(action, step);
            let recovered = journal::recover(&yard.journal()).unwrap();
            let tree = yard.tree();
            assert!(tree == old || tree == new, "{action}, step {step}: {tree:?}");
            is_new.push(tree == new);
            match recovered.as_slice() {
                [] => {}
                [Recovered { outcome: Outcome::Undone { left }, .. }] if left.is_empty() => {
                    assert!(tree == old, "{action}, step {step}");
                    undone += 1;
                }
                other => panic!("{action}, step {step}: {other:?}"),
            }
            if yard.journal().exists() {
                yard.assert_no_trace();
                assert_eq!(journal::recover(&yard.journal()).unwrap(), [], "nothing is recovered twice");
            }
            if finished {
                break;
            }
        }
        assert!(is_new.is_sorted() && is_new.len() >= 9 && undone >= 4, "{action}: {is_new:?}, {undone}");
    }
}

#[test]
fn a_note_in_use_or_of_somebody_else_removes_nothing() {
    let yard = Yard::new();
    let mut during = Vec::new();
    let mut watch = |_: &'static str| during.extend(journal::recover(&yard.journal()).unwrap());
    journal::replace_one(&yard.journal(), &replacements(&yard.project())[0], &mut watch).unwrap();
    assert_eq!(during, [], "a live change belongs to its process");
    let bytes = |name: &str| serde_json::to_value(std::ffi::OsString::from(name)).unwrap();
    let target = bytes(&yard.project().join("a").display().to_string());
    for temporary in ["other", "sub/b", "../project/other", ".ostler-/../other"] {
        let note = json!({"target": target, "temporary": temporary, "missing": []});
        std::fs::write(yard.journal().join("0.note"), note.to_string()).unwrap();
        journal::recover(&yard.journal()).unwrap();
        assert!(exists(&yard.project(), "other") && exists(&yard.project(), "sub/b"), "{temporary}");
        assert!(!exists(&yard.journal(), "0.note"), "{temporary}");
    }
}

#[test]
fn a_file_can_be_changed_where_no_journal_can_be_written() {
    let yard = Yard::new();
    std::fs::write(yard.journal(), "a file, no folder").unwrap();
    journal::replace_one(&yard.journal(), &replacements(&yard.project())[0], &mut |_| {}).unwrap();
    assert_eq!(std::fs::read(yard.project().join("a")).unwrap(), b"new a");
}

#[test]
fn an_outside_change_in_the_middle_undoes_the_rest() {
    for (name, theirs) in [("sub/b", "theirs"), ("made/d", "theirs"), ("a", "theirs")] {
        let yard = Yard::new();
        let (mut renames, path) = (0, yard.project().join(name));
        // After the last look at all files together, while the first ones are already in place.
        let mut interfere = |step: &'static str| {
            renames += usize::from(step == "rename");
            let is_after = if name == "a" { renames == 2 } else { renames == 1 };
            if is_after && step == "verify" {
                std::fs::write(&path, theirs).unwrap();
            }
        };
        let result = journal::replace_all(&yard.journal(), &replacements(&yard.project()), &mut interfere);
        let tree = yard.tree();
        if name == "a" {
            // It was in place before they changed it.
            result.unwrap();
            assert_eq!(tree[Path::new("sub/b")].as_deref(), Some(&b"new b"[..]));
        } else {
            assert!(matches!(result, Err(HostError::Changed(_))), "{name}: {result:?}");
            assert_eq!(tree[Path::new("a")].as_deref(), Some(&b"old a"[..]), "{name}");
            assert!(!tree.contains_key(Path::new("made/deep/c")), "{name}");
        }
        assert_eq!(tree[Path::new(name)].as_deref(), Some(theirs.as_bytes()), "{name}");
        yard.assert_no_trace();
    }
}

#[test]
fn what_others_changed_after_a_kill_is_left_alone() {
    let mut seen_left = false;
    for step in 0.. {
        let yard = Yard::new();
        if yard.in_child("replace", step) {
            break;
        }
        std::fs::write(yard.project().join("sub/b"), "theirs").unwrap();
        let recovered = journal::recover(&yard.journal()).unwrap();
        assert_eq!(std::fs::read(yard.project().join("sub/b")).unwrap(), b"theirs", "step {step}");
        let (a, c) =
            (std::fs::read(yard.project().join("a")).unwrap(), exists(&yard.project(), "made/deep/c"));
        assert!((a == b"old a" && !c) || (a == b"new a" && c), "step {step}: {recovered:?}");
        if let [Recovered { outcome: Outcome::Undone { left }, .. }] = recovered.as_slice() {
            seen_left |= left == &[yard.project().join("sub/b")];
        }
    }
    assert!(seen_left);
}

#[test]
fn a_journal_in_use_or_in_ruins_is_left_or_swept() {
    let yard = Yard::new();
    assert_eq!(journal::recover(&yard.journal()).unwrap(), [], "none was ever written");
    let mut during = Vec::new();
    let mut watch = |_: &'static str| {
        if yard.journal().exists() {
            during.extend(journal::recover(&yard.journal()).unwrap());
        }
    };
    journal::replace_all(&yard.journal(), &replacements(&yard.project()), &mut watch).unwrap();
    assert_eq!(during, [], "a live change belongs to its process");
    std::fs::write(yard.journal().join("0.prepared"), "{\"entr").unwrap();
    assert_eq!(journal::recover(&yard.journal()).unwrap(), []);
    yard.assert_no_trace();
    std::fs::set_permissions(yard.journal(), PermissionsExt::from_mode(0o755)).unwrap();
    let refused = journal::replace_all(&yard.journal(), &replacements(&yard.project()), &mut |_| {});
    assert!(refused.unwrap_err().to_string().contains("not private"));
}
