//! Reads a line into tokens. Literal text and inserted data are kept apart until a word is whole, so that
//! only what stood in the line itself can be an embedded value.

use super::{Error, ErrorKind, Operator, Sentinel, Token, recognise};
use crate::Json;
use std::collections::BTreeMap;

/// How many `$(` may stand in each other.
const MAX_DEPTH: usize = 64;

/// A piece of a word that is not finished.
enum Piece {
    /// From the line.
    Literal(String),
    /// From a variable.
    Data(String),
    Value(Json),
    Nested(Vec<Token>),
}

struct Reader<'a> {
    line: &'a str,
    at: usize,
    vars: &'a BTreeMap<String, Json>,
    sentinel: &'a Sentinel,
}

/// What is known of the tokens at one depth.
#[derive(Default)]
struct Level {
    tokens: Vec<Token>,
    /// The word under way; empty pieces make an empty word.
    word: Option<Vec<Piece>>,
}

pub(super) fn read(
    line: &str,
    vars: &BTreeMap<String, Json>,
    sentinel: &Sentinel,
) -> Result<Vec<Token>, Error> {
    let mut reader = Reader { line, at: 0, vars, sentinel };
    let tokens = reader.level(0)?;
    if reader.at < line.len() {
        return Err(reader.error(ErrorKind::StrayParenthesis));
    }
    Ok(tokens)
}

impl<'a> Reader<'a> {
    /// Reads up to the end, or to the parenthesis that ends this depth, which is left.
    fn level(&mut self, depth: usize) -> Result<Vec<Token>, Error> {
        let mut level = Level::default();
        while let Some(character) = self.peek() {
            match character {
                ')' => break,
                '(' => return Err(self.error(ErrorKind::StrayParenthesis)),
                '`' => return Err(self.error(ErrorKind::NotUnderstood('`'))),
                '\'' => self.single_quoted(&mut level)?,
                '"' => self.double_quoted(&mut level, depth)?,
                '$' => self.dollar(&mut level, depth)?,
                '\\' => {
                    self.next();
                    // A line that is continued says nothing at this place.
                    if let Some(escaped) = self.next()
                        && escaped != '\n'
                    {
                        level.literal(escaped);
                    }
                }
                '|' | '&' | ';' | '<' | '>' | '\n' => {
                    let operator = self.operator()?;
                    level.end_word(self.sentinel);
                    level.tokens.push(Token::Operator(operator));
                }
                space if space.is_whitespace() => {
                    self.next();
                    level.end_word(self.sentinel);
                }
                other => {
                    self.next();
                    level.literal(other);
                }
            }
        }
        level.end_word(self.sentinel);
        Ok(level.tokens)
    }

    fn operator(&mut self) -> Result<Operator, Error> {
        let start = self.at;
        let first = self.next();
        let doubled = first.is_some() && self.peek() == first;
        let (operator, takes_two) = match (first, doubled) {
            (Some('|'), true) => (Operator::Or, true),
            (Some('&'), true) => (Operator::And, true),
            (Some('>'), true) => (Operator::Onto, true),
            (Some('|'), false) => (Operator::Pipe, false),
            (Some('>'), false) => (Operator::To, false),
            (Some('<'), false) => (Operator::From, false),
            (Some(';' | '\n'), _) => (Operator::Then, false),
            (other, _) => {
                let kind = ErrorKind::NotUnderstood(other.unwrap_or_default());
                return Err(Error { at: start, kind });
            }
        };
        if takes_two {
            self.next();
        }
        Ok(operator)
    }

    fn single_quoted(&mut self, level: &mut Level) -> Result<(), Error> {
        let start = self.at;
        self.next();
        level.begin_word();
        loop {
            match self.next() {
                Some('\'') => return Ok(()),
                Some(character) => level.literal(character),
                None => return Err(Error { at: start, kind: ErrorKind::OpenQuote }),
            }
        }
    }

