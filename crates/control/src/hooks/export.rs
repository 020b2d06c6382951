//! Variables that hooks leave for later commands: lines as a shell would read them, of which only plain
//! assignments count. Nothing is ever run to find out a value, and values are never shown.

use std::{collections::BTreeMap, fmt};

/// What a hook wrote into its file of variables. Its content is nobody's to see.
#[derive(Clone, PartialEq, Eq)]
pub struct Exports(pub(super) String);

/// One thing a line can say.
enum Statement {
    Set(Vec<(String, String)>),
    Unset(String),
    /// It says nothing about variables that would count.
    Nothing,
}

/// A text being read; `None` from any step means that a statement is not understood.
struct Reader<'a> {
    rest: &'a str,
}

impl Exports {
    /// Applies the assignments, in order, to what later commands get; variables are looked up there first
    /// and then in `known`. Gives the numbers of the lines that were not understood.
    pub fn apply(&self, env: &mut BTreeMap<String, String>, known: &[(String, String)]) -> Vec<usize> {
        let mut odd = Vec::new();
        let mut rest = self.0.as_str();
        while !rest.is_empty() {
            let line = 1 + self.0[..self.0.len() - rest.len()].matches('\n').count();
            let mut reader = Reader { rest };
            let look_up = |name: &str| {
                let of_others = || known.iter().rfind(|(known, _)| known == name).map(|(_, value)| value);
                env.get(name).or_else(of_others).cloned().unwrap_or_default()
            };
            match reader.statement(&look_up) {
                Some(Statement::Set(values)) => env.extend(values),
                Some(Statement::Unset(name)) => drop(env.remove(&name)),
                Some(Statement::Nothing) => {}
                None => {
                    odd.push(line);
                    reader.rest = rest.split_once('\n').map_or("", |(_, below)| below);
                }
            }
            rest = reader.rest;
        }
        odd
    }
}

impl Reader<'_> {
    fn statement(&mut self, look_up: &dyn Fn(&str) -> String) -> Option<Statement> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r']);
        if let Some(below) = self.rest.strip_prefix(['\n', ';']) {
            self.rest = below;
            return Some(Statement::Nothing);
        }
        if self.rest.starts_with('#') {
            self.rest = self.rest.split_once('\n').map_or("", |(_, below)| below);
            return Some(Statement::Nothing);
        }
        if self.rest.is_empty() {
            return Some(Statement::Nothing);
        }
        if self.word("unset") {
            let name = self.name()?;
            self.end()?;
            return Some(Statement::Unset(name));
        }
        // Only where it is exported can one line set several; elsewhere a command would follow.
        let is_list = if self.word("declare") || self.word("typeset") {
            self.word("-x").then_some(true)?
        } else {
            self.word("export")
        };
        let mut values = Vec::new();
        loop {
            let name = self.name()?;
            if let Some(rest) = self.rest.strip_prefix('=') {
                self.rest = rest;
                values.push((name, self.value(look_up)?));
            } else if !is_list {
                return None;
            }
            if self.end().is_some() {
                return Some(Statement::Set(values));
            }
            is_list.then_some(())?;
        }
    }

    /// A word of its own, with the space behind it.
    fn word(&mut self, word: &str) -> bool {
        let Some(below) = self.rest.strip_prefix(word) else { return false };
        let trimmed = below.trim_start_matches([' ', '\t']);
        let is_whole = trimmed.len() < below.len();
        if is_whole {
            self.rest = trimmed;
        }
        is_whole
    }

    fn name(&mut self) -> Option<String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        self.rest = rest;
        is_name.then(|| name.to_owned())
    }

    /// What follows a statement on its line.
    fn end(&mut self) -> Option<()> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r']);
        (self.rest.is_empty() || self.rest.starts_with(['\n', ';', '#'])).then_some(())
    }

    fn take(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn value(&mut self, look_up: &dyn Fn(&str) -> String) -> Option<String> {
        let mut value = String::new();
        while let Some(next) = self.rest.chars().next() {
            match next {
                ' ' | '\t' | '\r' | '\n' | ';' => break,
                '\'' => {
                    let (quoted, below) = self.rest[1..].split_once('\'')?;
                    value.push_str(quoted);
                    self.rest = below;
                }
                '"' => self.double_quoted(&mut value, look_up)?,
                '\\' => {
                    self.take();
                    value.extend(self.take().filter(|escaped| *escaped != '\n'));
                }
                '$' => value.push_str(&self.variable(look_up)?),
                // What a shell would run, redirect or look for on the disk is not read.
                '`' | '(' | ')' | '&' | '|' | '<' | '>' | '*' | '?' | '[' | '{' => return None,
                '~' if value.is_empty() => return None,
                _ => value.extend(self.take()),
            }
        }
        Some(value)
    }

    fn double_quoted(&mut self, value: &mut String, look_up: &dyn Fn(&str) -> String) -> Option<()> {
        self.take();
        loop {
            match self.rest.chars().next()? {
                '"' => {
                    self.take();
                    return Some(());
                }
                '\\' => {
                    self.take();
                    match self.take()? {
                        escaped @ ('"' | '\\' | '$' | '`') => value.push(escaped),
                        '\n' => {}
                        other => value.extend(['\\', other]),
                    }
                }
                '$' => value.push_str(&self.variable(look_up)?),
                '`' => return None,
                _ => value.extend(self.take()),
            }
        }
    }

    /// `$NAME` or `${NAME}`; a dollar before anything else that is no name stands for itself.
    fn variable(&mut self, look_up: &dyn Fn(&str) -> String) -> Option<String> {
        self.take();
        let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
        if let Some(below) = self.rest.strip_prefix('{') {
            self.rest = below;
            let name = self.name()?;
            self.rest = self.rest.strip_prefix('}')?;
            return Some(look_up(&name));
        }
        match self.rest.chars().next() {
            Some(next) if is_start(next) => Some(look_up(&self.name()?)),
            None | Some(' ' | '"' | '\n' | '/' | ':' | '.' | ',' | '%') => Some("$".to_owned()),
            Some(_) => None,
        }
    }
}

