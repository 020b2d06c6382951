//! What goes to a model and what comes back, in one vocabulary for every API.

use crate::{Block, CallId, Json, Message, ToolCall, ToolSpec};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One request to a model. Cheap to clone: history is shared, never copied.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The API's name of the model.
    pub model: String,
    /// System prompt, in order.
    pub system: Vec<SystemText>,
    /// Tools the model may propose, in a stable order.
    pub tools: Arc<[ToolSpec]>,
    /// The conversation: alternating roles, every call answered in the next message.
    pub messages: Vec<Arc<Message>>,
    /// Upper bound for the answer.
    pub max_output_tokens: u64,
    /// Whether and how the model reasons first.
    pub thinking: Thinking,
    /// How hard the model should try, where it can be told.
    pub effort: Option<Effort>,
}

/// One section of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemText {
    /// The words.
    pub text: String,
    /// Whether everything up to here is worth caching.
    pub cache: bool,
}

/// Reasoning before the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// Whatever the API does by itself.
    #[default]
    Auto,
    /// None.
    Disabled,
    /// The model decides how much.
    Adaptive,
    /// At most this many tokens.
    Budget(u64),
}

/// How hard a model should try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Quick.
    Low,
    /// Ordinary.
    Medium,
    /// Careful.
    High,
    /// Very careful.
    Xhigh,
    /// All it has.
    Max,
}

/// One step of a model's answer. Blocks may be open side by side; `index` tells them apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelEvent {
    /// The answer begins.
    Started {
        /// The API's id of this message.
        message: String,
        /// The model that really answers.
        model: String,
        /// The API's id of the request, for support.
        request: Option<String>,
        /// What is known of the input side so far.
        usage: Usage,
    },
    /// A block begins.
    BlockStarted {
        /// Position in the message.
        index: usize,
        /// Its kind.
        start: BlockStart,
    },
    /// More text.
    TextDelta {
        /// The block.
        index: usize,
        /// The piece.
        text: String,
    },
    /// More reasoning.
    ThinkingDelta {
        /// The block.
        index: usize,
        /// The piece.
        text: String,
    },
    /// More of a reasoning block's signature.
    SignatureDelta {
        /// The block.
        index: usize,
        /// The piece.
        signature: String,
    },
    /// More of a call's input JSON.
    InputDelta {
        /// The block.
        index: usize,
        /// The piece of JSON text, cut anywhere.
        fragment: String,
    },
    /// A block is whole.
    BlockStopped {
        /// The block.
        index: usize,
    },
    /// Tokens used so far; replaces what was known.
    Usage(Usage),
    /// Something arrived that only keeps the connection alive.
    Ping,
    /// The answer is whole.
    Done {
        /// Why it ended.
        stop: StopReason,
    },
}

/// How a block begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockStart {
    /// Text follows.
    Text,
    /// Reasoning follows.
    Thinking,
    /// Input JSON of a call follows.
    ToolUse {
        /// The call's id.
        id: CallId,
        /// The tool's name.
        name: String,
    },
    /// A block with no deltas, kept as it came.
    Opaque(Json),
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It was done.
    EndTurn,
    /// It waits for tool results.
    ToolUse,
    /// It hit the output limit.
    MaxTokens,
    /// It met a stop sequence.
    StopSequence,
    /// A server-side tool pauses; send the same again.
    PauseTurn,
    /// It would not answer.
    Refusal,
    /// The conversation no longer fits.
    #[serde(rename = "model_context_window_exceeded")]
    ContextExceeded,
    /// Something this version does not know.
    #[serde(untagged)]
    Other(String),
}

/// Tokens of one or several requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Input that was neither read from nor written to the cache.
    #[serde(default, rename = "input_tokens")]
    pub input: u64,
    /// Output, reasoning included.
    #[serde(default, rename = "output_tokens")]
    pub output: u64,
    /// Input written to the cache.
    #[serde(default, rename = "cache_creation_input_tokens")]
    pub cache_write: u64,
    /// Input read from the cache.
    #[serde(default, rename = "cache_read_input_tokens")]
    pub cache_read: u64,
}

/// What is known about one model: capabilities as data, so that no code asks for a vendor's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a data table")]
pub struct ModelRow {
    /// The wire it speaks: `anthropic`, `openai-chat`, `openai-responses` or `script`.
    pub api: String,
    /// The API's name, where it differs from the row's.
    pub name: Option<String>,
    /// Where to find it, instead of the API's usual address.
    pub base_url: Option<String>,
    /// The environment variable that holds its key, instead of the API's usual one.
    pub api_key_env: Option<String>,
    /// Tokens that fit into one request, answer included.
    pub context_window: u64,
    /// The longest answer it can give.
    pub max_output_tokens: u64,
    /// List price.
    pub price: Price,
    /// Can it reason, and be told how much.
    pub thinking: bool,
    /// In which words it is told how much.
    pub reasoning: Reasoning,
    /// Does it mark cache breakpoints.
    pub cache_breakpoints: bool,
    /// Can it see pictures.
    pub images: bool,
    /// May it propose several calls at once.
    pub parallel_calls: bool,
}

/// How a model that reasons is told how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reasoning {
    /// By a number of tokens.
    #[default]
    Budget,
    /// It decides itself, guided by the effort asked for; it can be turned off.
    Adaptive,
    /// As adaptive, but it cannot be turned off.
    Always,
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Price {
    /// Plain input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input written to the cache.
    pub cache_write: f64,
    /// Input read from the cache.
    pub cache_read: f64,
}

/// What kind of failure a model API reported, in the words programs know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The key is missing or wrong.
    AuthenticationFailed,
    /// Nothing left to pay with.
    BillingError,
    /// Too many requests.
    RateLimit,
    /// The service is overloaded.
    Overloaded,
    /// The request itself is wrong.
    InvalidRequest,
    /// No such model.
    ModelNotFound,
    /// The service failed.
    ServerError,
    /// The answer hit the output limit.
    MaxOutputTokens,
    /// Anything else.
    Unknown,
}

impl Default for ModelRow {
    fn default() -> Self {
        Self {
            api: "openai-chat".to_owned(),
            name: None,
            base_url: None,
            api_key_env: None,
            context_window: 128_000,
            max_output_tokens: 8_192,
            price: Price::default(),
            thinking: false,
            reasoning: Reasoning::Budget,
            cache_breakpoints: false,
            images: false,
            parallel_calls: true,
        }
    }
}

impl Usage {
    /// Adds another request's tokens.
    pub fn add(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
    }
}

impl Price {
    /// What these tokens cost in US dollars.
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub fn cost(&self, usage: Usage) -> f64 {
        (usage.input as f64 * self.input
            + usage.output as f64 * self.output
            + usage.cache_write as f64 * self.cache_write
            + usage.cache_read as f64 * self.cache_read)
            / 1e6
    }
}

impl BlockStart {
    /// The block this start describes, with nothing in it yet.
    pub fn empty_block(&self) -> Block {
        match self {
            Self::Text => Block::text(""),
            Self::Thinking => Block::Thinking { text: String::new(), signature: String::new() },
            Self::ToolUse { id, name } => Block::ToolUse(ToolCall {
                id: id.clone(),
                name: name.clone(),
                input: serde_json::json!({}),
                problem: None,
            }),
            Self::Opaque(value) => Block::Opaque(value.clone()),
        }
    }
}
