//! Makes a Python with the public agent SDK, so that tests can drive the binary the way that client does.
//! Lives in the build folder only; never touches the machine's own Python.

use crate::run::answers;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const PACKAGE: &str = "claude-agent-sdk";
const IS_THERE: &str = "import importlib.util as u, sys; sys.exit(u.find_spec('claude_agent_sdk') is None)";

/// Answers with a Python that can import the SDK, or why there is none.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf, String> {
    let folder = target.join("python-venv");
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if answers(&python, &["-c", IS_THERE]) {
        return Ok(python);
    }
    println!("preparing {PACKAGE} in {}", folder.display());
    finish(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    // Without a registry to reach, give up soon: the other tests are waiting.
    finish(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(["--timeout", "20", "--retries", "1", PACKAGE]),
    )?;
    Ok(python)
}

/// Runs to the end; a failure is told in the program's own last words.
fn finish(command: &mut Command) -> Result<(), String> {
    let program = crate::run::program(command);
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("cannot start {program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stderr, output.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    let reason = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(format!("{program} failed: {}", reason.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_in_the_programs_words() {
        let reason = finish(Command::new("cargo").arg("no-such-chore")).unwrap_err();
        assert!(reason.starts_with("cargo failed: "), "{reason}");
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let reason = finish(&mut Command::new("no-such-program")).unwrap_err();
        assert!(reason.starts_with("cannot start no-such-program: "), "{reason}");
    }
}
