//! Two long lists of commands and the two figures drawn from them: how many ordinary looks at a
//! project run without asking, and that nothing else does.

use super::*;
use crate::permission::tests::{fact, policy};

const READ_ONLY: &str = include_str!("../../tests/data/read_only.txt");
const NOT_READ_ONLY: &str = include_str!("../../tests/data/not_read_only.txt");

fn class(command: &str) -> Class {
    let policy = policy(Mode::Default, &[]);
    let ground = Ground { directory: "/w".into(), home: policy.home.clone() };
    Line::new(read(command, &ground), |path| path.to_str().map(fact)).class(&policy)
}

fn commands(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("# "))
}

#[test]
fn ordinary_looks_run_without_asking() {
    let all: Vec<&str> = commands(READ_ONLY).collect();
    let asking: Vec<(&str, Class)> = all
        .iter()
        .map(|command| (*command, class(command)))
        .filter(|(_, class)| *class != Class::ReadOnly)
        .collect();
    eprintln!("{} of {} ordinary read-only commands run without asking", all.len() - asking.len(), all.len());
    for (command, class) in &asking {
        eprintln!("  asks: {command}   {class:?}");
    }
    assert!(all.len() >= 300 && asking.len() * 50 <= all.len(), "{} of {} ask", asking.len(), all.len());
}

#[test]
fn nothing_else_passes_for_a_look() {
    let all: Vec<&str> = commands(NOT_READ_ONLY).collect();
    let passing: Vec<&&str> = all.iter().filter(|command| class(command) == Class::ReadOnly).collect();
    eprintln!("{} of {} other commands pass for read-only", passing.len(), all.len());
    assert!(all.len() >= 300 && passing.is_empty(), "{passing:#?}");
}
