//! What the model has seen of which file: the record behind "read it before you change it".
//! It holds no content, only hashes and line ranges, and never touches the disk.

use super::{Edited, Hash, Lines, Stat};
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

/// Shared by the file tools of a session.
#[derive(Debug, Default)]
pub struct FileState {
    files: Mutex<Files>,
}

/// Shared entry by entry, as a copy is made of all of them before each answer.
type Files = HashMap<Arc<Path>, Arc<Seen>>;

/// One content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Of all bytes, or what stands for it: see [`Version::of_long`].
    pub hash: Hash,
    /// Length in bytes.
    pub size: u64,
    /// When it was last changed.
    pub modified: SystemTime,
}

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
    /// Of a notebook, which is shown by cells.
    cells: Lines,
    /// What the model was shown of this content, word for word: hashes of whole results of reads.
    views: HashSet<Hash>,
    /// Length and time of another content that the model was told of.
    told: Option<(u64, SystemTime)>,
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
        self.record_lines(path, version, &Lines::from(lines));
    }

    /// As [`FileState::record_seen`], where some of the lines were cut.
    pub fn record_lines(&self, path: &Path, version: Version, lines: &Lines) {
        self.with(path, version, |seen| seen.lines.join(lines));
    }

    /// The model was shown some cells of a notebook.
    pub fn record_cells(&self, path: &Path, version: Version, cells: Range<usize>) {
        self.with(path, version, |seen| seen.cells.add(cells));
    }

    /// The model is about to be shown a result of reading the content last recorded. Says whether
    /// it was shown the very same before and knows of no other content since.
    pub fn record_view(&self, path: &Path, view: Hash) -> bool {
        self.lock().get_mut(path).is_some_and(|seen| !Arc::make_mut(seen).views.insert(view))
    }

    /// What was shown is out of the model's sight, as after a summary of the conversation: the next
    /// read of it shows it again.
    pub fn forget_views(&self) {
        self.lock().values_mut().for_each(|seen| Arc::make_mut(seen).views.clear());
    }

    /// Nothing the model was shown is before it any more, as when a summary stands for the conversation:
    /// no line counts as read until it is shown again.
    pub fn forget_seen(&self) {
        for seen in self.lock().values_mut() {
            *seen = Arc::new(Seen::new(seen.version));
        }
    }

    /// What the model saw of a file counts for nothing: somebody put another content there.
    pub fn forget(&self, path: &Path) {
        self.lock().remove(path);
    }

    /// The model wrote the whole file: it knows all `total` lines.
    pub fn record_written(&self, path: &Path, version: Version, total: usize) {
        let mut seen = Seen::new(version);
        seen.lines.add(0..total);
        self.lock().insert(path.into(), Arc::new(seen));
    }

    /// The model edited lines it had seen.
    pub fn record_edited(&self, path: &Path, version: Version, edits: &[Edited]) {
        let mut files = self.lock();
        let Some(seen) = files.get_mut(path).map(Arc::make_mut) else { return };
        seen.lines = seen.lines.moved(edits);
        seen.version = version;
        seen.views.clear();
    }

    /// The model changed a notebook whose content it had seen, and knows these cells of the new one.
    pub fn record_notebook(&self, path: &Path, version: Version, cells: Lines) {
        self.lock().insert(path.into(), Arc::new(Seen { cells, ..Seen::new(version) }));
    }

    /// What the model knows of a file whose content is `hash` now.
    pub fn standing(&self, path: &Path, hash: Hash) -> Standing {
        match self.lock().get(path) {
            None => Standing::Unseen,
            Some(seen) if seen.version.hash != hash => Standing::Changed,
            Some(seen) => Standing::Current(seen.lines.clone()),
        }
    }

    /// Which cells the model was shown of the notebook it last saw there.
    pub fn cells(&self, path: &Path) -> Lines {
        self.lock().get(path).map(|seen| seen.cells.clone()).unwrap_or_default()
    }

    /// The content the model last saw.
    pub fn version(&self, path: &Path) -> Option<Version> {
        self.lock().get(path).map(|seen| seen.version)
    }

    /// The content of every file that the model last saw, in the order of their names.
    pub fn versions(&self) -> Vec<(PathBuf, Version)> {
        let mut versions: Vec<_> =
            self.lock().iter().map(|(path, seen)| (path.to_path_buf(), seen.version)).collect();
        versions.sort_by(|(left, _), (right, _)| left.cmp(right));
        versions
    }

    /// The model is about to be told that a file has another content, of this length and time, or has the
    /// seen one again. Says whether that is news.
    pub fn record_told(&self, path: &Path, other: Option<(u64, SystemTime)>) -> bool {
        let mut files = self.lock();
        let seen = files.get_mut(path).filter(|seen| seen.told != other);
        seen.map(|seen| Arc::make_mut(seen).told = other).is_some()
    }

    fn with(&self, path: &Path, version: Version, record: impl FnOnce(&mut Seen)) {
        let mut files = self.lock();
        let seen = files.entry(path.into()).or_insert_with(|| Arc::new(Seen::new(version)));
        let seen = Arc::make_mut(seen);
        if seen.version.hash != version.hash {
            *seen = Seen::new(version);
        }
        seen.version = version;
        record(seen);
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        // Every change is one step, so a panic elsewhere cannot have left it half done.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn new(version: Version) -> Self {
        Self { version, lines: Lines::default(), cells: Lines::default(), views: HashSet::new(), told: None }
    }
}

