//! A question put to the person at the terminal: its words, and how a typed line answers it.
//! Shows every byte that matters, so that nothing is approved that was not seen.

use crate::clean::escape;
use ostler_proto::{Access, Answer, Ask, Keep, PathFact, Preview};
use std::fmt::Write as _;

/// The question as it is shown.
pub(crate) fn question(ask: &Ask) -> String {
    let mut shown = format!("\n? {} wants to: {}\n", escape(&ask.tool), one_escaped_line(&ask.intent.title));
    match &ask.intent.preview {
        Preview::Text(text) | Preview::Diff(text) => quote(text, &mut shown),
        Preview::None => {}
    }
    match &ask.intent.access {
        Access::Execute { command, cwd, .. } => {
            if !matches!(&ask.intent.preview, Preview::Text(text) if text == command) {
                quote(command, &mut shown);
            }
            line(&mut shown, "in", &cwd.display().to_string());
        }
        Access::Read { paths } | Access::Write { paths } => {
            for path in paths {
                line(&mut shown, "path", &path_and_target(path));
            }
        }
        Access::Network { url } => line(&mut shown, "address", url),
        Access::Mcp { server, tool, .. } => line(&mut shown, "server", &format!("{server}, tool {tool}")),
        Access::Agent { kind } => line(&mut shown, "agent", kind),
        Access::Internal => {}
    }
    line(&mut shown, "asked because of", &ask.because.to_string());
    shown.push_str(&choices(ask));
    shown
}

/// The last line of the question, repeated after an answer that is none.
pub(crate) fn choices(ask: &Ask) -> String {
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
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Some(Answer::Allow { input: None }),
        "a" | "always" => always(ask, Keep::Session),
        "p" | "project" => always(ask, Keep::Local),
        "u" | "user" => always(ask, Keep::User),
        "n" | "no" => Some(Answer::Deny { message: "the user said no".to_owned(), interrupt: false }),
        _ => None,
    }
}

fn always(ask: &Ask, keep: Keep) -> Option<Answer> {
    let rules = rules(ask);
    (!rules.is_empty()).then_some(Answer::AllowAlways { rules, keep })
}

fn rules(ask: &Ask) -> Vec<String> {
    ask.suggestions.iter().map(|suggestion| suggestion.rule.clone()).collect()
}

/// Each line behind a bar, so that quoted text cannot pass for part of the question.
fn quote(text: &str, shown: &mut String) {
    for text in escape(text).lines() {
        push_line(shown, format_args!("  │ {text}"));
    }
}

fn line(shown: &mut String, name: &str, value: &str) {
    push_line(shown, format_args!("  {name}: {}", one_escaped_line(value)));
}

fn push_line(shown: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(shown, "{line}");
}

fn one_escaped_line(text: &str) -> String {
    escape(text).replace('\n', "\\n")
}

fn path_and_target(path: &PathFact) -> String {
    if path.requested == path.target {
        return path.requested.display().to_string();
    }
    format!("{} -> {}", path.requested.display(), path.target.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_proto::{AskId, Intent, Reason, Suggestion};
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
}
