//! A text while it is edited, as the model sees it: every line ending a newline. It remembers how
//! each line really ends and what was changed, so that all the rest comes back byte for byte.

use super::matching::{By, Found, in_style_of};
use memchr::{memchr, memchr_iter, memrchr};
use std::{borrow::Cow, ops::Range};

/// A text while it is edited.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    text: String,
    /// Each newline of `text`, by position, that is a return and a newline in the file.
    returns: Vec<usize>,
    changed: Vec<Changed>,
    /// A position and the line it is on, near the last change.
    mark: (usize, usize),
}

/// A part that differs from the text as it was; parts are ascending and do not touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) old: Range<usize>,
    pub(super) new: Range<usize>,
}

/// A text to put in a range.
struct Piece {
    range: Range<usize>,
    text: String,
    returns: Vec<usize>,
}

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Newline,
    ReturnNewline,
}

/// A text with every line ending a newline.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    without_returns(text).0
}

/// A text with every line ending a newline, and which newlines, by position, had a return.
fn without_returns(text: &str) -> (Cow<'_, str>, Vec<usize>) {
    let bytes = text.as_bytes();
    let mut pairs = memchr_iter(b'\r', bytes).filter(|at| bytes.get(at + 1) == Some(&b'\n')).peekable();
    if pairs.peek().is_none() {
        return (Cow::Borrowed(text), Vec::new());
    }
    let (mut visible, mut returns, mut done) = (String::with_capacity(text.len()), Vec::new(), 0);
    for pair in pairs {
        visible.push_str(&text[done..pair]);
        returns.push(visible.len());
        done = pair + 1;
    }
    visible.push_str(&text[done..]);
    (Cow::Owned(visible), returns)
}

/// The line, counted from 0, that a position is on.
pub(super) fn line_of(text: &str, position: usize) -> usize {
    memchr_iter(b'\n', &text.as_bytes()[..position]).count()
}

impl Draft {
    /// `raw` is the text as it is in the file.
    pub(super) fn new(raw: &str) -> Self {
        let (text, returns) = without_returns(raw);
        let text = match text {
            Cow::Owned(text) => text,
            Cow::Borrowed(raw) => {
                // Most edits make a text a little longer; room for that saves moving it all.
                let mut text = String::with_capacity(raw.len() + raw.len() / 16 + 1024);
                text.push_str(raw);
                text
            }
        };
        Self { text, returns, changed: Vec::new(), mark: (0, 0) }
    }

    /// As the model sees it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is in the file as the model sees it.
    pub(super) fn is_raw(&self) -> bool {
        self.returns.is_empty()
    }

    /// The line, counted from 0, that a position is on.
    pub(super) fn line_at(&self, position: usize) -> usize {
        let (known, line) = self.mark;
        let count = |range: Range<usize>| memchr_iter(b'\n', &self.text.as_bytes()[range]).count();
        if position >= known {
            line + count(known..position)
        } else if known - position < position {
            line - count(position..known)
        } else {
            count(0..position)
        }
    }

    /// What was changed so far.
    pub(super) fn changed(&self) -> &[Changed] {
        &self.changed
    }

    /// As it is to be in the file.
    pub(super) fn into_raw(self) -> String {
        if self.is_raw() {
            return self.text;
        }
        let mut raw = String::with_capacity(self.text.len() + self.returns.len());
        let mut done = 0;
        for newline in &self.returns {
            raw.push_str(&self.text[done..*newline]);
            raw.push('\r');
            done = *newline;
        }
        raw.push_str(&self.text[done..]);
        raw
    }

    /// Gives an empty text its content.
    pub(super) fn fill(&mut self, text: &str) {
        self.changed = vec![Changed { old: 0..0, new: 0..text.len() }];
        text.clone_into(&mut self.text);
    }

    /// Puts `new` wherever the old text was found. What both have in common keeps the line ends
    /// and quotes it has; what is new takes those around it.
    pub(super) fn replace(&mut self, found: &Found, new: &str) {
        let pieces: Vec<Piece> =
            found.ranges.iter().map(|range| self.piece(range.clone(), found.by, new)).collect();
        if let Some(first) = pieces.first() {
            self.mark = (first.range.start, self.line_at(first.range.start));
        }
        self.changed = compose(&self.changed, &pieces);
        if !self.returns.is_empty() {
            move_returns(&mut self.returns, &pieces);
        }
        if let [Piece { range, text, .. }] = pieces.as_slice() {
            self.text.replace_range(range.clone(), text);
            return;
        }
        let longer = pieces.iter().map(|piece| piece.text.len()).sum::<usize>();
        let mut text = String::with_capacity(self.text.len() + longer);
        let mut done = 0;
        for piece in &pieces {
            text.push_str(&self.text[done..piece.range.start]);
            text.push_str(&piece.text);
            done = piece.range.end;
        }
        text.push_str(&self.text[done..]);
        self.text = text;
    }

