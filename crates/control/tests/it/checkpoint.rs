//! Checkpoints: what was captured comes back exactly, whatever happened in between.
#![expect(clippy::disallowed_methods, reason = "tests change files as users and commands do")]

mod calls;
mod crash;
mod git;
mod others;
mod random;
mod rewind;
mod stage;
mod upkeep;

use random::ORDER;
use std::process::{Command, Stdio};

/// A process of this program that follows an order.
fn spawn(order: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["checkpoint::child", "--exact", "--quiet"]).env(ORDER, order).stdout(Stdio::null());
    command
}

/// Not a test of its own: what a child process of the others does.
#[test]
fn child() {
    let Ok(order) = std::env::var(ORDER) else { return };
    match order.strip_prefix("full\n") {
        Some(folder) => crash::fill(std::path::Path::new(folder.lines().next().unwrap())),
        None => random::follow(&order),
    }
}
