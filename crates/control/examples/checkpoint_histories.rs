//! Runs random histories of a project and rewinds them, as the test does, in any number:
//! `cargo run --release --example checkpoint_histories -- COUNT [FIRST-SEED] [FOLDER]`.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for measuring")]
#![expect(clippy::disallowed_methods, reason = "it changes files as users and commands do")]

#[path = "../tests/it/checkpoint/random.rs"]
mod random;
#[path = "../tests/it/checkpoint/stage.rs"]
mod stage;

use std::{path::PathBuf, process::Command};

fn main() {
    if let Ok(order) = std::env::var(random::ORDER) {
        return random::follow(&order);
    }
    let mut words = std::env::args().skip(1);
    let count: u64 = words.next().map_or(300, |word| word.parse().unwrap());
    let first: u64 = words.next().map_or(0, |word| word.parse().unwrap());
    let folder = words.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let spawn = |order: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(random::ORDER, order);
        command
    };
    // One after another: a process that another thread is just starting would hold our locks.
    let rewinds: usize = (first..first + count).map(|seed| random::run(seed, &folder, &spawn)).sum();
    println!("{count} histories from seed {first}: {rewinds} rewinds, all exact");
}