    fn piece(&self, range: Range<usize>, by: By, new: &str) -> Piece {
        let within = &self.returns[before(&self.returns, range.start)..before(&self.returns, range.end)];
        let newlines = memchr_iter(b'\n', &self.text.as_bytes()[range.clone()]).count();
        let is_uniform = within.is_empty() || within.len() == newlines;
        let ending = self.ending_around(&range);
        match by {
            By::Text if is_uniform => {
                let returns = match ending {
                    Ending::Newline => Vec::new(),
                    Ending::ReturnNewline => memchr_iter(b'\n', new.as_bytes()).collect(),
                };
                Piece { range, text: new.to_owned(), returns }
            }
            By::Text | By::Quotes => {
                let mut text = String::with_capacity(new.len());
                let mut returns = Vec::new();
                for (character, from) in in_style_of(&self.text[range.clone()], new, by) {
                    let is_return = match from {
                        Some(position) => within.binary_search(&(range.start + position)).is_ok(),
                        None => ending == Ending::ReturnNewline,
                    };
                    if character == '\n' && is_return {
                        returns.push(text.len());
                    }
                    text.push(character);
                }
                Piece { range, text, returns }
            }
        }
    }

    /// How new lines end where a range is: as most lines within it, or else as most of the line
    /// itself and those next to it.
    fn ending_around(&self, range: &Range<usize>) -> Ending {
        if self.returns.is_empty() {
            return Ending::Newline;
        }
        let bytes = self.text.as_bytes();
        let mut newlines: Vec<usize> =
            memchr_iter(b'\n', &bytes[range.clone()]).map(|at| range.start + at).collect();
        if newlines.is_empty() {
            let next = |from: usize| memchr(b'\n', &bytes[from..]).map(|at| from + at);
            let own = next(range.end);
            let above = memrchr(b'\n', &bytes[..range.start]);
            let below = own.and_then(|own| next(own + 1));
            newlines.extend(own.into_iter().chain(above).chain(below));
        }
        let is_return = |at: &usize| self.returns.binary_search(at).is_ok();
        let returns = newlines.iter().filter(|at| is_return(at)).count();
        let is_tie = 2 * returns == newlines.len();
        if 2 * returns > newlines.len() || is_tie && newlines.first().is_some_and(is_return) {
            Ending::ReturnNewline
        } else {
            Ending::Newline
        }
    }
}

/// How many of the ascending positions are before one.
fn before(positions: &[usize], position: usize) -> usize {
    positions.partition_point(|at| *at < position)
}

fn move_returns(returns: &mut Vec<usize>, pieces: &[Piece]) {
    if let [Piece { range, text, returns: own }] = pieces {
        let (from, until) = (before(returns, range.start), before(returns, range.end));
        let shift = text.len().cast_signed() - range.len().cast_signed();
        returns[until..].iter_mut().for_each(|at| *at = at.saturating_add_signed(shift));
        returns.splice(from..until, own.iter().map(|at| range.start + at));
        return;
    }
    let mut moved = Vec::with_capacity(returns.len());
    let (mut done, mut shift) = (0, 0_isize);
    for Piece { range, text, returns: own } in pieces {
        let until = before(returns, range.start);
        moved.extend(returns[done..until].iter().map(|at| at.saturating_add_signed(shift)));
        moved.extend(own.iter().map(|at| range.start.saturating_add_signed(shift) + at));
        done = before(returns, range.end);
        shift += text.len().cast_signed() - range.len().cast_signed();
    }
    moved.extend(returns[done..].iter().map(|at| at.saturating_add_signed(shift)));
    *returns = moved;
}

/// What differs after the pieces are put in, given what differed before.
fn compose(changed: &[Changed], pieces: &[Piece]) -> Vec<Changed> {
    let (mut changed, mut pieces) = (changed.iter().peekable(), pieces.iter().peekable());
    // How much longer the text became before the place looked at, by earlier changes and by pieces.
    let (mut earlier, mut now) = (0_isize, 0_isize);
    let mut composed = Vec::new();
    while let Some(start) = [changed.peek().map(|c| c.new.start), pieces.peek().map(|p| p.range.start)]
        .into_iter()
        .flatten()
        .min()
    {
        let (mut end, earlier_before, now_before) = (start, earlier, now);
        loop {
            if let Some(change) = changed.next_if(|change| change.new.start <= end) {
                end = end.max(change.new.end);
                earlier += change.new.len().cast_signed() - change.old.len().cast_signed();
            } else if let Some(piece) = pieces.next_if(|piece| piece.range.start <= end) {
                end = end.max(piece.range.end);
                now += piece.text.len().cast_signed() - piece.range.len().cast_signed();
            } else {
                break;
            }
        }
        composed.push(Changed {
            old: start.saturating_add_signed(-earlier_before)..end.saturating_add_signed(-earlier),
            new: start.saturating_add_signed(now_before)..end.saturating_add_signed(now),
        });
    }
    composed
}

