//! The check of a file call, step by step: where the path leads, how it is written, and whose file it is.
//! The same steps are told to people by [`steps`]; rules and modes are `decide`'s.

use super::{Checked, Policy, Question, path, patterns::Verb, rule, rule::Side, windows};
use ostler_proto::{Access, Json, Mode, PathFact, RuleSource};
use serde::Serialize;

/// One step of the check and what it said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What was looked at.
    pub name: &'static str,
    /// `allow`, `ask` or `deny` if it decided; nothing if it had nothing to say.
    pub says: Option<&'static str>,
}

/// What the paths themselves say, before modes and allow rules.
pub(super) fn check(question: &Question<'_>, policy: &Policy) -> Checked {
    let paths = question.intent.access.paths();
    if let Some(why) = windows::network_path(question.input, paths).or_else(|| windows::odd_form(paths)) {
        return Checked::AlwaysAsk(why);
    }
    let harmless = |text: &str| Checked::Harmless(text.to_owned());
    let inside = || paths.iter().all(|fact| path::is_inside(fact, &policy.roots));
    match &question.intent.access {
        Access::Read { .. } if is_editable(paths, policy) => harmless("it only reads what the session keeps"),
        Access::Read { .. } if inside() => harmless("it only reads inside the working directories"),
        Access::Read { .. } if is_readable(paths, policy) => {
            harmless("it only reads what the session itself has kept")
        }
        Access::Write { .. } if is_editable(paths, policy) => {
            harmless("it only writes what the session keeps for itself")
        }
        Access::Write { .. } if is_protected(paths) => {
            if is_granted_for_session(paths, policy) {
                return Checked::Other(None);
            }
            Checked::AlwaysAsk(
                "the file decides what tools may do or run; changing it always asks".to_owned(),
            )
        }
        Access::Write { .. } if inside() => Checked::Edit,
        Access::Read { .. }
        | Access::Write { .. }
        | Access::Execute { .. }
        | Access::Internal
        | Access::Network { .. }
        | Access::Mcp { .. }
        | Access::Agent { .. }
        | Access::Consult(_) => Checked::Other(None),
    }
}

/// Whether all of these are the session's own to write: its plan, its temporary folder, its notes.
pub(super) fn is_editable(paths: &[PathFact], policy: &Policy) -> bool {
    let own = |fact: &PathFact| {
        let is_plan = policy.plan_file.as_ref().is_some_and(|plan| fact.spellings().all(|path| path == plan));
        is_plan
            || path::is_inside(fact, &policy.editable)
            || policy
                .sandboxing
                .temp
                .as_ref()
                .is_some_and(|temp| path::is_inside(fact, std::slice::from_ref(temp)))
    };
    !paths.is_empty() && paths.iter().all(own)
}

/// Whether a rule could make the next such call run: not where the check itself always asks.
pub(super) fn can_be_granted(question: &Question<'_>) -> bool {
    let paths = question.intent.access.paths();
    let odd = windows::network_path(question.input, paths).is_some() || windows::odd_form(paths).is_some();
    let writes = matches!(question.intent.access, Access::Write { .. });
    let closed = writes && is_protected(paths) && !paths.iter().all(path::is_own_folder);
    !(odd || closed)
}

/// The steps of a file call in their order, up to the one that decided. Nothing for other calls.
pub fn steps(question: &Question<'_>, policy: &Policy) -> Vec<Step> {
    let access = &question.intent.access;
    let writes = match access {
        Access::Read { .. } => false,
        Access::Write { .. } => true,
        Access::Execute { .. }
        | Access::Internal
        | Access::Network { .. }
        | Access::Mcp { .. }
        | Access::Agent { .. }
        | Access::Consult(_) => return Vec::new(),
    };
    let mut all = if writes { write_steps(question, policy) } else { read_steps(question, policy) };
    let deciding = all.iter().position(|step| step.says.is_some());
    all.truncate(deciding.map_or(all.len(), |last| last + 1));
    all
}

