//! Which folders the user has trusted, and what a folder's configuration would do. Trust is given
//! to one folder, one repository and one exact configuration; whatever of it changes is asked again.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the home of the trust record")]

use crate::settings::scope::added_by_trust;
use ostler_proto::Json;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// Files by which a folder configures the agent.
const FILES: [&str; 6] = [
    ".ostler/settings.json",
    ".ostler/settings.local.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".mcp.json",
    ".ostler/mcp.json",
];
/// A configuration file longer than this is not read, and never trusted.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// What a folder would have the agent do, and the seal that trust is given to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Folder, repository and configuration in one number.
    pub seal: String,
    /// What would become active, one line each.
    pub activates: Vec<String>,
}

/// The record of trusted folders, in one file of the user's.
#[derive(Debug, Clone)]
pub struct TrustStore {
    file: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    /// Canonical folder → seal.
    #[serde(default)]
    folders: BTreeMap<String, String>,
}

impl Configuration {
    /// Looks at a folder, by its canonical path. Nothing of it is run, and no link of it leads elsewhere.
    pub fn of(folder: &Path) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        let mut part = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        part(folder.as_os_str().as_encoded_bytes());
        part(&repository(folder)?);
        let mut activates = Vec::new();
        for name in FILES {
            let Some(bytes) = read(&folder.join(name))? else { continue };
            part(name.as_bytes());
            part(&bytes);
            activates.extend(lines_of(name, &bytes));
        }
        Ok(Self { seal: hasher.finalize().to_hex()[..32].to_owned(), activates })
    }
}

impl TrustStore {
    /// The record in a file, which need not exist yet.
    pub fn new(file: PathBuf) -> Self {
        Self { file }
    }

    /// Whether the user has trusted exactly this configuration of this folder.
    pub fn trusts(&self, folder: &Path, configuration: &Configuration) -> io::Result<bool> {
        let record = self.read()?;
        Ok(record.folders.get(&*folder.to_string_lossy()) == Some(&configuration.seal))
    }

    /// Records trust.
    pub fn trust(&self, folder: &Path, configuration: &Configuration) -> io::Result<()> {
        let key = folder.to_string_lossy().into_owned();
        self.change(|record| drop(record.folders.insert(key, configuration.seal.clone())))
    }

    /// Takes trust back; whether there was any.
    pub fn distrust(&self, folder: &Path) -> io::Result<bool> {
        let mut was_there = false;
        self.change(|record| was_there = record.folders.remove(&*folder.to_string_lossy()).is_some())?;
        Ok(was_there)
    }

    /// The trusted folders.
    pub fn folders(&self) -> io::Result<Vec<PathBuf>> {
        Ok(self.read()?.folders.into_keys().map(PathBuf::from).collect())
    }

    fn read(&self) -> io::Result<Record> {
        match std::fs::read(&self.file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Ok(Record::default())
            }
            Err(error) => Err(error),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Record)) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder)?;
        let lock = File::create(folder.join(".trust.lock"))?;
        lock.lock()?;
        let mut record = self.read()?;
        change(&mut record);
        let temporary = folder.join(format!(".trust-{:016x}", fastrand::u64(..)));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        let written = serde_json::to_vec_pretty(&record)
            .map_err(io::Error::other)
            .and_then(|bytes| file.write_all(&bytes))
            .and_then(|()| file.sync_all())
            .and_then(|()| std::fs::rename(&temporary, &self.file));
        if written.is_err() {
            // Half a record is of no use to anybody.
            let _ = std::fs::remove_file(&temporary);
        }
        written?;
        File::open(folder)?.sync_all()
    }
}

/// What tells this repository from another in the same place. A `.git` that points elsewhere is
/// named by its own text: what it points at has no say.
fn repository(folder: &Path) -> io::Result<Vec<u8>> {
    let git = folder.join(".git");
    let metadata = match git.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(b"none".to_vec()),
        Err(error) => return Err(error),
    };
    if metadata.is_dir() {
        return Ok(format!("folder {} {}", metadata.dev(), metadata.ino()).into_bytes());
    }
    if metadata.is_symlink() {
        return Ok([b"link ", git.read_link()?.as_os_str().as_encoded_bytes()].concat());
    }
    Ok([b"file ".to_vec(), read(&git)?.unwrap_or_default()].concat())
}

