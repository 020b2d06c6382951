//! A text while it is edited, as the model sees it: every line ending a newline. It remembers how
//! each line really ends and what was changed, so that all the rest comes back byte for byte.

use super::{
    index::all_places,
    matching::{By, Found, find, in_style_of},
};
use crate::host::{Edited, Spot};
use memchr::{memchr, memchr_iter, memrchr};
use std::{borrow::Cow, ops::Range};

/// A text while it is edited.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// As the model sees it, or as it is in the file where all its lines end alike: see [`Ends`].
    text: String,
    ends: Ends,
    changed: Vec<Changed>,
    /// The number of the first line: not 0 where only a part of a text is edited.
    first_line: usize,
    /// A position and the line it is on, near the last change.
    mark: (usize, usize),
}

/// How the lines of a draft end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ends {
    /// With a newline.
    Newlines,
    /// With a return and a newline, which both are in the draft.
    Returns,
    /// Some with a return, which is not in the draft: each such newline by its position.
    Mixed(Vec<usize>),
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

/// Whether some return has no newline behind it.
fn has_lone_return(text: &str) -> bool {
    memchr_iter(b'\r', text.as_bytes()).any(|at| text.as_bytes().get(at + 1) != Some(&b'\n'))
}

/// Whether there are newlines, each with a return before it.
fn ends_with_returns(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut newlines = memchr_iter(b'\n', bytes).peekable();
    newlines.peek().is_some() && newlines.all(|at| at > 0 && bytes[at - 1] == b'\r')
}

/// The line, counted from 0, that a position is on.
pub(super) fn line_of(text: &str, position: usize) -> usize {
    memchr_iter(b'\n', &text.as_bytes()[..position]).count()
}

impl Ends {
    /// How all lines of a text end, if they end alike and `wanted`, which is all that will be looked for
    /// or put in, has no other returns.
    pub(super) fn alike<'a>(raw: &str, mut wanted: impl Iterator<Item = &'a str>) -> Option<Self> {
        if memchr(b'\r', raw.as_bytes()).is_none() {
            return Some(Self::Newlines);
        }
        (ends_with_returns(raw) && !wanted.any(has_lone_return)).then_some(Self::Returns)
    }

    /// A text of the model's as it stands among such lines.
    pub(super) fn spelled<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let visible = visible(text);
        if *self == Self::Returns && visible.contains('\n') {
            return Cow::Owned(visible.replace('\n', "\r\n"));
        }
        visible
    }
}

