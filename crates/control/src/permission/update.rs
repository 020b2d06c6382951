//! Changes to the policy that come with an answer. What the machine's owner and the command line say
//! is not theirs to change.

use super::Policy;
use ostler_proto::{Change, Keep, Rule, RuleSide, RuleSource, Update};
use std::path::PathBuf;

impl Policy {
    /// Makes a change; directories are canonical. Gives why something of it could not be.
    pub(crate) fn update(&mut self, update: &Update) -> Result<(), String> {
        match update {
            Update::Rules { change, side, rules, keep } => self.update_rules(*change, *side, rules, *keep),
            Update::Mode { mode, .. } => self.set_mode(*mode),
            Update::Directories { change, directories, .. } => {
                self.update_directories(*change, directories);
                Ok(())
            }
        }
    }

    fn update_rules(
        &mut self,
        change: Change,
        side: RuleSide,
        texts: &[String],
        keep: Keep,
    ) -> Result<(), String> {
        let parse = |text: &String| Rule::parse(text, RuleSource::Session).map_err(|error| error.0);
        let new: Vec<Rule> = texts.iter().map(parse).collect::<Result<_, _>>()?;
        let rules = match side {
            RuleSide::Allow => &mut self.rules.allow,
            RuleSide::Ask => &mut self.rules.ask,
            RuleSide::Deny => &mut self.rules.deny,
        };
        let names = |rule: &Rule| new.iter().any(|new| new.tool == rule.tool && new.pattern == rule.pattern);
        match change {
            Change::Add => {}
            Change::Replace => rules.retain(|rule| !is_kept_there(rule, keep)),
            Change::Remove => rules.retain(|rule| !(is_kept_there(rule, keep) && names(rule))),
        }
        if change != Change::Remove {
            rules.extend(new);
        }
        Ok(())
    }

    fn update_directories(&mut self, change: Change, directories: &[PathBuf]) {
        let mut others = self.roots.split_off(self.roots.len().min(1));
        match change {
            Change::Add => {}
            Change::Replace => others.clear(),
            Change::Remove => others.retain(|root| !directories.contains(root)),
        }
        if change != Change::Remove {
            others.extend(directories.iter().filter(|new| !self.roots.contains(new)).cloned());
        }
        self.roots.extend(others);
        let mut seen = Vec::new();
        self.roots.retain(|root| {
            !seen.contains(root) && {
                seen.push(root.clone());
                true
            }
        });
    }
}

/// Whether a rule is one of those that are kept there. What was granted in the session may have been
/// kept anywhere.
fn is_kept_there(rule: &Rule, keep: Keep) -> bool {
    match (&rule.source, keep) {
        (RuleSource::Session, _)
        | (RuleSource::Local(_), Keep::Local)
        | (RuleSource::Project(_), Keep::Project)
        | (RuleSource::User(_), Keep::User) => true,
        (
            RuleSource::Local(_)
            | RuleSource::Project(_)
            | RuleSource::User(_)
            | RuleSource::Managed(_)
            | RuleSource::Flag(_),
            _,
        ) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_proto::{Mode, Rules};

    fn policy() -> Policy {
        let rule = |text: &str, source| Rule::parse(text, source).unwrap();
        let deny = vec![
            rule("Bash(a)", RuleSource::Managed("/m".into())),
            rule("Bash(a)", RuleSource::User("/u".into())),
            rule("Bash(b)", RuleSource::Local("/l".into())),
            rule("Bash(c)", RuleSource::Session),
        ];
        Policy { rules: Rules { deny, ..Rules::default() }, roots: vec!["/w".into()], ..Policy::default() }
    }

    #[track_caller]
    fn check(change: Change, rules: &[&str], keep: Keep, expect: &[&str]) {
        let mut policy = policy();
        let rules = rules.iter().map(|text| (*text).to_owned()).collect();
        policy.update(&Update::Rules { change, side: RuleSide::Deny, rules, keep }).unwrap();
        let found: Vec<String> =
            policy.rules.deny.iter().map(|rule| format!("{rule} {}", rule.source)).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn rules_come_and_go_where_they_are_kept() {
        let [managed, user, local, session] = [
            "Bash(a) managed policy /m",
            "Bash(a) user settings /u",
            "Bash(b) local settings /l",
            "Bash(c) this session",
        ];
        check(Change::Add, &["Read"], Keep::Session, &[managed, user, local, session, "Read this session"]);
        check(Change::Remove, &["Bash(a)"], Keep::User, &[managed, local, session]);
        check(Change::Remove, &["Bash(a)"], Keep::Session, &[managed, user, local, session]);
        check(Change::Remove, &["Bash(c)"], Keep::Project, &[managed, user, local]);
        check(Change::Replace, &["Read"], Keep::Local, &[managed, user, "Read this session"]);
        let mut policy = policy();
        let unreadable = vec!["Bash(".to_owned()];
        let update = Update::Rules {
            change: Change::Replace,
            side: RuleSide::Deny,
            rules: unreadable,
            keep: Keep::User,
        };
        assert!(policy.update(&update).is_err());
        assert_eq!(policy.rules.deny.len(), 4, "what cannot be read changes nothing");
    }

    #[test]
    fn the_first_directory_stays() {
        let mut policy = policy();
        for (change, directories, expect) in [
            (Change::Add, vec!["/a", "/b", "/a", "/w"], vec!["/w", "/a", "/b"]),
            (Change::Remove, vec!["/w", "/a"], vec!["/w", "/b"]),
            (Change::Replace, vec!["/c"], vec!["/w", "/c"]),
        ] {
            let directories = directories.into_iter().map(PathBuf::from).collect();
            policy.update(&Update::Directories { change, directories, keep: Keep::Session }).unwrap();
            assert_eq!(policy.roots, expect.into_iter().map(PathBuf::from).collect::<Vec<_>>());
        }
        let bypass = Update::Mode { mode: Mode::BypassPermissions, keep: Keep::Session };
        assert!(policy.update(&bypass).is_err());
    }
}
