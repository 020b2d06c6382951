//! Sets of lines that the model has seen, and how they move when it edits them. Of a line too long to
//! be shown as a whole only the start counts.

use std::{collections::BTreeMap, fmt, ops::Range};

/// Lines counted from 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines {
    /// Seen from end to end: ascending, disjoint, non-touching ranges.
    whole: Vec<Range<usize>>,
    /// Lines that were cut, each with how many bytes of its text were shown.
    cut: BTreeMap<usize, usize>,
}

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// Counted from 0.
    pub line: usize,
    /// Bytes from the line's start.
    pub column: usize,
}

/// A text that gave way to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edited {
    /// The line it starts on.
    pub line: usize,
    /// Where the old text ended.
    pub old_end: Spot,
    /// Where the new text ends.
    pub new_end: Spot,
}

impl Lines {
    /// The first `count` lines.
    pub fn first(count: usize) -> Self {
        Self::from(0..count)
    }

    /// Adds lines that were seen from end to end.
    pub fn add(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let (touching, mut apart): (Vec<_>, Vec<_>) = std::mem::take(&mut self.whole)
            .into_iter()
            .partition(|known| known.start <= range.end && range.start <= known.end);
        let start = touching.iter().map(|known| known.start).fold(range.start, usize::min);
        let end = touching.iter().map(|known| known.end).fold(range.end, usize::max);
        self.cut.retain(|line, _| !range.contains(line));
        apart.push(start..end);
        apart.sort_by_key(|known| known.start);
        self.whole = apart;
    }

    /// Adds the start of a line of which no more was shown than so many bytes.
    pub fn add_start(&mut self, line: usize, bytes: usize) {
        if !self.cover(&(line..line + 1)) {
            let known = self.cut.entry(line).or_default();
            *known = bytes.max(*known);
        }
    }

    /// Adds all that is in another set.
    pub fn join(&mut self, other: &Self) {
        other.whole.iter().for_each(|range| self.add(range.clone()));
        other.cut.iter().for_each(|(line, bytes)| self.add_start(*line, *bytes));
    }

    /// Whether all lines of a range were seen from end to end.
    pub fn cover(&self, wanted: &Range<usize>) -> bool {
        wanted.is_empty()
            || self.whole.iter().any(|range| range.start <= wanted.start && wanted.end <= range.end)
    }

    /// Whether a text on these lines was seen that ends at a column of the last one.
    pub fn cover_text(&self, lines: &Range<usize>, end_column: usize) -> bool {
        let last = lines.end.saturating_sub(1);
        self.cover(lines)
            || (self.cover(&(lines.start..last))
                && self.cut.get(&last).is_some_and(|seen| end_column <= *seen))
    }

    /// The first of these lines that was cut.
    pub fn first_cut(&self, lines: &Range<usize>) -> Option<usize> {
        self.cut.range(lines.clone()).next().map(|(line, _)| *line)
    }

    /// The same lines after edits of some of them, which are told from front to back.
    #[must_use]
    pub fn moved(&self, edits: &[Edited]) -> Self {
        let moved = |line: usize| {
            let before = edits.iter().filter(|edit| edit.line < line);
            line.saturating_add_signed(before.map(Edited::longer).sum())
        };
        let mut lines = Self::default();
        for range in &self.whole {
            lines.add(moved(range.start)..moved(range.end));
        }
        for (line, seen) in &self.cut {
            let mut spot = Spot { line: *line, column: *seen };
            // From back to front each edit finds the text before it as it was.
            edits.iter().rev().for_each(|edit| spot = edit.moves(spot));
            lines.add_start(spot.line, spot.column);
        }
        lines
    }
}

impl From<Range<usize>> for Lines {
    fn from(range: Range<usize>) -> Self {
        let mut lines = Self::default();
        lines.add(range);
        lines
    }
}

impl Edited {
    /// By how many lines the text became longer.
    fn longer(&self) -> isize {
        self.new_end.line.cast_signed() - self.old_end.line.cast_signed()
    }

    /// Where a spot is after the edit.
    fn moves(&self, spot: Spot) -> Spot {
        if spot < self.old_end {
            return spot;
        }
        let line = spot.line.saturating_add_signed(self.longer());
        if spot.line > self.old_end.line {
            return Spot { line, ..spot };
        }
        Spot { line, column: spot.column - self.old_end.column + self.new_end.column }
    }
}

impl fmt::Display for Lines {
    /// As people count: from 1, both ends included.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<(usize, String)> = self
            .whole
            .iter()
            .map(|range| (range.start, format!("{}-{}", range.start + 1, range.end)))
            .chain(self.cut.keys().map(|line| (*line, format!("the start of {}", line + 1))))
            .collect();
        parts.sort();
        if parts.is_empty() {
            return f.write_str("none");
        }
        let parts: Vec<String> = parts.into_iter().map(|(_, part)| part).collect();
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn edited(line: usize, old_end: (usize, usize), new_end: (usize, usize)) -> Edited {
        let spot = |(line, column)| Spot { line, column };
        Edited { line, old_end: spot(old_end), new_end: spot(new_end) }
    }

