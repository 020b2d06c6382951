//! Reads the words of `find`: where it starts, what it tests, and what it does with what it finds.
//! Every test is known with its arity; a word it does not know is a problem.

use super::{
    act::{Depth, Sheet},
    arguments::is_multiple,
};
use crate::permission::shell::facts::{How, Word};

const FLAGS: [&str; 32] = [
    "-print",
    "-print0",
    "-ls",
    "-prune",
    "-quit",
    "-true",
    "-false",
    "-empty",
    "-depth",
    "-d",
    "-mount",
    "-xdev",
    "-follow",
    "-daystart",
    "-nouser",
    "-nogroup",
    "-readable",
    "-writable",
    "-executable",
    "-noleaf",
    "-a",
    "-and",
    "-o",
    "-or",
    "-not",
    "!",
    "(",
    ")",
    ",",
    "-warn",
    "-nowarn",
    "-ignore_readdir_race",
];

/// Tests with one plain value that pick some of the files.
const PICKING: [&str; 29] = [
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-regex",
    "-iregex",
    "-size",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-perm",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-links",
    "-inum",
    "-lname",
    "-ilname",
    "-fstype",
    "-used",
    "-newermt",
    "-newerat",
    "-newerct",
];

/// Other tests with one plain value.
const VALUES: [&str; 7] = ["-type", "-xtype", "-maxdepth", "-mindepth", "-regextype", "-printf", "-context"];

/// Tests whose value is a file that is looked at.
const REFERENCES: [&str; 8] =
    ["-newer", "-anewer", "-cnewer", "-samefile", "-neweraa", "-newercm", "-newermm", "-newerma"];

const OUTPUTS: [&str; 3] = ["-fprint", "-fprint0", "-fls"];

/// Programs that take what they are given for a script.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "busybox"];
const COMMANDS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

/// What the words of `find` say.
#[derive(Debug, Default)]
pub(super) struct Search<'a> {
    /// The places it starts from.
    pub starts: Vec<&'a Word>,
    /// Whether a test picks some of the files rather than all.
    pub picks: bool,
    /// Whether it removes what it finds.
    pub deletes: bool,
    /// The pattern of the only `-name`, for the commands it runs.
    names: Vec<&'a str>,
    references: Vec<&'a Word>,
    outputs: Vec<&'a Word>,
    commands: Vec<(&'a str, &'a [Word])>,
    problems: Vec<String>,
}

/// Adds what a `find` with these words does.
pub(super) fn effects(words: &[Word], sheet: &mut Sheet) {
    let search = read(words);
    let dot = Word::Known(".".to_owned());
    let starts = if search.starts.is_empty() { vec![&dot] } else { search.starts.clone() };
    for start in &starts {
        sheet.touch(How::Read, start, Depth::All);
        if search.deletes {
            sheet.touch(How::Remove, start, Depth::All);
        }
    }
    for reference in &search.references {
        sheet.touch(How::Read, reference, Depth::Itself);
    }
    for output in &search.outputs {
        sheet.touch(How::Write, output, Depth::Itself);
    }
    for (action, command) in &search.commands {
        for start in &starts {
            sheet.program(&with_found(command, action, start, &search));
        }
    }
    sheet.effects.unknown.extend(search.problems);
}

/// Reads the words behind `find`.
pub(super) fn read(words: &[Word]) -> Search<'_> {
    let mut search = Search::default();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += match word.known() {
            Some("-H" | "-L" | "-P") if search.starts.is_empty() => 1,
            Some(text) if text.starts_with('-') || ["!", "(", ")", ","].contains(&text) => break,
            _ => search.start(word),
        };
    }
    while at < words.len() {
        at = search.test(words, at);
    }
    search
}

impl<'a> Search<'a> {
    fn start(&mut self, word: &'a Word) -> usize {
        let is_sure = match word {
            Word::Known(_) => true,
            Word::Unknown { splits: true, .. } => false,
            Word::Glob(start) | Word::Unknown { start, .. } => {
                start.starts_with(|c: char| c.is_alphanumeric() || "./_".contains(c))
            }
        };
        if !is_sure {
            self.problem("a word that is only known when it runs may become a test of find");
        }
        self.starts.push(word);
        1
    }

    /// Reads one test or action and returns where the next begins.
    fn test(&mut self, words: &'a [Word], at: usize) -> usize {
        let Some(name) = words[at].known() else {
            self.problem("a word that is only known when it runs may become a test of find");
            return at + 1;
        };
        let value = words.get(at + 1);
        match name {
            "-delete" => {
                self.deletes = true;
                return at + 1;
            }
            "-fprintf" => self.outputs.extend(value),
            _ if FLAGS.contains(&name) => return at + 1,
            _ if COMMANDS.contains(&name) => return self.command(name, words, at + 1),
            _ if PICKING.contains(&name) => {
                self.picks = true;
                if name == "-name" {
                    self.names.extend(value.and_then(Word::known));
                }
            }
            _ if VALUES.contains(&name) => {}
            _ if REFERENCES.contains(&name) => {
                self.picks = true;
                self.references.extend(value);
            }
            _ if OUTPUTS.contains(&name) => self.outputs.extend(value),
            other => {
                self.problem(&format!("the test {other} of find is not known"));
                return at + 1;
            }
        }
        if value.is_some_and(is_multiple) {
            self.problem("a pattern without quotes may become several words of find");
        }
        at + if name == "-fprintf" { 3 } else { 2 }
    }

    /// The command of `-exec`, up to `;` or `{} +`.
    fn command(&mut self, action: &'a str, words: &'a [Word], at: usize) -> usize {
        let rest = &words[at..];
        let ends = |(index, word): (usize, &Word)| match word.known() {
            Some(";") => true,
            Some("+") => index > 0 && rest[index - 1].known() == Some("{}"),
            Some(_) | None => false,
        };
        let Some(length) = rest.iter().enumerate().position(ends) else {
            self.problem("the command of find does not end");
            return words.len();
        };
        if rest[..length].iter().any(is_multiple) {
            self.problem("it cannot be said where the command of find ends");
        }
        let program = rest.first().and_then(Word::known).and_then(|program| program.rsplit('/').next());
        if program.is_some_and(|program| SHELLS.contains(&program)) {
            self.problem("find gives what it finds to a shell");
        }
        self.commands.push((action, &rest[..length]));
        at + length + 1
    }

    fn problem(&mut self, why: &str) {
        self.problems.push(why.to_owned());
    }
}

/// The command with what stands for the files found: names below the start, which never begin with a
/// dash unless the start does.
fn with_found(command: &[Word], action: &str, start: &Word, search: &Search<'_>) -> Vec<Word> {
    let unknown = |start: &str| Word::Unknown { start: start.to_owned(), splits: false };
    let found = match start.known() {
        Some(start) if !action.ends_with("dir") => {
            let tail = match search.names.as_slice() {
                [name] if !name.contains('/') => format!("/**/{name}"),
                // Some files of many: a pattern that is not the whole folder.
                _ if search.picks => "/**/?*".to_owned(),
                _ => "/**".to_owned(),
            };
            Word::Glob(format!("{}{tail}", start.trim_end_matches('/')))
        }
        Some(_) | None => unknown(""),
    };
    command
        .iter()
        .map(|word| {
            match word.known().and_then(|text| text.split_once("{}").map(|(before, _)| (text, before))) {
                None => word.clone(),
                Some(("{}", _)) => found.clone(),
                Some((_, before)) => unknown(before),
            }
        })
        .collect()
}
