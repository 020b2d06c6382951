//! A request as the Messages API wants it. What changes most comes last, so that consecutive
//! requests share their beginning byte for byte; what was written for the last one is not written again.

use super::LONGEST_NAME;
use crate::{
    tool_name::wire_name,
    written::{Said, Written, item_bytes},
};
use ostler_proto::{Block, Effort, Json, Message, ModelRow, Reasoning, Request, Role, Source, Thinking};
use serde::Serialize;
use std::borrow::Cow;

/// All of a body but the conversation.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<ThinkingField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum ThinkingField {
    Disabled,
    Enabled {
        budget_tokens: u64,
    },
    /// Newer models leave the text out unless asked for a summary.
    Adaptive {
        display: &'static str,
    },
}

#[derive(Serialize)]
struct OutputConfig {
    effort: Effort,
}

#[derive(Serialize)]
struct ToolChoice {
    r#type: &'static str,
    disable_parallel_tool_use: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    input_schema: &'a Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    Image {
        source: &'a Source,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Document {
        source: &'a Source,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolUse {
        id: &'a str,
        name: Cow<'a, str>,
        input: &'a Json,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Part<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    #[serde(untagged)]
    Opaque(&'a Json),
}

#[derive(Clone, Copy, Serialize)]
struct CacheControl {
    r#type: &'static str,
}

const EPHEMERAL: CacheControl = CacheControl { r#type: "ephemeral" };

/// Cache marks the API allows in one request.
const CACHE_MARKS: usize = 4;
/// Of these, for the conversation: its end and, if that is far, the end of what the last request held.
const CONVERSATION_MARKS: usize = 2;
/// How far before a mark the API looks for what it has cached, in blocks, the marked one included.
const LOOK_BACK: usize = 20;

/// The least thinking budget the API takes.
const LEAST_BUDGET: u64 = 1024;

/// The body of a request.
pub(in crate::anthropic) fn encode(request: &Request, row: &ModelRow, written: &mut Written) -> Vec<u8> {
    written.follow(&request.messages, |message, page| {
        if let Some(turn) = turn(message, row) {
            page.add(&turn, turn.content.len());
        }
    });
    let marked = if row.cache_breakpoints { marked(written, row) } else { Vec::new() };
    let system = system(request, row);
    let head = Head {
        model: row.name.as_deref().unwrap_or(&request.model),
        max_tokens: request.max_output_tokens,
        stream: true,
        thinking: thinking(request, row),
        output_config: output_config(request, row),
        tool_choice: (!row.parallel_calls && !request.tools.is_empty())
            .then_some(ToolChoice { r#type: "auto", disable_parallel_tool_use: true }),
        tools: tools(request, row, &system),
        system,
    };
    written.body(&head, "messages", &[], &marked)
}

fn tool(spec: &ostler_proto::ToolSpec) -> Tool<'_> {
    Tool {
        name: wire_name(&spec.name, LONGEST_NAME),
        description: &spec.description,
        input_schema: &spec.schema,
        cache_control: None,
    }
}

/// The tools. Marks in the system prompt cover them; without one they are marked themselves, as other
/// conversations have them too.
fn tools<'a>(request: &'a Request, row: &ModelRow, system: &[Part<'_>]) -> Vec<Tool<'a>> {
    let mut tools: Vec<Tool> = request.tools.iter().map(tool).collect();
    let is_marked = |part: &Part| matches!(part, Part::Text { cache_control: Some(_), .. });
    if let Some(last) = tools.last_mut().filter(|_| row.cache_breakpoints && !system.iter().any(is_marked)) {
        last.cache_control = Some(EPHEMERAL);
    }
    tools
}

fn system<'a>(request: &'a Request, row: &ModelRow) -> Vec<Part<'a>> {
    let texts: Vec<_> = request.system.iter().filter(|text| !text.text.trim().is_empty()).collect();
    let marked = texts.iter().filter(|text| text.cache).count();
    // Of too many, the last cover the most.
    let mut to_skip = marked.saturating_sub(CACHE_MARKS - CONVERSATION_MARKS);
    let parts = texts.into_iter().map(|text| {
        let wanted = text.cache && row.cache_breakpoints;
        let skipped = wanted && to_skip > 0;
        to_skip -= usize::from(skipped);
        Part::Text { text: &text.text, cache_control: (wanted && !skipped).then_some(EPHEMERAL) }
    });
    parts.collect()
}

fn thinking(request: &Request, row: &ModelRow) -> Option<ThinkingField> {
    if !row.thinking {
        return None;
    }
    let adaptive = Some(ThinkingField::Adaptive { display: "summarized" });
    let largest = request.max_output_tokens.saturating_sub(1);
    let budget = |tokens: u64| {
        (largest >= LEAST_BUDGET)
            .then(|| ThinkingField::Enabled { budget_tokens: tokens.clamp(LEAST_BUDGET, largest) })
    };
    match (row.reasoning, request.thinking) {
        (Reasoning::Always, _) | (Reasoning::Adaptive, Thinking::Adaptive | Thinking::Budget(_)) => adaptive,
        (Reasoning::Budget, Thinking::Budget(tokens)) => budget(tokens),
        // A model that must be given a number: half of the answer is room enough for both.
        (Reasoning::Budget, Thinking::Adaptive) => budget(request.max_output_tokens / 2),
        (Reasoning::Adaptive | Reasoning::Budget, Thinking::Disabled) => Some(ThinkingField::Disabled),
        (Reasoning::Adaptive | Reasoning::Budget, Thinking::Auto) => None,
    }
}

/// Models that are given a budget refuse an effort.
fn output_config(request: &Request, row: &ModelRow) -> Option<OutputConfig> {
    match row.reasoning {
        Reasoning::Adaptive | Reasoning::Always if row.thinking => {
            request.effort.map(|effort| OutputConfig { effort })
        }
        Reasoning::Adaptive | Reasoning::Always | Reasoning::Budget => None,
    }
}

/// A message, or nothing if nothing of it can be sent: the API refuses empty ones.
fn turn<'a>(message: &'a Message, row: &ModelRow) -> Option<Turn<'a>> {
    let is_result = |block: &&Block| matches!(block, Block::ToolResult(_));
    let results = message.content.iter().filter(is_result);
    let rest = message.content.iter().filter(|block| !is_result(block));
    // Results must come before anything else in their message.
    let content: Vec<Part> = results.chain(rest).filter_map(|block| part(block, row)).collect();
    (!content.is_empty()).then_some(Turn { role: message.role, content })
}

