//! What a settings key may do when it stands in a project's own files: one row a key. A project can
//! tighten; what it could use to loosen, to run or to leak needs trust or is ignored there.

use ostler_proto::Json;

/// How far a project's word on a key reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It counts at once: it can only tighten, or changes nothing but looks.
    Always,
    /// It counts at once if its value tightens; other values are ignored.
    IfTightening,
    /// It counts once the project's configuration was made active.
    Active,
    /// It counts only where the user has recorded trust in exactly this configuration.
    Recorded,
    /// It never counts in a project's files.
    Never,
}

/// How much of a project's configuration is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Trust {
    /// Nothing that could act.
    #[default]
    None,
    /// Hooks, environment and the like act, for this run: the host or a flag said so.
    Active,
    /// The user has trusted exactly this configuration.
    Recorded,
}

/// Every key that is known, by its path, with its reach. A row covers the keys below it.
#[rustfmt::skip]
const KEYS: &[(&str, Reach)] = {
    use Reach::{Active, Always, IfTightening, Never, Recorded};
    &[
        ("$schema", Always),
        ("permissions.deny", Always), ("permissions.ask", Always), ("permissions.allow", Recorded),
        ("permissions.defaultMode", IfTightening), ("permissions.additionalDirectories", Never),
        ("permissions.disableBypassPermissionsMode", IfTightening), ("permissions.disableAutoMode", IfTightening),
        ("sandbox.enabled", IfTightening), ("sandbox.failIfUnavailable", IfTightening),
        ("sandbox.autoAllowBashIfSandboxed", IfTightening), ("sandbox.allowUnsandboxedCommands", IfTightening),
        ("sandbox.excludedCommands", Never), ("sandbox.filesystem.allowWrite", Never),
        ("sandbox.filesystem.denyWrite", Always), ("sandbox.filesystem.denyRead", Always),
        ("sandbox.filesystem.allowRead", Never), ("sandbox.filesystem.disabled", Never),
        ("sandbox.network.deniedDomains", Always), ("sandbox.network.allowedDomains", Never),
        ("sandbox.network.strictAllowlist", IfTightening), ("sandbox.network", Never),
        ("sandbox.credentials", Never), ("sandbox.ignoreViolations", Never),
        ("sandbox.enableWeakerNestedSandbox", Never), ("sandbox.enableWeakerNetworkIsolation", Never),
        ("sandbox.bwrapPath", Never), ("sandbox.socatPath", Never), ("sandbox.ripgrep", Never),
        ("hooks", Active), ("disableAllHooks", Never), ("allowedHttpHookUrls", Never),
        ("httpHookAllowedEnvVars", Never), ("allowManagedHooksOnly", Never),
        ("env", Active), ("passEnv", Never),
        ("model", Active), ("models", Never), ("fallbackModel", Active), ("availableModels", Never),
        ("modelOverrides", Never), ("effortLevel", Active), ("alwaysThinkingEnabled", Active),
        ("outputStyle", Active), ("language", Active), ("advisorModel", Active), ("fastMode", Active),
        ("autoMode", Never), ("skipDangerousModePermissionPrompt", Never), ("useAutoModeDuringPlan", Never),
        ("autoCompactEnabled", Active), ("autoCompactWindow", Active), ("autoMemoryEnabled", Active),
        ("autoMemoryDirectory", Never), ("claudeMdExcludes", Active), ("claudeMd", Never),
        ("fileCheckpointingEnabled", Never), ("plansDirectory", Never), ("skillListingBudgetFraction", Active),
        ("skillListingMaxDescChars", Active), ("cleanupPeriodDays", Never),
        ("enableAllProjectMcpServers", Never), ("enabledMcpjsonServers", Never), ("disabledMcpjsonServers", Always),
        ("allowedMcpServers", Never), ("deniedMcpServers", Always), ("allowManagedMcpServersOnly", Never),
        ("enabledPlugins", Recorded), ("extraKnownMarketplaces", Recorded), ("strictKnownMarketplaces", Never),
        ("blockedMarketplaces", Always), ("pluginConfigs", Never), ("skillOverrides", Active),
        ("disableBundledSkills", Active), ("disableSkillShellExecution", IfTightening),
        ("apiKeyHelper", Never), ("awsAuthRefresh", Never), ("awsCredentialExport", Never), ("gcpAuthRefresh", Never),
        ("otelHeadersHelper", Never), ("forceLoginMethod", Never), ("forceLoginOrgUUID", Never),
        ("statusLine", Active), ("subagentStatusLine", Active), ("fileSuggestion", Active), ("theme", Active),
        ("editorMode", Active), ("verbose", Active), ("viewMode", Active), ("tui", Active), ("defaultShell", Never),
        ("respectGitignore", Active), ("askUserQuestionTimeout", Never), ("companyAnnouncements", Active),
        ("preferredNotifChannel", Active), ("attribution", Active), ("includeCoAuthoredBy", Active),
        ("includeGitInstructions", Active), ("prUrlTemplate", Active), ("agent", Active), ("worktree", Active),
        ("teammateMode", Active), ("autoUpdatesChannel", Never), ("minimumVersion", Never),
        ("preferDedicatedTools", Active), ("requireFullRead", IfTightening), ("checkpoints", Never),
        ("webFetch", Never), ("read", Active), ("budget", Always),
        ("session.fsync", IfTightening), ("session.record", Never),
    ]
};

