//! Output kept in bounded memory: the first and the last bytes, and how many there were. What does not
//! fit here is `spool`'s business.

use crate::text::{is_continuation, whole_characters};
use std::collections::VecDeque;

/// How much is kept at each end unless told otherwise; far more than any tool shows.
const END: usize = 64 * 1024;

/// The two ends of a stream of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    end: usize,
}

impl Captured {
    /// Nothing yet, of which this much will be kept at each end.
    pub fn with_ends(end: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), total: 0, end }
    }

    /// Takes in the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.end - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.end)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.end);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// How many bytes there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many bytes were dropped between the two ends.
    pub fn dropped(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// Everything, unless some of it was dropped.
    pub fn whole(&self) -> Option<Vec<u8>> {
        (self.dropped() == 0).then(|| self.since(0).0)
    }

    /// The two ends as text. With nothing dropped, the first is everything and the second empty.
    pub fn texts(&self) -> (String, String) {
        if let Some(whole) = self.whole() {
            return (String::from_utf8_lossy(&whole).into_owned(), String::new());
        }
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let cut = tail.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
        let whole_head = &self.head[..whole_characters(&self.head)];
        (String::from_utf8_lossy(whole_head).into_owned(), String::from_utf8_lossy(&tail[cut..]).into_owned())
    }

    /// What came after the first `offset` bytes, and how many bytes of that are gone from its start.
    pub fn since(&self, offset: u64) -> (Vec<u8>, u64) {
        let clamped = |from: u64, length: usize| usize::try_from(from).unwrap_or(length).min(length);
        let tail_starts = self.total - self.tail.len() as u64;
        let in_tail = self.tail.range(clamped(offset.saturating_sub(tail_starts), self.tail.len())..);
        if self.dropped() > 0 {
            let gone = tail_starts.saturating_sub(offset);
            return (in_tail.copied().collect(), gone);
        }
        let mut bytes = self.head[clamped(offset, self.head.len())..].to_vec();
        bytes.extend(in_tail);
        (bytes, 0)
    }
}

impl Default for Captured {
    fn default() -> Self {
        Self::with_ends(END)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn capture(text: &str, piece: usize) -> Captured {
        let mut captured = Captured::default();
        text.as_bytes().chunks(piece).for_each(|bytes| captured.push(bytes));
        captured
    }

    proptest! {
        #[test]
        fn short_output_is_whole(text in "\\PC{0,200}", piece in 1usize..9) {
            prop_assert_eq!(capture(&text, piece).texts(), (text, String::new()));
        }

        #[test]
        fn long_output_keeps_its_ends_on_character_boundaries(
            unit in "[a-z£€🦀]{1,5}",
            piece in 1usize..50_000,
        ) {
            let text = unit.repeat(3 * END / unit.len() + 1);
            let captured = capture(&text, piece);
            let (head, tail) = captured.texts();
            prop_assert!(text.starts_with(&head) && text.ends_with(&tail));
            prop_assert!(END - head.len() < 4 && END - tail.len() < 4);
            prop_assert_eq!(captured.dropped(), (text.len() - 2 * END) as u64);
        }

        #[test]
        fn what_is_new_is_what_came_last(
            before in proptest::collection::vec(any::<u8>(), 0..60),
            after in proptest::collection::vec(any::<u8>(), 0..60),
            end in 1usize..40,
        ) {
            let mut captured = Captured::with_ends(end);
            captured.push(&before);
            let offset = captured.total();
            captured.push(&after);
            let (bytes, gone) = captured.since(offset);
            prop_assert!(after.ends_with(&bytes));
            prop_assert_eq!(gone + bytes.len() as u64, after.len() as u64);
        }
    }
}
