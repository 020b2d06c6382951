//! Finds, reads and merges settings files. A file that cannot be understood stops the start:
//! a rule that is silently lost would be a permission silently given.
//! What stands in the project counts as far as `scope` lets it.

mod document;
pub(crate) mod managed;
mod merge;
pub mod scope;
mod watch;

pub use document::{change, set};
pub use merge::{Merge, merge};
pub use watch::{Changed, Watch};

use crate::hooks::{self, Scope};
use ostler_proto::{
    Json, Mode, ModelRow, Rule, RuleSource, Rules, Settings,
    decision::Unreadable,
    settings::{Budget, CheckpointLimits, Fsync, ModelNames, ReadLimits, Sandbox},
};
use scope::Trust;
use std::{
    collections::BTreeMap,
    io::ErrorKind,
    num::NonZeroU64,
    path::{Path, PathBuf},
};

/// Where to look.
#[derive(Debug, Clone)]
pub struct Places {
    /// Folders of machine-wide policy, e.g. `/etc/ostler`.
    pub managed: Vec<PathBuf>,
    /// Who owns the machine's policy; root, save in tests.
    pub managed_owner: u32,
    /// The user's folders, the stronger first, e.g. `~/.ostler` and `~/.claude`.
    pub user: Vec<PathBuf>,
    /// The project whose committed settings are read.
    pub project: Option<PathBuf>,
    /// The project whose uncommitted settings are read.
    pub local: Option<PathBuf>,
    /// `--settings`: a file, or JSON itself.
    pub flag: Option<String>,
    /// How much of the project's files is believed.
    pub trust: Trust,
}

/// One file, or the flag, as it counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Where it comes from.
    pub source: RuleSource,
    /// What counts of it.
    pub settings: Json,
    /// Keys that do not count, because it stands in a project.
    pub left_out: Vec<String>,
}

/// Everything that is in force.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InForce {
    /// Model name.
    pub model: Option<String>,
    /// Models to turn to when the chosen one would not answer.
    pub fallback_model: Option<ModelNames>,
    /// What a session may use up: the smallest word on each key.
    pub budget: Budget,
    /// Rows for the table of models.
    pub models: BTreeMap<String, ModelRow>,
    /// Rules, each with its source.
    pub rules: Rules,
    /// The mode to start in.
    pub mode: Option<Mode>,
    /// Working directories beside the first.
    pub directories: Vec<PathBuf>,
    /// Variables for child processes.
    pub env: BTreeMap<String, String>,
    /// What each place says about hooks, strongest first.
    pub hooks: Vec<Scope>,
    /// Variables that child processes get beside the usual ones.
    pub pass_env: Vec<String>,
    /// How commands are confined: the strongest word on each key, lists added up.
    pub sandbox: Sandbox,
    /// Whether nobody may bypass permissions.
    pub bypass_is_off: bool,
    /// Instructions of the machine's owner, each with its file.
    pub owner_words: Vec<(PathBuf, String)>,
    /// Files with instructions that are not read, as patterns of paths.
    pub instruction_excludes: Vec<String>,
    /// Whether notes are kept from session to session.
    pub notes_enabled: Option<bool>,
    /// Where notes are kept, if not beside the sessions.
    pub notes_folder: Option<String>,
    /// What was read, strongest first.
    pub layers: Vec<Layer>,
    /// Keys that only the composition root reads.
    pub other: serde_json::Map<String, ostler_proto::Json>,
    /// How much a read may show.
    pub read: ReadLimits,
    /// Whether any file demands that a file is read as a whole before it is edited.
    pub require_full_read: bool,
    /// Whether the conversation is compacted by itself when it is nearly full.
    pub auto_compact_enabled: Option<bool>,
    /// Tokens of context to count on for that.
    pub auto_compact_window: Option<NonZeroU64>,
    /// Whether what calls are about to change is kept for undo, where somebody says so.
    pub file_checkpointing_enabled: Option<bool>,
    /// How long and how much of it is kept.
    pub checkpoints: CheckpointLimits,
    /// When writing a session waits for the disk.
    pub fsync: Option<Fsync>,
    /// Whether sessions are recorded.
    pub record: Option<bool>,
    /// Days after which a session that was not touched is removed.
    pub cleanup_period_days: Option<u32>,
    /// Files that were read, strongest first.
    pub files: Vec<PathBuf>,
    /// What the user should know: keys that do not count, keys nobody knows.
    pub notices: Vec<String>,
}

