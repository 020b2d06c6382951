//! The difference between two texts, for people as a unified diff and for programs as hunks.

use ostler_proto::Json;
use serde_json::json;
use similar::{ChangeTag, TextDiff};
use std::time::Duration;

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;
/// After this long a coarser, still correct difference is good enough.
const PATIENCE: Duration = Duration::from_millis(300);

/// A difference.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Diff {
    /// As `diff -u` writes it.
    pub(super) unified: String,
    /// The same as data: `[{oldStart, oldLines, newStart, newLines, lines}]`.
    pub(super) hunks: Json,
    /// How many lines are new.
    pub(super) added: usize,
    /// How many lines are gone.
    pub(super) removed: usize,
}

pub(super) fn diff(path: &str, old: &str, new: &str) -> Diff {
    let text_diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
    let (mut added, mut removed) = (0, 0);
    let mut hunks = Vec::new();
    for ops in text_diff.grouped_ops(CONTEXT) {
        let mut lines = Vec::new();
        let (mut old_lines, mut new_lines) = (0, 0);
        for change in ops.iter().flat_map(|op| text_diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            old_lines += usize::from(sign != '+');
            new_lines += usize::from(sign != '-');
            added += usize::from(sign == '+');
            removed += usize::from(sign == '-');
            lines.push(format!("{sign}{}", change.value().trim_end_matches(['\r', '\n'])));
            if change.missing_newline() {
                lines.push("\\ No newline at end of file".to_owned());
            }
        }
        let start =
            |range: std::ops::Range<usize>| if range.is_empty() { range.start } else { range.start + 1 };
        let (old_start, new_start) = match (ops.first(), ops.last()) {
            (Some(first), Some(last)) => (
                start(first.old_range().start..last.old_range().end),
                start(first.new_range().start..last.new_range().end),
            ),
            _ => continue,
        };
        hunks.push(json!({
            "oldStart": old_start, "oldLines": old_lines,
            "newStart": new_start, "newLines": new_lines,
            "lines": lines,
        }));
    }
    let unified = text_diff.unified_diff().context_radius(CONTEXT).header(path, path).to_string();
    Diff { unified, hunks: Json::Array(hunks), added, removed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_and_unified_text_agree() {
        let diff = diff("f", "a\nb\nc\n", "a\nB\nc");
        assert_eq!((diff.added, diff.removed), (2, 2));
        let lines = [" a", "-b", "-c", "+B", "+c", "\\ No newline at end of file"];
        assert_eq!(
            diff.hunks,
            json!([{"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3, "lines": lines}])
        );
        assert_eq!(
            diff.unified,
            "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-b\n-c\n+B\n+c\n\\ No newline at end of file\n"
        );
    }
}
