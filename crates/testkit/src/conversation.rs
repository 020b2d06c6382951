//! Reads a request's JSON, in any of the three protocols, as a conversation of ours.
//! Lenient on purpose: it serves templates and expectations; `history` is the strict reader.

use ostler_proto::{Block, Json, Message, Role, ToolCall, ToolResult};
use serde::Deserialize as _;
use serde_json::json;
use std::sync::Arc;

/// A model API, told by the path of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Anthropic Messages.
    Anthropic,
    /// `OpenAI` Chat Completions.
    Chat,
    /// `OpenAI` Responses.
    Responses,
}

impl Protocol {
    /// The API behind a path. A query and a gateway's prefix do not matter.
    pub fn of_path(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        [("/messages", Self::Anthropic), ("/chat/completions", Self::Chat), ("/responses", Self::Responses)]
            .into_iter()
            .find(|(suffix, _)| path.ends_with(suffix))
            .map(|(_, protocol)| protocol)
    }

    /// The API a request body is written for, as far as it shows.
    pub fn of_body(body: &Json) -> Self {
        let any = |key: &str, test: &dyn Fn(&Json) -> bool| items(&body[key]).iter().any(test);
        let chat_role = |message: &Json| matches!(role(message), "system" | "developer" | "tool");
        if body.get("input").is_some() {
            Self::Responses
        } else if any("messages", &|message| chat_role(message) || message.get("tool_calls").is_some())
            || any("tools", &|tool| tool.get("function").is_some())
            || body.get("stream_options").is_some()
        {
            Self::Chat
        } else {
            Self::Anthropic
        }
    }
}

/// The conversation a request carries, neighbours of one role merged.
pub(crate) fn messages(protocol: Protocol, body: &Json) -> Vec<Arc<Message>> {
    let spoken: Vec<(Role, Vec<Block>)> = match protocol {
        Protocol::Anthropic => items(&body["messages"]).iter().filter_map(anthropic_message).collect(),
        Protocol::Chat => items(&body["messages"]).iter().filter_map(chat_message).collect(),
        Protocol::Responses => match &body["input"] {
            Json::String(text) => vec![(Role::User, vec![Block::text(text)])],
            input => items(input).iter().filter_map(responses_item).collect(),
        },
    };
    let mut messages: Vec<Message> = Vec::new();
    for (role, content) in spoken {
        match messages.last_mut() {
            Some(last) if last.role == role => last.content.extend(content),
            _ => messages.push(Message { role, content }),
        }
    }
    messages.into_iter().map(Arc::new).collect()
}

/// Everything readable in the last message.
pub(crate) fn last_words(messages: &[Arc<Message>]) -> String {
    let blocks = messages.last().map(|message| message.content.as_slice()).unwrap_or_default();
    let words: Vec<String> = blocks.iter().map(words).collect();
    words.join("\n")
}

/// The value without any cache marks.
pub(crate) fn without_cache_marks(value: &Json) -> Json {
    match value {
        Json::Array(items) => items.iter().map(without_cache_marks).collect(),
        Json::Object(fields) => Json::Object(
            fields
                .iter()
                .filter(|(key, _)| *key != "cache_control")
                .map(|(key, value)| (key.clone(), without_cache_marks(value)))
                .collect(),
        ),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => value.clone(),
    }
}

/// The elements of an array; none of anything else.
pub(crate) fn items(value: &Json) -> &[Json] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A string field; empty when it is missing.
pub(crate) fn text_of<'a>(value: &'a Json, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Who speaks in a message of any protocol.
pub(crate) fn role(message: &Json) -> &str {
    text_of(message, "role")
}

fn words(block: &Block) -> String {
    match block {
        Block::Text(text) | Block::Thinking { text, .. } => text.clone(),
        Block::ToolUse(call) => format!("{} {}", call.name, call.input),
        Block::ToolResult(result) => result.text(),
        Block::Image(_) | Block::Document(_) => String::new(),
        Block::Opaque(value) => value.to_string(),
    }
}

