//! A question put to the person at the terminal: its words, and how a typed line answers it.
//! Shows every byte that matters, so that nothing is approved that was not seen.

use crate::clean::escape;
use ostler_proto::intent::{MOST_SHOWN_CHARACTERS, MOST_SHOWN_LINES};
use ostler_proto::{Access, Answer, Ask, Keep, Matter, Mode, PathFact, Update};
use std::fmt::Write as _;

/// Why a question offers no "always".
pub(crate) const TOO_LONG: &str = "too long to be shown whole, so it can be allowed only this once";

/// The question as it is shown.
pub(crate) fn question(ask: &Ask) -> String {
    let mut shown = format!("\n? {} wants to: {}\n", escape(&ask.tool), one_escaped_line(&ask.intent.title));
    let whole = ask.intent.can_be_shown_whole() || matches!(ask.intent.access, Access::Consult(_));
    for text in ask.intent.texts() {
        if whole { quote(&escape(text), &mut shown) } else { quote(&both_ends(&escape(text)), &mut shown) }
    }
    for (name, value) in facts(ask) {
        push_line(&mut shown, format_args!("  {name}: {}", one_escaped_line(&value)));
    }
    shown.push_str(&choices(ask));
    shown
}

/// What else somebody who is asked must know: where it runs, where paths really lead, why they are asked.
pub(crate) fn facts(ask: &Ask) -> Vec<(&'static str, String)> {
    let mut facts = match &ask.intent.access {
        Access::Execute { cwd, footprint, .. } => {
            let links = footprint.reads.iter().chain(&footprint.writes).filter(|path| is_link(path));
            let links = links.map(|path| ("link", path_and_target(path)));
            std::iter::once(("in", cwd.display().to_string())).chain(links).collect()
        }
        Access::Read { paths } | Access::Write { paths } => {
            paths.iter().map(|path| ("path", path_and_target(path))).collect()
        }
        Access::Network { url } => vec![("address", url.clone())],
        Access::Mcp { server, tool, .. } => vec![("server", format!("{server}, tool {tool}"))],
        Access::Agent { kind } => vec![("agent", kind.clone())],
        Access::Consult(Matter::LeavePlan { file: Some(file), .. }) => {
            vec![("file", file.display().to_string())]
        }
        Access::Consult(_) | Access::Internal => Vec::new(),
    };
    if !matches!(ask.intent.access, Access::Consult(_)) {
        facts.push(("asked because of", ask.because.to_string()));
    }
    facts
}

/// The last line of the question, repeated after an answer that is none.
pub(crate) fn choices(ask: &Ask) -> String {
    if let Access::Consult(matter) = &ask.intent.access {
        let ways = match matter {
            Matter::LeavePlan { .. } => {
                "y = yes, begin   a = yes, and accept edits from now on   n = no, or type what should be different"
            }
            Matter::EnterPlan | Matter::Questions(_) => "y = yes   n = no",
        };
        return format!("  {ways}\n  > ");
    }
    if !ask.intent.can_be_shown_whole() {
        return format!("  y = yes, once   n = no   ({TOO_LONG})\n  > ");
    }
    match rules(ask).as_slice() {
        [] => "  y = yes, once   n = no\n  > ".to_owned(),
        rules => {
            let rules = one_escaped_line(&rules.join(", "));
            format!(
                "  y = yes, once   n = no\n  always allow {rules}: a = in this session   p = in this project   u = everywhere\n  > "
            )
        }
    }
}

