//! The inside of `[[ ]]`, with the grammar of bash's own reader for it. Operands are words; what they
//! mean is left to the walker.

use super::super::syntax::{Part, Test, Word};
use super::{Parser, Result};

const UNARY: &str = "abcdefghknoprstuvwxzGLNORS";
const BINARY: [&str; 13] =
    ["=", "==", "!=", "=~", "-ot", "-nt", "-ef", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

impl Parser<'_> {
    /// Reads a test up to and with its `]]`.
    pub(super) fn test(&mut self) -> Result<Test> {
        let test = self.either()?;
        self.newlines()?;
        if self.take_reserved("]]")? { Ok(test) } else { Err(self.refuse("']]' is missing")) }
    }

    fn either(&mut self) -> Result<Test> {
        let mut left = self.both()?;
        loop {
            self.newlines()?;
            if !self.take("||")? {
                return Ok(left);
            }
            left = Test::Either(Box::new(left), Box::new(self.both()?));
        }
    }

    fn both(&mut self) -> Result<Test> {
        let mut left = self.term()?;
        loop {
            self.newlines()?;
            if !self.take("&&")? {
                return Ok(left);
            }
            left = Test::Both(Box::new(left), Box::new(self.term()?));
        }
    }

    fn term(&mut self) -> Result<Test> {
        self.deeper(|parser| {
            parser.newlines()?;
            if parser.take("(")? {
                let test = parser.either()?;
                parser.newlines()?;
                parser.expect(")")?;
                return Ok(test);
            }
            if parser.take_reserved("!")? {
                return Ok(Test::Not(Box::new(parser.term()?)));
            }
            let first = parser.operand()?;
            if let Some(operator) = first.literal().filter(|text| is_unary(text)).map(str::to_owned) {
                parser.blanks()?;
                return Ok(Test::Unary { operator, operand: parser.operand()? });
            }
            parser.blanks()?;
            parser.comparison(first)
        })
    }

    fn comparison(&mut self, left: Word) -> Result<Test> {
        for operator in ["<", ">"] {
            if self.take(operator)? {
                self.blanks()?;
                return Ok(Test::Binary { left, operator: operator.to_owned(), right: self.operand()? });
            }
        }
        let ends = self.starts("&&")
            || self.starts("||")
            || self.byte() == Some(b')')
            || self.reserved() == Some("]]");
        if ends {
            return Ok(Test::Unary { operator: "-n".to_owned(), operand: left });
        }
        let operator = self.operand()?.literal().unwrap_or_default().to_owned();
        if !BINARY.contains(&operator.as_str()) {
            return Err(self.refuse("a test has an operator that is not known"));
        }
        self.blanks()?;
        let right = if operator == "=~" { self.expression()? } else { self.operand()? };
        Ok(Test::Binary { left, operator, right })
    }

    fn operand(&mut self) -> Result<Word> {
        if self.reserved() == Some("]]") || matches!(self.byte(), Some(b'<' | b'>')) {
            return Err(self.unexpected());
        }
        self.full_word()
    }

    /// Reads a regular expression, in which parentheses and bars are text.
    fn expression(&mut self) -> Result<Word> {
        let start = self.at;
        let mut parts = Vec::new();
        let mut open = 0_usize;
        loop {
            match self.byte() {
                Some(b'(') => {
                    open += 1;
                    self.plain(&mut parts);
                }
                Some(b')') if open > 0 => {
                    open -= 1;
                    self.plain(&mut parts);
                }
                Some(b'|') if open > 0 => self.plain(&mut parts),
                Some(b' ' | b'\t' | b'\n') if open == 0 => break,
                None | Some(b' ' | b'\t' | b'\n' | b'|' | b')' | b'&' | b';' | b'<' | b'>') => {
                    return Err(self.refuse("a regular expression is written in an unusual way"));
                }
                Some(_) => self.unquoted(&mut parts)?,
            }
        }
        if parts.is_empty() || parts.as_slice() == [Part::Literal("]]".to_owned())] {
            return Err(self.unexpected());
        }
        Ok(Word { parts, span: self.span_from(start) })
    }
}

fn is_unary(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|letter| letter.len() == 1 && UNARY.contains(letter))
}
