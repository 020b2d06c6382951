//! Redirections: which files they read and write, and whether they reach the network.

use super::super::facts::{Directory, How, Place, Touch, Word};
use super::super::syntax::{Access, Redirect, Target};
use super::Walker;
use super::expand::Mode;
use super::variable::Value;

/// What a command's redirections open.
pub(super) struct Opened {
    files: Vec<(How, Word)>,
    /// Whether one of them is a connection.
    pub network: bool,
    /// Variables that take the numbers of descriptors.
    pub variables: Vec<String>,
}

impl Opened {
    /// The files, seen from a directory.
    pub(super) fn touches(&self, directory: &Directory) -> Vec<Touch> {
        self.files.iter().filter_map(|(how, word)| touch(word, *how, directory)).collect()
    }
}

impl Walker<'_> {
    /// Expands redirections.
    pub(super) fn redirects(&mut self, redirects: &[Redirect]) -> Opened {
        let mut opened = Opened { files: Vec::new(), network: false, variables: Vec::new() };
        for redirect in redirects {
            opened.variables.extend(redirect.variable.clone());
            match &redirect.target {
                Target::File { access, word } => {
                    let words = self.fields(word);
                    let word = match words.as_slice() {
                        [word] => word.clone(),
                        [] | [_, ..] => Word::Unknown { start: String::new(), splits: true },
                    };
                    if is_connection(&word) {
                        opened.network = true;
                        continue;
                    }
                    let hows: &[How] = match access {
                        Access::Read => &[How::Read],
                        Access::Write => &[How::Write],
                        Access::Both => &[How::Read, How::Write],
                    };
                    opened.files.extend(hows.iter().map(|how| (*how, word.clone())));
                }
                Target::Descriptor { .. } => {}
                Target::Here { parts, .. } => self.look_into(parts),
                Target::Text(word) => {
                    self.expand_one(&word.parts, Mode::Single);
                }
            }
        }
        opened
    }

    /// Writes down the redirections of a compound command.
    pub(super) fn compound_redirects(&mut self, redirects: &[Redirect]) {
        let opened = self.redirects(redirects);
        let mut touches = Vec::new();
        for place in self.scope.places.each() {
            touches.extend(opened.touches(&place));
        }
        self.touch(touches, opened.network);
        for name in &opened.variables {
            self.scope.assign(name, Value::Number);
        }
    }
}

/// What opening a file by this word touches, if that is anything.
pub(super) fn touch(word: &Word, how: How, directory: &Directory) -> Option<Touch> {
    let place = match word {
        Word::Known(path) if is_harmless(path) => return None,
        Word::Known(path) => match directory {
            Directory::Known(directory) => Place::At(directory.join(path)),
            Directory::Unknown if path.starts_with('/') => Place::At(path.into()),
            Directory::Unknown => Place::Anywhere,
        },
        Word::Glob(pattern) => match directory {
            Directory::Known(directory) => Place::Below(directory.join(folder_of(pattern))),
            Directory::Unknown if pattern.starts_with('/') => Place::Below(folder_of(pattern).into()),
            Directory::Unknown => Place::Anywhere,
        },
        Word::Unknown { .. } => Place::Anywhere,
    };
    Some(Touch { how, place, deep: false })
}

/// The part of a pattern that is a folder without doubt.
fn folder_of(pattern: &str) -> &str {
    let plain = pattern.split(['*', '?', '[']).next().unwrap_or_default();
    plain.rfind('/').and_then(|end| plain.get(..=end)).unwrap_or_default()
}

/// Files of the shell's own making, and the one that holds nothing.
fn is_harmless(path: &str) -> bool {
    let number = path.strip_prefix("/dev/fd/").unwrap_or_default();
    matches!(path, "/dev/null" | "/dev/stdin" | "/dev/stdout" | "/dev/stderr")
        || (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether bash opens a connection instead of a file.
fn is_connection(word: &Word) -> bool {
    let text = match word {
        Word::Known(text) | Word::Glob(text) | Word::Unknown { start: text, .. } => text,
    };
    text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/")
}
