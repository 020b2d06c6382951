//! A cautious reading of command lines for rules. It understands only the plain case; whatever has
//! shell syntax in it is never allowed by a rule and is searched piece by piece for denials.

use super::Policy;
use std::path::{Component, Path, PathBuf};

/// Whether the line is one simple command: no operators, expansions, redirections or escapes.
pub(super) fn is_plain(command: &str) -> bool {
    !command.is_empty()
        && !command.contains(|c: char| ";&|<>()$`\\\n\r{}*?[]~!#\0".contains(c) || c.is_control())
}

/// The pieces of a line that might each be a command, with leading wrappers and assignments
/// taken off. Too many pieces is fine here: they only ever serve to deny or to ask.
pub(super) fn pieces(command: &str) -> Vec<String> {
    let joined = command.replace("\\\n", "");
    let mut pieces = vec![joined.trim().to_owned()];
    for piece in joined.split([';', '&', '|', '\n', '\r', '(', ')', '`', '{', '}']) {
        let words = bare_words(piece);
        if !words.is_empty() {
            pieces.push(words.join(" "));
            pieces.push(piece.trim().to_owned());
        }
    }
    pieces
}

/// What no mode and no rule permits: removing the root, the home, the project or its parents.
pub(super) fn catastrophe(command: &str, cwd: &Path, policy: &Policy) -> Option<String> {
    for piece in command.split([';', '&', '|', '\n', '\r', '(', ')', '`', '{', '}']) {
        let words = bare_words(piece);
        let Some((program, rest)) = words.split_first() else { continue };
        if program != "rm" {
            continue;
        }
        let recursive = rest.iter().any(|word| {
            word == "--recursive"
                || (word.starts_with('-') && !word.starts_with("--") && word.contains(['r', 'R']))
        });
        let operands = rest.iter().filter(|word| !word.starts_with('-'));
        if let Some(target) = operands.into_iter().find(|word| recursive && is_vital(word, cwd, policy)) {
            return Some(format!(
                "the hard floor: 'rm -r {target}' would remove the system, the home or the project"
            ));
        }
    }
    None
}

fn is_vital(operand: &str, cwd: &Path, policy: &Policy) -> bool {
    let whole = operand.trim_end_matches('*');
    let whole = if whole.is_empty() { "." } else { whole };
    let path = match whole.trim_end_matches('/') {
        "" => PathBuf::from("/"),
        "~" | "$HOME" | "${HOME}" => policy.home.clone(),
        relative => cwd.join(relative.strip_prefix("./").unwrap_or(relative)),
    };
    let path: PathBuf = normal(&path);
    let top_level = path.components().count() <= 2;
    top_level || policy.home.starts_with(&path) || policy.roots.iter().any(|root| root.starts_with(&path))
}

fn normal(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            part @ (Component::Prefix(_) | Component::RootDir | Component::Normal(_)) => clean.push(part),
        }
    }
    clean
}

/// The words of one piece with quotes removed, without assignments and wrappers in front, and
/// with the program's folder taken off.
fn bare_words(piece: &str) -> Vec<String> {
    let mut words: Vec<String> = piece
        .split_whitespace()
        .map(|word| word.replace(['"', '\'', '\\'], ""))
        .filter(|word| !word.is_empty())
        .collect();
    let wrapper = |word: &str| {
        [
            "sudo", "doas", "env", "command", "builtin", "nohup", "nice", "time", "timeout", "stdbuf",
            "xargs", "exec", "then", "do", "else", "!",
        ]
        .contains(&word)
    };
    while let Some(first) = words.first() {
        let is_assignment = first.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        // Options and numbers after a wrapper belong to it (`timeout 5`, `nice -n 3`).
        let of_wrapper = first.starts_with('-') || first.parse::<f64>().is_ok();
        if is_assignment || of_wrapper || wrapper(first) {
            words.remove(0);
        } else {
            break;
        }
    }
    if let Some(first) = words.first_mut()
        && let Some(name) = first.rsplit('/').next().filter(|name| !name.is_empty())
    {
        *first = name.to_owned();
    }
    words
}
