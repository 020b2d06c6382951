//! Text made fit for a model: without control characters, and cut where it is too long, always
//! between characters and always saying so.

use std::fmt::Write as _;

/// Takes out terminal escapes and control characters, all but newline and tab. Returns are newlines.
pub(crate) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_control() && c != '\n' && c != '\t') {
        clean.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix('\u{1b}') {
            rest = after_escape(after);
        } else if let Some(after) = rest.strip_prefix('\r') {
            // A lone return overwrites the line on a terminal; here each state stays readable.
            clean.push_str(if after.starts_with(['\n', '\r']) || after.is_empty() { "" } else { "\n" });
            rest = after;
        } else {
            let mut characters = rest.chars();
            characters.next();
            rest = characters.as_str();
        }
    }
    clean.push_str(rest);
    clean
}

/// What follows an escape sequence whose ESC was already taken (ECMA-48).
fn after_escape(text: &str) -> &str {
    let mut characters = text.chars();
    match characters.next() {
        // Control sequence: parameters and intermediates, then one final character.
        Some('[') => {
            let body = characters.as_str();
            let rest = body.trim_start_matches(|c| matches!(c, '\u{20}'..='\u{3f}'));
            rest.strip_prefix(|c| matches!(c, '\u{40}'..='\u{7e}')).unwrap_or(rest)
        }
        // Strings, such as titles and links, up to BEL or ESC \. One that never ends takes only its
        // opening, so that no text can hide what follows it.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            let body = characters.as_str();
            let line = &body[..body.find('\n').unwrap_or(body.len())];
            match line.find(['\u{7}', '\u{1b}']) {
                Some(end) if body[end..].starts_with('\u{7}') => &body[end + 1..],
                Some(end) => body[end..].strip_prefix("\u{1b}\\").unwrap_or(&body[end..]),
                None => body,
            }
        }
        // Two or more characters, such as a choice of character set.
        Some('\u{20}'..='\u{7e}') => {
            let rest = text.trim_start_matches(|c| matches!(c, '\u{20}'..='\u{2f}'));
            rest.strip_prefix(|c| matches!(c, '\u{30}'..='\u{7e}')).unwrap_or(rest)
        }
        Some(_) | None => text,
    }
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

fn join_noting(head: &str, tail: &str, dropped: u64, limit: usize, note: &str) -> String {
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
        check_clean("a\u{8}\u{0}\u{9b}31mb\u{7f}", "a31mb");
        check_clean("\u{1b}", "");
        check_clean("é\u{1b}[é", "éé");
    }

    proptest! {
        #[test]
        fn nothing_cleaned_holds_a_control_character(text in "(\\PC|\u{1b}|\\[|\\]|\r|\n|\u{7}){0,60}") {
            prop_assert!(!clean(&text).contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
        }

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