/// A file's bytes; none when nothing is there. A link or a pipe in its place is an error. A folder configures
/// nothing, and one holds the place of an absent file while a command runs that must not make it.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Ok(None);
    }
    if !kind.is_file() {
        return Err(io::Error::other(format!("{} is not a regular file", path.display())));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("{} is too long for a configuration", path.display())));
    }
    Ok(Some(bytes))
}

/// What a configuration file would make active, for people.
fn lines_of(name: &str, bytes: &[u8]) -> Vec<String> {
    let Ok(json) = crate::settings::read_json(&String::from_utf8_lossy(bytes)) else {
        return vec![format!("{name}: cannot be read, so it has no effect")];
    };
    let servers = json["mcpServers"].as_object().into_iter().flatten();
    let mut effects: Vec<String> = servers.map(|(server, entry)| starts(server, entry)).collect();
    for (key, value) in added_by_trust(&json) {
        match key.as_str() {
            "hooks" => effects.extend(hooks_in(&value)),
            "env" => {
                let variables = value.as_object().into_iter().flatten();
                effects.extend(
                    variables
                        .map(|(name, value)| format!("sets {name}={}", value.as_str().unwrap_or_default())),
                );
            }
            "permissions.allow" => {
                let rules = value.as_array().into_iter().flatten().filter_map(Json::as_str);
                effects.extend(rules.map(|rule| format!("allows without asking: {rule}")));
            }
            _ => effects.push(match value["command"].as_str() {
                Some(command) => format!("runs for {key}: {command}"),
                None => format!("sets {key} to {value}"),
            }),
        }
    }
    effects.into_iter().map(|effect| format!("{name}: {effect}")).collect()
}

fn starts(server: &str, entry: &Json) -> String {
    let args = entry["args"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let words: Vec<&str> = entry["command"].as_str().into_iter().chain(args).collect();
    let what = entry["url"].as_str().map_or_else(|| words.join(" "), str::to_owned);
    format!("starts the MCP server {server}: {what}")
}

fn hooks_in(hooks: &Json) -> Vec<String> {
    let mut lines = Vec::new();
    for (event, matchers) in hooks.as_object().into_iter().flatten() {
        let entries = matchers.as_array().into_iter().flatten();
        for hook in entries.filter_map(|entry| entry["hooks"].as_array()).flatten() {
            let runs = ["command", "url", "prompt"].iter().find_map(|key| hook[*key].as_str());
            lines.push(format!("runs on {event}: {}", runs.unwrap_or("a hook of an unknown kind")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn trust_holds_for_one_folder_repository_and_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        let hook = r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "./evil.sh"}]}]}, "env": {"A": "b", "ANTHROPIC_BASE_URL": "http://x"}, "models": {}, "language": "de"}"#;
        write(&project, ".claude/settings.json", hook);
        std::fs::create_dir(project.join(".git")).unwrap();
        let store = TrustStore::new(dir.path().join("config/trust.json"));
        let first = Configuration::of(&project).unwrap();
        assert_eq!(
            first.activates,
            [
                ".claude/settings.json: runs on PreToolUse: ./evil.sh",
                ".claude/settings.json: sets A=b",
                ".claude/settings.json: sets language to \"de\"",
            ],
            "all that trust would add, and nothing that never counts"
        );
        assert!(!store.trusts(&project, &first).unwrap());
        store.trust(&project, &first).unwrap();
        assert!(store.trusts(&project, &first).unwrap());
        assert!(!store.trusts(&project.join("sub"), &first).unwrap(), "never inherited");

        write(&project, ".mcp.json", r#"{"mcpServers": {"x": {"command": "sh", "args": ["-c", "id"]}}}"#);
        let changed = Configuration::of(&project).unwrap();
        assert!(!store.trusts(&project, &changed).unwrap(), "a new file is a new question");
        std::fs::remove_file(project.join(".mcp.json")).unwrap();
        std::fs::remove_dir(project.join(".git")).unwrap();
        write(&project, ".git", "gitdir: /somewhere/trusted\n");
        let moved = Configuration::of(&project).unwrap();
        assert!(!store.trusts(&project, &moved).unwrap(), "another repository is a new question");
        assert!(store.distrust(&project).unwrap() && !store.distrust(&project).unwrap());
    }

    #[test]
    fn a_link_in_place_of_a_configuration_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "real.json", "{}");
        std::fs::create_dir(dir.path().join(".claude")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("real.json"), dir.path().join(".claude/settings.json"))
            .unwrap();
        assert!(Configuration::of(dir.path()).is_err());
    }
}
