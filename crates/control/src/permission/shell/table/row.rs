//! The entries of the table: one a program or subcommand, with its options, their arity and what its
//! operands are. Only data and its reading; what a command line then means is `act`'s matter.

use serde::{
    Deserialize,
    de::{IntoDeserializer, value::Error as KindError},
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// All entries, by program and subcommand (`git log`).
pub(super) struct Rows {
    rows: HashMap<String, Arc<Row>>,
}

/// What is known of one program or subcommand.
#[derive(Debug)]
pub(super) struct Row {
    /// Its words, as in `git stash list`.
    pub name: String,
    /// Its options by their full name with the dashes; `-#` stands for a number.
    pub options: HashMap<String, Opt>,
    /// What its operands are. None: it takes none, or a subcommand.
    pub operands: Option<Pattern>,
    /// What it does to the working directory when no operand names a place.
    pub here: Option<Here>,
    /// Why it may do anything at all; its words are then not looked at, unless its operands are known.
    pub code: Option<String>,
    /// Why it always needs a person's eyes.
    pub danger: Option<String>,
    /// Its peculiarities.
    pub traits: Vec<Is>,
    /// Who reads its words, if the usual reading does not fit.
    pub reader: Option<Reader>,
    /// Argument lists that do nothing but print.
    pub exact: Vec<String>,
    /// Whether there are entries for its subcommands.
    pub has_children: bool,
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opt {
    pub arity: Arity,
    /// What its value is; the last one, if it takes two.
    pub kind: Kind,
    marks: u8,
}

/// How many values an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arity {
    None,
    /// Attached or in the next word.
    One,
    /// Attached only, and it may be left out.
    Optional,
    /// In the next two words.
    Two,
}

/// What an option says about the whole command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Operands are meant with everything below them.
    Deep,
    /// Operands that would be read are changed.
    Edits,
    /// Nothing is changed or run: the operands are only looked at.
    Lists,
    /// It opens a connection.
    Connects,
    /// It always needs a person's eyes.
    Dangerous,
    /// It takes the place of the first operand.
    Instead,
    /// It makes files in the working directory.
    Drops,
    /// It makes the program run other code.
    Runs,
}

/// What a word means to its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// Text that touches nothing.
    Plain,
    /// A path that is read.
    Read,
    /// A tree that is read.
    Tree,
    /// A path that is made or changed.
    Write,
    /// A path that is removed.
    Remove,
    /// A path that is moved away.
    Take,
    /// Where sources are copied or moved to: a file, or a directory that then holds them.
    Into,
    /// A path that is replaced by a file beside it.
    Pack,
    /// A directory that is filled.
    Target,
    /// The directory the program moves to before it looks at its operands.
    Chdir,
    /// A program and its words, up to the end.
    Program,
    /// A text for a shell.
    Shell,
    /// Words that are joined to a text for a shell, up to the end.
    Joined,
    /// A program of its own language.
    Sed,
    Awk,
    Jq,
    Yq,
    /// The name of a shell variable.
    Variable,
    /// A variable, perhaps with a value, that other programs will see.
    Export,
    /// Arithmetic that the shell evaluates.
    Number,
    /// A format of git's, which may ask for a signature to be checked.
    Format,
    /// A revision or path of git's.
    Revision,
    /// What to push where.
    Refspec,
    /// A date's format; anything else would set the clock.
    PlusFormat,
    /// An archive, which may be on another machine.
    Archive,
    /// The letters of `ps`, of which one shows the environment.
    PsLetters,
    /// The columns of `ps`, of which one shows the environment.
    PsFormat,
    /// An object file, unless an `@` makes it a file with more options.
    Object,
    /// The name of a page, not a path.
    Page,
    /// Data, or the path of a file with it after an `@`.
    AtFile,
    /// An address, which is connected to.
    Url,
    /// Something that makes the program run other code.
    Code,
}

/// Positions of operands: some first ones, any number of one kind, and a last one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pattern {
    pub first: Vec<Kind>,
    pub rest: Option<Kind>,
    pub last: Option<Kind>,
}

/// What happens to the working directory when no operand names a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Here {
    /// Its entries are read.
    Read,
    /// All below it is read.
    Tree,
    /// All below it is read if an option asks for depth.
    Deep,
    /// Files are made below it, unless an option only lists.
    Write,
}