fn part<'a>(block: &'a Block, row: &ModelRow) -> Option<Part<'a>> {
    let cache_control = None;
    Some(match block {
        Block::Text(text) if text.trim().is_empty() => return None,
        Block::Text(text) => Part::Text { text, cache_control },
        // Reasoning of another API, or cut off before its proof: it would be refused.
        Block::Thinking { signature, .. } if signature.is_empty() => return None,
        Block::Thinking { text, signature } => Part::Thinking { thinking: text, signature },
        Block::Image(_) if !row.images => Part::Text { text: crate::NO_IMAGES, cache_control },
        Block::Image(source) => Part::Image { source, cache_control },
        Block::Document(source) => Part::Document { source, cache_control },
        Block::ToolUse(call) => Part::ToolUse {
            id: call.id.as_str(),
            name: wire_name(&call.name, LONGEST_NAME),
            input: &call.input,
        },
        Block::ToolResult(result) => Part::ToolResult {
            tool_use_id: result.id.as_str(),
            content: result.content.iter().filter_map(|block| part(block, row)).collect(),
            is_error: result.is_error,
            cache_control,
        },
        Block::Opaque(value) => return is_known(value).then_some(Part::Opaque(value)),
    })
}

/// Whether an opaque block is one of this API's own, fit to be sent back.
fn is_known(value: &Json) -> bool {
    match value.get("type").and_then(Json::as_str) {
        Some("text") => value.get("text").and_then(Json::as_str).is_some_and(|text| !text.trim().is_empty()),
        Some("redacted_thinking" | "server_tool_use" | "mcp_tool_use" | "document" | "search_result") => true,
        Some(kind) => kind.ends_with("_tool_result"),
        None => false,
    }
}

/// The messages with a mark, and where they stand. Every request ends with the user's side, so that the mark of the
/// last request stood where that side ended before; behind a very long answer it is set again, or the cache would not
/// be found.
fn marked(written: &Written, row: &ModelRow) -> Vec<(usize, Vec<u8>)> {
    let mut users = written.latest_first().filter(|said| said.message.role == Role::User);
    let (last, before) = (users.next(), users.next());
    let is_far = |before: &Said| {
        let since = written.latest_first().take_while(|said| said.place > before.place);
        since.map(|said| said.blocks).sum::<usize>() + 1 >= LOOK_BACK
    };
    let marked = |said: Said| {
        let mut turn = turn(said.message, row)?;
        mark(&mut turn);
        Some((said.place, item_bytes(&turn)))
    };
    before.filter(is_far).into_iter().chain(last).filter_map(marked).collect()
}

/// Marks the last part of a message that can be marked.
fn mark(turn: &mut Turn<'_>) {
    if let Some(mark) = turn.content.iter_mut().rev().find_map(cache_mark) {
        *mark = Some(EPHEMERAL);
    }
}

/// Where a part is marked, if it can be.
fn cache_mark<'a>(part: &'a mut Part<'_>) -> Option<&'a mut Option<CacheControl>> {
    match part {
        Part::Text { cache_control, .. }
        | Part::Image { cache_control, .. }
        | Part::Document { cache_control, .. }
        | Part::ToolResult { cache_control, .. } => Some(cache_control),
        Part::Thinking { .. } | Part::ToolUse { .. } | Part::Opaque(_) => None,
    }
}

#[cfg(test)]
mod tests;
