//! The Chat Completions API's stream of chunks, understood. Many servers speak it a little
//! differently: ids, indexes, usage and the last word may all be missing.

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
pub(in crate::openai_chat) struct Decoder {
    asked: Asked,
    state: State,
    blocks: usize,
    /// The text or reasoning that grows now.
    talk: Option<(Talk, usize)>,
    calls: Vec<Call>,
    refused: bool,
    finish: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Talk {
    Text,
    Thinking,
}

#[derive(Debug)]
struct Call {
    /// The server's number for it; may be missing, and some servers number every call 0.
    number: Option<u64>,
    id: String,
    /// The block, once the call has a name.
    block: Option<usize>,
    /// Input that came before the name.
    early_input: String,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<UsageFields>,
    #[serde(default)]
    error: Option<Json>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<Json>,
    #[serde(default)]
    reasoning_content: Option<Json>,
    #[serde(default)]
    reasoning: Option<Json>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Deserialize)]
struct CallPiece {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionPiece>,
}

#[derive(Default, Deserialize)]
struct FunctionPiece {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Json>,
}

impl Decoder {
    pub(in crate::openai_chat) fn new(request: &Request) -> Self {
        Self {
            asked: Asked::new(request),
            state: State::Waiting,
            blocks: 0,
            talk: None,
            calls: Vec::new(),
            refused: false,
            finish: None,
        }
    }

