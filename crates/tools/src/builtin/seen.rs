//! Which lines of a file a command showed: `cat` and its kin count as reading when what they
//! printed is what stands there. Only the plainest commands are understood, and nothing is guessed.

use super::{MAX_WHOLE, source::Source};
use crate::{
    PlanContext,
    host::{Version, blocking, read_whole},
    text,
};
use std::{ops::Range, path::Path};

/// What a command would show of one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// The file as the command names it.
    pub(super) path: String,
    part: Part,
}

/// Lines counted from 1, as commands count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    First(usize),
    Last(usize),
    From(usize),
    Between(usize, usize),
}

/// What a command shows, if it does nothing else than show lines of one file.
pub(super) fn seen_by_command(command: &str) -> Option<Look> {
    let words = plain_words(command.trim())?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (part, path) = match words.as_slice() {
        ["cat", path] => (Part::All, path),
        ["head", path] => (Part::First(10), path),
        ["tail", path] => (Part::Last(10), path),
        ["head", "-n", count, path] => (Part::First(number(count)?), path),
        ["head", count, path] => (Part::First(short_count(count)?), path),
        ["tail", "-n", count, path] => match count.strip_prefix('+') {
            Some(first) => (Part::From(number(first)?), path),
            None => (Part::Last(number(count)?), path),
        },
        ["tail", count, path] => (Part::Last(short_count(count)?), path),
        ["sed", "-n", script, path] => (sed_part(script)?, path),
        _ => return None,
    };
    let is_file = !path.is_empty() && !path.starts_with('-');
    is_file.then(|| Look { path: (*path).to_owned(), part })
}

/// Remembers what a command that succeeded has shown, if that is what the file holds now. Whatever
/// stands against it only means that the file counts as unread.
pub(super) async fn record(command: &str, cwd: &Path, cx: &PlanContext, printed: &str) {
    let Some(Look { path, part }) = seen_by_command(command) else { return };
    let Ok(fact) = cx.host.resolve(&path, cwd).await else { return };
    let Ok((stat, bytes)) = read_whole(cx.host.as_ref(), &fact.target, MAX_WHOLE).await else { return };
    let printed = printed.to_owned();
    let seen = blocking(move || {
        let hash = blake3::hash(&bytes);
        let size = bytes.len() as u64;
        let source = Source::decode(bytes).ok()?;
        let lines = shown_lines(&source.visible(), part, &printed)?;
        Some((Version { hash, size, modified: stat.modified }, lines))
    })
    .await;
    if let Some((version, lines)) = seen {
        cx.files.record_seen(&fact.target, version, lines);
    }
}

/// The lines, counted from 0, that a part of a text is, if they are what was printed.
fn shown_lines(content: &str, part: Part, printed: &str) -> Option<Range<usize>> {
    let total = content.matches('\n').count() + 1;
    // Commands do not count what follows a last newline.
    let counted = if content.ends_with('\n') { total - 1 } else { total };
    let upto = |end: usize| if end >= counted { total } else { end };
    let lines = match part {
        Part::All => 0..total,
        Part::First(count) => 0..upto(count),
        Part::Last(count) => counted.saturating_sub(count)..total,
        Part::From(first) => first.max(1) - 1..total,
        Part::Between(first, last) => first - 1..upto(last),
    };
    if lines.start >= lines.end {
        return None;
    }
    let mut expected = String::new();
    for line in content.split_inclusive('\n').skip(lines.start).take(lines.len()) {
        expected.push_str(line);
    }
    let clean = text::clean(&expected);
    let trimmed = |text: &str| text.trim_end().trim_start_matches('\n').to_owned();
    (clean == expected && trimmed(&expected) == trimmed(printed)).then_some(lines)
}

/// The words of a command without anything that the shell would do more with than pass it on.
fn plain_words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = command;
    while !rest.is_empty() {
        let (word, after) = match rest.chars().next()? {
            '\'' => rest[1..].split_once('\'')?,
            '"' => {
                let (word, after) = rest[1..].split_once('"')?;
                (!word.contains(['$', '`', '\\', '!'])).then_some((word, after))?
            }
            _ => {
                let (word, after) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
                let is_plain = |c: char| c.is_alphanumeric() || "_./,+:@%-".contains(c);
                word.chars().all(is_plain).then_some((word, after))?
            }
        };
        words.push(word.to_owned());
        if !after.is_empty() && !after.starts_with(' ') {
            return None;
        }
        rest = after.trim_start_matches(' ');
    }
    Some(words)
}

