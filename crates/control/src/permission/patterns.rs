//! Path patterns of rules, compiled together and kept for as long as the rules stay: a decision tries
//! all of them at once. What is kept is held against the rules each time, so that it is never stale.

use super::{Policy, rule::Side};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ostler_proto::{PathFact, Rule, RuleSource, Rules};
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// Compiled patterns of a policy's rules. It is no part of what the policy says.
#[derive(Default)]
pub struct Compiled(Mutex<Option<Arc<Sets>>>);

/// The two words that path patterns stand behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Read,
    Edit,
}

/// Patterns by side and verb, each set compiled when it is first needed.
struct Sets {
    rules: Rules,
    cwd: Option<PathBuf>,
    home: PathBuf,
    together: [OnceLock<PathPatterns>; 6],
    /// Allow rules by themselves: one alone must cover all of a call.
    singles: Mutex<HashMap<usize, Arc<PathPatterns>>>,
}

/// Path patterns of rules on one side, compiled once and tried on many paths.
pub(super) struct PathPatterns {
    by_anchor: Vec<Anchored>,
    /// A pattern that cannot be read must not fall silent on the strict sides.
    covers_all: Option<usize>,
}

struct Anchored {
    anchor: PathBuf,
    matcher: Gitignore,
    /// Each line with the number of its rule.
    lines: Vec<(String, usize)>,
}

impl Verb {
    fn as_str(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::Edit => "Edit",
        }
    }
}

impl Policy {
    /// The rules on one side.
    pub(super) fn rules_on(&self, side: Side) -> &[Rule] {
        match side {
            Side::Deny => &self.rules.deny,
            Side::Ask => &self.rules.ask,
            Side::Allow => &self.rules.allow,
        }
    }

    /// The number of a rule that speaks about one of these spellings.
    pub(super) fn rule_about<'a>(
        &self,
        side: Side,
        verb: Verb,
        spellings: impl IntoIterator<Item = &'a Path>,
    ) -> Option<usize> {
        if !self.rules_on(side).iter().any(|rule| is_about(rule, verb)) {
            return None;
        }
        let sets = self.compiled.sets(self);
        let patterns = sets.of(side, verb, self);
        spellings.into_iter().find_map(|path| patterns.covering(path))
    }

    /// The number of an allow rule that covers every path in every spelling.
    pub(super) fn rule_granting(&self, verb: Verb, paths: &[PathFact]) -> Option<usize> {
        let spellings = || paths.iter().flat_map(PathFact::spellings);
        let candidate = self.rule_about(Side::Allow, verb, spellings().take(1))?;
        let sets = self.compiled.sets(self);
        let grants = |number: &usize| {
            let patterns = sets.single(*number, verb, self);
            patterns.is_some_and(|patterns| spellings().all(|path| patterns.cover(path)))
        };
        if grants(&candidate) {
            return Some(candidate);
        }
        let together = sets.of(Side::Allow, verb, self);
        if !spellings().all(|path| together.cover(path)) {
            return None;
        }
        (0..self.rules.allow.len()).find(grants)
    }
}

fn is_about(rule: &Rule, verb: Verb) -> bool {
    rule.pattern.is_some() && rule.tool == verb.as_str()
}

impl Compiled {
    fn sets(&self, policy: &Policy) -> Arc<Sets> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sets) = kept.as_ref().filter(|sets| sets.are_of(policy)) {
            return Arc::clone(sets);
        }
        let sets = Arc::new(Sets {
            rules: policy.rules.clone(),
            cwd: policy.roots.first().cloned(),
            home: policy.home.clone(),
            together: [const { OnceLock::new() }; 6],
            singles: Mutex::default(),
        });
        *kept = Some(Arc::clone(&sets));
        sets
    }
}

impl Clone for Compiled {
    /// The copy's rules may go their own way.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Compiled {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compiled")
    }
}

impl Sets {
    fn are_of(&self, policy: &Policy) -> bool {
        same_rules(&self.rules.deny, &policy.rules.deny)
            && same_rules(&self.rules.ask, &policy.rules.ask)
            && same_rules(&self.rules.allow, &policy.rules.allow)
            && self.cwd.as_ref().map(|cwd| cwd.as_os_str())
                == policy.roots.first().map(|root| root.as_os_str())
            && self.home.as_os_str() == policy.home.as_os_str()
    }

