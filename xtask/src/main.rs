//! The project's own chores: `tidy`, `test`, `bench` and `ci`, started with `cargo xtask <chore>`.
//! Owns only the choice of chore. Never linked into the product.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool: it reads the tree, starts cargo and talks to a terminal"
)]

mod bench;
mod ci;
mod run;
mod test;
mod tidy;

use anyhow::{Context, Result};
use std::{env, path::PathBuf, process::ExitCode};

const USAGE: &str = "\
usage: cargo xtask <chore>

  tidy                    check the law of the crates and the shape of the files
  test [filter...]        run all tests, or those whose names contain a filter
  bench [name [args...]]  run all benchmarks, or one with its arguments
  ci                      format, lints, docs, tidy, tests, and the optional checkers";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match start(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the chore and answers whether it passed; an error means that it could not be done.
fn start(arguments: &[String]) -> Result<bool> {
    let root = root()?;
    match arguments.split_first() {
        Some((chore, rest)) if chore == "test" => test::run(&root, rest),
        Some((chore, rest)) if chore == "bench" => bench::run(&root, rest),
        Some((chore, [])) if chore == "tidy" => tidy::report(&root),
        Some((chore, [])) if chore == "ci" => ci::run(&root),
        Some((flag, _)) if ["-h", "--help", "help"].contains(&flag.as_str()) => {
            println!("{USAGE}");
            Ok(true)
        }
        Some(_) | None => {
            eprintln!("{USAGE}");
            Ok(false)
        }
    }
}

/// The top of the checkout, one above this package.
fn root() -> Result<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR").context("start this with `cargo xtask`")?;
    let root = PathBuf::from(package).parent().map(PathBuf::from);
    root.context("the package of xtask has no folder above it")
}
