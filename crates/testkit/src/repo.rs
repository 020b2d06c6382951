//! A folder with files for one test, a git repository if wanted; gone when dropped.
//! The user's own git settings never reach it.
#![expect(clippy::disallowed_methods, reason = "tests make and look at real files with the real git")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// When everything in a [`TempRepo`] happened, so that commits have the same ids in every run.
const DATE: &str = "2024-01-01T12:00:00+00:00";

/// A temporary project folder.
#[derive(Debug)]
pub struct TempRepo {
    folder: tempfile::TempDir,
    /// Without links in it: what tools and git report.
    path: PathBuf,
}

impl TempRepo {
    /// A folder with these files, each a path within it and its content.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::Builder::new().prefix("ostler-test-").tempdir().expect("a temporary folder");
        let path = folder.path().canonicalize().expect("the folder was just made");
        let repo = Self { folder, path };
        for (path, content) in files {
            repo.write(path, content);
        }
        repo
    }

    /// The same as a git repository on branch `main`, with the files committed.
    pub fn with_git(files: &[(&str, &str)]) -> Self {
        let repo = Self::new(files);
        repo.git(&["init", "--quiet", "--initial-branch=main"]);
        for (key, value) in
            [("user.name", "Test"), ("user.email", "test@example.com"), ("commit.gpgsign", "false")]
        {
            repo.git(&["config", key, value]);
        }
        repo.commit("first");
        repo
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The whole path of a file in it.
    pub fn join(&self, path: &str) -> PathBuf {
        self.path.join(path)
    }

    /// Writes a file and the folders above it.
    #[track_caller]
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).expect("a folder in the test's own");
        }
        if let Err(error) = fs::write(&path, content) {
            panic!("cannot write {}: {error}", path.display());
        }
    }

    /// A file's text.
    #[track_caller]
    pub fn read(&self, path: &str) -> String {
        match fs::read_to_string(self.join(path)) {
            Ok(text) => text,
            Err(error) => panic!("cannot read {path}: {error}"),
        }
    }

    /// Whether something is at this path.
    pub fn has(&self, path: &str) -> bool {
        self.join(path).symlink_metadata().is_ok()
    }

    /// Commits everything and returns the commit's id.
    #[track_caller]
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// Runs git in it and returns what it printed. Panics when git fails.
    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(&self.path)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_DATE", DATE)
            .env("GIT_COMMITTER_DATE", DATE)
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .output()
            .expect("git is installed");
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {}: {problem}", arguments.join(" "));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Keeps the folder for a look after the test, and says where it is.
    pub fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_the_same_every_time_and_goes_away() {
        let make = || TempRepo::with_git(&[("src/a.rs", "fn a() {}\n"), ("README.md", "hi\n")]);
        let (one, two) = (make(), make());
        assert_eq!(one.git(&["rev-parse", "HEAD"]), two.git(&["rev-parse", "HEAD"]));
        assert_eq!(one.git(&["status", "--porcelain"]), "");
        assert_eq!(one.read("src/a.rs"), "fn a() {}\n");
        assert!(one.has("README.md") && !one.has("LICENSE"));
        one.write("README.md", "ho\n");
        assert_eq!(one.git(&["status", "--porcelain"]), " M README.md\n");
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists());
    }
}