    fn double_quoted(&mut self, level: &mut Level, depth: usize) -> Result<(), Error> {
        let start = self.at;
        self.next();
        level.begin_word();
        loop {
            match self.peek() {
                Some('"') => {
                    self.next();
                    return Ok(());
                }
                Some('$') => self.dollar(level, depth)?,
                Some('`') => return Err(self.error(ErrorKind::NotUnderstood('`'))),
                Some('\\') => {
                    self.next();
                    match self.peek() {
                        Some(escaped @ ('$' | '"' | '\\' | '`')) => {
                            self.next();
                            level.literal(escaped);
                        }
                        Some('\n') => {
                            self.next();
                        }
                        Some(_) | None => level.literal('\\'),
                    }
                }
                Some(character) => {
                    self.next();
                    level.literal(character);
                }
                None => return Err(Error { at: start, kind: ErrorKind::OpenQuote }),
            }
        }
    }

    fn dollar(&mut self, level: &mut Level, depth: usize) -> Result<(), Error> {
        let start = self.at;
        self.next();
        match self.peek() {
            Some('(') => {
                if depth >= MAX_DEPTH {
                    return Err(Error { at: start, kind: ErrorKind::TooDeep });
                }
                self.next();
                let nested = self.level(depth + 1)?;
                if self.next() != Some(')') {
                    return Err(Error { at: start, kind: ErrorKind::OpenNesting });
                }
                level.push(Piece::Nested(nested));
            }
            Some('{') => {
                self.next();
                let name = self.name();
                if name.is_empty() || self.next() != Some('}') {
                    return Err(Error { at: start, kind: ErrorKind::BadName });
                }
                level.push(self.value_of(name, start)?);
            }
            Some(_) | None => match self.name() {
                // A dollar before anything else is one.
                "" => level.literal('$'),
                name => level.push(self.value_of(name, start)?),
            },
        }
        Ok(())
    }

    /// What a name stands for.
    fn value_of(&self, name: &str, at: usize) -> Result<Piece, Error> {
        match self.vars.get(name) {
            Some(Json::String(text)) => Ok(Piece::Data(text.clone())),
            Some(value) => Ok(Piece::Value(value.clone())),
            None => Err(Error { at, kind: ErrorKind::Unknown(name.to_owned()) }),
        }
    }

    /// A name at this place: letters, digits and underscores, or digits alone.
    fn name(&mut self) -> &'a str {
        let rest = &self.line[self.at..];
        let is_number = rest.starts_with(|c: char| c.is_ascii_digit());
        let is_part = |c: char| c.is_ascii_digit() || (!is_number && (c.is_ascii_alphabetic() || c == '_'));
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn peek(&self) -> Option<char> {
        self.line[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += character.len_utf8();
        Some(character)
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error { at: self.at, kind }
    }
}

impl Level {
    fn begin_word(&mut self) {
        self.word.get_or_insert_default();
    }

    fn push(&mut self, piece: Piece) {
        self.word.get_or_insert_default().push(piece);
    }

    fn literal(&mut self, character: char) {
        let pieces = self.word.get_or_insert_default();
        match pieces.last_mut() {
            Some(Piece::Literal(text)) => text.push(character),
            Some(Piece::Data(_) | Piece::Value(_) | Piece::Nested(_)) | None => {
                pieces.push(Piece::Literal(character.to_string()));
            }
        }
    }

    fn end_word(&mut self, sentinel: &Sentinel) {
        let Some(pieces) = self.word.take() else { return };
        let mut parts = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Literal(text) => parts.extend(recognise(&text, sentinel)),
                Piece::Data(text) => parts.push(Token::Text(text)),
                Piece::Value(value) => parts.push(Token::Value(value)),
                Piece::Nested(tokens) => parts.push(Token::Nested(tokens)),
            }
        }
        self.tokens.push(joined(parts));
    }
}

/// One word of its parts: a value among others becomes text.
fn joined(mut parts: Vec<Token>) -> Token {
    match parts.pop() {
        None => Token::Text(String::new()),
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            let mut merged: Vec<Token> = Vec::new();
            for part in parts {
                let text = match part {
                    Token::Text(text) | Token::Value(Json::String(text)) => text,
                    Token::Value(value) => value.to_string(),
                    part @ (Token::Nested(_) | Token::Joined(_) | Token::Operator(_)) => {
                        merged.push(part);
                        continue;
                    }
                };
                match merged.last_mut() {
                    Some(Token::Text(before)) => before.push_str(&text),
                    Some(_) | None => merged.push(Token::Text(text)),
                }
            }
            match merged.as_slice() {
                [Token::Text(text)] => Token::Text(text.clone()),
                _ => Token::Joined(merged),
            }
        }
    }
}
