//! From sorted words to effects: what each option value and operand means for files, the network and
//! other programs. Says what happens, never whether it may.

use super::{
    arguments::{Arguments, kinds},
    awk, jq, place,
    row::{Here, Kind, Mark, Row},
    sed, variable,
};
use crate::permission::shell::facts::{Directory, Effects, How, Inner, Place, Touch, Word};

/// The effects of one command while they are gathered.
pub(super) struct Sheet {
    pub effects: Effects,
    /// Where the program looks for relative paths.
    pub directory: Directory,
    /// Whether other programs see through to what it runs.
    pub transparent: bool,
}

/// What the options say about the operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Manner {
    deep: bool,
    edits: bool,
    lists: bool,
}

/// Adds what a program with these options and operands does.
pub(super) fn usual(row: &Row, arguments: &Arguments, sheet: &mut Sheet) {
    options(row, arguments, sheet);
    let kinds = match kinds(row, arguments) {
        Ok(kinds) => kinds,
        Err(problem) => return sheet.effects.unknown.push(problem),
    };
    let manner = Manner {
        deep: arguments.has(Mark::Deep),
        edits: arguments.has(Mark::Edits),
        lists: arguments.has(Mark::Lists),
    };
    let mut names_place = false;
    for (at, (word, kind)) in arguments.operands.iter().zip(kinds).enumerate() {
        let kind = manner.apply(kind);
        names_place |= is_path(kind);
        if kind == Kind::Program {
            return sheet.program(&arguments.operands[at..]);
        } else if kind == Kind::Joined {
            return sheet.joined(&arguments.operands[at..]);
        } else if kind == Kind::Into {
            sheet.into(word, sources(row, arguments), manner.deep);
        } else {
            sheet.word(kind, word, manner.deep);
        }
    }
    here(row, arguments, manner, names_place, sheet);
}

/// Adds what the options say, without the operands.
pub(super) fn options(row: &Row, arguments: &Arguments, sheet: &mut Sheet) {
    sheet.effects.unknown.extend(arguments.problems.iter().cloned());
    for given in &arguments.given {
        let called = format!("{} {}", row.name, given.name);
        if given.option.has(Mark::Dangerous) {
            sheet.effects.dangers.push(format!("{called} cannot be taken back"));
        }
        if given.option.has(Mark::Runs) {
            sheet.effects.unknown.push(format!("{called} makes it run other code"));
        }
        sheet.effects.network |= given.option.has(Mark::Connects);
        if given.option.has(Mark::Drops) {
            sheet.touch(How::Write, &Word::Known(".".to_owned()), Depth::All);
        }
        let Some(value) = given.values.last() else { continue };
        if given.option.kind == Kind::Into {
            sheet.into(value, &arguments.operands, arguments.has(Mark::Deep));
        } else {
            sheet.word(given.option.kind, value, false);
        }
    }
}

/// How far below a path something reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    Itself,
    All,
}

impl Sheet {
    pub(super) fn new(directory: &Directory, transparent: bool) -> Self {
        Self { effects: Effects::default(), directory: directory.clone(), transparent }
    }

    /// Adds one touch of the place a word points to.
    pub(super) fn touch(&mut self, how: How, word: &Word, depth: Depth) {
        let nothing = match how {
            How::Read => place::is_empty_source(word),
            How::Write => place::is_sink(word),
            How::Remove => false,
        };
        if !nothing {
            self.place(how, place::place(word, &self.directory), depth);
        }
    }

    fn place(&mut self, how: How, place: Place, depth: Depth) {
        let touch = Touch { how, place, deep: depth == Depth::All };
        if touch.deep && how == How::Remove && touch.place == Place::Anywhere {
            self.effects.dangers.push("it removes a tree that is only known when it runs".to_owned());
        }
        if !self.effects.touches.contains(&touch) {
            self.effects.touches.push(touch);
        }
    }

