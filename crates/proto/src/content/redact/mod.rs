//! Secrets in text, found by the shapes their issuers gave them and by the places where people put them.
//! What only looks like one (hashes, ids, placeholders, references) stays byte for byte. Never a proof of absence.

mod check;
mod clouds;
mod places;
mod rule;
mod services;

pub use rule::{Before, Check, Rule};

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind};
use regex::bytes::{Regex, RegexBuilder};
use std::{borrow::Cow, ops::Range, sync::OnceLock};

/// All rules; of two that fit one place the earlier names it.
pub const RULES: [&[Rule]; 3] = [clouds::RULES, services::RULES, places::RULES];

/// How far behind its keyword a pattern looks, in bytes. Bounds the work for each place.
const WINDOW: usize = 8192;

/// A text without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted<'a> {
    /// The text; each secret is `[redacted:RULE]`, and no line is lost.
    pub text: Cow<'a, str>,
    /// What was taken out, from left to right.
    pub found: Vec<Finding>,
}

/// One secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static str,
    /// Where it stood, in bytes of the original text.
    pub span: Range<usize>,
}

/// Finds and takes out secrets. Made once and kept: patterns are built when they are first needed.
#[derive(Debug)]
pub struct Redactor {
    keywords: AhoCorasick,
    /// The rule of each keyword.
    owners: Vec<usize>,
    rules: Vec<(&'static Rule, OnceLock<Regex>)>,
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new()
    }
}

impl Redactor {
    /// Prepares all rules.
    #[expect(clippy::expect_used, reason = "the keywords are part of the program, and tests use them all")]
    pub fn new() -> Self {
        let rules: Vec<_> = RULES.into_iter().flatten().map(|rule| (rule, OnceLock::new())).collect();
        let (mut words, mut owners) = (Vec::new(), Vec::new());
        for (owner, (rule, _)) in rules.iter().enumerate() {
            for keyword in rule.keywords {
                words.push(*keyword);
                owners.push(owner);
            }
        }
        let keywords = AhoCorasickBuilder::new()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(words)
            .expect("a few short keywords");
        Self { keywords, owners, rules }
    }

    /// Takes all secrets out of a text.
    pub fn redact<'a>(&self, text: &'a str) -> Redacted<'a> {
        let found = self.find(text);
        if found.is_empty() {
            return Redacted { text: Cow::Borrowed(text), found };
        }
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for Finding { rule, span } in &found {
            out.push_str(&text[done..span.start]);
            out.push_str("[redacted:");
            out.push_str(rule);
            out.push(']');
            let lines = text[span.clone()].matches('\n').count();
            out.extend(std::iter::repeat_n('\n', lines));
            done = span.end;
        }
        out.push_str(&text[done..]);
        Redacted { text: Cow::Owned(out), found }
    }

    /// All secrets of a text, from left to right, without overlap.
    pub fn find(&self, text: &str) -> Vec<Finding> {
        let mut all: Vec<(Range<usize>, usize)> = Vec::new();
        for hit in self.keywords.find_overlapping_iter(text) {
            let owner = self.owners[hit.pattern().as_usize()];
            // Patterns of some rules are found again within what they found.
            let is_known =
                all.iter().rev().take(4).any(|(span, rule)| *rule == owner && span.contains(&hit.start()));
            if !is_known && let Some(span) = self.try_rule(owner, text, hit.start()) {
                all.push((span, owner));
            }
        }
        all.sort_by_key(|(span, owner)| (span.start, *owner));
        let mut found: Vec<(Range<usize>, usize)> = Vec::new();
        for (span, owner) in all {
            match found.last_mut() {
                Some((last, rule)) if span.start < last.end => {
                    last.end = last.end.max(span.end);
                    *rule = owner.min(*rule);
                }
                Some(_) | None => found.push((span, owner)),
            }
        }
        found.into_iter().map(|(span, owner)| Finding { rule: self.rules[owner].0.name, span }).collect()
    }

    /// The secret a rule finds where one of its keywords stands.
    fn try_rule(&self, owner: usize, text: &str, at: usize) -> Option<Range<usize>> {
        let (rule, pattern) = &self.rules[owner];
        if !check::fits_before(rule.before, &text.as_bytes()[..at]) {
            return None;
        }
        let window = &text.as_bytes()[at..text.len().min(at + WINDOW)];
        let captures = pattern.get_or_init(|| build(rule.pattern)).captures(window)?;
        let (group, secret) = (1..captures.len())
            .find_map(|group| Some((group, captures.get(group)?)))
            .or_else(|| Some((0, captures.get(0)?)))?;
        let (start, end) = (at + secret.start(), at + secret.end());
        let end = check::end_of_secret(rule.check, text, start..end, group)?;
        Some(start..end)
    }
}

#[expect(clippy::expect_used, reason = "the patterns are part of the program, and tests use them all")]
fn build(pattern: &str) -> Regex {
    RegexBuilder::new(&format!("^(?:{pattern})")).unicode(false).build().expect("a pattern of the table")
}

#[cfg(test)]
mod tests;
