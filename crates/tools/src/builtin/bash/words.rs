//! A plain reading of command lines: what programs they name, when nothing stands in the way of knowing. It
//! serves advice and wording only; whether a command may run is decided elsewhere, on a real parse.

use std::{iter::Peekable, str::Chars};

/// One simple command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Simple {
    /// Its words without quotes, and without assignments before them.
    pub(super) words: Vec<String>,
    /// Whether it redirects anything.
    pub(super) redirects: bool,
}

/// Words that begin something else than a simple command.
const RESERVED: [&str; 12] =
    ["if", "for", "while", "until", "case", "select", "function", "coproc", "{", "[[", "!", "time"];

impl Simple {
    /// The program's name without its folder.
    pub(super) fn program(&self) -> &str {
        self.words.first().and_then(|word| word.rsplit('/').next()).unwrap_or_default()
    }
}

/// The simple commands of a line, if it is a plain list or pipeline of them.
pub(super) fn commands(line: &str) -> Option<Vec<Simple>> {
    let mut reader = Reader { commands: vec![Simple::default()], word: None };
    let mut rest = line.chars().peekable();
    let mut previous = ' ';
    while let Some(character) = rest.next() {
        match character {
            '\'' => reader.single_quoted(&mut rest)?,
            '"' => reader.double_quoted(&mut rest)?,
            '\\' => match rest.next()? {
                '\n' => {}
                escaped => reader.push(escaped),
            },
            '#' if reader.word.is_none() => return None,
            '<' if rest.peek() == Some(&'<') => return None,
            '&' if previous == '>' || previous == '<' || rest.peek() == Some(&'>') => reader.redirect('&'),
            '<' | '>' => reader.redirect(character),
            '&' if rest.next_if_eq(&'&').is_some() => reader.end_command(),
            '&' | '`' | '(' | ')' => return None,
            '|' => {
                rest.next_if(|next| matches!(next, '|' | '&'));
                reader.end_command();
            }
            ';' | '\n' => reader.end_command(),
            space if space.is_whitespace() => reader.end_word(),
            other => reader.push(other),
        }
        previous = character;
    }
    reader.end_command();
    let mut commands = reader.commands;
    commands.retain(|command| !command.words.is_empty() || command.redirects);
    let is_plain = |command: &Simple| !RESERVED.contains(&command.words.first().map_or("", String::as_str));
    (!commands.is_empty() && commands.iter().all(is_plain)).then_some(commands)
}

/// Puts words and commands together.
struct Reader {
    commands: Vec<Simple>,
    word: Option<String>,
}

impl Reader {
    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().push(character);
    }

    fn redirect(&mut self, character: char) {
        self.push(character);
        if let Some(command) = self.commands.last_mut() {
            command.redirects = true;
        }
    }

    fn single_quoted(&mut self, rest: &mut Peekable<Chars<'_>>) -> Option<()> {
        self.word.get_or_insert_default();
        loop {
            match rest.next()? {
                '\'' => return Some(()),
                inner => self.push(inner),
            }
        }
    }

    fn double_quoted(&mut self, rest: &mut Peekable<Chars<'_>>) -> Option<()> {
        self.word.get_or_insert_default();
        loop {
            match rest.next()? {
                '"' => return Some(()),
                '`' => return None,
                '$' if rest.peek() == Some(&'(') => return None,
                '\\' => {
                    let escaped = rest.next()?;
                    self.push(escaped);
                }
                inner => self.push(inner),
            }
        }
    }

    fn end_word(&mut self) {
        let (Some(word), Some(command)) = (self.word.take(), self.commands.last_mut()) else { return };
        if !(command.words.is_empty() && is_assignment(&word)) {
            command.words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.commands.push(Simple::default());
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// The words of the last simple command, roughly: it only chooses how an exit code is put.
pub(super) fn last_command(command: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut quote = None;
    let mut characters = command.trim_end().trim_end_matches(';').chars().peekable();
    let mut previous = ' ';
    while let Some(character) = characters.next() {
        let redirects = previous == '>' || characters.peek() == Some(&'>');
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '|' | ';' | '\n' | '(' | ')') => words = vec![String::new()],
            (None, '&') if !redirects => words = vec![String::new()],
            (None, space) if space.is_whitespace() => words.push(String::new()),
            (Some(_) | None, other) => words.last_mut().into_iter().for_each(|word| word.push(other)),
        }
        previous = character;
    }
    words.retain(|word| !word.is_empty());
    let assignments = words.iter().take_while(|word| word.contains('=')).count();
    words.split_off(assignments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(line: &str, expected: Option<&[&[&str]]>) {
        let read = commands(line).map(|all| all.into_iter().map(|one| one.words).collect::<Vec<_>>());
        let expected = expected.map(|all| {
            all.iter().map(|one| one.iter().map(|word| (*word).to_owned()).collect()).collect::<Vec<Vec<_>>>()
        });
        assert_eq!(read, expected, "{line}");
    }

    #[test]
    fn plain_lists_are_read() {
        check("ls -la", Some(&[&["ls", "-la"]]));
        check("A=1 B+='x y' grep -rn \"a b\" 'c;d' e\\ f", Some(&[&["grep", "-rn", "a b", "c;d", "e f"]]));
        check("a && b || c | d ; e\nf", Some(&[&["a"], &["b"], &["c"], &["d"], &["e"], &["f"]]));
        check("make 2>&1 >log", Some(&[&["make", "2>&1", ">log"]]));
        check("make &>log", Some(&[&["make", "&>log"]]));
        check("x ''", Some(&[&["x", ""]]));
        assert!(commands("cat >f").unwrap()[0].redirects && !commands("cat '>f'").unwrap()[0].redirects);
    }

    #[test]
    fn all_else_is_not() {
        for line in [
            "",
            "a &",
            "(a)",
            "a $(b)",
            "a `b`",
            "a \"$(b)\"",
            "cat <<EOF\nx\nEOF",
            "echo 'a",
            "echo \"a",
            "if a; then b; fi",
            "for x in a; do b; done",
            "a # b",
            "a \\",
            "! a",
        ] {
            check(line, None);
        }
    }

    proptest! {
        #[test]
        fn no_line_breaks_it(line in "[a-z '\"\\\\$(`)&|;<>#=\n]{0,40}") {
            let _ = (commands(&line), last_command(&line));
        }
    }
}
