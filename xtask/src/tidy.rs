//! The rules no compiler checks: which crate may name which, the one place that runs effects, where tasks
//! and processes start, and the shape of files. Only looks; never changes a file.

mod crates;
mod effects;
mod files;
mod lex;
mod spawns;
#[cfg(test)]
mod tests;
mod tree;

use anyhow::Result;
use std::{fmt, path::Path};
use tree::Tree;

/// A broken rule and where it is broken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, rule, message } = self;
        write!(f, "{path}:{line}: {message} [{rule}]")
    }
}

/// Prints what is wrong below a folder; answers whether nothing is.
pub(crate) fn report(root: &Path) -> Result<bool> {
    let tree = Tree::read(root)?;
    let findings = findings(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => println!("tidy: {} files, nothing to mend", tree.files.len()),
        count => println!("tidy: {count} to mend"),
    }
    Ok(findings.is_empty())
}

/// Everything wrong with a tree, in the order of files.
fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings =
        [crates::check(tree), effects::check(tree), spawns::check(tree), files::check(tree)].concat();
    findings.sort();
    findings.dedup();
    findings
}
