//! Whether a rule speaks about a call: tool names, command patterns and path patterns.

use super::{Policy, Question, command, line::Line, patterns::Verb};
use ostler_proto::{Access, Json, PathFact, Rule};

/// What the rule would do; allowing is matched strictly, the others widely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Deny,
    Ask,
    Allow,
}

/// The rule on one side that speaks about this call.
pub(super) fn about<'a>(question: &Question<'_>, policy: &'a Policy, side: Side) -> Option<&'a Rule> {
    let rules = policy.rules_on(side);
    let by_words = rules.iter().position(|rule| speaks(rule, question, side));
    let number = by_words.into_iter().chain(by_path(question, policy, side)).min()?;
    rules.get(number)
}

/// Whether the rule speaks about this call by anything but a path.
fn speaks(rule: &Rule, question: &Question<'_>, side: Side) -> bool {
    let Some(pattern) = &rule.pattern else {
        return names_tool(&rule.tool, question.tool, side) || implied_by_bare_name(rule, question, side);
    };
    if rule.tool != question.tool {
        return false;
    }
    let by_words = match &question.intent.access {
        // What allows a command line is found in `command`, for all of its parts together.
        Access::Execute { .. } => {
            side != Side::Allow && question.line.is_some_and(|line| command::is_named(pattern, line))
        }
        Access::Network { url } => domain_matches(pattern, url),
        Access::Agent { kind } => pattern == kind,
        Access::Read { .. }
        | Access::Write { .. }
        | Access::Internal
        | Access::Mcp { .. }
        | Access::Consult(_) => false,
    };
    by_words || (side != Side::Allow && parameter_matches(pattern, question.input))
}

/// The number of a rule that speaks about the files a call touches. Allowing needs every path in
/// every spelling; denying and asking need one. A denied read is a denied write, too, and who may
/// change a file may read it.
fn by_path(question: &Question<'_>, policy: &Policy, side: Side) -> Option<usize> {
    let strict =
        |verb, paths: &[PathFact]| policy.rule_about(side, verb, paths.iter().flat_map(PathFact::spellings));
    match (&question.intent.access, side) {
        (Access::Read { paths }, Side::Allow) => {
            let read = policy.rule_granting(Verb::Read, paths);
            read.or_else(|| policy.rule_granting(Verb::Edit, paths))
        }
        (Access::Write { paths }, Side::Allow) => policy.rule_granting(Verb::Edit, paths),
        (Access::Read { paths }, Side::Deny | Side::Ask) => strict(Verb::Read, paths),
        (Access::Write { paths }, Side::Ask) => strict(Verb::Edit, paths),
        (Access::Write { paths }, Side::Deny) => {
            strict(Verb::Edit, paths).or_else(|| strict(Verb::Read, paths))
        }
        (Access::Execute { .. }, Side::Deny | Side::Ask) => {
            let facts = |writes_only| {
                question
                    .line
                    .into_iter()
                    .flat_map(move |line| line.facts(writes_only))
                    .flat_map(PathFact::spellings)
            };
            let edits = policy.rule_about(side, Verb::Edit, facts(true));
            edits.or_else(|| policy.rule_about(side, Verb::Read, facts(false)))
        }
        (
            Access::Execute { .. }
            | Access::Internal
            | Access::Network { .. }
            | Access::Mcp { .. }
            | Access::Agent { .. }
            | Access::Consult(_),
            _,
        ) => None,
    }
}

/// Whether path patterns of the rule are about reading.
pub(super) fn speaks_about_reads(rule: &Rule, side: Side) -> bool {
    rule.tool == "Read" || (rule.tool == "Edit" && side == Side::Allow)
}

/// Whether a name or name glob in a rule means this tool.
pub(super) fn names_tool(rule_name: &str, tool: &str, side: Side) -> bool {
    if rule_name == tool {
        return true;
    }
    let Some(stem) = rule_name.strip_suffix('*') else { return false };
    // A glob may allow only within one MCP server; anything wider must be spelled out.
    let wide = !(stem.starts_with("mcp__") && stem[5..].contains("__"));
    !(side == Side::Allow && wide) && tool.starts_with(stem)
}

/// `Edit` speaks for every tool that changes files, and a denied `Read` for everything that reads.
fn implied_by_bare_name(rule: &Rule, question: &Question<'_>, side: Side) -> bool {
    match &question.intent.access {
        Access::Write { .. } => rule.tool == "Edit" || (rule.tool == "Read" && side == Side::Deny),
        Access::Read { .. } => rule.tool == "Read",
        Access::Internal
        | Access::Execute { .. }
        | Access::Network { .. }
        | Access::Mcp { .. }
        | Access::Agent { .. }
        | Access::Consult(_) => false,
    }
}

/// Whether an allow rule lets this file be changed.
pub(super) fn may_edit(fact: &PathFact, policy: &Policy) -> bool {
    policy.rules.allow.iter().any(|rule| rule.tool == "Edit" && rule.pattern.is_none())
        || policy.rule_granting(Verb::Edit, std::slice::from_ref(fact)).is_some()
}

/// An allow rule that lets a file be changed which the line changes.
pub(super) fn granting_edits<'a>(line: &Line, policy: &'a Policy) -> Option<&'a Rule> {
    let bare = policy.rules.allow.iter().find(|rule| rule.tool == "Edit" && rule.pattern.is_none());
    bare.filter(|_| line.facts(true).next().is_some()).or_else(|| {
        let number =
            line.facts(true).find_map(|fact| policy.rule_granting(Verb::Edit, std::slice::from_ref(fact)))?;
        policy.rules.allow.get(number)
    })
}

/// `name:value` about a top-level parameter other than those with patterns of their own.
fn parameter_matches(pattern: &str, input: &Json) -> bool {
    const PRIMARY: [&str; 8] =
        ["command", "file_path", "path", "notebook_path", "url", "pattern", "prompt", "query"];
    let Some((name, wanted)) = pattern.split_once(':') else { return false };
    if PRIMARY.contains(&name) {
        return false;
    }
    let value = match input.get(name) {
        Some(Json::String(text)) => text.clone(),
        Some(value @ (Json::Bool(_) | Json::Number(_))) => value.to_string(),
        Some(Json::Null | Json::Array(_) | Json::Object(_)) | None => return false,
    };
    command::covers(wanted, &value)
}

/// `domain:host` against the host of an address: labels, never text.
fn domain_matches(pattern: &str, url: &str) -> bool {
    let Some(wanted) = pattern.strip_prefix("domain:") else { return false };
    let Some(host) = host_of(url) else { return false };
    let wanted = wanted.trim_end_matches('.').to_lowercase();
    if wanted == "*" {
        return true;
    }
    if let Some(parent) = wanted.strip_prefix("*.") {
        return host.strip_suffix(parent).is_some_and(|sub| sub.len() > 1 && sub.ends_with('.'));
    }
    let (wanted, host): (Vec<&str>, Vec<&str>) = (wanted.split('.').collect(), host.split('.').collect());
    wanted.len() == host.len()
        && wanted.iter().zip(host).all(|(wanted, label)| command::covers(wanted, label))
}

/// The host of an http address as it would be dialled, in lower case and without a final dot.
pub(super) fn host_of(url: &str) -> Option<String> {
    let url = url::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    Some(url.host_str()?.trim_end_matches('.').to_lowercase())
}
