//! Runs the tests with what the machine has: nextest or plain `cargo test`, and the real clients when they can be had.
//! Says what it leaves out and why. The last line printed is always the runner's summary.

mod python;
mod summary;

use crate::run::{answers, cargo, program, succeeds, target_dir};
use anyhow::{Context, Result, bail};
use std::{
    io::{BufRead, BufReader, IsTerminal, Read},
    path::Path,
    process::{Child, Command, Stdio},
};
use summary::Summary;

/// Runs all tests, or those whose names contain one of the filters.
pub(crate) fn run(root: &Path, filters: &[String]) -> Result<bool> {
    if let Some(flag) = filters.iter().find(|filter| filter.starts_with('-')) {
        bail!("'{flag}' is not a filter; give parts of test names");
    }
    // Cargo builds a program for the tests of its own package only; others start it too.
    if !succeeds(cargo(root).args(["build", "--workspace", "--bins"]))? {
        return Ok(false);
    }
    let docs_passed = if filters.is_empty() {
        succeeds(cargo(root).args(["test", "--workspace", "--doc", "--quiet"]))?
    } else {
        println!("skipped the examples in the docs: a filter is given");
        true
    };
    let mut command = cargo(root);
    match python::prepare(&target_dir(root)) {
        Ok(python) => {
            command.env("OSTLER_TEST_PYTHON", python);
        }
        Err(reason) => println!("skipped the tests that need the Python SDK: {reason}"),
    }
    let tests_passed = if answers("cargo-nextest", &["nextest", "--version"]) {
        nextest(command, filters)?
    } else {
        println!("cargo-nextest is not installed; using cargo test");
        cargo_test(command, filters)?
    };
    if !docs_passed {
        eprintln!("the examples in the docs failed, see above");
    }
    Ok(docs_passed && tests_passed)
}

fn nextest(mut command: Command, filters: &[String]) -> Result<bool> {
    command.args(["nextest", "run", "--workspace", "--no-fail-fast"]).args(filters).stderr(Stdio::piped());
    if std::io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = spawn(&mut command)?;
    let mut summary = None;
    let mut last = String::new();
    follow(child.stderr.take(), |line| {
        eprintln!("{line}");
        line.clone_into(&mut last);
        if summary::is_of_nextest(line) {
            summary = Some(last.clone());
        }
    })?;
    let status = child.wait().context("cannot wait for nextest")?;
    if let Some(summary) = summary.filter(|summary| *summary != last) {
        eprintln!("{summary}");
    }
    Ok(status.success())
}

fn cargo_test(mut command: Command, filters: &[String]) -> Result<bool> {
    command.args(["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast", "--"]).args(filters);
    let mut child = spawn(command.stdout(Stdio::piped()))?;
    let mut summary = Summary::default();
    follow(child.stdout.take(), |line| {
        println!("{line}");
        summary.add(line);
    })?;
    let status = child.wait().context("cannot wait for cargo test")?;
    let nothing_ran = summary.passed + summary.failed == 0;
    if nothing_ran {
        println!("no test matches");
    }
    println!("{summary}");
    Ok(status.success() && !nothing_ran)
}

fn spawn(command: &mut Command) -> Result<Child> {
    command.spawn().with_context(|| format!("cannot start {}", program(command)))
}

/// Hands over each line as it comes; bytes that are no text are replaced, since tests may print anything.
fn follow(output: Option<impl Read>, mut show: impl FnMut(&str)) -> Result<()> {
    let mut output = BufReader::new(output.context("the output of the tests is not piped")?);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).context("cannot read the output of the tests")? > 0 {
        show(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']));
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_arrive_whole_even_when_they_are_no_text() {
        let mut lines = Vec::new();
        follow(Some(&b"one\r\n\xfftwo\nlast"[..]), |line| lines.push(line.to_owned())).unwrap();
        assert_eq!(lines, ["one", "\u{fffd}two", "last"]);
    }

    #[test]
    fn a_flag_is_not_taken_for_a_filter() {
        let error = run(Path::new("."), &["--nocapture".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "'--nocapture' is not a filter; give parts of test names");
    }
}
