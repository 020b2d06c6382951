//! What a command should rather be: a tool made for it, or no long sleep. Advice is about good manners; it
//! keeps nobody from anything that control allows.

use super::words::{Simple, commands};

/// What happens to commands that do what another tool does better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preference {
    /// They run.
    Off,
    /// They run, and the result says once what to use next time.
    #[default]
    Hint,
    /// They do not run.
    Deny,
}

impl Preference {
    /// The value of the setting `preferDedicatedTools`.
    pub fn from_setting(text: &str) -> Option<Self> {
        match text {
            "off" => Some(Self::Off),
            "hint" => Some(Self::Hint),
            "deny" => Some(Self::Deny),
            _ => None,
        }
    }
}

/// A sleep of this many seconds and nothing else is refused.
const LONG_SLEEP: f64 = 10.0;

/// The tool that does what this command does, if the command does nothing else.
pub(super) fn better_tool(line: &str) -> Option<&'static str> {
    let commands = commands(line)?;
    let [command @ Simple { words, redirects: false }] = commands.as_slice() else { return None };
    let has = |options: &[&str]| words.iter().any(|word| options.contains(&word.as_str()));
    match command.program() {
        "find" if !has(&["-exec", "-execdir", "-ok", "-okdir", "-delete", "-printf", "-fprint"]) => {
            Some("Glob")
        }
        "grep" | "egrep" | "fgrep" | "rg" if words.len() > 1 => Some("Grep"),
        "tail" if has(&["-f", "-F", "--follow"]) => None,
        "cat" | "head" | "tail" if words.len() > 1 => Some("Read"),
        "ls" => Some("LS"),
        _ => None,
    }
}

/// What to say about it.
pub(super) fn hint(tool: &str) -> String {
    format!("(Next time use {tool} for this: it is faster, and its results stay within bounds.)")
}

/// How many seconds a command sleeps, if that is all it does and it is long.
pub(super) fn long_sleep(line: &str) -> Option<f64> {
    let commands = commands(line)?;
    let [command @ Simple { words, .. }] = commands.as_slice() else { return None };
    if command.program() != "sleep" {
        return None;
    }
    let seconds: Option<f64> = words[1..].iter().map(|word| duration(word)).sum();
    seconds.filter(|seconds| *seconds >= LONG_SLEEP)
}

fn duration(word: &str) -> Option<f64> {
    let number = word.trim_end_matches(['s', 'm', 'h', 'd']);
    let unit = match &word[number.len()..] {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    if number == "infinity" { Some(f64::INFINITY) } else { Some(number.parse::<f64>().ok()? * unit) }
}

/// Whether a command that runs out of time may go on in the background. One that only waits has no use for
/// it; one that works on a repository would change it behind the model's back.
pub(super) fn may_go_on(line: &str) -> bool {
    commands(line).is_some_and(|commands| {
        let starts_with_sleep = commands.first().is_some_and(|command| command.program() == "sleep");
        let is_git = |word: &String| word.rsplit('/').next() == Some("git");
        !starts_with_sleep && !commands.iter().any(|command| command.words.iter().any(is_git))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_tool(line: &str, expected: Option<&str>) {
        assert_eq!(better_tool(line), expected, "{line}");
    }

    #[test]
    fn only_commands_that_do_nothing_else_have_a_better_tool() {
        check_tool("grep -rn 'a|b' src", Some("Grep"));
        check_tool("/usr/bin/rg x", Some("Grep"));
        check_tool("find . -name '*.rs'", Some("Glob"));
        check_tool("cat a.txt", Some("Read"));
        check_tool("LANG=C tail -20 a.log", Some("Read"));
        check_tool("ls", Some("LS"));
        for other in [
            "cat a | wc -l",
            "cat >f",
            "cat",
            "ls && make",
            "tail -f log",
            "find . -delete",
            "find . -exec rm {} +",
            "make",
            "git grep x",
            "echo $(ls)",
        ] {
            check_tool(other, None);
        }
    }

    #[test]
    fn long_sleeps_are_told_from_short_ones() {
        for (line, expected) in [
            ("sleep 60", Some(60.0)),
            (" sleep 1m 5 ", Some(65.0)),
            ("/bin/sleep 0.5h", Some(1800.0)),
            ("sleep infinity", Some(f64::INFINITY)),
            ("sleep 9", None),
            ("sleep 60; echo x", None),
            ("sleep", None),
            ("sleep $N", None),
            ("sleepy 60", None),
        ] {
            assert_eq!(long_sleep(line), expected, "{line}");
        }
    }

    #[test]
    fn what_waits_or_uses_git_does_not_go_on() {
        for (line, expected) in [
            ("npm run build && npm test", true),
            ("sleep 5; make", false),
            ("make; sleep 5", true),
            ("cd x && git rebase main", false),
            ("timeout 5 /usr/bin/git fetch", false),
            ("while :; do make; done", false),
            ("make $(cat x)", false),
        ] {
            assert_eq!(may_go_on(line), expected, "{line}");
        }
    }
}
