//! Structured values in command lines: a value becomes a word that no shell-like tokenising can break, and
//! comes out of [`tokenize`] as the same value. What was inserted as data is never read as syntax, and no data
//! can pass for an embedded value.

mod reader;
mod sip;

use crate::Json;
use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

/// Marks the values that this process has embedded. Made from a seed nobody else knows; a value is only
/// recognised with the tag that this seed gives it.
#[derive(Clone)]
pub struct Sentinel {
    key: [u64; 2],
}

/// A part of a command line.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    /// A word.
    Text(String),
    /// A word that is one structured value.
    Value(Json),
    /// A word that is what the commands in `$( )` will give.
    Nested(Vec<Token>),
    /// A word of several parts, at least one of them nested: texts and [`Token::Nested`] only.
    Joined(Vec<Token>),
    /// What stands between commands and files.
    Operator(Operator),
}

/// What stands between words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `|`
    Pipe,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `;`, or the end of a line.
    Then,
    /// `<`
    From,
    /// `>`
    To,
    /// `>>`
    Onto,
}

/// A line that cannot be tokenised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Where, in bytes from the start.
    pub at: usize,
    /// Why.
    pub kind: ErrorKind,
}

/// Why a line cannot be tokenised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// A quote without its end.
    OpenQuote,
    /// A `$(` without its end.
    OpenNesting,
    /// A `)` without a beginning.
    StrayParenthesis,
    /// A `${` that holds no plain name.
    BadName,
    /// A name without a value.
    Unknown(String),
    /// Syntax that is not understood, such as a lone `&` or a backquote.
    NotUnderstood(char),
    /// More `$(` in each other than anybody means.
    TooDeep,
}

/// What every embedded value begins with.
const MARK: &str = "ostler0v";
/// What it ends with: a letter that is no hexadecimal digit, so that text may follow at once.
const END: char = 'z';
/// The length of a tag in digits.
const TAG: usize = 32;

impl Sentinel {
    /// A sentinel from 128 random bits, drawn once for a process.
    pub fn new(seed: u128) -> Self {
        let halves =
            [seed, seed >> 64].map(|half| u64::try_from(half & u128::from(u64::MAX)).unwrap_or_default());
        Self { key: halves }
    }

    /// The tag of a payload: what only this sentinel can compute.
    fn tag(&self, payload: &[u8]) -> String {
        let [first, second] = [0, 1].map(|domain| sip::hash(self.key, domain, payload));
        format!("{first:016x}{second:016x}")
    }
}

impl fmt::Debug for Sentinel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sentinel(..)")
    }
}

/// A value as one word of letters and digits.
pub fn embed(value: &Json, sentinel: &Sentinel) -> String {
    let payload = value.to_string();
    let mut word = format!("{MARK}{}", sentinel.tag(payload.as_bytes()));
    for byte in payload.bytes() {
        // Writing to a string cannot fail.
        let _ = write!(word, "{byte:02x}");
    }
    word.push(END);
    word
}

/// The parts of a command line. `$NAME` and `${NAME}` stand for the given values: a text is inserted as data,
/// anything else stays the value it is where it makes up a whole word, and becomes JSON text where it does not.
pub fn tokenize(line: &str, vars: &BTreeMap<String, Json>, sentinel: &Sentinel) -> Result<Vec<Token>, Error> {
    reader::read(line, vars, sentinel)
}

/// Splits a literal text into what is text and what is an embedded value.
fn recognise(text: &str, sentinel: &Sentinel) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(MARK) {
        literal.push_str(&rest[..at]);
        let after = &rest[at + MARK.len()..];
        if let Some((value, end)) = embedded(after, sentinel) {
            if !literal.is_empty() {
                tokens.push(Token::Text(std::mem::take(&mut literal)));
            }
            tokens.push(Token::Value(value));
            rest = &after[end..];
        } else {
            literal.push_str(MARK);
            rest = after;
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        tokens.push(Token::Text(literal));
    }
    tokens
}

/// The value whose tag, payload and end a text begins with, and how long they are.
fn embedded(text: &str, sentinel: &Sentinel) -> Option<(Json, usize)> {
    let length = text.find(|c: char| !matches!(c, '0'..='9' | 'a'..='f'))?;
    let (tag, digits) = text.get(..length)?.split_at_checked(TAG)?;
    if !text[length..].starts_with(END) || !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |digit: &u8| char::from(*digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| Some(digit(&pair[0])? << 4 | digit(&pair[1])?);
    let payload: Vec<u8> = digits.as_bytes().chunks_exact(2).map(byte).collect::<Option<_>>()?;
    if sentinel.tag(&payload) != tag {
        return None;
    }
    Some((serde_json::from_slice(&payload).ok()?, length + END.len_utf8()))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::OpenQuote => write!(f, "a quote is not closed")?,
            ErrorKind::OpenNesting => write!(f, "a $( is not closed")?,
            ErrorKind::StrayParenthesis => write!(f, "a parenthesis stands where none can")?,
            ErrorKind::BadName => write!(f, "${{..}} must hold a name and nothing else")?,
            ErrorKind::Unknown(name) => write!(f, "${name} has no value")?,
            ErrorKind::NotUnderstood(character) => write!(f, "'{character}' is not understood here")?,
            ErrorKind::TooDeep => write!(f, "too many $( in each other")?,
        }
        write!(f, " (at byte {})", self.at)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests;
