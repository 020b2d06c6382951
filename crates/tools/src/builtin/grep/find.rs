//! The search itself: a parallel walk, one searcher a thread, results in an order that does not
//! depend on which thread was first.

use super::{
    super::search::{Newest, Sieve},
    Mode, shown,
};
use crate::{
    host::{HostError, open_regular},
    text,
};
use grep_matcher::{Match, Matcher as _};
use grep_regex::RegexMatcher;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use ignore::{DirEntry, WalkBuilder, WalkState};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// A longer line is cut, with a mark; in characters.
const MAX_LINE: usize = 500;
/// How much of a long line is shown before the match, in bytes.
const LEAD: usize = 100;
/// What one searcher may hold of a file: its longest line, or all of it for matches across lines.
const MAX_HEAP: usize = 64 * 1024 * 1024;

/// What to look for and how to show it.
pub(super) struct Query {
    /// What a line must match.
    pub(super) exact: RegexMatcher,
    /// What every such line matches too, and what is quicker to look for.
    pub(super) quick: Option<RegexMatcher>,
    pub(super) mode: Mode,
    pub(super) line_numbers: bool,
    pub(super) only_matching: bool,
    pub(super) before: usize,
    pub(super) after: usize,
    pub(super) multiline: bool,
    pub(super) offset: usize,
    pub(super) limit: usize,
    /// How many lines of one file are shown, so that it does not crowd out all others.
    pub(super) per_file: usize,
    pub(super) start: Start,
    /// Where the search really starts.
    pub(super) target: PathBuf,
    /// The same as it was asked for.
    pub(super) requested: PathBuf,
    pub(super) cwd: PathBuf,
}

/// What stands where a search starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Tree,
    File,
}

/// What was found. An entry is a line in content mode, else a file.
pub(super) struct Findings {
    /// Files with a match.
    pub(super) files: usize,
    /// Matching lines in all files, or matches where they may span lines; counted in count mode only.
    pub(super) matches: u64,
    /// Entries there would be without limit and offset.
    pub(super) total: usize,
    /// The entries to show.
    pub(super) entries: Vec<String>,
    /// Files that match but are, or become, binary.
    pub(super) binary: usize,
    /// What could not be searched: how many, and the first with its reason.
    pub(super) failed: Option<(usize, String)>,
}

pub(super) fn search(
    query: &Query,
    walk: &WalkBuilder,
    sieve: &Sieve,
    cancel: &CancellationToken,
) -> Findings {
    let gathered = Mutex::new(Gathered::new(query));
    walk.build_parallel().run(|| {
        let mut searcher = searcher(query);
        // A matcher that is shared makes its threads wait for each other.
        let pattern = query.searched().clone();
        let gathered = &gathered;
        Box::new(move |entry| {
            if cancel.is_cancelled() {
                return WalkState::Quit;
            }
            match entry {
                Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                    if sieve.lets_through(entry.path()) {
                        search_file(query, &entry, (&pattern, &mut searcher), cancel, gathered);
                    }
                }
                Ok(_) => {}
                // Lines of ignore files that cannot be read are errors too, but lose no file.
                Err(error) => {
                    if let Some(folder) = error.io_error() {
                        lock(gathered).fail(PathBuf::new(), folder.to_string());
                    }
                }
            }
            WalkState::Continue
        })
    });
    gathered.into_inner().unwrap_or_else(PoisonError::into_inner).finish(query)
}

fn searcher(query: &Query) -> Searcher {
    // The matcher's own idea of a line, or the searcher refuses it.
    let line_terminator = query.searched().line_terminator().unwrap_or_default();
    let shows_lines = query.mode == Mode::Content;
    // Whoever names a file wants to know even of matches in binary data.
    let binary = match query.start {
        Start::File => BinaryDetection::convert(0),
        Start::Tree => BinaryDetection::quit(0),
    };
    SearcherBuilder::new()
        .line_terminator(line_terminator)
        .line_number(shows_lines && query.line_numbers)
        .multi_line(query.multiline)
        .before_context(if shows_lines { query.before } else { 0 })
        .after_context(if shows_lines { query.after } else { 0 })
        .binary_detection(binary)
        .heap_limit(Some(MAX_HEAP))
        .build()
}

