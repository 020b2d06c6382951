//! How much fits, when it is nearly full, and how what fits after a compaction is shared out.

use ostler_proto::ModelRow;

/// Kept free for an answer, at most.
const LONGEST_ANSWER: u64 = 20_000;
/// Kept free for what comes between looking and asking, at most.
const MARGIN: u64 = 13_000;

/// The room a model has for a conversation, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// What a request may hold.
    pub(crate) usable: u64,
    /// From here on it is nearly full.
    pub(crate) threshold: u64,
}

/// How much each part may take of a shortened conversation, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shares {
    /// What the user said.
    pub(crate) said: u64,
    /// Standing instructions.
    pub(crate) instructions: u64,
    /// The summary.
    pub(crate) summary: u64,
    /// The last messages, word for word.
    pub(crate) tail: u64,
    /// Files that are shown again, all together.
    pub(crate) files: u64,
    /// One such file.
    pub(crate) file: u64,
}

impl Room {
    /// The room of a model, within a window that the user has narrowed.
    pub(crate) fn of(row: &ModelRow, window: Option<u64>) -> Self {
        let window = window.unwrap_or(u64::MAX).min(row.context_window);
        let usable = window - row.max_output_tokens.min(LONGEST_ANSWER).min(window / 4);
        Self { usable, threshold: usable - MARGIN.min(usable / 8) }
    }

    /// The room of a model that refused so many tokens, whatever is known of it.
    pub(crate) fn below(self, refused: u64) -> Self {
        let usable = self.usable.min(refused / 8 * 7);
        Self { usable, threshold: self.threshold.min(usable / 8 * 7) }
    }

    /// What pruning must come down to, so that it is not needed again at once.
    pub(crate) fn comfortable(self) -> u64 {
        self.threshold / 10 * 6
    }

    /// The shares where tools and system prompt take up `fixed`; each step of squeezing halves them.
    pub(crate) fn shares(self, fixed: u64, squeezed: u32) -> Shares {
        let free = self.threshold.saturating_sub(fixed) >> squeezed.min(32);
        let files = (free / 6).min(20_000);
        Shares {
            said: (free / 5).min(20_000),
            instructions: (free / 4).min(40_000),
            summary: (free / 8).min(8_000),
            tail: (free / 6).min(12_000),
            files,
            file: files.min(5_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_threshold_is_where_users_of_large_models_expect_it() {
        let row = ModelRow { context_window: 200_000, max_output_tokens: 64_000, ..ModelRow::default() };
        assert_eq!(Room::of(&row, None), Room { usable: 180_000, threshold: 167_000 });
        assert_eq!(Room::of(&row, Some(100_000)).usable, 80_000);
        assert_eq!(Room::of(&row, Some(1_000_000)).usable, 180_000, "no window grows by being wished for");
    }

    proptest! {
        #[test]
        fn shares_fit_together(window in 0u64..2_000_000, output in 0u64..200_000, fixed in 0u64..50_000, refused in 0u64..300_000, squeezed in 0u32..40) {
            let row = ModelRow { context_window: window, max_output_tokens: output, ..ModelRow::default() };
            for room in [Room::of(&row, None), Room::of(&row, None).below(refused)] {
                prop_assert!(room.threshold <= room.usable && room.usable <= window);
                let shares = room.shares(fixed, squeezed);
                let all = shares.said + shares.instructions + shares.summary + shares.tail + shares.files;
                prop_assert!(all <= room.threshold.saturating_sub(fixed));
                prop_assert!(shares.file <= shares.files);
            }
        }
    }
}
