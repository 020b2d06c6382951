//! The log of operations: what was done to the project, by whom, on whose word. Append-only: taking
//! something back is one more operation.

use super::{
    index::{Change, path_from},
    standing::{Columns, Standing},
};
use ostler_proto::{AgentId, CallId, EntryId, SessionId};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Names an operation; a later one has a greater number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub i64);

/// What an operation was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The user's prompt: a checkpoint. It changes nothing itself.
    Prompt,
    /// A call that changed named files.
    Edit,
    /// A command.
    Command,
    /// Changes that were found and are not ours.
    Observed,
    /// A rewind, or its undoing.
    Restore,
}

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It has ended and its changes are known.
    Done,
    /// It is running, or its process has died.
    Open,
    /// Files are being put back, or the process that did so has died.
    Restoring,
    /// Its process died; what it had changed until then was found afterwards.
    CutOff,
}

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its number.
    pub id: OperationId,
    /// The operation before it.
    pub parent: Option<OperationId>,
    /// What it was.
    pub kind: Kind,
    /// How far it is.
    pub progress: Progress,
    /// When it was made, in milliseconds since 1970; shown, never used for order.
    pub made: i64,
    /// Whose it is; absent for what is not ours.
    pub session: Option<SessionId>,
    /// The prompt it came from.
    pub prompt: Option<EntryId>,
    /// The call that did it.
    pub call: Option<CallId>,
    /// The agent below the main one whose call it was.
    pub agent: Option<AgentId>,
    /// A line for people.
    pub title: Option<String>,
}

/// A checkpoint, and how much was changed between it and the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its entry in the log.
    pub operation: Operation,
    /// How many changes were made to paths, rewinds aside.
    pub changed: usize,
}

/// An operation that is about to be logged.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) kind: Kind,
    pub(super) progress: Progress,
    pub(super) session: Option<SessionId>,
    pub(super) prompt: Option<EntryId>,
    pub(super) call: Option<CallId>,
    pub(super) agent: Option<AgentId>,
    pub(super) title: Option<String>,
    /// What the operation may touch, or works on.
    pub(super) scope: Vec<u8>,
}

/// A change with the operation that made it. `after` is absent while that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Logged {
    pub(super) operation: OperationId,
    pub(super) path: PathBuf,
    pub(super) before: Standing,
    pub(super) after: Option<Standing>,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Prompt, Self::Edit, Self::Command, Self::Observed, Self::Restore];
}

impl Progress {
    const ALL: [Self; 4] = [Self::Done, Self::Open, Self::Restoring, Self::CutOff];
}

fn code<T: PartialEq>(all: &[T], one: &T) -> i64 {
    all.iter().position(|known| known == one).and_then(|at| i64::try_from(at).ok()).unwrap_or_default()
}

fn decode<T: Copy>(all: &[T], code: i64) -> rusqlite::Result<T> {
    let found = usize::try_from(code).ok().and_then(|at| all.get(at));
    found.copied().ok_or(rusqlite::Error::IntegralValueOutOfRange(0, code))
}

const COLUMNS: &str = "id, parent, kind, state, made, session, prompt, call, agent, title";

/// Appends to the log.
pub(super) fn append(connection: &Connection, draft: &Draft, now: i64) -> rusqlite::Result<OperationId> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO operations(parent, kind, state, made, session, prompt, call, agent, title, scope)
         VALUES ((SELECT max(id) FROM operations), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    insert.execute(params![
        code(&Kind::ALL, &draft.kind),
        code(&Progress::ALL, &draft.progress),
        now / 1_000_000,
        draft.session.as_ref().map(SessionId::as_str),
        draft.prompt.as_ref().map(EntryId::as_str),
        draft.call.as_ref().map(CallId::as_str),
        draft.agent.as_ref().map(AgentId::as_str),
        draft.title,
        draft.scope,
    ])?;
    Ok(OperationId(connection.last_insert_rowid()))
}

/// Sets how far an operation is.
pub(super) fn mark(connection: &Connection, id: OperationId, progress: Progress) -> rusqlite::Result<()> {
    let mut update = connection.prepare_cached("UPDATE operations SET state = ?2 WHERE id = ?1")?;
    update.execute(params![id.0, code(&Progress::ALL, &progress)]).map(drop)
}

/// Logs what stood at a path before an operation that is running.
pub(super) fn add_before(
    connection: &Connection,
    id: OperationId,
    path: &Path,
    before: &Standing,
) -> rusqlite::Result<()> {
    let Columns { kind, bits, content } = before.columns();
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO changes(operation, path, before_kind, before_bits, before_content)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![id.0, path.as_os_str().as_bytes(), kind, bits, content])
        .map(drop)
}

