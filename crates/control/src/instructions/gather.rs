//! Takes candidates one after the other: each file once, each text once, its imports behind it, as long as there is
//! room. The same files give the same result, byte for byte.

use super::{
    Cause, Found, Instructions, Skipped, Waiting, Watchlist,
    find::{Candidate, Kind, Owner},
    guard::{self, Text},
    markdown, words,
};
use crate::front_matter::{self, Texts};
use ostler_proto::{Instruction, InstructionScope, LoadReason};
use serde::Deserialize;
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// How often an import may lead to an import.
const DEEPEST_IMPORT: usize = 5;
/// As many files as are read, whatever there is.
const MOST_FILES: usize = 200;

/// What is found so far.
pub(super) struct Gather<'a> {
    all: &'a Instructions,
    pub(super) found: Found,
    waiting: Vec<Waiting>,
    seen_files: HashSet<PathBuf>,
    seen_texts: HashSet<String>,
    room: u64,
}

/// The head of a rule.
#[derive(Debug, Default, Deserialize)]
struct Head {
    #[serde(default)]
    paths: Option<Texts>,
}

/// Whether a rule with patterns waits, or what it waits for has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patterns {
    Wait,
    Matched,
}

impl<'a> Gather<'a> {
    pub(super) fn new(all: &'a Instructions, room: u64) -> Self {
        Self {
            all,
            found: Found::default(),
            waiting: Vec::new(),
            seen_files: HashSet::new(),
            seen_texts: HashSet::new(),
            room,
        }
    }

    /// There is so much room from here on.
    pub(super) fn make_room(&mut self, room: u64) {
        self.room = room;
    }

    /// Takes what the machine's owner says in settings; it imports nothing.
    pub(super) fn take_owner_words(&mut self) {
        for (path, text) in &self.all.owner_words {
            let candidate = Candidate {
                path: path.clone(),
                scope: InstructionScope::Managed,
                reason: LoadReason::SessionStart,
                parent: None,
                trigger: None,
                kind: Kind::Whole,
                bounds: None,
                owner: Owner::Anybody,
            };
            self.put(&candidate, Vec::new(), text);
        }
    }

    /// What is known already is not taken again.
    pub(super) fn knows(&mut self, known: &[Instruction]) {
        self.seen_files.extend(known.iter().map(|file| file.path.clone()));
        self.seen_texts.extend(known.iter().map(|file| file.hash.clone()));
    }

    /// What waits since this was last asked.
    pub(super) fn watchlist(&mut self) -> Watchlist {
        Watchlist { waiting: std::mem::take(&mut self.waiting), looked: HashSet::new() }
    }

    /// Takes a file if it is there.
    pub(super) fn take(&mut self, candidate: Candidate) {
        // Most names are those of no file.
        if candidate.path.symlink_metadata().is_ok() {
            self.read(candidate, 0, Patterns::Wait);
        }
    }

    /// Takes a rule whose patterns name a file that was touched.
    pub(super) fn take_rule(&mut self, mut candidate: Candidate) {
        candidate.reason = LoadReason::PathGlobMatch;
        self.read(candidate, 0, Patterns::Matched);
    }

    /// Takes the notes of earlier sessions.
    pub(super) fn take_notes(&mut self, now_ms: u64) {
        if let Some(notes) = &self.all.notes
            && let Some(instruction) = notes.instruction(now_ms)
        {
            self.found.files.push(instruction);
        }
    }

    fn read(&mut self, candidate: Candidate, depth: usize, patterns: Patterns) {
        if self.found.files.len() >= MOST_FILES {
            return self.skip(&candidate, Cause::NoRoom, format!("{MOST_FILES} files are read already"));
        }
        let Text { target, text } = match self.all.guard.read(&candidate) {
            Ok(text) => text,
            Err((cause, why)) => return self.skip(&candidate, cause, why),
        };
        if self.seen_files.contains(&target) || self.seen_files.contains(&candidate.path) {
            return self.skip(&candidate, Cause::Nothing, "it is read already".to_owned());
        }
        let (globs, text) = match split_head(&candidate, &text) {
            Ok(split) => split,
            Err(why) => return self.skip(&candidate, Cause::Refused, why),
        };
        if !globs.is_empty() && patterns == Patterns::Wait {
            return self.wait(candidate, &globs);
        }
        self.seen_files.insert(target);
        let imports = self.put(&candidate, globs, text);
        self.import(&candidate, imports, depth + 1);
    }

