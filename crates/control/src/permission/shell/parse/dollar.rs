//! What begins with a dollar or a backquote: parameters, substitutions and arithmetic. Every command
//! inside becomes part of the tree; a form that is not known is refused.

use super::super::syntax::{Arithmetic, Operator, Parameter, Part, Script, Span};
use super::compound::is_name;
use super::{Mask, Parser, Result, parse_within};

/// Whether double quotes are around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    None,
    Double,
}

/// What ends an arithmetic text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Close {
    /// `))`
    Parentheses,
    /// `]`
    Bracket,
    /// `;`, in `for ((…;…;…))`
    Semicolon,
}

/// What `${name…}` may do, longest first.
const OPERATORS: [&str; 22] = [
    ":-", ":=", ":?", ":+", "##", "%%", "//", "/#", "/%", "^^", ",,", "-", "=", "?", "+", "#", "%", "/", "^",
    ",", "@", ":",
];

impl Parser<'_> {
    /// Reads what a dollar begins.
    pub(super) fn dollar(&mut self, quote: Quote, parts: &mut Vec<Part>) -> Result<()> {
        let next = self.byte_after(1);
        let part = match next {
            Some(b'\\') if self.byte_after(2) == Some(b'\n') => {
                return Err(self.refuse("a line continuation stands behind a dollar"));
            }
            Some(b'\'') if quote == Quote::None => {
                self.at += 1;
                self.ansi()?
            }
            Some(b'"') if quote == Quote::None => {
                self.at += 1;
                self.double(true)?
            }
            Some(b'(') if self.byte_after(2) == Some(b'(') => {
                self.at += 3;
                Part::Arithmetic(self.deeper(|parser| parser.arithmetic(Close::Parentheses))?)
            }
            Some(b'(') => {
                self.at += 2;
                if self.starts("\\\n") {
                    return Err(self.refuse("a line continuation stands behind a parenthesis"));
                }
                Part::Command(self.substituted()?)
            }
            Some(b'[') => {
                self.at += 2;
                Part::Arithmetic(self.deeper(|parser| parser.arithmetic(Close::Bracket))?)
            }
            Some(b'{') => {
                self.at += 2;
                Part::Parameter(self.deeper(|parser| parser.braced(quote))?)
            }
            Some(byte) if byte == b'_' || byte.is_ascii_alphanumeric() || b"@*#?-$!".contains(&byte) => {
                self.at += 1;
                let name = self.parameter_name(false)?;
                Part::Parameter(Parameter {
                    name,
                    braced: false,
                    indirect: false,
                    length: false,
                    subscript: None,
                    operator: None,
                })
            }
            Some(_) | None => {
                self.plain(parts);
                return Ok(());
            }
        };
        parts.push(part);
        Ok(())
    }

    /// Reads `<(…)` or `>(…)`.
    pub(super) fn process(&mut self, reads: bool) -> Result<Part> {
        self.at += 2;
        Ok(Part::Process { reads, script: self.substituted()? })
    }

    /// Reads a list up to the parenthesis that closes it.
    fn substituted(&mut self) -> Result<Script> {
        self.enclosed(|parser| {
            let script = parser.script()?;
            if parser.byte() != Some(b')') {
                return Err(parser.refuse("a substitution is not closed"));
            }
            parser.at += 1;
            Ok(script)
        })
    }

    /// Reads a command between backquotes.
    pub(super) fn backquotes(&mut self, quote: Quote) -> Result<Part> {
        let start = self.at + 1;
        let Some(end) = closing_backquote(self.text, start, self.end) else {
            return Err(self.refuse("a backquote is not closed"));
        };
        let raw = self.text.get(start..end).unwrap_or_default();
        let script = if raw.contains('\\') {
            let text = without_escapes(raw, quote);
            self.notes.masks.push((Span { start: start - 1, end: end + 1 }, Mask::Word));
            self.deeper(|parser| parse_within(&text, parser.budget))?
        } else {
            self.at = start;
            let script = self.cut(end, |parser| parser.enclosed(Parser::script))?;
            if self.at != end {
                return Err(self.unexpected());
            }
            script
        };
        self.at = end + 1;
        Ok(Part::Command(script))
    }

    /// Reads arithmetic up to what closes it.
    pub(super) fn arithmetic(&mut self, close: Close) -> Result<Arithmetic> {
        let mut parts = Vec::new();
        let mut open = 0_usize;
        loop {
            match self.byte() {
                None => return Err(self.refuse("arithmetic is not closed")),
                Some(b')') if open == 0 && close != Close::Bracket => {
                    if close == Close::Semicolon || self.byte_after(1) != Some(b')') {
                        return Err(self.refuse("parentheses could be arithmetic or a subshell"));
                    }
                    self.at += 2;
                    return Ok(Arithmetic { parts });
                }
                Some(b';') if open == 0 && close == Close::Semicolon => {
                    self.at += 1;
                    return Ok(Arithmetic { parts });
                }
                Some(b']') if open == 0 && close == Close::Bracket => {
                    self.at += 1;
                    return Ok(Arithmetic { parts });
                }
                Some(b'\'' | b'"' | b'\\' | b';' | b'{' | b'}' | b'`') => {
                    return Err(self.refuse("arithmetic is written in an unusual way"));
                }
                Some(b'$') => self.dollar(Quote::Double, &mut parts)?,
                Some(byte) => {
                    match byte {
                        b'(' | b'[' => open += 1,
                        b')' | b']' => {
                            open = open.checked_sub(1).ok_or_else(|| self.unexpected())?;
                        }
                        _ => {}
                    }
                    self.plain(&mut parts);
                }
            }
        }
    }

    /// Reads `[…]` behind a name.
    pub(super) fn subscript(&mut self) -> Result<Vec<Part>> {
        self.at += 1;
        let mut parts = Vec::new();
        loop {
            match self.byte() {
                None | Some(b'\n' | b'[' | b'<' | b'>') => {
                    return Err(self.refuse("a subscript is written in an unusual way"));
                }
                Some(b']') => {
                    self.at += 1;
                    return Ok(parts);
                }
                Some(_) => self.unquoted(&mut parts)?,
            }
        }
    }

    fn parameter_name(&mut self, braced: bool) -> Result<String> {
        let rest = self.rest();
        let first = rest.chars().next().ok_or_else(|| self.unexpected())?;
        let length = if first.is_ascii_digit() {
            if braced { rest.bytes().take_while(u8::is_ascii_digit).count() } else { 1 }
        } else if is_name(&first.to_string()) {
            rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()
        } else if "@*#?-$!".contains(first) {
            1
        } else {
            return Err(self.refuse("a parameter expansion has no name"));
        };
        let name = rest.get(..length).unwrap_or_default().to_owned();
        self.at += length;
        Ok(name)
    }

    /// Reads `${…}` behind its brace.
    fn braced(&mut self, quote: Quote) -> Result<Parameter> {
        let is_letter = |byte: Option<u8>| byte.is_some_and(|b| b == b'_' || b.is_ascii_alphanumeric());
        let before_list = matches!(self.byte_after(1), Some(b'@' | b'*')) && self.byte_after(2) == Some(b'}');
        let length = self.byte() == Some(b'#') && (is_letter(self.byte_after(1)) || before_list);
        let indirect = self.byte() == Some(b'!') && is_letter(self.byte_after(1));
        if length || indirect {
            self.at += 1;
        }
        let name = self.parameter_name(true)?;
        let subscript = if self.byte() == Some(b'[') { Some(self.subscript()?) } else { None };
        let operator = if self.byte() == Some(b'}') { None } else { Some(self.operator(indirect, quote)?) };
        if self.byte() != Some(b'}') || (length && operator.is_some()) {
            return Err(self.refuse("a parameter expansion is written in an unusual way"));
        }
        self.at += 1;
        Ok(Parameter { name, braced: true, indirect, length, subscript, operator })
    }

    fn operator(&mut self, indirect: bool, quote: Quote) -> Result<Operator> {
        let lists_names = indirect && self.starts("*}");
        let found = OPERATORS.into_iter().find(|operator| self.starts(operator));
        let Some(symbol) = found.or(lists_names.then_some("*")) else {
            return Err(self.refuse("a parameter expansion is written in an unusual way"));
        };
        self.at += symbol.len();
        let mut operand = Vec::new();
        loop {
            match self.byte() {
                None => return Err(self.refuse("a parameter expansion is not closed")),
                Some(b'}') => return Ok(Operator { symbol: symbol.to_owned(), operand }),
                // Where these end depends on more than is worth knowing.
                Some(b'{') => return Err(self.refuse("a brace stands in a parameter expansion")),
                Some(b'\'') if quote == Quote::Double => {
                    return Err(self.refuse("a single quote stands in a quoted parameter expansion"));
                }
                Some(b'<' | b'>') if self.byte_after(1) == Some(b'(') => {
                    return Err(self.refuse("a process substitution stands in a parameter expansion"));
                }
                Some(b'$') => self.dollar(quote, &mut operand)?,
                Some(b'`') => operand.push(self.backquotes(quote)?),
                Some(_) => self.unquoted(&mut operand)?,
            }
        }
    }
}

fn closing_backquote(text: &str, start: usize, end: usize) -> Option<usize> {
    let mut bytes = text.as_bytes().get(start..end)?.iter().enumerate();
    while let Some((offset, byte)) = bytes.next() {
        match byte {
            b'`' => return Some(start + offset),
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
    None
}

/// The text as the inner shell sees it.
fn without_escapes(raw: &str, quote: Quote) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = |next: &char| "$`\\".contains(*next) || (*next == '"' && quote == Quote::Double);
        match chars.next_if(|next| c == '\\' && escaped(next)) {
            Some(next) => text.push(next),
            None => text.push(c),
        }
    }
    text
}
