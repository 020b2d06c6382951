//! The settings file as data. Reading, merging and trust belong to control.

use crate::{Json, Mode, ModelRow};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::{collections::BTreeMap, num::NonZeroU64, path::PathBuf};

/// One settings file, or several merged. Keys of other tools are kept, not refused.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Settings {
    /// Model name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Models to turn to, in this order, when the chosen one is overloaded or not to be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_model: Option<ModelNames>,
    /// What a session may use up, over all its runs.
    #[serde(skip_serializing_if = "Budget::is_empty")]
    pub budget: Budget,
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
    /// Whether the conversation is compacted by itself when it is nearly full; true unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compact_enabled: Option<bool>,
    /// Tokens of context to count on for that, where the model has more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compact_window: Option<NonZeroU64>,
    /// Instructions for every session; heard only from the machine's owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claude_md: Option<String>,
    /// Patterns of absolute paths: files with instructions that are not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claude_md_excludes: Vec<String>,
    /// Whether notes are kept from session to session; true unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_memory_enabled: Option<bool>,
    /// Where notes are kept instead of beside the sessions: `/abs` or `~/x`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_memory_directory: Option<String>,
    /// Whether what calls are about to change is kept for undo; true unless told. Where it cannot be kept the call
    /// does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_checkpointing_enabled: Option<bool>,
    /// How long and how much of it is kept.
    #[serde(skip_serializing_if = "CheckpointLimits::is_empty")]
    pub checkpoints: CheckpointLimits,
    /// How sessions are written.
    #[serde(skip_serializing_if = "SessionWriting::is_empty")]
    pub session: SessionWriting,
    /// Days after which a session that was not touched is removed; 30 unless told, 0 for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup_period_days: Option<u32>,
    /// Keys this version does not use.
    #[serde(flatten)]
    pub other: serde_json::Map<String, Json>,
}

/// One name, several separated by commas, or a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ModelNames {
    /// In one text.
    Text(String),
    /// One by one.
    List(Vec<String>),
}

impl ModelNames {
    /// The names, in order.
    pub fn names(&self) -> Vec<String> {
        let texts = match self {
            Self::Text(text) => std::slice::from_ref(text),
            Self::List(texts) => texts,
        };
        let names = texts.iter().flat_map(|text| text.split(',')).map(|name| name.trim().to_owned());
        names.filter(|name| !name.is_empty()).collect()
    }
}

/// The `budget` key; what is not set has no limit. Of several files the smallest number counts.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// US dollars, over all runs of a session.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "dollars")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub usd: Option<f64>,
    /// Tokens of all kinds, over all runs of a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<NonZeroU64>,
    /// Seconds of work, for each run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<NonZeroU64>,
    /// Tool calls, over all runs of a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<NonZeroU64>,
}

/// With nothing to spend, nothing would run, and nobody means that by a budget.
fn dollars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let dollars = Option::<f64>::deserialize(deserializer)?;
    if dollars.is_some_and(|dollars| !(dollars.is_finite() && dollars > 0.0)) {
        return Err(D::Error::custom("expected a number of dollars above 0"));
    }
    Ok(dollars)
}

impl Budget {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The smaller of each.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let least = |a: Option<NonZeroU64>, b: Option<NonZeroU64>| a.into_iter().chain(b).min();
        Self {
            usd: self.usd.into_iter().chain(other.usd).reduce(f64::min),
            tokens: least(self.tokens, other.tokens),
            seconds: least(self.seconds, other.seconds),
            calls: least(self.calls, other.calls),
        }
    }
}

/// The `session` key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionWriting {
    /// When the disk is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsync: Option<Fsync>,
    /// Whether what comes from models, tools and hooks is recorded beside the transcript, so that `ostler replay`
    /// can run the session again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<bool>,
}

impl SessionWriting {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// When writing a session waits for the disk. Whatever is chosen, the end of the process alone loses nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// At the end of each turn.
    #[default]
    Turn,
    /// Before anybody is told of a line.
    Strict,
    /// Never.
    Off,
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

/// The `checkpoints` key, for each project; what is not set stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointLimits {
    /// Days after which a checkpoint is thrown out; 30 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_days: Option<NonZeroU64>,
    /// Megabytes above which the oldest are thrown out; 2048 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_megabytes: Option<NonZeroU64>,
    /// Checkpoints above which the oldest are thrown out; 1000 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_count: Option<NonZeroU64>,
}

impl CheckpointLimits {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These, and those of a weaker source where nothing is set.
    #[must_use]
    pub fn or(self, weaker: Self) -> Self {
        Self {
            max_days: self.max_days.or(weaker.max_days),
            max_megabytes: self.max_megabytes.or(weaker.max_megabytes),
            max_count: self.max_count.or(weaker.max_count),
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
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "named_mode")]
    pub default_mode: Option<Mode>,
    /// Working directories beside the first.
    pub additional_directories: Vec<PathBuf>,
    /// Keys this version does not use.
    #[serde(flatten)]
    pub other: serde_json::Map<String, Json>,
}

/// A mode by a name that people may use.
fn named_mode<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<Mode>, D::Error> {
    let name = Option::<String>::deserialize(input)?;
    name.map(|name| name.parse().map_err(serde::de::Error::custom)).transpose()
}

impl Settings {
    /// What a settings file looks like, for editors.
    pub fn schema() -> Json {
        let mut schema = schemars::schema_for!(Self).to_value();
        schema["title"] = "Settings of Ostler".into();
        schema
    }
}