/// A peculiarity of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Is {
    /// None of its options can do harm, so that unknown words may stand anywhere.
    Tame,
    /// It takes any words, and none of them matters.
    Blank,
    /// Options end at the first operand.
    Ordered,
    /// Long options have one dash.
    SingleDash,
    /// Its options may also stand after a subcommand.
    Inherited,
    /// Rules look through it to the program it runs.
    Transparent,
    /// It opens a connection.
    Network,
    /// It is git, whose helpers the repository names.
    Git,
}

/// Who reads a program's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reader {
    Cd,
    Dd,
    Env,
    Find,
    Popd,
    Set,
    Shell,
    Tar,
    Test,
    Xargs,
}

/// An entry as it is written.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
#[cfg_attr(test, serde(deny_unknown_fields))]
struct Entry {
    like: Option<String>,
    also: String,
    flags: String,
    values: String,
    optional: String,
    pairs: String,
    deep: String,
    edits: String,
    lists: String,
    connects: String,
    dangerous: String,
    instead: String,
    drops: String,
    runs: String,
    operands: Option<String>,
    here: Option<Here>,
    code: Option<String>,
    danger: Option<String>,
    is: Vec<Is>,
    reader: Option<Reader>,
    exact: Vec<String>,
    #[cfg(test)]
    examples: std::collections::BTreeMap<String, Vec<String>>,
}

type Entries = HashMap<String, Entry>;

impl Rows {
    /// Reads the families of entries.
    pub(super) fn parse(families: &[&str]) -> Result<Self, String> {
        let entries = parse_entries(families)?;
        let parents: HashSet<&str> =
            entries.keys().filter_map(|name| Some(name.rsplit_once(' ')?.0)).collect();
        let mut rows = HashMap::with_capacity(entries.len() * 2);
        for name in entries.keys() {
            let entry = with_base(name, &entries, 0)?;
            let also = entry.also.clone();
            let row = Arc::new(compile(name, entry, parents.contains(name.as_str()))?);
            for other in also.split_whitespace() {
                rows.insert(other.to_owned(), Arc::clone(&row));
            }
            rows.insert(name.clone(), row);
        }
        Ok(Self { rows })
    }

    /// The entry of a program.
    pub(super) fn program(&self, name: &str) -> Option<&Row> {
        self.rows.get(name).map(Arc::as_ref)
    }

    /// The entry of a subcommand.
    pub(super) fn child(&self, row: &Row, word: &str) -> Option<&Row> {
        self.rows.get(&format!("{} {word}", row.name)).map(Arc::as_ref)
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.keys().map(String::as_str)
    }
}

impl Row {
    pub(super) fn is(&self, what: Is) -> bool {
        self.traits.contains(&what)
    }
}

impl Opt {
    pub(super) fn has(self, mark: Mark) -> bool {
        self.marks & bit(mark) != 0
    }

    /// An option that says nothing, as `--help`.
    pub(super) const FLAG: Self = Self { arity: Arity::None, kind: Kind::Plain, marks: 0 };

    /// An option whose value is a file that is read.
    pub(super) const READS: Self = Self { arity: Arity::One, kind: Kind::Read, marks: 0 };
}

/// The examples of every entry, by the entry's name.
#[cfg(test)]
pub(super) fn examples(families: &[&str]) -> Vec<(String, std::collections::BTreeMap<String, Vec<String>>)> {
    let entries = parse_entries(families).expect("the table can be read");
    entries.into_iter().map(|(name, entry)| (name, entry.examples)).collect()
}

fn bit(mark: Mark) -> u8 {
    1 << mark as u8
}

fn parse_entries(families: &[&str]) -> Result<Entries, String> {
    let mut entries = Entries::new();
    for family in families {
        let family: Entries = toml::from_str(family).map_err(|error| error.to_string())?;
        for (name, entry) in family {
            if entries.insert(name.clone(), entry).is_some() {
                return Err(format!("{name} has two entries"));
            }
        }
    }
    Ok(entries)
}

