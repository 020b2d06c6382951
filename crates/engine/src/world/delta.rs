//! A text by what it has in common with the one before it. Requests extend each other, so that little is left of each.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A text that begins and ends like another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delta {
    /// Bytes at the start that are the other's.
    start: usize,
    /// What stands between: a part of the text itself, which may be too long to copy.
    #[serde(with = "text")]
    between: Bytes,
    /// Bytes at the end that are the other's.
    end: usize,
}

impl Delta {
    /// What of a text is not in the one before it. Both are long and mostly the same, so they are held against
    /// each other piece by piece and not looked at otherwise.
    pub(super) fn new(before: &[u8], now: &Bytes) -> Self {
        let mut start = common(before, now);
        while now.get(start).is_some_and(|byte| !is_boundary(*byte)) {
            start -= 1;
        }
        let rest = before.len().min(now.len()) - start;
        let backwards = before.iter().rev().zip(now.iter().rev()).take(rest);
        let mut end = backwards.take_while(|(one, other)| one == other).count();
        while end > 0 && !is_boundary(now[now.len() - end]) {
            end -= 1;
        }
        Self { start, between: now.slice(start..now.len() - end), end }
    }

    /// The text, given the one before it; none when that is another.
    pub(super) fn apply(&self, before: &str) -> Option<String> {
        let end = before.len().checked_sub(self.end)?;
        let between = String::from_utf8_lossy(&self.between);
        Some([before.get(..self.start)?, &between, before.get(end..)?].concat())
    }
}

/// Bytes that are text, as JSON has it.
mod text {
    use bytes::Bytes;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        String::deserialize(deserializer).map(Bytes::from)
    }
}

/// Bytes that both begin with.
fn common(one: &[u8], other: &[u8]) -> usize {
    const PIECE: usize = 256;
    let pieces = one.chunks_exact(PIECE).zip(other.chunks_exact(PIECE));
    let start = pieces.take_while(|(one, other)| one == other).count() * PIECE;
    let rest = one[start..].iter().zip(&other[start..]);
    start + rest.take_while(|(one, other)| one == other).count()
}

/// Whether a character begins here.
fn is_boundary(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn delta(before: &str, now: &str) -> Delta {
        Delta::new(before.as_bytes(), &Bytes::copy_from_slice(now.as_bytes()))
    }

    proptest! {
        #[test]
        fn the_text_comes_back(same in 0..600usize, before in "[aé€]{0,12}", now in "[aé€]{0,12}") {
            let (before, now) = ("é".repeat(same) + &before, "é".repeat(same) + &now);
            prop_assert_eq!(delta(&before, &now).apply(&before), Some(now));
        }

        #[test]
        fn what_both_have_is_not_kept(start in "[a-c]{0,9}", end in "[a-c]{0,9}", new in "[x-z]{1,9}") {
            let (before, now) = (format!("{start}{end}"), format!("{start}{new}{end}"));
            prop_assert_eq!(delta(&before, &now).between.len(), new.len());
        }
    }

    #[test]
    fn another_text_before_is_noticed() {
        assert_eq!(delta("a long text", "a long text!").apply("short"), None);
    }
}