fn anthropic_message(message: &Json) -> Option<(Role, Vec<Block>)> {
    let content = match without_cache_marks(&message["content"]) {
        Json::String(text) => vec![Block::text(text)],
        blocks => items(&blocks).iter().filter_map(|block| Block::deserialize(block).ok()).collect(),
    };
    Some((Role::deserialize(&message["role"]).ok()?, content))
}

fn chat_message(message: &Json) -> Option<(Role, Vec<Block>)> {
    let content = parts(&message["content"]);
    Some(match role(message) {
        "user" => (Role::User, content),
        "tool" => (Role::User, vec![result(text_of(message, "tool_call_id"), content)]),
        "assistant" => {
            let calls = items(&message["tool_calls"]).iter().map(|call| {
                let function = &call["function"];
                use_of(text_of(call, "id"), text_of(function, "name"), text_of(function, "arguments"))
            });
            (Role::Assistant, content.into_iter().chain(calls).collect())
        }
        _ => return None,
    })
}

fn responses_item(item: &Json) -> Option<(Role, Vec<Block>)> {
    let call_id = text_of(item, "call_id");
    Some(match item["type"].as_str().unwrap_or("message") {
        "message" => (Role::deserialize(&item["role"]).ok()?, parts(&item["content"])),
        "function_call" => {
            let call = use_of(call_id, text_of(item, "name"), text_of(item, "arguments"));
            (Role::Assistant, vec![call])
        }
        "function_call_output" => (Role::User, vec![result(call_id, parts(&item["output"]))]),
        _ => (Role::Assistant, vec![Block::Opaque(item.clone())]),
    })
}

fn parts(content: &Json) -> Vec<Block> {
    match content {
        Json::String(text) => vec![Block::text(text)],
        parts => items(parts)
            .iter()
            .map(|part| match part["text"].as_str() {
                Some(text) => Block::text(text),
                None => Block::Opaque(part.clone()),
            })
            .collect(),
    }
}

fn use_of(id: &str, name: &str, arguments: &str) -> Block {
    let input = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
    Block::ToolUse(ToolCall { id: id.into(), name: name.to_owned(), input, problem: None })
}

fn result(id: &str, content: Vec<Block>) -> Block {
    Block::ToolResult(ToolResult { id: id.into(), content, is_error: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_proto::script::Scene;

    #[track_caller]
    fn check(protocol: Protocol, body: &Json) {
        let messages = messages(protocol, body);
        let scene = Scene { cwd: None, messages: &messages };
        assert_eq!(scene.fill("{{prompt}} {{result.1}} {{result.b}}"), "go one two", "{protocol:?}");
        assert_eq!(last_words(&messages), "one\ntwo", "{protocol:?}");
        assert_eq!(Protocol::of_body(body), protocol);
    }

    #[test]
    fn prompts_and_results_are_found_in_every_protocol() {
        check(
            Protocol::Anthropic,
            &json!({"messages": [
                {"role": "user", "content": [{"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "X", "input": {}},
                    {"type": "tool_use", "id": "b", "name": "X", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "one"},
                    {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "two"}]}]},
            ]}),
        );
        check(
            Protocol::Chat,
            &json!({"messages": [
                {"role": "system", "content": "be good"},
                {"role": "user", "content": [{"type": "text", "text": "go"}]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "X", "arguments": "{}"}},
                    {"id": "b", "type": "function", "function": {"name": "X", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "a", "content": "one"},
                {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "two"}]},
            ]}),
        );
        check(
            Protocol::Responses,
            &json!({"input": [
                {"role": "developer", "content": "be good"},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
                {"type": "function_call", "call_id": "a", "name": "X", "arguments": "{}"},
                {"type": "function_call", "call_id": "b", "name": "X", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": "one"},
                {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "two"}]},
            ]}),
        );
    }

    #[test]
    fn paths_choose_the_protocol() {
        assert_eq!(Protocol::of_path("/v1/messages?beta=true"), Some(Protocol::Anthropic));
        assert_eq!(Protocol::of_path("/chat/completions"), Some(Protocol::Chat));
        assert_eq!(Protocol::of_path("/gateway/v1/responses"), Some(Protocol::Responses));
        assert_eq!(Protocol::of_path("/v1/messages/count_tokens"), None);
    }
}