/// The entry with what it takes over from another one.
fn with_base(name: &str, entries: &Entries, depth: usize) -> Result<Entry, String> {
    let entry = entries.get(name).ok_or_else(|| format!("there is no entry {name}"))?;
    let Some(base) = &entry.like else { return Ok(entry.clone()) };
    if depth > 4 {
        return Err(format!("{name} takes over from itself"));
    }
    let base = with_base(base, entries, depth + 1)?;
    let join = |of: fn(&Entry) -> &String| format!("{} {}", of(&base), of(entry));
    Ok(Entry {
        like: None,
        also: entry.also.clone(),
        flags: join(|entry| &entry.flags),
        values: join(|entry| &entry.values),
        optional: join(|entry| &entry.optional),
        pairs: join(|entry| &entry.pairs),
        deep: join(|entry| &entry.deep),
        edits: join(|entry| &entry.edits),
        lists: join(|entry| &entry.lists),
        connects: join(|entry| &entry.connects),
        dangerous: join(|entry| &entry.dangerous),
        instead: join(|entry| &entry.instead),
        drops: join(|entry| &entry.drops),
        runs: join(|entry| &entry.runs),
        operands: entry.operands.clone().or(base.operands),
        here: entry.here.or(base.here),
        code: entry.code.clone().or(base.code),
        danger: entry.danger.clone().or(base.danger),
        is: base.is.iter().chain(&entry.is).copied().collect(),
        reader: entry.reader.or(base.reader),
        exact: base.exact.iter().chain(&entry.exact).cloned().collect(),
        #[cfg(test)]
        examples: entry.examples.clone(),
    })
}

fn compile(name: &str, entry: Entry, has_children: bool) -> Result<Row, String> {
    let mut options = HashMap::new();
    let of_arity = [
        (&entry.flags, Arity::None),
        (&entry.values, Arity::One),
        (&entry.optional, Arity::Optional),
        (&entry.pairs, Arity::Two),
    ];
    for (list, arity) in of_arity {
        for token in list.split_whitespace() {
            let (option, kind) = option_and_kind(token).map_err(|error| format!("{name}: {error}"))?;
            options.insert(option.to_owned(), Opt { arity, kind, marks: 0 });
        }
    }
    let marked = [
        (&entry.deep, Mark::Deep),
        (&entry.edits, Mark::Edits),
        (&entry.lists, Mark::Lists),
        (&entry.connects, Mark::Connects),
        (&entry.dangerous, Mark::Dangerous),
        (&entry.instead, Mark::Instead),
        (&entry.drops, Mark::Drops),
        (&entry.runs, Mark::Runs),
    ];
    for (list, mark) in marked {
        for token in list.split_whitespace() {
            options.entry(token.to_owned()).or_insert(Opt::FLAG).marks |= bit(mark);
        }
    }
    let pattern = entry.operands.as_deref().map(parse_pattern).transpose();
    Ok(Row {
        name: name.to_owned(),
        options,
        operands: pattern.map_err(|error| format!("{name}: {error}"))?,
        here: entry.here,
        code: entry.code,
        danger: entry.danger,
        traits: entry.is,
        reader: entry.reader,
        exact: entry.exact,
        has_children,
    })
}

fn option_and_kind(token: &str) -> Result<(&str, Kind), String> {
    match token.split_once('=') {
        Some((option, kind)) => Ok((option, parse_kind(kind)?)),
        None => Ok((token, Kind::Plain)),
    }
}

fn parse_kind(text: &str) -> Result<Kind, String> {
    Kind::deserialize(text.into_deserializer()).map_err(|error: KindError| error.to_string())
}

fn parse_pattern(text: &str) -> Result<Pattern, String> {
    let mut pattern = Pattern::default();
    for token in text.split_whitespace() {
        match token.strip_suffix('*') {
            Some(kind) if pattern.rest.is_none() => pattern.rest = Some(parse_kind(kind)?),
            Some(_) => return Err(format!("two kinds repeat in '{text}'")),
            None if pattern.rest.is_none() => pattern.first.push(parse_kind(token)?),
            None if pattern.last.is_none() => pattern.last = Some(parse_kind(token)?),
            None => return Err(format!("too many kinds at the end of '{text}'")),
        }
    }
    Ok(pattern)
}
