//! The settings file as data. Reading, merging and trust belong to control.

use crate::{Json, Mode, ModelRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, num::NonZeroU64, path::PathBuf};

/// One settings file, or several merged. Keys of other tools are kept, not refused.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Settings {
    /// Model name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Rows that extend or replace the built-in table of models, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelRow>,
    /// What may run.
    pub permissions: Permissions,
    /// Variables for child processes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Hooks by event, as written; control reads them.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub hooks: serde_json::Map<String, Json>,
    /// Whether hooks are off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_all_hooks: Option<bool>,
    /// Addresses that hooks may be posted to; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_http_hook_urls: Option<Vec<String>>,
    /// Variables that may stand in headers of posted hooks; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_hook_allowed_env_vars: Option<Vec<String>>,
    /// Whether only hooks of the machine's owner and of the host count; heard only from the former.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_managed_hooks_only: Option<bool>,
    /// Names of variables that child processes get beside the usual ones; a star at the end is a prefix.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pass_env: Vec<String>,
    /// How commands are confined.
    pub sandbox: Sandbox,
    /// How much a read may show.
    #[serde(skip_serializing_if = "ReadLimits::is_empty")]
    pub read: ReadLimits,
    /// Whether a file must have been read as a whole before it is edited.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub require_full_read: bool,
    /// Keys this version does not use.
    #[serde(flatten)]
    pub other: serde_json::Map<String, Json>,
}

/// The `sandbox` key.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Sandbox {
    /// Whether commands are confined. Unset: where the machine can, and asking as usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether a machine that cannot confine ends the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_if_unavailable: Option<bool>,
    /// Whether a confined command runs without asking; true unless told, once `enabled` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_allow_bash_if_sandboxed: Option<bool>,
    /// Patterns of commands that run outside, on the usual permissions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excluded_commands: Vec<String>,
    /// Whether a command may ask to run outside; true unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_unsandboxed_commands: Option<bool>,
    /// Files.
    pub filesystem: SandboxFiles,
    /// The network.
    pub network: SandboxNetwork,
    /// Keys this version does not use.
    #[serde(flatten)]
    pub other: serde_json::Map<String, Json>,
}

/// The `sandbox.filesystem` key. Paths: `/abs`, `~/x`, or relative to the project.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SandboxFiles {
    /// Trees that may be written beside the working directories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_write: Vec<String>,
    /// Paths that may not be written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_write: Vec<String>,
    /// Paths that may not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_read: Vec<String>,
    /// Keys this version does not use.
    #[serde(flatten)]
    pub other: serde_json::Map<String, Json>,
}

/// The `sandbox.network` key.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SandboxNetwork {
    /// Hosts that may be reached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_domains: Vec<String>,
    /// Hosts that may not, whatever else says so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_domains: Vec<String>,
    /// Keys this version does not use.
    #[serde(flatten)]
    pub other: serde_json::Map<String, Json>,
}

/// The `read` key; what is not set stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadLimits {
    /// Bytes of the largest file that is read without saying which part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<NonZeroU64>,
    /// Tokens of the longest text that is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<NonZeroU64>,
    /// Lines that are shown without saying how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lines: Option<NonZeroU64>,
}

impl ReadLimits {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These, and those of a weaker source where nothing is set.
    #[must_use]
    pub fn or(self, weaker: Self) -> Self {
        Self {
            max_bytes: self.max_bytes.or(weaker.max_bytes),
            max_tokens: self.max_tokens.or(weaker.max_tokens),
            max_lines: self.max_lines.or(weaker.max_lines),
        }
    }
}

/// The `permissions` key.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Permissions {
    /// Rules for calls that run without asking.
    pub allow: Vec<String>,
    /// Rules for calls that always ask.
    pub ask: Vec<String>,
    /// Rules for calls that never run.
    pub deny: Vec<String>,
    /// The mode to start in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<Mode>,
    /// Working directories beside the first.
    pub additional_directories: Vec<PathBuf>,
    /// Keys this version does not use.
    #[serde(flatten)]
    pub other: serde_json::Map<String, Json>,
}

impl Settings {
    /// What a settings file looks like, for editors.
    pub fn schema() -> Json {
        let mut schema = schemars::schema_for!(Self).to_value();
        schema["title"] = "Settings of Ostler".into();
        schema
    }
}
