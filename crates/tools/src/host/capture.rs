//! Output kept in bounded memory: the first and the last bytes, and how many there were.

use std::collections::VecDeque;

/// How much is kept at each end; far more than any tool shows.
const END: usize = 64 * 1024;

/// The two ends of a stream of bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Captured {
    /// Takes in the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(END - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(END)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(END);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// How many bytes were dropped between the two ends.
    pub fn dropped(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// The two ends as text. With nothing dropped, the first is everything and the second empty.
    pub fn texts(&self) -> (String, String) {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.dropped() == 0 {
            let whole = [self.head.as_slice(), &tail].concat();
            return (String::from_utf8_lossy(&whole).into_owned(), String::new());
        }
        let cut = tail.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
        let whole_head = &self.head[..whole_characters(&self.head)];
        (String::from_utf8_lossy(whole_head).into_owned(), String::from_utf8_lossy(&tail[cut..]).into_owned())
    }
}

/// How many of the bytes remain when a character cut off at the end is left out.
pub(super) fn whole_characters(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    let Some(start) = bytes[from..].iter().rposition(|byte| !is_continuation(*byte)).map(|at| from + at)
    else {
        return bytes.len();
    };
    let needed = match bytes[start] {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    };
    if bytes.len() - start < needed { start } else { bytes.len() }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
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
    }
}
