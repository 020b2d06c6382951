//! The judge's vocabulary: modes, rules, verdicts and decisions, each with its reason.

use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf, str::FromStr};

/// How much may happen without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Reads in the working directories run; everything else asks.
    #[default]
    Default,
    /// Edits in the working directories run too.
    AcceptEdits,
    /// Only reads; the model plans.
    Plan,
    /// What would ask is denied.
    DontAsk,
    /// Nothing asks, save what rules and the hard floor forbid.
    BypassPermissions,
    /// As the default, but what would ask asks the agent above. No person can choose it.
    #[schemars(skip)]
    Bubble,
}

/// The judge's answer about one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "behavior", rename_all = "snake_case")]
pub enum Decision {
    /// It may run.
    Allow {
        /// What allowed it.
        because: Reason,
    },
    /// Somebody must say yes first.
    Ask {
        /// What made it a question.
        because: Reason,
        /// Rules that would answer it for next time.
        suggestions: Vec<Suggestion>,
        /// Who is asked.
        #[serde(default)]
        to: Addressee,
    },
    /// It may not run.
    Deny {
        /// What forbids it.
        because: Reason,
        /// What the model is told, with the way out where there is one.
        tell_model: String,
    },
}

/// Who a question goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Addressee {
    /// Whoever answers for this session.
    #[default]
    User,
    /// The agent above, which puts it on in its own name.
    Parent,
}

/// Why a decision fell as it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    /// A rule matched.
    Rule {
        /// The rule as written.
        rule: String,
        /// Where it stands.
        source: RuleSource,
    },
    /// The mode decides such calls.
    Mode {
        /// The mode.
        mode: Mode,
    },
    /// A hook said so.
    Hook {
        /// The hook's name or command.
        name: String,
        /// Its words.
        text: String,
    },
    /// A built-in check, such as protected names.
    Check {
        /// The check's finding.
        text: String,
    },
    /// The user answered.
    User,
    /// A question nobody could answer.
    Unattended,
}

/// Where a rule came from, highest authority first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleSource {
    /// Policy of the machine's owner.
    Managed(PathBuf),
    /// A command line flag.
    Flag(String),
    /// The project's uncommitted settings.
    Local(PathBuf),
    /// The project's committed settings.
    Project(PathBuf),
    /// The user's settings.
    User(PathBuf),
    /// Granted during this session.
    Session,
}

/// One `Tool` or `Tool(pattern)` rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Tool name or name glob.
    pub tool: String,
    /// What stands between the parentheses; absent for a bare name.
    pub pattern: Option<String>,
    /// Where the rule stands.
    pub source: RuleSource,
}

/// All rules in force, by what they do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Rules {
    /// Calls that never run.
    pub deny: Vec<Rule>,
    /// Calls that always ask.
    pub ask: Vec<Rule>,
    /// Calls that run without asking.
    pub allow: Vec<Rule>,
}

/// A hook's word about one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "behavior", rename_all = "snake_case")]
pub enum Verdict {
    /// It may run, unless a deny or ask rule objects.
    Allow {
        /// Which hook.
        hook: String,
        /// Its reason.
        reason: String,
    },
    /// Ask the user.
    Ask {
        /// Which hook.
        hook: String,
        /// Its reason.
        reason: String,
    },
    /// It may not run.
    Deny {
        /// Which hook.
        hook: String,
        /// Its reason.
        reason: String,
    },
}

/// "Always allow this": a rule offered with a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suggestion {
    /// The rule that would be added.
    pub rule: String,
}

/// A text that is not a rule or not a mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable(pub String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

impl Mode {
    /// The mode's name on the command line and in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
            Self::Bubble => "bubble",
        }
    }
}

impl FromStr for Mode {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        Ok(match text {
            "default" | "manual" => Self::Default,
            "acceptEdits" => Self::AcceptEdits,
            "plan" => Self::Plan,
            "dontAsk" => Self::DontAsk,
            "bypassPermissions" => Self::BypassPermissions,
            other => {
                return Err(Unreadable(format!(
                    "unknown permission mode '{other}' (one of default, acceptEdits, plan, dontAsk, bypassPermissions)"
                )));
            }
        })
    }
}

