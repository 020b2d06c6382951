//! Where sessions lie: one folder per project, one file per session. Finding one never reads a
//! whole transcript; loading one skips what it cannot read and says so.
#![expect(clippy::disallowed_types, reason = "the home of transcript files")]

use super::{line, state::State};
use ostler_proto::SessionId;
use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    time::SystemTime,
};
use uuid::Uuid;

/// The folder all sessions lie under.
#[derive(Debug, Clone)]
pub struct Store {
    /// Folders that hold `projects/`, the one written to first.
    pub homes: Vec<PathBuf>,
}

/// A session read from disk.
#[derive(Debug)]
pub struct Loaded {
    /// Its id.
    pub id: SessionId,
    /// Its file.
    pub path: PathBuf,
    /// What it amounts to.
    pub state: State,
    /// Lines that could not be read, by number, and why.
    pub damaged: Vec<(usize, String)>,
}

/// Why no session could be had.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is none to continue.
    #[error("no conversation to continue in {}", .0.display())]
    NoneHere(PathBuf),
    /// There is none with that id.
    #[error("no conversation found with session id {0}")]
    NotFound(String),
    /// A file cannot be read.
    #[error("cannot read session {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Store {
    /// The file a new session of this project is written to.
    pub fn path_for(&self, project: &Path, id: &SessionId) -> PathBuf {
        self.homes[0].join("projects").join(project_key(project)).join(format!("{id}.jsonl"))
    }

    /// Whether a session with this id exists anywhere.
    pub fn find(&self, id: &str) -> Option<PathBuf> {
        Uuid::parse_str(id).ok()?;
        let name = format!("{id}.jsonl");
        self.project_folders().map(|folder| folder.join(&name)).find(|path| path.is_file())
    }

    /// The session of this project that was written to last.
    pub fn newest(&self, project: &Path) -> Result<PathBuf, StoreError> {
        let key = project_key(project);
        let folders = self.homes.iter().map(|home| home.join("projects").join(&key));
        let files = folders.filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
        files
            .filter(|entry| session_id(&entry.path()).is_some())
            .filter_map(|entry| {
                Some((entry.metadata().ok()?.modified().unwrap_or(SystemTime::UNIX_EPOCH), entry.path()))
            })
            .max()
            .map(|(_, path)| path)
            .ok_or_else(|| StoreError::NoneHere(project.to_path_buf()))
    }

    fn project_folders(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let projects = self.homes.iter().filter_map(|home| home.join("projects").read_dir().ok());
        projects.flatten().flatten().map(|entry| entry.path())
    }
}

/// Reads a session. Damaged lines cost only themselves.
pub fn load(path: &Path) -> Result<Loaded, StoreError> {
    let failed = |error| StoreError::Io { path: path.to_path_buf(), error };
    let id = session_id(path).ok_or_else(|| StoreError::NotFound(path.display().to_string()))?;
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let mut loaded = Loaded { id, path: path.to_path_buf(), state: State::default(), damaged: Vec::new() };
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes).map_err(failed)? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_matches(['\0', '\n', '\r', ' ']);
        if text.is_empty() {
            continue;
        }
        match line::read(text) {
            Ok(entries) => entries.iter().for_each(|entry| loaded.state.apply(entry)),
            Err(problem) => loaded.damaged.push((number, problem)),
        }
    }
    Ok(loaded)
}

/// The folder name of a project: its path with everything but letters and digits made `-`.
pub fn project_key(project: &Path) -> String {
    const LONGEST: usize = 200;
    let path = project.to_string_lossy();
    let key: String = path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    if key.len() <= LONGEST {
        return key;
    }
    let hash =
        path.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    format!("{}-{}", &key[..LONGEST], base36(hash.unsigned_abs()))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

fn session_id(path: &Path) -> Option<SessionId> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
    Uuid::parse_str(stem).ok().map(|_| SessionId::from(stem))
}
