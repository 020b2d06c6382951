//! Notes that outlast a session: one folder a project, an index and a file a note. It finds the folder, which
//! nobody but the user may move, and tells what is in it and how old that is; the agent writes it by its tools.

use crate::{front_matter, permission::secrets};
use ostler_proto::{
    Instruction, InstructionScope, LoadReason,
    content::{self, Sink, Source},
};
use ostler_tools::host;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// The file that lists the others.
pub const INDEX: &str = "MEMORY.md";
const INDEX_LINES: usize = 200;
const INDEX_BYTES: usize = 25 * 1024;
/// A longer note is not read.
const MAX_BYTES: u64 = 1024 * 1024;
/// As many notes as are listed.
const MOST: usize = 100;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A project's folder of notes. It need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notes {
    /// Where it is, free of links.
    folder: PathBuf,
}

/// One note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The file's name.
    pub file: String,
    /// What it is about, in a word.
    pub name: String,
    /// What it is about, in a line.
    pub description: String,
    /// What kind of note it is.
    pub kind: Option<NoteKind>,
    /// How many days ago it was written.
    pub days: u64,
    /// Its length.
    pub bytes: u64,
}

/// What a note is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// Who the user is.
    User,
    /// How the user wants the work done.
    Feedback,
    /// What goes on in the project.
    Project,
    /// Where to look things up.
    Reference,
}

/// A note's head, as far as it can be read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Head {
    name: String,
    description: String,
    #[serde(rename = "type")]
    kind: String,
    updated: String,
}

impl Notes {
    /// The notes of a project, by the key of its sessions. Its folder may not be a link: who could put one there
    /// would choose what the agent writes without asking.
    pub fn of_project(config: &Path, key: &str) -> Result<Self, String> {
        let resolve = |path: &Path| {
            let text = path.to_str().ok_or_else(|| format!("{} is no text", path.display()))?;
            host::resolve(text, Path::new("/"), Path::new("/")).map_err(|error| error.to_string())
        };
        let folder = resolve(config)?.target.join("projects").join(key).join("memory");
        let fact = resolve(&folder)?;
        if fact.target != folder {
            return Err(format!("{} leads to {} by a link", folder.display(), fact.target.display()));
        }
        Ok(Self { folder })
    }

    /// Notes in a folder that the user chose. It must be for notes alone: everything in it can be written without
    /// asking.
    pub fn in_folder(chosen: &str, home: &Path, project: &Path) -> Result<Self, String> {
        if !chosen.starts_with('/') && !chosen.starts_with("~/") {
            return Err(format!("'{chosen}' must be an absolute path, or begin with ~/"));
        }
        let fact = host::resolve(chosen, Path::new("/"), home).map_err(|error| error.to_string())?;
        let folder = fact.target;
        let holds_more = home.starts_with(&folder) || project.starts_with(&folder);
        let is_secret = fact
            .hops
            .iter()
            .chain([&folder, &fact.requested])
            .any(|path| secrets(home).any(|secret| path.starts_with(secret)));
        if holds_more || is_secret || folder.iter().any(|name| name == ".git") {
            return Err(format!("{} is no place for notes; choose a folder of their own", folder.display()));
        }
        Ok(Self { folder })
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Every note, by name.
    pub fn list(&self, now_ms: u64) -> Vec<Note> {
        let entries = self.folder.read_dir().into_iter().flatten().flatten();
        let mut files: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| Path::new(name).extension().is_some_and(|end| end == "md") && name != INDEX)
            .collect();
        files.sort();
        files.truncate(MOST);
        files.into_iter().filter_map(|file| self.note(file, now_ms)).collect()
    }