fn search_file(
    query: &Query,
    entry: &DirEntry,
    (pattern, searcher): (&RegexMatcher, &mut Searcher),
    cancel: &CancellationToken,
    gathered: &Mutex<Gathered>,
) {
    let path = entry.path();
    let mut hits = Hits::new(query, path);
    let (file, stat) = match open_regular(path) {
        Ok(opened) => opened,
        // It is not, or no longer, in the tree that is searched, so even its name is not told.
        Err(HostError::Missing(_) | HostError::Swapped(_)) => return,
        Err(HostError::Io { error, .. }) if error.kind() == io::ErrorKind::NotADirectory => return,
        Err(error) => return lock(gathered).fail(path.to_owned(), error.to_string()),
    };
    let reader = Cancellable { reader: file, cancel };
    if let Err(error) = searcher.search_reader(pattern, reader, &mut hits) {
        return lock(gathered).fail(path.to_owned(), error.to_string());
    }
    let (matches, binary) = (hits.matches, hits.binary);
    // Lines found before binary data began are as good as any; a count of them is not.
    let is_partial = binary && query.start == Start::Tree;
    if matches == 0 || (is_partial && query.mode == Mode::Count) {
        return;
    }
    let (lines, line_count) = hits.entries();
    let mut gathered = lock(gathered);
    gathered.files += 1;
    gathered.matches += matches;
    gathered.binary += usize::from(binary && query.mode == Mode::Content);
    match query.mode {
        Mode::FilesWithMatches => gathered.newest.add(path, stat.modified),
        Mode::Count => gathered.keep(path, vec![format!("{}:{matches}", query.label(path))], 1),
        Mode::Content => gathered.keep(path, lines, line_count),
    }
}

impl Query {
    /// What files are searched for.
    fn searched(&self) -> &RegexMatcher {
        self.quick.as_ref().unwrap_or(&self.exact)
    }

    /// Whether a line that was found is one: it may be so only by the return at its end.
    fn is_match(&self, line: &[u8]) -> io::Result<bool> {
        if self.quick.is_none() || !line.contains(&b'\r') {
            return Ok(true);
        }
        self.exact.is_match(line).map_err(io::Error::other)
    }

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
    binary: usize,
    failed: usize,
    first_failed: Option<(PathBuf, String)>,
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
            binary: 0,
            failed: 0,
            first_failed: None,
            newest: Newest::new(wanted),
            by_path: BTreeMap::new(),
            held: 0,
        }
    }

    /// Takes in the entries of one file and lets go of those that earlier files push out of sight.
    fn keep(&mut self, path: &Path, entries: Vec<String>, count: usize) {
        self.total += count;
        let is_last = || self.by_path.last_key_value().is_some_and(|(last, _)| path > last.as_path());
        if self.held >= self.wanted && is_last() {
            return;
        }
        self.held += entries.len();
        self.by_path.insert(path.to_owned(), entries);
        while let Some(last) = self.by_path.last_entry()
            && self.held - last.get().len() >= self.wanted
        {
            self.held -= last.get().len();
            last.remove();
        }
    }

    /// Remembers the first by path, so that the note does not depend on which thread was first.
    fn fail(&mut self, path: PathBuf, reason: String) {
        self.failed += 1;
        if self.first_failed.as_ref().is_none_or(|(first, _)| path < *first) {
            self.first_failed = Some((path, reason));
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
        Findings {
            files: self.files,
            matches: self.matches,
            total,
            entries,
            binary: self.binary,
            failed: self.first_failed.map(|(_, reason)| (self.failed, reason)),
        }
    }
}

fn lock(gathered: &Mutex<Gathered>) -> MutexGuard<'_, Gathered> {
    gathered.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one file holds.
struct Hits<'a> {
    query: &'a Query,
    path: &'a Path,
    /// Worded with the first line that is shown.
    label: String,
    lines: Vec<String>,
    line_count: usize,
    /// Lines past the most that one file may show.
    withheld: usize,
    matches: u64,
    binary: bool,
}

impl<'a> Hits<'a> {
    fn new(query: &'a Query, path: &'a Path) -> Self {
        Self {
            query,
            path,
            label: String::new(),
            lines: Vec::new(),
            line_count: 0,
            withheld: 0,
            matches: 0,
            binary: false,
        }
    }

