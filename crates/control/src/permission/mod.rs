//! The one judge. Pure: what a call would do, the policy and a hook's word go in, a decision with
//! its reason comes out. Deny beats ask beats allow; whatever is not understood asks.
#![forbid(unsafe_code)]

mod command;
mod path;
mod rule;

use ostler_proto::{
    Access, Decision, Intent, Json, Mode, PathFact, Reason, Rule, Rules, Suggestion, Verdict,
};
use ostler_tools::{ReadPolicy, Sight};
use rule::{PathPatterns, Side, matches};
use std::{path::PathBuf, sync::LazyLock};

/// What is in force.
#[derive(Debug, Clone, PartialEq)]
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
    if let Some(rule) = first_match(question, policy, &policy.rules.ask, Side::Ask) {
        return ask_or_deny(question, policy, because_of(rule));
    }
    if let Some(Verdict::Ask { hook, reason }) = hook {
        return ask_or_deny(question, policy, Reason::Hook { name: hook.clone(), text: reason.clone() });
    }
    let checked = own_check(question, policy);
    if let Some(Verdict::Allow { hook, reason }) = hook
        && checked != Checked::AlwaysAsk
    {
        return Decision::Allow { because: Reason::Hook { name: hook.clone(), text: reason.clone() } };
    }
    match (checked, policy.mode) {
        (Checked::Harmless(text), _) => Decision::Allow { because: Reason::Check { text } },
        (_, Mode::BypassPermissions) | (Checked::Edit, Mode::AcceptEdits) => allow_by_mode(policy.mode),
        (Checked::AlwaysAsk, mode) => {
            let text = "the file decides what tools may do or run; changing it always asks".to_owned();
            if mode == Mode::DontAsk {
                deny(question, Reason::Mode { mode })
            } else {
                ask(question, Reason::Check { text })
            }
        }
        (Checked::Edit | Checked::Other, Mode::Plan) => ask(question, Reason::Mode { mode: Mode::Plan }),
        (Checked::Edit | Checked::Other, Mode::Default | Mode::AcceptEdits | Mode::DontAsk) => {
            match first_match(question, policy, &policy.rules.allow, Side::Allow) {
                Some(rule) => Decision::Allow { because: because_of(rule) },
                None => ask_or_deny(question, policy, Reason::Mode { mode: policy.mode }),
            }
        }
    }
}

/// What the call's own access says before modes and allow rules are looked at.
#[derive(Debug, PartialEq, Eq)]
enum Checked {
    /// Runs in every mode.
    Harmless(String),
    /// A change to files in the working directories.
    Edit,
    /// A change to something that is itself policy or runs by itself later.
    AlwaysAsk,
    /// Everything else.
    Other,
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
        Access::Write { paths } if paths.iter().any(path::is_protected) => Checked::AlwaysAsk,
        Access::Write { paths } if inside(paths) => Checked::Edit,
        Access::Read { .. }
        | Access::Write { .. }
        | Access::Execute { .. }
        | Access::Network { .. }
        | Access::Mcp { .. }
        | Access::Agent { .. } => Checked::Other,
    }
}

fn hard_floor(question: &Question<'_>, policy: &Policy) -> Option<String> {
    match &question.intent.access {
        Access::Execute { command, cwd, .. } => command::catastrophe(command, cwd, policy),
        Access::Internal
        | Access::Read { .. }
        | Access::Write { .. }
        | Access::Network { .. }
        | Access::Mcp { .. }
        | Access::Agent { .. } => None,
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
    if policy.mode == Mode::DontAsk { deny(question, because) } else { ask(question, because) }
}

fn ask(question: &Question<'_>, because: Reason) -> Decision {
    Decision::Ask { because, suggestions: suggestions(question) }
}

fn deny(question: &Question<'_>, because: Reason) -> Decision {
    let tell_model = format!("permission to run '{}' was denied by {because}", question.intent.title);
    Decision::Deny { because, tell_model }
}

/// Rules that would answer this question next time, as narrow as the call itself.
fn suggestions(question: &Question<'_>) -> Vec<Suggestion> {
    let rule = match &question.intent.access {
        Access::Execute { command, .. } if command::is_plain(command) => format!("Bash({command})"),
        // A compound command cannot be named by one rule that would match it again.
        Access::Execute { .. } => return Vec::new(),
        Access::Read { paths } | Access::Write { paths } => {
            let verb = if question.intent.access.has_effect() { "Edit" } else { "Read" };
            let [fact] = paths.as_slice() else { return Vec::new() };
            format!("{verb}(/{})", fact.target.display())
        }
        Access::Internal | Access::Network { .. } | Access::Mcp { .. } | Access::Agent { .. } => {
            question.tool.to_owned()
        }
    };
    vec![Suggestion { rule }]
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
mod tests;
