//! How many tokens a text costs, without asking a model: first for free, then by looking at it.
//! Both are guesses on the safe side; a bill is never made from them.

/// Whether a text surely fits, judged by its length alone: no text has more tokens than bytes.
pub(super) fn surely_fit(text: &str, limit: usize) -> bool {
    const BYTES_PER_TOKEN: usize = 4;
    text.len() / BYTES_PER_TOKEN <= limit / BYTES_PER_TOKEN
}

/// How many of the first lines of a text fit in a number of tokens together.
pub(super) fn fitting_lines(text: &str, limit: usize) -> usize {
    let mut used = 0;
    text.split('\n')
        .take_while(|line| {
            // The newline is a token too.
            used += count(line) + 1;
            used <= limit
        })
        .count()
}

/// About how many tokens a text has.
pub(super) fn count(text: &str) -> usize {
    let mut total = 0;
    let mut characters = text.chars().peekable();
    while let Some(first) = characters.next() {
        let class = Class::of(first);
        let mut run = 1;
        // A capital starts a word and may be followed by small letters.
        let mut last = class;
        while let Some(next) = characters.peek().map(|next| Class::of(*next)) {
            let goes_on = next == last || (run == 1 && last == Class::Upper && next == Class::Lower);
            if !goes_on {
                break;
            }
            last = next;
            run += 1;
            characters.next();
        }
        total += last.cost(run);
    }
    total
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    Space,
    Mark,
    /// Letters of alphabets beyond ASCII.
    Letter,
    /// Writing where a character is a word, symbols, pictures.
    Sign,
}

impl Class {
    fn of(character: char) -> Self {
        match character {
            'a'..='z' => Self::Lower,
            'A'..='Z' => Self::Upper,
            '0'..='9' => Self::Digit,
            ' ' | '\t' | '\r' | '\n' => Self::Space,
            '\0'..='\x7F' => Self::Mark,
            '\u{80}'..='\u{1FFF}' => Self::Letter,
            _ => Self::Sign,
        }
    }

    fn cost(self, run: usize) -> usize {
        match self {
            Self::Lower => run.div_ceil(6),
            Self::Upper | Self::Digit => run.div_ceil(3),
            // One space belongs to the word after it.
            Self::Space => run.saturating_sub(1).min(1) + run / 16,
            Self::Mark | Self::Letter => run.div_ceil(2),
            Self::Sign => run + run / 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: std::ops::RangeInclusive<usize>) {
        assert!(expected.contains(&count(text)), "{}: {text}", count(text));
    }

    #[test]
    fn counts_are_near_what_tokenisers_say() {
        check("The quick brown fox jumps over the lazy dog.", 9..=12);
        check("    let total_bytes: usize = self.length().saturating_sub(1);\n", 16..=26);
        check("aGVsbG8gd29ybGQsIHRoaXMgaXMgYmFzZTY0IHRleHQu", 22..=36);
        check("これは日本語のテキストです。", 13..=24);
        check("Привет, как дела?", 6..=11);
        check("3.14159265358979", 6..=8);
    }

    proptest! {
        #[test]
        fn a_text_that_surely_fits_does(text in "\\PC{0,120}", limit in 1usize..200) {
            if surely_fit(&text, limit) {
                prop_assert!(count(&text) <= limit + 4, "{}", count(&text));
            }
        }
    }
}