/// Variables a project may not set: they move endpoints, name keys, or make programs load code.
const GUARDED_VARIABLES: &[&str] = &[
    "ANTHROPIC_",
    "OPENAI_",
    "CLAUDE_",
    "OSTLER_",
    "AWS_",
    "GOOGLE_",
    "GCLOUD_",
    "AZURE_",
    "OTEL_",
    "LD_",
    "DYLD_",
    "BASH_",
    "GIT_",
    "NODE_OPTIONS",
    "PYTHONSTARTUP",
    "PERL5OPT",
    "RUBYOPT",
    "PATH",
    "HOME",
    "SHELL",
    "IFS",
    "ENV",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "SSH_",
    "XDG_",
    "JAVA_TOOL_OPTIONS",
    "RUSTC_WRAPPER",
    "CARGO_",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "LESSOPEN",
    "TMPDIR",
    "NPM_CONFIG_",
    "PIP_",
];

/// The rows, for tests and documentation.
pub fn keys() -> &'static [(&'static str, Reach)] {
    KEYS
}

/// Whether any version of this product or its relatives knows the key.
pub fn is_known(key: &str) -> bool {
    KEYS.iter().any(|(row, _)| covers(row, key) || covers(key, row))
}

/// The reach of a key by its path; what nobody knows never counts.
pub fn reach(key: &str) -> Reach {
    KEYS.iter()
        .filter(|(row, _)| covers(row, key))
        .max_by_key(|(row, _)| row.len())
        .map_or(Reach::Never, |row| row.1)
}

