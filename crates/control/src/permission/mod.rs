//! The one judge. Pure: what a call would do, the policy and a hook's word go in, a decision with
//! its reason comes out. Deny beats ask beats allow; whatever is not understood asks.
#![forbid(unsafe_code)]

mod command;
mod explain;
mod line;
mod path;
mod rule;
mod shell;
mod terms;

pub use explain::{Explanation, Part};
pub(crate) use line::Class;
pub use line::Line;
pub use shell::explain;
pub(crate) use shell::{Ground, read};
pub use terms::{Demand, Sandboxing};

use ostler_proto::{
    Access, Decision, Intent, Json, Mode, PathFact, Reason, Rule, RuleSource, Rules, Suggestion, Verdict,
};
use ostler_tools::{ReadPolicy, Sight};
use rule::{PathPatterns, Side, matches};
use std::{path::PathBuf, sync::LazyLock};

/// What is in force.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    /// The mode.
    pub mode: Mode,
    /// The rules.
    pub rules: Rules,
    /// The working directories, canonical; the first is where the session started.
    pub roots: Vec<PathBuf>,
    /// The user's home, for `~` in rules.
    pub home: PathBuf,
    /// Folders of the session's own making, canonical, that it may read without asking.
    pub readable: Vec<PathBuf>,
    /// How command lines are confined.
    pub sandboxing: Sandboxing,
}

/// One call to be judged.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The tool's canonical name.
    pub tool: &'a str,
    /// Its input.
    pub input: &'a Json,
    /// What it would do.
    pub intent: &'a Intent,
    /// What was read out of its command line, if it has one; without it, it counts as not understood.
    pub line: Option<&'a Line>,
}

/// Judges one call. The only function in the product that says yes.
pub fn decide(question: &Question<'_>, policy: &Policy, hook: Option<&Verdict>) -> Decision {
    if let Some(Verdict::Deny { hook, reason }) = hook {
        let because = Reason::Hook { name: hook.clone(), text: reason.clone() };
        return deny(question, because);
    }
    if let Some(rule) = first_match(question, policy, &policy.rules.deny, Side::Deny) {
        return deny(question, because_of(rule));
    }
    if let Some(text) = hard_floor(question, policy) {
        return deny(question, Reason::Check { text });
    }
    if let Some(rule) = first_match(question, policy, &policy.rules.ask, Side::Ask)
        && !(rule.pattern.is_none() && policy.mode != Mode::Plan && is_confined(question, policy))
    {
        return ask_or_deny(question, policy, because_of(rule));
    }
    if let Some(Verdict::Ask { hook, reason }) = hook {
        return ask_or_deny(question, policy, Reason::Hook { name: hook.clone(), text: reason.clone() });
    }
    let checked = own_check(question, policy);
    if let Some(Verdict::Allow { hook, reason }) = hook
        && !matches!(checked, Checked::AlwaysAsk(_))
    {
        return Decision::Allow { because: Reason::Hook { name: hook.clone(), text: reason.clone() } };
    }
    match (checked, policy.mode) {
        (Checked::Harmless(text), _) => Decision::Allow { because: Reason::Check { text } },
        (_, Mode::BypassPermissions) | (Checked::Edit, Mode::AcceptEdits) => allow_by_mode(policy.mode),
        (Checked::Confined(text), Mode::Default | Mode::AcceptEdits | Mode::DontAsk) => {
            Decision::Allow { because: Reason::Check { text } }
        }
        (Checked::AlwaysAsk(text), _) => ask_or_deny(question, policy, Reason::Check { text }),
        (Checked::Edit | Checked::Other(_) | Checked::Confined(_), Mode::Plan) => {
            ask(question, policy, Reason::Mode { mode: Mode::Plan })
        }
        (
            checked @ (Checked::Edit | Checked::Other(_)),
            mode @ (Mode::Default | Mode::AcceptEdits | Mode::DontAsk),
        ) => match (allowing_rule(question, policy), checked) {
            (Some(rule), _) => Decision::Allow { because: because_of(rule) },
            (None, Checked::Other(Some(text))) => ask_or_deny(question, policy, Reason::Check { text }),
            (
                None,
                Checked::Harmless(_)
                | Checked::Edit
                | Checked::AlwaysAsk(_)
                | Checked::Confined(_)
                | Checked::Other(None),
            ) => ask_or_deny(question, policy, Reason::Mode { mode }),
        },
    }
}

