//! This machine, unconfined. Every call that may block goes to a blocking thread.

use super::{
    Finished, Host, HostError, Opened, Replacement, Shell, Stat, Version, blocking, file, journal, path,
    shell,
};
use crate::Progress;
use futures_util::future::BoxFuture;
use ostler_proto::PathFact;
use std::path::{Path, PathBuf};

/// The local machine.
pub struct Local {
    home: PathBuf,
    env: Vec<(String, String)>,
    journal: PathBuf,
}

impl Local {
    /// `home` is what `~` stands for; `env` is all that children get of the environment, so it
    /// must hold no secret of the agent's own.
    pub fn new(home: PathBuf, env: Vec<(String, String)>) -> Self {
        Self { home, env, journal: journal::fallback() }
    }

    /// Where changes to several files are written down before they begin; private to the user,
    /// outside of any project, and given to [`journal::recover`] at every start.
    #[must_use]
    pub fn with_journal(self, journal: PathBuf) -> Self {
        Self { journal, ..self }
    }
}

impl Host for Local {
    fn resolve<'a>(&'a self, path: &'a str, base: &'a Path) -> BoxFuture<'a, Result<PathFact, HostError>> {
        let (path, base, home) = (path.to_owned(), base.to_owned(), self.home.clone());
        Box::pin(blocking(move || path::resolve(&path, &base, &home)))
    }

    fn stat<'a>(&'a self, target: &'a Path) -> BoxFuture<'a, Result<Option<Stat>, HostError>> {
        let target = target.to_owned();
        Box::pin(blocking(move || file::stat(&target)))
    }

    fn open<'a>(&'a self, target: &'a Path) -> BoxFuture<'a, Result<Opened, HostError>> {
        let target = target.to_owned();
        Box::pin(blocking(move || file::open(&target)))
    }

    fn replace(&self, replacement: Replacement) -> BoxFuture<'_, Result<Version, HostError>> {
        Box::pin(blocking(move || file::replace(&replacement, &mut |_| {})))
    }

    fn replace_all(&self, replacements: Vec<Replacement>) -> BoxFuture<'_, Result<Vec<Version>, HostError>> {
        let journal = self.journal.clone();
        Box::pin(blocking(move || journal::replace_all(&journal, &replacements, &mut |_| {})))
    }

    fn run(&self, shell: Shell, progress: Progress) -> BoxFuture<'_, Result<Finished, HostError>> {
        Box::pin(shell::run(&self.env, shell, progress))
    }
}
