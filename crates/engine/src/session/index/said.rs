//! What was said in sessions, word by word, for searching. A file that grew is read on from where reading
//! ended; one that was changed otherwise is read again.
#![expect(clippy::disallowed_types, reason = "the home of transcript files")]

use super::{Hit, Index, SELECT_KNOWN, known, number, text};
use crate::session::{
    labels::Found,
    line::{self, Keep},
    lines::{self, Content},
    store::SessionFile,
};
use ostler_proto::{Block, SessionEvent};
use rusqlite::{Connection, OptionalExtension, params};
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read, Seek, SeekFrom},
    ops::ControlFlow,
};

/// Rows of one session are numbered within a range of their own.
const ROWS: i64 = 1 << 24;
/// How much of one text is searched.
const LONGEST: usize = 64 << 10;
/// How much before the place where reading ended tells whether it is still the same file.
const MARK: u64 = 4096;
/// How many places are looked at, so that many in one session do not hide another.
const MOST_PLACES: i64 = 2000;

/// How far a session was read.
struct Progress {
    id: i64,
    size: i64,
    modified: i64,
    to: i64,
    mark: i64,
}

/// Forgets what was said in a session.
pub(super) fn forget(database: &Connection, id: i64) -> rusqlite::Result<()> {
    database.execute("DELETE FROM said WHERE rowid >= ?1 AND rowid < ?2", [id * ROWS, (id + 1) * ROWS])?;
    Ok(())
}

impl Index {
    /// Reads what was said since the last time.
    pub(super) fn read_said(&mut self, files: &[SessionFile]) -> rusqlite::Result<()> {
        let transaction = self.database.transaction()?;
        for file in files {
            let Some(progress) = progress(&transaction, file)? else { continue };
            if progress.size == number(file.size) && progress.modified == file.modified_ns {
                continue;
            }
            // One that cannot be read has nothing to be found in; the next search tries again.
            if let Err(error) = read_on(&transaction, file, &progress)? {
                tracing::debug!(%error, path = %file.path.display(), "not searched");
            }
        }
        transaction.commit()
    }

    pub(super) fn search_files(
        &mut self,
        files: &[SessionFile],
        words: &str,
        most: usize,
    ) -> rusqlite::Result<Vec<Hit>> {
        self.read_said(files)?;
        let by_path: HashMap<_, &SessionFile> = files.iter().map(|file| (text(&file.path), file)).collect();
        let mut facts = self.database.prepare(&format!("{SELECT_KNOWN} WHERE path = ?1"))?;
        let mut select = self.database.prepare(
            "SELECT session.path, found.excerpt FROM
                 (SELECT rowid AS place, rank AS fit, snippet(said, 0, '', '', '…', 16) AS excerpt
                  FROM said WHERE said MATCH ?1 ORDER BY rank LIMIT ?2) AS found
             JOIN session ON session.id = found.place / ?3 ORDER BY found.fit",
        )?;
        let mut rows = select.query(params![query(words), MOST_PLACES, ROWS])?;
        let (mut hits, mut seen) = (Vec::new(), HashSet::new());
        while let Some(row) = rows.next()? {
            let path: String = row.get(0)?;
            let Some(file) = by_path.get(path.as_str()) else { continue };
            if hits.len() == most || !seen.insert(path.clone()) {
                continue;
            }
            if let Some(session) = facts.query_row([&path], |row| known(row, file))? {
                hits.push(Hit { session, excerpt: row.get(1)? });
            }
        }
        Ok(hits)
    }
}

/// Each word, and what begins with it, must be there.
fn query(words: &str) -> String {
    let quoted = words.split_whitespace().map(|word| format!("\"{}\"*", word.replace('"', "\"\"")));
    quoted.collect::<Vec<_>>().join(" ")
}

fn progress(database: &Connection, file: &SessionFile) -> rusqlite::Result<Option<Progress>> {
    let mut select = database.prepare_cached(
        "SELECT id, said_size, said_modified, said_to, said_mark FROM session WHERE path = ?1 AND shown",
    )?;
    let row = select.query_row([text(&file.path)], |row| {
        let (id, size, modified, to, mark) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
        Ok(Progress { id, size, modified, to, mark })
    });
    row.optional()
}

