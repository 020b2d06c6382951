//! Notices when a settings file appears, changes or goes. It looks when asked, and never runs by itself.

use super::Places;
use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// What the files of some places looked like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    files: Vec<Changed>,
    marks: Vec<Option<Mark>>,
}

/// A settings file, or a folder of them, by what kind of settings it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Whose settings these are, in the words hooks know.
    pub source: &'static str,
    /// The file.
    pub path: PathBuf,
}

/// What hooks call the policy of the machine's owner.
const POLICY: &str = "policy_settings";

/// Enough of a file's metadata to tell that it was written or replaced.
type Mark = (u64, u64, u64, i64, i64, i64, i64);

impl Changed {
    /// Whether it is the policy of the machine's owner, which nobody may keep out of force.
    pub fn is_policy(&self) -> bool {
        self.source == POLICY
    }
}

impl Watch {
    /// Remembers what the files look like now.
    pub fn new(places: &Places) -> Self {
        let mut files: Vec<Changed> = Vec::new();
        let mut add = |source: &'static str, path: PathBuf| files.push(Changed { source, path });
        for folder in &places.managed {
            add(POLICY, folder.join("managed-settings.json"));
            add(POLICY, folder.join("managed-settings.d"));
        }
        let of_project = |project: &PathBuf| [project.join(".ostler"), project.join(".claude")];
        for folder in places.local.iter().flat_map(of_project) {
            add("local_settings", folder.join("settings.local.json"));
        }
        for folder in places.project.iter().flat_map(of_project) {
            add("project_settings", folder.join("settings.json"));
        }
        places.user.iter().for_each(|folder| add("user_settings", folder.join("settings.json")));
        if let Some(flag) = places.flag.as_ref().filter(|flag| !flag.trim_start().starts_with('{')) {
            add("flag_settings", flag.into());
        }
        let marks = files.iter().map(|file| mark(&file.path)).collect();
        Self { files, marks }
    }

    /// Those that look different from the last time somebody asked.
    pub fn changed(&mut self) -> Vec<Changed> {
        let marks: Vec<_> = self.files.iter().map(|file| mark(&file.path)).collect();
        let both = self.files.iter().zip(marks.iter().zip(&self.marks));
        let changed = both.filter(|(_, (new, old))| new != old).map(|(file, _)| file.clone()).collect();
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
