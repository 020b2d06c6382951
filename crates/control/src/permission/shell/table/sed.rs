//! Reads a script of sed and says which files it reads and writes. Proves, never guesses: a command it
//! does not know, or that two versions of sed would read differently, is a problem.

use crate::permission::shell::facts::How;
use std::{iter::Peekable, str::Chars};

/// The files a script touches by itself, or why it may do more.
pub(super) fn read(script: &str) -> Result<Vec<(How, String)>, String> {
    let files = Script::new(script, Brackets::Quote).read().map_err(|trouble| trouble.to_text())?;
    // Older versions take a delimiter inside brackets for the end; then the rest is commands.
    match Script::new(script, Brackets::Plain).read() {
        Ok(other) if other == files => Ok(files),
        Err(Trouble::Broken) => Ok(files),
        Ok(_) | Err(Trouble::Runs(_)) => Err("versions of sed read this script differently".to_owned()),
    }
}

/// Whether a delimiter inside `[]` ends a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Brackets {
    Quote,
    Plain,
}

#[derive(Debug)]
enum Trouble {
    /// No sed would run it.
    Broken,
    /// It may do more than edit the stream.
    Runs(String),
}

type Found<T> = Result<T, Trouble>;

struct Script<'a> {
    rest: Peekable<Chars<'a>>,
    brackets: Brackets,
    open: usize,
    files: Vec<(How, String)>,
}

impl Trouble {
    fn to_text(&self) -> String {
        match self {
            Self::Broken => "its script is not understood".to_owned(),
            Self::Runs(why) => why.clone(),
        }
    }
}

impl<'a> Script<'a> {
    fn new(text: &'a str, brackets: Brackets) -> Self {
        Self { rest: text.chars().peekable(), brackets, open: 0, files: Vec::new() }
    }

    fn read(mut self) -> Found<Vec<(How, String)>> {
        loop {
            self.skip(|c| c.is_whitespace() || c == ';');
            if self.rest.peek().is_none() {
                return if self.open == 0 { Ok(self.files) } else { Err(Trouble::Broken) };
            }
            self.addresses()?;
            self.command()?;
        }
    }

    fn skip(&mut self, what: impl Fn(char) -> bool) {
        while self.rest.next_if(|c| what(*c)).is_some() {}
    }

    fn spaces(&mut self) {
        self.skip(|c| c == ' ' || c == '\t');
    }

    /// `1`, `$`, `/x/I`, `\,x,`, `1,5`, `/x/,+3`, `0~4`, and a `!` behind them.
    fn addresses(&mut self) -> Found<()> {
        if self.address()? {
            self.spaces();
            if self.rest.next_if_eq(&',').is_some() {
                self.spaces();
                let counted = self.rest.next_if(|c| matches!(c, '+' | '~')).is_some();
                if !self.address()? || (counted && self.rest.peek().is_none()) {
                    return Err(Trouble::Broken);
                }
            }
        }
        self.skip(|c| matches!(c, ' ' | '\t' | '!'));
        Ok(())
    }

    fn address(&mut self) -> Found<bool> {
        match self.rest.peek().copied() {
            Some('$') => {
                self.rest.next();
            }
            Some(c) if c.is_ascii_digit() => {
                self.skip(|c| c.is_ascii_digit());
                if self.rest.next_if_eq(&'~').is_some() {
                    self.skip(|c| c.is_ascii_digit());
                }
            }
            Some('/') => {
                self.rest.next();
                self.pattern('/')?;
                self.skip(|c| matches!(c, 'I' | 'M'));
            }
            Some('\\') => {
                self.rest.next();
                let delimiter = self.rest.next().ok_or(Trouble::Broken)?;
                self.pattern(delimiter)?;
                self.skip(|c| matches!(c, 'I' | 'M'));
            }
            Some(_) | None => return Ok(false),
        }
        Ok(true)
    }

