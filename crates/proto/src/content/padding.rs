//! Blanks that push the rest of a question out of sight, told by their number instead. Ordinary indentation and
//! empty lines stay as they are.

use super::{Behaviours, rewrite::Rewrite};
use std::borrow::Cow;
use std::fmt::Write as _;

/// A wider run of spaces and tabs within a line is told by its number.
const WIDEST: usize = 40;
/// The least a tab takes, so that deep indentation stays.
const TAB_WIDTH: usize = 4;
/// More line ends than this in a run of blanks are too.
const MOST_NEWLINES: usize = 5;

/// Tells long runs of blanks by their number.
pub(super) fn collapse<'a>(text: &'a str, counts: &mut Behaviours) -> Cow<'a, str> {
    let bytes = text.as_bytes();
    let mut rewrite = Rewrite::new(text);
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|byte| is_blank(*byte)) {
        at += found;
        let run = &bytes[at..at + bytes[at..].iter().take_while(|byte| is_blank(**byte)).count()];
        let newlines = text[at..at + run.len()].matches('\n').count();
        if newlines > MOST_NEWLINES {
            counts.padding_collapsed += 1;
            // The indentation of the line that follows is part of that line.
            let end = run.iter().rposition(|byte| *byte == b'\n').unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = write!(rewrite.replace(at..at + end), "\n[{} empty lines]", newlines - 1);
            long_blanks(&text[at + end..at + run.len()], at + end, &mut rewrite, counts);
        } else {
            long_blanks(&text[at..at + run.len()], at, &mut rewrite, counts);
        }
        at += run.len();
    }
    rewrite.finish(text.len())
}

/// Tells long runs of spaces and tabs, in a run of blanks that stands at `at`, by their number.
fn long_blanks(run: &str, at: usize, rewrite: &mut Rewrite<'_>, counts: &mut Behaviours) {
    let mut start = 0;
    for line in run.split_inclusive('\n') {
        let blanks = line.trim_end_matches('\n');
        let tabs = blanks.bytes().filter(|byte| *byte == b'\t').count();
        if blanks.len() + tabs * (TAB_WIDTH - 1) > WIDEST {
            counts.padding_collapsed += 1;
            let what = if tabs == 0 { "spaces" } else { "spaces and tabs" };
            let range = at + start..at + start + blanks.len();
            let _ = write!(rewrite.replace(range), "[{} {what}]", blanks.len());
        }
        start += line.len();
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n')
}
