//! Keeps rules that the user granted for longer than a session. What it writes into a trusted folder
//! stays trusted; what was not trusted before does not become so.

use crate::{
    settings::{self, SettingsError},
    trust::{Configuration, TrustStore},
};
use ostler_proto::{Change, Json, Keep, RuleSide, Update};
use std::{
    io,
    path::{Path, PathBuf},
};

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
        if rules.is_empty() {
            return Ok(());
        }
        let (change, side) = (Change::Add, RuleSide::Allow);
        self.keep_update(&Update::Rules { change, side, rules, keep }).await
    }

    /// Keeps a change to what may run; one for the session needs no keeping.
    pub(crate) async fn keep_update(&self, update: &Update) -> Result<(), MemoryError> {
        let (Update::Rules { keep, .. } | Update::Mode { keep, .. } | Update::Directories { keep, .. }) =
            update;
        let Some(places) = self.0.clone().filter(|_| *keep != Keep::Session) else { return Ok(()) };
        let (update, keep) = (update.clone(), *keep);
        let kept = tokio::task::spawn_blocking(move || places.keep(&update, keep)).await;
        kept.unwrap_or_else(|error| Err(io::Error::other(error).into()))
    }
}

impl Places {
    fn keep(&self, update: &Update, keep: Keep) -> Result<(), MemoryError> {
        let name = match keep {
            Keep::Session => return Ok(()),
            Keep::User => return Ok(write(&self.user, &[], update)?),
            Keep::Local => "settings.local.json",
            Keep::Project => "settings.json",
        };
        let before = Configuration::of(&self.folder)?;
        // The user has just said what would become active; nothing else may come with it.
        let stays_trusted = before.activates.is_empty() || self.trust.trusts(&self.folder, &before)?;
        let own = self.folder.join(".ostler").join(name);
        write(&own, &[self.folder.join(".claude").join(name)], update)?;
        if stays_trusted {
            self.trust.trust(&self.folder, &Configuration::of(&self.folder)?)?;
        }
        Ok(())
    }
}

/// Writes a change into our file; what goes, goes from the others too.
fn write(own: &Path, others: &[PathBuf], update: &Update) -> Result<(), SettingsError> {
    let (change, key, values) = match update {
        Update::Rules { change, side, rules, .. } => (
            *change,
            format!("permissions.{}", side.as_str()),
            rules.iter().cloned().map(Json::from).collect(),
        ),
        Update::Directories { change, directories, .. } => {
            let texts = directories.iter().map(|path| Json::from(path.display().to_string()));
            (*change, "permissions.additionalDirectories".to_owned(), texts.collect::<Vec<Json>>())
        }
        Update::Mode { mode, .. } => {
            return settings::change(own, "permissions.defaultMode", |_| Some(mode.as_str().into()));
        }
    };
    settings::change(own, &key, |old| Some(Json::Array(changed(old, change, &values))))?;
    if change != Change::Add {
        for file in others.iter().filter(|file| file.exists()) {
            let rest = |old: Option<&Json>| {
                changed(old, change, if change == Change::Remove { &values } else { &[] })
            };
            settings::change(file, &key, |old| Some(Json::Array(rest(old))))?;
        }
    }
    Ok(())
}

fn changed(old: Option<&Json>, change: Change, values: &[Json]) -> Vec<Json> {
    let old = || old.and_then(Json::as_array).into_iter().flatten();
    match change {
        Change::Add => {
            let new = values.iter().filter(|value| !old().any(|old| old == *value));
            old().chain(new).cloned().collect()
        }
        Change::Replace => values.to_vec(),
        Change::Remove => old().filter(|value| !values.contains(value)).cloned().collect(),
    }
}