fn read_steps(question: &Question<'_>, policy: &Policy) -> Vec<Step> {
    let paths = question.intent.access.paths();
    let inside = paths.iter().all(|fact| path::is_inside(fact, &policy.roots));
    let may_write = is_editable(paths, policy) || policy.rule_granting(Verb::Edit, paths).is_some();
    vec![
        step("deny rules", rule::about(question, policy, Side::Deny).is_some(), "deny"),
        step(
            "a network path",
            windows::network_path(question.input, paths).is_some(),
            by_bypass(policy, "ask"),
        ),
        step("a form Windows reads otherwise", windows::odd_form(paths).is_some(), by_bypass(policy, "ask")),
        step("ask rules", rule::about(question, policy, Side::Ask).is_some(), "ask"),
        step("may be written, so may be read", may_write, "allow"),
        step("inside the working directories", inside, "allow"),
        step("kept by the session itself", is_readable(paths, policy), "allow"),
        step("permission mode", policy.mode == Mode::BypassPermissions, "allow"),
        step("allow rules", rule::about(question, policy, Side::Allow).is_some(), "allow"),
        step("nobody said yes", true, "ask"),
    ]
}

fn write_steps(question: &Question<'_>, policy: &Policy) -> Vec<Step> {
    let paths = question.intent.access.paths();
    let inside = paths.iter().all(|fact| path::is_inside(fact, &policy.roots));
    let granted = is_granted_for_session(paths, policy);
    let plan = policy.mode == Mode::Plan;
    vec![
        step("deny rules", rule::about(question, policy, Side::Deny).is_some(), "deny"),
        step("the session's own: plan, notes, temporary files", is_editable(paths, policy), "allow"),
        step("ask rules", rule::about(question, policy, Side::Ask).is_some(), "ask"),
        step(
            "a network path",
            windows::network_path(question.input, paths).is_some(),
            by_bypass(policy, "ask"),
        ),
        step("a form Windows reads otherwise", windows::odd_form(paths).is_some(), by_bypass(policy, "ask")),
        step("the agent's own folder, granted for this session", granted && !plan, "allow"),
        step("protected files and folders", is_protected(paths) && !granted, by_bypass(policy, "ask")),
        step("permission mode", policy.mode == Mode::BypassPermissions, "allow"),
        step("permission mode", plan, "ask"),
        step(
            "edits accepted in the working directories",
            inside && policy.mode == Mode::AcceptEdits,
            "allow",
        ),
        step("allow rules", rule::about(question, policy, Side::Allow).is_some(), "allow"),
        step("nobody said yes", true, "ask"),
    ]
}

fn step(name: &'static str, applies: bool, says: &'static str) -> Step {
    Step { name, says: applies.then_some(says) }
}

fn by_bypass(policy: &Policy, otherwise: &'static str) -> &'static str {
    if policy.mode == Mode::BypassPermissions { "allow" } else { otherwise }
}

fn is_readable(paths: &[PathFact], policy: &Policy) -> bool {
    paths.iter().all(|fact| path::is_inside(fact, &policy.readable))
}

fn is_protected(paths: &[PathFact]) -> bool {
    paths.iter().any(path::is_protected)
}

/// Whether the user has let the agent write these files of its own folder, in this session. What
/// settings say can never open them: settings are among them.
fn is_granted_for_session(paths: &[PathFact], policy: &Policy) -> bool {
    let session_rules = || policy.rules.allow.iter().filter(|rule| rule.source == RuleSource::Session);
    if session_rules().next().is_none() || !paths.iter().all(path::is_own_folder) {
        return false;
    }
    let only_session = Policy {
        rules: ostler_proto::Rules { allow: session_rules().cloned().collect(), ..Default::default() },
        roots: policy.roots.clone(),
        home: policy.home.clone(),
        ..Policy::default()
    };
    only_session.rule_granting(Verb::Edit, paths).is_some()
}

/// Every path as the call's input writes it.
pub(super) fn written(input: &Json) -> impl Iterator<Item = &str> {
    let named = ["file_path", "notebook_path", "path"].into_iter().filter_map(|key| input.get(key));
    let edits = input.get("edits").and_then(Json::as_array).into_iter().flatten();
    named.chain(edits.filter_map(|edit| edit.get("file_path"))).filter_map(Json::as_str)
}