/// What a typed line says, if it says anything.
pub(crate) fn typed(line: &str, ask: &Ask) -> Option<Answer> {
    let deny = |message: &str| Some(Answer::Deny { message: message.to_owned(), interrupt: false });
    let word = line.trim().to_ascii_lowercase();
    if let Access::Consult(Matter::LeavePlan { .. }) = &ask.intent.access {
        return match word.as_str() {
            "" => None,
            "y" | "yes" => Some(Answer::Allow { input: None }),
            "a" => {
                let updates = vec![Update::Mode { mode: Mode::AcceptEdits, keep: Keep::Session }];
                Some(Answer::AllowWith { input: None, updates })
            }
            "n" | "no" => deny("the user does not approve the plan yet; plan mode stays on"),
            _ => deny(&format!(
                "the user does not approve the plan yet; plan mode stays on. They say: {}",
                line.trim()
            )),
        };
    }
    match word.as_str() {
        "y" | "yes" => Some(Answer::Allow { input: None }),
        "a" | "always" => always(ask, Keep::Session),
        "p" | "project" => always(ask, Keep::Local),
        "u" | "user" => always(ask, Keep::User),
        "n" | "no" => deny("the user said no"),
        _ => None,
    }
}

fn always(ask: &Ask, keep: Keep) -> Option<Answer> {
    let rules = rules(ask);
    (!rules.is_empty() && ask.intent.can_be_shown_whole()).then_some(Answer::AllowAlways { rules, keep })
}

fn rules(ask: &Ask) -> Vec<String> {
    ask.suggestions.iter().map(|suggestion| suggestion.rule.clone()).collect()
}

/// Each line behind a bar, so that quoted text cannot pass for part of the question.
fn quote(escaped: &str, shown: &mut String) {
    for text in escaped.lines() {
        push_line(shown, format_args!("  │ {text}"));
    }
}

/// The two ends of a text, and how much is missing between them.
fn both_ends(text: &str) -> String {
    let (head, tail) = (MOST_SHOWN_LINES / 2, MOST_SHOWN_LINES / 2);
    let lines: Vec<&str> = text.lines().collect();
    let text = if lines.len() > head + tail {
        let left_out = lines.len() - head - tail;
        let note = format!("[{left_out} lines are not shown]");
        [&lines[..head], &[note.as_str()], &lines[lines.len() - tail..]].concat().join("\n")
    } else {
        text.to_owned()
    };
    let characters = text.chars().count();
    if characters <= MOST_SHOWN_CHARACTERS {
        return text;
    }
    let part = MOST_SHOWN_CHARACTERS / 2;
    let start: String = text.chars().take(part).collect();
    let end: String = text.chars().skip(characters - part).collect();
    format!("{start}\n[{} characters are not shown]\n{end}", characters - 2 * part)
}

fn push_line(shown: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(shown, "{line}");
}

pub(crate) fn one_escaped_line(text: &str) -> String {
    escape(text).replace('\n', "\\n")
}

fn is_link(path: &PathFact) -> bool {
    path.requested != path.target
}