/// What the call's own access says before modes and allow rules are looked at.
#[derive(Debug, PartialEq, Eq)]
enum Checked {
    /// Runs in every mode.
    Harmless(String),
    /// A change to files in the working directories.
    Edit,
    /// Something no rule can wave through, and why.
    AlwaysAsk(String),
    /// A command that the sandbox keeps within bounds, which settings take for enough.
    Confined(String),
    /// Everything else, and what stands out about it.
    Other(Option<String>),
}

fn own_check(question: &Question<'_>, policy: &Policy) -> Checked {
    let inside = |paths: &[PathFact]| paths.iter().all(|fact| path::is_inside(fact, &policy.roots));
    match &question.intent.access {
        Access::Internal => Checked::Harmless("it touches only the agent's own state".to_owned()),
        Access::Read { paths } if inside(paths) => {
            Checked::Harmless("it only reads inside the working directories".to_owned())
        }
        Access::Read { paths } if paths.iter().all(|fact| path::is_inside(fact, &policy.readable)) => {
            Checked::Harmless("it only reads what the session itself has kept".to_owned())
        }
        Access::Write { paths } if paths.iter().any(path::is_protected) => Checked::AlwaysAsk(
            "the file decides what tools may do or run; changing it always asks".to_owned(),
        ),
        Access::Write { paths } if inside(paths) => Checked::Edit,
        Access::Execute { .. } => check_line(question, policy),
        Access::Read { .. }
        | Access::Write { .. }
        | Access::Network { .. }
        | Access::Mcp { .. }
        | Access::Agent { .. } => Checked::Other(None),
    }
}

fn check_line(question: &Question<'_>, policy: &Policy) -> Checked {
    let checked = match question.line.map(|line| line.class(policy)) {
        Some(Class::ReadOnly) => Checked::Harmless("it only reads inside the working directories".to_owned()),
        Some(Class::Edits) => Checked::Edit,
        Some(Class::Normal(why)) => Checked::Other(Some(why)),
        Some(Class::Dangerous(why) | Class::Forbidden(why)) => Checked::AlwaysAsk(why),
        None => Checked::Other(None),
    };
    match checked {
        Checked::Edit | Checked::Other(_) if policy.asks_to_leave(question.input) => {
            Checked::AlwaysAsk("it asks to run outside the sandbox".to_owned())
        }
        Checked::Edit | Checked::Other(_) if is_confined(question, policy) => {
            Checked::Confined("the sandbox bounds what it can do".to_owned())
        }
        checked @ (Checked::Harmless(_)
        | Checked::Edit
        | Checked::AlwaysAsk(_)
        | Checked::Confined(_)
        | Checked::Other(_)) => checked,
    }
}

/// Whether settings let a confined command run without asking, and this one is confined.
fn is_confined(question: &Question<'_>, policy: &Policy) -> bool {
    let sandboxing = &policy.sandboxing;
    let Some(line) = question.line else { return false };
    sandboxing.in_force
        && sandboxing.auto_allow
        && !policy.is_excluded(line)
        // What it says it would do beyond the bounds would be granted to it; so it asks.
        && !line.reaches_out(policy)
}

/// The allow rule that covers the call, unless a rule that denies or asks might turn out to.
fn allowing_rule<'a>(question: &Question<'_>, policy: &'a Policy) -> Option<&'a Rule> {
    let Access::Execute { .. } = &question.intent.access else {
        return first_match(question, policy, &policy.rules.allow, Side::Allow);
    };
    let line = question.line?;
    let strict = policy.rules.deny.iter().chain(&policy.rules.ask).filter(|rule| rule.tool == question.tool);
    let mut patterns = strict.filter_map(|rule| rule.pattern.as_deref());
    if patterns.any(|pattern| command::might_be_named(pattern, line)) {
        return None;
    }
    command::allowed_by(&policy.rules.allow, question.tool, line, policy)
}

/// What no mode and no rule permits.
fn hard_floor(question: &Question<'_>, policy: &Policy) -> Option<String> {
    if policy.sandboxing.demand == Demand::Required && !policy.sandboxing.in_force && question.line.is_some()
    {
        return Some("settings demand a sandbox, and there is none here (see `ostler doctor`)".to_owned());
    }
    match question.line?.class(policy) {
        Class::Forbidden(why) => Some(why),
        Class::ReadOnly | Class::Edits | Class::Normal(_) | Class::Dangerous(_) => None,
    }
}