impl Rule {
    /// Reads `Tool` or `Tool(pattern)`; `Tool()` and `Tool(*)` mean the bare name.
    pub fn parse(text: &str, source: RuleSource) -> Result<Self, Unreadable> {
        let text = text.trim();
        let unreadable = |why: &str| Unreadable(format!("rule '{text}': {why}"));
        let (tool, pattern) = match text.split_once('(') {
            None if text.contains(')') => return Err(unreadable("')' without '('")),
            None => (text, None),
            Some((tool, rest)) => {
                let inner = rest.strip_suffix(')').ok_or_else(|| unreadable("missing ')' at the end"))?;
                let pattern = (!inner.is_empty() && inner != "*").then(|| unescape_parens(inner));
                (tool, pattern)
            }
        };
        if tool.is_empty() || tool.contains(char::is_whitespace) {
            return Err(unreadable("expected a tool name, e.g. 'Read' or 'Bash(git status *)'"));
        }
        let tool = if tool == "Task" { "Agent" } else { tool };
        Ok(Self { tool: tool.to_owned(), pattern, source })
    }
}

fn unescape_parens(text: &str) -> String {
    text.replace("\\(", "(").replace("\\)", ")")
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            None => f.write_str(&self.tool),
            Some(pattern) => {
                let escaped = pattern.replace('(', "\\(").replace(')', "\\)");
                write!(f, "{}({escaped})", self.tool)
            }
        }
    }
}

impl fmt::Display for RuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Managed(path) => write!(f, "managed policy {}", path.display()),
            Self::Flag(flag) => write!(f, "the flag {flag}"),
            Self::Local(path) => write!(f, "local settings {}", path.display()),
            Self::Project(path) => write!(f, "project settings {}", path.display()),
            Self::User(path) => write!(f, "user settings {}", path.display()),
            Self::Session => f.write_str("this session"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { rule, source } => write!(f, "rule {rule} from {source}"),
            Self::Mode { mode } => write!(f, "permission mode {}", mode.as_str()),
            Self::Hook { name, text } if text.is_empty() => write!(f, "hook {name}"),
            Self::Hook { name, text } => write!(f, "hook {name}: {text}"),
            Self::Check { text } => f.write_str(text),
            Self::User => f.write_str("the user's answer"),
            Self::Unattended => f.write_str("nobody could answer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_rule_is_read_as_it_is_shown(tool in "[A-Za-z_]{1,8}", pattern in proptest::option::of("[ -~]{2,12}")) {
            let tool = if tool == "Task" { "Agent".to_owned() } else { tool };
            let rule = Rule { tool, pattern, source: RuleSource::Session };
            proptest::prop_assert_eq!(Rule::parse(&rule.to_string(), RuleSource::Session), Ok(rule));
        }
    }

    #[track_caller]
    fn check(text: &str, expect: Result<(&str, Option<&str>), &str>) {
        let found = Rule::parse(text, RuleSource::Session);
        match expect {
            Ok((tool, pattern)) => {
                let rule = found.unwrap();
                assert_eq!((rule.tool.as_str(), rule.pattern.as_deref()), (tool, pattern));
            }
            Err(part) => assert!(found.unwrap_err().0.contains(part)),
        }
    }

    #[test]
    fn rules_parse() {
        check("Read", Ok(("Read", None)));
        check("Bash(*)", Ok(("Bash", None)));
        check("Bash()", Ok(("Bash", None)));
        check(" Bash(git log *) ", Ok(("Bash", Some("git log *"))));
        check("Bash(echo \\(a\\))", Ok(("Bash", Some("echo (a)"))));
        check("Task(x)", Ok(("Agent", Some("x"))));
        check("Bash(ls", Err("missing ')'"));
        check("(ls)", Err("expected a tool name"));
    }
}
