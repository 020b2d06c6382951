//! Keeps rules that the user granted for longer than a session. What it writes into a trusted folder
//! stays trusted; what was not trusted before does not become so.

use crate::{
    settings::{self, SettingsError},
    trust::{Configuration, TrustStore},
};
use ostler_proto::{Json, Keep};
use std::{io, path::PathBuf};

/// Where granted rules are kept.
#[derive(Debug, Clone, Default)]
pub struct Memory(Option<Places>);

/// The files of the user and of the project.
#[derive(Debug, Clone)]
pub struct Places {
    /// The project's folder.
    pub folder: PathBuf,
    /// The user's settings file.
    pub user: PathBuf,
    /// The record of trusted folders.
    pub trust: TrustStore,
}

/// A rule that could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The settings file could not be changed.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The folder's trust could not be read or recorded.
    #[error("cannot record trust: {0}")]
    Trust(#[from] io::Error),
}

impl Memory {
    /// A memory in these files.
    pub fn new(places: Places) -> Self {
        Self(Some(places))
    }

    /// Keeps rules; those for the session need no keeping.
    pub(crate) async fn keep(&self, rules: Vec<String>, keep: Keep) -> Result<(), MemoryError> {
        let Some(places) = self.0.clone().filter(|_| !rules.is_empty() && keep != Keep::Session) else {
            return Ok(());
        };
        let kept = tokio::task::spawn_blocking(move || places.keep(&rules, keep)).await;
        kept.unwrap_or_else(|error| Err(io::Error::other(error).into()))
    }
}

impl Places {
    fn keep(&self, rules: &[String], keep: Keep) -> Result<(), MemoryError> {
        let file = match keep {
            Keep::Session => return Ok(()),
            Keep::User => return Ok(add(&self.user, rules)?),
            Keep::Local => ".ostler/settings.local.json",
            Keep::Project => ".ostler/settings.json",
        };
        let before = Configuration::of(&self.folder)?;
        // The user has just said what would become active; nothing else may come with it.
        let stays_trusted = before.activates.is_empty() || self.trust.trusts(&self.folder, &before)?;
        add(&self.folder.join(file), rules)?;
        if stays_trusted {
            self.trust.trust(&self.folder, &Configuration::of(&self.folder)?)?;
        }
        Ok(())
    }
}

fn add(file: &std::path::Path, rules: &[String]) -> Result<(), SettingsError> {
    settings::change(file, "permissions.allow", |old| {
        let mut all: Vec<Json> = old.and_then(Json::as_array).cloned().unwrap_or_default();
        let new = rules.iter().map(|rule| Json::String(rule.clone()));
        all.extend(new.filter(|rule| !old.and_then(Json::as_array).is_some_and(|old| old.contains(rule))));
        Some(Json::Array(all))
    })
}
