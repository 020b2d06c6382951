//! Untrusted text on its way to a terminal. What a model, a file or a command wrote may never move the
//! cursor, recolour the screen or hide what stands there.

/// Removes terminal sequences from text that comes in pieces, cut anywhere.
#[derive(Debug, Default)]
pub(crate) struct Stripper {
    state: State,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// Inside `ESC [ …`.
    Csi,
    /// Inside a sequence that ends with BEL or `ESC \`, such as a window title.
    Message,
    /// After ESC inside such a sequence.
    MessageEscape,
}

/// The whole text without terminal sequences.
pub(crate) fn strip(text: &str) -> String {
    Stripper::default().push(text)
}

/// The text with everything invisible or deceptive spelled out; only newlines and tabs stay as they are.
pub(crate) fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' | ' ' => shown.push(character),
            _ if character.is_control()
                || character.is_whitespace()
                || is_deceptive(character)
                || is_invisible(character) =>
            {
                shown.extend(character.escape_unicode());
            }
            _ => shown.push(character),
        }
    }
    shown
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

impl Stripper {
    /// What of this piece may be shown.
    pub(crate) fn push(&mut self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        for character in text.chars() {
            self.step(character, &mut shown);
        }
        shown
    }

    fn step(&mut self, character: char, shown: &mut String) {
        self.state = match self.state {
            // No sequence reaches over a line end, so an unfinished one cannot swallow what follows.
            _ if character == '\n' => show(character, shown),
            State::Text => match character {
                '\u{1b}' => State::Escape,
                '\u{9b}' => State::Csi,
                '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => State::Message,
                _ => show(character, shown),
            },
            State::MessageEscape if character == '\\' => State::Text,
            State::Escape | State::MessageEscape => match character {
                '[' => State::Csi,
                ']' | 'P' | 'X' | '^' | '_' => State::Message,
                '\u{1b}' | ' '..='/' => State::Escape,
                '0'..='~' => State::Text,
                _ => show(character, shown),
            },
            State::Csi => match character {
                '\u{1b}' => State::Escape,
                ' '..='?' => State::Csi,
                '@'..='~' => State::Text,
                _ => show(character, shown),
            },
            State::Message => match character {
                '\u{7}' | '\u{9c}' => State::Text,
                '\u{1b}' => State::MessageEscape,
                _ => State::Message,
            },
        };
    }
}

fn show(character: char, shown: &mut String) -> State {
    if is_deceptive(character) {
        shown.extend(character.escape_unicode());
    } else if matches!(character, '\n' | '\t') || !character.is_control() {
        shown.push(character);
    }
    State::Text
}

/// Characters that reorder their neighbours or carry text nobody sees.
fn is_deceptive(character: char) -> bool {
    matches!(character,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' // bidirectional overrides and isolates
        | '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}') // tags and variation selectors
}

/// Characters with no width that honest scripts use too; spelled out only where a person must decide.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2065}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(strip(text), expect);
    }

    #[test]
    fn terminal_sequences_are_removed() {
        check("plain\tüñï 漢字 👩‍👩‍👧", "plain\tüñï 漢字 👩‍👩‍👧");
        check("\u{1b}[31mred\u{1b}[0m", "red");
        check("\u{1b}]0;title\u{7}after", "after");
        check("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link");
        check("a\u{9b}2Jb\u{8}\r\u{7f}", "ab");
        check("\u{1b}(Bx\u{1b}c", "x");
        check("\u{1b}]0;never ended\nnext line", "\nnext line");
        check("a\u{202e}b", "a\\u{202e}b");
    }

    #[test]
    fn questions_spell_out_what_cannot_be_seen() {
        assert_eq!(
            escape("a\u{1b}[8mb\u{200b}c\u{a0}d\te\nf\r"),
            "a\\u{1b}[8mb\\u{200b}c\\u{a0}d\te\nf\\u{d}"
        );
    }

    proptest! {
        #[test]
        fn stripped_text_has_no_controls_however_it_is_cut(text in "[\\x1b\\[\\]\\\\P;0-9mK \n\\x07\\x08\u{9b}\u{202e}a-cé]{0,80}", cut in 0usize..80) {
            let cut = text.char_indices().nth(cut).map_or(text.len(), |(position, _)| position);
            let mut stripper = Stripper::default();
            let mut pieces = stripper.push(&text[..cut]);
            pieces.push_str(&stripper.push(&text[cut..]));
            prop_assert_eq!(&pieces, &strip(&text));
            prop_assert!(!pieces.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        }
    }
}
