//! Reads a command line and looks where its paths lead, so that the judge has facts. It looks and
//! never changes anything.

use crate::permission::{Ground, Line, read};
use ostler_proto::{Access, Intent, PathFact};
use ostler_tools::host::{Host, Kind, read_whole};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// Longer files are not taken for a repository's configuration.
const MAX_CONFIG: u64 = 256 * 1024;

/// Reads the command line of a call, if it has one, and notes in the intent what it would touch.
pub async fn examine(intent: &mut Intent, home: &Path, host: &dyn Host) -> Option<Line> {
    let Access::Execute { command, cwd, footprint } = &mut intent.access else { return None };
    let reading = read(command, &Ground { directory: cwd.clone(), home: home.to_owned() });
    let mut facts: HashMap<PathBuf, Option<PathFact>> = HashMap::new();
    for place in Line::places(&reading) {
        if !facts.contains_key(place) {
            facts.insert(place.to_owned(), follow(place, host).await);
        }
    }
    let mut line = Line::new(reading, |place| facts.get(place).cloned().flatten());
    for directory in line.git_directories() {
        if !repository_is_plain(&directory, host).await {
            line.misread("the repository's own configuration may make git run other programs");
        }
    }
    *footprint = line.footprint();
    Some(line)
}

/// Whether the repository around a directory configures nothing that overrides cannot keep from
/// running: a diff program, attributes of its own, or more configuration elsewhere.
async fn repository_is_plain(directory: &Path, host: &dyn Host) -> bool {
    for folder in directory.ancestors() {
        let git = folder.join(".git");
        match kind(&git, host).await {
            Some(Kind::Directory) => return folder_is_plain(&git, host).await,
            Some(Kind::File) => {
                let Some(pointer) = text(&git, host).await else { return false };
                let Some(path) = pointer.trim().strip_prefix("gitdir:") else { return false };
                let own = folder.join(path.trim());
                let shared = text(&own.join("commondir"), host).await.unwrap_or_default();
                let shared = own.join(shared.trim());
                return folder_is_plain(&own, host).await && folder_is_plain(&shared, host).await;
            }
            Some(Kind::Special(_)) => return false,
            None => {}
        }
    }
    true
}

async fn folder_is_plain(git: &Path, host: &dyn Host) -> bool {
    for name in ["config", "config.worktree", "info/attributes"] {
        let path = git.join(name);
        if kind(&path, host).await.is_none() {
            continue;
        }
        let Some(text) = text(&path, host).await else { return false };
        let text = text.to_lowercase();
        let names_more = ["external", "include", "attributesfile"].iter().any(|word| text.contains(word));
        if names_more || (name == "info/attributes" && !text.trim().is_empty()) {
            return false;
        }
    }
    true
}

async fn kind(path: &Path, host: &dyn Host) -> Option<Kind> {
    let fact = follow(path, host).await?;
    Some(host.stat(&fact.target).await.ok()??.kind)
}

/// A short file's text; `None` when it is none.
async fn text(path: &Path, host: &dyn Host) -> Option<String> {
    let fact = follow(path, host).await?;
    let (_, bytes) = read_whole(host, &fact.target, MAX_CONFIG).await.ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Where a path leads; `None` when that cannot be found out.
async fn follow(place: &Path, host: &dyn Host) -> Option<PathFact> {
    host.resolve(place.to_str()?, Path::new("/")).await.ok()
}
