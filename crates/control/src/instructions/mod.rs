//! Standing instructions: finds the files that speak to the agent, reads those it may read, and says of each whose
//! words they are and why they count. It looks and never changes anything; what it gives is data for a model that
//! has no authority, so nothing read here can widen what is allowed.

mod find;
mod gather;
mod guard;
mod markdown;
mod words;

pub use guard::{Guard, excludes};
pub use words::{Told, tokens};

use crate::notes::Notes;
use gather::Gather;
use globset::GlobSet;
use ostler_proto::{Instruction, LoadReason};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// Tokens that the files read at the start may cost together, and again those read later.
pub const ROOM: u64 = 40_000;

/// Where instructions are looked for.
#[derive(Debug, Clone)]
pub struct Places {
    /// Folders of the machine's owner, e.g. `/etc/ostler`.
    pub managed: Vec<PathBuf>,
    /// Who that is; root, save in tests.
    pub managed_owner: u32,
    /// The user's folders, e.g. `~/.ostler`.
    pub user: Vec<PathBuf>,
    /// Where the session works, canonical.
    pub cwd: PathBuf,
    /// The repository around it, or the same folder.
    pub project: PathBuf,
    /// Further working directories that may speak.
    pub more: Vec<PathBuf>,
    /// Whose files count.
    pub sources: Sources,
}

/// Whose files count beside the machine owner's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    /// The user's own.
    pub user: bool,
    /// The project's.
    pub project: bool,
    /// The user's for the project.
    pub local: bool,
}

/// Finds and reads instructions.
pub struct Instructions {
    /// Where to look.
    pub places: Places,
    /// What may be read.
    pub guard: Guard,
    /// Words of the machine's owner that stand in its settings, by their file.
    pub owner_words: Vec<(PathBuf, String)>,
    /// Notes of earlier sessions, if they are kept.
    pub notes: Option<Notes>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// What the model is to read, in order.
    pub files: Vec<Instruction>,
    /// What it was told before that does not count any more.
    pub gone: Vec<PathBuf>,
    /// What was found and is not read.
    pub skipped: Vec<Skipped>,
    /// Whether some of it comes from a project that is not trusted.
    pub is_untrusted: bool,
}

/// A file that was found, or named, and is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The file.
    pub path: PathBuf,
    /// Who imports it.
    pub parent: Option<PathBuf>,
    /// What kind of reason there is.
    pub cause: Cause,
    /// The reason.
    pub why: String,
}

/// Why a file is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its words are there already, or it has none.
    Nothing,
    /// Settings leave it out.
    Excluded,
    /// It waits for a file that its patterns name.
    Waiting,
    /// It is imported and is not there.
    Missing,
    /// It may not be read, or is no text.
    Refused,
    /// There is no room for it.
    NoRoom,
}

/// What a session has looked at, and what it waits for.
#[derive(Debug, Clone, Default)]
pub struct Watchlist {
    waiting: Vec<Waiting>,
    looked: HashSet<PathBuf>,
}

/// A rule that counts once a file is touched that it is about.
#[derive(Debug, Clone)]
struct Waiting {
    candidate: find::Candidate,
    patterns: GlobSet,
}

impl Instructions {
    /// What holds for the whole session, as far as it is not known in these words already; and, of what is known,
    /// what became of it. It blocks for as long as the files take.
    pub fn since(&self, known: &[Instruction], now_ms: u64) -> (Found, Watchlist) {
        let mut gather = Gather::new(self, ROOM);
        gather.take_owner_words();
        for candidate in find::at_start(&self.places) {
            gather.take(candidate);
        }
        let mut list = gather.watchlist();
        let mut triggers: Vec<PathBuf> = known.iter().filter_map(|file| file.trigger.clone()).collect();
        triggers.dedup();
        gather.make_room(ROOM);
        self.take_touched(&mut gather, &mut list, &triggers);
        gather.take_notes(now_ms);
        let mut found = gather.found;
        found.gone = known
            .iter()
            .filter(|old| !found.files.iter().any(|new| new.path == old.path))
            .map(|old| old.path.clone())
            .collect();
        found.files.retain(|new| !known.iter().any(|old| old.path == new.path && old.hash == new.hash));
        (found, list)
    }

    /// What counts in addition because these files were touched. It blocks for as long as the files take.
    pub fn touched(&self, list: &mut Watchlist, touched: &[PathBuf], known: &[Instruction]) -> Found {
        let later = known.iter().filter(|file| file.trigger.is_some());
        let used: u64 = later.map(|file| file.tokens).sum();
        let mut gather = Gather::new(self, ROOM.saturating_sub(used));
        gather.knows(known);
        self.take_touched(&mut gather, list, touched);
        gather.found
    }

    /// Whether touching this file could make anything count.
    pub fn may_matter(&self, list: &Watchlist, touched: &Path) -> bool {
        !list.waiting.is_empty()
            || find::below(&self.places, touched).any(|folder| !list.looked.contains(folder))
    }

    fn take_touched(&self, gather: &mut Gather<'_>, list: &mut Watchlist, touched: &[PathBuf]) {
        // What is listed or searched as a whole is not yet looked at.
        for file in touched.iter().filter(|path| !path.is_dir()) {
            for folder in find::below(&self.places, file) {
                if list.looked.insert(folder.to_owned()) {
                    for candidate in find::in_folder(&self.places, folder, LoadReason::NestedTraversal) {
                        gather.take(candidate.because_of(file));
                    }
                }
            }
            list.waiting.extend(gather.watchlist().waiting);
            let (about, others) = std::mem::take(&mut list.waiting)
                .into_iter()
                .partition(|waiting| waiting.candidate.is_about(&waiting.patterns, file));
            list.waiting = others;
            for Waiting { candidate, .. } in about {
                gather.take_rule(candidate.because_of(file));
            }
        }
    }
}

#[cfg(test)]
mod tests;
