//! What a conversation is made of: typed blocks in messages.
//! The JSON form is the Messages API's, so transcripts, frames and one of the wires share it;
//! a block of an unknown type survives a round trip untouched.

use crate::{CallId, Json};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::json;

/// Who speaks in a [`Message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person, or a tool answering on their machine.
    User,
    /// The model.
    Assistant,
}

/// One message of the conversation as a model API sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<Block>,
}

/// One typed piece of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Plain text.
    Text(String),
    /// The model's reasoning. The signature must go back unmodified; empty when the API has none.
    Thinking {
        /// Readable reasoning, possibly a summary.
        text: String,
        /// Opaque proof of origin.
        signature: String,
    },
    /// A picture.
    Image(Source),
    /// A document such as a PDF.
    Document(Source),
    /// The model proposes to use a tool.
    ToolUse(ToolCall),
    /// What a tool answered.
    ToolResult(ToolResult),
    /// Anything this version does not know; kept as it came.
    Opaque(Json),
}

/// Where the bytes of an image or document are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Source {
    /// Inline bytes.
    Base64 {
        /// MIME type, e.g. `image/png`.
        media_type: String,
        /// The bytes in base64.
        data: String,
    },
    /// An address the model API fetches itself.
    Url {
        /// The address.
        url: String,
    },
}

/// One proposed tool use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's name for this use; its result carries the same.
    pub id: CallId,
    /// Tool name as the model wrote it.
    pub name: String,
    /// Always a JSON object; empty when the model's text was not one (see `problem`).
    pub input: Json,
    /// Why the input could not be read. Such a call never runs: the problem is its result.
    #[serde(skip)]
    pub problem: Option<String>,
}

/// The answer to one [`ToolCall`].
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// The call this answers.
    pub id: CallId,
    /// Text, images and documents for the model.
    pub content: Vec<Block>,
    /// Whether the call failed, was denied or was cancelled.
    pub is_error: bool,
}

impl Message {
    /// A message of the user's.
    pub fn user(content: Vec<Block>) -> Self {
        Self { role: Role::User, content }
    }

    /// A message of the model's.
    pub fn assistant(content: Vec<Block>) -> Self {
        Self { role: Role::Assistant, content }
    }
}

impl Block {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The call of a tool-use block.
    pub fn as_call(&self) -> Option<&ToolCall> {
        if let Self::ToolUse(call) = self { Some(call) } else { None }
    }
}

impl ToolResult {
    /// The readable part: all text blocks joined by newlines.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(Block::as_text).collect();
        texts.join("\n")
    }

    fn to_json(&self) -> Json {
        // The short form, a plain string, is what public transcript readers see most.
        let content = match self.content.as_slice() {
            [Block::Text(text)] => json!(text),
            blocks => json!(blocks),
        };
        json!({"type": "tool_result", "tool_use_id": self.id, "content": content, "is_error": self.is_error})
    }

    fn from_json(value: &Json) -> Option<Self> {
        let content = match value.get("content") {
            None | Some(Json::Null) => Vec::new(),
            Some(Json::String(text)) => vec![Block::text(text.clone())],
            Some(blocks) => Vec::<Block>::deserialize(blocks).ok()?,
        };
        Some(Self {
            id: CallId(value.get("tool_use_id")?.as_str()?.to_owned()),
            content,
            is_error: value.get("is_error").and_then(Json::as_bool).unwrap_or(false),
        })
    }
}

impl Serialize for ToolResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Json::deserialize(deserializer)?;
        Self::from_json(&value).ok_or_else(|| D::Error::custom("not a tool result"))
    }
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::Thinking { text, signature } => {
                json!({"type": "thinking", "thinking": text, "signature": signature})
            }
            Self::Image(source) => json!({"type": "image", "source": source}),
            Self::Document(source) => json!({"type": "document", "source": source}),
            Self::ToolUse(call) => {
                json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input})
            }
            Self::ToolResult(result) => result.to_json(),
            Self::Opaque(value) => return value.serialize(serializer),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Json::deserialize(deserializer)?;
        if !value.is_object() {
            return Err(D::Error::custom("a content block must be an object"));
        }
        Ok(known_block(&value).unwrap_or(Self::Opaque(value)))
    }
}

fn known_block(value: &Json) -> Option<Block> {
    let text = |key: &str| value.get(key).and_then(Json::as_str).map(str::to_owned);
    Some(match value.get("type")?.as_str()? {
        // Extra keys (citations, cache marks) make a block opaque rather than losing them.
        "text" if value.as_object()?.len() == 2 => Block::Text(text("text")?),
        "thinking" => {
            Block::Thinking { text: text("thinking")?, signature: text("signature").unwrap_or_default() }
        }
        "image" => Block::Image(Source::deserialize(value.get("source")?).ok()?),
        "document" if value.as_object()?.len() == 2 => {
            Block::Document(Source::deserialize(value.get("source")?).ok()?)
        }
        "tool_use" => Block::ToolUse(ToolCall {
            id: CallId(text("id")?),
            name: text("name")?,
            input: value.get("input").cloned().unwrap_or_else(|| json!({})),
            problem: None,
        }),
        "tool_result" => Block::ToolResult(ToolResult::from_json(value)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_round_trip(value: &Json) {
        let block = Block::deserialize(value).unwrap();
        assert_eq!(&serde_json::to_value(&block).unwrap(), value);
    }

    #[test]
    fn blocks_round_trip_in_messages_api_shape() {
        check_round_trip(&json!({"type": "text", "text": "hi"}));
        check_round_trip(&json!({"type": "thinking", "thinking": "t", "signature": "s"}));
        check_round_trip(&json!({"type": "tool_use", "id": "c", "name": "Read", "input": {"b": 1, "a": 2}}));
        check_round_trip(
            &json!({"type": "tool_result", "tool_use_id": "c", "content": "x", "is_error": true}),
        );
        check_round_trip(&json!({"type": "image", "source": {"type": "url", "url": "u"}}));
        check_round_trip(&json!({"type": "redacted_thinking", "data": "zzz"}));
        check_round_trip(&json!({"type": "text", "text": "hi", "citations": []}));
        check_round_trip(&json!({"type": "tool_use", "odd": true}));
    }

    #[test]
    fn a_tool_result_without_content_is_empty() {
        let block = Block::deserialize(&json!({"type": "tool_result", "tool_use_id": "c"})).unwrap();
        let expected = ToolResult { id: "c".into(), content: vec![], is_error: false };
        assert_eq!(block, Block::ToolResult(expected));
    }
}
