//! Pieces of a line that could not be parsed, each of which might be a command. They are guesses in
//! the direction of too many, and only ever serve to deny or to ask.

use super::facts::Word;
use std::collections::BTreeSet;

/// Words that may stand before a command without being one.
const PREFIXES: [&str; 12] =
    ["!", "then", "do", "else", "elif", "if", "while", "until", "time", "coproc", "in", "{"];

/// The pieces, in the order of the text, each with its words.
pub(super) fn pieces(text: &str) -> Vec<(String, Vec<Word>)> {
    let joined = text.replace("\\\r\n", "").replace("\\\n", "");
    let mut seen = BTreeSet::new();
    let mut pieces = Vec::new();
    for piece in joined.split([';', '&', '|', '\n', '\r', '(', ')', '`', '{', '}', '<', '>', '\0']) {
        let piece = piece.trim();
        let words = words(piece);
        if !words.is_empty() && seen.insert(piece) {
            pieces.push((piece.to_owned(), words));
        }
    }
    pieces
}

fn words(piece: &str) -> Vec<Word> {
    let is_front = |word: &&str| PREFIXES.contains(word) || is_assignment(word);
    piece.split_whitespace().skip_while(is_front).map(word).collect()
}

fn word(text: &str) -> Word {
    let bare = text.replace(['"', '\'', '\\'], "");
    match bare.find(['$', '*', '?', '[']) {
        Some(0) if bare.len() == 1 => Word::Known(bare),
        Some(at) => Word::Unknown { start: bare.get(..at).unwrap_or_default().to_owned(), splits: true },
        None => Word::Known(bare),
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}
