//! Compound commands: groups, conditions, loops, cases, functions and coprocesses, each with the
//! redirections behind it. Their insides are lists, read by the list reader.

use super::super::syntax::{Arithmetic, Arm, Branch, Command, Kind, Script, Word};
use super::dollar::Close;
use super::{Mask, Parser, Result};

impl Parser<'_> {
    /// Reads one command.
    pub(super) fn command(&mut self) -> Result<Command> {
        self.deeper(|parser| {
            parser.blanks()?;
            let start = parser.at;
            let Some(kind) = parser.compound()? else { return parser.simple() };
            let mut redirects = Vec::new();
            parser.blanks()?;
            while let Some(redirect) = parser.redirect()? {
                redirects.push(redirect);
                parser.blanks()?;
            }
            parser.hide(&redirects);
            Ok(Command { kind, redirects, span: parser.span_from(start) })
        })
    }

    /// Reads a function from its parentheses on.
    pub(super) fn function(&mut self, name: &str) -> Result<Kind> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_:.+-".contains(c);
        if name.is_empty() || !name.chars().all(plain) || super::list::RESERVED.contains(&name) {
            return Err(self.refuse("a function has a name that is not plain"));
        }
        self.blanks()?;
        if self.take("(")? {
            self.blanks()?;
            self.expect(")")?;
        }
        self.newlines()?;
        let body = self.command()?;
        match body.kind {
            Kind::Simple(_) | Kind::Function { .. } | Kind::Coprocess { .. } => Err(self.unexpected()),
            Kind::Group(_)
            | Kind::Subshell(_)
            | Kind::If { .. }
            | Kind::While { .. }
            | Kind::Until { .. }
            | Kind::For { .. }
            | Kind::Select { .. }
            | Kind::Count { .. }
            | Kind::Case { .. }
            | Kind::Test(_)
            | Kind::Arithmetic(_) => Ok(Kind::Function { name: name.to_owned(), body: Box::new(body) }),
        }
    }

    fn compound(&mut self) -> Result<Option<Kind>> {
        if self.starts("((") {
            self.at += 2;
            return self.arithmetic(Close::Parentheses).map(|inside| Some(Kind::Arithmetic(inside)));
        }
        if self.take("(")? {
            let script = self.full_script()?;
            self.expect(")")?;
            return Ok(Some(Kind::Subshell(script)));
        }
        let Some(word) = self.reserved() else { return Ok(None) };
        let start = self.at;
        self.at += word.len();
        let kind = match word {
            "{" => {
                let script = self.full_script()?;
                self.expect_reserved("}")?;
                Kind::Group(script)
            }
            "[[" => Kind::Test(self.test()?),
            "if" => self.condition()?,
            "while" => {
                let (condition, body) = self.repetition()?;
                Kind::While { condition, body }
            }
            "until" => {
                let (condition, body) = self.repetition()?;
                Kind::Until { condition, body }
            }
            "for" => self.counted()?,
            "select" => {
                let name = self.name()?;
                let (words, body) = self.over_words()?;
                Kind::Select { name, words, body }
            }
            "case" => self.case()?,
            "function" => {
                self.blanks()?;
                let word = self.word()?;
                let name = word.literal().unwrap_or_default().to_owned();
                self.function(&name)?
            }
            "coproc" => self.coprocess(start)?,
            _ => return Err(self.refuse(&format!("'{word}' is not expected here"))),
        };
        Ok(Some(kind))
    }

    fn condition(&mut self) -> Result<Kind> {
        let mut branches = Vec::new();
        loop {
            let condition = self.full_script()?;
            self.expect_reserved("then")?;
            branches.push(Branch { condition, body: self.full_script()? });
            if self.take_reserved("elif")? {
                continue;
            }
            let otherwise = if self.take_reserved("else")? { Some(self.full_script()?) } else { None };
            self.expect_reserved("fi")?;
            return Ok(Kind::If { branches, otherwise });
        }
    }

    fn repetition(&mut self) -> Result<(Script, Script)> {
        let condition = self.full_script()?;
        self.expect_reserved("do")?;
        let body = self.full_script()?;
        self.expect_reserved("done")?;
        Ok((condition, body))
    }

    /// Reads `do … done`, or `{ … }` where bash takes it instead.
    fn body(&mut self) -> Result<Script> {
        self.newlines()?;
        let closer = if self.take_reserved("{")? { "}" } else { "done" };
        if closer == "done" {
            self.expect_reserved("do")?;
        }
        let script = self.full_script()?;
        self.expect_reserved(closer)?;
        Ok(script)
    }

    fn name(&mut self) -> Result<String> {
        self.blanks()?;
        let word = self.word()?;
        match word.literal() {
            Some(name) if is_name(name) => Ok(name.to_owned()),
            Some(_) | None => Err(self.refuse("a loop has a variable that is not a plain name")),
        }
    }

    fn counted(&mut self) -> Result<Kind> {
        self.blanks()?;
        if !self.starts("((") {
            let name = self.name()?;
            let (words, body) = self.over_words()?;
            return Ok(Kind::For { name, words, body });
        }
        self.at += 2;
        let start = self.arithmetic(Close::Semicolon)?;
        let condition = self.arithmetic(Close::Semicolon)?;
        let step: Arithmetic = self.arithmetic(Close::Parentheses)?;
        self.blanks()?;
        self.take(";")?;
        Ok(Kind::Count { start, condition, step, body: self.body()? })
    }

    fn over_words(&mut self) -> Result<(Option<Vec<Word>>, Script)> {
        self.blanks()?;
        if self.take(";")? {
            return Ok((None, self.body()?));
        }
        self.newlines()?;
        if !self.take_reserved("in")? {
            return Ok((None, self.body()?));
        }
        let mut words = Vec::new();
        loop {
            self.blanks()?;
            match self.byte() {
                Some(b'\n') => break,
                Some(b';') => {
                    self.take(";")?;
                    break;
                }
                Some(_) => words.push(self.full_word()?),
                None => return Err(self.unexpected()),
            }
        }
        Ok((Some(words), self.body()?))
    }

    fn case(&mut self) -> Result<Kind> {
        self.blanks()?;
        let subject = self.full_word()?;
        self.expect_reserved("in")?;
        let mut arms = Vec::new();
        loop {
            self.newlines()?;
            if self.take_reserved("esac")? {
                return Ok(Kind::Case { subject, arms });
            }
            let patterns = self.patterns()?;
            let body = self.script()?;
            arms.push(Arm { patterns, body });
            let start = self.at;
            if self.take(";;&")? || self.take(";&")? {
                self.mask(start, Mask::Shown(";;"));
            } else if !self.take(";;")? {
                self.expect_reserved("esac")?;
                return Ok(Kind::Case { subject, arms });
            }
        }
    }

    fn patterns(&mut self) -> Result<Vec<Word>> {
        let parenthesis = self.take("(")?;
        let mut patterns = Vec::new();
        loop {
            self.blanks()?;
            if parenthesis && patterns.is_empty() && self.reserved() == Some("esac") {
                return Err(self.unexpected());
            }
            patterns.push(self.full_word()?);
            self.blanks()?;
            if self.take(")")? {
                return Ok(patterns);
            }
            self.expect("|")?;
        }
    }

    fn coprocess(&mut self, start: usize) -> Result<Kind> {
        self.mask(start, Mask::Blank);
        self.blanks()?;
        let name = self.coprocess_name()?;
        let body = self.command()?;
        // Bash reads a second word as if a command could begin there.
        let is_odd = match &body.kind {
            Kind::Coprocess { .. } | Kind::Function { .. } => true,
            Kind::Simple(plain) => plain.words.len() > 1,
            Kind::Group(_)
            | Kind::Subshell(_)
            | Kind::If { .. }
            | Kind::While { .. }
            | Kind::Until { .. }
            | Kind::For { .. }
            | Kind::Select { .. }
            | Kind::Count { .. }
            | Kind::Case { .. }
            | Kind::Test(_)
            | Kind::Arithmetic(_) => false,
        };
        if is_odd {
            return Err(self.refuse("a coprocess is written in an unusual way"));
        }
        Ok(Kind::Coprocess { name, body: Box::new(body) })
    }

    fn coprocess_name(&mut self) -> Result<Option<String>> {
        let at_compound = |parser: &Self| parser.starts("(") || parser.reserved().is_some();
        if at_compound(self) {
            return Ok(None);
        }
        let start = self.at;
        let length = self.rest().find(super::list::is_meta).unwrap_or(self.rest().len());
        let name = self.rest().get(..length).unwrap_or_default().to_owned();
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c)) {
            return Err(self.refuse("a coprocess is written in an unusual way"));
        }
        self.at += length;
        self.blanks()?;
        // A name is one only before a compound command; else it is the command itself.
        if !at_compound(self) {
            self.at = start;
            return Ok(None);
        }
        if !is_name(&name) {
            return Err(self.unexpected());
        }
        self.at = start + length;
        self.mask(start, Mask::Blank);
        Ok(Some(name))
    }
}

/// Whether a text can name a variable.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
