//! Finds the session that an id, the beginning of one, or some words stand for; asks where several do.

use super::{about, with_index};
use crate::{complain, machine::Machine, wire};
use anyhow::Context;
use ostler_engine::session::{Facts, Index, Scope, SessionFile, Store};
use std::path::PathBuf;

/// How many are offered to choose from.
const OFFERED: usize = 20;
/// The shortest beginning of an id that is taken for one.
pub(super) const SHORTEST_ID: usize = 4;

/// What was found.
pub(crate) enum Found {
    /// The one.
    One(PathBuf),
    /// Several that it could be, the last used first.
    Several(Vec<Facts>),
    /// None.
    Nothing,
}

/// Finds a session by its id, the beginning of its id, or words of its title or prompts; those of this
/// folder come first. Without words, all of this folder.
pub(crate) fn find(wanted: &str, machine: &Machine) -> anyhow::Result<Found> {
    let store = wire::store(machine);
    if let Some(path) = store.find(wanted) {
        return Ok(Found::One(path));
    }
    let here = Scope::Project(machine.cwd.clone());
    let wanted = wanted.trim().to_lowercase();
    if wanted.is_empty() {
        return with_index(machine, |index| Ok(Found::Several(index.list(&store, &here, OFFERED)?)));
    }
    let is_id = wanted.len() >= SHORTEST_ID && wanted.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if is_id {
        let files = store.files(&Scope::Everywhere);
        let meant: Vec<&SessionFile> =
            files.iter().filter(|file| file.id.as_str().starts_with(&wanted)).collect();
        if let [one] = meant.as_slice() {
            return Ok(Found::One(one.path.clone()));
        }
    }
    with_index(machine, |index| by_words(&wanted, &here, &store, index))
}

fn by_words(wanted: &str, here: &Scope, store: &Store, index: &mut Index) -> anyhow::Result<Found> {
    for scope in [here, &Scope::Everywhere] {
        let listed = index.list(store, scope, usize::MAX)?;
        let titled =
            |facts: &&Facts| facts.title.as_ref().is_some_and(|title| title.to_lowercase() == wanted);
        let exact: Vec<Facts> = listed.iter().filter(titled).cloned().collect();
        let mut fitting = if exact.is_empty() {
            listed.into_iter().filter(|facts| speaks_of(facts, wanted)).collect()
        } else {
            exact
        };
        if fitting.is_empty() {
            fitting =
                index.search(store, scope, wanted, OFFERED)?.into_iter().map(|hit| hit.session).collect();
        }
        match fitting.as_slice() {
            [] => {}
            [one] => return Ok(Found::One(one.path.clone())),
            [..] => {
                fitting.truncate(OFFERED);
                return Ok(Found::Several(fitting));
            }
        }
    }
    Ok(Found::Nothing)
}

/// Lets the person at the terminal choose.
pub(crate) fn pick(offered: &[Facts], machine: &Machine) -> anyhow::Result<PathBuf> {
    for (at, facts) in offered.iter().enumerate() {
        complain(&format!("{:>3}  {}", at + 1, row(facts, machine)));
    }
    complain(&format!("which one? 1 to {}: ", offered.len()));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("cannot read the answer")?;
    let chosen = line.trim().parse::<usize>().ok().and_then(|number| offered.get(number.checked_sub(1)?));
    let chosen = chosen.context("none was chosen")?;
    Ok(chosen.path.clone())
}

/// Sessions, one a line.
pub(crate) fn table(listed: &[Facts], machine: &Machine) -> String {
    listed.iter().map(|facts| row(facts, machine)).collect()
}

/// One session on a line.
pub(super) fn row(facts: &Facts, machine: &Machine) -> String {
    let elsewhere = facts.cwd.as_ref().filter(|cwd| machine.cwd.as_os_str() != cwd.as_str());
    let place = elsewhere.map(|cwd| format!("  [{}]", super::one_line(cwd))).unwrap_or_default();
    let tag = facts.tag.as_ref().map(|tag| format!("  #{}", super::one_line(tag))).unwrap_or_default();
    let id: String = facts.id.chars().take(8).collect();
    format!("{id}  {}  {}{tag}{place}\n", ostler_engine::rewind::when(facts.modified_ms), about(facts))
}

fn speaks_of(facts: &Facts, wanted: &str) -> bool {
    let texts = [&facts.title, &facts.first_prompt, &facts.last_prompt];
    texts.into_iter().flatten().any(|text| text.to_lowercase().contains(wanted))
}
