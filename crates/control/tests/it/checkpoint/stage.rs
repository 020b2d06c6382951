//! A project, a store beside it, and the whole tree as a value that can be compared.

use ostler_control::checkpoint::{Caller, Checkpoints, Limits, Place, Recovered};
use ostler_proto::{EntryId, SessionId};
use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

/// What stands at a path: its kind, mode, and content or target.
pub(crate) type Tree = BTreeMap<PathBuf, (char, u32, Vec<u8>)>;

/// A project and a store, apart from each other.
pub(crate) struct Stage {
    pub(crate) temp: tempfile::TempDir,
    pub(crate) limits: Limits,
}

impl Stage {
    pub(crate) fn within(folder: &Path) -> Self {
        let stage = Self { temp: tempfile::tempdir_in(folder).unwrap(), limits: Limits::default() };
        std::fs::create_dir(stage.project()).unwrap();
        stage
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join("project")
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.project().join(name)
    }

    pub(crate) fn place(&self) -> Place {
        place(&self.temp.path().join("store"), &self.limits)
    }

    pub(crate) fn open(&self) -> Checkpoints {
        let (checkpoints, recovered) = self.recover();
        assert_eq!(recovered, [], "nothing was cut off");
        checkpoints
    }

    pub(crate) fn recover(&self) -> (Checkpoints, Vec<Recovered>) {
        Checkpoints::open(&self.place()).unwrap()
    }

    pub(crate) fn tree(&self) -> Tree {
        tree(&self.project())
    }
}

pub(crate) fn place(folder: &Path, limits: &Limits) -> Place {
    Place { folder: folder.to_owned(), excluded: Vec::new(), limits: limits.clone() }
}

pub(crate) fn caller(session: &str, call: &str) -> Caller {
    Caller { session: session.into(), agent: None, call: call.into(), title: call.to_owned() }
}

pub(crate) fn begin(checkpoints: &Checkpoints, session: &str, prompt: &str) {
    checkpoints.begin(&SessionId::from(session), &EntryId::from(prompt), prompt).unwrap();
}

pub(crate) fn shell(folder: &Path, command: &str) {
    let status = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        // Without a repository of its own it must find none further up.
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.code().is_some(), "{command}");
}

/// Everything below a folder. Of a repository's objects only the names are told, because a rewind
/// leaves those that were added.
pub(crate) fn tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(folder) = ahead.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let mode = metadata.permissions().mode() & 0o7777;
            let name = path.strip_prefix(root).unwrap().to_owned();
            let standing = if metadata.is_dir() {
                ahead.push(path);
                ('d', mode, Vec::new())
            } else if metadata.is_symlink() {
                ('l', 0, std::fs::read_link(path).unwrap().into_os_string().into_encoded_bytes())
            } else {
                ('f', mode, std::fs::read(path).unwrap())
            };
            tree.insert(name, standing);
        }
    }
    tree
}

/// Compares trees, save for objects that were added to a repository.
#[track_caller]
pub(crate) fn assert_restored(found: &Tree, wanted: &Tree, note: &str) {
    let mut found = found.clone();
    found.retain(|path, _| wanted.contains_key(path) || !path.starts_with(".git/objects"));
    for (path, standing) in wanted {
        assert_eq!(found.get(path), Some(standing), "{note}: {}", path.display());
    }
    for path in found.keys() {
        assert!(wanted.contains_key(path), "{note}: {} should not be there", path.display());
    }
}
