//! Finds the text an edit speaks of: exactly, or else with curly and straight quotes taken for
//! the same. It guesses nothing beyond that.

use memchr::memmem;
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};
use std::{
    ops::Range,
    time::{Duration, Instant},
};

/// After this long a coarser, still correct comparison is good enough.
const PATIENCE: Duration = Duration::from_millis(200);

/// Where a text was found.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// From left to right, without overlap.
    pub(super) ranges: Vec<Range<usize>>,
    pub(super) by: By,
}

/// How a text was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// Character for character.
    Text,
    /// With all quotes straightened on both sides.
    Quotes,
}

/// Where `old` stands in `text`.
pub(super) fn find(text: &str, old: &str) -> Found {
    let finder = memmem::Finder::new(old);
    let exact: Vec<Range<usize>> = finder.find_iter(text.as_bytes()).map(|at| at..at + old.len()).collect();
    if !exact.is_empty() || !old.contains(is_quote) {
        return Found { ranges: exact, by: By::Text };
    }
    let (plain, curly) = straightened(text);
    let (wanted, _) = straightened(old);
    // Each curly quote before a place takes three bytes, a straight one takes one.
    let original = |at: usize| at + 2 * curly.partition_point(|quote| *quote < at);
    let ranges = memmem::find_iter(plain.as_bytes(), &wanted)
        .map(|at| original(at)..original(at + wanted.len()))
        .collect();
    Found { ranges, by: By::Quotes }
}

/// Whether the text found at `range` also stands at a place that overlaps with it.
pub(super) fn overlaps_itself(text: &str, range: &Range<usize>) -> bool {
    let found = &text[range.clone()];
    let step = found.chars().next().map_or(1, char::len_utf8);
    let until = (range.end + found.len() - 1).min(text.len());
    memmem::find(&text.as_bytes()[range.start + step..until], found.as_bytes()).is_some()
}

/// The characters of `new` for a place where `found` stands, each with the position in `found` of
/// the character it stays, if it does. What stays is as the file has it; what is added has quotes
/// of the kind found there.
pub(super) fn in_style_of(found: &str, new: &str, by: By) -> Vec<(char, Option<usize>)> {
    let old: Vec<(usize, char)> = found.char_indices().collect();
    let added: Vec<char> = new.chars().collect();
    let key = |c: char| match by {
        By::Text => c,
        By::Quotes => straight(c),
    };
    let old_keys: Vec<char> = old.iter().map(|(_, c)| key(*c)).collect();
    let new_keys: Vec<char> = added.iter().map(|c| key(*c)).collect();
    let deadline = Instant::now().checked_add(PATIENCE);
    let mut styled = Vec::with_capacity(added.len());
    for op in capture_diff_slices_deadline(Algorithm::Myers, &old_keys, &new_keys, deadline) {
        match op {
            DiffOp::Equal { old_index, len, .. } => {
                styled.extend(old[old_index..old_index + len].iter().map(|(at, c)| (*c, Some(*at))));
            }
            DiffOp::Delete { .. } => {}
            DiffOp::Insert { new_index, new_len, .. } | DiffOp::Replace { new_index, new_len, .. } => {
                for (index, character) in added.iter().enumerate().skip(new_index).take(new_len) {
                    let character = match by {
                        By::Text => *character,
                        By::Quotes => styled_quote(*character, index.checked_sub(1).map(|i| added[i]), found),
                    };
                    styled.push((character, None));
                }
            }
        }
    }
    styled
}

/// A quote of the kind that `found` has, if it has only one kind.
fn styled_quote(quote: char, previous: Option<char>, found: &str) -> char {
    let plain = straight(quote);
    let mut same = found.chars().filter(|c| straight(*c) == plain).peekable();
    if !is_quote(quote) || same.peek().is_none() {
        return quote;
    }
    let (mut has_straight, mut has_curly) = (false, false);
    for found in same {
        if found == plain { has_straight = true } else { has_curly = true }
    }
    let opens = previous.is_none_or(|c| c.is_whitespace() || "([{<-–—=/".contains(c) || is_quote(c));
    match (has_straight, has_curly, plain, opens) {
        (true, false, _, _) => plain,
        // A quote that is curly already knows its side.
        (false, true, _, _) if quote != plain => quote,
        (false, true, '"', true) => '“',
        (false, true, '"', false) => '”',
        (false, true, _, true) => '‘',
        (false, true, _, false) => '’',
        (_, _, _, _) => quote,
    }
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'') || is_curly(c)
}

