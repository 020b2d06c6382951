//! A text file as it is and as the model sees it: without BOM, every line ending a newline.
//! Changes are made on what the model sees and land byte for byte in what is there.

use std::ops::Range;

const BOM: char = '\u{FEFF}';

/// A text file.
#[derive(Debug)]
pub(super) struct Source {
    raw: String,
    /// Where the visible text starts in `raw`: after the BOM, if there is one.
    start: usize,
    visible: String,
    /// Each newline of `visible`, by position, that is a return and a newline in `raw`.
    returns: Vec<usize>,
    /// Each newline of `visible`, by position.
    newlines: Vec<usize>,
}

/// How the lines of a text end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Newline,
    ReturnNewline,
}

impl Source {
    pub(super) fn new(raw: String) -> Self {
        let start = if raw.starts_with(BOM) { BOM.len_utf8() } else { 0 };
        let visible = visible(&raw[start..]);
        let found = raw[start..].match_indices("\r\n");
        // Each pair before makes the visible text one byte shorter.
        let returns = found.enumerate().map(|(before, (at, _))| at - before).collect();
        let newlines = visible.match_indices('\n').map(|(at, _)| at).collect();
        Self { raw, start, visible, returns, newlines }
    }

    /// What the model sees.
    pub(super) fn visible(&self) -> &str {
        &self.visible
    }

    /// What is there.
    pub(super) fn raw(&self) -> &str {
        &self.raw
    }

    /// The line, counted from 0, that a visible position is on.
    pub(super) fn line_of(&self, position: usize) -> usize {
        before(&self.newlines, position)
    }

    /// The lines that a visible range touches.
    pub(super) fn lines_of(&self, range: &Range<usize>) -> Range<usize> {
        let last = range.end.saturating_sub(1).max(range.start);
        self.line_of(range.start)..self.line_of(last) + 1
    }

    /// The file with visible ranges, ascending and disjoint, replaced by a visible text.
    pub(super) fn replaced(&self, ranges: &[Range<usize>], new: &str) -> String {
        let mut replaced = String::with_capacity(self.raw.len() + ranges.len() * new.len());
        let mut done = 0;
        for range in ranges {
            replaced.push_str(&self.raw[done..self.raw_position(range.start)]);
            match self.ending_of(range) {
                Ending::Newline => replaced.push_str(new),
                Ending::ReturnNewline => replaced.push_str(&new.replace('\n', "\r\n")),
            }
            done = self.raw_position(range.end);
        }
        replaced.push_str(&self.raw[done..]);
        replaced
    }

    fn raw_position(&self, position: usize) -> usize {
        self.start + position + before(&self.returns, position)
    }

    /// How lines end where a range is; where it has no line end, as most lines of the file do.
    fn ending_of(&self, range: &Range<usize>) -> Ending {
        let within = |positions: &[usize]| before(positions, range.end) - before(positions, range.start);
        let (newlines, returns) = match (within(&self.newlines), within(&self.returns)) {
            (0, _) => (self.newlines.len(), self.returns.len()),
            counts => counts,
        };
        if 2 * returns > newlines { Ending::ReturnNewline } else { Ending::Newline }
    }
}

/// How many of the ascending positions are before one.
fn before(positions: &[usize], position: usize) -> usize {
    positions.partition_point(|at| *at < position)
}

/// A text with every line ending a newline.
pub(super) fn visible(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Where `needle` stands in `text`, from left to right without overlap.
pub(super) fn find_all(text: &str, needle: &str) -> Vec<Range<usize>> {
    text.match_indices(needle).map(|(at, found)| at..at + found.len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(raw: &str, old: &str, new: &str, expected: &str) {
        let source = Source::new(raw.to_owned());
        let ranges = find_all(source.visible(), old);
        assert_eq!(source.replaced(&ranges, new), expected, "{raw:?}");
    }

    #[test]
    fn everything_around_a_change_stays_byte_for_byte() {
        check("\u{FEFF}a\r\nb\r\nc", "b\n", "x\ny\n", "\u{FEFF}a\r\nx\r\ny\r\nc");
        check("a\r\nb\nc\r\n", "b", "x\ny", "a\r\nx\r\ny\nc\r\n");
        check("a\r\nb\nc\nd\n", "b\nc", "x\ny", "a\r\nx\ny\nd\n");
        check("a\nb\n", "a", "é", "é\nb\n");
        check("a\r\na\r\na", "a", "b", "b\r\nb\r\nb");
        check("x\ry\r\n", "x\ry", "z", "z\r\n");
    }

    proptest! {
        #[test]
        fn replacing_a_text_by_itself_changes_nothing(
            bom in any::<bool>(),
            lines in prop::collection::vec("[ab€]{0,3}", 1..8),
            crlf in any::<bool>(),
            start in 0usize..20,
            length in 1usize..9,
        ) {
            let raw = format!("{}{}", if bom { "\u{FEFF}" } else { "" }, lines.join(if crlf { "\r\n" } else { "\n" }));
            let source = Source::new(raw.clone());
            let part: String = source.visible().chars().skip(start).take(length).collect();
            prop_assume!(!part.is_empty());
            let ranges = find_all(source.visible(), &part);
            prop_assert_eq!(source.replaced(&ranges, &part), raw);
            let seen = visible(source.raw());
            prop_assert_eq!(seen.trim_start_matches(BOM), source.visible());
        }
    }
}
