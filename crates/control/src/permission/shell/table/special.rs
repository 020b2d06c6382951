//! Programs whose words follow rules of their own: tests, assignments in front of a program, shells,
//! archives, and what moves the shell. Each reader proves what it accepts.

use super::{
    act::{Depth, Sheet, options, usual},
    arguments::{Arguments, Until, is_multiple, read},
    place,
    row::{Kind, Reader, Row},
    variable,
};
use crate::permission::shell::facts::{Directory, How, Inner, Place, Word};
use std::path::Path;

/// Adds what a program does whose words are read by this reader.
pub(super) fn effects(reader: Reader, chain: &[&Row], words: &[Word], home: &Path, sheet: &mut Sheet) {
    let row = chain[chain.len() - 1];
    let arguments = || read(chain, words, Until::End).0;
    match reader {
        Reader::Find => super::find::effects(words, sheet),
        Reader::Test => test(words, sheet),
        Reader::Dd => dd(words, sheet),
        Reader::Set => set(words, sheet),
        Reader::Cd => cd(row, &arguments(), home, sheet),
        Reader::Popd => {
            usual(row, &arguments(), sheet);
            sheet.effects.moves = Some(Directory::Unknown);
        }
        Reader::Env => env(row, &arguments(), sheet),
        Reader::Shell => shell(row, &arguments(), sheet),
        Reader::Xargs => xargs(row, &arguments(), sheet),
        Reader::Tar => tar(row, &read(chain, &modern(row, words), Until::End).0, sheet),
    }
}

fn cd(row: &Row, arguments: &Arguments, home: &Path, sheet: &mut Sheet) {
    options(row, arguments, sheet);
    let to = match arguments.operands.as_slice() {
        [] if row.name == "cd" => Directory::Known(home.to_path_buf()),
        [] => Directory::Unknown,
        // Back to where the shell was, or to an entry of its stack.
        [word] if word.known().is_some_and(|text| text == "-" || text.starts_with('+')) => Directory::Unknown,
        [word] => match place::place(word, &sheet.directory) {
            Place::At(path) => Directory::Known(path),
            Place::Below(_) | Place::Anywhere => Directory::Unknown,
        },
        _ => return sheet.unknown("cd with several operands is not known"),
    };
    let place = match &to {
        Directory::Known(path) => Word::Known(path.to_string_lossy().into_owned()),
        Directory::Unknown => Word::Unknown { start: String::new(), splits: false },
    };
    sheet.touch(How::Read, &place, Depth::Itself);
    sheet.effects.moves = Some(to);
}

/// Assignments, then a program: `env A=b make`, `sudo -u x A=b make`.
fn env(row: &Row, arguments: &Arguments, sheet: &mut Sheet) {
    options(row, arguments, sheet);
    let is_assignment = |word: &Word| match word {
        Word::Known(text) | Word::Unknown { start: text, splits: false } => text.contains('='),
        Word::Glob(_) | Word::Unknown { .. } => false,
    };
    let operands = &arguments.operands;
    let count = operands.iter().position(|word| !is_assignment(word)).unwrap_or(operands.len());
    for word in &operands[..count] {
        sheet.word(Kind::Export, word, false);
    }
    if count < operands.len() {
        sheet.program(&operands[count..]);
    }
}

/// `bash -c text` runs the text, `bash -n file` only reads, and all else runs a file or its input.
fn shell(row: &Row, arguments: &Arguments, sheet: &mut Sheet) {
    options(row, arguments, sheet);
    let runs_text = arguments.has_any(&["-c"]);
    let only_checks = arguments.has_any(&["-n"]);
    match arguments.operands.first() {
        Some(text) if runs_text && (row.name == "bash" || text.known().is_some_and(is_common)) => {
            sheet.effects.runs.push(Inner::Script(text.clone()));
        }
        Some(_) if runs_text => {
            sheet.effects.unknown.push(format!("{} may read the text unlike bash", row.name));
        }
        Some(file) if only_checks => sheet.touch(How::Read, file, Depth::Itself),
        Some(_) | None => {
            sheet.effects.unknown.push(format!("{} runs a file or its input as a script", row.name));
        }
    }
}

