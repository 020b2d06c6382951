//! A text under revision: what is not replaced is copied once, and nothing is copied when nothing is replaced.
//! Knows nothing of why something is replaced.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

/// Whether more of a text may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// This is the end.
    Final,
    /// It may go on anywhere.
    More,
}

/// A longer run of one character is spelled once, with its length.
const LONGEST_RUN: usize = 8;

pub(super) struct Rewrite<'a> {
    source: &'a str,
    done: usize,
    out: String,
}

impl<'a> Rewrite<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Self { source, done: 0, out: String::new() }
    }

    /// Up to where the source was copied or replaced.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// Copies up to the range; what is put into the string stands in its place.
    pub(super) fn replace(&mut self, range: Range<usize>) -> &mut String {
        self.out.push_str(&self.source[self.done..range.start]);
        self.done = range.end;
        &mut self.out
    }

    /// The text up to a place at or behind the last replacement.
    pub(super) fn finish(mut self, end: usize) -> Cow<'a, str> {
        if self.done == 0 && self.out.is_empty() {
            return Cow::Borrowed(&self.source[..end]);
        }
        self.out.push_str(&self.source[self.done..end]);
        Cow::Owned(self.out)
    }
}

/// Writes a character by its number; a long run of it once, with how many there are.
pub(super) fn spell(character: char, count: usize, out: &mut String) {
    if count > LONGEST_RUN {
        // Writing to a string cannot fail.
        let _ = write!(out, "{}×{count}", character.escape_unicode());
        return;
    }
    for _ in 0..count {
        out.extend(character.escape_unicode());
    }
}

/// Where the first byte of a kind stands. Looks at many at once, as most text has none.
pub(super) fn position(bytes: &[u8], is_wanted: impl Fn(u8) -> bool) -> Option<usize> {
    const BLOCK: usize = 64;
    let is_in = |block: &&[u8]| block.iter().fold(false, |any, byte| any | is_wanted(*byte));
    let skipped = bytes.chunks(BLOCK).take_while(|block| !is_in(block)).count() * BLOCK;
    let rest = bytes.get(skipped..)?;
    Some(skipped + rest.iter().position(|byte| is_wanted(*byte))?)
}

/// How many of the same character a text starts with.
pub(super) fn run_of(character: char, text: &str) -> usize {
    text.chars().take_while(|next| *next == character).count()
}
