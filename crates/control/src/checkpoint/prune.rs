//! Keeps the store small: forgets old operations and the contents that only they needed. What the
//! newest checkpoints of a living session need is never forgotten.

use super::{
    CheckpointError, Place,
    capture::Core,
    lock,
    observe::{Trouble, now},
    store::{Store, database, raise, set_fact},
};
use ostler_proto::SessionId;
use rusqlite::{Connection, params};
use rustix::fs::{self, AtFlags, Dir, Mode, OFlags};
use std::{
    collections::HashMap,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Operations older than this are forgotten.
    pub max_age: Duration,
    /// When the store is larger than this, the oldest are forgotten.
    pub max_bytes: u64,
    /// When the project has more checkpoints than this, the oldest are forgotten.
    pub max_checkpoints: usize,
    /// How many checkpoints of a living session are kept in any case.
    pub keep_newest: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            max_age: Duration::from_hours(30 * 24),
            max_bytes: 2 << 30,
            max_checkpoints: 1000,
            keep_newest: 100,
        }
    }
}

/// What was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Operations.
    pub operations: usize,
    /// Contents.
    pub contents: usize,
    /// Bytes on the disk before.
    pub bytes_before: u64,
    /// Bytes on the disk after.
    pub bytes_after: u64,
}

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Sessions.
    pub sessions: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Operations, checkpoints among them.
    pub operations: u64,
    /// Contents.
    pub contents: u64,
    /// Their length before it is shrunk.
    pub content_bytes: u64,
    /// What the store takes on the disk.
    pub bytes: u64,
}

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Prunes the stores of other projects that nobody has used for as long as operations are kept. What a
/// dead process left unfinished there stays: the next session in that project finishes it.
pub fn prune_neglected(own: &Place, retention: &Retention) {
    let Some(all) = own.folder.parent() else { return };
    for folder in neglected(all, retention.max_age).into_iter().filter(|folder| *folder != own.folder) {
        let place = Place { folder, ..own.clone() };
        match Core::open(&place).and_then(|mut core| core.prune(retention)) {
            Ok(pruned) => {
                tracing::debug!(folder = %place.folder.display(), ?pruned, "pruned a neglected store");
            }
            Err(error) => tracing::warn!(%error, "a neglected checkpoint store could not be pruned"),
        }
    }
}

/// The stores whose database was last written too long ago.
fn neglected(all: &Path, max_age: Duration) -> Vec<PathBuf> {
    let age = i128::try_from(max_age.as_nanos()).unwrap_or(i128::MAX);
    let cutoff = i128::from(now()).saturating_sub(age);
    let is_old = |folder: &PathBuf| {
        fs::lstat(database(folder)).is_ok_and(|stat| {
            i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec) < cutoff
        })
    };
    let folders = fs::open(all, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let entries = folders.and_then(Dir::new).into_iter().flatten().flatten();
    let folders = entries.map(|entry| all.join(OsStr::from_bytes(entry.file_name().to_bytes())));
    // A name with a dot was set aside: it is damaged, and its owner knows.
    folders.filter(|folder| folder.extension().is_none() && is_old(folder)).collect()
}

impl Core {
    pub(super) fn statistics(&self) -> Result<Statistics, CheckpointError> {
        let number = |query: &str| -> Result<u64, CheckpointError> {
            let found = self.store.reader().query_row(query, [], |row| row.get::<_, i64>(0));
            found.map(i64::cast_unsigned).map_err(|error| self.store.failed(error))
        };
        Ok(Statistics {
            sessions: number("SELECT count(DISTINCT session) FROM operations")?,
            checkpoints: number("SELECT count(*) FROM operations WHERE kind = 0")?,
            operations: number("SELECT count(*) FROM operations")?,
            contents: number("SELECT count(*) FROM blobs")?,
            content_bytes: number("SELECT coalesce(sum(size), 0) FROM blobs")?,
            bytes: self.bytes(),
        })
    }