    /// Takes one event.
    pub(in crate::openai_chat) fn push(
        &mut self,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if self.state == State::Done {
            return Ok(());
        }
        if data.trim() == "[DONE]" {
            return if self.state == State::Running { self.end(out) } else { Err(ModelError::broke_off()) };
        }
        let chunk: Chunk = parse(data)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(from_complaint(&Complaint::from_json(&error)));
        }
        if self.state == State::Waiting {
            self.state = State::Running;
            out.push(ModelEvent::Started {
                message: chunk.id.filter(|id| !id.is_empty()).unwrap_or_else(|| self.asked.message_id()),
                model: chunk
                    .model
                    .filter(|model| !model.is_empty())
                    .unwrap_or_else(|| self.asked.model.clone()),
                request: None,
                usage: Usage::default(),
            });
        }
        for choice in
            chunk.choices.unwrap_or_default().into_iter().filter(|choice| choice.index.unwrap_or(0) == 0)
        {
            self.take_choice(choice, out);
        }
        if let Some(usage) = chunk.usage {
            out.push(ModelEvent::Usage(usage.into()));
        }
        Ok(())
    }

    /// The stream has ended, with or without a last word.
    pub(in crate::openai_chat) fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match self.state {
            State::Done => Ok(()),
            State::Running if self.finish.is_some() => self.end(out),
            State::Running | State::Waiting => Err(ModelError::broke_off()),
        }
    }

    fn take_choice(&mut self, choice: Choice, out: &mut Vec<ModelEvent>) {
        if let Some(delta) = choice.delta {
            let reasoning = [delta.reasoning_content, delta.reasoning].into_iter().flatten();
            if let Some(text) = reasoning.map(plain_text).find(|text| !text.is_empty()) {
                self.say(Talk::Thinking, text, out);
            }
            self.say(Talk::Text, delta.content.map(plain_text).unwrap_or_default(), out);
            let refusal = delta.refusal.unwrap_or_default();
            self.refused |= !refusal.is_empty();
            self.say(Talk::Text, refusal, out);
            for piece in delta.tool_calls.unwrap_or_default() {
                self.take_call(piece, out);
            }
        }
        self.finish = choice.finish_reason.filter(|reason| !reason.is_empty()).or(self.finish.take());
    }

    fn say(&mut self, talk: Talk, text: String, out: &mut Vec<ModelEvent>) {
        if text.is_empty() {
            return;
        }
        let index = match self.talk {
            Some((current, index)) if current == talk => index,
            _ => {
                self.stop_talking(out);
                let start = match talk {
                    Talk::Text => BlockStart::Text,
                    Talk::Thinking => BlockStart::Thinking,
                };
                let index = self.start_block(start, out);
                self.talk = Some((talk, index));
                index
            }
        };
        out.push(match talk {
            Talk::Text => ModelEvent::TextDelta { index, text },
            Talk::Thinking => ModelEvent::ThinkingDelta { index, text },
        });
    }

    fn stop_talking(&mut self, out: &mut Vec<ModelEvent>) {
        if let Some((_, index)) = self.talk.take() {
            out.push(ModelEvent::BlockStopped { index });
        }
    }

    fn start_block(&mut self, start: BlockStart, out: &mut Vec<ModelEvent>) -> usize {
        let index = self.blocks;
        self.blocks += 1;
        out.push(ModelEvent::BlockStarted { index, start });
        index
    }

    fn take_call(&mut self, piece: CallPiece, out: &mut Vec<ModelEvent>) {
        self.stop_talking(out);
        let function = piece.function.unwrap_or_default();
        let name = function.name.filter(|name| !name.is_empty());
        let id = piece.id.filter(|id| !id.is_empty());
        let position = self.find_call(piece.index, id.as_deref(), name.is_some()).unwrap_or_else(|| {
            let id = id.unwrap_or_else(|| self.asked.call_id(self.calls.len() + 1));
            self.calls.push(Call { number: piece.index, id, block: None, early_input: String::new() });
            self.calls.len() - 1
        });
        if let (None, Some(name)) = (self.calls[position].block, name) {
            let name = self.asked.names.original(name);
            let start = BlockStart::ToolUse { id: self.calls[position].id.clone().into(), name };
            self.calls[position].block = Some(self.start_block(start, out));
        }
        let call = &mut self.calls[position];
        match function.arguments {
            None | Some(Json::Null) => {}
            Some(Json::String(text)) => call.early_input.push_str(&text),
            Some(whole) => call.early_input.push_str(&whole.to_string()),
        }
        if let Some(index) = call.block
            && !call.early_input.is_empty()
        {
            let fragment = std::mem::take(&mut call.early_input);
            out.push(ModelEvent::InputDelta { index, fragment });
        }
    }

    /// The call that a piece continues, if it does not begin one.
    fn find_call(&self, number: Option<u64>, id: Option<&str>, named: bool) -> Option<usize> {
        let last = |matches: &dyn Fn(&Call) -> bool| self.calls.iter().rposition(matches);
        match (number, id) {
            (Some(number), id) => {
                let position = last(&|call| call.number == Some(number))?;
                // Another id and a name under the same number is another call.
                let is_other = named && id.is_some_and(|id| id != self.calls[position].id);
                (!is_other).then_some(position)
            }
            (None, Some(id)) => last(&|call| call.id == id),
            (None, None) if named => None,
            (None, None) => last(&|_| true),
        }
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        self.stop_talking(out);
        let stop = self.stop_reason()?;
        for call in &self.calls {
            let Some(index) = call.block else {
                return Err(ModelError::broken(format!("the answer holds call {} without a name", call.id)));
            };
            out.push(ModelEvent::BlockStopped { index });
        }
        self.state = State::Done;
        out.push(ModelEvent::Done { stop });
        Ok(())
    }

    fn stop_reason(&self) -> Result<StopReason, ModelError> {
        let called = !self.calls.is_empty();
        Ok(match self.finish.as_deref().unwrap_or("stop") {
            "length" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            "error" => return Err(ModelError::broken("the API broke off its answer (finish_reason error)")),
            // Whatever a server calls it, an answer with calls waits for their results.
            _ if called => StopReason::ToolUse,
            "stop" | "tool_calls" | "function_call" if self.refused => StopReason::Refusal,
            "stop" | "tool_calls" | "function_call" => StopReason::EndTurn,
            other => StopReason::Other(other.to_owned()),
        })
    }
}

/// Text as servers send it: a string, or a list of parts.
fn plain_text(value: Json) -> String {
    match value {
        Json::String(text) => text,
        Json::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => String::new(),
    }
}
