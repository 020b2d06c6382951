//! The difference between two texts, for people as a unified diff and for programs as hunks.

use super::draft::{Changed, Draft};
use memchr::{memchr, memchr_iter, memrchr};
use ostler_proto::Json;
use serde_json::json;
use similar::{ChangeTag, TextDiff};
use std::{fmt::Write, ops::Range, time::Duration};

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;
/// After this long a coarser, still correct difference is good enough.
const PATIENCE: Duration = Duration::from_millis(300);

/// A difference.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Diff {
    /// As `diff -u` writes it.
    pub(super) unified: String,
    /// The same as data: `[{oldStart, oldLines, newStart, newLines, lines}]`.
    pub(super) hunks: Vec<Json>,
    /// How many lines are new.
    pub(super) added: usize,
    /// How many lines are gone.
    pub(super) removed: usize,
}

/// The difference between two texts.
pub(super) fn diff(path: &str, old: &str, new: &str) -> Diff {
    let mut diff = Diff::default();
    diff.compare(Block { text: old, line: 0 }, Block { text: new, line: 0 });
    diff.head(path);
    diff
}

/// As [`diff`], when it is known where the texts differ: the rest is not looked at. The draft
/// may be of a part of the text, and then `old` is that part as it was.
pub(super) fn diff_at(path: &str, old: &str, draft: &Draft) -> Diff {
    let (new, changed, first_line) = (draft.text(), draft.changed(), draft.first_line());
    let mut diff = Diff::default();
    let (mut old_counted, mut new_counted) = (Counted::default(), Counted::default());
    let mut rest = changed;
    while let Some(count) = neighbours(old, rest) {
        let (first, last) = (&rest[0], &rest[count - 1]);
        let (before, after) = (context_before(old, first.old.start), context_after(old, last.old.end));
        let old_range = first.old.start - before..last.old.end + after;
        let new_range = first.new.start - before..last.new.end + after;
        let old_line = first_line + old_counted.lines_until(old, old_range.start);
        let new_line = first_line + new_counted.lines_until(new, new_range.start);
        diff.compare(
            Block { text: &old[old_range], line: old_line },
            Block { text: &new[new_range], line: new_line },
        );
        rest = &rest[count..];
    }
    diff.head(path);
    diff
}

/// Whole lines of a text, and how many lines are before them.
#[derive(Clone, Copy)]
struct Block<'a> {
    text: &'a str,
    line: usize,
}

/// Lines counted so far.
#[derive(Default)]
struct Counted {
    position: usize,
    lines: usize,
}

impl Counted {
    fn lines_until(&mut self, text: &str, position: usize) -> usize {
        self.lines += memchr_iter(b'\n', &text.as_bytes()[self.position..position]).count();
        self.position = position;
        self.lines
    }
}

/// How many of the changes are so close that their surroundings touch.
fn neighbours(old: &str, changed: &[Changed]) -> Option<usize> {
    let apart = |pair: &[Changed]| {
        let between = &old.as_bytes()[pair[0].old.end..pair[1].old.start];
        memchr_iter(b'\n', between).nth(2 * CONTEXT + 1).is_some()
    };
    (!changed.is_empty()).then(|| changed.windows(2).position(apart).map_or(changed.len(), |last| last + 1))
}

/// How far the start of the lines shown before a change is away from it.
fn context_before(text: &str, position: usize) -> usize {
    let mut start = position;
    for _ in 0..=CONTEXT {
        match memrchr(b'\n', &text.as_bytes()[..start]) {
            Some(newline) => start = newline,
            None => return position,
        }
    }
    position - start - 1
}

/// How far the end of the lines shown after a change is away from it.
fn context_after(text: &str, position: usize) -> usize {
    let mut end = position;
    for _ in 0..=CONTEXT {
        match memchr(b'\n', &text.as_bytes()[end..]) {
            Some(newline) => end += newline + 1,
            None => return text.len() - position,
        }
    }
    end - position
}

impl Diff {
    fn head(&mut self, path: &str) {
        if !self.unified.is_empty() {
            self.unified.insert_str(0, &format!("--- {path}\n+++ {path}\n"));
        }
    }

