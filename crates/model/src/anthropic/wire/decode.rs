//! The Messages API's stream of events, understood. What it does not know it lets pass; what
//! contradicts itself is an error, since a guess could lose a call or run one twice.

use super::LONGEST_NAME;
use crate::{
    ModelError,
    http::failure::{Complaint, from_complaint},
    tool_name::ToolNames,
    wire::{count, parse, stop_reason},
};
use ostler_proto::{BlockStart, Json, ModelEvent, Request, StopReason, Usage};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Reads one answer.
#[derive(Debug)]
pub(in crate::anthropic) struct Decoder {
    names: ToolNames,
    state: State,
    open: BTreeMap<usize, Open>,
    usage: Usage,
    stop: Option<StopReason>,
    made_calls: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Done,
}

/// A block that has begun and not ended.
#[derive(Debug)]
enum Open {
    Text,
    Thinking,
    /// The whole input that came with the start, until a piece of it comes.
    Call {
        whole_input: Option<Json>,
    },
    /// Told only when it is whole, as its start is all that is told. With pieces of its input.
    Opaque {
        block: Json,
        input: String,
    },
}

#[derive(Deserialize)]
struct Peek {
    #[serde(default)]
    r#type: String,
}

#[derive(Deserialize)]
struct MessageStart {
    message: StartedMessage,
}

#[derive(Deserialize)]
struct StartedMessage {
    #[serde(default)]
    id: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    usage: Option<UsageFields>,
}

#[derive(Deserialize)]
struct ContentBlockStart {
    index: usize,
    content_block: Json,
}

#[derive(Deserialize)]
struct ContentBlockDelta {
    index: usize,
    delta: Json,
}

#[derive(Deserialize)]
struct ContentBlockStop {
    index: usize,
}

#[derive(Deserialize)]
struct MessageDelta {
    #[serde(default)]
    delta: MessageChange,
    #[serde(default)]
    usage: Option<UsageFields>,
}

#[derive(Default, Deserialize)]
struct MessageChange {
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UsageFields {
    #[serde(rename = "input_tokens", deserialize_with = "count")]
    input: Option<u64>,
    #[serde(rename = "output_tokens", deserialize_with = "count")]
    output: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens", deserialize_with = "count")]
    cache_write: Option<u64>,
    #[serde(rename = "cache_read_input_tokens", deserialize_with = "count")]
    cache_read: Option<u64>,
}

impl Decoder {
    pub(in crate::anthropic) fn new(request: &Request) -> Self {
        Self {
            names: ToolNames::new(&request.tools, LONGEST_NAME),
            state: State::Waiting,
            open: BTreeMap::new(),
            usage: Usage::default(),
            stop: None,
            made_calls: false,
        }
    }