fn is_curly(c: char) -> bool {
    matches!(c, '\u{2018}'..='\u{201F}')
}

fn straight(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201B}' => '\'',
        '\u{201C}'..='\u{201F}' => '"',
        other => other,
    }
}

/// A text with straight quotes, and where, in that text, the curly ones were.
fn straightened(text: &str) -> (String, Vec<usize>) {
    let (mut plain, mut curly) = (String::with_capacity(text.len()), Vec::new());
    let mut done = 0;
    for (at, quote) in text.match_indices(is_curly) {
        plain.push_str(&text[done..at]);
        curly.push(plain.len());
        plain.extend(quote.chars().map(straight));
        done = at + quote.len();
    }
    plain.push_str(&text[done..]);
    (plain, curly)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, old: &str, new: &str, expected: &str) {
        let found = find(text, old);
        let mut edited = text.to_owned();
        for range in found.ranges.iter().rev() {
            let styled: String =
                in_style_of(&text[range.clone()], new, found.by).into_iter().map(|(c, _)| c).collect();
            edited.replace_range(range.clone(), &styled);
        }
        assert_eq!(edited, expected, "{text:?} {old:?}");
    }

    #[test]
    fn quotes_are_alike_only_when_nothing_matches_exactly() {
        assert_eq!(find("a “b” \"b\"", "\"b\"").ranges.first(), Some(&(10..13)));
        assert_eq!(find("a “b” “b”", "\"b\"").ranges, [2..9, 10..17]);
        assert_eq!(find("“b”", "b").by, By::Text);
        assert!(find("“b”", "`b`").ranges.is_empty());
        for (text, old, end) in [("it’s", "it's", 6), ("it's", "it’s", 4)] {
            let found = find(text, old);
            assert_eq!((found.ranges.first(), found.by), (Some(&(0..end)), By::Quotes));
        }
    }

    #[test]
    fn a_replacement_keeps_the_quotes_of_the_file() {
        check("say “hi” now", "say \"hi\"", "say \"hi there\"", "say “hi there” now");
        check("say “hi” now", "\"hi\"", "\"a\" or (\"b\")", "say “a” or (“b”) now");
        check("it’s mine", "it's mine", "it's not John's", "it’s not John’s");
        check("say \"hi\"", "“hi”", "“hi” “you”", "say \"hi\" \"you\"");
        check("‘x’ “y”", "'x' \"y\"", "'x', 'z' \"y\"", "‘x’, ‘z’ “y”");
        check("“a” and \"b\"", "\"a\" and \"b\"", "\"a\", \"b\"", "“a”, \"b\"");
        check("it’s", "it's", "it's \"so\"", "it’s \"so\"");
    }

    #[test]
    fn a_text_may_stand_across_itself() {
        assert!(overlaps_itself("aXaXa", &(0..3)));
        assert!(!overlaps_itself("aXaaX", &(0..3)));
        assert!(overlaps_itself("ééé", &(0..4)));
        assert!(!overlaps_itself("ab", &(0..2)));
    }

    proptest! {
        #[test]
        fn a_place_found_by_quotes_reads_the_same(text in "[a\"'“”‘’ ]{0,30}", old in "[a\"'“”‘’ ]{1,4}") {
            let found = find(&text, &old);
            for range in found.ranges {
                prop_assert_eq!(straightened(&text[range]).0, straightened(&old).0);
            }
            prop_assert_eq!(
                find(&text, &old).ranges.is_empty(),
                !straightened(&text).0.contains(&straightened(&old).0)
            );
        }
    }
}
