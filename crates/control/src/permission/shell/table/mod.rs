//! The table of programs: what a program with these words does, by entries that are data (`data/*.toml`)
//! and a few readers for small languages. Pure and one-sided: what is not known with its arity is unknown.

mod act;
mod arguments;
mod awk;
mod find;
mod floor;
mod jq;
mod place;
mod row;
mod sed;
mod special;
mod variable;

use super::facts::{Directory, Effects, How, Word};
use act::Sheet;
use arguments::{Until, read};
use row::{Is, Mark, Row, Rows};
use std::{path::Path, sync::LazyLock};

pub(crate) use floor::{Vital, forbidden, forbidden_touch};
pub(crate) use variable::is_harmless_variable;

/// Where a command runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    /// Its working directory.
    pub directory: &'a Directory,
    /// The user's home.
    pub home: &'a Path,
}

/// The families of entries.
const FAMILIES: [&str; 9] = [
    include_str!("data/files.toml"),
    include_str!("data/text.toml"),
    include_str!("data/system.toml"),
    include_str!("data/shell.toml"),
    include_str!("data/wrappers.toml"),
    include_str!("data/git.toml"),
    include_str!("data/build.toml"),
    include_str!("data/network.toml"),
    include_str!("data/admin.toml"),
];

/// Folders whose programs are the system's.
const SYSTEM_FOLDERS: [&str; 5] = ["/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"];

#[expect(clippy::expect_used, reason = "the table is part of the program, and a test reads it")]
static ROWS: LazyLock<Rows> =
    LazyLock::new(|| Rows::parse(&FAMILIES).expect("the built-in table is tested to parse"));

/// What a program with these words does. The first word names it.
pub(crate) fn effects(words: &[Word], at: &At<'_>) -> Effects {
    let Some((program, rest)) = words.split_first() else { return Effects::default() };
    match entry_of(program) {
        Ok(row) => of_program(row, rest, at),
        Err(why) => Effects { unknown: vec![why], ..Effects::default() },
    }
}

/// The words as rules that forbid see them: the program without its folder, and without the options
/// that stand before a subcommand (`/usr/bin/git -C x push` is `git push`).
pub(crate) fn canonical(words: &[Word]) -> Vec<Word> {
    let Some((program, rest)) = words.split_first() else { return Vec::new() };
    let Some(name) = program.known().and_then(|text| text.rsplit('/').next()) else { return words.to_vec() };
    let skipped = match ROWS.program(name).filter(|row| row.has_children) {
        Some(row) => read(&[row], rest, Until::Operand).1,
        None => 0,
    };
    // Options alone are all there is to see.
    let rest = if skipped < rest.len() { &rest[skipped..] } else { rest };
    std::iter::once(Word::Known(name.to_owned())).chain(rest.iter().cloned()).collect()
}

/// The entry of a program, by its name or by the path of a system folder.
fn entry_of(program: &Word) -> Result<&'static Row, String> {
    let Some(text) = program.known() else {
        return Err("the program is only known when it runs".to_owned());
    };
    let name = match text.rsplit_once('/') {
        None => text,
        Some((folder, name)) if SYSTEM_FOLDERS.contains(&folder) => name,
        Some(_) => return Err(format!("{text} is a program of its own, not of the system")),
    };
    ROWS.program(name)
        .filter(|_| !name.contains(' '))
        .ok_or_else(|| format!("the program {name} is not known"))
}

fn of_program(program: &Row, words: &[Word], at: &At<'_>) -> Effects {
    let mut sheet = Sheet::new(at.directory, program.is(Is::Transparent));
    let mut chain = vec![program];
    let mut words = words;
    while let Some(row) = chain.last().copied() {
        if is_exact(row, words) || row.is(Is::Blank) {
            sheet.effects.git = program.is(Is::Git);
            return sheet.effects;
        }
        if !row.has_children {
            break;
        }
        let child_at = |at: usize| ROWS.child(row, words.get(at)?.known()?);
        // An option in front may make a form of its own, as in `git clean -n`.
        if let Some(child) = child_at(0) {
            words = &words[1..];
            chain.push(child);
            continue;
        }
        let (arguments, read) = read(&chain, words, Until::Operand);
        let Some(child) = child_at(read) else { break };
        act::options(row, &arguments, &mut sheet);
        words = &words[read + 1..];
        chain.push(child);
    }
    last(&chain, words, at, &mut sheet);
    sheet.effects
}

/// Adds what the entry at the chain's end does with the words that are left.
fn last(chain: &[&Row], words: &[Word], at: &At<'_>, sheet: &mut Sheet) {
    let row = chain[chain.len() - 1];
    sheet.effects.network |= chain.iter().any(|row| row.is(Is::Network));
    sheet.effects.dangers.extend(row.danger.clone());
    if let Some(code) = &row.code {
        sheet.effects.unknown.push(code.clone());
        if row.operands.is_none() && row.reader.is_none() {
            return sheet.effects.dangers.extend(dangerous_options(row, words));
        }
    }
    if let Some(reader) = row.reader {
        return special::effects(reader, chain, words, at.home, sheet);
    }
    if row.has_children && row.operands.is_none() && names_subcommand(chain, words) {
        return sheet.effects.unknown.push(format!("this subcommand of {} is not known", row.name));
    }
    let (arguments, _) = read(chain, words, Until::End);
    act::usual(row, &arguments, sheet);
    let is_git = chain[0].is(Is::Git);
    sheet.effects.git = is_git && is_read_only(&sheet.effects);
}

/// Whether an operand is left that would have to be a subcommand.
fn names_subcommand(chain: &[&Row], words: &[Word]) -> bool {
    let (_, read) = read(chain, words, Until::Operand);
    read < words.len()
}

/// Whether the words are one of the lists that only print.
fn is_exact(row: &Row, words: &[Word]) -> bool {
    let matches = |exact: &String| {
        let mut exact = exact.split_whitespace();
        words.iter().all(|word| word.known().is_some() && word.known() == exact.next())
            && exact.next().is_none()
    };
    row.exact.iter().any(matches)
}

/// Dangerous options among words that are otherwise not looked at. A program may let its options be
/// abbreviated, so that a beginning counts; so does a letter in a cluster.
fn dangerous_options(row: &Row, words: &[Word]) -> Vec<String> {
    let dangerous: Vec<&String> =
        row.options.iter().filter(|(_, option)| option.has(Mark::Dangerous)).map(|(name, _)| name).collect();
    let is_meant = |text: &str, name: &str| match name.strip_prefix("--") {
        _ if text == name => true,
        Some(_) => {
            let given = text.split('=').next().unwrap_or_default();
            given.len() > 3 && name.starts_with(given) || given.starts_with(&format!("{name}-"))
        }
        None if name.starts_with('-') => {
            text.starts_with('-') && !text.starts_with("--") && text.contains(&name[1..])
        }
        None => text.starts_with(name),
    };
    let texts = words.iter().filter_map(Word::known);
    texts
        .filter_map(|text| dangerous.iter().find(|name| is_meant(text, name)))
        .map(|name| format!("{} {name} cannot be taken back", row.name))
        .collect()
}

fn is_read_only(effects: &Effects) -> bool {
    !effects.network
        && effects.runs.is_empty()
        && effects.unknown.is_empty()
        && effects.dangers.is_empty()
        && effects.touches.iter().all(|touch| touch.how == How::Read)
}

#[cfg(test)]
mod tests;