impl Version {
    /// A content too long to be hashed: told from others by its length and time.
    pub fn of_long(stat: &Stat) -> Self {
        let since = stat.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"length and time ").update(&stat.size.to_le_bytes());
        hasher.update(&since.as_nanos().to_le_bytes());
        Self { hash: hasher.finalize(), size: stat.size, modified: stat.modified }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Spot, *};

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
    fn a_view_repeats_until_the_content_or_the_memory_of_it_changes() {
        let (state, path) = (FileState::default(), Path::new("/f"));
        let view = blake3::hash(b"1-5");
        assert!(!state.record_view(path, view), "nothing was read");
        state.record_seen(path, version("a"), 0..5);
        assert!(!state.record_view(path, view) && state.record_view(path, view));
        assert!(!state.record_view(path, blake3::hash(b"2-3")), "another part");
        state.record_seen(path, version("b"), 0..5);
        state.record_seen(path, version("a"), 0..5);
        assert!(!state.record_view(path, view), "it was another content in between");
        state.record_edited(path, version("b"), &[]);
        assert!(!state.record_view(path, view), "an edit shows nothing");
        state.record_written(path, version("c"), 5);
        assert!(!state.record_view(path, view), "nor does a write");
        state.forget_views();
        assert!(!state.record_view(path, view));
    }

    #[test]
    fn what_is_out_of_sight_does_not_count_as_read() {
        let (state, path) = (FileState::default(), Path::new("/f"));
        state.record_seen(path, version("a"), 0..5);
        assert!(!state.record_view(path, blake3::hash(b"1-5")));
        state.forget_seen();
        check_seen(&state, "a", "none");
        assert!(!state.record_view(path, blake3::hash(b"1-5")), "it is shown again");
        state.record_seen(path, version("a"), 1..3);
        check_seen(&state, "a", "2-3");
    }

    #[test]
    fn edits_move_what_was_seen_with_the_text() {
        let (state, path) = (FileState::default(), Path::new("/f"));
        state.record_seen(path, version("a"), 2..4);
        state.record_seen(path, version("a"), 10..12);
        let spot = |line| Spot { line, column: 0 };
        state.record_edited(path, version("b"), &[Edited { line: 3, old_end: spot(3), new_end: spot(5) }]);
        check_seen(&state, "b", "3-6, 13-14");
        state.record_edited(path, version("c"), &[Edited { line: 2, old_end: spot(6), new_end: spot(2) }]);
        check_seen(&state, "c", "9-10");
    }
}
