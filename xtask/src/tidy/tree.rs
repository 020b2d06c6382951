//! The files of a checkout that the rules look at, read once.
//! Knows what counts as test code; never judges.

use crate::tidy::lex::{Source, lex};
use anyhow::{Context, Result};
use std::{fs, path::Path};

/// All files of interest, in the order of their paths.
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

/// A text file; the path is relative to the top, with forward slashes.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
    /// For Rust files: the program without comments and literals.
    pub(crate) source: Option<Source>,
}

impl Tree {
    /// Reads a checkout.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        collect(root, "", &mut files)?;
        files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(Self { files })
    }

    /// The file at a path.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Rust files of crates and of xtask, tests and benchmarks included.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files.iter().filter_map(|file| Some((file, file.source.as_ref()?)))
    }

    /// Rust files that end up in a product: no tests, no benchmarks.
    pub(crate) fn product(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.rust().filter(|(file, _)| !file.is_test())
    }
}

impl File {
    /// Whether the whole file is test code by its place.
    pub(crate) fn is_test(&self) -> bool {
        let mut folders = self.path.split('/');
        let name = folders.next_back();
        name == Some("tests.rs") || folders.any(|folder| ["tests", "benches", "examples"].contains(&folder))
    }

    /// Whether this is the module's own file or below its folder; the module is written like `crates/engine/src/spawn`.
    pub(crate) fn is_in_module(&self, module: &str) -> bool {
        self.path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    }
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<File>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() && !is_foreign(&name, &entry.path()) {
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() && is_ours(&name, &path) {
            let text = fs::read_to_string(entry.path()).with_context(|| format!("cannot read {path}"))?;
            let source = (extension(&path) == Some("rs")).then(|| lex(&text));
            files.push(File { path, text, source });
        }
    }
    Ok(())
}

/// Folders that hold what others wrote, or what was built.
fn is_foreign(name: &str, folder: &Path) -> bool {
    let is_hidden = name.starts_with('.') && ![".ci", ".cargo"].contains(&name);
    is_hidden
        || ["target", "node_modules", "fixtures"].contains(&name)
        || folder.join("CACHEDIR.TAG").exists()
}

fn is_ours(name: &str, path: &str) -> bool {
    let by_name = [".gitignore", "Cargo.lock", "justfile"].contains(&name) || path.starts_with(".ci/");
    by_name || extension(path).is_some_and(|extension| ["rs", "toml", "md"].contains(&extension))
}

fn extension(path: &str) -> Option<&str> {
    Path::new(path).extension()?.to_str()
}
