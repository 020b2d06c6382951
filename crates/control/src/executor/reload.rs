//! Settings that change while a session runs: looked at between answers, put in force or left out as a whole.
//! What was granted in the session stays, and so does its mode.

use super::Executor;
use crate::{
    hooks::{Scope, Surroundings},
    permission::{Bypass, Demand, Policy, Sandboxing},
    settings::Changed,
};
use ostler_proto::{HookRecord, Rule, RuleSource};
use std::sync::PoisonError;

/// Asked before every answer; `None` when nothing changed.
pub type Reload = Box<dyn FnMut() -> Option<Reloaded> + Send + Sync>;

/// What changed settings amount to.
pub struct Reloaded {
    /// Which changed.
    pub files: Vec<Changed>,
    /// The policy they make.
    pub policy: Policy,
    /// What each place says about hooks, strongest first.
    pub hooks: Vec<Scope>,
    /// What hooks then find around them.
    pub surroundings: Surroundings,
}

impl Executor {
    /// Looks whether settings changed. What was refused before comes up again with the next change.
    pub fn changed_settings(&mut self) -> Option<Reloaded> {
        let postponed = self.postponed.take();
        let earlier = postponed.as_ref().map(|reloaded| reloaded.files.clone()).unwrap_or_default();
        self.refused.extend(earlier);
        let mut reloaded = self.reload.as_mut().and_then(|reload| reload()).or(postponed)?;
        let again = self.refused.drain(..).filter(|file| !reloaded.files.contains(file)).collect::<Vec<_>>();
        reloaded.files.extend(again);
        Some(reloaded)
    }

    /// Looks at changed settings again before the next answer.
    pub fn postpone(&mut self, reloaded: Reloaded) {
        self.postponed = Some(reloaded);
    }

    /// Leaves changed settings as they were.
    pub fn refuse(&mut self, reloaded: Reloaded) {
        self.refused = reloaded.files;
    }

    /// Puts changed settings in force; gives what the log must keep if other hooks are in force then.
    pub fn take_over(&mut self, reloaded: Reloaded) -> Result<Option<HookRecord>, String> {
        let Reloaded { policy, hooks, surroundings, .. } = reloaded;
        // Hooks first: if they cannot be read, nothing changes.
        let record = match &self.shared.hooks {
            Some(session) => session.renew(&hooks, surroundings)?,
            None => None,
        };
        self.take_over_policy(policy);
        Ok(record)
    }

    /// What was granted in this session, and its mode, stay.
    fn take_over_policy(&self, new: Policy) {
        let mut policy = self.shared.policy.write().unwrap_or_else(PoisonError::into_inner);
        let of_session = |rules: &[Rule]| -> Vec<Rule> {
            rules.iter().filter(|rule| rule.source == RuleSource::Session).cloned().collect()
        };
        let mut rules = new.rules;
        rules.allow.extend(of_session(&policy.rules.allow));
        rules.ask.extend(of_session(&policy.rules.ask));
        rules.deny.extend(of_session(&policy.rules.deny));
        policy.rules = rules;
        if new.bypass == Bypass::Refused {
            policy.refuse_bypass();
        }
        let in_force = new.sandboxing.demand != Demand::Off && policy.sandboxing.in_force;
        policy.sandboxing = Sandboxing { in_force, temp: policy.sandboxing.temp.clone(), ..new.sandboxing };
        tracing::info!("changed settings are in force");
    }
}
