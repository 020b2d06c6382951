//! Redirections and here-documents. A here-document's body is found when its operator is met, by
//! the rules of bash: raw lines up to the delimiter, and only then expansions inside.

use super::super::syntax::{Access, Part, Redirect, Span, Target, Word};
use super::compound::is_name;
use super::list::is_meta;
use super::{Bodies, Mask, Notes, Parser, Result, witness};

/// The operators, longest first.
const OPERATORS: [&str; 12] = ["&>>", "<<<", "<<-", "&>", ">>", ">|", ">&", "<<", "<>", "<&", ">", "<"];

impl Parser<'_> {
    /// Reads a redirection if one stands here.
    pub(super) fn redirect(&mut self) -> Result<Option<Redirect>> {
        let start = self.at;
        let (number, variable) = self.descriptor();
        let is_process = self.starts("<(") || self.starts(">(");
        let found = OPERATORS.into_iter().find(|operator| self.starts(operator));
        let Some(operator) = found.filter(|_| !is_process) else {
            self.at = start;
            return Ok(None);
        };
        if operator.starts_with('&') && (number.is_some() || variable.is_some()) {
            self.at = start;
            return Ok(None);
        }
        let operator_start = self.at;
        self.take(operator)?;
        if matches!(operator, "<>" | "<<" | "<<-") {
            self.mask(operator_start, Mask::Shown(" <"));
        }
        let target = match operator {
            "<<" | "<<-" => self.here_document(operator == "<<-")?,
            "<<<" => Target::Text(self.target_word()?),
            "<&" | ">&" => self.duplicate(operator == ">&", number.as_deref())?,
            "<" => Target::File { access: Access::Read, word: self.target_word()? },
            "<>" => Target::File { access: Access::Both, word: self.target_word()? },
            _ => Target::File { access: Access::Write, word: self.target_word()? },
        };
        Ok(Some(Redirect { number, variable, target, span: self.span_from(start) }))
    }

    /// Keeps redirections that hold no command from the second reader, which takes words behind
    /// them for more files.
    pub(super) fn hide(&mut self, redirects: &[Redirect]) {
        let plain = redirects.iter().filter(|redirect| match &redirect.target {
            Target::File { word, .. } | Target::Descriptor { word } | Target::Text(word) => {
                !word.parts.iter().any(runs_something)
            }
            Target::Here { .. } => true,
        });
        self.notes.masks.extend(plain.map(|redirect| (redirect.span, Mask::Blank)));
    }

    /// Passes the number or the `{name}` right before an operator.
    fn descriptor(&mut self) -> (Option<String>, Option<String>) {
        let rest = self.rest();
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'{' | b'}');
        let length = rest.bytes().take_while(is_part).count();
        let text = rest.get(..length).unwrap_or_default();
        let variable = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).map(str::to_owned);
        let number = Some(text.to_owned()).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        if length == 0 || !matches!(self.byte_after(length), Some(b'<' | b'>')) {
            return (None, None);
        }
        let found = (number, variable.filter(|name| is_name(name)));
        if found != (None, None) {
            self.at += length;
        }
        found
    }

    fn target_word(&mut self) -> Result<Word> {
        self.blanks()?;
        self.full_word()
    }

    fn duplicate(&mut self, writes: bool, number: Option<&str>) -> Result<Target> {
        self.blanks()?;
        if !self.at_word() {
            return Err(self.unexpected());
        }
        if self.byte() == Some(b'-') {
            // The sign ends here for bash, whatever follows.
            let closes = self.rest().chars().nth(1).is_none_or(is_meta);
            return if closes {
                Ok(Target::Descriptor { word: self.word()? })
            } else {
                Err(self.unexpected())
            };
        }
        let word = self.word()?;
        let literal = word.literal().unwrap_or_default();
        let digits = literal.strip_suffix('-').unwrap_or(literal);
        if !literal.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(Target::Descriptor { word });
        }
        self.is_no_descriptor(&word)?;
        // What is not a number is a file for `>&` and `1>&`, and an error elsewhere.
        if writes && number.is_none_or(|number| number == "1") {
            return Ok(Target::File { access: Access::Write, word });
        }
        Err(self.refuse("a descriptor is copied from something that is not a number"))
    }

    fn here_document(&mut self, strips_tabs: bool) -> Result<Target> {
        let word = self.target_word()?;
        let Some((delimiter, expands)) = delimiter_of(&word) else {
            return Err(self.refuse("the delimiter of a here-document is not plain"));
        };
        let line_end = match self.bodies {
            Some(bodies) => bodies.line_end,
            None => {
                self.at + self.rest().find('\n').ok_or_else(|| self.refuse("a here-document has no body"))?
            }
        };
        let start = self.bodies.map_or(line_end + 1, |bodies| bodies.next);
        let (end, next) = self.find_body(start, &delimiter, strips_tabs, expands)?;
        let parts = if expands { self.here_parts(start, end, strips_tabs)? } else { Vec::new() };
        self.notes.masks.push((Span { start, end: next }, Mask::Blank));
        self.bodies = Some(Bodies { line_end, next });
        Ok(Target::Here { delimiter, expands, parts })
    }

    /// Where the body ends, and where the line behind its delimiter begins.
    fn find_body(
        &self,
        start: usize,
        delimiter: &str,
        strips_tabs: bool,
        expands: bool,
    ) -> Result<(usize, usize)> {
        let mut at = start;
        let mut continues = false;
        let text = self.text.get(start..self.end).unwrap_or_default();
        for raw in text.split_inclusive('\n') {
            let line = raw.strip_suffix('\n').unwrap_or(raw);
            let line = if strips_tabs { line.trim_start_matches('\t') } else { line };
            if line == delimiter && !continues {
                return Ok((at, at + raw.len()));
            }
            // Inside a substitution bash also ends the body at the delimiter before a parenthesis,
            // and reads on from there.
            if line.starts_with(delimiter) && line.contains(')') {
                break;
            }
            let backslashes = line.bytes().rev().take_while(|b| *b == b'\\').count();
            continues = expands && backslashes % 2 == 1;
            // Joined lines could make the delimiter.
            if continues && delimiter.starts_with(line.get(..line.len() - 1).unwrap_or_default()) {
                break;
            }
            at += raw.len();
        }
        Err(self.refuse("a here-document has no clear end"))
    }

    fn here_parts(&mut self, start: usize, end: usize, strips_tabs: bool) -> Result<Vec<Part>> {
        let back = std::mem::replace(&mut self.at, start);
        let outer = self.bodies.take();
        let notes = std::mem::take(&mut self.notes);
        let parts = self.cut(end, |parser| parser.deeper(Parser::here_body))?;
        let of_body: Notes = std::mem::replace(&mut self.notes, notes);
        witness::agrees_about_body(self.text, &of_body, Span { start, end })?;
        if strips_tabs && parts.iter().any(|part| matches!(part, Part::Command(_))) {
            // The tabs are gone before the inner command is read, which may hold a document itself.
            let body = self.source(Span { start, end });
            if body.contains("<<") {
                return Err(self.refuse("a here-document without its tabs holds another"));
            }
        }
        self.bodies = outer;
        self.at = back;
        Ok(parts)
    }
}

