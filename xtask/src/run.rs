//! Starts other programs for the chores: cargo with a clean environment, and questions about what is installed.
//! Never decides whether a failure matters; callers do.

use anyhow::{Context, Result};
use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A cargo command at the top of the checkout.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    // `cargo run` describes xtask to us in the environment. Build scripts that watch these names
    // would rebuild their crates at every change between `cargo` and `cargo xtask`.
    for (name, _) in env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("CARGO_PKG_") || name_text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs to the end with our own input and output; answers whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command.status().with_context(|| format!("cannot start {}", program(command)))?;
    Ok(status.success())
}

/// Whether a program is there and answers to these arguments.
pub(crate) fn answers<I: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: &[I]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |target| root.join(target))
}

/// The name to show for a command.
pub(crate) fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}
