//! Who has a session open: a note under the home it lies in, for whoever finds the session locked. The
//! lock alone decides; a note without a lock means nothing, whatever process has its number by now.
#![expect(clippy::disallowed_methods, reason = "the home of session files")]

use serde::{Deserialize, Serialize};
use std::{
    fmt, fs,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Who has a session open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// The machine it runs on.
    pub host: String,
    /// Since when, RFC 3339 in UTC.
    pub since: String,
}

/// The note of the session we hold; it goes when we let go.
pub(super) struct Note(PathBuf);

impl Holder {
    /// This process, from now on.
    fn ourselves() -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { pid: std::process::id(), host, since: format!("{:.0}", jiff::Timestamp::now()) }
    }

    /// What whoever holds a session's lock has noted, if that can be read.
    pub(super) fn of(transcript: &Path) -> Option<Self> {
        // A note that cannot be read is as good as none: the lock was asked already.
        serde_json::from_slice(&fs::read(place(transcript)?).ok()?).ok()
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}, since {}", self.pid, self.host, self.since)
    }
}

impl Note {
    /// Notes that we hold a session. Not being able to is no reason not to work.
    pub(super) fn leave(transcript: &Path) -> Option<Self> {
        let path = place(transcript)?;
        let note = Self(path.clone());
        let written = || -> std::io::Result<()> {
            if let Some(folder) = path.parent() {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            #[expect(clippy::disallowed_types, reason = "the home of session files")]
            let file =
                fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&path)?;
            Ok(serde_json::to_writer(file, &Holder::ourselves())?)
        };
        match written() {
            Ok(()) => Some(note),
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "who holds the session could not be noted");
                // Dropping it takes away what an earlier holder noted.
                None
            }
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        // It may be gone already, and without a lock it means nothing.
        let _ = fs::remove_file(&self.0);
    }
}

/// `HOME/live/ID.json` for `HOME/projects/KEY/ID.jsonl`.
fn place(transcript: &Path) -> Option<PathBuf> {
    let home = transcript.ancestors().nth(3)?;
    Some(home.join("live").join(transcript.file_stem()?).with_extension("json"))
}
