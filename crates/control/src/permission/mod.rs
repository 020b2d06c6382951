//! The one judge. Pure: what a call would do, the policy and a hook's word go in, a decision with
//! its reason comes out. Deny beats ask beats allow; whatever is not understood asks.
#![forbid(unsafe_code)]

mod command;
mod explain;
mod file;
mod line;
mod mode;
mod path;
mod patterns;
mod rule;
mod shell;
mod terms;
mod update;
mod windows;

pub use explain::{Explanation, Part};
pub use file::{Step, steps};
pub(crate) use line::Class;
pub use line::Line;
pub use mode::{Above, Bypass};
pub use patterns::Compiled;
pub use shell::explain;
pub(crate) use shell::{Ground, read};
pub(crate) use terms::secrets;
pub use terms::{Demand, Sandboxing};

use ostler_proto::{
    Access, Addressee, Decision, Intent, Json, Mode, Reason, Rule, RuleSource, Rules, Suggestion, Verdict,
};
use ostler_tools::{ReadPolicy, Sight};
use patterns::PathPatterns;
use rule::{Side, about};
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
    /// Folders of the session's own making, canonical, that file tools may also write without asking.
    pub editable: Vec<PathBuf>,
    /// The file in which the session's plan stands; it may be written in every mode.
    pub plan_file: Option<PathBuf>,
    /// The mode that plan mode goes back to.
    pub before_plan: Mode,
    /// Whether permissions may be bypassed.
    pub bypass: Bypass,
    /// Whom an agent in mode `bubble` can ask.
    pub above: Above,
    /// How command lines are confined.
    pub sandboxing: Sandboxing,
    /// The rules' patterns, ready to be tried.
    pub compiled: Compiled,
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
    /// Who wrote the input as it now stands.
    pub author: Author,
}

/// Who wrote a call's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Author {
    /// The model.
    #[default]
    Model,
    /// A hook that changed it.
    Hook,
    /// Whoever answered the question about it.
    User,
}

/// Judges one call. The only function in the product that says yes.
pub fn decide(question: &Question<'_>, policy: &Policy, hook: Option<&Verdict>) -> Decision {
    if let Some(Verdict::Deny { hook, reason }) = hook {
        let because = Reason::Hook { name: hook.clone(), text: reason.clone() };
        return deny(question, because);
    }
    if let Some(rule) = about(question, policy, Side::Deny) {
        return deny(question, because_of(rule));
    }
    if let Some(text) = hard_floor(question, policy) {
        return deny(question, Reason::Check { text });
    }
    let is_own = file::is_editable(question.intent.access.paths(), policy);
    if let Some(rule) = about(question, policy, Side::Ask).filter(|_| !is_own)
        && !(rule.pattern.is_none() && policy.mode != Mode::Plan && is_confined(question, policy))
    {
        return ask_or_deny(question, policy, because_of(rule));
    }
    if let Some(Verdict::Ask { hook, reason }) = hook {
        return ask_or_deny(question, policy, Reason::Hook { name: hook.clone(), text: reason.clone() });
    }
    let checked = own_check(question, policy);
    if let Some(Verdict::Allow { hook, reason }) = hook
        && checked.may_be_allowed_by_hook(question.author)
    {
        return Decision::Allow { because: Reason::Hook { name: hook.clone(), text: reason.clone() } };
    }
    by_mode(question, policy, checked)
}