impl fmt::Debug for Exports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exports({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn applied(text: &str) -> (BTreeMap<String, String>, Vec<usize>) {
        let mut env = BTreeMap::new();
        let known = [("PATH".to_owned(), "/bin".to_owned()), ("A".to_owned(), "a".to_owned())];
        let odd = Exports(text.to_owned()).apply(&mut env, &known);
        (env, odd)
    }

    #[track_caller]
    fn check(text: &str, expect: &[(&str, &str)], odd: &[usize]) {
        let expect = expect.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(applied(text), (expect, odd.to_vec()), "{text}");
    }

    #[test]
    fn plain_assignments_count_and_nothing_runs() {
        check("export A=b\nexport B='x y'\n", &[("A", "b"), ("B", "x y")], &[]);
        check("export PATH=\"$PATH:./node_modules/.bin\"", &[("PATH", "/bin:./node_modules/.bin")], &[]);
        check("PATH=/opt:$PATH\nexport PATH=\"${PATH}:/usr\"", &[("PATH", "/opt:/bin:/usr")], &[]);
        check("declare -x A=\"q\\\"u\\$o\"\n# note\n\nexport A\n", &[("A", "q\"u$o")], &[]);
        check("export A='two\nlines'; export B=c # why", &[("A", "two\nlines"), ("B", "c")], &[]);
        check("A=x\nunset A\nexport B=it\\'s", &[("B", "it's")], &[]);
        check(
            "export A=$(id)\nexport B=`id`\nexport C=d\nsource x\nexport D=*\nA=b c",
            &[("C", "d")],
            &[1, 2, 4, 5, 6],
        );
        check("export 1A=b\nexport BASH_FUNC_ls%%='() { id; }'\nexport A=\"open", &[], &[1, 2, 3]);
        check(
            "export LATE=\"$MISSING\"; export COST='$5' P=1",
            &[("LATE", ""), ("COST", "$5"), ("P", "1")],
            &[],
        );
    }

    #[test]
    fn values_are_not_shown() {
        assert!(!format!("{:?}", Exports("export KEY=hunter2".into())).contains("hunter2"));
    }

    proptest! {
        #[test]
        fn a_quoted_value_comes_back(value in "[^\u{0}]{0,40}") {
            let quoted = value.replace('\'', "'\\''");
            let (env, odd) = applied(&format!("export X='{quoted}'\nexport Y=1\n"));
            prop_assert_eq!((env.get("X"), odd.len()), (Some(&value), 0));
            prop_assert_eq!(env["Y"].as_str(), "1");
        }

        #[test]
        fn any_text_can_be_read(text in "([a-zA-Z_=$\"'\\\\{}`;# \n]|export |.){0,80}") {
            applied(&text);
        }
    }
}
