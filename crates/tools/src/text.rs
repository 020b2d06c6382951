//! Text made fit for a model: nothing hidden in it, and cut where it is too long, always between
//! characters and always saying so.

mod clean;

pub(crate) use clean::{Cleaner, is_continuation, whole_characters};

use ostler_proto::content;
use std::{borrow::Cow, fmt::Write as _};

/// What a program wrote, for a model: without terminal sequences and controls, with nothing hidden in it, and
/// with no word in it that only Ostler may write.
pub(crate) fn clean(text: &str) -> String {
    content::clean(text, content::Sink::ModelContext).text.into_owned()
}

/// Lines of files, for a model that will edit them: word for word, save what nobody can see.
pub(crate) fn of_file(text: String) -> String {
    match content::clean_file(&text).text {
        Cow::Borrowed(_) => text,
        Cow::Owned(changed) => changed,
    }
}

/// A path on one line.
pub(crate) fn name(text: &str) -> String {
    content::deliver(text, content::Source::FileName, content::Sink::ModelContext, "").text.into_owned()
}

/// Cuts a text to its first `limit` characters; `None` when it is not longer.
pub(crate) fn first(text: &str, limit: usize) -> Option<&str> {
    // No character is shorter than a byte.
    if text.len() <= limit {
        return None;
    }
    text.char_indices().nth(limit).map(|(end, _)| &text[..end])
}

/// The last `limit` characters of a text.
fn last(text: &str, limit: usize) -> &str {
    let Some(back) = limit.checked_sub(1) else { return "" };
    text.char_indices().rev().nth(back).map_or(text, |(start, _)| &text[start..])
}

/// Cuts a text that is longer than `limit` characters to its two ends. The mark between them says
/// how much is missing, and then what the note says about it.
pub fn cut(text: &str, limit: usize, note: &str) -> String {
    join_noting(text, "", 0, limit, note)
}

/// Joins two ends of an output into at most `limit` characters, with an honest mark where
/// something is missing. `dropped` bytes were lost between them before.
pub(crate) fn join_ends(head: &str, tail: &str, dropped: u64, limit: usize) -> String {
    join_noting(head, tail, dropped, limit, "")
}

/// As [`join_ends`], with a note in the mark.
pub(crate) fn join_noting(head: &str, tail: &str, dropped: u64, limit: usize, note: &str) -> String {
    if dropped == 0 && tail.is_empty() && first(head, limit).is_none() {
        return head.to_owned();
    }
    let each = limit.saturating_sub(MARK_ROOM + note.chars().count()) / 2;
    let (start, end) = if dropped == 0 && tail.is_empty() {
        (first(head, each).unwrap_or(head), last(head, each))
    } else {
        (first(head, each).unwrap_or(head), last(tail, each))
    };
    let cut = (head.chars().count() + tail.chars().count()) - start.chars().count() - end.chars().count();
    let mut joined = start.to_owned();
    // Bytes lost earlier were never counted as characters.
    let (about, missing) = if dropped == 0 { ("", cut as u64) } else { ("about ", cut as u64 + dropped) };
    // Writing to a string cannot fail.
    let _ = write!(joined, "\n\n[… {about}{missing} characters of output left out here{note} …]\n\n");
    joined.push_str(end);
    joined
}

/// Room for the mark that says what is missing, without its note.
const MARK_ROOM: usize = 90;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check_clean(dirty: &str, expected: &str) {
        assert_eq!(clean(dirty), expected, "{dirty:?}");
    }

    #[test]
    fn escapes_and_controls_go_and_words_stay() {
        check_clean("\u{1b}[1;31mred\u{1b}[0m\tplain\n", "red\tplain\n");
        check_clean("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "alink");
        check_clean("\u{1b}]0;never ends\nsecret", "0;never ends\nsecret");
        check_clean("\u{1b}(Bx\u{1b}7y\u{1b}=z", "xyz");
        check_clean("a\r\nb\r\r\nc\rd\r", "a\nb\nc\nd");
        check_clean("a\u{8}\u{0}\u{9b}31mb\u{7f}", "ab");
        check_clean("\u{1b}", "");
        check_clean("é\u{1b}[é", "éé");
    }

    proptest! {
        #[test]
        fn joined_ends_keep_the_limit_and_the_ends(text in "[a-z£€🦀]{0,900}", limit in 120usize..400) {
            let joined = join_ends(&text, "", 0, limit);
            prop_assert!(joined.chars().count() <= limit);
            let characters = text.chars().count();
            if characters <= limit {
                prop_assert_eq!(&joined, &text);
            } else {
                let each = (limit - MARK_ROOM) / 2;
                let expected = format!("{} characters", characters - 2 * each);
                prop_assert!(joined.contains(&expected));
                prop_assert!(text.starts_with(first(&text, each).unwrap()) && text.ends_with(last(&joined, each)));
            }
        }

        #[test]
        fn two_ends_keep_the_limit(head in "[a🦀]{0,300}", tail in "[b€]{0,300}", limit in 120usize..400) {
            let joined = join_ends(&head, &tail, 7, limit);
            prop_assert!(joined.chars().count() <= limit);
            prop_assert!(joined.contains("about"));
        }
    }
}