/// Whether a part may hold a command.
fn runs_something(part: &Part) -> bool {
    match part {
        Part::Literal(_) | Part::Quoted(_) => false,
        Part::Double { parts, .. } => parts.iter().any(runs_something),
        Part::Parameter(parameter) => parameter.subscript.is_some() || parameter.operator.is_some(),
        Part::Command(_) | Part::Process { .. } | Part::Arithmetic(_) => true,
    }
}

/// The delimiter's text and whether the body is expanded, if it is plain.
fn delimiter_of(word: &Word) -> Option<(String, bool)> {
    let mut text = String::new();
    let mut expands = true;
    for part in &word.parts {
        match part {
            Part::Literal(piece) => text.push_str(piece),
            Part::Quoted(piece) => {
                expands = false;
                text.push_str(piece);
            }
            Part::Double { parts, translated: false } => {
                expands = false;
                match parts.as_slice() {
                    [] => {}
                    [Part::Literal(piece)] => text.push_str(piece),
                    [_, ..] => return None,
                }
            }
            Part::Double { translated: true, .. }
            | Part::Parameter(_)
            | Part::Command(_)
            | Part::Process { .. }
            | Part::Arithmetic(_) => return None,
        }
    }
    let plain = !text.is_empty() && !text.contains(['\n', '$', '`', '\\']);
    plain.then_some((text, expands))
}
