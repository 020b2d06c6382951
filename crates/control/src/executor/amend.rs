//! Changes to the permissions that a hook asks for along with its yes. What loosens must have been offered
//! with the question; what tightens is taken. Bypassing permissions is never set from here.

use super::{ExecEvent, call::Worker};
use ostler_proto::{Json, Keep, Mode, Rule, RuleSource, Suggestion};
use serde::Deserialize;
use std::sync::PoisonError;

/// One change, as the control protocol and hooks word it.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Update {
    AddRules {
        rules: Vec<RuleText>,
        behavior: Behavior,
        #[serde(default)]
        destination: Destination,
    },
    SetMode {
        mode: Mode,
    },
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RuleText {
    tool_name: String,
    rule_content: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Behavior {
    Allow,
    Deny,
    Ask,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Destination {
    UserSettings,
    ProjectSettings,
    LocalSettings,
    #[default]
    #[serde(other)]
    Session,
}

impl Worker {
    /// Makes the changes that may be made; the others are noted and left.
    pub(super) async fn update_permissions(&self, updates: &[Json], offered: &[Suggestion]) {
        for update in updates {
            match Update::deserialize(update) {
                Ok(Update::AddRules { rules, behavior: Behavior::Allow, destination }) => {
                    let rules: Vec<String> = rules.iter().map(RuleText::text).collect();
                    let granted = self.grant(&rules, offered);
                    if let Err(error) = self.shared.memory.keep(granted, destination.keep()).await {
                        tracing::warn!(%error, "a rule holds for this session only");
                    }
                }
                Ok(Update::AddRules {
                    rules, behavior: behavior @ (Behavior::Deny | Behavior::Ask), ..
                }) => {
                    self.tighten(&rules, behavior);
                }
                Ok(Update::SetMode { mode: Mode::BypassPermissions }) => {
                    tracing::warn!("a hook wanted to bypass permissions, which it may not");
                }
                Ok(Update::SetMode { mode }) => match self.policy_mut(|policy| policy.set_mode(mode)) {
                    Ok(()) => self.report(ExecEvent::ModeChanged(mode)).await,
                    Err(problem) => tracing::warn!(problem, "a hook's permission mode was not set"),
                },
                Err(error) => tracing::warn!(%error, "a hook's permission update is not supported"),
            }
        }
    }

    fn tighten(&self, rules: &[RuleText], behavior: Behavior) {
        let mut policy = self.shared.policy.write().unwrap_or_else(PoisonError::into_inner);
        for rule in rules {
            match Rule::parse(&rule.text(), RuleSource::Session) {
                Ok(rule) if behavior == Behavior::Deny => policy.rules.deny.push(rule),
                Ok(rule) => policy.rules.ask.push(rule),
                Err(error) => tracing::warn!(%error, "a rule of a hook cannot be read"),
            }
        }
    }
}

impl RuleText {
    fn text(&self) -> String {
        match &self.rule_content {
            None => self.tool_name.clone(),
            Some(content) => {
                format!("{}({})", self.tool_name, content.replace('(', "\\(").replace(')', "\\)"))
            }
        }
    }
}

impl Destination {
    fn keep(self) -> Keep {
        match self {
            Self::UserSettings => Keep::User,
            Self::ProjectSettings => Keep::Project,
            Self::LocalSettings => Keep::Local,
            Self::Session => Keep::Session,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn updates_are_read_as_they_are_offered() {
        let rule = |content: Option<&str>, tool: &str| {
            let rule = json!({"toolName": tool, "ruleContent": content});
            json!({"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"})
        };
        let offered = [rule(Some("echo (a)"), "Bash"), rule(None, "Read")];
        let texts: Vec<String> = offered
            .iter()
            .map(|update| match Update::deserialize(update).unwrap() {
                Update::AddRules { rules, behavior: Behavior::Allow, destination: Destination::Session } => {
                    rules[0].text()
                }
                other @ (Update::AddRules { .. } | Update::SetMode { .. }) => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(texts, ["Bash(echo \\(a\\))", "Read"]);
        let mode =
            Update::deserialize(&json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"}));
        assert_eq!(mode.unwrap(), Update::SetMode { mode: Mode::AcceptEdits });
        for odd in [json!({"type": "addDirectories"}), json!({}), json!({"type": "setMode", "mode": "yolo"})]
        {
            assert!(Update::deserialize(&odd).is_err(), "{odd}");
        }
    }
}
