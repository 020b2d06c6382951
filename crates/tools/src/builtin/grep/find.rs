//! The search itself: a parallel walk, one searcher a thread, results in an order that does not
//! depend on which thread was first.

use super::{super::search::Newest, Mode, shown};
use crate::{host::open_regular, text};
use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use ignore::{DirEntry, WalkBuilder, WalkState};
use std::{
    collections::BTreeMap,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};
use tokio_util::sync::CancellationToken;

/// A longer line is cut, with a mark.
const MAX_LINE: usize = 500;
/// What one searcher may hold of a file: its longest line, or all of it for matches across lines.
const MAX_HEAP: usize = 64 * 1024 * 1024;

/// What to look for and how to show it.
pub(super) struct Query {
    pub(super) matcher: RegexMatcher,
    pub(super) mode: Mode,
    pub(super) line_numbers: bool,
    pub(super) only_matching: bool,
    pub(super) before: usize,
    pub(super) after: usize,
    pub(super) multiline: bool,
    pub(super) offset: usize,
    pub(super) limit: usize,
    /// Where the search really starts.
    pub(super) target: PathBuf,
    /// The same as it was asked for.
    pub(super) requested: PathBuf,
    pub(super) cwd: PathBuf,
}

/// What was found. An entry is a line in content mode, else a file.
pub(super) struct Findings {
    /// Files with a match.
    pub(super) files: usize,
    /// Matching lines in all files; counted in count mode only.
    pub(super) matches: u64,
    /// Entries there would be without limit and offset.
    pub(super) total: usize,
    /// The entries to show.
    pub(super) entries: Vec<String>,
    /// Files that could not be read or were too large to hold.
    pub(super) skipped: usize,
}

pub(super) fn search(query: &Query, walk: &WalkBuilder, cancel: &CancellationToken) -> Findings {
    let gathered = Mutex::new(Gathered::new(query));
    walk.build_parallel().run(|| {
        let mut searcher = searcher(query);
        let gathered = &gathered;
        Box::new(move |entry| {
            if cancel.is_cancelled() {
                return WalkState::Quit;
            }
            // Ignore files that cannot be parsed and folders that cannot be listed come as errors.
            let Ok(entry) = entry else { return WalkState::Continue };
            if entry.file_type().is_some_and(|kind| kind.is_file()) {
                search_file(query, &entry, &mut searcher, cancel, gathered);
            }
            WalkState::Continue
        })
    });
    gathered.into_inner().unwrap_or_else(PoisonError::into_inner).finish(query)
}

fn searcher(query: &Query) -> Searcher {
    // The matcher's own idea of a line, or the searcher refuses it.
    let line_terminator = query.matcher.line_terminator().unwrap_or_default();
    SearcherBuilder::new()
        .line_terminator(line_terminator)
        .line_number(query.line_numbers)
        .multi_line(query.multiline)
        .before_context(if query.mode == Mode::Content { query.before } else { 0 })
        .after_context(if query.mode == Mode::Content { query.after } else { 0 })
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_HEAP))
        .build()
}

fn search_file(
    query: &Query,
    entry: &DirEntry,
    searcher: &mut Searcher,
    cancel: &CancellationToken,
    gathered: &Mutex<Gathered>,
) {
    let path = entry.path();
    let mut hits =
        Hits { query, label: query.label(path), lines: Vec::new(), line_count: 0, matches: 0, binary: false };
    let outcome = open_regular(path).map_err(io::Error::other).and_then(|file| {
        searcher.search_reader(&query.matcher, Cancellable { reader: file, cancel }, &mut hits)
    });
    if outcome.is_err() {
        lock(gathered).skipped += 1;
    } else if hits.matches > 0 && !hits.binary {
        let modified = match query.mode {
            Mode::FilesWithMatches => entry.metadata().ok().and_then(|metadata| metadata.modified().ok()),
            Mode::Content | Mode::Count => None,
        };
        let (lines, line_count, matches) = (hits.lines, hits.line_count, hits.matches);
        let mut gathered = lock(gathered);
        gathered.files += 1;
        gathered.matches += matches;
        match query.mode {
            Mode::FilesWithMatches => gathered.newest.add(path, modified.unwrap_or(SystemTime::UNIX_EPOCH)),
            Mode::Count => gathered.keep(path, vec![format!("{}:{matches}", query.label(path))], 1),
            Mode::Content => gathered.keep(path, lines, line_count),
        }
    }
}

impl Query {
    /// How many entries can matter at all.
    fn wanted(&self) -> usize {
        self.offset.saturating_add(self.limit)
    }