/// What the mode and the allow rules make of what the call's own access says.
fn by_mode(question: &Question<'_>, policy: &Policy, checked: Checked) -> Decision {
    match (checked, policy.mode) {
        (Checked::OnlyUser(text), _) => ask_or_deny(question, policy, Reason::Check { text }),
        (Checked::Harmless(text), _) => Decision::Allow { because: Reason::Check { text } },
        (_, Mode::BypassPermissions) | (Checked::Edit, Mode::AcceptEdits) => allow_by_mode(policy.mode),
        (Checked::Confined(text), Mode::Default | Mode::AcceptEdits | Mode::DontAsk | Mode::Bubble) => {
            Decision::Allow { because: Reason::Check { text } }
        }
        (Checked::AlwaysAsk(text), _) => ask_or_deny(question, policy, Reason::Check { text }),
        // Rules let the agent look around while it plans; nothing but the user lets it act.
        (Checked::Other(why), Mode::Plan) if only_looks(&question.intent.access) => {
            let because = why.map_or(Reason::Mode { mode: Mode::Plan }, |text| Reason::Check { text });
            match allowing_rule(question, policy) {
                Some(rule) => Decision::Allow { because: because_of(rule) },
                None => ask_or_deny(question, policy, because),
            }
        }
        (Checked::Edit | Checked::Other(_) | Checked::Confined(_), Mode::Plan) => {
            ask_or_deny(question, policy, Reason::Mode { mode: Mode::Plan })
        }
        (
            checked @ (Checked::Edit | Checked::Other(_)),
            mode @ (Mode::Default | Mode::AcceptEdits | Mode::DontAsk | Mode::Bubble),
        ) => match (allowing_rule(question, policy), checked) {
            (Some(rule), _) => Decision::Allow { because: because_of(rule) },
            (None, Checked::Other(Some(text))) => ask_or_deny(question, policy, Reason::Check { text }),
            (
                None,
                Checked::Harmless(_)
                | Checked::Edit
                | Checked::AlwaysAsk(_)
                | Checked::OnlyUser(_)
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
    /// Something that the user's own word is the point of.
    OnlyUser(String),
    /// A command that the sandbox keeps within bounds, which settings take for enough.
    Confined(String),
    /// Everything else, and what stands out about it.
    Other(Option<String>),
}

impl Checked {
    /// A hook's yes is enough for what asks by rule of thumb. Where the user's word is the point of the call, it
    /// must bring that word: an input of its own.
    fn may_be_allowed_by_hook(&self, author: Author) -> bool {
        match self {
            Self::AlwaysAsk(_) => false,
            Self::OnlyUser(_) => author == Author::Hook,
            Self::Harmless(_) | Self::Edit | Self::Confined(_) | Self::Other(_) => true,
        }
    }
}

fn own_check(question: &Question<'_>, policy: &Policy) -> Checked {
    match &question.intent.access {
        Access::Internal => Checked::Harmless("it touches only the agent's own state".to_owned()),
        Access::Consult(_) => Checked::OnlyUser("only the user can settle it".to_owned()),
        Access::Read { .. } | Access::Write { .. } => file::check(question, policy),
        Access::Execute { .. } => check_line(question, policy),
        Access::Network { .. } | Access::Mcp { .. } | Access::Agent { .. } => Checked::Other(None),
    }
}

/// Whether the call leaves everything as it is, here and elsewhere.
fn only_looks(access: &Access) -> bool {
    match access {
        Access::Network { .. } => true,
        // What a server says about its own tools is no ground for trust.
        Access::Mcp { .. } => false,
        Access::Internal
        | Access::Read { .. }
        | Access::Write { .. }
        | Access::Execute { .. }
        | Access::Agent { .. }
        | Access::Consult(_) => !access.has_effect(),
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
        | Checked::OnlyUser(_)
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
        return about(question, policy, Side::Allow);
    };
    let line = question.line?;
    let strict = policy.rules.deny.iter().chain(&policy.rules.ask).filter(|rule| rule.tool == question.tool);
    let mut patterns = strict.filter_map(|rule| rule.pattern.as_deref());
    if patterns.any(|pattern| command::might_be_named(pattern, line)) {
        return None;
    }
    command::allowed_by(question.tool, line, policy)
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

fn because_of(rule: &Rule) -> Reason {
    Reason::Rule { rule: rule.to_string(), source: rule.source.clone() }
}

fn allow_by_mode(mode: Mode) -> Decision {
    Decision::Allow { because: Reason::Mode { mode } }
}

fn ask_or_deny(question: &Question<'_>, policy: &Policy, because: Reason) -> Decision {
    let to = match (policy.mode, policy.above) {
        (Mode::DontAsk, _) | (Mode::Bubble, Above::Nobody) => return deny(question, because),
        (Mode::Bubble, Above::Parent) => Addressee::Parent,
        (Mode::Default | Mode::AcceptEdits | Mode::Plan | Mode::BypassPermissions, _) => Addressee::User,
    };
    // A rule or a hook that asks does so next time too, whatever is allowed.
    let suggestions = match &because {
        Reason::Rule { .. } | Reason::Hook { .. } => Vec::new(),
        Reason::Mode { .. } | Reason::Check { .. } | Reason::User | Reason::Unattended => {
            suggestions(question, policy)
        }
    };
    Decision::Ask { because, suggestions, to }
}

fn deny(question: &Question<'_>, because: Reason) -> Decision {
    let tell_model = format!("permission to run '{}' was denied by {because}", question.intent.title);
    Decision::Deny { because, tell_model }
}

/// Rules that would answer this question next time, as narrow as the call itself. None for what nobody
/// will have seen whole, and for what asks whatever the rules say.
fn suggestions(question: &Question<'_>, policy: &Policy) -> Vec<Suggestion> {
    let never_by_rule = policy.mode == Mode::Plan && !only_looks(&question.intent.access);
    if !question.intent.can_be_shown_whole() || !file::can_be_granted(question) || never_by_rule {
        return Vec::new();
    }
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
        Access::Consult(_) => return Vec::new(),
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
                let numbered = rules.iter().enumerate();
                let patterns =
                    numbered.filter_map(|(number, rule)| Some((number, rule, rule.pattern.as_deref()?)));
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
