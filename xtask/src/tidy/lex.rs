//! Cuts Rust source into words and signs, without comments, strings and characters, and tells test items apart.
//! Made for matching short sequences; never a full parser.

use std::{iter::Peekable, str::CharIndices};

/// A Rust file as sequences of tokens.
pub(crate) struct Source {
    /// Everything.
    pub(crate) tokens: Vec<Token>,
    /// Without the items under `#[cfg(test)]`.
    pub(crate) product: Vec<Token>,
    /// How many lines the items under `#[cfg(test)]` take.
    pub(crate) test_lines: usize,
}

/// What stands in the place of a text or a character.
const LITERAL: &str = "\"\"";

/// A word, a sign, or the mark of a literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// Where a sequence of tokens starts.
pub(crate) fn find(tokens: &[Token], sequence: &[&str]) -> Vec<usize> {
    (0..tokens.len()).filter(|&start| starts_with(&tokens[start..], sequence)).collect()
}

/// Whether tokens begin with a sequence.
pub(crate) fn starts_with(tokens: &[Token], sequence: &[&str]) -> bool {
    tokens.len() >= sequence.len() && tokens.iter().zip(sequence).all(|(token, text)| token.text == *text)
}

/// Whether a token is a word rather than a sign.
pub(crate) fn is_word(token: &Token) -> bool {
    token.text.starts_with(is_word_part)
}

/// Cuts a file.
pub(crate) fn lex(text: &str) -> Source {
    let tokens = Lexer { text, rest: text.char_indices().peekable(), line: 1 }.run();
    let (product, test_lines) = without_test_items(&tokens);
    Source { tokens, product, test_lines }
}

struct Lexer<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
    line: usize,
}

impl Lexer<'_> {
    fn run(mut self) -> Vec<Token> {
        let mut tokens = Vec::new();
        loop {
            self.skip_space_and_comments();
            let line = self.line;
            let text = match self.peek() {
                None => return tokens,
                Some('"') => self.quoted('"'),
                Some('\'') => self.character_or_lifetime(),
                Some(first) if is_word_part(first) => self.word_or_prefixed_literal(),
                Some(first) => self.sign(first),
            };
            tokens.push(Token { text, line });
        }
    }

    fn next(&mut self) -> Option<char> {
        let (_, next) = self.rest.next()?;
        self.line += usize::from(next == '\n');
        Some(next)
    }

    fn peek(&mut self) -> Option<char> {
        self.rest.peek().map(|&(_, next)| next)
    }

    /// What is left, for looking further ahead than one character.
    fn ahead(&mut self) -> &str {
        let start = self.rest.peek().map_or(self.text.len(), |&(start, _)| start);
        &self.text[start..]
    }

    fn skip_space_and_comments(&mut self) {
        while let Some(first) = self.peek() {
            if self.ahead().starts_with("//") {
                while self.peek().is_some_and(|next| next != '\n') {
                    self.next();
                }
            } else if self.ahead().starts_with("/*") {
                self.skip_block_comment();
            } else if first.is_whitespace() {
                self.next();
            } else {
                return;
            }
        }
    }

    /// Block comments nest.
    fn skip_block_comment(&mut self) {
        let mut depth = 0;
        loop {
            let step = match self.ahead() {
                ahead if ahead.starts_with("/*") => 1,
                ahead if ahead.starts_with("*/") => -1,
                _ => 0,
            };
            depth += step;
            if step != 0 {
                self.next();
            }
            if self.next().is_none() || depth == 0 {
                return;
            }
        }
    }

    fn quoted(&mut self, quote: char) -> String {
        self.next();
        while let Some(next) = self.next() {
            if next == '\\' {
                self.next();
            } else if next == quote {
                break;
            }
        }
        LITERAL.to_owned()
    }

    fn character_or_lifetime(&mut self) -> String {
        let mut ahead = self.ahead().chars().skip(1);
        let (first, second) = (ahead.next(), ahead.next());
        if first == Some('\\') || second == Some('\'') {
            return self.quoted('\'');
        }
        self.next();
        format!("'{}", self.word())
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(next) = self.peek().filter(|&next| is_word_part(next)) {
            word.push(next);
            self.next();
        }
        word
    }

    /// `r#"…"#`, `b'…'` and the like look like a word at first; `r#word` is a word.
    fn word_or_prefixed_literal(&mut self) -> String {
        let word = self.word();
        let ahead = self.ahead();
        let hashes = ahead.chars().take_while(|&next| next == '#').count();
        let is_raw = ["r", "br", "cr"].contains(&word.as_str());
        if is_raw && ahead[hashes..].starts_with('"') {
            return self.raw(hashes);
        }
        if is_raw && hashes == 1 {
            self.next();
            return self.word();
        }
        match self.peek() {
            Some('"') if ["b", "c"].contains(&word.as_str()) => self.quoted('"'),
            Some('\'') if word == "b" => self.quoted('\''),
            _ => word,
        }
    }

    fn raw(&mut self, hashes: usize) -> String {
        let end = format!("\"{}", "#".repeat(hashes));
        for _ in 0..=hashes {
            self.next();
        }
        while !self.ahead().starts_with(&end) && self.next().is_some() {}
        for _ in 0..=hashes {
            self.next();
        }
        LITERAL.to_owned()
    }

    fn sign(&mut self, first: char) -> String {
        let ahead = self.ahead();
        let double = ["::", "->", "=>"].into_iter().find(|sign| ahead.starts_with(sign));
        self.next();
        let Some(double) = double else { return first.to_string() };
        self.next();
        double.to_owned()
    }
}