impl Draft {
    /// `raw` is the text as it is in the file; `wanted` is all that will be looked for or put in.
    pub(super) fn new<'a>(raw: &str, wanted: impl Iterator<Item = &'a str>) -> Self {
        let (text, ends) = if let Some(ends) = Ends::alike(raw, wanted) {
            (with_room(raw), ends)
        } else {
            let (text, returns) = without_returns(raw);
            (text.into_owned(), Ends::Mixed(returns))
        };
        Self { text, ends, changed: Vec::new(), first_line: 0, mark: (0, 0) }
    }

    /// A draft of some whole lines of a text.
    pub(super) fn of_lines<'a>(
        raw: &str,
        lines: Range<usize>,
        wanted: impl Iterator<Item = &'a str>,
    ) -> Self {
        let first_line = line_of(raw, lines.start);
        Self { first_line, mark: (0, first_line), ..Self::new(&raw[lines], wanted) }
    }

    /// The number of its first line, counted from 0.
    pub(super) fn first_line(&self) -> usize {
        self.first_line
    }

    /// The text that is searched and changed.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// A text of the model's as it would stand in [`Draft::text`].
    pub(super) fn spelled<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.ends.spelled(text)
    }

    /// What [`Draft::text`] would be of another content of the same file.
    pub(super) fn text_of<'a>(&self, raw: &'a str) -> Cow<'a, str> {
        match self.ends {
            Ends::Newlines | Ends::Returns => Cow::Borrowed(raw),
            Ends::Mixed(_) => visible(raw),
        }
    }

    /// A line of [`Draft::text`] as the model sees it.
    pub(super) fn visible_line<'a>(&self, line: &'a str) -> &'a str {
        match self.ends {
            Ends::Returns => line.strip_suffix('\r').unwrap_or(line),
            Ends::Newlines | Ends::Mixed(_) => line,
        }
    }

    /// Where a text stands, as [`find`] would say it. `places` are all places where it stood before
    /// anything was changed.
    pub(super) fn find(&self, old: &str, places: &[usize]) -> Found {
        let length = old.len();
        let mut starts = self.unchanged(places, length);
        for window in self.windows(length) {
            let found = all_places(&self.text[window.clone()], old).into_iter().map(|at| window.start + at);
            starts.extend(found.filter(|start| self.is_new(*start..start + length)));
        }
        if starts.is_empty() {
            // It may still stand there with other quotes.
            return find(&self.text, old);
        }
        starts.sort_unstable();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for start in starts {
            if ranges.last().is_none_or(|last| last.end <= start) {
                ranges.push(start..start + length);
            }
        }
        Found { ranges, by: By::Text }
    }

    /// Where those of some places that are as they were are now.
    fn unchanged(&self, places: &[usize], length: usize) -> Vec<usize> {
        let (mut next, mut shift) = (0, 0_isize);
        let mut starts = Vec::with_capacity(places.len());
        for start in places {
            while let Some(change) = self.changed.get(next).filter(|change| change.old.end <= *start) {
                shift += change.new.len().cast_signed() - change.old.len().cast_signed();
                next += 1;
            }
            if self.changed.get(next).is_none_or(|change| start + length <= change.old.start) {
                starts.push(start.saturating_add_signed(shift));
            }
        }
        starts
    }

    /// The parts of the text where something of a length may touch what was changed.
    fn windows(&self, length: usize) -> Vec<Range<usize>> {
        let mut windows: Vec<Range<usize>> = Vec::new();
        for Changed { new, .. } in &self.changed {
            let start = self.text.floor_char_boundary(new.start.saturating_sub(length));
            let end = self.text.ceil_char_boundary(new.end.saturating_add(length));
            match windows.last_mut().filter(|last| start <= last.end) {
                Some(last) => last.end = end,
                None => windows.push(start..end),
            }
        }
        windows
    }

    /// Whether a range holds something that was changed, or lies across a place where something
    /// was taken out.
    fn is_new(&self, range: Range<usize>) -> bool {
        self.changed.iter().any(|Changed { new, .. }| range.start < new.end && new.start < range.end)
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
            self.first_line + count(0..position)
        }
    }

    /// What was changed so far.
    pub(super) fn changed(&self) -> &[Changed] {
        &self.changed
    }

    /// As it is to be in the file.
    pub(super) fn into_raw(self) -> String {
        let Ends::Mixed(returns) = self.ends else { return self.text };
        let mut raw = String::with_capacity(self.text.len() + returns.len());
        let mut done = 0;
        for newline in &returns {
            raw.push_str(&self.text[done..*newline]);
            raw.push('\r');
            done = *newline;
        }
        raw.push_str(&self.text[done..]);
        raw
    }

    /// Puts `new`, spelled as here, wherever the old text was found. What both have in common keeps
    /// the line ends and quotes it has; what is new takes those around it. Says what gave way to what.
    pub(super) fn replace(&mut self, found: &Found, new: &str) -> Vec<Edited> {
        let pieces: Vec<Piece> =
            found.ranges.iter().map(|range| self.piece(range.clone(), found.by, new)).collect();
        let edits = self.edits(&pieces);
        if let (Some(first), Some(edit)) = (pieces.first(), edits.first()) {
            self.mark = (first.range.start, edit.line);
        }
        self.changed = compose(&self.changed, &pieces);
        if let Ends::Mixed(returns) = &mut self.ends {
            move_returns(returns, &pieces);
        }
        if let [Piece { range, text, .. }] = pieces.as_slice() {
            self.text.replace_range(range.clone(), text);
            return edits;
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
        edits
    }

    /// What the pieces do to the lines, each counted in the text as it is before any of them.
    fn edits(&self, pieces: &[Piece]) -> Vec<Edited> {
        let bytes = self.text.as_bytes();
        let newlines = |range: Range<usize>| memchr_iter(b'\n', &bytes[range]).count();
        let mut position = pieces.first().map_or(0, |first| first.range.start);
        let mut line = self.line_at(position);
        let mut edits = Vec::with_capacity(pieces.len());
        for Piece { range, text, .. } in pieces {
            line += newlines(position..range.start);
            position = range.start;
            let old_end =
                Spot { line: line + newlines(range.clone()), column: column(&self.text, range.end) };
            let added = memchr_iter(b'\n', text.as_bytes()).count();
            let before = if added == 0 { column(&self.text, range.start) } else { 0 };
            let new_end = Spot { line: line + added, column: before + column(text, text.len()) };
            edits.push(Edited { line, old_end, new_end });
        }
        edits
    }

    fn piece(&self, range: Range<usize>, by: By, new: &str) -> Piece {
        let returns: &[usize] = match &self.ends {
            Ends::Newlines | Ends::Returns => &[],
            Ends::Mixed(returns) => returns,
        };
        let within = &returns[before(returns, range.start)..before(returns, range.end)];
        let newlines = memchr_iter(b'\n', &self.text.as_bytes()[range.clone()]).count();
        let is_uniform = within.is_empty() || within.len() == newlines;
        let ending = ending_around(&self.text, returns, &range);
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
}

/// How new lines end where a range is, given which newlines have returns: as most lines within it, or
/// else as most of the line itself and those next to it.
fn ending_around(text: &str, returns: &[usize], range: &Range<usize>) -> Ending {
    if returns.is_empty() {
        return Ending::Newline;
    }
    let bytes = text.as_bytes();
    let mut newlines: Vec<usize> =
        memchr_iter(b'\n', &bytes[range.clone()]).map(|at| range.start + at).collect();
    if newlines.is_empty() {
        let next = |from: usize| memchr(b'\n', &bytes[from..]).map(|at| from + at);
        let own = next(range.end);
        let above = memrchr(b'\n', &bytes[..range.start]);
        let below = own.and_then(|own| next(own + 1));
        newlines.extend(own.into_iter().chain(above).chain(below));
    }
    let is_return = |at: &usize| returns.binary_search(at).is_ok();
    let with_return = newlines.iter().filter(|at| is_return(at)).count();
    let is_tie = 2 * with_return == newlines.len();
    if 2 * with_return > newlines.len() || is_tie && newlines.first().is_some_and(is_return) {
        Ending::ReturnNewline
    } else {
        Ending::Newline
    }
}

/// A copy with room for more: most edits make a text a little longer, and that saves moving it all.
fn with_room(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len() + raw.len() / 16 + 1024);
    text.push_str(raw);
    text
}