    /// Adds one line of output, as ripgrep words it: `path:number:text`, with `-` for context.
    fn add(&mut self, mark: char, number: Option<u64>, line: &[u8]) {
        if !self.count() {
            return;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = fit(line, || self.query.exact.find(line).ok().flatten().filter(|_| mark == ':'));
        if self.label.is_empty() {
            self.label = self.query.label(self.path);
        }
        let label = &self.label;
        self.lines.push(match number {
            Some(number) => format!("{label}{mark}{number}{mark}{line}"),
            None => format!("{label}{mark}{line}"),
        });
    }

    /// Counts a line of output and says whether it is to be kept.
    fn count(&mut self) -> bool {
        if self.line_count == self.query.per_file {
            self.withheld += 1;
            return false;
        }
        self.line_count += 1;
        self.lines.len() < self.query.wanted()
    }

    /// The lines to show, and how many there would be without limits.
    fn entries(mut self) -> (Vec<String>, usize) {
        if self.withheld > 0 {
            let (label, more) = (&self.label, self.withheld);
            if self.lines.len() < self.query.wanted() {
                self.lines.push(format!("{label}: [{more} more lines; search this file alone to see them]"));
            }
            self.line_count += 1;
        }
        (self.lines, self.line_count)
    }

    fn add_parts(&mut self, found: &SinkMatch<'_>) -> io::Result<()> {
        let bytes = found.bytes();
        let mut parts = Vec::new();
        self.query
            .exact
            .find_iter(bytes, |part| {
                parts.push(part);
                true
            })
            .map_err(io::Error::other)?;
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let before = bytes[..part.start()].split(|byte| *byte == b'\n').count() as u64 - 1;
            let part = &bytes[part];
            let part = part.strip_suffix(b"\n").unwrap_or(part);
            for (further, line) in part.split(|byte| *byte == b'\n').enumerate() {
                self.add(':', found.line_number().map(|first| first + before + further as u64), line);
            }
        }
        Ok(())
    }

    /// Whether what follows is binary data in a file that was named: it is said, not shown.
    fn is_past_text(&self) -> bool {
        self.binary && self.query.mode == Mode::Content
    }
}

/// A line as it can be shown: cut where it is too long, around the match if there is one.
fn fit(line: &[u8], find: impl FnOnce() -> Option<Match>) -> Cow<'_, str> {
    if line.len() <= MAX_LINE {
        return String::from_utf8_lossy(line);
    }
    let mut start = match find() {
        Some(found) if found.end() > MAX_LINE => found.start().saturating_sub(LEAD),
        Some(_) | None => 0,
    };
    // Not in the middle of a character.
    while line.get(start).is_some_and(|byte| byte & 0xC0 == 0x80) {
        start += 1;
    }
    // No character has more than four bytes.
    let window = String::from_utf8_lossy(&line[start..line.len().min(start + 4 * MAX_LINE)]);
    let before = if start > 0 { "… " } else { "" };
    match text::first(&window, MAX_LINE) {
        Some(shown) => Cow::Owned(format!("{before}{shown}… [line cut]")),
        None => Cow::Owned(format!("{before}{window}")),
    }
}

impl Sink for Hits<'_> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if !self.query.is_match(found.bytes())? {
            return Ok(true);
        }
        self.matches += match self.query.mode {
            // Where a match may span lines, counting lines says little.
            Mode::Count if searcher.multi_line_with_matcher(&self.query.exact) => {
                let (mut matches, length) = (0, found.bytes().len());
                let each = |part: Match| {
                    // Nothing at the very end belongs to the next line.
                    matches += u64::from(part.start() < length);
                    true
                };
                self.query.exact.find_iter(found.bytes(), each).map_err(io::Error::other)?;
                matches
            }
            Mode::Count | Mode::Content | Mode::FilesWithMatches => 1,
        };
        match self.query.mode {
            Mode::FilesWithMatches => return Ok(false),
            Mode::Count => {}
            Mode::Content if self.is_past_text() => return Ok(false),
            Mode::Content if self.query.only_matching => self.add_parts(found)?,
            Mode::Content => {
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
                if !self.query.only_matching && !self.is_past_text() {
                    self.add('-', context.line_number(), context.bytes());
                }
            }
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if !self.is_past_text() && self.count() {
            self.lines.push("--".to_owned());
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(self.query.start == Start::File)
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
