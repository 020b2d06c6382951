//! A model's part written down beforehand: played by the script provider and by the test server.
//! The file is TOML; texts may hold `{{…}}` templates filled from the conversation.

use crate::{Json, Message, Usage};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// A whole script: one turn for each request, in order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// The model's name in answers; the request's own when absent.
    pub model: Option<String>,
    /// The answers.
    #[serde(rename = "turn")]
    pub turns: Vec<Turn>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Turn {
    /// Pieces the request must contain (in its last message), or the turn fails and says so.
    pub expect: Vec<String>,
    /// What is said, in order.
    pub steps: Vec<Step>,
    /// Why the answer stops; by default `tool_use` if a call was made, else `end_turn`.
    pub stop: Option<String>,
    /// Tokens to report; a rough count of what was sent and said when absent.
    pub usage: Option<Usage>,
    /// What the server does to the bytes. A provider in the process has none and refuses it.
    pub wire: Option<Wire>,
}

/// One step of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Step {
    /// Says text.
    Text {
        /// The words; templates are filled.
        text: String,
        /// Spread over this time.
        #[serde(default)]
        over_ms: u64,
        /// In so many pieces; 0 for the player's own choice.
        #[serde(default)]
        pieces: usize,
    },
    /// Reasons.
    Thinking {
        /// The words; templates are filled.
        thinking: String,
    },
    /// Proposes a call.
    Call {
        /// The tool.
        call: String,
        /// Its input; templates in strings are filled.
        #[serde(default)]
        input: Json,
        /// Instead of `input`: the JSON text to send, however wrong.
        #[serde(default)]
        raw: Option<String>,
        /// The call's id; by default `call_<turn>_<n>`, both from 1.
        #[serde(default)]
        id: Option<String>,
        /// Spread over this time.
        #[serde(default)]
        over_ms: u64,
        /// In so many pieces; 0 for the player's own choice.
        #[serde(default)]
        pieces: usize,
    },
    /// Says nothing for a while.
    Pause {
        /// How long.
        pause_ms: u64,
    },
}

/// What the server does to an answer on the wire.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wire {
    /// Wait before the first byte.
    pub delay_ms: u64,
    /// Answer with this status instead of a stream.
    pub status: Option<u16>,
    /// Extra or replaced response headers.
    pub headers: BTreeMap<String, String>,
    /// Send exactly this body instead of the steps.
    pub body: Option<String>,
    /// Write the body in pieces of so many bytes, each flushed; 0 leaves it to the steps.
    pub split: usize,
    /// After so many bytes of the body, do something else.
    pub cut: Option<Cut>,
    /// Start from this turn again for the next request: so often the same answer is given.
    pub repeat: u32,
}

/// How a body ends too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Bytes of the body that are still sent; `after_steps` counts instead when given.
    #[serde(default)]
    pub after_bytes: usize,
    /// Cut after so many whole steps.
    #[serde(default)]
    pub after_steps: Option<usize>,
    /// What happens there.
    pub then: CutKind,
}

/// What happens at a [`Cut`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutKind {
    /// The connection is reset (RST).
    Reset,
    /// The body ends as if it were whole.
    Truncate,
    /// Nothing more comes, the connection stays open.
    Stall,
    /// Bytes that are no event follow, then the rest.
    Garbage,
    /// The API says in the stream that it is overloaded, and the body ends.
    Overload,
}

/// What templates can name.
#[derive(Debug, Clone)]
pub struct Scene<'a> {
    /// The working directory: `{{cwd}}`.
    pub cwd: Option<&'a Path>,
    /// The conversation: `{{prompt}}`, `{{result.N}}` (Nth result of the last message, from 1), `{{result.ID}}`.
    pub messages: &'a [Arc<Message>],
}

impl Scene<'_> {
    /// Fills the templates of one text. An unknown name is left as it stands.
    pub fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            let Some(length) = rest[start..].find("}}") else { break };
            let name = rest[start + 2..start + length].trim();
            filled.push_str(&rest[..start]);
            match self.lookup(name) {
                Some(value) => filled.push_str(&value),
                None => filled.push_str(&rest[start..start + length + 2]),
            }
            rest = &rest[start + length + 2..];
        }
        filled.push_str(rest);
        filled
    }

    /// Fills the templates of every string in a JSON value.
    pub fn fill_json(&self, value: &Json) -> Json {
        match value {
            Json::String(text) => Json::String(self.fill(text)),
            Json::Array(items) => Json::Array(items.iter().map(|item| self.fill_json(item)).collect()),
            Json::Object(fields) => {
                Json::Object(fields.iter().map(|(key, value)| (key.clone(), self.fill_json(value))).collect())
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
        }
    }

    fn lookup(&self, name: &str) -> Option<String> {
        if name == "cwd" {
            return Some(self.cwd?.display().to_string());
        }
        if name == "prompt" {
            return self.prompt();
        }
        let wanted = name.strip_prefix("result.")?;
        if let Ok(position) = wanted.parse::<usize>() {
            let last = self.messages.last()?;
            return results(last).nth(position.checked_sub(1)?).map(crate::ToolResult::text);
        }
        let mut all = self.messages.iter().rev().flat_map(|message| results(message));
        all.find(|result| result.id.as_str() == wanted).map(crate::ToolResult::text)
    }

    fn prompt(&self) -> Option<String> {
        let texts = self.messages.iter().rev().filter(|message| message.role == crate::Role::User);
        texts
            .flat_map(|message| message.content.iter().filter_map(crate::Block::as_text))
            .next()
            .map(str::to_owned)
    }
}

fn results(message: &Message) -> impl Iterator<Item = &crate::ToolResult> {
    message
        .content
        .iter()
        .filter_map(|block| if let crate::Block::ToolResult(result) = block { Some(result) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, ToolResult};
    use serde_json::json;

    #[test]
    fn templates_are_filled_from_the_conversation() {
        let result = |id: &str, text: &str| {
            Block::ToolResult(ToolResult { id: id.into(), content: vec![Block::text(text)], is_error: false })
        };
        let messages = [
            Arc::new(Message::user(vec![Block::text("fix it")])),
            Arc::new(Message::user(vec![result("a", "one"), result("b", "two")])),
        ];
        let scene = Scene { cwd: Some(Path::new("/w")), messages: &messages };
        let filled = scene.fill_json(&json!({"x": ["{{cwd}}/f", "{{ result.2 }}{{result.a}}"], "n": 1}));
        assert_eq!(filled, json!({"x": ["/w/f", "twoone"], "n": 1}));
        assert_eq!(scene.fill("{{prompt}} {{odd}} {{open"), "fix it {{odd}} {{open");
    }
}
