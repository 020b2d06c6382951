//! This machine, unconfined. Every call that may block goes to a blocking thread.

use super::{Finished, Host, HostError, Opened, Replacement, Shell, Stat, blocking, file, path, process};
use crate::Progress;
use futures_util::future::BoxFuture;
use ostler_proto::PathFact;
use std::path::{Path, PathBuf};

/// The local machine.
pub struct Local {
    home: PathBuf,
    env: Vec<(String, String)>,
}

impl Local {
    /// `home` is what `~` stands for; `env` is all that children get of the environment, so it
    /// must hold no secret of the agent's own.
    pub fn new(home: PathBuf, env: Vec<(String, String)>) -> Self {
        Self { home, env }
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

    fn replace(&self, replacement: Replacement) -> BoxFuture<'_, Result<Stat, HostError>> {
        Box::pin(blocking(move || file::replace(&replacement)))
    }

    fn run(&self, shell: Shell, progress: Progress) -> BoxFuture<'_, Result<Finished, HostError>> {
        Box::pin(process::run(&self.env, shell, progress))
    }
}
