//! Which events a hook is about: names, patterns and permission rules. Pure; in doubt it fits,
//! because a guard that stays silent by mistake lets things through.

use super::occasion::Occasion;
use crate::permission::{Author, Ground, Line, Policy, Question, decide, read};
use fancy_regex::Regex;
use ostler_proto::{Access, Decision, HookEvent, Json, Mode, Reason, Rule, Rules};
use std::path::Path;

/// The `matcher` of a group of hooks.
#[derive(Debug, Clone)]
pub(super) enum Matcher {
    /// Everything.
    All,
    /// Exactly these names.
    Names(Vec<String>),
    /// Whatever this pattern is found in.
    Pattern(Box<Regex>),
}

impl Matcher {
    /// Reads a matcher as it is written.
    pub(super) fn read(text: &str, event: HookEvent) -> Result<Self, String> {
        if text.is_empty() || text == "*" {
            return Ok(Self::All);
        }
        let is_short = matches!(event, HookEvent::FileChanged | HookEvent::StopFailure);
        let more = if is_short { "_|" } else { "_|- ," };
        if text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c)) {
            let names = text.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty());
            return Ok(Self::Names(names.map(str::to_owned).collect()));
        }
        match Regex::new(text) {
            Ok(pattern) => Ok(Self::Pattern(Box::new(pattern))),
            Err(error) => Err(format!("'{text}' is not a pattern: {error}")),
        }
    }

    /// Whether it fits; an event that is about nothing fits every matcher.
    pub(super) fn fits(&self, about: Option<&str>) -> bool {
        let Some(about) = about else { return true };
        match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|name| name == about),
            // A pattern that gives up on a text has not said that it does not fit.
            Self::Pattern(pattern) => pattern.is_match(about).unwrap_or(true),
        }
    }
}

/// Whether a call fits the permission rule of a hook's `if`. On other events none does.
pub(super) fn condition_fits(rule: &Rule, occasion: &Occasion, project: &Path, home: &Path) -> bool {
    let Some(tool) = occasion.about().filter(|_| occasion.event.is_about_a_call()) else { return false };
    let access = occasion.intent.as_ref().map(|intent| &intent.access);
    if !speaks_about(rule, &tool, access) {
        return false;
    }
    // What nobody has planned cannot be tried on a pattern.
    let (Some(_), Some(intent)) = (&rule.pattern, &occasion.intent) else { return true };
    // The judge knows how to read commands and paths; as a lone deny rule, the condition fits if it denies.
    let policy = Policy {
        mode: Mode::Default,
        rules: Rules { deny: vec![rule.clone()], ..Rules::default() },
        roots: vec![project.to_path_buf()],
        home: home.to_path_buf(),
        ..Policy::default()
    };
    let line = match &intent.access {
        Access::Execute { command, cwd, .. } => {
            let reading = read(command, &Ground { directory: cwd.clone(), home: home.to_path_buf() });
            Some(Line::new(reading, |_| None))
        }
        Access::Internal
        | Access::Read { .. }
        | Access::Write { .. }
        | Access::Network { .. }
        | Access::Mcp { .. }
        | Access::Agent { .. }
        | Access::Consult(_) => None,
    };
    let input = occasion.details.get("tool_input").unwrap_or(&Json::Null);
    let decision = decide(
        &Question { tool: &tool, input, intent, line: line.as_ref(), author: Author::Model },
        &policy,
        None,
    );
    matches!(decision, Decision::Deny { because: Reason::Rule { .. }, .. })
}

/// Whether the rule's name means this tool, or the kind of access it stands for.
fn speaks_about(rule: &Rule, tool: &str, access: Option<&Access>) -> bool {
    rule.tool == tool
        || rule.tool.strip_suffix('*').is_some_and(|stem| tool.starts_with(stem))
        || match access {
            Some(Access::Write { .. }) => rule.tool == "Edit",
            Some(Access::Read { .. }) => rule.tool == "Read",
            Some(
                Access::Internal
                | Access::Execute { .. }
                | Access::Network { .. }
                | Access::Mcp { .. }
                | Access::Agent { .. }
                | Access::Consult(_),
            )
            | None => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(matcher: &str, fits: &[&str], not: &[&str]) {
        let matcher = Matcher::read(matcher, HookEvent::PreToolUse).unwrap();
        for name in fits {
            assert!(matcher.fits(Some(name)), "{matcher:?} should fit {name}");
        }
        for name in not {
            assert!(!matcher.fits(Some(name)), "{matcher:?} should not fit {name}");
        }
        assert!(matcher.fits(None));
    }

    #[test]
    fn matchers_are_names_or_patterns() {
        check("", &["Bash", ""], &[]);
        check("*", &["Bash"], &[]);
        check("Bash", &["Bash"], &["bash", "BashOutput"]);
        check("Edit|Write", &["Edit", "Write"], &["MultiEdit", "Edit|Write"]);
        check("Edit, Write", &["Edit", "Write"], &["Read"]);
        check("mcp__memory", &["mcp__memory"], &["mcp__memory__store"]);
        check("mcp__memory__.*", &["mcp__memory__store"], &["Bash"]);
        check("Notebook.*", &["NotebookEdit", "MyNotebookEdit"], &["Edit"]);
        check("^(?!Bash$)", &["Edit", "BashOutput"], &["Bash"]);
        assert!(Matcher::read("(", HookEvent::PreToolUse).unwrap_err().contains("'('"));
        let dashed = Matcher::read("rate-limit", HookEvent::StopFailure).unwrap();
        assert!(dashed.fits(Some("a rate-limit b")), "a dash makes it a pattern there");
    }

    #[test]
    fn a_pattern_that_explodes_fits() {
        let matcher = Matcher::read("(a+)+\\1$", HookEvent::PreToolUse).unwrap();
        assert!(matcher.fits(Some(&format!("{}!", "a".repeat(4000)))));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}", about in "\\PC{0,20}") {
            if let Ok(matcher) = Matcher::read(&text, HookEvent::PreToolUse) {
                matcher.fits(Some(&about));
            }
        }
    }
}