fn covers(row: &str, key: &str) -> bool {
    key.strip_prefix(row).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What counts of a project's settings, and the keys that were left out.
pub fn believed(settings: &Json, trust: Trust) -> (Json, Vec<String>) {
    let mut left_out = Vec::new();
    let kept =
        keep(settings, "", trust, &mut left_out).unwrap_or_else(|| Json::Object(serde_json::Map::new()));
    (kept, left_out)
}

/// What trust adds to what counts of a project's settings anyway: each key by its path, with its value.
pub fn added_by_trust(settings: &Json) -> Vec<(String, Json)> {
    let (_, needs_trust) = believed(settings, Trust::None);
    let (trusted, never) = believed(settings, Trust::Recorded);
    let added = needs_trust.into_iter().filter(|key| !never.contains(key));
    added
        .filter_map(|key| {
            let value = trusted.pointer(&format!("/{}", key.replace('.', "/")))?.clone();
            Some((key, value))
        })
        .collect()
}

fn keep(value: &Json, path: &str, trust: Trust, left_out: &mut Vec<String>) -> Option<Json> {
    let has_rows_below = KEYS.iter().any(|(row, _)| *row != path && covers(path, row)) || path.is_empty();
    if let (Json::Object(fields), true) = (value, has_rows_below) {
        let mut kept = serde_json::Map::new();
        for (name, value) in fields {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            if let Some(value) = keep(value, &path, trust, left_out) {
                kept.insert(name.clone(), value);
            }
        }
        return Some(Json::Object(kept));
    }
    let counts = match reach(path) {
        Reach::Always => true,
        Reach::IfTightening => tightens(path, value),
        Reach::Active => trust >= Trust::Active,
        Reach::Recorded => trust >= Trust::Recorded,
        Reach::Never => false,
    };
    if !counts {
        left_out.push(path.to_owned());
        return None;
    }
    match (path, value) {
        ("env", Json::Object(variables)) => {
            let (kept, guarded): (Vec<_>, Vec<_>) = variables.iter().partition(|(name, _)| !is_guarded(name));
            left_out.extend(guarded.iter().map(|(name, _)| format!("env.{name}")));
            Some(Json::Object(kept.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect()))
        }
        (_, value) => Some(value.clone()),
    }
}

fn is_guarded(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    GUARDED_VARIABLES.iter().any(|guarded| {
        name == *guarded
            || (guarded.ends_with('_') && name.starts_with(guarded))
            || name.starts_with(&format!("{guarded}_"))
    })
}

/// Whether this value of the key is on the strict side of what is usual.
fn tightens(key: &str, value: &Json) -> bool {
    match key {
        "permissions.defaultMode" => {
            matches!(value.as_str(), Some("default" | "plan" | "dontAsk" | "manual"))
        }
        "session.fsync" => value == "strict",
        "permissions.disableBypassPermissionsMode" | "permissions.disableAutoMode" => value == "disable",
        "sandbox.autoAllowBashIfSandboxed" | "sandbox.allowUnsandboxedCommands" => {
            value == &Json::Bool(false)
        }
        _ => value == &Json::Bool(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A value that would loosen, leak or run something, for each key.
    fn loosening(key: &str) -> Json {
        match key {
            "permissions.defaultMode" => json!("bypassPermissions"),
            "sandbox.autoAllowBashIfSandboxed" | "sandbox.allowUnsandboxedCommands" => json!(true),
            _ => json!(false),
        }
    }

    fn nested(key: &str, value: Json) -> Json {
        key.rsplit('.').fold(value, |value, name| json!({ name: value }))
    }

    #[test]
    fn no_key_of_an_untrusted_project_loosens() {
        for (key, reach) in keys() {
            let value = match reach {
                Reach::IfTightening => loosening(key),
                Reach::Always | Reach::Active | Reach::Recorded | Reach::Never => json!(["x"]),
            };
            let (kept, left_out) = believed(&nested(key, value.clone()), Trust::None);
            let counts = !left_out.contains(&(*key).to_owned());
            assert_eq!(counts, *reach == Reach::Always, "{key}: {kept}");
            let (_, left_out) = believed(&nested(key, value), Trust::Recorded);
            let ignored = matches!(reach, Reach::Never | Reach::IfTightening);
            assert_eq!(left_out.contains(&(*key).to_owned()), ignored, "{key} with trust");
        }
    }

    #[test]
    fn unknown_keys_and_guarded_variables_never_count() {
        let settings = json!({"toString": 1, "env": {"ANTHROPIC_BASE_URL": "http://x", "http_proxy": "y", "APP": "1", "PATHS": "2"}});
        let (kept, left_out) = believed(&settings, Trust::Recorded);
        assert_eq!(kept, json!({"env": {"APP": "1", "PATHS": "2"}}));
        assert_eq!(left_out, ["toString", "env.ANTHROPIC_BASE_URL", "env.http_proxy"]);
        assert!(is_known("permissions") && is_known("hooks.PreToolUse") && !is_known("permission"));
    }
}
