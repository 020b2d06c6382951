//! Reads a command line as bash 5.2 reads it and makes the tree of it. Whatever it does not know to
//! the last byte it refuses with a reason; it never guesses, and it never looks at anything but the text.

mod compound;
mod dollar;
mod list;
mod redirect;
mod simple;
mod test;
mod witness;
mod word;

use super::syntax::{Script, Span};

/// The longest text that is read, in characters.
const LONGEST: usize = 10_000;
/// How deep commands, quotes and expansions may nest.
const DEEPEST: usize = 40;
/// How many simple commands one text may hold.
const MOST_COMMANDS: usize = 500;

/// Why a text was refused, and the byte where that was noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotUnderstood {
    pub why: String,
    pub at: usize,
}

type Result<T> = std::result::Result<T, NotUnderstood>;

/// Reads a whole command line.
pub(crate) fn parse(text: &str) -> Result<Script> {
    parse_within(text, &mut Budget { depth: 0, commands: 0 })
}

/// What nested texts of one command line may use up together.
struct Budget {
    depth: usize,
    commands: usize,
}

/// A place in the text and what is known of the way there.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    end: usize,
    budget: &'a mut Budget,
    bodies: Option<Bodies>,
    notes: Notes,
}

/// Bodies of here-documents that begin behind the end of the current line. They are read when their
/// operator is met; the new line that ends the line then jumps over them.
#[derive(Debug, Clone, Copy)]
struct Bodies {
    line_end: usize,
    next: usize,
}

/// What the second reader needs: where the words of each simple command stand, and which bytes to
/// show it differently because it is known to misread them.
#[derive(Debug, Default)]
struct Notes {
    commands: Vec<Vec<Span>>,
    masks: Vec<(Span, Mask)>,
}

/// What the second reader sees instead of some bytes.
#[derive(Debug, Clone, Copy)]
enum Mask {
    /// Nothing.
    Blank,
    /// Another text of at most the same length, then nothing.
    Shown(&'static str),
    /// A plain word.
    Word,
}

fn parse_within(text: &str, budget: &mut Budget) -> Result<Script> {
    refuse_odd_text(text)?;
    let mut parser = Parser { text, at: 0, end: text.len(), budget, bodies: None, notes: Notes::default() };
    let script = parser.script()?;
    if parser.at < parser.end {
        return Err(parser.unexpected());
    }
    parser.no_open_bodies()?;
    witness::agrees(text, &parser.notes)?;
    Ok(script)
}

fn refuse_odd_text(text: &str) -> Result<()> {
    if text.chars().nth(LONGEST).is_some() {
        return Err(NotUnderstood { why: format!("it is longer than {LONGEST} characters"), at: LONGEST });
    }
    // Bash keeps a carriage return as part of the word, which nobody sees; it drops NUL and uses
    // some other control characters as marks of its own.
    match text.char_indices().find(|(_, c)| c.is_control() && !matches!(c, '\n' | '\t')) {
        Some((at, c)) => Err(NotUnderstood { why: format!("it holds the control character {c:?}"), at }),
        None => Ok(()),
    }
}

impl Parser<'_> {
    fn byte(&self) -> Option<u8> {
        self.byte_after(0)
    }

    fn byte_after(&self, offset: usize) -> Option<u8> {
        let at = self.at + offset;
        if at < self.end { self.text.as_bytes().get(at).copied() } else { None }
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..self.end).unwrap_or_default()
    }

    fn starts(&self, with: &str) -> bool {
        self.rest().starts_with(with)
    }

    /// Takes an operator if it stands here. One that a line continuation cuts in two is refused.
    fn take(&mut self, operator: &str) -> Result<bool> {
        if !self.starts(operator) {
            return Ok(false);
        }
        self.at += operator.len();
        let behind = self.rest().trim_start_matches("\\\n");
        if self.starts("\\\n") && behind.starts_with([';', '&', '|', '<', '>', '(', '-']) {
            return Err(self.refuse("a line continuation stands inside an operator"));
        }
        Ok(true)
    }

    fn expect(&mut self, operator: &str) -> Result<()> {
        if self.take(operator)? { Ok(()) } else { Err(self.refuse(&format!("'{operator}' is missing"))) }
    }

    fn next_char(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn span_from(&self, start: usize) -> Span {
        Span { start, end: self.at }
    }

    fn source(&self, span: Span) -> &str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }

    /// Passes blanks, line continuations and a comment.
    fn blanks(&mut self) -> Result<()> {
        loop {
            match self.byte() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.byte_after(1) == Some(b'\n') => self.continuation()?,
                Some(b'#') => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// Passes a backslash and the new line behind it.
    fn continuation(&mut self) -> Result<()> {
        if self.bodies.is_some() {
            return Err(self.refuse("a line continuation stands before the body of a here-document"));
        }
        self.at += 2;
        Ok(())
    }

    /// Passes blanks and new lines.
    fn newlines(&mut self) -> Result<()> {
        loop {
            self.blanks()?;
            if self.byte() != Some(b'\n') {
                return Ok(());
            }
            match self.bodies.take() {
                None => self.at += 1,
                Some(bodies) if bodies.line_end == self.at => self.at = bodies.next,
                Some(_) => return Err(self.refuse("a new line stands in a word before a here-document")),
            }
        }
    }

    fn no_open_bodies(&self) -> Result<()> {
        match self.bodies {
            Some(_) => Err(self.refuse("the body of a here-document is not where it should be")),
            None => Ok(()),
        }
    }

    /// Reads something nested, within the limit of depth.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.budget.depth >= DEEPEST {
            return Err(self.refuse(&format!("it nests more than {DEEPEST} levels deep")));
        }
        self.budget.depth += 1;
        let result = read(self);
        self.budget.depth -= 1;
        result
    }

    /// Reads what ends in itself: here-documents begun outside have no say inside, and the reverse.
    fn enclosed<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let outer = self.bodies.take();
        let result = self.deeper(read)?;
        self.no_open_bodies()?;
        self.bodies = outer;
        Ok(result)
    }

    /// Reads with the text cut off at `end`.
    fn cut<T>(&mut self, end: usize, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let outer = std::mem::replace(&mut self.end, end);
        let result = read(self);
        self.end = outer;
        result
    }

    fn mask(&mut self, start: usize, mask: Mask) {
        let span = self.span_from(start);
        self.notes.masks.push((span, mask));
    }

    fn refuse(&self, why: &str) -> NotUnderstood {
        NotUnderstood { why: why.to_owned(), at: self.at }
    }

    fn unexpected(&self) -> NotUnderstood {
        match self.rest().chars().next() {
            Some(c) => self.refuse(&format!("{c:?} is not expected here")),
            None => self.refuse("it ends too early"),
        }
    }
}
