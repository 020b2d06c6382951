//! A cache of what sessions are about, so that listing and searching open no file that did not change.
//! Everything in it can be had from the files again: one that is damaged or gone is made anew.
#![expect(clippy::disallowed_methods, reason = "the home of session files")]

mod said;

use super::{
    facts::Facts,
    store::{Scope, SessionFile, Store},
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::{
    borrow::Cow,
    collections::HashSet,
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// The file's name in the folder it is given.
const NAME: &str = "sessions.db";
/// Counts up when the tables change; another number means to begin again.
const VERSION: i64 = 1;
const TABLES: &str = "
    CREATE TABLE session (
        id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, modified INTEGER NOT NULL,
        shown INTEGER NOT NULL, created TEXT, title TEXT, first_prompt TEXT, last_prompt TEXT, tag TEXT,
        git_branch TEXT, cwd TEXT,
        said_size INTEGER NOT NULL DEFAULT 0, said_modified INTEGER NOT NULL DEFAULT 0,
        said_to INTEGER NOT NULL DEFAULT 0, said_mark INTEGER NOT NULL DEFAULT 0);
    CREATE INDEX session_by_time ON session (modified, path);
    CREATE VIRTUAL TABLE said USING fts5(words, tokenize = 'unicode61 remove_diacritics 2');
    PRAGMA user_version = 1;";

const SELECT_KNOWN: &str = "SELECT path, size, modified, shown, created, title, first_prompt, last_prompt,
    tag, git_branch, cwd FROM session";

/// The cache.
pub struct Index {
    database: Connection,
    place: Place,
}

/// Where the cache lies.
enum Place {
    /// In this file.
    File(PathBuf),
    /// In memory, for this process only, because it cannot be kept.
    Memory {
        /// Why not, and where.
        because: String,
    },
}

/// A session in which words were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The session.
    pub session: Facts,
    /// The words and what stands around them.
    pub excerpt: String,
}

impl Index {
    /// Opens the cache in a folder. What cannot be kept there is kept for this process only.
    pub fn open(folder: &Path) -> rusqlite::Result<Self> {
        let path = folder.join(NAME);
        match Self::open_file(&path).or_else(|_| {
            remove(&path);
            Self::open_file(&path)
        }) {
            Ok(database) => Ok(Self { database, place: Place::File(path) }),
            Err(error) => Self::in_memory(&path, &error),
        }
    }

    /// Why the cache cannot be kept, if it cannot: it is made from all files each time then.
    pub fn trouble(&self) -> Option<&str> {
        match &self.place {
            Place::File(_) => None,
            Place::Memory { because } => Some(because),
        }
    }

    fn in_memory(path: &Path, error: &rusqlite::Error) -> rusqlite::Result<Self> {
        let because = format!("cannot write {}: {error}", path.display());
        let database = Connection::open_in_memory()?;
        database.execute_batch(TABLES)?;
        Ok(Self { database, place: Place::Memory { because } })
    }

    /// The newest sessions, at most so many.
    pub fn list(&mut self, store: &Store, scope: &Scope, most: usize) -> rusqlite::Result<Vec<Facts>> {
        let files = store.files(scope);
        self.or_anew(|index| {
            if *scope == Scope::Everywhere {
                index.forget_gone(&files)?;
            }
            index.list_files(&files, most)
        })
    }

    /// Sessions in which all these words occur, the most fitting first.
    pub fn search(
        &mut self,
        store: &Store,
        scope: &Scope,
        words: &str,
        most: usize,
    ) -> rusqlite::Result<Vec<Hit>> {
        let files = store.files(scope);
        self.or_anew(|index| {
            index.list_files(&files, usize::MAX)?;
            index.search_files(&files, words, most)
        })
    }

    /// Takes in what one session has become, so that nobody need wait for it later.
    pub fn update(&mut self, path: &Path) -> rusqlite::Result<()> {
        let Some(file) = SessionFile::at(path) else { return self.forget(path) };
        self.or_anew(|index| {
            index.list_files(std::slice::from_ref(&file), 1)?;
            index.read_said(std::slice::from_ref(&file))
        })
    }

    /// A session is no more.
    pub fn forget(&mut self, path: &Path) -> rusqlite::Result<()> {
        self.or_anew(|index| index.forget_row(path))
    }

    fn forget_row(&self, path: &Path) -> rusqlite::Result<()> {
        let id =
            self.database.query_row("SELECT id FROM session WHERE path = ?1", [text(path)], |row| row.get(0));
        let Some(id) = id.optional()? else { return Ok(()) };
        said::forget(&self.database, id)?;
        self.database.execute("DELETE FROM session WHERE id = ?1", [id])?;
        Ok(())
    }

    /// Forgets sessions whose files are gone, once there are any.
    fn forget_gone(&mut self, files: &[SessionFile]) -> rusqlite::Result<()> {
        let count: i64 = self.database.query_row("SELECT count(*) FROM session", [], |row| row.get(0))?;
        if usize::try_from(count).unwrap_or_default() <= files.len() {
            return Ok(());
        }
        let there: HashSet<_> = files.iter().map(|file| text(&file.path)).collect();
        let mut select = self.database.prepare("SELECT path FROM session")?;
        let known = select.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
        drop(select);
        known
            .iter()
            .filter(|path| !there.contains(path.as_str()))
            .try_for_each(|path| self.forget_row(Path::new(path)))
    }

    /// Does something; once more with a new cache if the old one is damaged, and in memory where there is no
    /// room for one.
    fn or_anew<T>(&mut self, act: impl Fn(&mut Self) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let result = act(self);
        let (Err(error), Place::File(path)) = (&result, &self.place) else { return result };
        let path = path.clone();
        tracing::warn!(%error, path = %path.display(), "the index of sessions is made anew");
        self.database = Connection::open_in_memory()?;
        remove(&path);
        *self = Self::open(path.parent().unwrap_or(&path))?;
        act(self).or_else(|error| {
            *self = Self::in_memory(&path, &error)?;
            act(self)
        })
    }

    fn open_file(path: &Path) -> rusqlite::Result<Connection> {
        if let Some(folder) = path.parent() {
            // Opening says what is wrong with the folder.
            let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        }
        private(path);
        let database = Connection::open(path)?;
        database.busy_timeout(Duration::from_secs(2))?;
        // What is lost with the machine is only work that can be done again.
        database.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -8192;",
        )?;
        let version: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        match version {
            VERSION => Ok(database),
            0 => {
                database.execute_batch(&format!("BEGIN IMMEDIATE; {TABLES} COMMIT;"))?;
                Ok(database)
            }
            _ => Err(rusqlite::Error::InvalidQuery),
        }
    }

    /// Rows come in the order of the files, so that only as many are read as are listed.
    fn list_files(&mut self, files: &[SessionFile], most: usize) -> rusqlite::Result<Vec<Facts>> {
        let (mut listed, mut changed) = (Vec::new(), Vec::new());
        {
            let mut select =
                self.database.prepare(&format!("{SELECT_KNOWN} ORDER BY modified DESC, path DESC"))?;
            let mut rows = select.query([])?;
            let mut row = rows.next()?;
            for file in files {
                if listed.len() == most {
                    break;
                }
                let path = text(&file.path);
                while let Some(stale) = row
                    && (stale.get::<_, i64>(2)?, stale.get_ref(0)?.as_str()?)
                        > (file.modified_ns, path.as_ref())
                {
                    row = rows.next()?;
                }
                let is_known = match row {
                    Some(row) => {
                        row.get_ref(0)?.as_str()? == path
                            && row.get::<_, i64>(2)? == file.modified_ns
                            && row.get::<_, i64>(1)? == number(file.size)
                    }
                    None => false,
                };
                if let (Some(row), true) = (row, is_known) {
                    listed.extend(known(row, file)?);
                    continue;
                }
                // One that vanished or cannot be read is not listed; the next listing looks again.
                let Ok(facts) = Facts::look(file) else { continue };
                changed.push((file, facts.clone()));
                listed.extend(facts);
            }
        }
        if !changed.is_empty() {
            self.keep(&changed)?;
        }
        Ok(listed)
    }

    fn keep(&mut self, changed: &[(&SessionFile, Option<Facts>)]) -> rusqlite::Result<()> {
        let transaction = self.database.transaction()?;
        {
            let mut upsert = transaction.prepare(
                "INSERT INTO session (path, size, modified, shown, created, title, first_prompt, last_prompt, tag,
                     git_branch, cwd) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
                 ON CONFLICT (path) DO UPDATE SET size = ?2, modified = ?3, shown = ?4, created = ?5, title = ?6,
                     first_prompt = ?7, last_prompt = ?8, tag = ?9, git_branch = ?10, cwd = ?11",
            )?;
            for (file, facts) in changed {
                let shown = facts.is_some();
                let facts = facts.clone().unwrap_or_default();
                upsert.execute(params![
                    text(&file.path),
                    number(file.size),
                    file.modified_ns,
                    shown,
                    facts.created,
                    facts.title,
                    facts.first_prompt,
                    facts.last_prompt,
                    facts.tag,
                    facts.git_branch,
                    facts.cwd,
                ])?;
            }
        }
        transaction.commit()
    }
}

/// What a row says of a file, if it is to be shown.
fn known(row: &Row<'_>, file: &SessionFile) -> rusqlite::Result<Option<Facts>> {
    let shown: bool = row.get(3)?;
    if !shown {
        return Ok(None);
    }
    Ok(Some(Facts {
        created: row.get(4)?,
        title: row.get(5)?,
        first_prompt: row.get(6)?,
        last_prompt: row.get(7)?,
        tag: row.get(8)?,
        git_branch: row.get(9)?,
        cwd: row.get(10)?,
        ..Facts::of(file)
    }))
}

/// The file is the user's alone, as the transcripts are.
fn private(path: &Path) {
    use std::os::unix::fs::OpenOptionsExt;
    #[expect(clippy::disallowed_types, reason = "the home of session files")]
    let made = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    // Opening it as a database says what is wrong.
    drop(made);
}

fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        // It may not be there; if it cannot be removed, opening it says why.
        let _ = fs::remove_file(format!("{}{suffix}", path.display()));
    }
}

fn text(path: &Path) -> Cow<'_, str> {
    path.to_str().map_or_else(|| path.to_string_lossy(), Cow::Borrowed)
}

fn number(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
