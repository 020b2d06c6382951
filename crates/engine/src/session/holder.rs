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
    /// When the process started, as the kernel counts; where it does, a number used again is known by it.
    #[serde(default)]
    started: Option<u64>,
}

/// The note of the session we hold; it goes when we let go.
pub(super) struct Note(PathBuf);

impl Holder {
    /// This process, from now on.
    fn ourselves() -> Self {
        let pid = std::process::id();
        Self { pid, host: host(), since: format!("{:.0}", jiff::Timestamp::now()), started: started(pid) }
    }

    /// What whoever holds a session's lock has noted, if that can be read.
    pub(super) fn of(transcript: &Path) -> Option<Self> {
        // A note that cannot be read is as good as none: the lock was asked already.
        serde_json::from_slice(&fs::read(place(transcript)?).ok()?).ok()
    }

    /// Whether the process lives, as far as can be seen from here. One that was killed leaves its note behind.
    pub(super) fn is_there(&self) -> bool {
        self.host != host() || self.started == started(self.pid)
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

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// When a process started, in ticks since the machine did; none where there is no such process, or the kernel
/// does not say.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything, brackets too.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}

/// `HOME/live/ID.json` for `HOME/projects/KEY/ID.jsonl`.
fn place(transcript: &Path) -> Option<PathBuf> {
    let home = transcript.ancestors().nth(3)?;
    Some(home.join("live").join(transcript.file_stem()?).with_extension("json"))
}
