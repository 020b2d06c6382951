//! Whether a rule speaks about a call: tool names, command patterns and path patterns.

use super::{Policy, Question, command, line::Line};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ostler_proto::{Access, Json, PathFact, Rule, RuleSource};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// What the rule would do; allowing is matched strictly, the others widely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Deny,
    Ask,
    Allow,
}

/// Whether the rule speaks about this call.
pub(super) fn matches(rule: &Rule, question: &Question<'_>, policy: &Policy, side: Side) -> bool {
    let Some(pattern) = &rule.pattern else {
        return names_tool(&rule.tool, question.tool, side) || implied_by_bare_name(rule, question, side);
    };
    if side != Side::Allow && rule.tool == question.tool && parameter_matches(pattern, question.input) {
        return true;
    }
    match &question.intent.access {
        Access::Execute { .. } => {
            question.line.is_some_and(|line| speaks_about_line(rule, pattern, line, question, policy, side))
        }
        Access::Read { paths } => {
            speaks_about_reads(rule, side) && paths_match(rule, pattern, paths, policy, side)
        }
        Access::Write { paths } => {
            let speaks = rule.tool == "Edit" || (rule.tool == "Read" && side == Side::Deny);
            speaks && paths_match(rule, pattern, paths, policy, side)
        }
        Access::Network { url } => rule.tool == question.tool && domain_matches(pattern, url),
        Access::Agent { kind } => rule.tool == question.tool && pattern == kind,
        Access::Internal | Access::Mcp { .. } => false,
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
        | Access::Agent { .. } => false,
    }
}

/// Whether a rule that denies or asks speaks about a command line: by its words, or by the files it
/// touches. What allows one is found in `command`, for all of its parts together.
fn speaks_about_line(
    rule: &Rule,
    pattern: &str,
    line: &Line,
    question: &Question<'_>,
    policy: &Policy,
    side: Side,
) -> bool {
    if side == Side::Allow {
        return false;
    }
    let patterns = || PathPatterns::compile([(rule, pattern)], policy, side);
    let touches = |patterns: &PathPatterns, writes_only| {
        line.facts(writes_only).any(|fact| fact.spellings().any(|path| patterns.cover(path)))
    };
    match rule.tool.as_str() {
        tool if tool == question.tool => command::is_named(pattern, line),
        "Edit" => touches(&patterns(), true),
        "Read" => touches(&patterns(), false),
        _ => false,
    }
}

/// Whether an allow rule lets this file be changed.
pub(super) fn may_edit(fact: &PathFact, policy: &Policy) -> bool {
    policy.rules.allow.iter().any(|rule| covers_edit(rule, fact, policy))
}

/// Whether an allow rule lets a file be changed that the line changes.
pub(super) fn grants_edits(rule: &Rule, line: &Line, policy: &Policy) -> bool {
    line.facts(true).any(|fact| covers_edit(rule, fact, policy))
}

fn covers_edit(rule: &Rule, fact: &PathFact, policy: &Policy) -> bool {
    rule.tool == "Edit"
        && match &rule.pattern {
            None => true,
            Some(pattern) => paths_match(rule, pattern, std::slice::from_ref(fact), policy, Side::Allow),
        }
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

fn paths_match(rule: &Rule, pattern: &str, paths: &[PathFact], policy: &Policy, side: Side) -> bool {
    let patterns = PathPatterns::compile([(rule, pattern)], policy, side);
    let hits = |path: &Path| patterns.cover(path);
    match side {
        // Allowing needs every path in every spelling; the others need one.
        Side::Allow => !paths.is_empty() && paths.iter().all(|fact| fact.spellings().all(hits)),
        Side::Deny | Side::Ask => paths.iter().any(|fact| fact.spellings().any(hits)),
    }
}

/// Path patterns of rules on one side, compiled once and tried on many paths.
pub(super) struct PathPatterns {
    by_anchor: Vec<(PathBuf, Gitignore)>,
    /// A pattern that cannot be read must not fall silent on the strict sides.
    covers_all: bool,
}

impl PathPatterns {
    /// Compiles the patterns of these rules.
    pub(super) fn compile<'a>(
        rules: impl IntoIterator<Item = (&'a Rule, &'a str)>,
        policy: &Policy,
        side: Side,
    ) -> Self {
        let mut lines: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
        for (rule, pattern) in rules {
            let (anchor, pattern) = anchored(rule, pattern, policy);
            let spread = side != Side::Allow && !pattern.starts_with('/') && pattern.contains('/');
            let spread = spread.then(|| format!("**/{pattern}"));
            // A negated line covers nothing by itself, and must not take from other rules.
            let all = [Some(pattern), spread].into_iter().flatten().filter(|line| !line.starts_with('!'));
            lines.entry(anchor).or_default().extend(all);
        }
        let mut compiled = Self { by_anchor: Vec::new(), covers_all: false };
        for (anchor, lines) in lines {
            let mut builder = GitignoreBuilder::new(&anchor);
            for line in lines {
                compiled.covers_all |= builder.add_line(None, &line).is_err() && side != Side::Allow;
            }
            match builder.build() {
                Ok(matcher) => compiled.by_anchor.push((anchor, matcher)),
                Err(_) => compiled.covers_all |= side != Side::Allow,
            }
        }
        compiled
    }

    /// Whether one of the patterns covers a path.
    pub(super) fn cover(&self, path: &Path) -> bool {
        self.covers_all
            || self.by_anchor.iter().any(|(anchor, matcher)| {
                path.starts_with(anchor) && matcher.matched_path_or_any_parents(path, false).is_ignore()
            })
    }
}

/// The one path a rule is about, if its pattern is a plain path.
pub(super) fn plain_path(rule: &Rule, policy: &Policy) -> Option<PathBuf> {
    let pattern = rule.pattern.as_deref().filter(|pattern| !pattern.contains(['*', '?', '[', '!', '\\']))?;
    let (anchor, below) = anchored(rule, pattern, policy);
    Some(anchor.join(below.trim_start_matches('/').trim_end_matches('/')))
}

/// The folder a path pattern counts from, and the pattern below it.
fn anchored(rule: &Rule, pattern: &str, policy: &Policy) -> (PathBuf, String) {
    let cwd = policy.roots.first().cloned().unwrap_or_else(|| PathBuf::from("/"));
    if let Some(absolute) = pattern.strip_prefix("//") {
        return (PathBuf::from("/"), format!("/{absolute}"));
    }
    if let Some(below_home) = pattern.strip_prefix("~/") {
        return (policy.home.clone(), format!("/{below_home}"));
    }
    if pattern.starts_with('/') {
        let folder = match &rule.source {
            RuleSource::User(file) | RuleSource::Managed(file) => file.parent().map(Path::to_path_buf),
            RuleSource::Project(file) => file.parent().and_then(Path::parent).map(Path::to_path_buf),
            RuleSource::Flag(_) | RuleSource::Local(_) | RuleSource::Session => None,
        };
        return (folder.unwrap_or(cwd), pattern.to_owned());
    }
    (cwd, pattern.strip_prefix("./").map_or_else(|| pattern.to_owned(), |rest| format!("/{rest}")))
}
