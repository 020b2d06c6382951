//! Splits a program's words into options with their values and operands, as the program itself would.
//! Whatever it cannot place with certainty is a problem; it never guesses in the harmless direction.

use super::row::{Arity, Is, Kind, Mark, Opt, Pattern, Row};
use crate::permission::shell::facts::Word;

/// An option that stands in the words, with its values.
#[derive(Debug)]
pub(super) struct Given {
    pub name: String,
    pub option: Opt,
    pub values: Vec<Word>,
}

/// A program's words, sorted.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub given: Vec<Given>,
    pub operands: Vec<Word>,
    /// What could not be placed, and why.
    pub problems: Vec<String>,
}

/// Where reading ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// All words belong to the entry.
    End,
    /// The first operand may name a subcommand; it and what follows are left.
    Operand,
}

/// Reads words by the last entry of the chain; the earlier ones are its parents, whose options may be
/// allowed too. Returns how many words were read.
pub(super) fn read(chain: &[&Row], words: &[Word], until: Until) -> (Arguments, usize) {
    let row = chain[chain.len() - 1];
    let mut reading = Reading { chain, row, words, at: 0, found: Arguments::default() };
    let mut options_ended = false;
    while let Some(word) = words.get(reading.at) {
        let place = if options_ended { Place::Operand } else { reading.place_of(word) };
        if place == Place::Operand && until == Until::Operand {
            break;
        }
        reading.at += 1;
        match place {
            Place::Operand => {
                reading.found.operands.push(word.clone());
                options_ended |= row.is(Is::Ordered);
            }
            Place::Either => reading.either(word),
            Place::Dashes => options_ended = true,
            Place::Option => reading.option(word),
            Place::Unsure => {
                let what = "a word that is only known when it runs may become an option";
                reading.found.problems.push(format!("{what} of {}", row.name));
                reading.found.operands.push(word.clone());
            }
        }
    }
    (reading.found, reading.at)
}

impl Arguments {
    /// Whether an option with this mark is given.
    pub(super) fn has(&self, mark: Mark) -> bool {
        self.given.iter().any(|given| given.option.has(mark))
    }

    /// Whether one of these options is given.
    pub(super) fn has_any(&self, names: &[&str]) -> bool {
        self.given.iter().any(|given| names.contains(&given.name.as_str()))
    }
}

/// Whether the word may become none or several.
pub(super) fn is_multiple(word: &Word) -> bool {
    match word {
        Word::Known(_) => false,
        Word::Glob(_) => true,
        Word::Unknown { splits, .. } => *splits,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Operand,
    Option,
    /// The two dashes after which no options follow.
    Dashes,
    /// An operand, or an option that does no harm.
    Either,
    Unsure,
}

struct Reading<'a> {
    chain: &'a [&'a Row],
    row: &'a Row,
    words: &'a [Word],
    at: usize,
    found: Arguments,
}

impl Reading<'_> {
    fn place_of(&self, word: &Word) -> Place {
        let tame = self.row.is(Is::Tame);
        match word {
            Word::Known(text) if text == "--" => Place::Dashes,
            Word::Known(text) if text.len() > 1 && text.starts_with('-') => Place::Option,
            Word::Known(_) => Place::Operand,
            Word::Glob(pattern) if tame || begins_as_name(pattern) => Place::Operand,
            Word::Unknown { start, splits: false } if begins_as_name(start) => Place::Operand,
            Word::Unknown { start, splits: false } if self.names_option(start) => Place::Option,
            Word::Unknown { .. } if tame => Place::Either,
            Word::Glob(_) | Word::Unknown { .. } => Place::Unsure,
        }
    }

    /// Whether the certain start of a word is a whole option, so that only its value is unknown.
    fn names_option(&self, start: &str) -> bool {
        if let Some((name, _)) = start.split_once('=') {
            return self.find(name).is_some_and(|option| option.arity != Arity::None);
        }
        let is_short = start.len() == 2 && start.starts_with('-') && start != "--";
        is_short && self.find(start).is_some_and(|option| option.arity == Arity::One)
    }

    /// A harmless option may still name a file to read.
    fn either(&mut self, word: &Word) {
        self.found.operands.push(word.clone());
        if self.row.options.values().any(|option| option.kind == Kind::Read) {
            let values = vec![word.clone()];
            self.found.given.push(Given { name: String::new(), option: Opt::READS, values });
        }
    }

    fn option(&mut self, word: &Word) {
        let (text, tail) = match word {
            Word::Known(text) => (text.as_str(), None),
            Word::Glob(pattern) => (pattern.as_str(), Some(word)),
            Word::Unknown { start, .. } => (start.as_str(), Some(word)),
        };
        let is_long = text.starts_with("--") || self.row.is(Is::SingleDash);
        let (name, attached) = match text.split_once('=') {
            Some((name, value)) if is_long => (name, Some(value)),
            Some(_) | None => (text, None),
        };
        if let Some(option) = self.find(name) {
            return self.named(name, option, attached, tail);
        }
        if is_number(text) && self.find("-#").is_some() {
            return;
        }
        if text.starts_with("--") { self.not_known(name) } else { self.cluster(text, tail) }
    }

    /// One whole option, with its value after `=`, or in the words that follow.
    fn named(&mut self, name: &str, option: Opt, attached: Option<&str>, tail: Option<&Word>) {
        let attached = attached.map(|text| value_of(text, tail));
        let values = match (option.arity, attached) {
            (Arity::None | Arity::Two, Some(_)) => return self.not_known(&format!("{name}=")),
            (Arity::None | Arity::Optional, None) => Vec::new(),
            (Arity::One | Arity::Optional, Some(value)) => vec![value],
            // A short option of which only the start is certain holds its value itself.
            (Arity::One, None) if tail.is_some() => vec![value_of("", tail)],
            (Arity::One, None) => self.next_words(name, 1),
            (Arity::Two, None) => self.next_words(name, 2),
        };
        self.found.given.push(Given { name: name.to_owned(), option, values });
    }

    /// Several short options in one word, of which the last may hold its value.
    fn cluster(&mut self, text: &str, tail: Option<&Word>) {
        for (at, letter) in text.char_indices().skip(1) {
            let name = format!("-{letter}");
            let rest = &text[at + letter.len_utf8()..];
            let Some(option) = self.find(&name) else {
                if is_number(&format!("-{}", &text[at..])) && self.find("-#").is_some() {
                    return;
                }
                return self.not_known(&name);
            };
            let values = match option.arity {
                Arity::None => Vec::new(),
                Arity::Optional if rest.is_empty() => Vec::new(),
                Arity::One if rest.is_empty() => self.next_words(&name, 1),
                Arity::One | Arity::Optional => vec![value_of(rest, tail)],
                Arity::Two => self.next_words(&name, 2),
            };
            self.found.given.push(Given { name, option, values });
            if option.arity != Arity::None {
                return;
            }
        }
    }

    fn next_words(&mut self, name: &str, count: usize) -> Vec<Word> {
        let end = (self.at + count).min(self.words.len());
        let values = self.words[self.at..end].to_vec();
        self.at = end;
        for value in values.iter().filter(|value| is_multiple(value)) {
            if self.row.is(Is::Tame) {
                self.found.operands.push(value.clone());
            } else {
                let problem = format!("the value of {name} may become several words of {}", self.row.name);
                self.found.problems.push(problem);
            }
        }
        values
    }

    fn find(&self, name: &str) -> Option<Opt> {
        let (row, parents) = self.chain.split_last()?;
        let inherited = parents.iter().rev().filter(|row| row.is(Is::Inherited));
        let known = std::iter::once(row).chain(inherited).find_map(|row| row.options.get(name).copied());
        // Git shows help in a program that its settings name.
        let prints_help = ["--help", "--version"].contains(&name) && !self.chain[0].is(Is::Git);
        known.or_else(|| prints_help.then_some(Opt::FLAG))
    }

    fn not_known(&mut self, name: &str) {
        self.found.problems.push(format!("the option {name} of {} is not known", self.row.name));
    }
}