    /// Adds what a word of this kind does.
    pub(super) fn word(&mut self, kind: Kind, word: &Word, deep: bool) {
        let depth = if deep { Depth::All } else { Depth::Itself };
        match kind {
            Kind::Plain | Kind::Into => {}
            Kind::Read => self.touch(How::Read, word, depth),
            Kind::Tree => self.touch(How::Read, word, Depth::All),
            Kind::Write => self.touch(How::Write, word, depth),
            Kind::Target => self.touch(How::Write, word, Depth::All),
            Kind::Remove => self.touch(How::Remove, word, depth),
            Kind::Take => self.touch(How::Remove, word, Depth::All),
            Kind::Pack => self.pack(word, depth),
            Kind::Chdir => self.chdir(word),
            Kind::Program => self.program(std::slice::from_ref(word)),
            Kind::Joined => self.joined(std::slice::from_ref(word)),
            Kind::Shell => self.effects.runs.push(Inner::Script(word.clone())),
            Kind::Sed => self.sed(word),
            Kind::Awk => self.language(word, awk::check),
            Kind::Jq => self.language(word, jq::check),
            Kind::Yq => self.language(word, jq::check_yq),
            Kind::Revision => self.revision(word, depth),
            Kind::Archive => self.archive(How::Read, word),
            Kind::AtFile => self.at_file(word),
            Kind::Url => self.effects.network = true,
            Kind::Code => self.unknown("it runs other code"),
            Kind::Variable => self.variable(word, variable::is_local_variable),
            Kind::Export => self.variable(word, variable::is_harmless_variable),
            Kind::Number => self.known(word, "it evaluates what may run code", |text| {
                text.chars().all(|c| !c.is_alphabetic() && !"[$`_".contains(c))
            }),
            Kind::Format => self.known(word, "the format may have a signature checked", is_plain_format),
            Kind::PlusFormat => self.known(word, "it would set the clock", |text| text.starts_with('+')),
            Kind::PsLetters => {
                self.known(word, "it may show the environment of programs", |text| !text.contains('e'));
            }
            Kind::PsFormat => {
                self.known(word, "it may show the environment of programs", |text| !text.contains("env"));
            }
            Kind::Object => {
                self.touch(How::Read, word, depth);
                if word.known().is_some_and(|text| text.starts_with('@')) {
                    self.unknown("it takes options from a file");
                }
            }
            Kind::Page => self.known(word, "it may be a path", |text| !text.contains('/')),
            Kind::Refspec => {
                if word.known().is_some_and(|text| text.starts_with(['+', ':'])) {
                    self.effects.dangers.push("it overwrites or deletes a branch for others".to_owned());
                }
            }
        }
    }

    pub(super) fn unknown(&mut self, why: &str) {
        self.effects.unknown.push(why.to_owned());
    }

    /// Notes the problem unless the word is known and harmless.
    fn known(&mut self, word: &Word, problem: &str, is_harmless: impl Fn(&str) -> bool) {
        if !word.known().is_some_and(is_harmless) {
            self.unknown(problem);
        }
    }

    fn chdir(&mut self, word: &Word) {
        self.touch(How::Read, word, Depth::Itself);
        self.directory = match place::place(word, &self.directory) {
            Place::At(path) => Directory::Known(path),
            Place::Below(_) | Place::Anywhere => Directory::Unknown,
        };
    }

    /// Adds a program with its words that this one runs.
    pub(super) fn program(&mut self, words: &[Word]) {
        let inner = Inner::Words {
            words: words.to_vec(),
            directory: Some(self.directory.clone()),
            transparent: self.transparent,
        };
        self.effects.runs.push(inner);
    }

    fn joined(&mut self, words: &[Word]) {
        let texts: Option<Vec<&str>> = words.iter().map(Word::known).collect();
        let script = match texts {
            Some(texts) => Word::Known(texts.join(" ")),
            None => Word::Unknown { start: String::new(), splits: false },
        };
        self.effects.runs.push(Inner::Script(script));
    }

    /// Files that come to lie at the destination, or in it if it is a directory.
    fn into(&mut self, destination: &Word, sources: &[Word], deep: bool) {
        let depth = if deep { Depth::All } else { Depth::Itself };
        self.touch(How::Write, destination, depth);
        let folder = match place::place(destination, &self.directory) {
            Place::At(folder) => folder,
            Place::Below(_) | Place::Anywhere => return,
        };
        for source in sources {
            let name = source.known().and_then(|text| std::path::Path::new(text).file_name());
            match name {
                Some(name) => self.place(How::Write, Place::At(folder.join(name)), depth),
                None => self.place(How::Write, Place::Below(folder.clone()), depth),
            }
        }
    }

    fn pack(&mut self, word: &Word, depth: Depth) {
        self.touch(How::Remove, word, depth);
        let beside = match place::place(word, &self.directory) {
            Place::At(path) => {
                path.parent().map_or(Place::Anywhere, |folder| Place::Below(folder.to_path_buf()))
            }
            place @ (Place::Below(_) | Place::Anywhere) => place,
        };
        self.place(How::Write, beside, depth);
    }

    /// A program in a language that must not reach beyond its input.
    fn language(&mut self, word: &Word, check: fn(&str) -> Result<(), String>) {
        match word.known().map(check) {
            Some(Ok(())) => {}
            Some(Err(problem)) => self.effects.unknown.push(problem),
            None => self.unknown("its program is only known when it runs"),
        }
    }