    /// A found path below the one that was asked for.
    fn label(&self, path: &Path) -> String {
        match path.strip_prefix(&self.target) {
            Ok(below) if below.as_os_str().is_empty() => shown(&self.requested, &self.cwd),
            Ok(below) => shown(&self.requested.join(below), &self.cwd),
            Err(_) => shown(path, &self.cwd),
        }
    }
}

/// What all threads have found so far, no more of it than can be shown.
struct Gathered {
    wanted: usize,
    files: usize,
    matches: u64,
    total: usize,
    skipped: usize,
    newest: Newest,
    by_path: BTreeMap<PathBuf, Vec<String>>,
    held: usize,
}

impl Gathered {
    fn new(query: &Query) -> Self {
        let wanted = query.wanted();
        Self {
            wanted,
            files: 0,
            matches: 0,
            total: 0,
            skipped: 0,
            newest: Newest::new(wanted),
            by_path: BTreeMap::new(),
            held: 0,
        }
    }

    /// Takes in the entries of one file and lets go of those that earlier files push out of sight.
    fn keep(&mut self, path: &Path, entries: Vec<String>, count: usize) {
        self.total += count;
        self.held += entries.len();
        self.by_path.insert(path.to_owned(), entries);
        while let Some(last) = self.by_path.last_entry()
            && self.held - last.get().len() >= self.wanted
        {
            self.held -= last.get().len();
            last.remove();
        }
    }

    fn finish(self, query: &Query) -> Findings {
        let (total, entries): (usize, Vec<String>) = match query.mode {
            Mode::FilesWithMatches => {
                let (total, files) = self.newest.finish();
                (total, files.iter().map(|file| query.label(file)).collect())
            }
            Mode::Content | Mode::Count => (self.total, self.by_path.into_values().flatten().collect()),
        };
        let entries = entries.into_iter().skip(query.offset).take(query.limit).collect();
        Findings { files: self.files, matches: self.matches, total, entries, skipped: self.skipped }
    }
}

fn lock(gathered: &Mutex<Gathered>) -> MutexGuard<'_, Gathered> {
    gathered.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one file holds.
struct Hits<'a> {
    query: &'a Query,
    label: String,
    lines: Vec<String>,
    line_count: usize,
    matches: u64,
    binary: bool,
}

impl Hits<'_> {
    /// Adds one line of output, as ripgrep words it: `path:number:text`, with `-` for context.
    fn add(&mut self, mark: char, number: Option<u64>, line: &[u8]) {
        self.line_count += 1;
        if self.lines.len() >= self.query.wanted() {
            return;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = String::from_utf8_lossy(line);
        let line = match text::first(&line, MAX_LINE) {
            Some(start) => format!("{start}… [line cut]"),
            None => line.into_owned(),
        };
        let label = &self.label;
        self.lines.push(match number {
            Some(number) => format!("{label}{mark}{number}{mark}{line}"),
            None => format!("{label}{mark}{line}"),
        });
    }

    fn add_parts(&mut self, found: &SinkMatch<'_>) -> io::Result<()> {
        let bytes = found.bytes();
        let mut parts = Vec::new();
        self.query
            .matcher
            .find_iter(bytes, |part| {
                parts.push(part);
                true
            })
            .map_err(io::Error::other)?;
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let before = bytes[..part.start()].split(|byte| *byte == b'\n').count() as u64 - 1;
            for (further, line) in bytes[part].split(|byte| *byte == b'\n').enumerate() {
                self.add(':', found.line_number().map(|first| first + before + further as u64), line);
            }
        }
        Ok(())
    }
}

impl Sink for Hits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        match self.query.mode {
            Mode::FilesWithMatches => {
                self.matches = 1;
                return Ok(false);
            }
            Mode::Count => self.matches += found.lines().count() as u64,
            Mode::Content if self.query.only_matching => {
                self.matches += 1;
                self.add_parts(found)?;
            }
            Mode::Content => {
                self.matches += 1;
                for (further, line) in found.lines().enumerate() {
                    self.add(':', found.line_number().map(|first| first + further as u64), line);
                }
            }
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        match context.kind() {
            SinkContextKind::Before | SinkContextKind::After | SinkContextKind::Other => {
                if !self.query.only_matching {
                    self.add('-', context.line_number(), context.bytes());
                }
            }
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.line_count += 1;
        if self.lines.len() < self.query.wanted() {
            self.lines.push("--".to_owned());
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }
}

/// Stops reading when the call is cancelled, also in the middle of a large file.
struct Cancellable<'a, R> {
    reader: R,
    cancel: &'a CancellationToken,
}

impl<R: Read> Read for Cancellable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.reader.read(buffer)
    }
}
