//! The corpus of command lines, with the commands that are in each.

use super::super::facts::Word;
use super::{Reading, reading};
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Case {
    pub cmd: String,
    /// The commands in it; none if bash rejects it.
    pub names: Option<Vec<String>>,
}

/// Lines of the corpus that bash takes and we do not: forms that are rare, or that nobody means.
const REFUSED: [&str; 9] = [
    "echo ${x:=`id`}",
    "echo ${ ls; }",
    "cat <<''\n$(rm)\n\n",
    "cat <<$x\nhi\n$x",
    "for i in a; { c; }",
    "echo $\"x\"",
    "a\r\nb",
    "shopt -s extglob; ls !(a|b)",
    "ls @(a|b)*.+(c)",
];

pub(super) fn corpus() -> Vec<Case> {
    serde_json::from_str(include_str!("../../../../tests/data/bash_corpus.json")).unwrap()
}

/// The programs of a line, without those that others run, and each loop's body once.
fn names(reading: &Reading) -> Vec<String> {
    let mut seen = Vec::new();
    let mut names = Vec::new();
    for simple in reading.commands.iter().filter(|simple| simple.run_by.is_none()) {
        let in_loop = simple.within.contains(&super::super::Within::Loop);
        let repeated = in_loop && seen.contains(&&simple.source);
        seen.push(&simple.source);
        match simple.words.first() {
            Some(Word::Known(text)) if !repeated => names.push(text.clone()),
            Some(Word::Glob(_) | Word::Unknown { .. }) if !repeated => {
                let (first, _) = simple.source.rsplit_once(" x").unwrap_or((&simple.source, ""));
                names.push(first.trim_end_matches(" -rf").to_owned());
            }
            Some(_) | None => {}
        }
    }
    names.sort();
    names
}

#[test]
fn every_line_of_the_corpus_is_read_or_refused() {
    for Case { cmd, names: expected } in corpus() {
        let reading = reading(&cmd);
        let Some(expected) = expected else {
            assert!(reading.script.is_none(), "bash rejects {cmd:?}");
            continue;
        };
        assert_eq!(
            reading.script.is_none(),
            REFUSED.contains(&cmd.as_str()),
            "{cmd:?}: {:?}",
            reading.problem
        );
        if reading.script.is_some() {
            let mut expected: Vec<String> =
                expected.iter().map(|name| name.replace("~/", "/home/user/")).collect();
            expected.sort();
            assert_eq!(names(&reading), expected, "{cmd:?}");
        }
    }
}

#[test]
fn a_line_that_is_refused_still_shows_its_commands() {
    for Case { cmd, names: expected } in corpus() {
        let reading = reading(&cmd);
        if reading.script.is_none() {
            for name in expected.iter().flatten().filter(|name| name.chars().all(char::is_alphanumeric)) {
                let seen = reading.commands.iter().any(|simple| {
                    simple.words.first().and_then(Word::known).is_some_and(|first| first == name)
                });
                assert!(seen, "{name} in {cmd:?}");
            }
        }
    }
}
