//! The settings file as data. Reading, merging and trust belong to control.

use crate::{Json, Mode, ModelRow};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};

/// One settings file, or several merged. Keys of other tools are kept, not refused.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    /// Keys this version does not use.
    #[serde(flatten)]
    pub other: serde_json::Map<String, Json>,
}

/// The `permissions` key.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