#[cfg(test)]
mod tests {
    use super::{super::matching::find, *};
    use proptest::prelude::*;

    #[track_caller]
    fn check(raw: &str, old: &str, new: &str, expected: &str) {
        let mut draft = Draft::new(raw);
        let found = find(draft.text(), old);
        draft.replace(&found, new);
        assert_eq!(draft.into_raw(), expected, "{raw:?}");
    }

    #[test]
    fn everything_around_a_change_stays_byte_for_byte() {
        check("a\r\nb\r\nc", "b\n", "x\ny\n", "a\r\nx\r\ny\r\nc");
        check("a\nb\n", "a", "é", "é\nb\n");
        check("a\r\na\r\na", "a", "b", "b\r\nb\r\nb");
        check("x\ry\r\n", "x\ry", "z", "z\r\n");
        check("a  \n\t\nb", "a", "", "  \n\t\nb");
        check("a\r\n\r\nb\r\n", "\n", "", "ab");
        check("a\r\r\nb\n", "b", "c", "a\r\r\nc\n");
    }

    #[test]
    fn new_lines_end_as_those_around_them() {
        check("a\r\nb\nc\r\n", "b", "x\ny", "a\r\nx\r\ny\nc\r\n");
        check("a\r\nb\nc\nd\n", "b\nc", "x\ny", "a\r\nx\ny\nd\n");
        check("a\nb\nc\nd\r\ne\r\nf\r\n", "b", "b\nB", "a\nb\nB\nc\nd\r\ne\r\nf\r\n");
        check("a\nb\nc\nd\r\ne\r\nf\r\n", "f", "f\nF", "a\nb\nc\nd\r\ne\r\nf\r\nF\r\n");
    }

    #[test]
    fn what_stays_in_a_mixed_part_keeps_its_line_ends() {
        check("a\r\nb\nc\r\nd\n", "a\nb\nc\nd\n", "a\nB\nc\nd\n", "a\r\nB\nc\r\nd\n");
        check("a\r\nb\nc\r\n", "a\nb\nc\n", "a\nc\n", "a\r\nc\r\n");
    }

    /// Applies random replacements and rebuilds the old text from what is said to have changed.
    fn undo(old: &str, draft: &Draft) -> String {
        let (mut rebuilt, mut done) = (String::new(), 0);
        for Changed { old: before, new } in draft.changed() {
            rebuilt.push_str(&draft.text()[done..new.start]);
            rebuilt.push_str(&old[before.clone()]);
            done = new.end;
        }
        rebuilt.push_str(&draft.text()[done..]);
        rebuilt
    }

    proptest! {
        #[test]
        fn a_draft_knows_what_it_changed(
            raw in "[ab\r\n]{0,40}",
            steps in prop::collection::vec(("[ab\n]{1,3}", "[abc\n]{0,4}"), 0..6),
        ) {
            let mut draft = Draft::new(&raw);
            let start = draft.text().to_owned();
            prop_assert_eq!(draft.clone().into_raw(), raw);
            for (old, new) in steps {
                let expected = draft.text().replace(&old, &new);
                let found = find(draft.text(), &old);
                draft.replace(&found, &new);
                prop_assert_eq!(draft.text(), expected);
                prop_assert_eq!(undo(&start, &draft), start.as_str());
                let middle = draft.text().len() / 2;
                prop_assert_eq!(draft.line_at(middle), line_of(draft.text(), middle));
                prop_assert!(draft.changed().windows(2).all(|pair| pair[0].new.end < pair[1].new.start));
            }
        }

        #[test]
        fn replacing_a_text_by_itself_changes_nothing(
            raw in "[ab€\"“”]{0,3}(\r?\n[ab€'’]{0,3}){0,6}",
            start in 0usize..20,
            length in 1usize..9,
        ) {
            let mut draft = Draft::new(&raw);
            let part: String = draft.text().chars().skip(start).take(length).collect();
            prop_assume!(!part.is_empty());
            let found = find(draft.text(), &part);
            draft.replace(&found, &part);
            prop_assert_eq!(draft.into_raw(), raw);
        }
    }
}
