//! A session from its file. Damage costs the line it stands in and is told; memory is bounded however
//! long the file is; nothing is written.
#![expect(clippy::disallowed_types, reason = "the home of transcript files")]

use super::{
    StoreError,
    line::{self, Said},
    lines::{self, Content},
    records::{self, Record, What},
    state::State,
    store::session_id,
};
use ostler_proto::{Entry, EntryId, SessionEvent, SessionId};
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    hash::{DefaultHasher, Hash, Hasher},
    io::Read,
    ops::ControlFlow,
    path::{Path, PathBuf},
};
use uuid::Uuid;

/// How much of a conversation is held, in bytes of its lines. More than any API takes in one request, so
/// what is older could never be sent.
const MOST_HELD: usize = 192 << 20;

/// A session read from disk.
#[derive(Debug)]
pub struct Loaded {
    /// Its id.
    pub id: SessionId,
    /// Its file.
    pub path: PathBuf,
    /// How long the file was when it began to be read; what was written since is not in here.
    pub length: u64,
    /// What it amounts to.
    pub state: State,
    /// Lines that could not be read, by number, and why.
    pub damaged: Vec<(usize, String)>,
    /// Lines that stood there twice.
    pub repeated: usize,
    /// Older messages that were left out because no request could hold them.
    pub left_out: usize,
    /// Who wrote it.
    pub writer: Writer,
    /// The model that answered last, where nothing says which one was chosen.
    pub answered_by: Option<String>,
    /// Prompts behind the line that reading was to stop at.
    pub dropped_prompts: Vec<EntryId>,
    /// Whether the line that reading was to stop at was there.
    pub found: bool,
    /// Whether that line stands within a turn, not at its end.
    pub cut_within_turn: bool,
}

/// Who wrote a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// Ostler, at least in part.
    Ostler,
    /// Another program.
    Another,
}

/// How far to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// To the end.
    End,
    /// Up to and with this line.
    Line(EntryId),
}

/// Reads a session.
pub fn load(path: &Path) -> Result<Loaded, StoreError> {
    load_until(path, &Until::End)
}

/// Reads a session up to a line.
pub fn load_until(path: &Path, until: &Until) -> Result<Loaded, StoreError> {
    load_within(MOST_HELD, path, until)
}

/// Reads a session as it was when its file had this many bytes.
pub(crate) fn load_first(path: &Path, bytes: u64) -> Result<Loaded, StoreError> {
    let failed = |error| StoreError::Io { path: path.to_path_buf(), error };
    let file = File::open(path).map_err(failed)?;
    load_from(file.take(bytes), bytes, (MOST_HELD, &Until::End), path)
}

fn load_within(most_held: usize, path: &Path, until: &Until) -> Result<Loaded, StoreError> {
    let failed = |error| StoreError::Io { path: path.to_path_buf(), error };
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    load_from(file.take(length), length, (most_held, until), path)
}

fn load_from(
    file: impl Read,
    length: u64,
    (most_held, until): (usize, &Until),
    path: &Path,
) -> Result<Loaded, StoreError> {
    let failed = |error| StoreError::Io { path: path.to_path_buf(), error };
    let id = session_id(path).ok_or_else(|| StoreError::NotFound(path.display().to_string()))?;
    let mut reading = Reading::new(id, path, until, most_held);
    reading.loaded.length = length;
    records::each(file, |record| reading.take_in(record)).map_err(failed)?;
    Ok(reading.loaded)
}

/// Shows all events of a session, in order, with all that is known of them.
pub fn each_entry(path: &Path, mut see: impl FnMut(Entry)) -> Result<(), StoreError> {
    let failed = |error| StoreError::Io { path: path.to_path_buf(), error };
    let file = File::open(path).map_err(failed)?;
    lines::each(file, |line| {
        if let Content::Whole(bytes) | Content::Torn(bytes) = line.content
            && let Ok(entries) = line::read(plain(&String::from_utf8_lossy(bytes)))
        {
            entries.into_iter().for_each(&mut see);
        }
        Ok(ControlFlow::Continue(()))
    })
    .map_err(failed)
}

/// Shows all lines of a session that are text, in order and as they stand.
pub fn each_line(path: &Path, see: impl FnMut(&str)) -> Result<(), StoreError> {
    each_line_from(path, 0, see)
}

/// The same for those that begin behind this many bytes.
pub(crate) fn each_line_from(path: &Path, from: u64, mut see: impl FnMut(&str)) -> Result<(), StoreError> {
    let failed = |error| StoreError::Io { path: path.to_path_buf(), error };
    let file = File::open(path).map_err(failed)?;
    lines::each(file, |line| {
        if let Content::Whole(bytes) | Content::Torn(bytes) = line.content
            && line.offset >= from
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            see(plain(text));
        }
        Ok(ControlFlow::Continue(()))
    })
    .map_err(failed)
}

struct Reading<'a> {
    loaded: Loaded,
    until: &'a Until,
    seen: HashSet<u128>,
    /// Lines of other programs that say nothing to us, with the nearest one before them that does.
    passed: HashMap<EntryId, Option<EntryId>>,
    /// Bytes of the lines that are held.
    held: usize,
    most_held: usize,
}