fn read_on(
    database: &Connection,
    file: &SessionFile,
    progress: &Progress,
) -> rusqlite::Result<io::Result<()>> {
    let mut from = u64::try_from(progress.to).unwrap_or_default();
    let mut source = match File::open(&file.path) {
        Ok(source) => source,
        Err(error) => return Ok(Err(error)),
    };
    if from == 0 || from > file.size || mark(&mut source, from).ok() != Some(progress.mark) {
        forget(database, progress.id)?;
        from = 0;
    }
    let mut insert = database.prepare_cached("INSERT INTO said (rowid, words) VALUES (?1, ?2)")?;
    let last: Option<i64> = database
        .prepare_cached("SELECT max(rowid) FROM said WHERE rowid >= ?1 AND rowid < ?2")?
        .query_row([progress.id * ROWS, (progress.id + 1) * ROWS], |row| row.get(0))?;
    let mut row = last.map_or(progress.id * ROWS, |last| last + 1);
    let (mut to, mut problem) = (from, None);
    let read = source.seek(SeekFrom::Start(from)).and_then(|_| {
        lines::each(&mut source, |line| {
            let Content::Whole(bytes) = line.content else { return Ok(ControlFlow::Continue(())) };
            to = from + line.offset + bytes.len() as u64 + 1;
            for words in said_in(bytes) {
                let end = words.floor_char_boundary(LONGEST);
                problem = problem.take().or(insert.execute(params![row, &words[..end]]).err());
                row += 1;
            }
            let is_full = row + 1 >= (progress.id + 1) * ROWS || problem.is_some();
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
    });
    if let Some(problem) = problem {
        return Err(problem);
    }
    let marked = read.and_then(|()| mark(&mut source, to));
    let Ok(mark) = marked else { return Ok(marked.map(drop)) };
    database
        .prepare_cached("UPDATE session SET said_size = ?2, said_modified = ?3, said_to = ?4, said_mark = ?5 WHERE id = ?1")?
        .execute(params![progress.id, number(file.size), file.modified_ns, number(to), mark])?;
    Ok(Ok(()))
}

/// The words of people and models in a line, and titles.
fn said_in(line: &[u8]) -> Vec<String> {
    let Ok(line) = std::str::from_utf8(line) else { return Vec::new() };
    // Most of a transcript is what tools gave and what we keep beside; neither is searched.
    if line.starts_with("{\"type\":\"ostler\"") || line.contains("\"tool_result\"") {
        return Vec::new();
    }
    let Ok(said) = line::understand(line, Keep::Conversation) else { return Vec::new() };
    if said.entries.is_empty() {
        return Found::of(line.as_bytes()).title.into_iter().map(|(_, title)| title).collect();
    }
    let words = said.entries.into_iter().map(|entry| match entry.event {
        SessionEvent::Prompted { content, meta: false } => content,
        SessionEvent::Replied { block, .. } => vec![block],
        SessionEvent::Prompted { meta: true, .. }
        | SessionEvent::Opened { .. }
        | SessionEvent::Instructed { .. }
        | SessionEvent::CacheBroken { .. }
        | SessionEvent::Compacted { .. }
        | SessionEvent::Uncompacted
        | SessionEvent::RewindUndone
        | SessionEvent::Commanded { .. }
        | SessionEvent::Sampled { .. }
        | SessionEvent::Dropped { .. }
        | SessionEvent::Decided { .. }
        | SessionEvent::Hooked { .. }
        | SessionEvent::ToolReturned { .. }
        | SessionEvent::Interrupted { .. }
        | SessionEvent::Failed { .. }
        | SessionEvent::ModeChanged { .. }
        | SessionEvent::ModelChanged { .. }
        | SessionEvent::Rewound { .. } => Vec::new(),
    });
    words
        .flatten()
        .filter_map(|block| if let Block::Text(text) = block { Some(text) } else { None })
        .collect()
}

/// What stands right before a place, as a number.
fn mark(source: &mut File, at: u64) -> io::Result<i64> {
    let length = at.min(MARK);
    source.seek(SeekFrom::Start(at - length))?;
    let mut bytes = Vec::new();
    source.take(length).read_to_end(&mut bytes)?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Ok(hasher.finish().cast_signed())
}