fn path_and_target(path: &PathFact) -> String {
    if !is_link(path) {
        return path.requested.display().to_string();
    }
    format!("{} -> {}", path.requested.display(), path.target.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_proto::{AskId, Intent, Preview, Reason, Suggestion};
    use serde_json::json;

    fn ask(command: &str) -> Ask {
        let access = Access::Execute {
            command: command.into(),
            cwd: "/w".into(),
            footprint: ostler_proto::Footprint::default(),
        };
        Ask {
            id: AskId(1),
            call: "c".into(),
            tool: "Bash".into(),
            input: json!({}),
            intent: Intent { title: "run it".into(), access, preview: Preview::Text(command.into()) },
            because: Reason::Check { text: "unknown program".into() },
            suggestions: vec![Suggestion { rule: "Bash(make *)".into() }],
        }
    }

    #[test]
    fn the_question_shows_the_whole_command_with_nothing_hidden() {
        let expected = "\n? Bash wants to: run it\n  │ make\\u{1b}[8m\n  │   y = yes\n  in: /w\n  \
            asked because of: unknown program\n  \
            y = yes, once   n = no\n  always allow Bash(make *): a = in this session   p = in this project   u = everywhere\n  > ";
        assert_eq!(question(&ask("make\u{1b}[8m\n  y = yes")), expected);
    }

    #[test]
    fn always_needs_something_to_remember() {
        let mut ask = ask("make");
        assert_eq!(
            typed(" A\n", &ask),
            Some(Answer::AllowAlways { rules: vec!["Bash(make *)".into()], keep: Keep::Session })
        );
        ask.suggestions.clear();
        assert_eq!(typed("a", &ask), None);
        assert_eq!(typed("yes", &ask), Some(Answer::Allow { input: None }));
        assert_eq!(typed("", &ask), None);
    }

    #[test]
    fn what_is_too_long_is_shown_by_both_ends_and_allowed_once_at_most() {
        let hidden = format!("make a\n{}rm -rf ~", "echo\n".repeat(200));
        let ask = ask(&hidden);
        let shown = question(&ask);
        assert!(shown.contains("│ make a\n") && shown.contains("│ rm -rf ~\n"), "{shown}");
        assert!(shown.contains("│ [102 lines are not shown]\n"), "{shown}");
        assert!(shown.contains(TOO_LONG) && !shown.contains("always allow"), "{shown}");
        for line in ["a", "p", "u"] {
            assert_eq!(typed(line, &ask), None, "{line}");
        }
        assert_eq!(typed("y", &ask), Some(Answer::Allow { input: None }));
        let one_line = super::tests::ask(&format!("make {}; rm -rf ~", "x".repeat(20_000)));
        let shown = question(&one_line);
        assert!(shown.contains("; rm -rf ~\n") && shown.contains("characters are not shown]"), "{shown}");
        assert!(shown.chars().count() < 9_000);
    }

    #[test]
    fn nothing_hides_in_padding_controls_or_links() {
        for (command, expect) in [
            (format!("make{}; rm -rf ~", " ".repeat(500)), "make[500 spaces]; rm -rf ~"),
            (format!("make{}rm -rf ~", "\n".repeat(60)), "rm -rf ~"),
            ("make \u{1b}[1A\u{1b}[2Kls".to_owned(), "make \\u{1b}[1A\\u{1b}[2Kls"),
            ("make\rls         ".to_owned(), "make\\u{d}ls"),
            ("rm \u{202e}txt.a".to_owned(), "rm \\u{202e}txt.a"),
            ("rm a\u{200b}b".to_owned(), "rm a\\u{200b}b"),
        ] {
            let shown = question(&ask(&command));
            assert!(shown.contains(expect), "{shown}");
            assert!(!shown.contains('\u{1b}') && !shown.contains('\r'), "{shown:?}");
        }
        let mut linked = ask("cat notes");
        if let Access::Execute { footprint, .. } = &mut linked.intent.access {
            footprint.reads = vec![PathFact {
                requested: "/w/notes".into(),
                hops: vec![],
                target: "/home/u/.ssh/id_rsa".into(),
                exists: true,
            }];
        }
        assert!(question(&linked).contains("  link: /w/notes -> /home/u/.ssh/id_rsa\n"));
    }

    #[test]
    fn a_plan_is_shown_whole_and_answered_in_words() {
        let mut ask = ask("");
        let plan = "step\n".repeat(300);
        let matter = Matter::LeavePlan { plan: plan.clone(), file: Some("/p/x.md".into()) };
        ask.intent =
            Intent { title: "begin".into(), access: Access::Consult(matter), preview: Preview::Text(plan) };
        let shown = question(&ask);
        assert_eq!(shown.matches("│ step\n").count(), 300);
        assert!(shown.contains("  file: /p/x.md\n  y = yes, begin"), "{shown}");
        assert_eq!(typed("y", &ask), Some(Answer::Allow { input: None }));
        let accepting = vec![Update::Mode { mode: Mode::AcceptEdits, keep: Keep::Session }];
        assert_eq!(typed("a", &ask), Some(Answer::AllowWith { input: None, updates: accepting }));
        let Some(Answer::Deny { message, interrupt: false }) = typed("Use fewer files", &ask) else {
            panic!()
        };
        assert!(message.ends_with("They say: Use fewer files"), "{message}");
        assert_eq!(typed(" ", &ask), None);
    }
}