/// The value that follows within a word, of which the end may be unknown.
fn value_of(text: &str, tail: Option<&Word>) -> Word {
    match tail {
        None | Some(Word::Known(_)) => Word::Known(text.to_owned()),
        Some(Word::Glob(_)) => Word::Glob(text.to_owned()),
        Some(Word::Unknown { splits, .. }) => Word::Unknown { start: text.to_owned(), splits: *splits },
    }
}

/// Whether a word that begins like this is certainly not an option.
fn begins_as_name(start: &str) -> bool {
    start.starts_with(|c: char| c.is_alphanumeric() || "./_:,%".contains(c))
}

fn is_number(text: &str) -> bool {
    text.strip_prefix('-')
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The kinds that the operands have, in their order; none when that cannot be said.
pub(super) fn kinds(row: &Row, arguments: &Arguments) -> Result<Vec<Kind>, String> {
    let pattern = row.operands.clone().unwrap_or_default();
    let lists = arguments.has(Mark::Lists);
    let skip = usize::from(arguments.has(Mark::Instead)).min(pattern.first.len());
    let first = &pattern.first[skip..];
    let count = arguments.operands.len();
    // An option that names the destination leaves only sources.
    let has_destination = arguments.given.iter().any(|given| given.option.kind == Kind::Into);
    let last = pattern.last.filter(|_| !has_destination);
    let last_at = last.map_or(count, |_| count.saturating_sub(1));
    let multiple = arguments.operands.iter().position(is_multiple);
    let mut kinds = Vec::with_capacity(count);
    for (at, word) in arguments.operands.iter().enumerate() {
        let is_certain = multiple.is_none_or(|multiple| at < multiple);
        let ends = first.get(at..).and_then(|kinds| kinds.first()).copied();
        let kind = match (ends, pattern.rest, last) {
            (Some(Kind::Program), ..) => return Ok(with_rest(kinds, Kind::Program, count)),
            (Some(Kind::Joined), ..) => return Ok(with_rest(kinds, Kind::Joined, count)),
            (Some(kind), ..) if is_certain => Some(kind),
            (None, _, Some(last)) if at == last_at && !is_multiple(word) => Some(last),
            (None, Some(rest), _) if at < last_at => Some(rest),
            _ => None,
        };
        match kind {
            Some(kind) => kinds.push(kind),
            None if lists && pattern == Pattern::default() => kinds.push(Kind::Plain),
            None if lists => kinds.push(Kind::Read),
            None => return Err(too_many(row, is_certain)),
        }
    }
    Ok(kinds)
}

fn with_rest(mut kinds: Vec<Kind>, kind: Kind, count: usize) -> Vec<Kind> {
    kinds.resize(count, kind);
    kinds
}

fn too_many(row: &Row, is_certain: bool) -> String {
    if is_certain {
        format!("{} with these operands is not known", row.name)
    } else {
        format!("it cannot be said how many operands {} will get", row.name)
    }
}