/// Whether every shell reads the text as bash does: what only some know is a plain word to others, and
/// an operator behind it would be theirs (`[[ a && rm x ]]`).
fn is_common(text: &str) -> bool {
    const OWN: [&str; 14] =
        ["[[", "((", "$'", "$\"", "&>", ">&", "<(", ">(", "<<<", "|&", ";&", "{", "function", "coproc"];
    !OWN.iter().any(|own| text.contains(own))
}

/// The program gets words from the input: at its end, or in place of a mark.
fn xargs(row: &Row, arguments: &Arguments, sheet: &mut Sheet) {
    options(row, arguments, sheet);
    sheet.transparent &= arguments.given.is_empty();
    let replaced =
        arguments.given.iter().find(|given| ["-I", "-i", "--replace"].contains(&given.name.as_str()));
    let mark = replaced.map(|given| given.values.first().map_or(Some("{}"), Word::known));
    let from_input = |start: &str, splits| Word::Unknown { start: start.to_owned(), splits };
    let mut words = match arguments.operands.as_slice() {
        [] => vec![Word::Known("echo".to_owned())],
        operands => operands.to_vec(),
    };
    match mark {
        None => words.push(from_input("", true)),
        Some(Some(mark)) if !mark.is_empty() => {
            for word in &mut words {
                if let Some((before, _)) = word.known().and_then(|text| text.split_once(mark)) {
                    *word = from_input(before, false);
                }
            }
        }
        Some(_) => sheet.unknown("it is only known when it runs what xargs replaces"),
    }
    sheet.program(&words);
}

const FILE_TESTS: [&str; 20] = [
    "-a", "-b", "-c", "-d", "-e", "-f", "-g", "-h", "-k", "-p", "-r", "-s", "-u", "-w", "-x", "-G", "-L",
    "-N", "-O", "-S",
];

const TEXT_TESTS: [&str; 4] = ["-n", "-z", "-t", "-o"];

const COMPARISONS: [&str; 14] =
    ["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];

/// `test` and `[`. The number of words decides how they are read, so that none may split.
fn test(words: &[Word], sheet: &mut Sheet) {
    let words = match words.split_last() {
        Some((last, before)) if last.known() == Some("]") => before,
        Some(_) | None => words,
    };
    if words.iter().any(is_multiple) {
        return sheet.unknown("it cannot be said how many words the test will get");
    }
    let all_known = words.iter().all(|word| word.known().is_some());
    let words: Vec<&Word> = words.iter().collect();
    if words.len() > 4 {
        if !all_known {
            return sheet.unknown("a long test with a word that is only known when it runs");
        }
        let joins = |word: &&Word| matches!(word.known(), Some("-a" | "-o"));
        return words.split(joins).for_each(|part| one_test(part, sheet));
    }
    one_test(&words, sheet);
}

fn one_test(words: &[&Word], sheet: &mut Sheet) {
    let is = |word: &Word, list: &[&str]| word.known().is_some_and(|text| list.contains(&text));
    match words {
        [] | [_] => {}
        [not, rest @ ..] if is(not, &["!"]) && rest.len() != 2 => one_test(rest, sheet),
        [left, operator, right] if is(operator, &COMPARISONS) => {
            if is(operator, &["-nt", "-ot", "-ef"]) {
                sheet.touch(How::Read, left, Depth::Itself);
                sheet.touch(How::Read, right, Depth::Itself);
            }
        }
        [not, operator, value] if is(not, &["!"]) => one_test(&[operator, value], sheet),
        [operator, _] if is(operator, &TEXT_TESTS) || is(operator, &["!"]) => {}
        [operator, path] if is(operator, &FILE_TESTS) => sheet.touch(How::Read, path, Depth::Itself),
        [operator, name] if is(operator, &["-v"]) && name.known().is_some_and(variable::is_name) => {}
        _ => sheet.unknown("the test is not understood"),
    }
}

/// `dd` takes `if=`, `of=` and settings.
fn dd(words: &[Word], sheet: &mut Sheet) {
    const PLAIN: [&str; 12] =
        ["bs", "ibs", "obs", "cbs", "count", "skip", "seek", "iseek", "oseek", "conv", "iflag", "status"];
    for word in words {
        match word.known().and_then(|text| text.split_once('=')) {
            Some(("if", path)) => sheet.touch(How::Read, &Word::Known(path.to_owned()), Depth::Itself),
            Some(("of", path)) => sheet.touch(How::Write, &Word::Known(path.to_owned()), Depth::Itself),
            Some((name, _)) if PLAIN.contains(&name) || name == "oflag" => {}
            Some(_) | None => sheet.unknown("an operand of dd is not known"),
        }
    }
}

/// `set -euo pipefail`: only what cannot change how the following is read.
fn set(words: &[Word], sheet: &mut Sheet) {
    const NAMES: [&str; 6] = ["errexit", "nounset", "pipefail", "xtrace", "verbose", "errtrace"];
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.known() else {
            return sheet.unknown("it is only known when it runs what is set");
        };
        if text == "--" {
            return;
        }
        let letters = text.strip_prefix(['-', '+']).unwrap_or("?");
        let names_option = letters.ends_with('o');
        let is_plain =
            !letters.is_empty() && letters.trim_end_matches('o').chars().all(|c| "euxvE".contains(c));
        let name = if names_option { words.next().and_then(Word::known) } else { Some("errexit") };
        if !is_plain || !name.is_none_or(|name| NAMES.contains(&name)) {
            return sheet.unknown("what is set may change how commands are read");
        }
    }
}