/// A settings file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It cannot be read.
    #[error("cannot read settings {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is not what settings look like.
    #[error("settings {place}: {problem}")]
    Wrong {
        /// File, line and column, or the flag.
        place: String,
        /// The key and what is wrong with it.
        problem: String,
    },
}

/// Reads all settings files and merges them: the strongest scalar wins, lists add up.
pub fn load(places: &Places) -> Result<InForce, SettingsError> {
    let mut in_force = InForce::default();
    for folder in &places.managed {
        for path in managed::files(folder, places.managed_owner)? {
            in_force.add_file(&path, RuleSource::Managed(path.clone()), None)?;
        }
    }
    if let Some(flag) = &places.flag {
        in_force.add_flag(flag)?;
    }
    let folders = |project: &PathBuf| [".ostler", ".claude"].map(|name| project.join(name));
    for folder in places.local.iter().flat_map(folders) {
        let path = folder.join("settings.local.json");
        in_force.add_file(&path, RuleSource::Local(path.clone()), Some(places.trust))?;
    }
    for folder in places.project.iter().flat_map(folders) {
        let path = folder.join("settings.json");
        in_force.add_file(&path, RuleSource::Project(path.clone()), Some(places.trust))?;
    }
    for folder in &places.user {
        let path = folder.join("settings.json");
        in_force.add_file(&path, RuleSource::User(path.clone()), None)?;
    }
    Ok(in_force)
}

/// Reads a text as the settings of a file would be read, and keeps nothing of it.
fn check(place: &str, text: &str) -> Result<(), SettingsError> {
    InForce::default().add_text(place, text, RuleSource::Session, None)
}

/// Reads a text as settings would be read, without asking what its keys mean.
pub(crate) fn read_json(text: &str) -> Result<Json, SettingsError> {
    document::parse("the file", text)
}

