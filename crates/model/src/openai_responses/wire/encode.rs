//! A request as the Responses API wants it: the conversation as a flat list of items, last.
//! Nothing is stored on the server, so its own reasoning items go back as they came.

use crate::{
    openai::{DataUrl, LONGEST_NAME, UserParts, effort},
    tool_name::wire_name,
    written::Written,
};
use ostler_proto::{Block, Effort, Json, Message, ModelRow, Request, Role, Source, Thinking, ToolSpec};
use serde::Serialize;
use std::borrow::Cow;

/// All of a body but the conversation.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<ReasoningField>,
    max_output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "String::is_empty")]
    instructions: String,
}

#[derive(Serialize)]
struct ReasoningField {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: Cow<'a, str>,
    description: &'a str,
    parameters: &'a Json,
    strict: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: Role,
        content: Vec<Part<'a>>,
    },
    FunctionCall {
        call_id: &'a str,
        name: Cow<'a, str>,
        arguments: String,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: String,
    },
    #[serde(untagged)]
    Opaque(&'a Json),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: &'a str },
    OutputText { text: &'a str },
    InputImage { image_url: DataUrl<'a> },
    InputFile(File<'a>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum File<'a> {
    Inside { filename: &'static str, file_data: DataUrl<'a> },
    Elsewhere { file_url: &'a str },
}

/// The body of a request.
pub(in crate::openai_responses) fn encode(
    request: &Request,
    row: &ModelRow,
    written: &mut Written,
) -> Vec<u8> {
    written.follow(&request.messages, |message, page| {
        let items = match message.role {
            Role::User => user_items(message, row),
            Role::Assistant => assistant_items(message, row),
        };
        for item in items {
            page.add(&item, 1);
        }
    });
    let texts = request.system.iter().map(|text| text.text.as_str()).filter(|text| !text.trim().is_empty());
    let head = Head {
        model: row.name.as_deref().unwrap_or(&request.model),
        stream: true,
        store: false,
        include: row.thinking.then_some(["reasoning.encrypted_content"]),
        reasoning: row.thinking.then(|| ReasoningField {
            effort: effort(request, row),
            summary: (request.thinking != Thinking::Disabled).then_some("auto"),
        }),
        max_output_tokens: request.max_output_tokens,
        parallel_tool_calls: (!row.parallel_calls && !request.tools.is_empty()).then_some(false),
        tools: request.tools.iter().map(tool).collect(),
        instructions: texts.collect::<Vec<_>>().join("\n\n"),
    };
    written.body(&head, "input", &[], &[])
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    Tool {
        r#type: "function",
        name: wire_name(&spec.name, LONGEST_NAME),
        description: &spec.description,
        parameters: &spec.schema,
        // Strict schemas may not have optional fields; ours do.
        strict: false,
    }
}

fn user_items<'a>(message: &'a Message, row: &ModelRow) -> Vec<Item<'a>> {
    let UserParts { results, rest } = UserParts::of(&message.content);
    let outputs = results
        .into_iter()
        .map(|result| Item::FunctionCallOutput { call_id: result.id.as_str(), output: result.text() });
    let content: Vec<Part> = rest.into_iter().filter_map(|block| part(block, row)).collect();
    let said = (!content.is_empty()).then_some(Item::Message { role: Role::User, content });
    outputs.chain(said).collect()
}

fn part<'a>(block: &'a Block, row: &ModelRow) -> Option<Part<'a>> {
    Some(match block {
        Block::Text(text) if text.is_empty() => return None,
        Block::Text(text) => Part::InputText { text },
        Block::Image(_) | Block::Document(_) if !row.images => Part::InputText { text: crate::NO_IMAGES },
        Block::Image(source) => Part::InputImage { image_url: DataUrl(source) },
        Block::Document(Source::Url { url }) => Part::InputFile(File::Elsewhere { file_url: url }),
        Block::Document(source @ Source::Base64 { .. }) => {
            Part::InputFile(File::Inside { filename: "document.pdf", file_data: DataUrl(source) })
        }
        // Another API's, or no part of a user's message.
        Block::Thinking { .. } | Block::ToolUse(_) | Block::ToolResult(_) | Block::Opaque(_) => return None,
    })
}

fn assistant_items<'a>(message: &'a Message, row: &ModelRow) -> Vec<Item<'a>> {
    let item = |block: &'a Block| match block {
        Block::Text(text) if !text.is_empty() => {
            Some(Item::Message { role: Role::Assistant, content: vec![Part::OutputText { text }] })
        }
        Block::ToolUse(call) => Some(Item::FunctionCall {
            call_id: call.id.as_str(),
            name: wire_name(&call.name, LONGEST_NAME),
            arguments: call.input.to_string(),
        }),
        Block::Opaque(value) => is_known(value, row).then_some(Item::Opaque(value)),
        // The readable form of reasoning is ours; the API takes back only its own item.
        Block::Text(_)
        | Block::Thinking { .. }
        | Block::Image(_)
        | Block::Document(_)
        | Block::ToolResult(_) => None,
    };
    message.content.iter().filter_map(item).collect()
}

/// Whether an opaque block is one of this API's own, fit to be sent back. Reasoning without its
/// encrypted content refers to something the server did not store.
fn is_known(value: &Json, row: &ModelRow) -> bool {
    match value.get("type").and_then(Json::as_str) {
        Some("reasoning") => row.thinking && value.get("encrypted_content").is_some_and(Json::is_string),
        Some(kind) => matches!(kind, "web_search_call" | "file_search_call" | "code_interpreter_call"),
        None => false,
    }
}

#[cfg(test)]
mod tests;
