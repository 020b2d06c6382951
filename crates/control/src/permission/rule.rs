//! Whether a rule speaks about a call: tool names, command patterns and path patterns.

use super::{Policy, Question, command};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ostler_proto::{Access, PathFact, Rule, RuleSource};
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
    match &question.intent.access {
        Access::Execute { command, .. } => {
            rule.tool == question.tool && command_matches(pattern, command, side)
        }
        Access::Read { paths } => {
            speaks_about_reads(rule, side) && paths_match(rule, pattern, paths, policy, side)
        }
        Access::Write { paths } => {
            let speaks = rule.tool == "Edit" || (rule.tool == "Read" && side == Side::Deny);
            speaks && paths_match(rule, pattern, paths, policy, side)
        }
        Access::Internal | Access::Network { .. } | Access::Mcp { .. } | Access::Agent { .. } => false,
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

fn command_matches(pattern: &str, command: &str, side: Side) -> bool {
    match side {
        Side::Allow => command::is_plain(command.trim()) && pattern_covers(pattern, command.trim()),
        Side::Deny | Side::Ask => command::pieces(command).iter().any(|piece| pattern_covers(pattern, piece)),
    }
}

/// A trailing ` *` or `:*` is a prefix that ends at a word; other stars match any text.
fn pattern_covers(pattern: &str, command: &str) -> bool {
    if let Some(prefix) = pattern.strip_suffix(":*").or_else(|| pattern.strip_suffix(" *")) {
        if !prefix.contains('*') {
            return command.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        }
        return wildcard(prefix, command) || wildcard(&format!("{prefix} *"), command);
    }
    wildcard(pattern, command)
}

/// Matches `*` against any text, everything else literally, in time linear to the product at worst.
fn wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
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
