//! What the model has seen of which file: the record behind "read it before you change it".
//! It holds no content, only hashes and line ranges, and never touches the disk.

use super::Hash;
use std::{
    collections::HashMap,
    fmt,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

/// Shared by the file tools of a session.
#[derive(Debug, Default)]
pub struct FileState {
    files: Mutex<HashMap<PathBuf, Seen>>,
}

/// One content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Of all bytes.
    pub hash: Hash,
    /// Length in bytes.
    pub size: u64,
    /// When it was last changed.
    pub modified: SystemTime,
}

/// Lines counted from 0, as ascending, disjoint, non-touching ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines(Vec<Range<usize>>);

/// How the model's knowledge of a file stands to a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It never saw the file.
    Unseen,
    /// It saw another content.
    Changed,
    /// It saw these lines of this very content.
    Current(Lines),
}

#[derive(Debug, Clone)]
struct Seen {
    version: Version,
    lines: Lines,
}

impl FileState {
    /// A copy of what the model has seen so far.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self { files: Mutex::new(self.lock().clone()) }
    }

    /// Goes back to a former knowledge: what was read since never reached the model.
    pub fn restore(&self, former: Self) {
        *self.lock() = former.files.into_inner().unwrap_or_else(PoisonError::into_inner);
    }

    /// The model was shown some lines of a file.
    pub fn record_seen(&self, path: &Path, version: Version, lines: Range<usize>) {
        let mut files = self.lock();
        let seen = files.entry(path.to_owned()).or_insert_with(|| Seen { version, lines: Lines::default() });
        if seen.version.hash != version.hash {
            seen.lines = Lines::default();
        }
        seen.version = version;
        seen.lines.add(lines);
    }

    /// The model wrote the whole file: it knows all `total` lines.
    pub fn record_written(&self, path: &Path, version: Version, total: usize) {
        let mut lines = Lines::default();
        lines.add(0..total);
        self.lock().insert(path.to_owned(), Seen { version, lines });
    }

    /// The model edited lines it had seen. Each edit is the line it starts on and by how many
    /// lines it made the file longer.
    pub fn record_edited(&self, path: &Path, version: Version, edits: &[(usize, isize)]) {
        let mut files = self.lock();
        let Some(seen) = files.get_mut(path) else { return };
        let moved = |line: usize| {
            let before = edits.iter().filter(|(start, _)| *start < line);
            line.saturating_add_signed(before.map(|(_, longer)| longer).sum())
        };
        let ranges = std::mem::take(&mut seen.lines).0;
        for range in ranges {
            seen.lines.add(moved(range.start)..moved(range.end));
        }
        seen.version = version;
    }

    /// What the model knows of a file whose content is `hash` now.
    pub fn standing(&self, path: &Path, hash: Hash) -> Standing {
        match self.lock().get(path) {
            None => Standing::Unseen,
            Some(seen) if seen.version.hash != hash => Standing::Changed,
            Some(seen) => Standing::Current(seen.lines.clone()),
        }
    }

    /// The content the model last saw.
    pub fn version(&self, path: &Path) -> Option<Version> {
        self.lock().get(path).map(|seen| seen.version)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Seen>> {
        // Every change is one step, so a panic elsewhere cannot have left it half done.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    /// Whether all lines of a range are among these.
    pub fn cover(&self, wanted: &Range<usize>) -> bool {
        wanted.is_empty() || self.0.iter().any(|range| range.start <= wanted.start && wanted.end <= range.end)
    }

    fn add(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let (touching, mut apart): (Vec<_>, Vec<_>) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|known| known.start <= range.end && range.start <= known.end);
        let start = touching.iter().map(|known| known.start).fold(range.start, usize::min);
        let end = touching.iter().map(|known| known.end).fold(range.end, usize::max);
        apart.push(start..end);
        apart.sort_by_key(|known| known.start);
        self.0 = apart;
    }
}

impl fmt::Display for Lines {
    /// As people count: from 1, both ends included.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, range) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(f, "{comma}{}-{}", range.start + 1, range.end)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn version(text: &str) -> Version {
        Version { hash: blake3::hash(text.as_bytes()), size: 0, modified: SystemTime::UNIX_EPOCH }
    }

    #[track_caller]
    fn check_seen(state: &FileState, content: &str, expected: &str) {
        match state.standing(Path::new("/f"), version(content).hash) {
            Standing::Current(lines) => assert_eq!(lines.to_string(), expected),
            other @ (Standing::Unseen | Standing::Changed) => panic!("{other:?}"),
        }
    }

    #[test]
    fn another_content_forgets_what_was_seen() {
        let (state, path) = (FileState::default(), Path::new("/f"));
        assert_eq!(state.standing(path, version("a").hash), Standing::Unseen);
        state.record_seen(path, version("a"), 0..5);
        state.record_seen(path, version("a"), 5..7);
        check_seen(&state, "a", "1-7");
        assert_eq!(state.standing(path, version("b").hash), Standing::Changed);
        state.record_seen(path, version("b"), 1..2);
        check_seen(&state, "b", "2-2");
    }

    #[test]
    fn a_former_knowledge_can_be_restored() {
        let (state, path) = (FileState::default(), Path::new("/f"));
        state.record_seen(path, version("a"), 0..5);
        let former = state.snapshot();
        state.record_seen(path, version("a"), 5..9);
        state.restore(former);
        check_seen(&state, "a", "1-5");
    }

    #[test]
    fn edits_move_what_was_seen_with_the_text() {
        let (state, path) = (FileState::default(), Path::new("/f"));
        state.record_seen(path, version("a"), 2..4);
        state.record_seen(path, version("a"), 10..12);
        state.record_edited(path, version("b"), &[(3, 2)]);
        check_seen(&state, "b", "3-6, 13-14");
        state.record_edited(path, version("c"), &[(2, -4)]);
        check_seen(&state, "c", "9-10");
    }

    proptest! {
        #[test]
        fn ranges_are_the_set_of_their_lines(ranges in prop::collection::vec((0usize..40, 0usize..8), 0..12)) {
            let (mut lines, mut set) = (Lines::default(), BTreeSet::new());
            for (start, length) in ranges {
                lines.add(start..start + length);
                set.extend(start..start + length);
            }
            prop_assert!(lines.0.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert_eq!(lines.0.iter().cloned().flatten().collect::<BTreeSet<_>>(), set);
        }
    }
}
