//! Messages of the API in a line. The quick way reads what we and most others write in one go and gives up
//! on anything else; the thorough way keeps every key of what it does not know, in its order.

use super::read::{Text, parse};
use ostler_proto::{Block, Json, Role, ToolCall, ToolResult, Usage};
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// A message.
pub(super) struct Message {
    pub(super) role: Option<Role>,
    pub(super) id: String,
    pub(super) model: String,
    pub(super) content: Vec<Block>,
    pub(super) usage: Usage,
}

/// A message read the quick way, without its usage.
pub(super) struct Quick(pub(super) Message);

/// A message of which the parts are still to be read.
#[derive(Deserialize)]
pub(super) struct Thorough<'a> {
    role: Option<Role>,
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

impl Thorough<'_> {
    /// Reads the parts.
    pub(super) fn read(&self) -> Result<Message, String> {
        let text =
            |value: &Option<Text>| value.as_ref().map(|Text(text)| text.to_string()).unwrap_or_default();
        Ok(Message {
            role: self.role,
            id: text(&self.id),
            model: text(&self.model),
            content: blocks(self.content.ok_or("a message without content")?)?,
            // What is not known of the cost is no reason to lose the words.
            usage: self.usage.and_then(|usage| parse::<Usage>(usage).ok()).unwrap_or_default(),
        })
    }
}

/// Content in its short form, a string, or as blocks.
fn blocks(content: &RawValue) -> Result<Vec<Block>, String> {
    if content.get().starts_with('"') {
        return Ok(vec![Block::Text(parse(content)?)]);
    }
    let raw: Vec<&RawValue> = parse(content)?;
    raw.into_iter().map(block).collect()
}

fn block(value: &RawValue) -> Result<Block, String> {
    let block = parse(value)?;
    let is_damaged = match &block {
        Block::Opaque(unknown) => is_maimed(unknown),
        Block::Thinking { signature, .. } => signature.is_empty() && !value.get().contains("\"signature\":"),
        Block::Text(_) | Block::Image(_) | Block::Document(_) | Block::ToolUse(_) | Block::ToolResult(_) => {
            false
        }
    };
    if is_damaged { Err("a block lacks what no API does without".to_owned()) } else { Ok(block) }
}

/// Whether a block is not one of a kind we do not know, but one we know that lacks something.
fn is_maimed(block: &Json) -> bool {
    match block.get("type").and_then(Json::as_str) {
        None | Some("tool_use" | "tool_result" | "thinking") => true,
        Some("text") => !block.get("text").is_some_and(Json::is_string),
        Some(_) => false,
    }
}

#[derive(Deserialize)]
struct QuickMessage<'a> {
    role: Option<Role>,
    id: Option<String>,
    model: Option<String>,
    #[serde(borrow)]
    content: Content<'a>,
}

impl<'de> Deserialize<'de> for Quick {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let QuickMessage { role, id, model, content } = QuickMessage::deserialize(deserializer)?;
        let content = content.into_blocks().ok_or_else(|| D::Error::custom("not of the plain shape"))?;
        let (id, model) = (id.unwrap_or_default(), model.unwrap_or_default());
        Ok(Self(Message { role, id, model, content, usage: Usage::default() }))
    }
}

enum Content<'a> {
    Text(String),
    Blocks(Vec<PlainBlock<'a>>),
}

/// A block with no keys but these.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainBlock<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    id: Option<String>,
    name: Option<String>,
    input: Option<Json>,
    tool_use_id: Option<String>,
    #[serde(borrow)]
    content: Option<Content<'a>>,
    is_error: Option<bool>,
}

impl Content<'_> {
    fn into_blocks(self) -> Option<Vec<Block>> {
        match self {
            Self::Text(text) => Some(vec![Block::Text(text)]),
            Self::Blocks(blocks) => blocks.into_iter().map(PlainBlock::into_block).collect(),
        }
    }
}

impl PlainBlock<'_> {
    /// Whether nothing stands beside the text, which would be lost.
    fn is_bare(&self) -> bool {
        let texts = [&self.thinking, &self.signature, &self.id, &self.name, &self.tool_use_id];
        texts.iter().all(|text| text.is_none())
            && self.input.is_none()
            && self.content.is_none()
            && self.is_error.is_none()
    }

    fn into_block(self) -> Option<Block> {
        Some(match self.kind.as_ref() {
            "text" if self.is_bare() => Block::Text(self.text?),
            "thinking" => Block::Thinking { text: self.thinking?, signature: self.signature? },
            "tool_use" => Block::ToolUse(ToolCall {
                id: self.id?.into(),
                name: self.name?,
                input: self.input?,
                problem: None,
            }),
            "tool_result" => Block::ToolResult(ToolResult {
                id: self.tool_use_id?.into(),
                content: self.content.map_or_else(|| Some(Vec::new()), Content::into_blocks)?,
                is_error: self.is_error.unwrap_or(false),
            }),
            _ => return None,
        })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Content<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or blocks")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
                Ok(Content::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut blocks = Vec::new();
                while let Some(block) = seq.next_element()? {
                    blocks.push(block);
                }
                Ok(Content::Blocks(blocks))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}
