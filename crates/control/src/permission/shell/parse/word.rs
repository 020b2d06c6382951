//! Words and quotes. It takes quoting off exactly as bash does and keeps which text was quoted;
//! it expands nothing.

use super::super::syntax::{Part, Word};
use super::dollar::Quote;
use super::list::is_meta;
use super::{Mask, Parser, Result};

impl Parser<'_> {
    /// Whether a word can begin here.
    pub(super) fn at_word(&self) -> bool {
        match self.rest().chars().next() {
            Some('<' | '>') => self.byte_after(1) == Some(b'('),
            Some(c) => !is_meta(c),
            None => false,
        }
    }

    /// Reads a word that must be there.
    pub(super) fn full_word(&mut self) -> Result<Word> {
        if !self.at_word() {
            return Err(self.unexpected());
        }
        let word = self.word()?;
        self.is_no_descriptor(&word)?;
        Ok(word)
    }

    /// Refuses a word right before a redirection that would belong to it, so that a word is missing.
    pub(super) fn is_no_descriptor(&self, word: &Word) -> Result<()> {
        let is_descriptor = |text: &str| {
            text.bytes().all(|b| b.is_ascii_digit()) || (text.starts_with('{') && text.ends_with('}'))
        };
        let taken = matches!(self.byte(), Some(b'<' | b'>')) && word.literal().is_some_and(is_descriptor);
        if taken { Err(self.unexpected()) } else { Ok(()) }
    }

    /// Reads a word, which may be empty.
    pub(super) fn word(&mut self) -> Result<Word> {
        let start = self.at;
        let mut parts = Vec::new();
        while let Some(byte) = self.byte() {
            match byte {
                b'<' | b'>' if self.byte_after(1) == Some(b'(') => {
                    if self.at != start {
                        return Err(self.refuse("a process substitution begins inside a word"));
                    }
                    parts.push(self.process(byte == b'<')?);
                }
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' => break,
                _ => self.unquoted(&mut parts)?,
            }
        }
        if parts.is_empty() && self.at != start {
            return Err(self.refuse("a word is only a line continuation"));
        }
        Ok(Word { parts, span: self.span_from(start) })
    }

    /// Reads one piece of unquoted text.
    pub(super) fn unquoted(&mut self, parts: &mut Vec<Part>) -> Result<()> {
        match self.byte() {
            Some(b'\\') => {
                if self.byte_after(1) == Some(b'\n') {
                    return self.continuation();
                }
                self.at += 1;
                let escaped = self.next_char().ok_or_else(|| self.refuse("it ends in a backslash"))?;
                parts.push(Part::Quoted(escaped.to_string()));
            }
            Some(b'\'') => parts.push(self.single()?),
            Some(b'"') => parts.push(self.double(false)?),
            Some(b'$') => self.dollar(Quote::None, parts)?,
            Some(b'`') => parts.push(self.backquotes(Quote::None)?),
            Some(_) | None => self.plain(parts),
        }
        Ok(())
    }

    /// Takes one character as literal text.
    pub(super) fn plain(&mut self, parts: &mut Vec<Part>) {
        if let Some(c) = self.next_char() {
            push_literal(parts, c);
        }
    }

    /// Reads `"…"` from its first quote on.
    pub(super) fn double(&mut self, translated: bool) -> Result<Part> {
        self.deeper(|parser| {
            parser.at += 1;
            let mut parts = Vec::new();
            loop {
                match parser.byte() {
                    None => return Err(parser.refuse("a double quote is not closed")),
                    Some(b'"') => break,
                    Some(_) => parser.in_double(&mut parts, b"$`\"\\")?,
                }
            }
            parser.at += 1;
            Ok(Part::Double { parts, translated })
        })
    }

    /// Reads the body of a here-document that is expanded; quotes mean nothing in it.
    pub(super) fn here_body(&mut self) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        while self.byte().is_some() {
            let start = self.at;
            let is_text = !matches!(self.byte(), Some(b'$' | b'`'));
            self.in_double(&mut parts, b"$`\\")?;
            if is_text {
                self.mask(start, Mask::Blank);
            }
        }
        Ok(parts)
    }

    /// Reads one piece of text in double quotes; `escapable` is what a backslash takes the meaning from.
    fn in_double(&mut self, parts: &mut Vec<Part>, escapable: &[u8]) -> Result<()> {
        match self.byte() {
            Some(b'$') => self.dollar(Quote::Double, parts)?,
            Some(b'`') => parts.push(self.backquotes(Quote::Double)?),
            Some(b'\\') => match self.byte_after(1) {
                Some(b'\n') => self.at += 2,
                Some(next) if escapable.contains(&next) => {
                    self.at += 1;
                    self.plain(parts);
                }
                Some(_) => {
                    self.plain(parts);
                    self.plain(parts);
                }
                None => self.plain(parts),
            },
            Some(_) | None => self.plain(parts),
        }
        Ok(())
    }

    pub(super) fn single(&mut self) -> Result<Part> {
        self.at += 1;
        let Some(length) = self.rest().find('\'') else {
            return Err(self.refuse("a single quote is not closed"));
        };
        let text = self.rest().get(..length).unwrap_or_default().to_owned();
        self.at += length + 1;
        Ok(Part::Quoted(text))
    }

    /// Reads `$'…'` from its quote on.
    pub(super) fn ansi(&mut self) -> Result<Part> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.next_char() {
                None => return Err(self.refuse("a quote is not closed")),
                Some('\'') => break,
                Some('\\') => self.ansi_escape(&mut bytes)?,
                Some(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        // Bash ends the text at a NUL; and text that is not Unicode has no name here.
        let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        text.map(Part::Quoted).ok_or_else(|| self.refuse("a quoted text is not plain Unicode"))
    }

    fn ansi_escape(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        let Some(c) = self.next_char() else { return Err(self.refuse("a quote is not closed")) };
        let byte = match c {
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '?' => c as u8,
            '0'..='7' => {
                self.at -= 1;
                self.digits(8, 3).and_then(|value| u8::try_from(value & 0xff).ok()).unwrap_or(0)
            }
            'x' => match self.digits(16, 2).and_then(|value| u8::try_from(value).ok()) {
                Some(byte) => byte,
                None => return Err(self.refuse("a quoted text has an escape that is not known")),
            },
            // What these give depends on the locale, or on rules nobody remembers.
            _ => return Err(self.refuse("a quoted text has an escape that is not known")),
        };
        bytes.push(byte);
        Ok(())
    }

    fn digits(&mut self, radix: u32, most: usize) -> Option<u32> {
        let length = self.rest().bytes().take(most).take_while(|b| char::from(*b).is_digit(radix)).count();
        let digits = self.rest().get(..length)?;
        let value = u32::from_str_radix(digits, radix).ok();
        self.at += length;
        value
    }
}

fn push_literal(parts: &mut Vec<Part>, c: char) {
    if let Some(Part::Literal(text)) = parts.last_mut() {
        text.push(c);
    } else {
        parts.push(Part::Literal(c.to_string()));
    }
}
