//! Untrusted text on its way to a terminal. What a model, a file or a command wrote may never move the
//! cursor, recolour the screen or hide what stands there. What that takes is `content`'s knowledge.

use ostler_proto::content::{Sink, clean};

/// The whole text without terminal sequences, and with everything hidden spelled out.
pub(crate) fn strip(text: &str) -> String {
    clean(text, Sink::PlainTerminal).text.into_owned()
}

/// A line of a difference, with all that could make it look like another.
pub(crate) fn diff_line(line: &str) -> String {
    clean(line, Sink::DiffView).text.into_owned()
}

/// The text with everything spelled out that somebody who decides by it could miss.
pub fn escape(text: &str) -> String {
    clean(text, Sink::PermissionPrompt).text.into_owned()
}

/// The text on one line, stripped, at most `limit` characters long.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let words = strip(text);
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    shorten(&line, limit)
}

/// At most `limit` characters of a line, with a mark where it was cut.
pub(crate) fn shorten(line: &str, limit: usize) -> String {
    match line.char_indices().nth(limit) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_sequences_are_removed() {
        assert_eq!(strip("\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}a\u{202e}b"), "red a\\u{202e}b");
        assert_eq!(diff_line("+a\u{1b}[8m\r"), "+a\\u{1b}[8m\\u{d}");
        assert_eq!(one_line("a\n \u{1b}[2Jb  c", 3), "a b…");
    }

    #[test]
    fn questions_spell_out_what_cannot_be_seen() {
        assert_eq!(
            escape("a\u{1b}[8mb\u{200b}c\u{a0}d\te\nf\r"),
            "a\\u{1b}[8mb\\u{200b}c\\u{a0}d\te\nf\\u{d}"
        );
        assert_eq!(escape(&format!("ls{}; rm -rf ~", " ".repeat(300))), "ls[300 spaces]; rm -rf ~");
    }
}
