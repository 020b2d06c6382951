//! The reader against the bash of this machine: what bash rejects is never understood, and words
//! that are said to be known are what bash makes of them.
#![expect(clippy::disallowed_methods, reason = "the test asks the real shell")]

use super::super::facts::Word;
use super::corpus::{Case, corpus};
use super::{Reading, reading};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

fn bash_takes(text: &str) -> bool {
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-n", "-c", "--", text]).stdin(Stdio::null()).stderr(Stdio::piped());
    let output = bash.output().unwrap();
    // Some errors in `[[ ]]` are told, and yet it ends well.
    output.status.success() && output.stderr.is_empty()
}

/// Lines of the corpus with a sign put in, taken out or doubled somewhere.
fn damaged() -> Vec<String> {
    const SIGNS: [&str; 16] =
        [";", "&", "|", "(", ")", "{", "}", "<", ">", "'", "\"", "`", "$(", "\n", " do ", "\\"];
    let mut lines = Vec::new();
    for (index, Case { cmd, .. }) in corpus().into_iter().enumerate() {
        let chars: Vec<char> = cmd.chars().collect();
        let at = index * 7 % (chars.len() + 1);
        let front: String = chars.iter().take(at).collect();
        let back: String = chars.iter().skip(at).collect();
        let rest: String = chars.iter().skip(at + 1).collect();
        lines.push(format!("{front}{}{back}", SIGNS[index % SIGNS.len()]));
        lines.push(format!("{front}{rest}"));
    }
    lines
}

#[test]
fn what_bash_rejects_is_never_understood() {
    let understood: Vec<String> =
        damaged().into_iter().filter(|line| reading(line).script.is_some()).collect();
    assert!(understood.len() > 150, "{}", understood.len());
    for line in understood {
        assert!(bash_takes(&line), "bash rejects {line:?}");
    }
}

#[test]
fn bash_writes_what_it_reads_as_the_same_commands() {
    // Bash's own writing of these is wrong: it drops a dollar, makes up a name, joins the commands
    // behind a here-document, and gives the command's option to `time`.
    let wrong = |line: &str| ["$\"", "coproc", "<<", "time"].iter().any(|sign| line.contains(sign));
    let mut compared = 0;
    for Case { cmd, .. } in corpus().into_iter().filter(|case| !wrong(&case.cmd)) {
        let found = reading(&cmd);
        if found.script.is_none() {
            continue;
        }
        let written = reading(&written_by_bash(&cmd));
        let commands = |reading: &Reading| reading.commands.iter().map(super::command).collect::<Vec<_>>();
        if written.script.is_some() {
            compared += 1;
            assert_eq!(commands(&found), commands(&written), "{cmd:?}");
        }
    }
    assert!(compared > 150, "{compared}");
}

/// A line as bash writes it from its own tree; it runs nothing of it.
fn written_by_bash(line: &str) -> String {
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "--pretty-print", "/dev/stdin"]);
    let mut child = bash.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// A piece of a word; none of them can run anything.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c0-2./:=,~-]{1,3}",
        "'[a-c \"$*{},\\\\]{0,3}'",
        "\"[a-c '*{},~]{0,3}\"",
        "\\\\[a-c \"'$*{},~]",
        "\\$'[a-c\"*]{0,2}'",
        prop::sample::select(vec![
            "$known",
            "\"$known\"",
            "${known}",
            "$spaced",
            "\"$spaced\"",
            "$empty",
            "\"$empty\"",
            "$starred",
            "\"$starred\"",
            "{a,b}",
            "{1..3}",
            "{a,{b,c}}",
            "{,x}",
            "{a}",
            "{}",
            "{",
            "}",
            "~",
            "~/",
            "$HOME",
            "$'\\t'",
            "$'\\x41'",
            "\\\n",
            "*",
            "?",
            "[a-c]",
            "[",
            "]",
            "${known:-x}",
            "$",
            "#",
            "!",
            "@{u}",
            "..",
            "%",
            "^",
        ])
        .prop_map(str::to_owned),
    ]
}

#[test]
fn known_words_are_what_bash_makes_of_them() {
    let line =
        prop::collection::vec(prop::collection::vec(piece(), 1..4).prop_map(|pieces| pieces.concat()), 1..4);
    let mut runner = TestRunner::deterministic();
    let setup = "known=k1; spaced='s t'; empty=; starred='*'; ";
    let (mut script, mut expected, mut lines) = (format!("set -f; {setup}"), Vec::new(), Vec::new());
    for _ in 0..600 {
        let words = line.new_tree(&mut runner).unwrap().current().join(" ");
        let reading = reading(&format!("{setup}printf '%s\\0' 'begin' {words}"));
        // Behind a comment a continued line is a command of its own.
        let [_, _, _, _, last] = reading.commands.as_slice() else { continue };
        if reading.problem.is_some() {
            continue;
        }
        // Without matching a pattern is itself.
        let known: Option<Vec<String>> = last
            .words
            .iter()
            .map(|word| match word {
                Word::Known(text) | Word::Glob(text) => Some(text.clone()),
                Word::Unknown { .. } => None,
            })
            .collect();
        if let Some(known) = known {
            write!(script, "\nprintf '%s\\0' 'begin' {words}").unwrap();
            expected.push(known[3..].to_vec());
            lines.push(words);
        }
    }
    assert!(lines.len() > 200, "{}", lines.len());
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("bash")
        .args(["--norc", "--noprofile", "-c", "--", &script])
        .current_dir(folder.path())
        .env_clear()
        .env("HOME", "/home/user")
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let found: Vec<Vec<&str>> =
        text.split("begin\0").skip(1).map(|run| run.split_terminator('\0').collect()).collect();
    for ((line, expected), found) in lines.iter().zip(&expected).zip(&found) {
        assert_eq!(expected, found, "{line:?}");
    }
    assert_eq!(found.len(), lines.len());
}
