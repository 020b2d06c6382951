//! Looks after session files: names, checks, mends and removes them. A session that somebody has open is
//! never mended or removed, and nothing is touched that is not a session or lies beside one.
#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "the home of transcript files")]

use super::{
    labels,
    line::{self, Keep},
    lines::{self, Content, UNWRITTEN},
    log::{Held, LogError, is_at},
    store::{Scope, SessionFile, Store},
};
use ostler_proto::{CallId, SessionEvent, SessionId};
use std::{
    collections::{HashMap, HashSet},
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    ops::ControlFlow,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// What a look at every line of a session gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// All lines that are not empty.
    pub lines: usize,
    /// Those that cannot be read, by number and byte, and why.
    pub damaged: Vec<(usize, u64, String)>,
    /// Those that stand there twice, by number.
    pub repeated: Vec<usize>,
    /// Calls without a result.
    pub unanswered: usize,
    /// Results without a call.
    pub orphans: usize,
}

impl Health {
    /// Whether mending would change the file.
    pub fn is_whole(&self) -> bool {
        self.damaged.is_empty() && self.repeated.is_empty()
    }
}

/// What became of a session that was old when it was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// It is gone.
    Removed,
    /// Somebody went on with it meanwhile, so it stays.
    UsedSince,
}

/// Gives a session a title. Others may have it open: one whole line is appended at once.
pub fn rename(path: &Path, id: &SessionId, title: &str) -> io::Result<()> {
    loop {
        let file = append_title(path, id, title)?;
        // Mending puts another file in its place, and the old one's title would be lost.
        if is_at(&file, path)? {
            return Ok(());
        }
    }
}

fn append_title(path: &Path, id: &SessionId, title: &str) -> io::Result<File> {
    let mut file = OpenOptions::new().append(true).read(true).open(path)?;
    let mut line = labels::title_line(title, id) + "\n";
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            line.insert(0, '\n');
        }
    }
    file.write_all(line.as_bytes())?;
    file.sync_data()?;
    Ok(file)
}

/// Removes a session with what lies beside it, unless somebody has it open.
pub fn remove(path: &Path) -> Result<(), LogError> {
    let held = Held::of(path)?;
    remove_held(&held, path)
}

/// The same for one that is still as old as it was when it was looked for.
pub fn expire(path: &Path, before_ns: i64) -> Result<Expiry, LogError> {
    let held = Held::of(path)?;
    if SessionFile::at(path).is_none_or(|file| file.modified_ns >= before_ns) {
        return Ok(Expiry::UsedSince);
    }
    remove_held(&held, path).map(|()| Expiry::Removed)
}

/// Sessions that were not written to since then and that are ours to remove.
pub fn expired(store: &Store, own_home: &Path, before_ns: i64) -> Vec<SessionFile> {
    let files = store.files(&Scope::Everywhere).into_iter();
    let ours = |file: &SessionFile| file.path.starts_with(own_home) || is_begun_by_us(&file.path);
    files.filter(|file| file.modified_ns < before_ns).filter(ours).collect()
}

/// Looks at every line.
pub fn check(path: &Path) -> io::Result<Health> {
    look(File::open(path)?, |_| Ok(()))
}

/// Takes out what cannot be read and what stands there twice. The file as it was stays beside it, at the path
/// that is given back; there is none where nothing was to be done.
pub fn mend(path: &Path) -> Result<Option<PathBuf>, LogError> {
    let failed = |error| LogError::Io { path: path.to_path_buf(), error };
    let held = Held::of(path)?;
    let part = path.with_extension("part");
    let mended = mend_held(&held, path, &part).inspect_err(|_| {
        // What went wrong is told; half a file beside the whole one harms nobody.
        let _ = fs::remove_file(&part);
    });
    mended.map_err(failed)
}

fn mend_held(held: &Held, path: &Path, part: &Path) -> io::Result<Option<PathBuf>> {
    let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(part)?;
    let mut out = BufWriter::new(file);
    let health = look(&held.file, |line| {
        out.write_all(line.as_bytes())?;
        out.write_all(b"\n")
    })?;
    let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    if health.is_whole() {
        fs::remove_file(part)?;
        return Ok(None);
    }
    file.sync_data()?;
    let kept = free_name(path);
    fs::hard_link(path, &kept).or_else(|_| fs::copy(path, &kept).map(drop))?;
    fs::rename(part, path)?;
    // Titles and tags are written without the lock: what came since the look goes along.
    io::copy(&mut &held.file, &mut file)?;
    file.sync_data()?;
    Ok(Some(kept))
}

fn remove_held(_held: &Held, path: &Path) -> Result<(), LogError> {
    let failed = |error| LogError::Io { path: path.to_path_buf(), error };
    let beside = path.with_extension("");
    if beside.is_dir() {
        fs::remove_dir_all(&beside).map_err(failed)?;
    }
    fs::remove_file(path).map_err(failed)
}

/// Looks at all lines and hands on the good ones.
fn look(source: impl Read, mut good: impl FnMut(&str) -> io::Result<()>) -> io::Result<Health> {
    let mut health = Health::default();
    let mut seen = HashSet::new();
    let mut calls: HashMap<CallId, bool> = HashMap::new();
    lines::each(source, |line| {
        let (Content::Whole(bytes) | Content::Torn(bytes)) = line.content else {
            health.lines += 1;
            health.damaged.push((line.number, line.offset, "it is too long".to_owned()));
            return Ok(ControlFlow::Continue(()));
        };
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_matches(['\0', '\r', ' ']);
        if text.is_empty() && !bytes.contains(&0) {
            return Ok(ControlFlow::Continue(()));
        }
        health.lines += 1;
        if text.is_empty() {
            health.damaged.push((line.number, line.offset, UNWRITTEN.to_owned()));
            return Ok(ControlFlow::Continue(()));
        }
        match line::understand(text, Keep::Everything) {
            Err(problem) => health.damaged.push((line.number, line.offset, problem)),
            Ok(said) if said.id().is_some_and(|id| !seen.insert(id.clone())) => {
                health.repeated.push(line.number);
            }
            Ok(said) => {
                said.entries.into_iter().for_each(|entry| count(&mut health, &mut calls, entry.event));
                good(text)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    health.unanswered = calls.values().filter(|is_answered| !**is_answered).count();
    Ok(health)
}

fn count(health: &mut Health, calls: &mut HashMap<CallId, bool>, event: SessionEvent) {
    match event {
        SessionEvent::Replied { block, .. } => {
            calls.extend(block.as_call().map(|call| (call.id.clone(), false)));
        }
        SessionEvent::ToolReturned { result, .. } => match calls.get_mut(&result.id) {
            Some(is_answered) => *is_answered = true,
            None => health.orphans += 1,
        },
        SessionEvent::Opened { .. }
        | SessionEvent::Prompted { .. }
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
        | SessionEvent::Interrupted { .. }
        | SessionEvent::Failed { .. }
        | SessionEvent::ModeChanged { .. }
        | SessionEvent::ModelChanged { .. }
        | SessionEvent::Rewound { .. } => {}
    }
}

fn is_begun_by_us(path: &Path) -> bool {
    const BEGINNING: &[u8] = b"{\"type\":\"ostler\"";
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BEGINNING.len() as u64).read_to_end(&mut head));
    read.is_ok() && head == BEGINNING
}

fn free_name(path: &Path) -> PathBuf {
    let mut number = 1;
    loop {
        let name = path.with_extension(format!("jsonl.damaged-{number}"));
        if !name.exists() {
            return name;
        }
        number += 1;
    }
}