    #[track_caller]
    fn check(lines: &Lines, expected: &str) {
        assert_eq!(lines.to_string(), expected);
    }

    #[test]
    fn a_cut_line_is_known_up_to_where_it_was_shown() {
        let mut lines = Lines::from(0..3);
        lines.add_start(3, 2000);
        check(&lines, "1-3, the start of 4");
        assert!(!lines.cover(&(0..4)) && lines.first_cut(&(2..4)) == Some(3));
        assert!(lines.cover_text(&(2..4), 2000) && !lines.cover_text(&(2..4), 2001));
        assert!(!lines.cover_text(&(3..5), 0), "it goes on past the cut");
        lines.add_start(3, 100);
        assert!(lines.cover_text(&(3..4), 2000), "what was seen stays seen");
        lines.add(3..4);
        check(&lines, "1-4");
        lines.add_start(3, 100);
        check(&lines, "1-4");
        check(&Lines::default(), "none");
    }

    #[test]
    fn edits_move_lines_and_cuts_with_the_text() {
        let mut lines = Lines::from(0..3);
        lines.add(5..6);
        lines.add_start(3, 50);
        let same_line = lines.moved(&[edited(3, (3, 10), (3, 14))]);
        assert!(same_line.cover_text(&(3..4), 54) && !same_line.cover_text(&(3..4), 55));
        let twice = lines.moved(&[edited(3, (3, 10), (3, 14)), edited(3, (3, 20), (3, 14))]);
        assert!(twice.cover_text(&(3..4), 48) && !twice.cover_text(&(3..4), 49));
        let split = lines.moved(&[edited(3, (3, 10), (5, 2))]);
        check(&split, "1-3, the start of 6, 8-8");
        assert!(split.cover_text(&(5..6), 42) && !split.cover_text(&(5..6), 43));
        let joined = lines.moved(&[edited(1, (3, 10), (1, 30))]);
        assert!(joined.cover_text(&(1..2), 70) && !joined.cover_text(&(1..2), 71));
        check(&joined, "1-1, the start of 2, 4-4");
        check(&lines.moved(&[edited(0, (0, 5), (2, 0))]), "1-5, the start of 6, 8-8");
    }

    proptest! {
        #[test]
        fn ranges_are_the_set_of_their_lines(ranges in prop::collection::vec((0usize..40, 0usize..8), 0..12)) {
            let (mut lines, mut set) = (Lines::default(), BTreeSet::new());
            for (start, length) in ranges {
                lines.add(start..start + length);
                set.extend(start..start + length);
            }
            prop_assert!(lines.whole.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert_eq!(lines.whole.iter().cloned().flatten().collect::<BTreeSet<_>>(), set);
        }

        /// Whatever was seen of a text, no edit of it makes anything count that was not.
        #[test]
        fn an_edit_makes_nothing_seen(
            text in "[ab\n]{1,30}",
            seen in prop::collection::vec(0usize..8, 0..6),
            cut in prop::option::of(0usize..4),
            start in 0usize..30,
            length in 1usize..6,
            new in "[XY\n]{0,5}",
        ) {
            let start = start.min(text.len() - 1);
            let end = (start + length).min(text.len());
            let spot = |text: &str| Spot {
                line: text.matches('\n').count(),
                column: text.len() - text.rfind('\n').map_or(0, |at| at + 1),
            };
            // All that the edit touches is known, the last line perhaps in part; of the rest, some lines.
            let (first, last) = (spot(&text[..start]).line, spot(&text[..end - 1]));
            let mut known = Lines::from(first..last.line);
            seen.iter().filter(|line| **line != last.line).for_each(|line| known.add(*line..line + 1));
            match cut.filter(|_| !text[..end].ends_with('\n')) {
                Some(more) => known.add_start(last.line, last.column + 1 + more),
                None => known.add(last.line..last.line + 1),
            }
            prop_assert!(known.cover_text(&(first..last.line + 1), last.column + 1));
            let touched = first..last.line + 1;
            let edited_text = format!("{}{new}{}", &text[..start], &text[end..]);
            let edit = Edited {
                line: touched.start,
                old_end: spot(&text[..end]),
                new_end: spot(&edited_text[..start + new.len()]),
            };
            let after = known.moved(&[edit]);
            // Each byte behind the edit is covered afterwards only if it was before.
            for at in end..text.len() {
                let (was, now) = (spot(&text[..=at]), spot(&edited_text[..=at - end + start + new.len()]));
                let was_newline = text.as_bytes()[at] == b'\n';
                let line_of = |spot: Spot| if was_newline { spot.line - 1 } else { spot.line };
                let covers = |lines: &Lines, spot: Spot| {
                    let line = line_of(spot);
                    if was_newline { lines.cover(&(line..line + 1)) } else { lines.cover_text(&(line..line + 1), spot.column) }
                };
                prop_assert!(!covers(&after, now) || covers(&known, was), "{at} of {text:?}");
            }
        }
    }
}
