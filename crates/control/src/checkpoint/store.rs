//! The file that holds everything: contents by their hash, operations, and how the tree was last
//! seen. One transaction at a time, from any number of processes; it never touches the project.

use super::{
    CheckpointError, Limits,
    content::{Blob, Form, unpack},
};
use ostler_tools::host::Hash;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};
use rustix::{
    fs::{self, Mode, OFlags},
    process::geteuid,
};
use std::{
    io,
    os::{fd::OwnedFd, unix::fs::DirBuilderExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// How long to wait for another process: its first look at a large project takes a while.
const LONG: Duration = Duration::from_mins(5);

/// Raised with each change to the tables below.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE blobs(
        id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE,
        size INTEGER NOT NULL, form INTEGER NOT NULL, data BLOB NOT NULL);
    CREATE TABLE operations(
        id INTEGER PRIMARY KEY AUTOINCREMENT, parent INTEGER, kind INTEGER NOT NULL, state INTEGER NOT NULL,
        made INTEGER NOT NULL, session TEXT, prompt TEXT, call TEXT, agent TEXT, title TEXT, scope BLOB);
    CREATE INDEX operations_by_session ON operations(session, id);
    CREATE INDEX operations_unfinished ON operations(state) WHERE state IN (1, 2);
    CREATE TABLE changes(
        operation INTEGER NOT NULL, path BLOB NOT NULL,
        before_kind INTEGER NOT NULL, before_bits INTEGER NOT NULL, before_content BLOB,
        after_kind INTEGER, after_bits INTEGER, after_content BLOB,
        PRIMARY KEY(operation, path)) WITHOUT ROWID;
    CREATE INDEX changes_by_path ON changes(path, operation);
    CREATE TABLE seen(
        path BLOB PRIMARY KEY, generation INTEGER NOT NULL, racy INTEGER NOT NULL,
        mode INTEGER NOT NULL, size INTEGER NOT NULL, modified INTEGER NOT NULL,
        changed INTEGER NOT NULL, inode INTEGER NOT NULL,
        kind INTEGER NOT NULL, bits INTEGER NOT NULL, content BLOB) WITHOUT ROWID;
    CREATE INDEX seen_by_generation ON seen(generation);
    CREATE TABLE roots(path BLOB PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE facts(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
";

/// Came after the first version, which does well without it.
const DOUBTS: &str = "
    CREATE TABLE IF NOT EXISTS doubts(
        operation INTEGER NOT NULL, path BLOB NOT NULL, session TEXT NOT NULL,
        PRIMARY KEY(operation, path, session)) WITHOUT ROWID;
";

/// How long other processes are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// Not at all.
    None,
    /// Until they are done, within reason.
    Long,
}

/// An open store.
pub(super) struct Store {
    connection: Connection,
    pub(super) folder: PathBuf,
    /// Where contents lie that are files of their own.
    pub(super) links: OwnedFd,
}

/// Where the database lies in the store's folder.
pub(super) fn database(folder: &Path) -> PathBuf {
    folder.join("store.db")
}

/// Moves a store out of the way, so that the next one begins empty. Gives where it is now; `None`
/// when there was none.
pub fn set_aside(folder: &Path) -> Result<Option<PathBuf>, CheckpointError> {
    for number in 1.. {
        let aside = folder.with_extension(format!("aside-{number}"));
        if aside.symlink_metadata().is_ok() {
            continue;
        }
        return match fs::renameat(fs::CWD, folder, fs::CWD, &aside) {
            Ok(()) => Ok(Some(aside)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(errno) => {
                Err(CheckpointError::Io { action: "set aside", path: folder.to_owned(), error: errno.into() })
            }
        };
    }
    Ok(None)
}

impl Store {
    /// Opens the store in a folder, making both if need be.
    pub(super) fn open(folder: &Path, limits: &Limits) -> Result<Self, CheckpointError> {
        let links = private_folder(&folder.join("links"))?;
        private_folder(folder)?;
        let path = database(folder);
        let failed = |error| failed(folder, error);
        let mut connection = Connection::open(&path).map_err(failed)?;
        prepare(&mut connection, limits).map_err(failed)?;
        let store = Self { connection, folder: folder.to_owned(), links };
        if store.fact("version")? > VERSION {
            return Err(CheckpointError::Later(path));
        }
        Ok(store)
    }

    /// Begins to write; nobody else writes until it ends.
    pub(super) fn write(&self) -> Result<Transaction<'_>, CheckpointError> {
        Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
            .map_err(|error| self.failed(error))
    }

    /// Sets how long other processes are waited for.
    pub(super) fn set_patience(&self, patience: Patience) -> Result<(), CheckpointError> {
        let time = match patience {
            Patience::None => Duration::ZERO,
            Patience::Long => LONG,
        };
        self.connection.busy_timeout(time).map_err(|error| self.failed(error))
    }

    /// For looking only.
    pub(super) fn reader(&self) -> &Connection {
        &self.connection
    }

    /// Turns a failure of the database into ours.
    pub(super) fn failed(&self, error: rusqlite::Error) -> CheckpointError {
        failed(&self.folder, error)
    }

    /// A number kept by name; 0 when it was never set.
    pub(super) fn fact(&self, name: &str) -> Result<i64, CheckpointError> {
        fact(&self.connection, name).map_err(|error| self.failed(error))
    }

    /// The bytes of a content; `None` when they are gone or are not what their name says.
    pub(super) fn content(&self, hash: &Hash) -> Result<Option<Vec<u8>>, CheckpointError> {
        let blob = find_blob(&self.connection, hash).map_err(|error| self.failed(error))?;
        Ok(blob.filter(|blob| blob.form != Form::Linked).and_then(unpack))
    }

    /// The file a linked content lies in.
    pub(super) fn linked(&self, hash: &Hash) -> Result<Option<OwnedFd>, CheckpointError> {
        let found = find_blob(&self.connection, hash).map_err(|error| self.failed(error))?;
        let Some(blob) = found.filter(|blob| blob.form == Form::Linked) else { return Ok(None) };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(file) = fs::openat(&self.links, hash.to_hex().as_str(), flags, Mode::empty()) else {
            return Ok(None);
        };
        let is_whole = fs::fstat(&file).is_ok_and(|stat| u64::try_from(stat.st_size) == Ok(blob.size));
        Ok(is_whole.then_some(file))
    }
}

/// Puts a content in, unless it is there.
pub(super) fn put_blob(connection: &Connection, blob: &Blob) -> rusqlite::Result<()> {
    let form = match blob.form {
        Form::Plain => 0,
        Form::Zstd => 1,
        Form::Linked => 2,
    };
    let mut statement = connection
        .prepare_cached("INSERT OR IGNORE INTO blobs(hash, size, form, data) VALUES (?1, ?2, ?3, ?4)")?;
    statement.execute(params![blob.hash.as_bytes(), blob.size.cast_signed(), form, blob.data])?;
    Ok(())
}

/// A number kept by name; 0 when it was never set.
pub(super) fn fact(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    let mut statement = connection.prepare_cached("SELECT value FROM facts WHERE name = ?1")?;
    Ok(statement.query_row([name], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// Raises a number by one and gives it.
pub(super) fn raise(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    let value = fact(connection, name)? + 1;
    set_fact(connection, name, value)?;
    Ok(value)
}

/// Keeps a number by name.
pub(super) fn set_fact(connection: &Connection, name: &str, value: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO facts(name, value) VALUES (?1, ?2)")?
        .execute(params![name, value])
        .map(drop)
}

/// Turns a failure of the database into ours.
pub(super) fn failed(folder: &Path, error: rusqlite::Error) -> CheckpointError {
    let path = database(folder);
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => CheckpointError::NoSpace(path),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => CheckpointError::Busy(path),
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly) => {
            CheckpointError::Io { action: "use the checkpoint store", path, error: io::Error::other(error) }
        }
        _ => CheckpointError::Damaged { path, problem: error.to_string() },
    }
}

fn find_blob(connection: &Connection, hash: &Hash) -> rusqlite::Result<Option<Blob>> {
    let mut statement = connection.prepare_cached("SELECT size, form, data FROM blobs WHERE hash = ?1")?;
    let read = |row: &rusqlite::Row<'_>| {
        let form = match row.get::<_, i64>(1)? {
            0 => Form::Plain,
            1 => Form::Zstd,
            _ => Form::Linked,
        };
        Ok(Blob { hash: *hash, size: row.get::<_, i64>(0)?.cast_unsigned(), form, data: row.get(2)? })
    };
    statement.query_row([hash.as_bytes()], read).optional()
}

fn prepare(connection: &mut Connection, limits: &Limits) -> rusqlite::Result<()> {
    connection.busy_timeout(LONG)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Before the first table, or it has no effect: space that is pruned goes back to the disk.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // What is about to be overwritten in the project must survive the machine here first.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -65536)?;
    // What the first look at a large project wrote is not kept twice.
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
    let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let pages = i64::try_from(limits.quota).unwrap_or(i64::MAX) / page.max(1);
    connection.pragma_update(None, "max_page_count", pages.clamp(64, 4_294_967_294))?;
    // Looked at first without a lock: another process may be taking a large project in for a while.
    if has_table(connection, "doubts")? {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !has_table(&transaction, "facts")? {
        transaction.execute_batch(TABLES)?;
        transaction.execute("INSERT INTO facts(name, value) VALUES ('version', ?1)", [VERSION])?;
    }
    transaction.execute_batch(DOUBTS)?;
    transaction.commit()
}

fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let query = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = ?1)";
    connection.query_row(query, [name], |row| row.get(0))
}

/// Opens a folder that only we may use, making it if need be.
pub(super) fn private_folder(path: &Path) -> Result<OwnedFd, CheckpointError> {
    let refused = |error| CheckpointError::Io { action: "use", path: path.to_owned(), error };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(refused)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = fs::openat(fs::CWD, path, flags, Mode::empty()).map_err(|errno| refused(errno.into()))?;
    let found = fs::fstat(&folder).map_err(|errno| refused(errno.into()))?;
    if found.st_uid != geteuid().as_raw() || found.st_mode & 0o077 != 0 {
        let problem = "others may use it; it must belong to you alone, with mode 0700";
        return Err(refused(io::Error::other(problem)));
    }
    Ok(folder)
}
