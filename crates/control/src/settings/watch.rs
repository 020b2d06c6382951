//! Notices when a settings file appears, changes or goes. It looks when asked, and never runs by itself.

use super::Places;
use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// What the files of some places looked like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    files: Vec<PathBuf>,
    marks: Vec<Option<Mark>>,
}

/// Enough of a file's metadata to tell that it was written or replaced.
type Mark = (u64, u64, u64, i64, i64, i64, i64);

impl Watch {
    /// Remembers what the files look like now.
    pub fn new(places: &Places) -> Self {
        let mut files = Vec::new();
        for folder in &places.managed {
            files.extend([folder.join("managed-settings.json"), folder.join("managed-settings.d")]);
        }
        let projects = places.local.iter().chain(&places.project);
        for folder in projects.flat_map(|project| [project.join(".ostler"), project.join(".claude")]) {
            files.extend([folder.join("settings.json"), folder.join("settings.local.json")]);
        }
        files.extend(places.user.iter().map(|folder| folder.join("settings.json")));
        if let Some(flag) = places.flag.as_ref().filter(|flag| !flag.trim_start().starts_with('{')) {
            files.push(flag.into());
        }
        let marks = files.iter().map(|file| mark(file)).collect();
        Self { files, marks }
    }

    /// Whether one of them looks different from the last time somebody asked.
    pub fn changed(&mut self) -> bool {
        let marks: Vec<_> = self.files.iter().map(|file| mark(file)).collect();
        let changed = marks != self.marks;
        self.marks = marks;
        changed
    }
}

fn mark(file: &Path) -> Option<Mark> {
    let metadata = file.metadata().ok()?;
    Some((
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ))
}