    pub(super) fn prune(&mut self, retention: &Retention) -> Result<Pruned, CheckpointError> {
        let bytes_before = self.bytes();
        let floors = self.floors(retention.keep_newest)?;
        let age = i64::try_from(retention.max_age.as_millis()).unwrap_or(i64::MAX);
        let cutoff = (now() / 1_000_000).saturating_sub(age);
        let oldest = self.nth_newest_checkpoint(retention.max_checkpoints)?;
        let mut pruned = self.forget_where(&floors, |made, id| made < cutoff || id < oldest)?;
        self.give_back()?;
        // Each round forgets the older half of what may go, until it is small enough or none is left.
        while self.bytes() > retention.max_bytes {
            let middle = self.middle()?;
            let round = self.forget_where(&floors, |_, id| id <= middle)?;
            self.give_back()?;
            pruned.operations += round.operations;
            pruned.contents += round.contents;
            if round.operations == 0 {
                break;
            }
        }
        if self.bytes() > retention.max_bytes && floors.is_empty() {
            // Nobody needs to know how the tree was last seen; the next session looks again.
            pruned.contents += self.forget_trees()?;
            self.give_back()?;
        }
        Ok(Pruned { bytes_before, bytes_after: self.bytes(), ..pruned })
    }

    /// Prunes, unless that was done within the last day.
    pub(super) fn prune_if_due(&mut self, retention: &Retention) -> Result<Option<Pruned>, CheckpointError> {
        let now = now() / 1_000_000;
        let age = now.saturating_sub(self.store.fact("pruned")?);
        // A clock that was set back does not put it off for ever.
        if (0..DAY_MS).contains(&age) {
            return Ok(None);
        }
        let pruned = self.prune(retention)?;
        self.transact(|_, store| Ok(set_fact(store.reader(), "pruned", now)?))?;
        Ok(Some(pruned))
    }

