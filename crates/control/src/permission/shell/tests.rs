//! The reader as a whole: a line in; commands, words, directories and doubts out.

mod bash;
mod corpus;
mod flow;
mod hostile;
mod tricks;
mod words;

use super::facts::{Directory, How, Place, Touch, Word};
use super::{Ground, Reading, Simple, read};
use std::fmt::Write;

fn reading(line: &str) -> Reading {
    read(line, &Ground { directory: "/w".into(), home: "/home/user".into() })
}

/// One word for people: unknown ones begin with `?`, and with `??` if they may split.
fn word(word: &Word) -> String {
    match word {
        Word::Known(text) => text.clone(),
        Word::Glob(pattern) => format!("glob({pattern})"),
        Word::Unknown { start, splits: true } => format!("??{start}"),
        Word::Unknown { start, splits: false } => format!("?{start}"),
    }
}

fn words(simple: &Simple) -> String {
    simple.words.iter().map(word).collect::<Vec<_>>().join("|")
}

/// One command for people: `directory: word|word`, with the files of its redirections.
fn command(simple: &Simple) -> String {
    let mut text = match &simple.directory {
        Directory::Known(path) => format!("{}: ", path.display()),
        Directory::Unknown => "?: ".to_owned(),
    };
    text.push_str(&words(simple));
    for Touch { how, place, .. } in &simple.redirects {
        let sign = if *how == How::Read { '<' } else { '>' };
        match place {
            Place::At(path) => write!(text, " {sign}{}", path.display()).unwrap(),
            Place::Below(path) => write!(text, " {sign}{}/…", path.display()).unwrap(),
            Place::Anywhere => write!(text, " {sign}anywhere").unwrap(),
        }
    }
    text
}

/// The line is understood and its commands have these words.
#[track_caller]
fn check_words(line: &str, expected: &[&str]) {
    let reading = reading(line);
    assert_eq!(reading.problem, None, "{line}");
    let found: Vec<String> =
        reading.commands.iter().filter(|simple| !simple.words.is_empty()).map(words).collect();
    assert_eq!(found, expected, "{line}");
}

/// The line is understood and its commands run there and open these files.
#[track_caller]
fn check(line: &str, expected: &[&str]) {
    let reading = reading(line);
    assert_eq!(reading.problem, None, "{line}");
    let found: Vec<String> = reading.commands.iter().map(command).collect();
    assert_eq!(found, expected, "{line}");
}

/// The line is not understood, and still this program is seen in it.
#[track_caller]
fn check_refused(line: &str, seen: &str) {
    let reading = reading(line);
    assert!(reading.problem.is_some(), "understood: {line:?} as {:?}", reading.commands);
    let runs_it = |simple: &Simple| simple.words.first().is_some_and(|first| word(first) == seen);
    assert!(reading.commands.iter().any(runs_it), "{seen} is not seen in {line:?}: {:?}", reading.commands);
}
