//! This machine. Every call that may block goes to a blocking thread.

use super::{
    Finished, Host, HostError, Opening, Replacement, Shell, Stat, Survey, Version, Warden, blocking, file,
    journal, path, shell,
};
use crate::Progress;
use futures_util::future::BoxFuture;
use ostler_proto::PathFact;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The local machine.
pub struct Local {
    home: PathBuf,
    env: Vec<(String, String)>,
    journal: PathBuf,
    warden: Option<Arc<Warden>>,
}

impl Local {
    /// `home` is what `~` stands for; `env` is all that children get of the environment, so it
    /// must hold no secret of the agent's own.
    pub fn new(home: PathBuf, env: Vec<(String, String)>) -> Self {
        Self { home, env, journal: journal::fallback(), warden: None }
    }

    /// Where changes to several files are written down before they begin; private to the user,
    /// outside of any project, and given to [`journal::recover`] at every start.
    #[must_use]
    pub fn with_journal(self, journal: PathBuf) -> Self {
        Self { journal, ..self }
    }

    /// A program that calls [`super::enter_warden`] first of all: with it, children can be confined, and none
    /// outlives this process.
    #[must_use]
    pub fn with_warden(self, program: PathBuf) -> Self {
        Self { warden: Some(Arc::new(Warden::new(program))), ..self }
    }

    /// What this machine has to confine children with; nothing without a warden. It tries
    /// everything and blocks for some tens of milliseconds.
    pub fn survey(&self) -> Survey {
        self.warden.as_ref().map(|warden| warden.full_survey()).unwrap_or_default()
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

    fn open(&self, target: &Path) -> Opening {
        let target = target.to_owned();
        Box::new(move || file::open(&target))
    }

    fn replace(&self, replacement: Replacement) -> BoxFuture<'_, Result<Version, HostError>> {
        let journal = self.journal.clone();
        Box::pin(blocking(move || journal::replace_one(&journal, &replacement, &mut |_| {})))
    }

    fn replace_all(&self, replacements: Vec<Replacement>) -> BoxFuture<'_, Result<Vec<Version>, HostError>> {
        let journal = self.journal.clone();
        Box::pin(blocking(move || journal::replace_all(&journal, &replacements, &mut |_| {})))
    }

    fn can_confine(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let survey = match &self.warden {
                Some(warden) => {
                    let warden = Arc::clone(warden);
                    blocking(move || warden.survey()).await
                }
                None => Survey::default(),
            };
            survey.best().map(drop).ok_or_else(|| survey.reasons())
        })
    }

    fn run(&self, shell: Shell, progress: Progress) -> BoxFuture<'_, Result<Finished, HostError>> {
        Box::pin(shell::run(&self.env, self.warden.as_deref(), shell, progress))
    }
}