    fn compare(&mut self, old: Block<'_>, new: Block<'_>) {
        let text_diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old.text, new.text);
        for ops in text_diff.grouped_ops(CONTEXT) {
            let (Some(first), Some(last)) = (ops.first(), ops.last()) else { continue };
            let mut lines = Vec::new();
            for change in ops.iter().flat_map(|op| text_diff.iter_changes(op)) {
                let sign = match change.tag() {
                    ChangeTag::Equal => ' ',
                    ChangeTag::Delete => '-',
                    ChangeTag::Insert => '+',
                };
                self.added += usize::from(sign == '+');
                self.removed += usize::from(sign == '-');
                lines.push(format!("{sign}{}", change.value().trim_end_matches(['\r', '\n'])));
                if change.missing_newline() {
                    lines.push("\\ No newline at end of file".to_owned());
                }
            }
            let old_range = first.old_range().start + old.line..last.old_range().end + old.line;
            let new_range = first.new_range().start + new.line..last.new_range().end + new.line;
            self.push(&old_range, &new_range, &lines);
        }
    }

    fn push(&mut self, old: &Range<usize>, new: &Range<usize>, lines: &[String]) {
        // An empty range is named by the line before it.
        let start = |range: &Range<usize>| range.start + usize::from(!range.is_empty());
        let head = |range: &Range<usize>| match range.len() {
            1 => start(range).to_string(),
            length => format!("{},{length}", start(range)),
        };
        let unified = &mut self.unified;
        // Writing to a string cannot fail.
        let _ = writeln!(unified, "@@ -{} +{} @@", head(old), head(new));
        for line in lines {
            let _ = writeln!(unified, "{line}");
        }
        self.hunks.push(json!({
            "oldStart": start(old), "oldLines": old.len(),
            "newStart": start(new), "newLines": new.len(),
            "lines": lines,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::{super::matching::find, *};
    use proptest::prelude::*;

    #[test]
    fn hunks_and_unified_text_agree() {
        let diff = diff("f", "a\nb\nc\n", "a\nB\nc");
        assert_eq!((diff.added, diff.removed), (2, 2));
        let lines = [" a", "-b", "-c", "+B", "+c", "\\ No newline at end of file"];
        assert_eq!(
            diff.hunks,
            [json!({"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3, "lines": lines})]
        );
        assert_eq!(
            diff.unified,
            "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-b\n-c\n+B\n+c\n\\ No newline at end of file\n"
        );
    }

    /// Applies hunks to a text, checking every line they name.
    fn patched(old: &str, hunks: &[Json]) -> String {
        let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut text, mut done) = (String::new(), 0);
        let number = |hunk: &Json, key: &str| usize::try_from(hunk[key].as_u64().unwrap()).unwrap();
        for hunk in hunks {
            let length = number(hunk, "oldLines");
            let start = number(hunk, "oldStart") - usize::from(length > 0);
            text.extend(old_lines[done..start].iter().copied());
            assert_eq!(
                text.split_inclusive('\n').count(),
                number(hunk, "newStart") - usize::from(number(hunk, "newLines") > 0)
            );
            done = start + length;
            let mut at = start;
            for line in hunk["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()) {
                let (sign, line) = line.split_at(1);
                match sign {
                    "+" | " " => text.extend([line, "\n"]),
                    "\\" if text.ends_with('\n') && at == done => {
                        text.pop();
                    }
                    _ => {}
                }
                if matches!(sign, "-" | " ") {
                    assert_eq!(old_lines[at].trim_end_matches('\n'), line);
                    at += 1;
                }
            }
        }
        text.extend(old_lines[done..].iter().copied());
        text
    }

    proptest! {
        #[test]
        fn a_diff_of_known_changes_leads_from_old_to_new(
            old in "([abcd]{0,2}\n){0,60}",
            steps in prop::collection::vec(("[abcd\n]{1,4}", "[abcx\n]{0,4}"), 1..5),
        ) {
            let mut draft = Draft::new(&old, std::iter::empty());
            for (from, to) in steps {
                let mut found = find(draft.text(), &from);
                found.ranges.truncate(2);
                draft.replace(&found, &to);
            }
            let diff = diff_at("f", &old, &draft);
            // The mark of a missing last newline is ambiguous in this small reader.
            prop_assume!(draft.text().ends_with('\n') || draft.text().is_empty());
            prop_assert_eq!(patched(&old, &diff.hunks), draft.text());
        }
    }
}