impl<'a> Reading<'a> {
    fn new(id: SessionId, path: &Path, until: &'a Until, most_held: usize) -> Self {
        let loaded = Loaded {
            id,
            path: path.to_path_buf(),
            length: 0,
            state: State::default(),
            damaged: Vec::new(),
            repeated: 0,
            left_out: 0,
            writer: Writer::Another,
            answered_by: None,
            dropped_prompts: Vec::new(),
            found: *until == Until::End,
            cut_within_turn: false,
        };
        Self { loaded, until, seen: HashSet::new(), passed: HashMap::new(), held: 0, most_held }
    }

    fn take_in(&mut self, Record { number, what }: Record) {
        match what {
            What::Said(said, bytes) => self.follow(said, bytes),
            What::Called(found) => self.loaded.state.labels.follow(found),
            What::Damaged(problem, whole) => {
                self.loaded.damaged.push((number, problem));
                for (said, bytes) in whole {
                    self.follow(said, bytes);
                }
            }
        }
    }

    fn follow(&mut self, said: Said, bytes: usize) {
        if said.is_ours {
            self.loaded.writer = Writer::Ostler;
        }
        if let Some(id) = said.id()
            && !self.seen.insert(key(id))
        {
            self.loaded.repeated += 1;
            return;
        }
        if said.sums_up {
            self.loaded.state.begin_anew();
        }
        if said.entries.is_empty() {
            if let Some(id) = said.id().cloned() {
                let parent = self.known(said.parent);
                self.passed.insert(id, parent);
            }
            return;
        }
        let is_wanted = matches!(self.until, Until::Line(wanted) if said.id() == Some(wanted));
        let is_over = self.loaded.found && *self.until != Until::End;
        for mut entry in said.entries {
            if is_over {
                self.drop_entry(entry);
                continue;
            }
            entry.parent = self.known(entry.parent.take());
            self.apply(entry, bytes);
        }
        self.loaded.found |= is_wanted;
    }

    /// What stands behind the line that reading was to stop at.
    fn drop_entry(&mut self, entry: Entry) {
        match entry.event {
            SessionEvent::Prompted { meta: false, .. } => self.loaded.dropped_prompts.push(entry.id),
            SessionEvent::Prompted { meta: true, .. }
            | SessionEvent::Replied { .. }
            | SessionEvent::ToolReturned { .. }
            | SessionEvent::Dropped { .. }
            | SessionEvent::Interrupted { .. }
            | SessionEvent::Failed { .. }
            | SessionEvent::Commanded { .. }
            | SessionEvent::Instructed { .. }
            | SessionEvent::Compacted { .. }
            | SessionEvent::Uncompacted
            | SessionEvent::RewindUndone
            | SessionEvent::Rewound { .. } => {
                self.loaded.cut_within_turn |= self.loaded.dropped_prompts.is_empty();
            }
            SessionEvent::Opened { .. }
            | SessionEvent::CacheBroken { .. }
            | SessionEvent::Sampled { .. }
            | SessionEvent::Decided { .. }
            | SessionEvent::Hooked { .. }
            | SessionEvent::ModeChanged { .. }
            | SessionEvent::ModelChanged { .. } => {}
        }
    }

    fn apply(&mut self, entry: Entry, bytes: usize) {
        if let SessionEvent::Replied { model, .. } = &entry.event
            && self.loaded.answered_by.as_ref() != Some(model)
        {
            self.loaded.answered_by = Some(model.clone());
        }
        self.loaded.state.apply_owned(entry);
        self.held += bytes;
        if self.held > self.most_held {
            self.loaded.left_out += self.loaded.state.forget_older_half();
            self.held /= 2;
        }
    }

    /// The nearest line at or before this one that means something to us.
    fn known(&self, id: Option<EntryId>) -> Option<EntryId> {
        match id {
            Some(id) => self.passed.get(&id).cloned().unwrap_or(Some(id)),
            None => None,
        }
    }
}

/// A line without what a torn page leaves around it.
fn plain(text: &str) -> &str {
    text.trim_matches(['\0', '\n', '\r', ' '])
}

fn key(id: &EntryId) -> u128 {
    Uuid::parse_str(id.as_str()).map_or_else(
        |_| {
            let mut hasher = DefaultHasher::new();
            id.hash(&mut hasher);
            u128::from(hasher.finish())
        },
        |id| id.as_u128(),
    )
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay out files of their own")]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fmt::Write as _;

    #[test]
    fn a_conversation_that_is_too_long_loses_its_beginning_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("11111111-2222-4333-8444-555555555555.jsonl");
        let mut text = String::new();
        for number in 0..250 {
            let prompt = json!({"type": "user", "uuid": format!("u{number}"), "message": {"role": "user", "content": "y".repeat(1000)}});
            let content = json!([{"type": "text", "text": format!("answer {number}")}]);
            let message =
                json!({"id": format!("m{number}"), "role": "assistant", "model": "m", "content": content});
            let answer = json!({"type": "assistant", "uuid": format!("a{number}"), "message": message});
            writeln!(text, "{prompt}\n{answer}").unwrap();
        }
        std::fs::write(&path, text).unwrap();
        let loaded = load_within(50_000, &path, &Until::End).unwrap();
        let messages = loaded.state.messages();
        assert!(messages.len() < 100, "{}", messages.len());
        let text = |at: usize| messages[at].content[0].as_text().unwrap();
        assert!(text(0).contains("no longer there"));
        assert_eq!(text(messages.len() - 1), "answer 249");
        assert_eq!(messages.len() - 1 + loaded.left_out, 500, "every message is there or counted");
    }
}