    /// Notes a rule for when something is touched that it is about.
    fn wait(&mut self, candidate: Candidate, globs: &[String]) {
        match guard::patterns_of(globs) {
            Ok(patterns) => {
                let why = format!("it waits for a file that matches {}", globs.join(", "));
                self.skip(&candidate, Cause::Waiting, why);
                self.waiting.push(Waiting { candidate, patterns });
            }
            Err(why) => {
                self.skip(&candidate, Cause::Refused, format!("its patterns cannot be read: {why}"));
            }
        }
    }

    /// Adds a file's words, and gives what they import.
    fn put(&mut self, candidate: &Candidate, globs: Vec<String>, text: &str) -> Vec<String> {
        let kept = words::head_of(text);
        let hash = blake3::hash(kept.text.as_bytes()).to_hex()[..32].to_owned();
        if text.trim().is_empty() {
            self.skip(candidate, Cause::Nothing, "it is empty".to_owned());
            return Vec::new();
        }
        if !self.seen_texts.insert(hash.clone()) {
            self.skip(candidate, Cause::Nothing, "the same words are read already".to_owned());
            return Vec::new();
        }
        let prepared = markdown::prepare(kept.text);
        let is_believed = self.all.guard.believes_project();
        let header = words::header(candidate, &globs, is_believed);
        self.found.is_untrusted |= !is_believed && candidate.bounds.is_some();
        let Some(text) = words::fit(&header, &prepared.text, kept.left_out, self.room) else {
            self.skip(candidate, Cause::NoRoom, format!("it has about {} tokens", words::tokens(kept.text)));
            return prepared.imports;
        };
        let tokens = words::tokens(&text);
        self.room = self.room.saturating_sub(tokens);
        self.found.files.push(Instruction {
            path: candidate.path.clone(),
            scope: candidate.scope,
            reason: candidate.reason,
            globs,
            trigger: candidate.trigger.clone(),
            parent: candidate.parent.clone(),
            hash,
            tokens,
            text,
        });
        prepared.imports
    }

    fn import(&mut self, from: &Candidate, imports: Vec<String>, depth: usize) {
        for written in imports {
            let found = self.place(from, &written);
            let candidate = |path: &Path| Candidate {
                path: words::plain_path(path),
                reason: LoadReason::Include,
                parent: Some(from.path.clone()),
                kind: Kind::Whole,
                ..from.clone()
            };
            match found {
                Ok(path) if path.is_dir() => {}
                Ok(path) if depth > DEEPEST_IMPORT => {
                    let why = format!("imports lead no further than {DEEPEST_IMPORT} files");
                    self.skip(&candidate(&path), Cause::Refused, why);
                }
                Ok(path) => self.read(candidate(&path), depth, Patterns::Matched),
                // Somebody who is addressed is no file.
                Err(_) if !written.contains(['/', '.']) => {}
                Err(path) => {
                    self.skip(&candidate(&path), Cause::Missing, "there is no such file".to_owned());
                }
            }
        }
    }

    /// The file that an import names; as an error where it would be.
    fn place(&self, from: &Candidate, written: &str) -> Result<PathBuf, PathBuf> {
        let base = from.path.parent().unwrap_or(Path::new("/"));
        let place = |path: &str| match path.strip_prefix("~/") {
            Some(below) => self.all.guard.home.join(below),
            None => base.join(path),
        };
        // A part of the file may be named, and a sentence may end behind it.
        let spellings = [
            written,
            written.split('#').next().unwrap_or_default(),
            written.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '"', '\'']),
        ];
        let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
        spellings.iter().map(|path| place(path)).find(is_there).ok_or_else(|| place(written))
    }

    fn skip(&mut self, candidate: &Candidate, cause: Cause, why: String) {
        let (path, parent) = (candidate.path.clone(), candidate.parent.clone());
        self.found.skipped.push(Skipped { path, parent, cause, why });
    }
}

/// The patterns of a rule's head, and what follows it.
fn split_head<'t>(candidate: &Candidate, text: &'t str) -> Result<(Vec<String>, &'t str), String> {
    let Kind::Rule(_) = candidate.kind else { return Ok((Vec::new(), text)) };
    let (Some(head), body) = front_matter::split(text) else { return Ok((Vec::new(), text)) };
    if head.trim().is_empty() {
        return Ok((Vec::new(), body));
    }
    let head: Head = front_matter::read(head)?;
    let globs = head.paths.map(Texts::into_list).unwrap_or_default();
    // What is about everything is about nothing in particular.
    Ok((if globs.iter().any(|glob| glob == "**") { Vec::new() } else { globs }, body))
}