/// The words of `tar` with the letters of the old style (`xzf a.tgz`) made options of their own.
fn modern(row: &Row, words: &[Word]) -> Vec<Word> {
    let Some((letters, rest)) = words.split_first() else { return Vec::new() };
    let Some(letters) = letters.known().filter(|text| !text.starts_with('-')) else { return words.to_vec() };
    let mut rest = rest.iter();
    let mut modern = Vec::new();
    for letter in letters.chars() {
        let name = format!("-{letter}");
        let takes_value = row.options.get(&name).is_some_and(|option| option.arity == super::row::Arity::One);
        modern.push(Word::Known(name));
        modern.extend(takes_value.then(|| rest.next().cloned()).flatten());
    }
    modern.extend(rest.cloned());
    modern
}

/// `tar` lists, extracts into a directory, or packs trees into an archive.
fn tar(row: &Row, arguments: &Arguments, sheet: &mut Sheet) {
    let has = |names: &[&str]| arguments.has_any(names);
    let archives = || arguments.given.iter().filter(|given| given.option.kind == Kind::Archive);
    // The archive is found before any change of directory.
    let packs = has(&["-c", "-r", "-u", "-A", "--create", "--append", "--update"]);
    let extracts = has(&["-x", "--extract", "--get"]);
    for archive in archives().flat_map(|given| &given.values) {
        let how = if packs { How::Write } else { How::Read };
        if archive.known() != Some("-") {
            sheet.archive(how, archive);
        }
    }
    for given in arguments.given.iter().filter(|given| given.option.kind != Kind::Archive) {
        given.values.iter().for_each(|value| sheet.word(given.option.kind, value, false));
    }
    sheet.effects.unknown.extend(arguments.problems.iter().cloned());
    match (packs, extracts) {
        (true, false) => arguments.operands.iter().for_each(|tree| sheet.touch(How::Read, tree, Depth::All)),
        (false, true) if has(&["-O", "--to-stdout"]) => {}
        (false, true) => sheet.touch(How::Write, &Word::Known(".".to_owned()), Depth::All),
        (false, false) if has(&["-t", "--list", "-d", "--diff"]) => {}
        (true, true) | (false, false) => {
            sheet.effects.unknown.push(format!("it cannot be said what {} does", row.name));
        }
    }
}