/// How far a position is from the start of its line.
pub(super) fn column(text: &str, position: usize) -> usize {
    position - memrchr(b'\n', &text.as_bytes()[..position]).map_or(0, |newline| newline + 1)
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
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(raw: &str, old: &str, new: &str, expected: &str) {
        let mut draft = Draft::new(raw, [old, new].into_iter());
        let (old, new) = (draft.spelled(old), draft.spelled(new));
        let found = find(draft.text(), &old);
        draft.replace(&found, &new);
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
            steps in prop::collection::vec(("[ab\n]{1,3}|[ab\r\n]{1,3}", "[abc\n]{0,4}"), 0..6),
        ) {
            let wanted = steps.iter().flat_map(|(old, new)| [old.as_str(), new.as_str()]);
            let mut draft = Draft::new(&raw, wanted);
            let start = draft.text().to_owned();
            prop_assert_eq!(draft.clone().into_raw(), raw);
            for (old, new) in &steps {
                let (old, new) = (draft.spelled(old), draft.spelled(new));
                let expected = draft.text().replace(&*old, &new);
                let found = draft.find(&old, &all_places(&start, &old));
                prop_assert_eq!(&found.ranges, &find(draft.text(), &old).ranges);
                let lines = visible(draft.text()).matches('\n').count();
                let edits = draft.replace(&found, &new);
                let longer = edits.iter().map(|edit| edit.new_end.line.cast_signed() - edit.old_end.line.cast_signed());
                prop_assert_eq!(lines.saturating_add_signed(longer.sum()), draft.text().matches('\n').count());
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
            let mut draft = Draft::new(&raw, std::iter::empty());
            let part: String = visible(&raw).chars().skip(start).take(length).collect();
            if part.is_empty() {
                return Ok(());
            }
            let part = draft.spelled(&part);
            let found = find(draft.text(), &part);
            draft.replace(&found, &part);
            prop_assert_eq!(draft.into_raw(), raw);
        }
    }
}
