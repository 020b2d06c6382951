//! The door to settings that change while a session runs: which files they are and what became of them is all that
//! the loop has to know, live or from a tape.

use super::hands::{Doer, Hands};
use ostler_control::{executor::Reloaded, settings::Changed};
use ostler_proto::HookRecord;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const CHANGED: &str = "changed settings";
const TAKEN_OVER: &str = "settings taken over";

/// Settings that changed.
pub(crate) struct Renewal {
    /// Where.
    pub(crate) files: Vec<SettingsFile>,
    /// What they amount to; none where that is on a tape.
    reloaded: Option<Reloaded>,
}

/// A settings file that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SettingsFile {
    /// Whose it is, in the words hooks know.
    pub(crate) source: String,
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Whether nobody may keep it out of force.
    pub(crate) is_policy: bool,
}

impl From<&Changed> for SettingsFile {
    fn from(changed: &Changed) -> Self {
        let is_policy = changed.is_policy();
        Self { source: changed.source.to_owned(), path: changed.path.clone(), is_policy }
    }
}

impl Hands {
    /// Settings that changed since the last look.
    pub(crate) fn changed_settings(&mut self) -> Option<Renewal> {
        match &mut self.doer {
            Doer::Executor(executor) => {
                let reloaded = executor.changed_settings()?;
                let files: Vec<SettingsFile> = reloaded.files.iter().map(SettingsFile::from).collect();
                Some(Renewal { files: self.deck.gave(CHANGED, files), reloaded: Some(reloaded) })
            }
            // A tape tells of it only where something changed.
            Doer::Tape(_) => {
                let files = self.deck.again_if(CHANGED)?;
                Some(Renewal { files, reloaded: None })
            }
        }
    }

    /// Looks at them again before the next answer.
    pub(crate) fn postpone(&mut self, renewal: Renewal) {
        if let (Doer::Executor(executor), Some(reloaded)) = (&mut self.doer, renewal.reloaded) {
            executor.postpone(reloaded);
        }
    }

    /// Leaves settings as they were.
    pub(crate) fn refuse(&mut self, renewal: Renewal) {
        if let (Doer::Executor(executor), Some(reloaded)) = (&mut self.doer, renewal.reloaded) {
            executor.refuse(reloaded);
        }
    }

    /// Puts them in force; gives the hooks in force then, if they are others.
    pub(crate) fn take_over(&mut self, renewal: Renewal) -> Result<Option<HookRecord>, String> {
        match (&mut self.doer, renewal.reloaded) {
            (Doer::Executor(executor), Some(reloaded)) => {
                let taken = executor.take_over(reloaded);
                self.deck.gave(TAKEN_OVER, taken)
            }
            (Doer::Executor(_), None) => Ok(None),
            (Doer::Tape(_), _) => self.deck.again(TAKEN_OVER, Ok(None)),
        }
    }
}
