//! A text by what it has in common with the one before it. Requests extend each other, so that little is left of each.

use serde::{Deserialize, Serialize};

/// A text that begins and ends like another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delta {
    /// Bytes at the start that are the other's.
    start: usize,
    /// What stands between.
    between: String,
    /// Bytes at the end that are the other's.
    end: usize,
}

impl Delta {
    /// What of a text is not in the one before it.
    pub(super) fn new(before: &str, now: &str) -> Self {
        let same = before.bytes().zip(now.bytes()).take_while(|(one, other)| one == other).count();
        let start = now.floor_char_boundary(same);
        let rest = before.len().min(now.len()) - start;
        let backwards = before.bytes().rev().zip(now.bytes().rev()).take(rest);
        let same = backwards.take_while(|(one, other)| one == other).count();
        let end = now.len() - now.ceil_char_boundary(now.len() - same);
        Self { start, between: now[start..now.len() - end].to_owned(), end }
    }

    /// The text, given the one before it; none when that is another.
    pub(super) fn apply(&self, before: &str) -> Option<String> {
        let end = before.len().checked_sub(self.end)?;
        Some(format!("{}{}{}", before.get(..self.start)?, self.between, before.get(end..)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_text_comes_back(before in "[aé€]{0,12}", now in "[aé€]{0,12}") {
            prop_assert_eq!(Delta::new(&before, &now).apply(&before), Some(now));
        }

        #[test]
        fn what_both_have_is_not_kept(start in "[a-c]{0,9}", end in "[a-c]{0,9}", new in "[x-z]{1,9}") {
            let (before, now) = (format!("{start}{end}"), format!("{start}{new}{end}"));
            prop_assert_eq!(Delta::new(&before, &now).between.len(), new.len());
        }
    }

    #[test]
    fn another_text_before_is_noticed() {
        assert_eq!(Delta::new("a long text", "a long text!").apply("short"), None);
    }
}