fn is_word_part(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Leaves out each item under `#[cfg(test)]` or `#[cfg(all(test, ..))]`, and counts its lines.
fn without_test_items(tokens: &[Token]) -> (Vec<Token>, usize) {
    let mut product = Vec::new();
    let mut test_lines = 0;
    let mut position = 0;
    while position < tokens.len() {
        let rest = &tokens[position..];
        if starts_with(rest, &["#", "[", "cfg", "(", "test", ")", "]"])
            || starts_with(rest, &["#", "[", "cfg", "(", "all", "(", "test"])
        {
            let end = item_end(tokens, position);
            test_lines += tokens[end - 1].line - tokens[position].line + 1;
            position = end;
        } else {
            product.push(tokens[position].clone());
            position += 1;
        }
    }
    (product, test_lines)
}

/// The position after an item with its attributes: after its `;`, its block, or before the end of what surrounds it.
fn item_end(tokens: &[Token], start: usize) -> usize {
    let mut depth = 0_usize;
    for (position, token) in tokens.iter().enumerate().skip(start) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return position,
            ")" | "]" | "}" => {
                depth -= 1;
                if depth == 0 && token.text == "}" {
                    return position + 1;
                }
            }
            ";" if depth == 0 => return position + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(joined(&lex(text).tokens), expected);
    }

    #[track_caller]
    fn check_product(text: &str, expected: &str, test_lines: usize) {
        let source = lex(text);
        assert_eq!((joined(&source.product).as_str(), source.test_lines), (expected, test_lines));
    }

    fn joined(tokens: &[Token]) -> String {
        tokens.iter().map(|token| token.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_are_left_out() {
        check("a // b\n.c", "a . c");
        check("a /* b /* c */ d */ e", "a e");
        check(r#"f("x \" y", 'z', '\'', b"q", b'\n', c"w")"#, r#"f ( "" , "" , "" , "" , "" , "" )"#);
        check(r###"r"a\" r#"b"c"# br##"d"#e"## r#type"###, r#""" "" "" type"#);
        check("fn f<'a>(x: &'a str) -> T { 'é' }", "fn f < 'a > ( x : & 'a str ) -> T { \"\" }");
        check("tokio :: spawn", "tokio :: spawn");
    }

    #[test]
    fn what_never_ends_still_ends_the_file() {
        check("a \"b", "a \"\"");
        check("a /* b", "a");
        check("a r#\"b", "a \"\"");
        check("a '", "a '");
        let text = "fn é() { r#\"x\"#; b'\\''; /* y */ 'z: \"w\"; #[cfg(test)] mod t { [1] } } // end";
        for (end, _) in text.char_indices() {
            lex(&text[..end]);
            lex(&text[end..]);
        }
    }

    #[test]
    fn lines_are_counted_through_literals_and_comments() {
        let tokens = lex("\"a\nb\"\n/*\n*/ end").tokens;
        assert_eq!(tokens.last().map(|token| token.line), Some(4));
    }

    #[test]
    fn test_items_are_told_apart() {
        check_product("a; #[cfg(test)]\nmod tests {\n fn f() { x[1]; }\n}\nb", "a ; b", 4);
        check_product("#[cfg(test)] mod tests;\nb", "b", 1);
        check_product("#[cfg(test)] #[derive(Debug)] fn f(a: [u8; 2]) -> u8 { 1 } b", "b", 1);
        check_product("#[cfg(all(test, unix))] use a::b; c", "c", 1);
        check_product("struct S { a: u8, #[cfg(test)] b: u8 } c", "struct S { a : u8 , } c", 1);
        check_product("#[cfg(not(test))] fn f() {}", "# [ cfg ( not ( test ) ) ] fn f ( ) { }", 0);
    }
}