    fn of(&self, side: Side, verb: Verb, policy: &Policy) -> &PathPatterns {
        let place = match (side, verb) {
            (Side::Deny, Verb::Read) => 0,
            (Side::Deny, Verb::Edit) => 1,
            (Side::Ask, Verb::Read) => 2,
            (Side::Ask, Verb::Edit) => 3,
            (Side::Allow, Verb::Read) => 4,
            (Side::Allow, Verb::Edit) => 5,
        };
        self.together[place].get_or_init(|| {
            let rules = policy.rules_on(side).iter().enumerate().filter(|(_, rule)| is_about(rule, verb));
            let patterns = rules.filter_map(|(number, rule)| Some((number, rule, rule.pattern.as_deref()?)));
            PathPatterns::compile(patterns, policy, side)
        })
    }

    /// The pattern of one allow rule.
    fn single(&self, number: usize, verb: Verb, policy: &Policy) -> Option<Arc<PathPatterns>> {
        let rule = policy.rules.allow.get(number).filter(|rule| is_about(rule, verb))?;
        let pattern = rule.pattern.as_deref()?;
        let mut singles = self.singles.lock().unwrap_or_else(PoisonError::into_inner);
        let compile = || Arc::new(PathPatterns::compile([(number, rule, pattern)], policy, Side::Allow));
        Some(Arc::clone(singles.entry(number).or_insert_with(compile)))
    }
}

fn same_rules(a: &[Rule], b: &[Rule]) -> bool {
    let same = |(a, b): (&Rule, &Rule)| {
        a.tool == b.tool && a.pattern == b.pattern && same_source(&a.source, &b.source)
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

/// As bytes: comparing paths part by part would cost more than trying the patterns.
fn same_source(a: &RuleSource, b: &RuleSource) -> bool {
    use RuleSource::{Flag, Local, Managed, Project, Session, User};
    match (a, b) {
        (Managed(a), Managed(b)) | (Local(a), Local(b)) | (Project(a), Project(b)) | (User(a), User(b)) => {
            a.as_os_str() == b.as_os_str()
        }
        (Flag(a), Flag(b)) => a == b,
        (Session, Session) => true,
        (Managed(_) | Local(_) | Project(_) | User(_) | Flag(_) | Session, _) => false,
    }
}

impl PathPatterns {
    /// Compiles the patterns of these rules, each with a number to find it by.
    pub(super) fn compile<'a>(
        rules: impl IntoIterator<Item = (usize, &'a Rule, &'a str)>,
        policy: &Policy,
        side: Side,
    ) -> Self {
        let mut by_anchor: BTreeMap<PathBuf, Vec<(String, usize)>> = BTreeMap::new();
        for (number, rule, pattern) in rules {
            let (anchor, pattern) = anchored(rule, pattern, policy);
            let spread = side != Side::Allow && !pattern.starts_with('/') && pattern.contains('/');
            let spread = spread.then(|| format!("**/{pattern}"));
            // A negated line covers nothing by itself, and must not take from other rules.
            let all = [Some(pattern), spread].into_iter().flatten().filter(|line| !line.starts_with('!'));
            by_anchor.entry(anchor).or_default().extend(all.map(|line| (line, number)));
        }
        let mut compiled = Self { by_anchor: Vec::new(), covers_all: None };
        for (anchor, lines) in by_anchor {
            compiled.add(anchor, lines, side);
        }
        compiled
    }

    fn add(&mut self, anchor: PathBuf, lines: Vec<(String, usize)>, side: Side) {
        let strict = side != Side::Allow;
        let mut builder = GitignoreBuilder::new(&anchor);
        for (line, number) in &lines {
            if builder.add_line(None, line).is_err() && strict {
                self.covers_all = Some(*number);
            }
        }
        match builder.build() {
            Ok(matcher) => self.by_anchor.push(Anchored { anchor, matcher, lines }),
            Err(_) if strict => self.covers_all = lines.first().map(|(_, number)| *number),
            Err(_) => {}
        }
    }

    /// Whether one of the patterns covers a path.
    pub(super) fn cover(&self, path: &Path) -> bool {
        self.covering(path).is_some()
    }

    /// The number of a rule whose pattern covers a path.
    fn covering(&self, path: &Path) -> Option<usize> {
        let by_line = || {
            self.by_anchor.iter().filter(|part| path.starts_with(&part.anchor)).find_map(|part| {
                match part.matcher.matched_path_or_any_parents(path, false) {
                    ignore::Match::Ignore(glob) => part.number_of(glob.original()),
                    ignore::Match::None | ignore::Match::Whitelist(_) => None,
                }
            })
        };
        self.covers_all.or_else(by_line)
    }
}

impl Anchored {
    /// The rule of a line that matched.
    fn number_of(&self, line: &str) -> Option<usize> {
        let found = self.lines.iter().find(|(text, _)| text == line || text.trim_end() == line);
        // A match whose line cannot be told must not be lost.
        found.or(self.lines.first()).map(|(_, number)| *number)
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