/// Logs a change.
pub(super) fn add_change(connection: &Connection, id: OperationId, change: &Change) -> rusqlite::Result<()> {
    let (before, after) = (change.before.columns(), change.after.columns());
    connection
        .prepare_cached("INSERT OR REPLACE INTO changes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
        .execute(params![
            id.0,
            change.path.as_os_str().as_bytes(),
            before.kind,
            before.bits,
            before.content,
            after.kind,
            after.bits,
            after.content
        ])
        .map(drop)
}

/// Logs a change that may go on from one of the same operation: what stood there first still counts as before.
pub(super) fn extend_change(
    connection: &Connection,
    id: OperationId,
    change: &Change,
) -> rusqlite::Result<()> {
    let earlier = connection
        .prepare_cached("SELECT * FROM changes WHERE operation = ?1 AND path = ?2")?
        .query_row(params![id.0, change.path.as_os_str().as_bytes()], read_change)
        .optional()?;
    let change = match earlier {
        Some(earlier) => Change { before: earlier.before, ..change.clone() },
        None => change.clone(),
    };
    if change.before == change.after {
        drop_change(connection, id, &change.path)
    } else {
        add_change(connection, id, &change)
    }
}

/// The last operation of a session, from one on, that changed a path; that one if none did.
pub(super) fn newest_at(
    connection: &Connection,
    session: &SessionId,
    path: &Path,
    from: OperationId,
) -> rusqlite::Result<OperationId> {
    let newest: Option<i64> = connection
        .prepare_cached(
            "SELECT max(operation) FROM changes CROSS JOIN operations ON operations.id = changes.operation
             WHERE path = ?1 AND operation >= ?2 AND session = ?3",
        )?
        .query_row(params![path.as_os_str().as_bytes(), from.0, session.as_str()], |row| row.get(0))?;
    Ok(newest.map_or(from, OperationId))
}

/// Logs that a change of an operation may have been another session's.
pub(super) fn add_doubt(
    connection: &Connection,
    id: OperationId,
    path: &Path,
    other: &SessionId,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO doubts(operation, path, session) VALUES (?1, ?2, ?3)")?
        .execute(params![id.0, path.as_os_str().as_bytes(), other.as_str()])
        .map(drop)
}

/// The paths that a session changed from an operation on, or else one of these other sessions.
pub(super) fn doubts_since(
    connection: &Connection,
    session: &SessionId,
    from: OperationId,
) -> rusqlite::Result<BTreeMap<PathBuf, BTreeSet<SessionId>>> {
    let mut doubts: BTreeMap<PathBuf, BTreeSet<SessionId>> = BTreeMap::new();
    let mut select = connection.prepare_cached(
        "SELECT doubts.path, doubts.session FROM operations CROSS JOIN doubts ON doubts.operation = operations.id
         WHERE operations.session = ?1 AND id >= ?2",
    )?;
    let mut rows = select.query(params![session.as_str(), from.0])?;
    while let Some(row) = rows.next()? {
        let other = SessionId::from(row.get::<_, String>(1)?);
        doubts.entry(path_from(row.get(0)?)).or_default().insert(other);
    }
    Ok(doubts)
}

/// The other sessions that may have made a change of an operation.
pub(super) fn doubts_at(
    connection: &Connection,
    id: OperationId,
    path: &Path,
) -> rusqlite::Result<Vec<SessionId>> {
    connection
        .prepare_cached("SELECT session FROM doubts WHERE operation = ?1 AND path = ?2 ORDER BY session")?
        .query_map(params![id.0, path.as_os_str().as_bytes()], |row| {
            row.get::<_, String>(0).map(SessionId::from)
        })?
        .collect()
}

/// Takes a change back that did not come about.
pub(super) fn drop_change(connection: &Connection, id: OperationId, path: &Path) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM changes WHERE operation = ?1 AND path = ?2")?
        .execute(params![id.0, path.as_os_str().as_bytes()])
        .map(drop)
}

/// The changes of one operation, by path.
pub(super) fn changes_of(connection: &Connection, id: OperationId) -> rusqlite::Result<Vec<Logged>> {
    connection
        .prepare_cached("SELECT * FROM changes WHERE operation = ?1 ORDER BY path")?
        .query_map([id.0], read_change)?
        .collect()
}

