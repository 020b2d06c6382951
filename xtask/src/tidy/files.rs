//! The shape of files: how they open, how long they are, and what may not stand in them.
//! Knows nothing of what the code means.

use crate::tidy::{
    Finding,
    lex::{Source, Token, find},
    tree::{File, Tree},
};

const RULE: &str = "files";
const MOST_LINES: usize = 600;
/// Folders at the top of a machine where people keep their checkouts.
const MACHINE_FOLDERS: [&str; 3] = ["work", "root", "home"];
/// Names for people in examples; any other name below the folder of homes is somebody's machine.
const EXAMPLE_NAMES: [&str; 4] = ["u", "me", "you", "user"];

/// Checks all files.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    if tree.file("Cargo.lock").is_none() {
        findings.push(finding("Cargo.lock", 1, "is missing; it is part of the project"));
    }
    if let Some(ignored) = tree.file(".gitignore")
        && let Some(line) =
            ignored.text.lines().position(|line| line.trim().trim_start_matches('/') == "Cargo.lock")
    {
        findings.push(finding(&ignored.path, line + 1, "ignores Cargo.lock; it is part of the project"));
    }
    for file in tree.files.iter().filter(|file| file.path != "Cargo.lock") {
        findings.extend(text_findings(file));
    }
    for (file, source) in tree.rust() {
        findings.extend(rust_findings(file, source));
    }
    findings
}

fn text_findings(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (position, line) in file.text.lines().enumerate() {
        if line.ends_with([' ', '\t']) {
            findings.push(finding(&file.path, position + 1, "has spaces at the end of the line"));
        }
        if let Some(path) = machine_path(line) {
            findings.push(finding(&file.path, position + 1, &format!("names a path of one machine: {path}")));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(finding(&file.path, file.text.lines().count(), "does not end with a newline"));
    }
    findings
}

/// An absolute path that exists only where somebody works.
fn machine_path(line: &str) -> Option<&str> {
    let is_name_part = |character: char| character.is_alphanumeric() || "_-.".contains(character);
    for folder in MACHINE_FOLDERS {
        for (at, slashed) in line.match_indices(&format!("/{folder}/")) {
            let before = &line[..at];
            let rest = &line[at + slashed.len()..];
            let name = &rest[..rest.find(|character| !is_name_part(character)).unwrap_or(rest.len())];
            let is_absolute =
                !before.ends_with(|character| is_name_part(character) || "~{}$/".contains(character));
            let is_example = folder == "home" && EXAMPLE_NAMES.contains(&name);
            if is_absolute && !is_example && !name.is_empty() {
                return Some(&line[at..at + slashed.len() + name.len()]);
            }
        }
    }
    None
}

fn rust_findings(file: &File, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_source = file.path.starts_with("xtask/src/")
        || file.path.strip_prefix("crates/").and_then(|path| path.split('/').nth(1)) == Some("src");
    if is_source && !file.text.starts_with("//!") {
        findings.push(finding(
            &file.path,
            1,
            "must open with `//!`: what the file owns, and what it must never do",
        ));
    }
    let lines = file.text.lines().count().saturating_sub(source.test_lines);
    if !file.is_test() && lines > MOST_LINES {
        let message =
            format!("has {lines} lines without tests; past {MOST_LINES} it wants to be split by idea");
        findings.push(finding(&file.path, 1, &message));
    }
    for (token, what) in unfinished(&source.tokens) {
        findings.push(finding(&file.path, token.line, &format!("has `{what}`; finish it or take it out")));
    }
    if !file.is_test() {
        // What stands in such a module counts as test code everywhere else in these checks.
        for at in find(&source.product, &["mod", "tests"]) {
            let message = "has a module `tests` that is not under `#[cfg(test)]`";
            findings.push(finding(&file.path, source.product[at].line, message));
        }
    }
    findings
}

/// Marks of work that is not done, and tests that do not run.
fn unfinished(tokens: &[Token]) -> Vec<(&Token, String)> {
    let macros = ["todo", "unimplemented", "dbg"].into_iter().flat_map(|name| {
        find(tokens, &[name, "!"]).into_iter().map(move |at| (&tokens[at], format!("{name}!")))
    });
    let attributes: [&[&str]; 2] = [&["#", "[", "ignore"], &[",", "ignore", ")", "]"]];
    let ignored = attributes.into_iter().flat_map(|sequence| find(tokens, sequence));
    macros.chain(ignored.map(|at| (&tokens[at], "#[ignore]".to_owned()))).collect()
}

fn finding(path: &str, line: usize, message: &str) -> Finding {
    Finding { path: path.to_owned(), line, rule: RULE, message: message.to_owned() }
}