    /// Takes one event.
    pub(in crate::anthropic) fn push(
        &mut self,
        name: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if self.state == State::Done {
            return Ok(());
        }
        // Gateways that lose the event's name keep its type.
        let peeked = if is_known(name) { String::new() } else { parse::<Peek>(data)?.r#type };
        let kind = if peeked.is_empty() { name } else { &peeked };
        if self.state == State::Waiting && !matches!(kind, "message_start" | "error") && is_answer(kind) {
            return Err(ModelError::broken("the answer does not begin with its message_start"));
        }
        match kind {
            "message_start" => self.start(parse(data)?, out)?,
            "content_block_start" => self.start_block(parse(data)?, out)?,
            "content_block_delta" => self.extend_block(&parse(data)?, out)?,
            "content_block_stop" => self.stop_block(parse::<ContentBlockStop>(data)?.index, out)?,
            "message_delta" => self.change(parse(data)?, out),
            "message_stop" => self.stop(out)?,
            "ping" => out.push(ModelEvent::Ping),
            "error" => return Err(from_complaint(&Complaint::from_json(&parse(data)?))),
            _ => {}
        }
        Ok(())
    }

    /// The stream has ended.
    pub(in crate::anthropic) fn finish(&self) -> Result<(), ModelError> {
        if self.state == State::Done { Ok(()) } else { Err(ModelError::broke_off()) }
    }

    fn start(&mut self, start: MessageStart, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if self.state != State::Waiting {
            return Err(ModelError::broken("the answer begins twice"));
        }
        self.state = State::Running;
        let StartedMessage { id, model, usage } = start.message;
        self.count(&usage.unwrap_or_default());
        out.push(ModelEvent::Started { message: id, model, request: None, usage: self.usage });
        Ok(())
    }

    fn start_block(&mut self, start: ContentBlockStart, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let ContentBlockStart { index, content_block: block } = start;
        if self.open.contains_key(&index) {
            return Err(ModelError::broken(format!("block {index} of the answer begins twice")));
        }
        let text = |key: &str| block.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        let open = match block.get("type").and_then(Json::as_str) {
            Some("text") => {
                out.push(ModelEvent::BlockStarted { index, start: BlockStart::Text });
                push_text(index, text("text"), out);
                Open::Text
            }
            Some("thinking") => {
                out.push(ModelEvent::BlockStarted { index, start: BlockStart::Thinking });
                push_thinking(index, text("thinking"), out);
                push_signature(index, text("signature"), out);
                Open::Thinking
            }
            Some("tool_use") => {
                let (id, name) = (text("id"), self.names.original(text("name")));
                if id.is_empty() || name.is_empty() {
                    return Err(ModelError::broken(format!(
                        "call {index} of the answer lacks its id or name"
                    )));
                }
                out.push(ModelEvent::BlockStarted {
                    index,
                    start: BlockStart::ToolUse { id: id.into(), name },
                });
                self.made_calls = true;
                let is_empty = |input: &&Json| input.as_object().is_some_and(serde_json::Map::is_empty);
                let whole_input = block.get("input").filter(|input| !input.is_null() && !is_empty(input));
                Open::Call { whole_input: whole_input.cloned() }
            }
            _ => Open::Opaque { block, input: String::new() },
        };
        self.open.insert(index, open);
        Ok(())
    }

    fn extend_block(
        &mut self,
        piece: &ContentBlockDelta,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let ContentBlockDelta { index, delta } = piece;
        let index = *index;
        let text = |key: &str| delta.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        let kind = delta.get("type").and_then(Json::as_str).unwrap_or_default();
        let Some(open) = self.open.get_mut(&index) else {
            return Err(ModelError::broken(format!("a piece came for block {index}, which is not open")));
        };
        match (kind, open) {
            ("text_delta", Open::Text) => push_text(index, text("text"), out),
            ("thinking_delta", Open::Thinking) => push_thinking(index, text("thinking"), out),
            ("signature_delta", Open::Thinking) => push_signature(index, text("signature"), out),
            ("input_json_delta", Open::Call { whole_input }) => {
                let fragment = text("partial_json");
                if !fragment.is_empty() {
                    *whole_input = None;
                    out.push(ModelEvent::InputDelta { index, fragment });
                }
            }
            ("input_json_delta", Open::Opaque { input, .. }) => input.push_str(&text("partial_json")),
            ("text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta", _) => {
                return Err(ModelError::broken(format!(
                    "a {kind} came for block {index}, which is no such block"
                )));
            }
            _ => {}
        }
        Ok(())
    }

    fn stop_block(&mut self, index: usize, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        // A second stop of the same block changes nothing.
        let Some(open) = self.open.remove(&index) else { return Ok(()) };
        match open {
            Open::Text | Open::Thinking | Open::Call { whole_input: None } => {}
            Open::Call { whole_input: Some(input) } => {
                out.push(ModelEvent::InputDelta { index, fragment: input.to_string() });
            }
            Open::Opaque { mut block, input } => {
                if let (false, Some(fields)) = (input.is_empty(), block.as_object_mut()) {
                    fields.insert("input".to_owned(), parse(&input)?);
                }
                out.push(ModelEvent::BlockStarted { index, start: BlockStart::Opaque(block) });
            }
        }
        out.push(ModelEvent::BlockStopped { index });
        Ok(())
    }

    fn change(&mut self, change: MessageDelta, out: &mut Vec<ModelEvent>) {
        if let Some(reason) = change.delta.stop_reason {
            self.stop = Some(stop_reason(&reason));
        }
        if let Some(usage) = change.usage {
            self.count(&usage);
            out.push(ModelEvent::Usage(self.usage));
        }
    }

    fn stop(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if let Some(index) = self.open.iter().find(|(_, open)| matches!(open, Open::Call { .. })) {
            return Err(ModelError::broken(format!("the answer ended inside call {}", index.0)));
        }
        while let Some(index) = self.open.keys().next().copied() {
            self.stop_block(index, out)?;
        }
        self.state = State::Done;
        let usual = if self.made_calls { StopReason::ToolUse } else { StopReason::EndTurn };
        out.push(ModelEvent::Done { stop: self.stop.take().unwrap_or(usual) });
        Ok(())
    }

    /// Counts are cumulative; a field that is absent keeps its value.
    fn count(&mut self, fields: &UsageFields) {
        let usage = &mut self.usage;
        usage.input = fields.input.unwrap_or(usage.input);
        usage.output = fields.output.unwrap_or(usage.output);
        usage.cache_write = fields.cache_write.unwrap_or(usage.cache_write);
        usage.cache_read = fields.cache_read.unwrap_or(usage.cache_read);
    }
}

fn is_known(name: &str) -> bool {
    is_answer(name) || matches!(name, "ping" | "error")
}

fn is_answer(name: &str) -> bool {
    matches!(
        name,
        "message_start"
            | "content_block_start"
            | "content_block_delta"
            | "content_block_stop"
            | "message_delta"
            | "message_stop"
    )
}

fn push_text(index: usize, text: String, out: &mut Vec<ModelEvent>) {
    if !text.is_empty() {
        out.push(ModelEvent::TextDelta { index, text });
    }
}

fn push_thinking(index: usize, text: String, out: &mut Vec<ModelEvent>) {
    if !text.is_empty() {
        out.push(ModelEvent::ThinkingDelta { index, text });
    }
}

fn push_signature(index: usize, signature: String, out: &mut Vec<ModelEvent>) {
    if !signature.is_empty() {
        out.push(ModelEvent::SignatureDelta { index, signature });
    }
}
