//! The Responses API's stream of typed events, understood. Its items become blocks: a message's
//! parts are texts, a call is a call, reasoning is told as it comes and kept whole besides.

use crate::{
    ModelError,
    http::failure::{Complaint, from_complaint},
    openai::{Asked, UsageFields},
    wire::parse,
};
use ostler_proto::{BlockStart, Json, ModelEvent, Request, StopReason, Usage};
use serde::Deserialize;

/// Reads one answer.
#[derive(Debug)]
pub(in crate::openai_responses) struct Decoder {
    asked: Asked,
    state: State,
    blocks: usize,
    items: Vec<Item>,
    calls: usize,
    refused: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Done,
}

/// An item of the answer that was heard of.
#[derive(Debug, Default)]
struct Item {
    output_index: Option<u64>,
    id: Option<String>,
    /// What has begun of it.
    parts: Vec<Part>,
    /// Its end was told, so that a second end changes nothing.
    ended: bool,
}

#[derive(Debug)]
struct Part {
    kind: PartKind,
    block: usize,
    /// Whether any piece of a call's input came.
    grown: bool,
    stopped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartKind {
    /// The nth content part of a message.
    Text(u64),
    /// All reasoning of an item, with the last summary part told.
    Thinking(u64),
    Call,
}

/// The events that are understood.
const HEARD: [&str; 16] = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.refusal.delta",
    "response.refusal.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.delta",
    "response.output_item.done",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
];

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    output_index: Option<u64>,
    item_id: Option<String>,
    content_index: Option<u64>,
    summary_index: Option<u64>,
    delta: Option<String>,
    text: Option<String>,
    refusal: Option<String>,
    arguments: Option<String>,
    item: Option<Json>,
    response: Option<Response>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response {
    id: Option<String>,
    model: Option<String>,
    output: Option<Vec<Json>>,
    usage: Option<UsageFields>,
    error: Option<Json>,
    incomplete_details: Option<IncompleteDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct IncompleteDetails {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Peek {
    #[serde(default)]
    r#type: String,
}

impl Decoder {
    pub(in crate::openai_responses) fn new(request: &Request) -> Self {
        Self {
            asked: Asked::new(request),
            state: State::Waiting,
            blocks: 0,
            items: Vec::new(),
            calls: 0,
            refused: false,
        }
    }

    /// Takes one event.
    pub(in crate::openai_responses) fn push(
        &mut self,
        name: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if self.state == State::Done || data.trim() == "[DONE]" {
            return Ok(());
        }
        let kind = Some(parse::<Peek>(data)?.r#type).filter(|kind| !kind.is_empty());
        let kind = kind.as_deref().unwrap_or(name);
        if kind == "error" {
            return Err(from_complaint(&Complaint::from_json(&parse(data)?)));
        }
        // Only what is understood is read in full: the rest may have any shape.
        if !HEARD.contains(&kind) {
            return Ok(());
        }
        let event: Event = parse(data)?;
        self.start(event.response.as_ref(), out);
        match kind {
            "response.created" | "response.in_progress" => Ok(()),
            "response.completed" => self.end(event.response.unwrap_or_default(), None, out),
            "response.incomplete" => {
                let response = event.response.unwrap_or_default();
                let reason = response.incomplete_details.as_ref().and_then(|details| details.reason.clone());
                self.end(response, Some(reason.as_deref().unwrap_or("incomplete")), out)
            }
            "response.failed" | "response.cancelled" => {
                let error = event.response.and_then(|response| response.error).unwrap_or_default();
                Err(from_complaint(&Complaint::from_json(&error)))
            }
            _ => self.take(kind, event, out),
        }
    }

    /// The stream has ended.
    pub(in crate::openai_responses) fn finish(&self) -> Result<(), ModelError> {
        if self.state == State::Done { Ok(()) } else { Err(ModelError::broke_off()) }
    }

    /// Takes an event about one item.
    fn take(&mut self, kind: &str, event: Event, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let position =
            self.position(event.output_index, event.item_id.as_deref().or(id_of(event.item.as_ref())));
        let text_part = PartKind::Text(event.content_index.unwrap_or(0));
        let delta = event.delta.unwrap_or_default();
        match kind {
            "response.output_item.added" => {
                if let Some(call) = event.item.filter(is_call) {
                    self.begin_call(position, &call, out)?;
                }
            }
            "response.output_text.delta" => self.grow(position, text_part, delta, out),
            "response.refusal.delta" => {
                self.refused = true;
                self.grow(position, text_part, delta, out);
            }
            "response.output_text.done" | "response.refusal.done" => {
                self.complete(position, text_part, event.text.or(event.refusal).unwrap_or_default(), out);
            }
            "response.function_call_arguments.delta" => self.grow_call(position, delta, out)?,
            "response.function_call_arguments.done" => {
                self.complete_call(position, event.arguments.unwrap_or_default(), out)?;
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let part = event.summary_index.or(event.content_index).unwrap_or(0);
                self.think(position, part, &delta, out);
            }
            "response.output_item.done" => self.end_item(position, event.item.unwrap_or_default(), out)?,
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, response: Option<&Response>, out: &mut Vec<ModelEvent>) {
        if self.state != State::Waiting {
            return;
        }
        self.state = State::Running;
        let id = response.and_then(|response| response.id.clone());
        let model = response.and_then(|response| response.model.clone());
        out.push(ModelEvent::Started {
            message: id.unwrap_or_else(|| self.asked.message_id()),
            model: model.unwrap_or_else(|| self.asked.model.clone()),
            request: None,
            usage: Usage::default(),
        });
    }

    /// The item an event speaks of: by its place in the output, else by its id, else the last one.
    fn position(&mut self, output_index: Option<u64>, id: Option<&str>) -> usize {
        let found = match (output_index, id) {
            (Some(index), _) => self.items.iter().position(|item| item.output_index == Some(index)),
            (None, Some(id)) => self.items.iter().position(|item| item.id.as_deref() == Some(id)),
            (None, None) => self.items.len().checked_sub(1),
        };
        found.unwrap_or_else(|| {
            self.items.push(Item { output_index, id: id.map(str::to_owned), ..Item::default() });
            self.items.len() - 1
        })
    }

    /// Begins a call, if it has not begun.
    fn begin_call(
        &mut self,
        position: usize,
        item: &Json,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if self.part(position, |kind| kind == PartKind::Call).is_some() {
            return Ok(());
        }
        self.calls += 1;
        let text = |key: &str| item.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
        let id = text("call_id").map_or_else(|| self.asked.call_id(self.calls), str::to_owned);
        let Some(name) = text("name") else {
            return Err(ModelError::broken(format!("the answer holds call {id} without a name")));
        };
        let name = self.asked.names.original(name.to_owned());
        self.begin_part(position, PartKind::Call, BlockStart::ToolUse { id: id.into(), name }, out);
        Ok(())
    }

    fn begin_part(
        &mut self,
        position: usize,
        kind: PartKind,
        start: BlockStart,
        out: &mut Vec<ModelEvent>,
    ) -> usize {
        let block = self.blocks;
        self.blocks += 1;
        out.push(ModelEvent::BlockStarted { index: block, start });
        self.items[position].parts.push(Part { kind, block, grown: false, stopped: false });
        block
    }

    fn part(&mut self, position: usize, wanted: impl Fn(PartKind) -> bool) -> Option<&mut Part> {
        self.items[position].parts.iter_mut().find(|part| wanted(part.kind))
    }

    fn grow(&mut self, position: usize, kind: PartKind, text: String, out: &mut Vec<ModelEvent>) {
        if text.is_empty() {
            return;
        }
        let index = match self.part(position, |other| other == kind) {
            Some(part) if part.stopped => return,
            Some(part) => part.block,
            None => self.begin_part(position, kind, BlockStart::Text, out),
        };
        out.push(ModelEvent::TextDelta { index, text });
    }

    /// The end of a text, which tells all of it again: needed only if no piece came.
    fn complete(&mut self, position: usize, kind: PartKind, whole: String, out: &mut Vec<ModelEvent>) {
        if self.part(position, |other| other == kind).is_none() {
            self.grow(position, kind, whole, out);
        }
        if let Some(part) = self.part(position, |other| other == kind) {
            stop(part, out);
        }
    }

    fn grow_call(
        &mut self,
        position: usize,
        fragment: String,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let part = self.part(position, |kind| kind == PartKind::Call);
        let part = part.ok_or_else(|| ModelError::broken("input came for a call that has not begun"))?;
        if part.stopped {
            return Err(ModelError::broken("input came for a call that has ended"));
        }
        if !fragment.is_empty() {
            part.grown = true;
            out.push(ModelEvent::InputDelta { index: part.block, fragment });
        }
        Ok(())
    }

    fn complete_call(
        &mut self,
        position: usize,
        whole: String,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let part = self.part(position, |kind| kind == PartKind::Call);
        if part.is_some_and(|part| !part.grown && !part.stopped) {
            self.grow_call(position, whole, out)?;
        }
        if let Some(part) = self.part(position, |kind| kind == PartKind::Call) {
            stop(part, out);
        }
        Ok(())
    }

    fn think(&mut self, position: usize, summary: u64, text: &str, out: &mut Vec<ModelEvent>) {
        if text.is_empty() {
            return;
        }
        let is_thinking = |kind| matches!(kind, PartKind::Thinking(_));
        let (index, previous) = match self.part(position, is_thinking) {
            Some(Part { kind: PartKind::Thinking(last), block, .. }) => {
                (*block, std::mem::replace(last, summary))
            }
            _ => (self.begin_part(position, PartKind::Thinking(summary), BlockStart::Thinking, out), summary),
        };
        let gap = if previous == summary { "" } else { "\n\n" };
        out.push(ModelEvent::ThinkingDelta { index, text: format!("{gap}{text}") });
    }

    fn end_item(&mut self, position: usize, item: Json, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if std::mem::replace(&mut self.items[position].ended, true) {
            return Ok(());
        }
        let text = |key: &str| item.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        match item.get("type").and_then(Json::as_str) {
            Some("function_call") => {
                self.begin_call(position, &item, out)?;
                self.complete_call(position, text("arguments"), out)?;
            }
            Some("message") => {
                let content =
                    item.get("content").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
                for (index, part) in (0..).zip(content) {
                    let whole = part.get("text").or_else(|| part.get("refusal")).and_then(Json::as_str);
                    self.refused |= part.get("refusal").is_some();
                    self.complete(position, PartKind::Text(index), whole.unwrap_or_default().to_owned(), out);
                }
            }
            _ => {}
        }
        self.items[position].parts.iter_mut().for_each(|part| stop(part, out));
        if item.is_object()
            && !matches!(item.get("type").and_then(Json::as_str), Some("function_call" | "message"))
        {
            let index = self.blocks;
            self.blocks += 1;
            out.push(ModelEvent::BlockStarted { index, start: BlockStart::Opaque(item) });
            out.push(ModelEvent::BlockStopped { index });
        }
        Ok(())
    }

    fn end(
        &mut self,
        response: Response,
        incomplete: Option<&str>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        // Some servers tell the items only here. If any was told before, these are the same ones.
        if self.items.iter().all(|item| item.parts.is_empty() && !item.ended) {
            self.items.clear();
            for (index, item) in (0..).zip(response.output.unwrap_or_default()) {
                let position = self.position(Some(index), None);
                self.end_item(position, item, out)?;
            }
        }
        for part in self.items.iter_mut().flat_map(|item| &mut item.parts) {
            if part.kind == PartKind::Call && !part.stopped && incomplete.is_none() {
                return Err(ModelError::broken("the answer ended inside a call"));
            }
            stop(part, out);
        }
        if let Some(usage) = response.usage {
            out.push(ModelEvent::Usage(usage.into()));
        }
        self.state = State::Done;
        let stop = match incomplete {
            Some("max_output_tokens") => StopReason::MaxTokens,
            Some("content_filter") => StopReason::Refusal,
            Some(other) => StopReason::Other(other.to_owned()),
            None if self.calls > 0 => StopReason::ToolUse,
            None if self.refused => StopReason::Refusal,
            None => StopReason::EndTurn,
        };
        out.push(ModelEvent::Done { stop });
        Ok(())
    }
}

fn is_call(item: &Json) -> bool {
    item.get("type").and_then(Json::as_str) == Some("function_call")
}

fn id_of(item: Option<&Json>) -> Option<&str> {
    item?.get("id")?.as_str()
}

fn stop(part: &mut Part, out: &mut Vec<ModelEvent>) {
    if !std::mem::replace(&mut part.stopped, true) {
        out.push(ModelEvent::BlockStopped { index: part.block });
    }
}
