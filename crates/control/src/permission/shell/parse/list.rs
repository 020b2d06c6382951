//! Lists, `&&` and `||`, pipelines and what may stand before them. It decides where one command
//! ends and the next begins, never what is inside one.

use super::super::syntax::{Item, Joint, Pipeline, Script};
use super::{Mask, Parser, Result};

/// Words with a meaning of their own where a command may begin.
pub(super) const RESERVED: [&str; 22] = [
    "!", "{", "}", "[[", "]]", "if", "then", "elif", "else", "fi", "for", "case", "esac", "select", "while",
    "until", "do", "done", "in", "function", "time", "coproc",
];

/// Reserved words that end a list.
const CLOSERS: [&str; 8] = ["}", "then", "elif", "else", "fi", "esac", "do", "done"];

impl Parser<'_> {
    /// Reads commands until something closes the list; the closer is left standing.
    pub(super) fn script(&mut self) -> Result<Script> {
        self.newlines()?;
        let start = self.at;
        let mut items = Vec::new();
        while !self.at_closer()? {
            let mut item = self.item()?;
            self.blanks()?;
            let closes_arm = self.starts(";;") || self.starts(";&");
            let separated = match self.byte() {
                Some(b'\n') => true,
                Some(b';') if !closes_arm => self.take(";")?,
                Some(b'&') if !self.starts("&&") => {
                    item.background = self.take("&")?;
                    true
                }
                Some(_) | None => false,
            };
            items.push(item);
            if separated {
                self.newlines()?;
            } else if self.at_closer()? {
                break;
            } else {
                return Err(self.unexpected());
            }
        }
        Ok(Script { items, span: self.span_from(start) })
    }

    /// Reads a list that must not be empty.
    pub(super) fn full_script(&mut self) -> Result<Script> {
        let script = self.script()?;
        if script.items.is_empty() { Err(self.unexpected()) } else { Ok(script) }
    }

    /// The reserved word that stands here, whole.
    pub(super) fn reserved(&self) -> Option<&'static str> {
        let rest = self.rest();
        let length = rest.find(is_meta).unwrap_or(rest.len());
        let word = rest.get(..length)?;
        RESERVED.into_iter().find(|reserved| *reserved == word)
    }

    pub(super) fn take_reserved(&mut self, word: &str) -> Result<bool> {
        self.blanks()?;
        let found = self.reserved() == Some(word);
        if found {
            self.at += word.len();
        }
        Ok(found)
    }

    pub(super) fn expect_reserved(&mut self, word: &str) -> Result<()> {
        self.newlines()?;
        if self.take_reserved(word)? { Ok(()) } else { Err(self.refuse(&format!("'{word}' is missing"))) }
    }

    fn at_closer(&mut self) -> Result<bool> {
        self.blanks()?;
        Ok(match self.byte() {
            None | Some(b')') => true,
            Some(b';') => self.starts(";;") || self.starts(";&"),
            Some(_) => self.reserved().is_some_and(|word| CLOSERS.contains(&word)),
        })
    }

    fn item(&mut self) -> Result<Item> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.blanks()?;
            let joint = if self.take("&&")? {
                Joint::And
            } else if self.take("||")? {
                Joint::Or
            } else {
                return Ok(Item { first, rest, background: false });
            };
            self.newlines()?;
            rest.push((joint, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Result<Pipeline> {
        let (negated, timed) = self.pipeline_prefix()?;
        let mut stages = vec![self.command()?];
        loop {
            self.blanks()?;
            if self.starts("||") || !(self.take("|&")? || self.take("|")?) {
                return Ok(Pipeline { negated, timed, stages });
            }
            self.newlines()?;
            stages.push(self.command()?);
        }
    }

    fn pipeline_prefix(&mut self) -> Result<(bool, bool)> {
        let (mut negated, mut timed) = (false, false);
        loop {
            self.blanks()?;
            let start = self.at;
            if self.take_reserved("!")? {
                negated = !negated;
                self.mask(start, Mask::Blank);
            } else if self.take_reserved("time")? {
                timed = true;
                self.blanks()?;
                if self.starts("-p") && self.byte_after(2).is_some_and(|b| b == b' ' || b == b'\t') {
                    self.at += 2;
                }
                self.mask(start, Mask::Blank);
                self.blanks()?;
                if self.starts("-") {
                    return Err(self.refuse("'time' has an option that is not known"));
                }
            } else {
                return Ok((negated, timed));
            }
        }
    }
}

/// Whether a character ends an unquoted word.
pub(super) fn is_meta(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')
}
