//! The hard floor: commands that would destroy the system, the home or the project, and that no mode
//! and no rule permits. It looks at words only, and asks nobody.

use super::{
    At, ROWS,
    arguments::{Until, read},
    effects, find,
    place::{join, normal},
    row::{Kind, Mark},
};
use crate::permission::shell::facts::{Directory, How, Place, Touch, Word};
use std::path::{Path, PathBuf};

/// What must not be destroyed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vital<'a> {
    /// The user's home.
    pub home: &'a Path,
    /// The working directories, canonical.
    pub roots: &'a [PathBuf],
}

/// Says why the command is refused in every mode, if it is.
pub(crate) fn forbidden(words: &[Word], at: &At<'_>, vital: &Vital<'_>) -> Option<String> {
    let (program, rest) = words.split_first()?;
    let name = program.known()?.rsplit('/').next()?;
    let target = match name {
        "rm" | "rmdir" | "shred" | "chmod" | "chown" | "chgrp" | "mv" => victim(name, rest, at, vital),
        "find" => searched_victim(rest, at, vital),
        "kill" => kills_all(rest).then(|| "every process".to_owned()),
        _ if name.starts_with("mkfs") || name == "wipefs" => {
            rest.iter().filter_map(Word::known).find(|text| is_disk(Path::new(text))).map(str::to_owned)
        }
        _ => None,
    };
    if let Some(target) = target {
        return Some(format!(
            "the hard floor: '{name}' would destroy {target}: the system, the home or the project"
        ));
    }
    effects(words, at).touches.iter().find_map(forbidden_touch)
}

/// Says why a touch is refused in every mode, if it is; for redirections too.
pub(crate) fn forbidden_touch(touch: &Touch) -> Option<String> {
    match (&touch.how, &touch.place) {
        (How::Write | How::Remove, Place::At(path)) if is_disk(&normal(path)) => {
            Some(format!("the hard floor: it would overwrite the disk {}", path.display()))
        }
        (How::Read | How::Write | How::Remove, Place::At(_) | Place::Below(_) | Place::Anywhere) => None,
    }
}

/// The first vital operand of a program that removes, moves away or opens up whole trees.
fn victim(name: &str, words: &[Word], at: &At<'_>, vital: &Vital<'_>) -> Option<String> {
    let row = ROWS.program(name)?;
    let (arguments, _) = read(&[row], words, Until::End);
    // The option that goes deep may be abbreviated.
    let shortened = |text: &str| text.len() > 2 && "--recursive".starts_with(text);
    let deep = arguments.has(Mark::Deep) || words.iter().filter_map(Word::known).any(shortened);
    let has_destination = arguments.given.iter().any(|given| given.option.kind == Kind::Into);
    let operands = match (name, arguments.operands.as_slice()) {
        ("chmod" | "chown" | "chgrp", _) if !deep => &[],
        ("chmod" | "chown" | "chgrp", [_, paths @ ..]) if !arguments.has(Mark::Instead) => paths,
        ("mv", [sources @ .., _]) if !has_destination => sources,
        (_, operands) => operands,
    };
    operands.iter().find(|word| is_vital(word, deep || name == "mv", at, vital)).map(shown)
}

fn searched_victim(words: &[Word], at: &At<'_>, vital: &Vital<'_>) -> Option<String> {
    let search = find::read(words);
    if !search.deletes || search.picks {
        return None;
    }
    let dot = Word::Known(".".to_owned());
    let starts = if search.starts.is_empty() { vec![&dot] } else { search.starts };
    starts.into_iter().find(|word| is_vital(word, true, at, vital)).map(shown)
}

fn is_vital(word: &Word, deep: bool, at: &At<'_>, vital: &Vital<'_>) -> bool {
    match word {
        Word::Known(text) => join(at.directory, text).is_some_and(|path| holds_vital(&normal(&path), vital)),
        Word::Glob(pattern) => deep && is_vital_pattern(pattern, at.directory, vital),
        // If the rest comes out empty, the start alone is what is removed.
        Word::Unknown { start, .. } => {
            let folder =
                Some(start).filter(|start| start.ends_with('/')).and_then(|start| join(at.directory, start));
            deep && folder.is_some_and(|folder| {
                let folder = normal(&folder);
                holds_vital(&folder, vital) && !vital.roots.contains(&folder)
            })
        }
    }
}

/// Whether the pattern takes everything in a vital folder, or folders of the root.
fn is_vital_pattern(pattern: &str, directory: &Directory, vital: &Vital<'_>) -> bool {
    // `?*` stands for some of the files, as `find` hands them on; a star alone for all.
    let takes_all = |part: &&str| part.contains('*') && part.chars().all(|c| "*.[]!^{},".contains(c));
    let parts: Vec<&str> = pattern.trim_end_matches('/').split('/').collect();
    let kept = parts.iter().rposition(|part| !takes_all(part)).map_or(0, |at| at + 1);
    if kept == parts.len() {
        return parts.len() == 2 && parts[0].is_empty();
    }
    let folder = if pattern.starts_with('/') && kept == 1 { "/".to_owned() } else { parts[..kept].join("/") };
    let Some(folder) = join(directory, &folder) else { return false };
    let folder = normal(&folder);
    let is_temporary = folder == Path::new("/tmp");
    holds_vital(&folder, vital) && (!is_temporary || vital.roots.iter().any(|root| root.starts_with(&folder)))
}

/// Whether the root, a folder of the root, the home or a working directory goes with this path.
fn holds_vital(path: &Path, vital: &Vital<'_>) -> bool {
    path.components().count() <= 2
        || vital.home.starts_with(path)
        || vital.roots.iter().any(|root| root.starts_with(path))
}

/// Disks and the like, but not the devices that swallow or pass on.
fn is_disk(path: &Path) -> bool {
    const NAMES: [&str; 12] =
        ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "md", "dm-", "mem", "kmem"];
    let Ok(device) = path.strip_prefix("/dev") else { return false };
    let device = device.to_string_lossy();
    device.starts_with("mapper/")
        || device.starts_with("disk/")
        || NAMES.iter().any(|name| device.starts_with(name))
}

/// `kill` with -1 for its target rather than for the signal.
fn kills_all(words: &[Word]) -> bool {
    let texts: Vec<Option<&str>> = words.iter().map(Word::known).collect();
    texts.iter().enumerate().any(|(at, text)| *text == Some("-1") && at > 0 && texts[at - 1] != Some("-s"))
}

fn shown(word: &Word) -> String {
    match word {
        Word::Known(text) | Word::Glob(text) => format!("'{text}'"),
        Word::Unknown { start, .. } => format!("'{start}…'"),
    }
}
