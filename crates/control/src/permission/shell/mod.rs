//! Reads a command line before it runs: which commands it holds, with which words, where they would
//! run and what they would touch. Pure: nothing is started, opened or looked up, and what is not
//! understood to the last byte is said to be so.
#![forbid(unsafe_code)]

pub(crate) mod facts;
mod parse;
mod pieces;
mod syntax;
pub(crate) mod table;
mod walk;

pub(crate) use walk::steers;

use facts::{Directory, Effects, Touch, Word};
use serde::Serialize;
use std::path::{Path, PathBuf};
use syntax::Script;

/// Where a command line starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ground {
    /// The directory, absolute.
    pub directory: PathBuf,
    /// The user's home, absolute.
    pub home: PathBuf,
}

/// What was read out of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Reading {
    /// The tree; none when it could not be parsed.
    pub script: Option<Script>,
    /// Why it, or a part of it, is not understood. The commands below are then not all there is.
    pub problem: Option<String>,
    /// Every simple command, in the order of the text; those that another command runs stand right
    /// behind it. A command that may run in several directories, or once for each value of a loop,
    /// is there as often. If the line could not be parsed, pieces of it that might be commands.
    pub commands: Vec<Simple>,
}

/// One simple command, or redirections that belong to none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Simple {
    /// As written, from its first word to its last.
    pub source: String,
    /// Its words after the shell's expansions; empty if it only assigns or redirects.
    pub words: Vec<Word>,
    /// Assignments in front of it.
    pub assignments: Vec<(String, Word)>,
    /// Where it runs.
    pub directory: Directory,
    /// The files its redirections read and write.
    pub redirects: Vec<Touch>,
    /// What it does besides.
    pub effects: Effects,
    /// What stands around it, outermost first.
    pub within: Vec<Within>,
    /// The index of the command that runs it, if one does (`timeout 5 ls`, `bash -c ls`).
    pub run_by: Option<usize>,
    /// Whether rules look through the one that runs it.
    pub transparent: bool,
}

/// What stands around a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Within {
    /// `$(…)` or backquotes.
    Substitution,
    /// `<(…)` or `>(…)`.
    Process,
    /// `( … )`.
    Subshell,
    /// A pipeline; whether something is piped into it.
    Pipe { reads: bool },
    /// `&`, or a coprocess.
    Background,
    /// The body of a loop or its condition.
    Loop,
    /// A branch of `if` or `case`.
    Condition,
    /// The body of a function.
    Function,
}

/// Reads a command line.
pub(crate) fn read(command: &str, ground: &Ground) -> Reading {
    match parse::parse(command) {
        Ok(script) => {
            let (commands, problem) = walk::walk(&script, ground);
            Reading { script: Some(script), problem, commands }
        }
        Err(refused) => {
            let problem = Some(format!("{} (at byte {})", refused.why, refused.at));
            Reading { script: None, problem, commands: walk::walk_pieces(command, ground) }
        }
    }
}

/// What is read out of a command line, for people who want to know why it was judged so.
pub fn explain(command: &str, directory: &Path, home: &Path) -> serde_json::Value {
    let ground = Ground { directory: directory.to_owned(), home: home.to_owned() };
    serde_json::to_value(read(command, &ground)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
