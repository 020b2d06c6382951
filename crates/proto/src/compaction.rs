//! How a conversation became shorter, as data: what was taken out, and what the model reads in its place.
//! Everything a replay needs stands here, so that it gives the same bytes for ever.

use crate::{Block, CallId, Usage};
use serde::{Deserialize, Serialize};

/// One compaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compaction {
    /// Who wanted it.
    pub trigger: Trigger,
    /// What a summary was to dwell on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub focus: String,
    /// Results that became a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pruned: Vec<Pruned>,
    /// What stands for everything before the kept messages; empty when nothing was summarised.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<Block>,
    /// How many messages at the end stay behind what is carried.
    #[serde(default)]
    pub kept: usize,
    /// Tokens of the context before.
    pub pre_tokens: u64,
    /// Tokens of the context after, as a guess.
    pub post_tokens: u64,
    /// How long it took.
    pub duration_ms: u64,
    /// The model that wrote the summary; empty when none was written.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Tokens that the summary took.
    #[serde(default)]
    pub usage: Usage,
    /// What the summary cost in US dollars.
    #[serde(default)]
    pub cost_usd: f64,
}

/// A result that became a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pruned {
    /// The call it answers.
    pub call: CallId,
    /// What the model reads instead.
    pub text: String,
}

/// Who wanted a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// The user.
    Manual,
    /// Ostler, because the context was nearly full or the model refused it as too long.
    Auto,
}

impl Trigger {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Auto => "auto",
        }
    }
}
