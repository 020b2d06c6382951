//! Notes on temporary files: one is left before a single file is replaced and taken away after, so
//! that what a killed process leaves beside the file is found. A note never touches the file itself.

use super::{
    super::{
        HostError, Replacement, Version,
        file::{self, Watch, temporary_name},
        walk::Place,
    },
    Journal, Lasting, Outcome, Recovered,
    entry::{missing_directories, sweep_directories},
    new_id,
    recover::{locked, names},
};
use rustix::{
    fs::{self, AtFlags},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// The ending of a note's name.
const ENDING: &str = "note";

/// Beside which file a temporary one stands.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    target: OsString,
    temporary: String,
    /// The directories that were missing, outermost first.
    missing: Vec<OsString>,
}

/// Puts a new content in place of a file's. `watch` is told each step right before it is taken.
pub fn replace_one(
    directory: &Path,
    replacement: &Replacement,
    watch: Watch<'_>,
) -> Result<Version, HostError> {
    let temporary = temporary_name();
    let note = Note {
        target: replacement.target.clone().into(),
        temporary: temporary.clone(),
        missing: missing_directories(replacement),
    };
    watch("leave a note");
    let name = format!("{}.{ENDING}", new_id());
    // The file changes whole or not at all even where there is no journal to write in.
    let left = Journal::open(directory).and_then(|journal| {
        let lock = journal.leave(&name, &note, Lasting::Kill)?;
        Ok((journal, lock))
    });
    let replaced = file::replace(replacement, &temporary, watch);
    if let Ok((journal, _lock)) = left {
        watch("take the note away");
        // One that stays finds nothing to do.
        let _ = fs::unlinkat(&journal.directory, &name, AtFlags::empty());
    }
    replaced
}

/// Removes the temporary files of processes that were killed.
pub(super) fn sweep(journal: &Journal, watch: Watch<'_>) -> Result<Vec<Recovered>, Errno> {
    let mut recovered = Vec::new();
    for name in names(journal)?.into_iter().filter(|name| name.ends_with(&format!(".{ENDING}"))) {
        let Some((_lock, bytes)) = locked(journal, &name)? else { continue };
        // One that is not whole was left before anything was made.
        if let Ok(note) = serde_json::from_slice::<Note>(&bytes) {
            watch("sweep");
            if note.sweep() {
                let files = vec![PathBuf::from(&note.target)];
                recovered.push(Recovered { files, outcome: Outcome::Undone { left: Vec::new() } });
            }
        }
        watch("take the note away");
        fs::unlinkat(&journal.directory, &name, AtFlags::empty())?;
    }
    Ok(recovered)
}

impl Note {
    /// Says whether there was a temporary file: then the change had not taken place.
    fn sweep(&self) -> bool {
        // Only a name of our own making is ever removed, whatever the note says.
        let is_ours = self.temporary.starts_with(".ostler-") && !self.temporary.contains('/');
        // A directory that cannot be reached holds nothing of ours any more.
        let place = Place::open(Path::new(&self.target)).ok().filter(|_| is_ours);
        let removed = place
            .is_some_and(|place| fs::unlinkat(&place.directory, &self.temporary, AtFlags::empty()).is_ok());
        sweep_directories(&self.missing);
        removed
    }
}
