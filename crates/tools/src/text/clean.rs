//! Output of programs made harmless to show as it comes, in pieces cut anywhere, also within a character.

use ostler_proto::content;

/// Cleans output that comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    /// A character that the next piece may finish.
    held: Vec<u8>,
    stream: content::Stream,
}

impl Cleaner {
    /// What of the output so far is certain and was not given before.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        let mut joined = std::mem::take(&mut self.held);
        let bytes = if joined.is_empty() {
            bytes
        } else {
            joined.extend_from_slice(bytes);
            joined.as_slice()
        };
        let whole = whole_characters(bytes);
        let shown = self.stream.push(&String::from_utf8_lossy(&bytes[..whole]));
        self.held = bytes[whole..].to_vec();
        shown
    }

    /// What was still held back.
    pub(crate) fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        let mut shown = self.stream.push(&String::from_utf8_lossy(&held));
        shown.push_str(&self.stream.finish());
        shown
    }
}

/// How many of the bytes remain when a character cut off at the end is left out.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
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

pub(crate) fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..80), piece in 1usize..9) {
            let mut cleaner = Cleaner::default();
            let mut shown: String = bytes.chunks(piece).map(|bytes| cleaner.push(bytes)).collect();
            shown.push_str(&cleaner.finish());
            prop_assert!(!shown.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
        }
    }

    #[test]
    fn what_never_ends_is_not_held_for_ever() {
        let mut cleaner = Cleaner::default();
        let mut shown = cleaner.push(b"\x1b]0;");
        for _ in 0..20_000 {
            shown.push_str(&cleaner.push(b"xxxx"));
        }
        assert!(shown.len() >= 4000, "{}", shown.len());
    }
}
