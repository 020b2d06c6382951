//! What is predicted of commands held against what they really do, in folders made for it; and
//! decisions that must not depend on how a command is written.

use super::*;
use crate::permission::shell::facts::How;
use proptest::prelude::*;
use std::{collections::BTreeMap, path::Path, process::Command};

/// Harmless commands that change files, run for real.
const CHANGES: &[&str] = &[
    "touch new",
    "mkdir -p x/y",
    "cp a b",
    "cp a sub/",
    "mv a moved",
    "mv a sub",
    "rm a",
    "rm -r sub",
    "rmdir empty",
    "echo hi > out",
    "echo hi >> a",
    "cat a | tee copy",
    "tee one two < a",
    "sed -i 's/a/b/' a",
    "sort -o sorted a",
    "sort a > sorted",
    "for f in a sub/c; do cp \"$f\" \"$f.bak\"; done",
    "cd sub && touch here",
    "(cd sub; echo x > inner)",
    "ln -s a link",
    "chmod 600 a",
    "truncate -s 0 a",
    "uniq a uniqued",
    "head -1 a > h; tail -1 a > t",
    "echo x > 'two words'",
    "printf x > $'tab\\there'",
    "d=sub; touch \"$d/var\"",
    "test -e a && touch yes || touch no",
    "touch {p,q}.txt",
    "cat <<E > here\ntext\nE",
    "find . -name a -exec cp {} copied \\;",
    "split -l 1 a part",
    "tar cf t.tar a",
    "gzip -k a",
    "install -m 644 a installed",
    "dd if=a of=dd.out status=none",
    "mktemp -p . tmp.XXXX",
    "yes | head -2 > y",
    "ls > list 2> err",
];
/// Commands that must change nothing.
const LOOKS: &[&str] = &[
    "ls -la",
    "cat a | wc -l",
    "grep -rn a .",
    "find . -type f | sort",
    "head -1 a; tail -1 a",
    "for f in a sub/c; do wc -l \"$f\"; done",
    "sed -n 1p a",
    "awk '{print $1}' a",
    "diff a sub/c",
    "stat a && file a",
    "sort a | uniq -c",
    "echo $(cat a) `ls`",
    "cut -c1 a | tr a b",
    "[ -e a ] && echo yes",
    "while read -r l; do echo \"$l\"; done < a",
    "basename /x/y; dirname /x/y",
    "date +%Y; pwd; true",
];

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("a", "alpha\nalpha\nbeta\n"), ("sub/c", "gamma\n")] {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    dir
}

/// Everything in a folder, with enough to see a change.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    use std::os::unix::fs::MetadataExt as _;
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let content = if metadata.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            if metadata.is_dir() {
                open.push(path.clone());
            }
            found.insert(path, (metadata.mode(), content));
        }
    }
    found
}

fn line_in(folder: &Path, command: &str) -> Line {
    let ground = Ground { directory: folder.to_owned(), home: "/home/u".into() };
    Line::new(read(command, &ground), |path| path.to_str().map(fact))
}

/// Runs a command and returns the paths that changed.
fn run(folder: &Path, command: &str) -> Vec<PathBuf> {
    let before = tree(folder);
    let status = Command::new("bash")
        .args(["--norc", "--noprofile", "-c", command])
        .current_dir(folder)
        .env("LC_ALL", "C")
        .output();
    status.unwrap();
    let after = tree(folder);
    let all: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    all.into_iter().filter(|path| before.get(path) != after.get(path)).collect()
}

#[test]
fn whatever_changes_was_predicted() {
    let mut known = 0;
    for command in CHANGES {
        let dir = folder();
        let root = dir.path().canonicalize().unwrap();
        let line = line_in(&root, command);
        let may_do_anything = line.footprint().open;
        known += usize::from(!may_do_anything);
        let predicted: Vec<PathBuf> = line
            .touched
            .iter()
            .flatten()
            .filter(|touched| touched.how != How::Read)
            .filter_map(|touched| Some(touched.fact.as_ref()?.target.clone()))
            .collect();
        for changed in run(&root, command) {
            let covered =
                predicted.iter().any(|path| changed.starts_with(path) || path.starts_with(&changed));
            assert!(
                may_do_anything || covered,
                "{command} changed {} beyond {predicted:?}",
                changed.display()
            );
        }
    }
    assert!(known * 3 > CHANGES.len() * 2, "{known} of {} are known", CHANGES.len());
}

#[test]
fn a_look_changes_nothing() {
    for command in LOOKS {
        let dir = folder();
        let root = dir.path().canonicalize().unwrap();
        let policy = Policy { roots: vec![root.clone()], home: "/home/u".into(), ..Policy::default() };
        assert_eq!(line_in(&root, command).class(&policy), Class::ReadOnly, "{command}");
        assert_eq!(run(&root, command), Vec::<PathBuf>::new(), "{command}");
    }
}

fn simple_commands() -> Vec<&'static str> {
    let lists = [
        include_str!("../../../tests/data/read_only.txt"),
        include_str!("../../../tests/data/not_read_only.txt"),
    ];
    let plain = |line: &&str| {
        line.chars().all(|c| c.is_ascii_alphanumeric() || " -_./=:,+".contains(c)) && !line.contains('=')
    };
    lists.iter().flat_map(|list| list.lines()).filter(plain).filter(|line| !line.trim().is_empty()).collect()
}

fn quoted(word: &str, how: u8) -> String {
    match how {
        0 => word.to_owned(),
        1 => format!("'{word}'"),
        2 => format!("\"{word}\""),
        3 => word
            .chars()
            .map(|c| if c.is_ascii_alphabetic() { format!("\\{c}") } else { c.to_string() })
            .collect(),
        _ => format!("$'{word}'"),
    }
}

proptest! {
    #[test]
    fn quoting_changes_no_decision(pick in any::<prop::sample::Index>(), how in prop::collection::vec(0u8..5, 12)) {
        let command = *pick.get(&simple_commands());
        let words: Vec<String> = command.split_whitespace().zip(how.iter().cycle()).map(|(word, how)| quoted(word, *how)).collect();
        let policy = policy(Mode::Default, &[("allow", "Bash(git push *)"), ("deny", "Bash(rm *)")]);
        // A keyword is one only when it is bare.
        prop_assume!(!["if", "for", "while", "until", "case", "time", "coproc", "function", "select", "!", "["].contains(&command.split(' ').next().unwrap_or_default()));
        let (plain, odd) = (judge(&format!("Bash {command}"), &policy, None), judge(&format!("Bash {}", words.join(" ")), &policy, None));
        prop_assert_eq!(plain, odd, "{} / {}", command, words.join(" "));
    }

    #[test]
    fn one_more_part_never_loosens(first in any::<prop::sample::Index>(), second in any::<prop::sample::Index>(), joint in "( && |; | \\| |\n)") {
        let all = simple_commands();
        let (first, second) = (*first.get(&all), *second.get(&all));
        let policy = policy(Mode::Default, &[("allow", "Bash(git *)"), ("deny", "Bash(git push *)")]);
        let together = judge(&format!("Bash {first}{joint}{second}"), &policy, None);
        // The second may read elsewhere after a move, so only the first is held against itself.
        prop_assert!(rank(together) >= rank(judge(&format!("Bash {first}"), &policy, None)), "{} {:?} {}", first, joint, second);
    }
}