impl InForce {
    /// Every layer that speaks about a key, strongest first, with what it says.
    pub fn said_about<'a>(&'a self, key: &'a str) -> impl Iterator<Item = (&'a RuleSource, &'a Json)> {
        self.layers.iter().filter_map(move |layer| {
            let value = key.split('.').try_fold(&layer.settings, |value, name| value.get(name))?;
            Some((&layer.source, value))
        })
    }

    /// The value of a key that all files together amount to.
    pub fn value(&self, key: &str) -> Option<Json> {
        let said: Vec<&Json> = self.said_about(key).map(|(_, value)| value).collect();
        merge::merged(key, &said)
    }

    /// Adds a file if it is there. With `trust` it stands in a project, and counts only so far.
    fn add_file(
        &mut self,
        path: &Path,
        source: RuleSource,
        trust: Option<Trust>,
    ) -> Result<(), SettingsError> {
        let Some(text) = document::text(path)? else { return Ok(()) };
        self.files.push(path.to_path_buf());
        self.add_text(&path.display().to_string(), &text, source, trust)
    }

    fn add_flag(&mut self, flag: &str) -> Result<(), SettingsError> {
        let source = RuleSource::Flag("--settings".to_owned());
        if flag.trim_start().starts_with('{') {
            return self.add_text("--settings", flag, source, None);
        }
        let path = Path::new(flag);
        let missing = || SettingsError::Io { path: path.to_path_buf(), error: ErrorKind::NotFound.into() };
        let text = document::text(path)?.ok_or_else(missing)?;
        self.files.push(path.to_path_buf());
        self.add_text(flag, &text, source, None)
    }

    fn add_text(
        &mut self,
        place: &str,
        text: &str,
        source: RuleSource,
        trust: Option<Trust>,
    ) -> Result<(), SettingsError> {
        let json = document::parse(place, text)?;
        self.note_unknown_keys(place, &json);
        // Checked whole, so that a mistake is found before the folder is trusted.
        document::typed(place, text, &json)?;
        let (json, left_out) = match trust {
            Some(trust) => scope::believed(&json, trust),
            None => (json, Vec::new()),
        };
        if !left_out.is_empty() {
            self.notices.push(format!(
                "{place}: not in force, because a project's own word on it needs trust or does not count: {}",
                left_out.join(", ")
            ));
        }
        let settings = document::typed(place, text, &json)?;
        self.add(settings, &source, place).map_err(|problem| document::located(place, text, problem))?;
        self.layers.push(Layer { source, settings: json, left_out });
        Ok(())
    }

    fn note_unknown_keys(&mut self, place: &str, json: &Json) {
        let unknown: Vec<&str> = json
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .filter(|name| !scope::is_known(name))
            .collect();
        if !unknown.is_empty() {
            self.notices.push(format!("{place}: unknown keys: {}", unknown.join(", ")));
        }
    }

    /// Adds what a file says; the error begins with the key.
    fn add(&mut self, settings: Settings, source: &RuleSource, place: &str) -> Result<(), String> {
        if let Some(scope) = Scope::of_settings(source.clone(), &settings) {
            self.notices.extend(hooks::check(&scope)?);
            self.hooks.push(scope);
        }
        let permissions = settings.permissions;
        let rules = |list: &str, texts: Vec<String>| -> Result<Vec<Rule>, String> {
            let wrong = |at, error: Unreadable| format!("key 'permissions.{list}[{at}]': {}", error.0);
            let read = |(at, text): (usize, &String)| {
                Rule::parse(text, source.clone()).map_err(|error| wrong(at, error))
            };
            texts.iter().enumerate().map(read).collect()
        };
        self.rules.deny.extend(rules("deny", permissions.deny)?);
        self.rules.ask.extend(rules("ask", permissions.ask)?);
        self.rules.allow.extend(rules("allow", permissions.allow)?);
        self.model = self.model.take().or(settings.model);
        self.fallback_model = self.fallback_model.take().or(settings.fallback_model);
        self.budget = self.budget.and(settings.budget);
        self.mode = self.mode.or(permissions.default_mode);
        let off = permissions.other.get("disableBypassPermissionsMode");
        self.bypass_is_off |= off.and_then(Json::as_str) == Some("disable");
        self.directories.extend(permissions.additional_directories);
        self.read = self.read.or(settings.read);
        self.require_full_read |= settings.require_full_read;
        self.auto_compact_enabled = self.auto_compact_enabled.or(settings.auto_compact_enabled);
        self.auto_compact_window = self.auto_compact_window.or(settings.auto_compact_window);
        self.file_checkpointing_enabled =
            self.file_checkpointing_enabled.or(settings.file_checkpointing_enabled);
        self.checkpoints = self.checkpoints.or(settings.checkpoints);
        self.fsync = self.fsync.or(settings.session.fsync);
        self.record = self.record.or(settings.session.record);
        self.cleanup_period_days = self.cleanup_period_days.or(settings.cleanup_period_days);
        for (name, row) in settings.models {
            self.models.entry(name).or_insert(row);
        }
        for (name, value) in settings.env {
            self.env.entry(name).or_insert(value);
        }
        self.pass_env.extend(settings.pass_env);
        self.add_sandbox(settings.sandbox);
        match (source, settings.claude_md) {
            (RuleSource::Managed(file), Some(words)) => self.owner_words.push((file.clone(), words)),
            (_, Some(_)) => self.notices.push(format!("{place}: claudeMd counts in managed settings only")),
            (_, None) => {}
        }
        self.instruction_excludes.extend(settings.claude_md_excludes);
        self.notes_enabled = self.notes_enabled.or(settings.auto_memory_enabled);
        self.notes_folder = self.notes_folder.take().or(settings.auto_memory_directory);
        for (name, value) in settings.other {
            self.other.entry(name).or_insert(value);
        }
        Ok(())
    }

    fn add_sandbox(&mut self, more: Sandbox) {
        let sandbox = &mut self.sandbox;
        sandbox.enabled = sandbox.enabled.or(more.enabled);
        sandbox.fail_if_unavailable = sandbox.fail_if_unavailable.or(more.fail_if_unavailable);
        sandbox.auto_allow_bash_if_sandboxed =
            sandbox.auto_allow_bash_if_sandboxed.or(more.auto_allow_bash_if_sandboxed);
        sandbox.allow_unsandboxed_commands =
            sandbox.allow_unsandboxed_commands.or(more.allow_unsandboxed_commands);
        sandbox.excluded_commands.extend(more.excluded_commands);
        sandbox.filesystem.allow_write.extend(more.filesystem.allow_write);
        sandbox.filesystem.deny_write.extend(more.filesystem.deny_write);
        sandbox.filesystem.deny_read.extend(more.filesystem.deny_read);
        sandbox.network.allowed_domains.extend(more.network.allowed_domains);
        sandbox.network.denied_domains.extend(more.network.denied_domains);
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay out files of their own")]
mod tests {
    use super::*;

    struct Fixture(tempfile::TempDir);

    impl Fixture {
        fn new(files: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in files {
                let path = dir.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Self(dir)
        }

        fn load(&self, flag: Option<&str>) -> Result<InForce, SettingsError> {
            let at = |name: &str| self.0.path().join(name);
            load(&Places {
                managed: vec![at("etc")],
                managed_owner: rustix::process::geteuid().as_raw(),
                user: vec![at("ostler"), at("claude")],
                project: Some(at("project")),
                local: Some(at("project")),
                flag: flag.map(str::to_owned),
                trust: Trust::None,
            })
        }
    }

    #[test]
    fn scalars_are_won_by_the_strongest_and_rules_add_up() {
        let fixture = Fixture::new(&[
            (
                "ostler/settings.json",
                r#"{"model": "a", "permissions": {"allow": ["Read"], "defaultMode": "plan"}}"#,
            ),
            (
                "claude/settings.json",
                r#"{"model": "b", "hooks": {"x": 1}, "permissions": {"deny": ["Bash"]}}"#,
            ),
            ("etc/managed-settings.json", r#"{"permissions": {"deny": ["WebFetch"]}}"#),
        ]);
        let found = fixture.load(Some(r#"{"model": "flag"}"#)).unwrap();
        assert_eq!(found.model.as_deref(), Some("flag"));
        assert_eq!(found.mode, Some(Mode::Plan));
        assert_eq!((found.rules.deny.len(), found.rules.allow.len()), (2, 1));
        assert_eq!(found.files.len(), 3);
        assert!(found.notices[0].contains("hooks.x"), "{:?}", found.notices);
    }

    #[test]
    fn hooks_keep_their_source_and_those_of_the_project_wait() {
        let text = r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}"#;
        let files = ["etc/managed-settings.json", "ostler/settings.json", "project/.claude/settings.json"];
        let fixture = Fixture::new(&files.map(|file| (file, text)));
        let found = fixture.load(Some(text)).unwrap();
        let sources: Vec<String> = found.hooks.iter().map(|scope| scope.source.to_string()).collect();
        let starts = ["managed policy", "the flag", "user settings"];
        assert!(sources.iter().zip(starts).all(|(source, start)| source.starts_with(start)), "{sources:?}");
        assert_eq!((sources.len(), found.notices.len()), (3, 1), "{:?}", found.notices);
    }

    #[test]
    fn local_settings_are_stronger_than_the_projects_in_either_folder() {
        let fixture = Fixture::new(&[
            ("project/.ostler/settings.json", r#"{"permissions": {"defaultMode": "plan"}}"#),
            ("project/.claude/settings.local.json", r#"{"permissions": {"defaultMode": "dontAsk"}}"#),
        ]);
        assert_eq!(fixture.load(None).unwrap().mode, Some(Mode::DontAsk));
    }

    #[test]
    fn mistakes_in_rules_and_hooks_are_named_by_line_and_key() {
        let at =
            |text: &str| Fixture::new(&[("ostler/settings.json", text)]).load(None).unwrap_err().to_string();
        let rule = at("{\"permissions\": {\n  \"allow\": [\"Read\",\n    \"Bash(\"]}}");
        assert!(rule.contains("settings.json:3:5: key 'permissions.allow[1]'"), "{rule}");
        let hook = at("{\"hooks\":\n {\"Stop\": [\n  {\"hooks\": [{\"type\": \"command\"}]}]}}");
        assert!(hook.contains("settings.json:3:14: key 'hooks.Stop[0].hooks[0]'"), "{hook}");
    }

    #[test]
    fn limits_are_won_one_by_one_and_a_full_read_by_anyone() {
        let fixture = Fixture::new(&[
            ("ostler/settings.json", r#"{"read": {"maxBytes": 10, "maxLines": 20}}"#),
            ("claude/settings.json", r#"{"read": {"maxLines": 30, "maxTokens": 40}}"#),
            ("project/.ostler/settings.json", r#"{"read": {"maxBytes": 99}, "requireFullRead": true}"#),
        ]);
        let found = fixture.load(Some(r#"{"read": {"maxTokens": 50}}"#)).unwrap();
        let number = std::num::NonZeroU64::new;
        let expected = ReadLimits { max_bytes: number(10), max_tokens: number(50), max_lines: number(20) };
        assert_eq!((found.read, found.require_full_read), (expected, true));
        assert_eq!(found.notices.len(), 1, "a project sets no limits");
    }

    #[test]
    fn a_project_can_only_tighten() {
        let text = r#"{"model": "evil", "env": {"A": "b"}, "models": {"m": {"base_url": "http://evil"}},
            "permissions": {"allow": ["Bash"], "deny": ["Read(.env)"], "defaultMode": "bypassPermissions", "additionalDirectories": ["/"]}}"#;
        let fixture = Fixture::new(&[("project/.claude/settings.json", text)]);
        let found = fixture.load(None).unwrap();
        assert_eq!((found.rules.deny.len(), found.rules.allow.len()), (1, 0));
        assert_eq!((&found.model, found.mode, &found.directories), (&None, None, &vec![]));
        assert!(found.env.is_empty() && found.models.is_empty());
        assert_eq!(found.notices.len(), 1);
        let said: Vec<_> = found.said_about("permissions.deny").collect();
        assert_eq!(said.len(), 1);
        assert_eq!(found.said_about("permissions.allow").count(), 0);
    }

    #[test]
    fn managed_policy_has_drop_ins_and_must_be_the_owners() {
        use std::os::unix::fs::PermissionsExt as _;
        let fixture = Fixture::new(&[
            ("etc/managed-settings.json", r#"{"model": "main", "language": "x"}"#),
            ("etc/managed-settings.d/10-a.json", r#"{"model": "ten"}"#),
            ("etc/managed-settings.d/20-b.json", r#"{"model": "twenty"}"#),
            ("etc/managed-settings.d/note.txt", "no"),
        ]);
        let found = fixture.load(None).unwrap();
        assert_eq!((found.model.as_deref(), found.files.len()), (Some("twenty"), 3));
        let loose = fixture.0.path().join("etc/managed-settings.json");
        std::fs::set_permissions(&loose, std::fs::Permissions::from_mode(0o666)).unwrap();
        let error = fixture.load(None).unwrap_err().to_string();
        assert!(error.contains("managed-settings.json") && error.contains("root"), "{error}");
    }

    #[test]
    fn wrong_files_are_named_with_line_and_key() {
        let check = |text: &str, parts: &[&str]| {
            let error = Fixture::new(&[("ostler/settings.json", text)]).load(None).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{error}");
            }
        };
        check("{\n \"model\": 3}", &["settings.json:2:", "key 'model'", "expected a string"]);
        check("{", &["settings.json:1:"]);
        check(r#"{"permissions": {"deny": ["Bash(x"]}}"#, &["settings.json", "Bash(x", "missing ')'"]);
        check(r#"{"read": {"maxLines": 0}}"#, &["key 'read.maxLines'", "nonzero"]);
        for wrong in ["-1", "0", "0.0", "\"5\""] {
            check(
                &format!("{{\n \"budget\": {{\"usd\": {wrong}}}}}"),
                &["settings.json:2:", "key 'budget.usd'"],
            );
        }
        check(r#"{"budget": {"usd": -1}}"#, &["above 0"]);
        for key in ["tokens", "seconds", "calls"] {
            for wrong in ["0", "-1", "1.5"] {
                let parts = ["settings.json:1:", &format!("key 'budget.{key}'")];
                check(&format!("{{\"budget\": {{\"{key}\": {wrong}}}}}"), &parts);
            }
        }
        check(r#"{"permissions": {"defaultMode": "yolo"}}"#, &["permissions.defaultMode", "yolo"]);
        check(r#"{"disableAllHooks": "yes"}"#, &["key 'disableAllHooks'", "boolean"]);
        let hook = |matcher: &str, fields: &str| {
            format!(r#"{{"hooks": {{"PreToolUse": [{{"matcher": "{matcher}", "hooks": [{{{fields}}}]}}]}}}}"#)
        };
        check(&hook("", r#""type": "command""#), &["hooks.PreToolUse[0].hooks[0]", "'command'"]);
        check(&hook("", r#""command": "x""#), &["hooks.PreToolUse[0].hooks[0]", "`type`"]);
        check(&hook("(", r#""type": "command", "command": "x""#), &["matcher '('"]);
        check(&hook("", r#""type": "command", "command": "x", "timeout": 0"#), &["timeout", "above 0"]);
        check(&hook("", r#""type": "command", "command": "x", "if": "Bash(""#), &["missing ')'"]);
        let missing = Fixture::new(&[]).load(Some("/no/such.json")).unwrap_err().to_string();
        assert!(missing.contains("/no/such.json"), "{missing}");
    }
}
