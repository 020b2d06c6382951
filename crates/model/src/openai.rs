//! What the two wires of `OpenAI` share: how a conversation in typed blocks is cut for them, and how
//! they count and name things.

use crate::{tool_name::ToolNames, wire::count};
use ostler_proto::{Block, Effort, ModelRow, Request, Source, Thinking, ToolResult, Usage};
use serde::{Deserialize, Serialize, Serializer};

/// The longest tool name these APIs take.
pub(crate) const LONGEST_NAME: usize = 64;

/// What a decoder must know of the request.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The model, for answers that do not name theirs.
    pub(crate) model: String,
    pub(crate) names: ToolNames,
    /// How many messages went before: makes ids unique in a conversation where the API gives none.
    turn: usize,
}

impl Asked {
    pub(crate) fn new(request: &Request) -> Self {
        Self {
            model: request.model.clone(),
            names: ToolNames::new(&request.tools, LONGEST_NAME),
            turn: request.messages.len(),
        }
    }

    /// An id for the answer.
    pub(crate) fn message_id(&self) -> String {
        format!("msg_{}", self.turn)
    }

    /// An id for the nth call of this answer.
    pub(crate) fn call_id(&self, nth: usize) -> String {
        format!("call_{}_{nth}", self.turn)
    }
}

/// A user's message as these APIs need it: results go apart, and have no pictures of their own.
pub(crate) struct UserParts<'a> {
    pub(crate) results: Vec<&'a ToolResult>,
    /// Pictures and documents of the results, then everything else.
    pub(crate) rest: Vec<&'a Block>,
}

impl<'a> UserParts<'a> {
    pub(crate) fn of(content: &'a [Block]) -> Self {
        let results: Vec<&ToolResult> = content
            .iter()
            .filter_map(|block| if let Block::ToolResult(result) = block { Some(result) } else { None })
            .collect();
        let hoisted = results.iter().flat_map(|result| &result.content);
        let hoisted = hoisted.filter(|block| matches!(block, Block::Image(_) | Block::Document(_)));
        let others = content.iter().filter(|block| !matches!(block, Block::ToolResult(_)));
        let rest = hoisted.chain(others).collect();
        Self { results, rest }
    }
}

/// A picture's or document's address, with the bytes inside where there is none.
pub(crate) struct DataUrl<'a>(pub(crate) &'a Source);

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Source::Url { url } => serializer.serialize_str(url),
            Source::Base64 { media_type, data } => {
                serializer.collect_str(&format_args!("data:{media_type};base64,{data}"))
            }
        }
    }
}

/// How hard to think, in these APIs' word, for models that can be told.
pub(crate) fn effort(request: &Request, row: &ModelRow) -> Option<Effort> {
    if !row.thinking {
        return None;
    }
    request.effort.or(match request.thinking {
        Thinking::Auto | Thinking::Adaptive => None,
        // Not every model can be told not to think at all.
        Thinking::Disabled | Thinking::Budget(0..4_096) => Some(Effort::Low),
        Thinking::Budget(4_096..16_384) => Some(Effort::Medium),
        Thinking::Budget(_) => Some(Effort::High),
    })
}

/// Token counts under both APIs' names. Some servers give both, so they are not one field.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct UsageFields {
    #[serde(deserialize_with = "count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    prompt_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    completion_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    prompt_tokens_details: Option<InputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    #[serde(deserialize_with = "count")]
    cached_tokens: Option<u64>,
}

impl From<UsageFields> for Usage {
    fn from(fields: UsageFields) -> Self {
        let details = fields.input_tokens_details.or(fields.prompt_tokens_details);
        let cached = details.and_then(|details| details.cached_tokens).unwrap_or(0);
        Self {
            // These APIs count what was read from the cache as input too.
            input: fields.input_tokens.or(fields.prompt_tokens).unwrap_or(0).saturating_sub(cached),
            output: fields.output_tokens.or(fields.completion_tokens).unwrap_or(0),
            cache_write: 0,
            cache_read: cached,
        }
    }
}
