//! Where sessions lie: one folder per project, one file per session. Looks at names and sizes; never
//! into a file.

use ostler_proto::SessionId;
use std::{
    fs::Metadata,
    io,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};
use unicode_normalization::UnicodeNormalization;
use uuid::Uuid;

/// The folder all sessions lie under.
#[derive(Debug, Clone)]
pub struct Store {
    /// Folders that hold `projects/`, the one written to first.
    pub homes: Vec<PathBuf>,
}

/// Which sessions are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All.
    Everywhere,
    /// Those that were started in this folder.
    Project(PathBuf),
}

/// One session as the file system tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFile {
    /// Its id.
    pub id: SessionId,
    /// Its file.
    pub path: PathBuf,
    /// The file's size in bytes.
    pub size: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub modified_ns: i64,
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
        let newest = self.files(&Scope::Project(project.to_path_buf())).into_iter().next();
        newest.map(|file| file.path).ok_or_else(|| StoreError::NoneHere(project.to_path_buf()))
    }

    /// The files of sessions, the last written first. What cannot be looked at is not there.
    pub fn files(&self, scope: &Scope) -> Vec<SessionFile> {
        let folders: Vec<PathBuf> = match scope {
            Scope::Everywhere => self.project_folders().collect(),
            Scope::Project(project) => {
                let key = project_key(project);
                self.homes.iter().map(|home| home.join("projects").join(&key)).collect()
            }
        };
        let entries = folders.iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
        let mut files: Vec<SessionFile> = entries
            .filter_map(|entry| {
                let id = session_id(Path::new(&entry.file_name()))?;
                SessionFile::new(id, entry.path(), &entry.metadata().ok()?)
            })
            .collect();
        // By bytes, as the index orders them too.
        files.sort_unstable_by(|one, other| {
            (other.modified_ns, other.path.as_os_str()).cmp(&(one.modified_ns, one.path.as_os_str()))
        });
        files
    }

    fn project_folders(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let projects = self.homes.iter().filter_map(|home| home.join("projects").read_dir().ok());
        projects.flatten().flatten().map(|entry| entry.path())
    }
}

impl SessionFile {
    /// A session's file as it is now.
    pub fn at(path: &Path) -> Option<Self> {
        // What cannot be looked at is not there.
        Self::new(session_id(path)?, path.to_path_buf(), &path.metadata().ok()?)
    }

    fn new(id: SessionId, path: PathBuf, metadata: &Metadata) -> Option<Self> {
        let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let modified_ns = i64::try_from(modified.as_nanos()).unwrap_or(i64::MAX);
        metadata.is_file().then_some(Self { id, path, size: metadata.len(), modified_ns })
    }
}

/// The folder name of a project: its path with everything but letters and digits made `-`.
pub fn project_key(project: &Path) -> String {
    const LONGEST: usize = 200;
    let path: String = project.to_string_lossy().nfc().collect();
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

/// The id in a file's name.
pub(super) fn session_id(path: &Path) -> Option<SessionId> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
    Uuid::parse_str(stem).ok().map(|_| SessionId::from(stem))
}