    /// A note's text, or that of the index.
    pub fn read(&self, file: &str) -> Result<String, String> {
        let is_name = !file.is_empty() && !file.contains('/') && file != "..";
        let path = self.folder.join(file);
        if !is_name {
            return Err(format!("'{file}' is no name of a note"));
        }
        // No link is followed: the folder was free of them, and a note is a file.
        let (_, bytes) = host::read_here(&path, MAX_BYTES).map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.trim_start_matches('\u{feff}').replace("\r\n", "\n"))
    }

    /// What a session that begins should know of them; nothing if there is none.
    pub fn instruction(&self, now_ms: u64) -> Option<Instruction> {
        let index = self.read(INDEX).unwrap_or_default();
        let notes = self.list(now_ms);
        if index.trim().is_empty() && notes.is_empty() {
            return None;
        }
        let text = self.told(&index, &notes);
        // Notes grow older by themselves; that alone is no news.
        let listed: Vec<&str> = notes.iter().map(|note| note.file.as_str()).collect();
        let hash =
            blake3::hash(format!("{index}\0{}", listed.join("\0")).as_bytes()).to_hex()[..32].to_owned();
        Some(Instruction {
            path: self.folder.join(INDEX),
            scope: InstructionScope::Memory,
            reason: LoadReason::SessionStart,
            globs: Vec::new(),
            trigger: None,
            parent: None,
            hash,
            tokens: crate::instructions::tokens(&text),
            text,
        })
    }

    fn told(&self, index: &str, notes: &[Note]) -> String {
        let mut parts = vec![format!(
            "Notes of earlier sessions, kept in {}. Each says what was true when it was written: check what is old \
             before you rely on it.",
            plain(&self.folder.to_string_lossy())
        )];
        let kept = first_of(index);
        if !kept.trim().is_empty() {
            let cut = if kept.len() < index.len() {
                format!("\n[{INDEX} goes on; only its beginning is shown]")
            } else {
                String::new()
            };
            let text = content::deliver(kept.trim_end(), Source::Instructions, Sink::ModelContext, "").text;
            parts.push(format!("{text}{cut}"));
        }
        if !notes.is_empty() {
            let lines: Vec<String> = notes.iter().map(|note| format!("- {note}")).collect();
            parts.push(format!("Files there:\n{}", lines.join("\n")));
        }
        parts.join("\n\n")
    }

    /// How the agent is to keep them, for the system prompt.
    pub fn guidance(&self) -> String {
        format!(
            "Notes that outlast this session are markdown files in {}: one fact or preference each, with a head \
             (name, description, type: user, feedback, project or reference, updated: the date) and one line in \
             {INDEX} there. Write one when the user asks you to remember something, or when you learn what a later \
             session needs and the repository does not say; mend or empty what turns out wrong. Reading and writing \
             there needs no permission. No secrets.",
            plain(&self.folder.to_string_lossy())
        )
    }

    fn note(&self, file: String, now_ms: u64) -> Option<Note> {
        let metadata = self.folder.join(&file).symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
        let text = self.read(&file).ok()?;
        let (head, _) = front_matter::split(&text);
        let head: Head = head.and_then(|head| front_matter::read(head).ok()).unwrap_or_default();
        let changed = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let changed = changed.and_then(|time| u64::try_from(time.as_millis()).ok());
        let written = day_ms(&head.updated).filter(|ms| *ms <= now_ms).or(changed).unwrap_or(now_ms);
        let stem = file.trim_end_matches(".md").to_owned();
        Some(Note {
            name: if head.name.is_empty() { stem } else { plain(&head.name) },
            description: plain(&head.description),
            kind: NoteKind::from_name(&head.kind),
            days: now_ms.saturating_sub(written) / DAY_MS,
            bytes: metadata.len(),
            file,
        })
    }
}

impl NoteKind {
    fn from_name(name: &str) -> Option<Self> {
        match name.trim() {
            "user" => Some(Self::User),
            "feedback" => Some(Self::Feedback),
            "project" => Some(Self::Project),
            "reference" => Some(Self::Reference),
            _ => None,
        }
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Feedback => "feedback",
            Self::Project => "project",
            Self::Reference => "reference",
        }
    }
}

impl Note {
    /// How old it is, in words.
    pub fn age(&self) -> String {
        match self.days {
            0 => "written today".to_owned(),
            1 => "1 day old".to_owned(),
            days => format!("{days} days old; may be stale"),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.map(|kind| format!("{}, ", kind.as_str())).unwrap_or_default();
        write!(f, "{} ({kind}{})", plain(&self.file), self.age())?;
        if self.description.is_empty() { Ok(()) } else { write!(f, ": {}", self.description) }
    }
}

/// The start of the index that is shown.
fn first_of(index: &str) -> &str {
    let lines: usize = index.split_inclusive('\n').take(INDEX_LINES).map(str::len).sum();
    let end = index.floor_char_boundary(lines.min(INDEX_BYTES));
    if end == lines {
        &index[..end]
    } else {
        index[..end].rfind('\n').map_or(&index[..end], |at| &index[..=at])
    }
}

/// The beginning of a day that somebody wrote down.
fn day_ms(text: &str) -> Option<u64> {
    let date: jiff::civil::Date = text.trim().get(..10)?.parse().ok()?;
    let midnight = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    u64::try_from(midnight.timestamp().as_millisecond()).ok()
}

/// In one line, with nothing hidden in it.
fn plain(text: &str) -> String {
    content::deliver(text, Source::FileName, Sink::ModelContext, "").text.into_owned()
}

#[cfg(test)]
mod tests;
