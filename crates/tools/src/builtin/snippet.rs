//! The changed parts of a text as they read now, for the model to check: numbered, with some lines
//! around each. A long line is shown around what changed in it.

use super::draft::Draft;
use crate::text;
use memchr::{memchr, memchr_iter, memrchr};
use std::fmt::Write;

/// How much of the changed parts is shown: lines around each, and in all.
const AROUND: usize = 4;
const MAX_LINES: usize = 60;
/// How many characters of a line are shown, and how many bytes of those before a change in it.
const MAX_LINE: usize = 300;
const LEAD: usize = 100;

/// The changed parts of a draft.
pub(super) fn snippet(draft: &Draft) -> String {
    let text = draft.text();
    let (mut shown, mut count, mut done) = (String::new(), 0, 0);
    let (mut counted, mut number) = (0, draft.first_line());
    for part in draft.changed() {
        let start = line_start(text, part.new.start, AROUND).max(done);
        let end = line_end(text, part.new.end, AROUND);
        if start > done && count > 0 {
            shown.push_str("…\n");
        }
        number += memchr_iter(b'\n', &text.as_bytes()[counted..start]).count();
        counted = start;
        let lines =
            text[start..end].strip_suffix('\n').filter(|_| end < text.len()).unwrap_or(&text[start..end]);
        let mut position = start;
        for (index, line) in lines.split('\n').enumerate().filter(|_| start < end) {
            if count == MAX_LINES {
                shown.push('…');
                return shown;
            }
            count += 1;
            let line_shown = around(draft.visible_line(line), part.new.start.saturating_sub(position));
            // Writing to a string cannot fail.
            let _ = writeln!(shown, "{}\t{line_shown}", number + index + 1);
            position += line.len() + 1;
        }
        done = end;
    }
    shown.truncate(shown.trim_end_matches('\n').len());
    shown
}

/// A line, cut around a place in it when it is very long.
fn around(line: &str, place: usize) -> String {
    if text::first(line, MAX_LINE).is_none() {
        return line.to_owned();
    }
    // Near its start it is shown from there, and so is a line that the place is not in.
    let start = if place < MAX_LINE - LEAD || place > line.len() { 0 } else { place - LEAD };
    let rest = &line[line.floor_char_boundary(start)..];
    let before = if start == 0 { "" } else { "…" };
    text::first(rest, MAX_LINE).map_or_else(|| format!("{before}{rest}"), |cut| format!("{before}{cut}…"))
}

/// Where so many lines before that of a position start.
pub(super) fn line_start(text: &str, position: usize, lines: usize) -> usize {
    let mut start = position;
    for _ in 0..=lines {
        match memrchr(b'\n', &text.as_bytes()[..start]) {
            Some(newline) => start = newline,
            None => return 0,
        }
    }
    start + 1
}

/// Where so many lines after that of a position end.
pub(super) fn line_end(text: &str, position: usize, lines: usize) -> usize {
    let mut end = position;
    for _ in 0..=lines {
        match memchr(b'\n', &text.as_bytes()[end..]) {
            Some(newline) => end += newline + 1,
            None => return text.len(),
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::{super::matching::find, *};

    #[track_caller]
    fn check(text: &str, old: &str, new: &str, expected: &str) {
        let mut draft = Draft::new(text, [old, new].into_iter());
        let found = find(draft.text(), old);
        draft.replace(&found, new);
        assert_eq!(snippet(&draft), expected);
    }

    #[test]
    fn what_changed_is_in_sight() {
        check("a\nb\nc\n", "b", "B", "1\ta\n2\tB\n3\tc\n4\t");
        let far: Vec<String> = (1..=40).map(|n| n.to_string()).collect();
        check(
            &far.join("\n"),
            "20\n",
            "",
            "16\t16\n17\t17\n18\t18\n19\t19\n20\t21\n21\t22\n22\t23\n23\t24\n24\t25",
        );
        let long = format!("{}old{}\nnext", "é".repeat(400), "y".repeat(900));
        let expected = format!("1\t…{}new{}…\n2\tnext", "é".repeat(50), "y".repeat(247));
        check(&long, "old", "new", &expected);
        let start = format!("old{}", "y".repeat(900));
        check(&start, "old", "new", &format!("1\tnew{}…", "y".repeat(297)));
    }
}
