//! Spellings of paths that other systems read otherwise than this one: shares, streams, short names, devices.
//! A tree is shared between systems, and what looks harmless here must be so there, too.

use super::file::written;
use ostler_proto::{Json, PathFact};
use std::path::{Component, Path};

const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

/// Why a path may lead to another machine: reading it could hand that machine credentials.
pub(super) fn network_path(input: &Json, paths: &[PathFact]) -> Option<String> {
    let is_share = |text: &str| {
        let text = text.trim_start();
        let rest = text.strip_prefix("//").or_else(|| text.strip_prefix("\\\\"));
        rest.is_some_and(|rest| !rest.starts_with(['/', '\\']) && !rest.is_empty())
    };
    let named = written(input).find(|text| is_share(text)).map(str::to_owned);
    let met = || names(paths).map(|(_, name)| name).find(|name| name.starts_with("\\\\"));
    named.or_else(met).map(|path| format!("{path} may be a path of another machine; that always asks"))
}

/// Why a name is not what it seems where it is read by Windows.
pub(super) fn odd_form<'a>(paths: impl IntoIterator<Item = &'a PathFact>) -> Option<String> {
    names(paths).find_map(|(fact, name)| {
        let why = odd_name(&name, fact)?;
        Some(format!("'{name}' {why}; that always asks"))
    })
}

/// Every name that a path goes through, in every spelling.
fn names<'a>(paths: impl IntoIterator<Item = &'a PathFact>) -> impl Iterator<Item = (&'a PathFact, String)> {
    let parts = |path: &Path| -> Vec<String> {
        let normal = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
        });
        normal.collect()
    };
    paths.into_iter().flat_map(move |fact| {
        fact.spellings().flat_map(parts).map(move |name| (fact, name)).collect::<Vec<_>>()
    })
}

fn odd_name(name: &str, fact: &PathFact) -> Option<&'static str> {
    if name.ends_with(['.', ' ']) {
        return Some("ends in a dot or a blank, which Windows leaves out");
    }
    if name.contains("::") || name.contains(":$") {
        return Some("names a stream within a file");
    }
    if is_drive(name) {
        return Some("begins with a drive of Windows");
    }
    if is_short(name) {
        return Some("is the short form of another name");
    }
    is_device(name, fact.exists).then_some("is the name of a device")
}

fn is_drive(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && characters.next() == Some(':')
        && characters.next().is_some_and(|c| c == '\\')
}

/// `PROGRA~1`, `NOTES~12.TXT`: at most eight characters and a short ending.
fn is_short(name: &str) -> bool {
    let (stem, ending) = name.split_once('.').unwrap_or((name, ""));
    let Some((head, number)) = stem.rsplit_once('~') else { return false };
    let numbered = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    numbered && !head.is_empty() && stem.chars().count() <= 8 && ending.chars().count() <= 3
}

/// `NUL`, `com1:`, and `aux.c` unless such a file lies there: then it is one here.
fn is_device(name: &str, exists: bool) -> bool {
    let bare = name.trim_end_matches(':').to_ascii_lowercase();
    let is_one = |word: &str| {
        DEVICES.contains(&word)
            || NUMBERED_DEVICES.iter().any(|device| {
                word.strip_prefix(device).is_some_and(|number| {
                    number.chars().count() == 1
                        && number.chars().all(|c| matches!(c, '1'..='9' | '¹' | '²' | '³'))
                })
            })
    };
    match bare.split_once('.') {
        None => is_one(&bare),
        Some((stem, _)) => !exists && is_one(stem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fact(path: &str, exists: bool) -> [PathFact; 1] {
        [PathFact { requested: path.into(), hops: vec![], target: path.into(), exists }]
    }

    #[test]
    fn shares_are_known_in_both_spellings() {
        for path in ["//server/share/x", "\\\\server\\share\\x", "\\\\?\\C:\\x", "//?/C:/x", "\\\\.\\pipe\\x"]
        {
            assert!(network_path(&json!({"file_path": path}), &[]).is_some(), "{path}");
        }
        for path in ["/w/a", "a//b", "///w/a", "\\a", "//"] {
            assert!(network_path(&json!({"file_path": path}), &fact("/w/a", true)).is_none(), "{path}");
        }
        assert!(network_path(&json!({}), &fact("/w/\\\\server\\share", false)).is_some());
        let edits = json!({"edits": [{"file_path": "//server/x"}]});
        assert!(network_path(&edits, &[]).is_some());
    }

    #[test]
    fn names_that_are_read_otherwise() {
        for name in [
            "a.txt::$DATA",
            "a.txt:$DATA",
            "PROGRA~1",
            "NOTES~12.TXT",
            "git~1",
            "a.txt.",
            "a.txt ",
            "...",
            "CON",
            "nul",
            "com1",
            "LPT9:",
            "C:\\x",
            "COM²",
        ] {
            assert!(odd_form(&fact(&format!("/w/{name}"), true)).is_some(), "{name}");
        }
        for name in [
            "a.txt",
            "a~",
            "pkg_1.0~1.deb",
            "longername~1",
            "10:30:00",
            "console",
            "com10",
            "com",
            "nullable",
            "aux.c",
            "~1",
            ".bashrc",
            "a b.txt",
            "..a",
        ] {
            assert!(odd_form(&fact(&format!("/w/{name}"), true)).is_none(), "{name}");
        }
        assert!(odd_form(&fact("/w/aux.c", false)).is_some(), "what is yet to be made would be a device");
    }
}