fn first_match<'a>(
    question: &Question<'_>,
    policy: &Policy,
    rules: &'a [Rule],
    side: Side,
) -> Option<&'a Rule> {
    rules.iter().find(|rule| matches(rule, question, policy, side))
}

fn because_of(rule: &Rule) -> Reason {
    Reason::Rule { rule: rule.to_string(), source: rule.source.clone() }
}

fn allow_by_mode(mode: Mode) -> Decision {
    Decision::Allow { because: Reason::Mode { mode } }
}

fn ask_or_deny(question: &Question<'_>, policy: &Policy, because: Reason) -> Decision {
    if policy.mode == Mode::DontAsk { deny(question, because) } else { ask(question, policy, because) }
}

fn ask(question: &Question<'_>, policy: &Policy, because: Reason) -> Decision {
    Decision::Ask { because, suggestions: suggestions(question, policy) }
}

fn deny(question: &Question<'_>, because: Reason) -> Decision {
    let tell_model = format!("permission to run '{}' was denied by {because}", question.intent.title);
    Decision::Deny { because, tell_model }
}

/// Rules that would answer this question next time, as narrow as the call itself.
fn suggestions(question: &Question<'_>, policy: &Policy) -> Vec<Suggestion> {
    let rule = match &question.intent.access {
        Access::Execute { .. } => {
            let rules = question.line.map(|line| command::suggestions(line, question.tool, policy));
            return rules.into_iter().flatten().map(|(tool, pattern)| suggestion(&tool, pattern)).collect();
        }
        Access::Read { paths } | Access::Write { paths } => {
            let verb = if question.intent.access.has_effect() { "Edit" } else { "Read" };
            let [fact] = paths.as_slice() else { return Vec::new() };
            format!("{verb}(/{})", fact.target.display())
        }
        Access::Network { url } => match rule::host_of(url) {
            Some(host) => return vec![suggestion(question.tool, format!("domain:{host}"))],
            None => return Vec::new(),
        },
        Access::Internal | Access::Mcp { .. } | Access::Agent { .. } => question.tool.to_owned(),
    };
    vec![Suggestion { rule }]
}

fn suggestion(tool: &str, pattern: String) -> Suggestion {
    let rule = Rule { tool: tool.to_owned(), pattern: Some(pattern), source: RuleSource::Session };
    Suggestion { rule: rule.to_string() }
}

impl Policy {
    /// Whether a bare deny rule takes the tool from the model's sight.
    pub fn hides(&self, tool: &str) -> bool {
        self.rules
            .deny
            .iter()
            .any(|rule| rule.pattern.is_none() && rule::names_tool(&rule.tool, tool, Side::Deny))
    }

    /// The rules about reading as a search asks them, file by file.
    pub fn for_searches(&self) -> ReadPolicy {
        let has_pattern =
            |side: Side, rule: &&Rule| rule.pattern.is_some() && rule::speaks_about_reads(rule, side);
        let about_reads = |rules: &[Rule], side: Side| -> Vec<Rule> {
            rules.iter().filter(|rule| has_pattern(side, rule)).cloned().collect()
        };
        let denied = about_reads(&self.rules.deny, Side::Deny);
        let asked = about_reads(&self.rules.ask, Side::Ask);
        if denied.is_empty() && asked.is_empty() {
            return ReadPolicy::open();
        }
        // Few calls are searches: nothing is compiled before the first file.
        let policy = Self { rules: Rules { deny: denied, ask: asked, allow: Vec::new() }, ..self.clone() };
        let patterns = LazyLock::new(move || {
            let compile = |rules: &[Rule], side| {
                let patterns = rules.iter().filter_map(|rule| Some((rule, rule.pattern.as_deref()?)));
                PathPatterns::compile(patterns, &policy, side)
            };
            (compile(&policy.rules.deny, Side::Deny), compile(&policy.rules.ask, Side::Ask))
        });
        ReadPolicy::new(move |path| {
            let (denied, asked) = &*patterns;
            if denied.cover(path) {
                Sight::Closed
            } else if asked.cover(path) {
                Sight::Asks
            } else {
                Sight::Open
            }
        })
    }
}

#[cfg(test)]
mod lists;
#[cfg(test)]
mod tests;
