//! A model's answer while it comes, as the Messages API would stream it.
//! Owns only the order of events within one answer; frames around them belong to `frame`.

use ostler_proto::{Json, ModelEvent, StopReason, Usage};
use serde_json::json;
use std::collections::VecDeque;

/// Folds model events into API events, in the order programs rely on: deltas, then the whole block as an
/// assistant frame, then `content_block_stop`.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    answering: bool,
    usage: Usage,
    open: Vec<usize>,
    /// Blocks that stopped before their assistant frame was sent.
    stopped: VecDeque<usize>,
    /// Assistant frames that were sent before their block stopped.
    ahead: usize,
}

impl Partial {
    /// The API events one model event stands for.
    pub(crate) fn events(&mut self, event: &ModelEvent) -> Vec<Json> {
        match event {
            ModelEvent::Started { message, model, usage, request: _ } => {
                let mut events = self.abort();
                *self = Self { answering: true, usage: *usage, ..Self::default() };
                events.push(message_start(message, model, *usage));
                events
            }
            ModelEvent::BlockStarted { index, start } => {
                let mut events = self.release();
                self.open.push(*index);
                events.push(
                    json!({"type": "content_block_start", "index": index, "content_block": start.empty_block()}),
                );
                events
            }
            ModelEvent::TextDelta { index, text } => {
                vec![delta(*index, json!({"type": "text_delta", "text": text}))]
            }
            ModelEvent::ThinkingDelta { index, text } => {
                vec![delta(*index, json!({"type": "thinking_delta", "thinking": text}))]
            }
            ModelEvent::SignatureDelta { index, signature } => {
                vec![delta(*index, json!({"type": "signature_delta", "signature": signature}))]
            }
            ModelEvent::InputDelta { index, fragment } => {
                vec![delta(*index, json!({"type": "input_json_delta", "partial_json": fragment}))]
            }
            ModelEvent::BlockStopped { index } => self.block_stopped(*index),
            ModelEvent::Usage(usage) => {
                self.usage = *usage;
                Vec::new()
            }
            ModelEvent::Ping => Vec::new(),
            ModelEvent::Done { stop } => {
                let mut events = self.release();
                events.extend(self.finish(Some(stop)));
                events
            }
        }
    }

    /// The events that may follow now that an assistant frame was sent.
    pub(crate) fn replied(&mut self) -> Vec<Json> {
        if let Some(index) = self.stopped.pop_front() {
            return vec![block_stop(index)];
        }
        self.ahead += 1;
        Vec::new()
    }

    /// Closes an answer that broke off, so that every start has its stop.
    pub(crate) fn abort(&mut self) -> Vec<Json> {
        if !self.answering {
            return Vec::new();
        }
        let mut events = self.release();
        events.extend(std::mem::take(&mut self.open).into_iter().map(block_stop));
        events.extend(self.finish(None));
        events
    }

    fn block_stopped(&mut self, index: usize) -> Vec<Json> {
        self.open.retain(|open| *open != index);
        if self.ahead > 0 {
            self.ahead -= 1;
            return vec![block_stop(index)];
        }
        self.stopped.push_back(index);
        Vec::new()
    }

    fn release(&mut self) -> Vec<Json> {
        self.stopped.drain(..).map(block_stop).collect()
    }

    fn finish(&mut self, stop: Option<&StopReason>) -> [Json; 2] {
        self.answering = false;
        let delta = json!({"stop_reason": stop, "stop_sequence": null});
        [
            json!({"type": "message_delta", "delta": delta, "usage": self.usage}),
            json!({"type": "message_stop"}),
        ]
    }
}

fn message_start(message: &str, model: &str, usage: Usage) -> Json {
    json!({"type": "message_start", "message": {
        "id": message, "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    }})
}

fn delta(index: usize, delta: Json) -> Json {
    let mut event = json!({"type": "content_block_delta", "index": index});
    event["delta"] = delta;
    event
}

fn block_stop(index: usize) -> Json {
    json!({"type": "content_block_stop", "index": index})
}
