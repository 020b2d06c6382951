//! Where a word points when it is taken for a path. Lexical only: `..` and links are left for those
//! who may look at the file system; a word that might climb out of its folder is anywhere.

use crate::permission::shell::facts::{Directory, Place, Word};
use std::path::{Path, PathBuf};

/// Files that hold nothing of the user's and may be read by anyone.
const EMPTY_SOURCES: [&str; 5] = ["/dev/null", "/dev/stdin", "/dev/zero", "/dev/urandom", "/dev/random"];

/// Files that swallow or pass on what is written.
const SINKS: [&str; 3] = ["/dev/null", "/dev/stdout", "/dev/stderr"];

/// Characters that make a word a pattern.
const PATTERN: &str = "*?[]{}()!@+\\";

/// The place a path word points to.
pub(super) fn place(word: &Word, directory: &Directory) -> Place {
    match word {
        Word::Known(text) => join(directory, text).map_or(Place::Anywhere, Place::At),
        Word::Glob(pattern) => below(pattern, directory),
        // What follows the known start may climb out of it again.
        Word::Unknown { .. } => Place::Anywhere,
    }
}

/// A path in a directory, as written.
pub(super) fn join(directory: &Directory, text: &str) -> Option<PathBuf> {
    match directory {
        _ if text.contains('\0') => None,
        _ if text.starts_with('/') => Some(PathBuf::from(text)),
        Directory::Known(directory) => Some(directory.join(text)),
        Directory::Unknown => None,
    }
}

/// Whether reading this file tells nothing: the standard input and the like.
pub(super) fn is_empty_source(word: &Word) -> bool {
    word.known().is_some_and(|text| text == "-" || EMPTY_SOURCES.contains(&text) || is_descriptor(text))
}

/// Whether writing to this file changes nothing.
pub(super) fn is_sink(word: &Word) -> bool {
    word.known().is_some_and(|text| SINKS.contains(&text) || is_descriptor(text))
}

/// Whether the path is an open file of the program; nothing may follow that leads elsewhere.
fn is_descriptor(text: &str) -> bool {
    let number = text.strip_prefix("/dev/fd/").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// The folder in front of the first pattern character of a pattern.
pub(super) fn folder_of(pattern: &str) -> &str {
    let literal = pattern.find(|c| PATTERN.contains(c)).map_or(pattern, |at| &pattern[..at]);
    literal.rfind('/').map_or("", |at| &pattern[..=at])
}

fn below(pattern: &str, directory: &Directory) -> Place {
    let folder = folder_of(pattern);
    if pattern[folder.len()..].split('/').any(may_be_parent) {
        return Place::Anywhere;
    }
    match join(directory, folder) {
        Some(folder) => Place::Below(folder),
        None => Place::Anywhere,
    }
}

/// Whether a component of a pattern may come out as `..`; older shells let `.*` do so.
fn may_be_parent(component: &str) -> bool {
    let mut characters = component.chars().filter(|c| *c != '\\');
    match (characters.next(), characters.next()) {
        (Some('.'), Some(second)) => second == '.' || PATTERN.contains(second),
        // Alternatives and extended patterns can spell anything.
        (Some('{' | '(' | '@' | '+' | '!'), _) | (Some('?' | '*'), Some('(')) => true,
        (Some('['), _) => {
            component.starts_with("[.") || component.starts_with("[!") || component.starts_with("[^")
        }
        _ => component.contains("..") && component.contains(['{', '(']),
    }
}

/// The path without `.` and with `..` taken back, as far as that can be told from the text.
pub(super) fn normal(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            part @ (Component::Prefix(_) | Component::RootDir | Component::Normal(_)) => clean.push(part),
        }
    }
    clean
}
