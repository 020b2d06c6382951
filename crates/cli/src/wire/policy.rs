//! What the judge of one session starts from: mode, rules, working directories and the sandbox.

use super::session::Session;
use crate::{args::split_list, complain};
use anyhow::{Context, bail};
use ostler_control::{
    Policy,
    permission::{Bypass, Demand, Sandboxing},
};
use ostler_engine::session::State;
use ostler_proto::{Json, Mode, Rule, RuleSource, Rules, SessionId};
use std::path::{Path, PathBuf};

impl Session<'_> {
    pub(super) fn policy(&self, mode: Mode, roots: Vec<PathBuf>) -> anyhow::Result<Policy> {
        let usual = self.in_force.mode.filter(|usual| *usual != Mode::BypassPermissions);
        Ok(Policy {
            mode,
            rules: self.rules()?,
            home: self.machine.home.clone(),
            sandboxing: self.sandboxing(),
            before_plan: usual.unwrap_or_default(),
            bypass: self.bypass(),
            roots,
            ..Policy::default()
        })
    }

    /// Whether permissions may be bypassed, at the start or later.
    pub(super) fn bypass(&self) -> Bypass {
        let args = self.args;
        let asked = args.dangerously_skip_permissions
            || args.allow_dangerously_skip_permissions
            || args.permission_mode.or(self.in_force.mode) == Some(Mode::BypassPermissions);
        if asked && !self.in_force.bypass_is_off && !self.is_plain_root() {
            Bypass::Possible
        } else {
            Bypass::Refused
        }
    }

    /// Root outside a sandbox.
    fn is_plain_root(&self) -> bool {
        rustix::process::geteuid().is_root() && self.machine.var("IS_SANDBOX").as_deref() != Some("1")
    }

    /// Where the session's plan is kept: below the folder that settings name, or beside the user's settings.
    pub(super) fn plan_file(&self, id: &SessionId) -> Option<PathBuf> {
        if self.args.no_session_persistence {
            return None;
        }
        let named = self.in_force.other.get("plansDirectory").and_then(Json::as_str);
        let folder = match named {
            None => self.machine.config_dir().join("plans"),
            Some(text) => match text.strip_prefix("~/") {
                Some(below) => self.machine.home.join(below),
                None => self.machine.cwd.join(text),
            },
        };
        Some(really(&folder).join(format!("{id}.md")))
    }

    pub(super) fn sandboxing(&self) -> Sandboxing {
        let sandbox = &self.in_force.sandbox;
        let path = |text: &String| match text.strip_prefix("~/") {
            Some(below) => self.machine.home.join(below),
            None => self.machine.cwd.join(text),
        };
        let paths = |texts: &[String]| texts.iter().map(path).collect::<Vec<_>>();
        Sandboxing {
            demand: match (sandbox.enabled, sandbox.fail_if_unavailable) {
                (Some(false), _) => Demand::Off,
                (Some(true), Some(true)) => Demand::Required,
                (Some(true) | None, _) => Demand::Wanted,
            },
            in_force: false,
            auto_allow: sandbox.enabled == Some(true) && sandbox.auto_allow_bash_if_sandboxed != Some(false),
            excluded: sandbox.excluded_commands.clone(),
            may_leave: sandbox.allow_unsandboxed_commands != Some(false),
            writable: paths(&sandbox.filesystem.allow_write),
            frozen: paths(&sandbox.filesystem.deny_write),
            hidden: paths(&sandbox.filesystem.deny_read),
            hosts: sandbox.network.allowed_domains.clone(),
            denied_hosts: sandbox.network.denied_domains.clone(),
            temp: None,
        }
    }

    /// A resumed shell stands where it stood, if that is still one of ours.
    pub(super) fn shell_folder(&self, state: &State, roots: &[PathBuf]) -> PathBuf {
        let ours = |cwd: &&PathBuf| cwd.is_dir() && roots.iter().any(|root| cwd.starts_with(root));
        state.cwd.as_ref().filter(ours).unwrap_or(&self.machine.cwd).clone()
    }

    pub(super) fn roots(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut roots = vec![self.machine.cwd.clone()];
        for dir in self.args.add_dir.iter().chain(&self.in_force.directories) {
            let path = self.machine.cwd.join(dir);
            let path = path
                .canonicalize()
                .with_context(|| format!("--add-dir: {} does not exist", dir.display()))?;
            roots.push(path);
        }
        Ok(roots)
    }

    pub(super) fn mode(&self, state: &State) -> anyhow::Result<Mode> {
        // Plan and bypass are never taken over from an earlier process.
        let earlier = state.mode.filter(|mode| !matches!(mode, Mode::Plan | Mode::BypassPermissions));
        let asked = if self.args.dangerously_skip_permissions {
            Some(Mode::BypassPermissions)
        } else {
            self.args.permission_mode
        };
        let mode = asked.or(earlier).or(self.in_force.mode).unwrap_or_default();
        if mode == Mode::BypassPermissions && self.in_force.bypass_is_off {
            complain("ostler: settings forbid bypassing permissions; going on in mode default\n");
            return Ok(Mode::Default);
        }
        if mode == Mode::BypassPermissions && self.is_plain_root() {
            bail!(
                "permissions cannot be bypassed as root; use another user, or set IS_SANDBOX=1 inside a sandbox"
            );
        }
        Ok(mode)
    }

    pub(super) fn rules(&self) -> anyhow::Result<Rules> {
        let mut rules = self.in_force.rules.clone();
        let flag = |name: &str| RuleSource::Flag(name.to_owned());
        for text in split_list(&self.args.allowed_tools) {
            rules.allow.push(Rule::parse(&text, flag("--allowedTools"))?);
        }
        for text in split_list(&self.args.disallowed_tools) {
            rules.deny.push(Rule::parse(&text, flag("--disallowedTools"))?);
        }
        Ok(rules)
    }
}

/// The folder as it really lies, as far as it exists.
fn really(folder: &Path) -> PathBuf {
    let existing = folder.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)));
    existing.map_or_else(
        || folder.to_owned(),
        |(part, real)| real.join(folder.strip_prefix(part).unwrap_or(Path::new(""))),
    )
}
