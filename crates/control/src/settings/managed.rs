//! The policy of the machine's owner: a file and its drop-ins. Only the owner of the machine may
//! have written them; anything else there is refused, for it would rule over everybody.

use super::SettingsError;
use std::{
    io::ErrorKind,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// The policy files of a folder, strongest first: drop-ins by name from the last, then the main file.
pub(super) fn files(folder: &Path, owner: u32) -> Result<Vec<PathBuf>, SettingsError> {
    let drop_ins = folder.join("managed-settings.d");
    let failed = |error| SettingsError::Io { path: drop_ins.clone(), error };
    let mut found = Vec::new();
    match std::fs::read_dir(&drop_ins) {
        Ok(entries) => {
            for entry in entries {
                let path = entry.map_err(failed)?.path();
                let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
                if path.extension().is_some_and(|extension| extension == "json") && !hidden {
                    found.push(path);
                }
            }
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
        Err(error) => return Err(failed(error)),
    }
    found.sort();
    found.reverse();
    let main = folder.join("managed-settings.json");
    if main.symlink_metadata().is_ok() {
        found.push(main);
    }
    for path in &found {
        check_owner(path, owner)?;
    }
    Ok(found)
}

/// The file and the folders above it must belong to root, or to the machine's owner where that is
/// somebody else, and nobody else may write them.
pub(crate) fn check_owner(path: &Path, owner: u32) -> Result<(), SettingsError> {
    for part in path.ancestors().take(3) {
        let failed = |error| SettingsError::Io { path: part.to_path_buf(), error };
        let metadata = part.metadata().map_err(failed)?;
        let is_owned = [0, owner].contains(&metadata.uid());
        let sticky = metadata.mode() & 0o1000 != 0;
        let is_open = metadata.mode() & 0o022 != 0 && !sticky;
        if !is_owned || is_open {
            return Err(SettingsError::Wrong {
                place: path.display().to_string(),
                problem: format!(
                    "managed policy must belong to root and be writable by nobody else; check the owner and mode of {}",
                    part.display()
                ),
            });
        }
    }
    Ok(())
}
