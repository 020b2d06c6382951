//! A request as the Chat Completions API wants it: results as messages of their own, pictures
//! only from the user, the conversation last.

use crate::{
    openai::{DataUrl, LONGEST_NAME, UserParts, effort},
    tool_name::wire_name,
    written::{Written, item_bytes},
};
use ostler_proto::{Block, Effort, Json, Message, ModelRow, Request, Role, Source, ToolCall, ToolSpec};
use serde::Serialize;
use std::borrow::Cow;

/// All of a body but the conversation.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    max_completion_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: ToolFunction<'a>,
}

#[derive(Serialize)]
struct ToolFunction<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    parameters: &'a Json,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Turn<'a> {
    System {
        content: String,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: String,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'static str,
    file_data: DataUrl<'a>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: CallFunction<'a>,
}

#[derive(Serialize)]
struct CallFunction<'a> {
    name: Cow<'a, str>,
    arguments: String,
}

/// The body of a request.
pub(in crate::openai_chat) fn encode(request: &Request, row: &ModelRow, written: &mut Written) -> Vec<u8> {
    written.follow(&request.messages, |message, page| {
        for turn in turns(message, row) {
            page.add(&turn, 1);
        }
    });
    let head = Head {
        model: row.name.as_deref().unwrap_or(&request.model),
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_completion_tokens: request.max_output_tokens,
        reasoning_effort: effort(request, row),
        parallel_tool_calls: (!row.parallel_calls && !request.tools.is_empty()).then_some(false),
        tools: request.tools.iter().map(tool).collect(),
    };
    let system = system(request).map(|turn| item_bytes(&turn)).unwrap_or_default();
    written.body(&head, "messages", &system, &[])
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    let function = ToolFunction {
        name: wire_name(&spec.name, LONGEST_NAME),
        description: &spec.description,
        parameters: &spec.schema,
    };
    Tool { r#type: "function", function }
}

fn system(request: &Request) -> Option<Turn<'_>> {
    let texts = request.system.iter().map(|text| text.text.as_str()).filter(|text| !text.trim().is_empty());
    let content = texts.collect::<Vec<_>>().join("\n\n");
    (!content.is_empty()).then_some(Turn::System { content })
}

fn turns<'a>(message: &'a Message, row: &ModelRow) -> Vec<Turn<'a>> {
    match message.role {
        Role::User => user_turns(message, row),
        Role::Assistant => assistant_turn(message).into_iter().collect(),
    }
}

fn user_turns<'a>(message: &'a Message, row: &ModelRow) -> Vec<Turn<'a>> {
    let UserParts { results, rest } = UserParts::of(&message.content);
    let answers = results
        .into_iter()
        .map(|result| Turn::Tool { tool_call_id: result.id.as_str(), content: result.text() });
    let parts: Vec<Part> = rest.into_iter().filter_map(|block| part(block, row)).collect();
    answers.chain(content(parts).map(|content| Turn::User { content })).collect()
}

/// Plain text as a plain string, since simple servers know nothing else.
fn content(parts: Vec<Part<'_>>) -> Option<Content<'_>> {
    let texts: Option<Vec<&str>> =
        parts.iter().map(|part| if let Part::Text { text } = part { Some(*text) } else { None }).collect();
    match texts.as_deref() {
        Some([]) => None,
        Some([text]) => Some(Content::Text(Cow::Borrowed(text))),
        Some(texts) => Some(Content::Text(Cow::Owned(texts.join("\n\n")))),
        None => Some(Content::Parts(parts)),
    }
}

fn part<'a>(block: &'a Block, row: &ModelRow) -> Option<Part<'a>> {
    Some(match block {
        Block::Text(text) if text.is_empty() => return None,
        Block::Text(text) => Part::Text { text },
        Block::Image(_) | Block::Document(_) if !row.images => Part::Text { text: crate::NO_IMAGES },
        Block::Image(source) => Part::ImageUrl { image_url: ImageUrl { url: DataUrl(source) } },
        Block::Document(Source::Url { url }) => Part::Text { text: url },
        Block::Document(source @ Source::Base64 { .. }) => {
            Part::File { file: File { filename: "document.pdf", file_data: DataUrl(source) } }
        }
        // Another API's, or no part of a user's message.
        Block::Thinking { .. } | Block::ToolUse(_) | Block::ToolResult(_) | Block::Opaque(_) => return None,
    })
}

fn assistant_turn(message: &Message) -> Option<Turn<'_>> {
    let texts: Vec<&str> =
        message.content.iter().filter_map(Block::as_text).filter(|text| !text.is_empty()).collect();
    let content = match texts.as_slice() {
        [] => None,
        [text] => Some(Cow::Borrowed(*text)),
        texts => Some(Cow::Owned(texts.concat())),
    };
    let tool_calls: Vec<Call> = message.content.iter().filter_map(Block::as_call).map(call).collect();
    (content.is_some() || !tool_calls.is_empty()).then_some(Turn::Assistant { content, tool_calls })
}

fn call(call: &ToolCall) -> Call<'_> {
    let name = wire_name(&call.name, LONGEST_NAME);
    let function = CallFunction { name, arguments: call.input.to_string() };
    Call { id: call.id.as_str(), r#type: "function", function }
}

#[cfg(test)]
mod tests;