    /// The checkpoint with so many newer ones, less one; 0 when there are fewer.
    fn nth_newest_checkpoint(&self, count: usize) -> Result<i64, CheckpointError> {
        let query = "SELECT coalesce((SELECT id FROM operations WHERE kind = 0
                     ORDER BY id DESC LIMIT 1 OFFSET ?1), 0)";
        let offset = i64::try_from(count.saturating_sub(1)).unwrap_or(i64::MAX);
        let found = self.store.reader().query_row(query, [offset], |row| row.get(0));
        found.map_err(|error| self.store.failed(error))
    }

    /// For each living session, the oldest operation that must stay.
    fn floors(&self, keep_newest: usize) -> Result<HashMap<String, i64>, CheckpointError> {
        let failed = |error| self.store.failed(error);
        let connection = self.store.reader();
        let sessions: Vec<String> = connection
            .prepare("SELECT DISTINCT session FROM operations WHERE session IS NOT NULL")
            .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
            .map_err(failed)?;
        let mut floors = HashMap::new();
        for session in sessions {
            let id = SessionId::from(session.as_str());
            if self.live.contains_key(&id) || lock::is_live(&self.store.folder, &id)? {
                let offset = i64::try_from(keep_newest.saturating_sub(1)).unwrap_or(i64::MAX);
                let floor = connection.query_row(
                    "SELECT coalesce((SELECT id FROM operations WHERE session = ?1 AND kind = 0
                                      ORDER BY id DESC LIMIT 1 OFFSET ?2), 0)",
                    params![session, offset],
                    |row| row.get(0),
                );
                floors.insert(session, floor.map_err(failed)?);
            }
        }
        Ok(floors)
    }

    /// The operation in the middle of those there are.
    fn middle(&self) -> Result<i64, CheckpointError> {
        let query = "SELECT coalesce((SELECT id FROM operations ORDER BY id
                     LIMIT 1 OFFSET (SELECT count(*) / 2 FROM operations)), 0)";
        self.store.reader().query_row(query, [], |row| row.get(0)).map_err(|error| self.store.failed(error))
    }

    fn forget_where(
        &mut self,
        floors: &HashMap<String, i64>,
        may_go: impl Fn(i64, i64) -> bool,
    ) -> Result<Pruned, CheckpointError> {
        self.transact(|_, store| {
            let connection = store.reader();
            let mut select =
                connection.prepare("SELECT id, made, session FROM operations WHERE state NOT IN (1, 2)")?;
            let rows = select.query_map([], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Option<String>>(2)?))
            })?;
            let mut gone = Vec::new();
            for row in rows {
                let (id, made, session) = row?;
                let is_needed =
                    session.is_some_and(|session| floors.get(&session).is_some_and(|floor| id >= *floor));
                if may_go(made, id) && !is_needed {
                    gone.push(id);
                }
            }
            for id in &gone {
                connection.prepare_cached("DELETE FROM changes WHERE operation = ?1")?.execute([id])?;
                connection.prepare_cached("DELETE FROM doubts WHERE operation = ?1")?.execute([id])?;
                connection.prepare_cached("DELETE FROM operations WHERE id = ?1")?.execute([id])?;
            }
            let contents = forget_contents(store)?;
            Ok(Pruned { operations: gone.len(), contents, ..Pruned::default() })
        })
    }

    fn forget_trees(&mut self) -> Result<usize, CheckpointError> {
        self.transact(|observer, store| {
            store.reader().execute_batch("DELETE FROM seen; DELETE FROM roots;")?;
            observer.index = super::index::Index::default();
            forget_contents(store)
        })
    }

    /// Gives free space back to the disk.
    fn give_back(&self) -> Result<(), CheckpointError> {
        let vacuum = |connection: &Connection| {
            // Each step frees one page.
            let mut freeing = connection.prepare("PRAGMA incremental_vacuum")?;
            let mut pages = freeing.query([])?;
            while pages.next()?.is_some() {}
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        };
        vacuum(self.store.reader()).map_err(|error| self.store.failed(error))
    }

    /// What the store takes on the disk.
    fn bytes(&self) -> u64 {
        let size = |suffix: &str| {
            let mut path = database(&self.store.folder).into_os_string();
            path.push(suffix);
            std::fs::metadata(path).map_or(0, |found| found.len())
        };
        let sole = |name: &std::ffi::CStr| {
            let stat = fs::statat(&self.store.links, name, AtFlags::SYMLINK_NOFOLLOW);
            // While the project has it too, it takes no room of its own.
            stat.map_or(0, |stat| if stat.st_nlink == 1 { stat.st_size.unsigned_abs() } else { 0 })
        };
        let links = Dir::read_from(&self.store.links).into_iter().flatten().flatten();
        let linked: u64 =
            links.filter(|entry| entry.file_type().is_file()).map(|entry| sole(entry.file_name())).sum();
        size("") + size("-wal") + linked
    }
}

/// Forgets contents that nothing needs any more. Each content comes in with what needs it, in one
/// transaction, so none is lost on its way in.
fn forget_contents(store: &Store) -> Result<usize, Trouble> {
    let connection = store.reader();
    let count = connection.execute(
        "DELETE FROM blobs WHERE hash NOT IN (
             SELECT content FROM seen WHERE kind = 1 AND content IS NOT NULL
             UNION SELECT before_content FROM changes WHERE before_kind = 1 AND before_content IS NOT NULL
             UNION SELECT after_content FROM changes WHERE after_kind = 1 AND after_content IS NOT NULL)",
        [],
    )?;
    raise(connection, "prunes")?;
    let mut is_kept =
        connection.prepare("SELECT EXISTS (SELECT 1 FROM blobs WHERE form = 2 AND hash = ?1)")?;
    for entry in Dir::read_from(&store.links).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Ok(hash) = blake3::Hash::from_hex(name.to_bytes()) else { continue };
        if !is_kept.query_row([hash.as_bytes()], |row| row.get::<_, bool>(0))? {
            // Nothing more can be done about a file that will not go; the next prune tries again.
            let _ = fs::unlinkat(&store.links, name, AtFlags::empty());
        }
    }
    Ok(count)
}
