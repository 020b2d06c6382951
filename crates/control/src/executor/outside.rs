//! Which of the files that the model has seen are no longer what it saw. Looks at the metadata of those files only,
//! and into a file only where that leaves it open; it changes nothing but who was told of what.

use super::Executor;
use ostler_tools::host::{Host, Stat, Version, read_whole};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Longest file that is read to find out whether only its time changed.
const WORTH_READING: u64 = 1 << 20;

/// A file that is not what the model saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangedFile {
    /// It has another content.
    Changed(PathBuf),
    /// It is gone.
    Removed(PathBuf),
}

impl Executor {
    /// Files that changed since the model saw them, each change told once, in the order of their names.
    pub async fn take_changed_files(&self) -> Vec<ChangedFile> {
        let (host, files) = (self.shared.host.as_ref(), &self.shared.files);
        let mut changed = Vec::new();
        for (path, version) in files.versions() {
            // What cannot be looked at now may be there again later; a read would say why.
            let Ok(stat) = host.stat(&path).await else { continue };
            if stat.is_some_and(|stat| looks_the_same(&stat, &version)) {
                files.record_told(&path, None);
                continue;
            }
            let mark = stat.map_or((u64::MAX, version.modified), |stat| (stat.size, stat.modified));
            if !files.record_told(&path, Some(mark)) {
                continue;
            }
            match stat {
                None => changed.push(ChangedFile::Removed(path)),
                Some(stat) if is_the_same(host, &path, &stat, &version).await => {}
                Some(_) => changed.push(ChangedFile::Changed(path)),
            }
        }
        changed
    }
}

fn looks_the_same(stat: &Stat, version: &Version) -> bool {
    stat.size == version.size && stat.modified == version.modified
}

/// Whether the content is the one that was seen, written again.
async fn is_the_same(host: &dyn Host, path: &Path, stat: &Stat, version: &Version) -> bool {
    stat.size == version.size
        && read_whole(host, path, WORTH_READING)
            .await
            .is_ok_and(|(_, bytes)| blake3::hash(&bytes) == version.hash)
}