    fn sed(&mut self, word: &Word) {
        match word.known().map(sed::read) {
            Some(Ok(files)) => {
                for (how, file) in files {
                    self.touch(how, &Word::Known(file), Depth::Itself);
                }
            }
            Some(Err(problem)) => self.effects.unknown.push(problem),
            None => self.unknown("its script is only known when it runs"),
        }
    }

    /// Git takes one word for a revision, a path, or a path in a revision.
    fn revision(&mut self, word: &Word, depth: Depth) {
        self.touch(How::Read, word, depth);
        let inner = word.known().and_then(|text| text.split_once(':'));
        if let Some((_, path)) = inner.filter(|(_, path)| !path.is_empty() && !path.starts_with('/')) {
            self.touch(How::Read, &Word::Known(path.to_owned()), depth);
        }
    }

    /// An archive; a name with a colon is on another machine.
    pub(super) fn archive(&mut self, how: How, word: &Word) {
        if word.known().is_some_and(|text| text.contains(':')) {
            return self.unknown("the archive may be on another machine");
        }
        self.touch(how, word, Depth::Itself);
    }

    fn at_file(&mut self, word: &Word) {
        match word.known() {
            Some(text) => {
                if let Some((_, path)) = text.split_once('@') {
                    self.touch(How::Read, &Word::Known(path.to_owned()), Depth::Itself);
                }
            }
            None => self.touch(How::Read, word, Depth::Itself),
        }
    }

    /// A variable that is set: harmless only by its name, whatever its value.
    fn variable(&mut self, word: &Word, is_harmless: fn(&str) -> bool) {
        let text = match word {
            Word::Known(text) => text.as_str(),
            // The name is certain when the sign after it is.
            Word::Unknown { start, splits: false } if start.contains('=') => start,
            Word::Glob(_) | Word::Unknown { .. } => {
                return self.unknown("it is only known when it runs which variable it sets");
            }
        };
        let name = text.split_once('=').map_or(text, |(name, _)| name.trim_end_matches('+'));
        if !is_harmless(name) {
            self.effects.unknown.push(format!("setting {name} may change what programs do"));
        }
    }
}

impl Manner {
    /// What an operand of this kind is under the options given.
    fn apply(self, kind: Kind) -> Kind {
        let changes =
            matches!(kind, Kind::Write | Kind::Remove | Kind::Take | Kind::Into | Kind::Pack | Kind::Target);
        let runs = matches!(kind, Kind::Program | Kind::Joined | Kind::Shell | Kind::Export | Kind::Variable);
        if self.lists && changes {
            Kind::Read
        } else if self.lists && runs {
            Kind::Plain
        } else if self.edits && kind == Kind::Read {
            Kind::Write
        } else if self.edits && kind == Kind::Tree {
            Kind::Target
        } else {
            kind
        }
    }
}

fn is_path(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Read
            | Kind::Tree
            | Kind::Write
            | Kind::Remove
            | Kind::Take
            | Kind::Into
            | Kind::Pack
            | Kind::Target
    )
}

/// The operands before the destination.
fn sources<'a>(row: &Row, arguments: &'a Arguments) -> &'a [Word] {
    let count = arguments.operands.len();
    let last = usize::from(row.operands.as_ref().is_some_and(|pattern| pattern.last.is_some()));
    &arguments.operands[..count.saturating_sub(last)]
}

fn here(row: &Row, arguments: &Arguments, manner: Manner, names_place: bool, sheet: &mut Sheet) {
    let dot = Word::Known(".".to_owned());
    let has_target = arguments.given.iter().any(|given| given.option.kind == Kind::Target);
    match row.here {
        Some(Here::Write) if !manner.lists && !has_target => sheet.touch(How::Write, &dot, Depth::All),
        Some(Here::Read) if !names_place && !manner.deep => sheet.touch(How::Read, &dot, Depth::Itself),
        Some(Here::Tree) if !names_place => sheet.touch(How::Read, &dot, Depth::All),
        Some(Here::Read | Here::Deep) if !names_place && manner.deep => {
            sheet.touch(How::Read, &dot, Depth::All);
        }
        Some(Here::Write | Here::Read | Here::Tree | Here::Deep) | None => {}
    }
}

/// Formats that a repository cannot redefine and that check no signature.
fn is_plain_format(text: &str) -> bool {
    const NAMED: [&str; 10] =
        ["oneline", "short", "medium", "full", "fuller", "reference", "email", "raw", "mboxrd", ""];
    let is_known = NAMED.contains(&text)
        || text.contains('%')
        || text.starts_with("format:")
        || text.starts_with("tformat:");
    // A sign between the percent and the letter only adds a space or line.
    let asks_signature =
        text.split('%').skip(1).any(|rest| rest.trim_start_matches(['+', '-', ' ']).starts_with('G'));
    is_known && !asks_signature && !text.contains("(signature")
}