    fn command(&mut self) -> Found<()> {
        let Some(letter) = self.rest.next() else { return Err(Trouble::Broken) };
        match letter {
            '{' => self.open += 1,
            '}' => {
                self.open = self.open.checked_sub(1).ok_or(Trouble::Broken)?;
                self.end()?;
            }
            '#' => self.skip(|c| c != '\n'),
            '=' | 'd' | 'D' | 'F' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' => {
                self.end()?;
            }
            'q' | 'Q' | 'l' | 'L' => {
                self.spaces();
                self.skip(|c| c.is_ascii_digit());
                self.end()?;
            }
            ':' | 'b' | 't' | 'T' => self.label()?,
            'a' | 'i' | 'c' => self.text()?,
            's' => self.substitute()?,
            'y' => {
                let delimiter = self.delimiter()?;
                self.replacement(delimiter)?;
                self.replacement(delimiter)?;
                self.end()?;
            }
            'r' | 'R' => self.file(How::Read)?,
            'w' | 'W' => self.file(How::Write)?,
            'e' => return Err(Trouble::Runs("its script runs a command (e)".to_owned())),
            other => {
                return Err(Trouble::Runs(format!("its script has a command '{other}' that is not known")));
            }
        }
        Ok(())
    }

    /// Nothing more may stand behind a command.
    fn end(&mut self) -> Found<()> {
        self.spaces();
        match self.rest.peek() {
            None | Some('\n' | ';' | '}' | '#') => Ok(()),
            Some(_) => Err(Trouble::Broken),
        }
    }

    fn label(&mut self) -> Found<()> {
        self.spaces();
        // A version that takes `;` for a part of the label sees fewer commands than are read here.
        self.skip(|c| c.is_alphanumeric() || c == '_' || c == '-');
        self.spaces();
        match self.rest.peek() {
            None | Some('\n' | ';' | '}') => Ok(()),
            Some(_) => Err(Trouble::Runs("a label of its script is not understood".to_owned())),
        }
    }

    /// `a text` on one line. What has a backslash is read differently by different versions.
    fn text(&mut self) -> Found<()> {
        let mut line = String::new();
        while let Some(c) = self.rest.next_if(|c| *c != '\n') {
            line.push(c);
        }
        if line.contains('\\') || line.trim().is_empty() {
            return Err(Trouble::Runs("a text in its script is not understood".to_owned()));
        }
        Ok(())
    }

    fn substitute(&mut self) -> Found<()> {
        let delimiter = self.delimiter()?;
        self.pattern(delimiter)?;
        self.replacement(delimiter)?;
        loop {
            match self.rest.peek().copied() {
                Some('g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9') => {
                    self.rest.next();
                }
                Some('e') => {
                    return Err(Trouble::Runs("its script runs what it has put together (s///e)".to_owned()));
                }
                Some('w') => {
                    self.rest.next();
                    return self.file(How::Write);
                }
                Some(_) | None => return self.end(),
            }
        }
    }

    fn delimiter(&mut self) -> Found<char> {
        match self.rest.next() {
            Some(c) if c != '\\' && c != '\n' => Ok(c),
            Some(_) | None => Err(Trouble::Broken),
        }
    }

    /// A regular expression up to its delimiter.
    fn pattern(&mut self, delimiter: char) -> Found<()> {
        loop {
            match self.rest.next().ok_or(Trouble::Broken)? {
                c if c == delimiter => return Ok(()),
                '\\' => {
                    self.rest.next().ok_or(Trouble::Broken)?;
                }
                '\n' => return Err(Trouble::Broken),
                '[' if self.brackets == Brackets::Quote => self.bracket()?,
                _ => {}
            }
        }
    }

    /// The rest of `[...]`, in which a first `]` counts as itself.
    fn bracket(&mut self) -> Found<()> {
        self.rest.next_if_eq(&'^');
        self.rest.next_if_eq(&']');
        loop {
            match self.rest.next().ok_or(Trouble::Broken)? {
                ']' => return Ok(()),
                '\n' => return Err(Trouble::Broken),
                '[' => {
                    if let Some(class) = self.rest.next_if(|c| matches!(c, ':' | '.' | '=')) {
                        self.class(class)?;
                    }
                }
                _ => {}
            }
        }
    }

    fn class(&mut self, mark: char) -> Found<()> {
        loop {
            let c = self.rest.next().ok_or(Trouble::Broken)?;
            if c == mark && self.rest.next_if_eq(&']').is_some() {
                return Ok(());
            }
        }
    }

    fn replacement(&mut self, delimiter: char) -> Found<()> {
        loop {
            match self.rest.next().ok_or(Trouble::Broken)? {
                c if c == delimiter => return Ok(()),
                '\\' => {
                    self.rest.next().ok_or(Trouble::Broken)?;
                }
                _ => {}
            }
        }
    }

    /// A file name, which goes up to the end of the line.
    fn file(&mut self, how: How) -> Found<()> {
        self.spaces();
        let mut name = String::new();
        while let Some(c) = self.rest.next_if(|c| *c != '\n') {
            name.push(c);
        }
        if name.is_empty() {
            return Err(Trouble::Broken);
        }
        self.files.push((how, name));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(script: &str, expected: &str) {
        let found = match read(script) {
            Ok(files) if files.is_empty() => "pure".to_owned(),
            Ok(files) => {
                files.iter().map(|(how, name)| format!("{how:?} {name}")).collect::<Vec<_>>().join(", ")
            }
            Err(_) => "asks".to_owned(),
        };
        assert_eq!(found, expected, "{script}");
    }

    #[test]
    fn ordinary_scripts_are_proved() {
        for script in [
            "1,20p",
            "$p",
            "5q",
            "/re/p",
            "/a/,/b/d",
            "s/a/b/g",
            "s|a|b|gp",
            "/^$/d",
            "1~2p",
            "/a/,+3p",
            "10,20!d",
            "s/[^/]*$//",
            "s,/$,,",
            "y/abc/xyz/",
            "$!N;P;D",
            "/x/{s/a/b/;p}",
            "/x/{s/a/b/;p;}",
            ":a;N;$!ba;s/\\n/ /g",
            "s/\\(a\\)\\/b/\\1/2",
            "=",
            "s/^[[:space:]]*//",
            "/fn main/,/^}/p",
            "a text without end",
            "# note\np",
            "s/x/write me/",
            "1!G;h;$!d",
            "\\,a,p",
            "/a/I,/b/Id",
            "s/a/e;w x/",
            "s/[]/]/x/",
        ] {
            check(script, "pure");
        }
    }

    #[test]
    fn what_leaves_the_stream_is_found() {
        for (script, expected) in [
            ("w out", "Write out"),
            ("s/a/b/w out", "Write out"),
            ("s/a/b/gw out;p", "Write out;p"),
            ("r in", "Read in"),
            ("1e id", "asks"),
            ("e", "asks"),
            ("s/a/id/e", "asks"),
            ("s/a/b/ge", "asks"),
            ("s/a/b/;e", "asks"),
            ("v", "asks"),
            ("p;}", "asks"),
            ("{p", "asks"),
            ("s/a/b", "asks"),
            ("a\\", "asks"),
            ("a\\\nid\ne", "asks"),
            ("a x\\\ne", "asks"),
            (":a e", "asks"),
            ("s/[/]e/w x/", "asks"),
            ("1,p", "asks"),
            ("\u{e9}", "asks"),
        ] {
            check(script, expected);
        }
    }
}