fn number(text: &str) -> Option<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// `-5` or `-n5`.
fn short_count(text: &str) -> Option<usize> {
    let count = text.strip_prefix('-')?;
    number(count.strip_prefix('n').unwrap_or(count))
}

/// `3p`, `3,5p` or `3,$p`.
fn sed_part(script: &str) -> Option<Part> {
    let lines = script.strip_suffix('p')?;
    let (first, last) = lines.split_once(',').unwrap_or((lines, lines));
    let first = number(first).filter(|first| *first > 0)?;
    if last == "$" {
        return Some(Part::From(first));
    }
    // A last line before the first shows the first alone.
    Some(Part::Between(first, number(last)?.max(first)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(command: &str, expected: Option<(&str, Part)>) {
        let expected = expected.map(|(path, part)| Look { path: path.to_owned(), part });
        assert_eq!(seen_by_command(command), expected, "{command}");
    }

    #[test]
    fn plain_looks_are_understood() {
        check("cat src/main.rs", Some(("src/main.rs", Part::All)));
        check(" cat 'a file.txt' ", Some(("a file.txt", Part::All)));
        check("cat \"it's.txt\"", Some(("it's.txt", Part::All)));
        check("head -n 20 f", Some(("f", Part::First(20))));
        check("head -20 f", Some(("f", Part::First(20))));
        check("head -n20 f", Some(("f", Part::First(20))));
        check("tail f", Some(("f", Part::Last(10))));
        check("tail -n +7 f", Some(("f", Part::From(7))));
        check("sed -n '3,5p' f", Some(("f", Part::Between(3, 5))));
        check("sed -n 3p f", Some(("f", Part::Between(3, 3))));
        check("sed -n '3,$p' f", Some(("f", Part::From(3))));
    }

    #[test]
    fn all_else_is_not() {
        for command in [
            "",
            "cat",
            "cat a b",
            "cat -n a",
            "cat < a",
            "cat a | head",
            "cat a; rm b",
            "cat $F",
            "cat a*",
            "cat ~/a",
            "cat a\ncat b",
            "cat `x`",
            "cat \"$x\"",
            "cat a\\ b",
            "cat 'a",
            "cat 'a'b",
            "X=1 cat a",
            "head -c 5 a",
            "head -n -5 a",
            "tail -f a",
            "sed -n '/x/p' a",
            "sed '1,2p' a",
            "sed -n '0p' a",
            "sed -n '1p;2p' a",
            "cat -",
            "cat {a,b}",
            "cat #a",
            "cat ''",
            "\\cat a",
            "cat a &",
        ] {
            check(command, None);
        }
    }

    #[test]
    fn only_what_was_printed_is_seen() {
        let text = "a\nb\nc\nd\n";
        assert_eq!(shown_lines(text, Part::All, "a\nb\nc\nd"), Some(0..5));
        assert_eq!(shown_lines(text, Part::All, "a\nb\nc"), None);
        assert_eq!(shown_lines(text, Part::First(2), "a\nb\n"), Some(0..2));
        assert_eq!(shown_lines(text, Part::First(9), "a\nb\nc\nd"), Some(0..5));
        assert_eq!(shown_lines(text, Part::Last(2), "c\nd"), Some(2..5));
        assert_eq!(shown_lines(text, Part::From(4), "d"), Some(3..5));
        assert_eq!(shown_lines(text, Part::Between(2, 3), "b\nc"), Some(1..3));
        assert_eq!(shown_lines(text, Part::Between(9, 9), ""), None);
        assert_eq!(shown_lines("a\u{1b}[1mb", Part::All, "ab"), None, "an escape was not shown");
    }

    proptest! {
        #[test]
        fn no_command_breaks_it(command in "(cat|head|tail|sed) \\PC{0,30}|\\PC{0,30}") {
            let _ = seen_by_command(&command);
        }
    }
}
