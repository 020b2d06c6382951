//! Feeds damaged command lines to the reader for some seconds and counts those that broke it. With
//! `--bash` every line it understands is also given to bash, which must take it, and whose own
//! writing of it must read as the same commands. Bash runs nothing of it.
//!
//! `cargo run --release -p ostler-control --example shell_fuzz -- [SECONDS] [--bash] [SEED]`
#![expect(clippy::print_stdout, reason = "it is a program for people")]
#![expect(clippy::disallowed_methods, reason = "it asks the real shell")]

use ostler_control::permission::explain;
use serde_json::Value;
use std::{
    io::Write,
    panic::catch_unwind,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

const SIGNS: [&str; 44] = [
    ";", "&", "|", "&&", "||", "(", ")", "{", "}", "<", ">", ">>", "<<E", "<<<", "'", "\"", "`", "$(", "${",
    "$((", "))", "[[", "]]", "\n", "\\\n", "\\", " ", "\t", "#", "!", "*", "~", "=", "+=", "=(", " do ",
    " done ", " then ", " fi ", " in ", "2>", "&>", "\nE\n", "$'",
];

struct Dice(u64);

fn main() -> ExitCode {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<u64>().ok());
    let seconds = numbers.next().unwrap_or(10);
    let mut dice = Dice(numbers.next().unwrap_or(1) | 1);
    let asks_bash = std::env::args().any(|argument| argument == "--bash");
    let corpus: Vec<serde_json::Value> =
        serde_json::from_str(include_str!("../tests/data/bash_corpus.json")).unwrap_or_default();
    let lines: Vec<&str> = corpus.iter().filter_map(|case| case["cmd"].as_str()).collect();
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut runs, mut understood, mut crashes, mut wrong) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut compared = 0_u64;
    let mut slowest = Duration::ZERO;
    while Instant::now() < end {
        let line = damaged(&lines, &mut dice);
        let start = Instant::now();
        let reading = catch_unwind(|| explain(&line, Path::new("/w"), Path::new("/home/user")));
        slowest = slowest.max(start.elapsed());
        runs += 1;
        match reading {
            Err(_) => {
                crashes += 1;
                println!("crash: {line:?}");
            }
            Ok(reading) if !reading["script"].is_null() => {
                understood += 1;
                if asks_bash && !bash_takes(&line) {
                    wrong += 1;
                    println!("bash rejects: {line:?}");
                }
                if asks_bash && let Some(written) = written_by_bash(&line) {
                    let other = explain(&written, Path::new("/w"), Path::new("/home/user"));
                    compared += u64::from(!other["script"].is_null());
                    if !other["script"].is_null() && commands(&reading) != commands(&other) {
                        wrong += 1;
                        println!("bash means: {line:?}\n         by: {written:?}");
                    }
                }
            }
            Ok(_) => {}
        }
    }
    println!(
        "{runs} runs, {understood} understood, {compared} compared with bash, {crashes} crashes, {wrong} wrong, slowest {slowest:?}"
    );
    if crashes + wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn damaged(lines: &[&str], dice: &mut Dice) -> String {
    let mut line: Vec<char> = lines[dice.roll(lines.len())].chars().collect();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(line.len() + 1);
        match dice.roll(6) {
            0 => drop(line.drain(at..(at + 1).min(line.len()))),
            1 => drop(line.splice(at..at, lines[dice.roll(lines.len())].chars())),
            2 => {
                let to = dice.roll(line.len() + 1);
                let piece: Vec<char> = line[at.min(to)..at.max(to)].to_vec();
                line.splice(at..at, piece);
            }
            _ => drop(line.splice(at..at, SIGNS[dice.roll(SIGNS.len())].chars())),
        }
    }
    line.into_iter().collect()
}

fn bash_takes(line: &str) -> bool {
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-n", "-c", "--", line]);
    // Some errors in `[[ ]]` are told, and yet it ends well.
    let output = bash.stdin(Stdio::null()).stderr(Stdio::piped()).output();
    output.is_ok_and(|output| output.status.success() && output.stderr.is_empty())
}

/// The line as bash itself would write it, from its own tree.
fn written_by_bash(line: &str) -> Option<String> {
    // Its own writing of these is wrong: it drops the dollar, makes up a name, joins the commands
    // behind a here-document, and gives the command's option to `time`.
    if ["$\"", "coproc", "<<", "time"].iter().any(|sign| line.contains(sign)) {
        return None;
    }
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "--pretty-print", "/dev/stdin"]);
    let mut child = bash.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    child.stdin.take()?.write_all(line.as_bytes()).ok()?;
    String::from_utf8(child.wait_with_output().ok()?.stdout).ok()
}

/// What every command of a reading is, without how it was written.
fn commands(reading: &Value) -> Vec<[Value; 3]> {
    let commands = reading["commands"].as_array().map(Vec::as_slice).unwrap_or_default();
    let picked = commands
        .iter()
        .map(|simple| ["words", "assignments", "redirects"].map(|field| simple[field].clone()));
    picked.collect()
}

impl Dice {
    /// A number below `most`, by Marsaglia's xorshift.
    fn roll(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(most.max(1)).unwrap_or(1)).unwrap_or(0)
    }
}