/// The changes a session made from an operation on, oldest first.
pub(super) fn changes_since(
    connection: &Connection,
    session: &SessionId,
    from: OperationId,
) -> rusqlite::Result<Vec<Logged>> {
    connection
        .prepare_cached(
            "SELECT changes.* FROM operations CROSS JOIN changes ON changes.operation = operations.id
             WHERE session = ?1 AND id >= ?2 ORDER BY id, path",
        )?
        .query_map(params![session.as_str(), from.0], read_change)?
        .collect()
}

/// The changes made to a path by anybody, oldest first.
pub(super) fn changes_at(connection: &Connection, path: &Path) -> rusqlite::Result<Vec<Logged>> {
    connection
        .prepare_cached("SELECT * FROM changes WHERE path = ?1 ORDER BY operation")?
        .query_map([path.as_os_str().as_bytes()], read_change)?
        .collect()
}

/// One operation.
pub(super) fn find(connection: &Connection, id: OperationId) -> rusqlite::Result<Option<Operation>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM operations WHERE id = ?1"))?
        .query_row([id.0], read_operation)
        .optional()
}

/// The operations of a session, oldest first.
pub(super) fn of_session(connection: &Connection, session: &SessionId) -> rusqlite::Result<Vec<Operation>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM operations WHERE session = ?1 ORDER BY id"))?
        .query_map([session.as_str()], read_operation)?
        .collect()
}

/// Whether a session has any operation.
pub(super) fn has_any(connection: &Connection, session: &SessionId) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM operations WHERE session = ?1)")?
        .query_row([session.as_str()], |row| row.get(0))
}

/// The checkpoints of a session, oldest first.
pub(super) fn checkpoints(connection: &Connection, session: &SessionId) -> rusqlite::Result<Vec<Listed>> {
    let mut listed: Vec<Listed> = Vec::new();
    let mut count = connection.prepare_cached("SELECT count(*) FROM changes WHERE operation = ?1")?;
    for operation in of_session(connection, session)? {
        if operation.kind == Kind::Prompt {
            listed.push(Listed { operation, changed: 0 });
        } else if let Some(last) = listed.last_mut().filter(|_| operation.kind != Kind::Restore) {
            let changed: i64 = count.query_row([operation.id.0], |row| row.get(0))?;
            last.changed += usize::try_from(changed).unwrap_or_default();
        }
    }
    Ok(listed)
}

/// The session that was last active.
pub(super) fn newest_session(connection: &Connection) -> rusqlite::Result<Option<SessionId>> {
    let newest = "SELECT session FROM operations WHERE session IS NOT NULL ORDER BY id DESC LIMIT 1";
    let found = connection.query_row(newest, [], |row| row.get::<_, String>(0)).optional()?;
    Ok(found.map(SessionId::from))
}

/// Operations that have not ended, with their scope.
pub(super) fn unfinished(connection: &Connection) -> rusqlite::Result<Vec<(Operation, Vec<u8>)>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS}, scope FROM operations WHERE state IN (1, 2) ORDER BY id"
        ))?
        .query_map([], |row| Ok((read_operation(row)?, row.get(10)?)))?
        .collect()
}

fn read_operation(row: &Row<'_>) -> rusqlite::Result<Operation> {
    let text = |at: usize| row.get::<_, Option<String>>(at);
    Ok(Operation {
        id: OperationId(row.get(0)?),
        parent: row.get::<_, Option<i64>>(1)?.map(OperationId),
        kind: decode(&Kind::ALL, row.get(2)?)?,
        progress: decode(&Progress::ALL, row.get(3)?)?,
        made: row.get(4)?,
        session: text(5)?.map(SessionId::from),
        prompt: text(6)?.map(EntryId::from),
        call: text(7)?.map(CallId::from),
        agent: text(8)?.map(AgentId::from),
        title: text(9)?,
    })
}

fn read_change(row: &Row<'_>) -> rusqlite::Result<Logged> {
    let standing = |at: usize| -> rusqlite::Result<Option<Standing>> {
        let Some(kind) = row.get::<_, Option<i64>>(at)? else { return Ok(None) };
        let columns = Columns { kind, bits: row.get(at + 1)?, content: row.get(at + 2)? };
        Standing::from_columns(columns).map(Some).ok_or(rusqlite::Error::IntegralValueOutOfRange(at, kind))
    };
    Ok(Logged {
        operation: OperationId(row.get(0)?),
        path: path_from(row.get(1)?),
        before: standing(2)?.unwrap_or(Standing::Absent),
        after: standing(5)?,
    })
}
