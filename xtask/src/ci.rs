//! All that must pass before a change lands, cheapest first, tests last.
//! Keeps going after a failure, so that one run tells everything. Installs nothing.

use crate::{
    run::{answers, cargo, succeeds},
    test, tidy,
};
use anyhow::Result;
use std::{path::Path, process::Command};

type Step = fn(&Path) -> Result<Outcome>;

enum Outcome {
    Passed,
    Failed,
    Skipped(&'static str),
}

/// Runs every step and lists what came of each.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let steps: [(&str, Step); 8] = [
        ("fmt", fmt),
        ("tidy", |root| Ok(outcome(tidy::report(root)?))),
        ("typos", typos),
        ("clippy", clippy),
        ("doc", doc),
        ("deny", deny),
        ("shear", shear),
        ("test", |root| Ok(outcome(test::run(root, &[])?))),
    ];
    let mut lines = Vec::new();
    let mut passed = true;
    for (name, step) in steps {
        println!("── {name}");
        let line = match step(root)? {
            Outcome::Passed => format!("{name} ok"),
            Outcome::Skipped(why) => {
                println!("skipped {name}: {why}");
                format!("{name} skipped ({why})")
            }
            Outcome::Failed => {
                passed = false;
                format!("{name} FAILED")
            }
        };
        lines.push(line);
    }
    println!("── {}: {}", if passed { "passed" } else { "FAILED" }, lines.join(", "));
    Ok(passed)
}

fn outcome(passed: bool) -> Outcome {
    if passed { Outcome::Passed } else { Outcome::Failed }
}

fn fmt(root: &Path) -> Result<Outcome> {
    Ok(outcome(succeeds(cargo(root).args(["fmt", "--all", "--check"]))?))
}

fn clippy(root: &Path) -> Result<Outcome> {
    let mut command = cargo(root);
    command.args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
    Ok(outcome(succeeds(&mut command)?))
}

fn doc(root: &Path) -> Result<Outcome> {
    let mut command = cargo(root);
    command.args(["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings");
    Ok(outcome(succeeds(&mut command)?))
}

fn deny(root: &Path) -> Result<Outcome> {
    if !answers("cargo-deny", &["--version"]) {
        return Ok(Outcome::Skipped("cargo-deny is not installed"));
    }
    Ok(outcome(succeeds(cargo(root).args(["deny", "check"]))?))
}

fn shear(root: &Path) -> Result<Outcome> {
    if !answers("cargo-shear", &["--version"]) {
        return Ok(Outcome::Skipped("cargo-shear is not installed"));
    }
    Ok(outcome(succeeds(cargo(root).arg("shear"))?))
}

fn typos(root: &Path) -> Result<Outcome> {
    if !answers("typos", &["--version"]) {
        return Ok(Outcome::Skipped("typos is not installed; `pip install typos` brings it"));
    }
    Ok(outcome(succeeds(Command::new("typos").current_dir(root))?))
}
