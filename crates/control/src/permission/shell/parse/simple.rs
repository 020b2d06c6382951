//! Simple commands and assignments. A word is an assignment only where bash takes it for one:
//! before the program's name, and behind builtins that declare variables.

use super::super::syntax::{Assignment, Command, Kind, Part, Plain, Redirect, Span, Value, Word};
use super::compound::is_name;
use super::list::RESERVED;
use super::{MOST_COMMANDS, Mask, Parser, Result};

/// Builtins whose arguments may be assignments, arrays included.
const DECLARING: [&str; 5] = ["declare", "typeset", "export", "readonly", "local"];

/// A simple command while it is read.
#[derive(Default)]
struct Draft {
    assignments: Vec<Assignment>,
    words: Vec<Word>,
    redirects: Vec<Redirect>,
}

impl Parser<'_> {
    /// Reads a simple command, or a function if parentheses follow its first word.
    pub(super) fn simple(&mut self) -> Result<Command> {
        let start = self.at;
        let mut draft = Draft::default();
        let mut end = start;
        loop {
            self.blanks()?;
            if let Some(redirect) = self.redirect()? {
                draft.redirects.push(redirect);
            } else if self.at_word() {
                self.simple_word(&mut draft)?;
            } else if self.byte() == Some(b'(') && draft.is_name_alone() {
                let name = draft.words.first().and_then(Word::literal).unwrap_or_default().to_owned();
                let kind = self.function(&name)?;
                return Ok(Command { kind, redirects: Vec::new(), span: self.span_from(start) });
            } else {
                break;
            }
            end = self.at;
        }
        if draft.assignments.is_empty() && draft.words.is_empty() && draft.redirects.is_empty() {
            return Err(self.unexpected());
        }
        self.budget.commands += 1;
        if self.budget.commands > MOST_COMMANDS {
            return Err(self.refuse(&format!("it holds more than {MOST_COMMANDS} commands")));
        }
        Ok(self.finish(draft, Span { start, end }))
    }

    fn finish(&mut self, draft: Draft, span: Span) -> Command {
        let Draft { assignments, words, redirects } = draft;
        if !words.is_empty() {
            self.hide(&redirects);
            self.note(&words);
        }
        let source = match (words.first(), words.last()) {
            (Some(first), Some(last)) => {
                self.source(Span { start: first.span.start, end: last.span.end }).to_owned()
            }
            (None, _) | (_, None) => self.source(span).to_owned(),
        };
        Command { kind: Kind::Simple(Plain { assignments, words, source }), redirects, span }
    }

    /// Notes the words for the second reader, which has a grammar of its own for `[ … ]`.
    fn note(&mut self, words: &[Word]) {
        if words.first().and_then(Word::literal) == Some("[") {
            let brackets = words.iter().filter(|word| matches!(word.literal(), Some("[" | "]")));
            self.notes.masks.extend(brackets.map(|word| (word.span, Mask::Word)));
        }
        self.notes.commands.push(words.iter().map(|word| word.span).collect());
    }

    fn simple_word(&mut self, draft: &mut Draft) -> Result<()> {
        let in_front = draft.words.is_empty();
        let declares =
            draft.words.first().and_then(Word::literal).is_some_and(|first| DECLARING.contains(&first));
        if in_front || declares {
            let start = self.at;
            if let Some(assignment) = self.assignment()? {
                // Behind a redirection bash no longer takes every array for one.
                if matches!(assignment.value, Value::Array(_)) && !draft.redirects.is_empty() {
                    return Err(self.refuse("an array stands behind a redirection"));
                }
                if in_front {
                    draft.assignments.push(assignment);
                } else {
                    draft.words.push(self.as_word(assignment, start));
                }
                return Ok(());
            }
        }
        let word = self.full_word()?;
        let literal = match word.parts.first() {
            Some(Part::Literal(text)) => text.as_str(),
            Some(_) | None => "",
        };
        if (in_front || declares) && looks_assigned(literal) {
            return Err(self.refuse("an assignment is written in an unusual way"));
        }
        if in_front && word.literal().is_some_and(|text| RESERVED.contains(&text)) {
            return Err(self.refuse(&format!("'{literal}' is not expected here")));
        }
        draft.words.push(word);
        Ok(())
    }

    /// An assignment behind a declaring builtin, in the shape of a word.
    fn as_word(&self, assignment: Assignment, start: usize) -> Word {
        let Assignment { name, subscript, appends, value, span: _ } = assignment;
        let mut parts = vec![Part::Literal(name)];
        if let Some(subscript) = subscript {
            parts.push(Part::Literal("[".to_owned()));
            parts.extend(subscript);
            parts.push(Part::Literal("]".to_owned()));
        }
        parts.push(Part::Literal(if appends { "+=" } else { "=" }.to_owned()));
        match value {
            Value::Text(word) => parts.extend(word.parts),
            Value::Array(words) => {
                parts.push(Part::Literal("(".to_owned()));
                for word in words {
                    parts.extend(word.parts);
                    parts.push(Part::Literal(" ".to_owned()));
                }
                parts.push(Part::Literal(")".to_owned()));
            }
        }
        Word { parts, span: self.span_from(start) }
    }

    /// Reads an assignment if one stands here.
    fn assignment(&mut self) -> Result<Option<Assignment>> {
        let start = self.at;
        let rest = self.rest();
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let name = rest.get(..length).unwrap_or_default().to_owned();
        if !is_name(&name) {
            return Ok(None);
        }
        self.at += length;
        let subscript = if self.byte() == Some(b'[') { Some(self.subscript()?) } else { None };
        let appends = self.starts("+=");
        if !appends && self.byte() != Some(b'=') {
            if subscript.is_some() {
                return Err(self.refuse("a subscript without an assignment is not expected here"));
            }
            self.at = start;
            return Ok(None);
        }
        self.at += if appends { 2 } else { 1 };
        if self.starts("\\\n") {
            return Err(self.refuse("a line continuation stands inside an assignment"));
        }
        let value = if self.byte() == Some(b'(') { self.array()? } else { Value::Text(self.word()?) };
        Ok(Some(Assignment { name, subscript, appends, value, span: self.span_from(start) }))
    }

    fn array(&mut self) -> Result<Value> {
        self.at += 1;
        let mut words = Vec::new();
        self.enclosed(|parser| {
            loop {
                parser.newlines()?;
                match parser.byte() {
                    Some(b')') => {
                        parser.at += 1;
                        return Ok(());
                    }
                    Some(b'[') => words.push(parser.keyed()?),
                    Some(_) => words.push(parser.full_word()?),
                    None => return Err(parser.unexpected()),
                }
            }
        })?;
        if self.at_word() {
            return Err(self.refuse("a word goes on behind an array"));
        }
        Ok(Value::Array(words))
    }

    /// An element of an array with its key, `[key]=value`.
    fn keyed(&mut self) -> Result<Word> {
        let start = self.at;
        let mut parts = vec![Part::Literal("[".to_owned())];
        parts.extend(self.subscript()?);
        if !self.starts("=") {
            return Err(self.refuse("an element of an array is written in an unusual way"));
        }
        self.at += 1;
        parts.push(Part::Literal("]=".to_owned()));
        parts.extend(self.word()?.parts);
        Ok(Word { parts, span: self.span_from(start) })
    }
}

impl Draft {
    fn is_name_alone(&self) -> bool {
        self.assignments.is_empty() && self.redirects.is_empty() && self.words.len() == 1
    }
}

/// Whether unquoted text would be an assignment for bash.
fn looks_assigned(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    is_name(name) && (rest.starts_with('=') || rest.starts_with("+=") || rest.starts_with('['))
}
