//! `OpenAI` Responses on the wire: an answer as events or as one response. Errors are Chat's.

use crate::{
    chat,
    play::{Answer, Said, Spoken},
    wire::{Frame, Timeline},
};
use ostler_proto::{Json, StopReason, Usage};
use serde_json::json;

/// Events being written: each carries its place in the stream, and its item's in the output.
struct Events {
    timeline: Timeline,
    sequence: usize,
    output: Vec<Json>,
}

/// The answer as a stream of events.
pub(crate) fn stream(answer: &Answer) -> Vec<Frame> {
    let mut events = Events { timeline: Timeline::new(), sequence: 0, output: Vec::new() };
    let begun = response(answer, "in_progress", &[]);
    events.push("response.created", json!({"response": begun}));
    events.push("response.in_progress", json!({"response": begun}));
    for (step, said) in answer.said.iter().enumerate() {
        events.timeline.begin_step(step);
        match said {
            Said::Text(spoken) => events.say_text(&item_id("msg", answer, step), spoken),
            Said::Thinking { text, signature } => {
                events.reason(&item_id("rs", answer, step), text, signature);
            }
            Said::Call { id, name, input } => {
                events.call(&item_id("fc", answer, step), id, name, input);
            }
            Said::Pause(time) => events.timeline.wait(*time),
        }
        events.timeline.end_step();
    }
    let (name, ended) = end(answer, &events.output);
    let last = events.event(name, json!({"response": ended}));
    events.timeline.finish([last])
}

/// The answer as one JSON value, for a request that does not stream.
pub(crate) fn whole(answer: &Answer) -> Json {
    let output: Vec<Json> = (answer.said.iter().enumerate())
        .filter_map(|(step, said)| {
            Some(match said {
                Said::Text(spoken) => text_item(&item_id("msg", answer, step), &spoken.whole()),
                Said::Thinking { text, signature } => {
                    reasoning_item(&item_id("rs", answer, step), &text.whole(), signature)
                }
                Said::Call { id, name, input } => {
                    call_item(&item_id("fc", answer, step), id, name, &input.whole())
                }
                Said::Pause(_) => return None,
            })
        })
        .collect();
    end(answer, &output).1
}

/// Says in the middle of a stream that the service is overloaded.
pub(crate) fn overload() -> Vec<u8> {
    let error = &chat::error(503, "The server is overloaded")["error"];
    let failed = json!({"id": "resp_failed", "object": "response", "status": "failed",
        "error": {"code": "server_error", "message": error["message"]}});
    encode("response.failed", json!({"response": failed}))
}

impl Events {
    fn say_text(&mut self, id: &str, spoken: &Spoken) {
        let place = json!({"item_id": id, "output_index": self.output.len(), "content_index": 0});
        let text = spoken.whole();
        let mut begun = text_item(id, "");
        (begun["status"], begun["content"]) = (json!("in_progress"), json!([]));
        self.add(&begun);
        let part = |text: &str| json!({"part": {"type": "output_text", "text": text, "annotations": []}});
        self.push("response.content_part.added", with(&place, part("")));
        self.spread("response.output_text.delta", &place, spoken);
        self.push("response.output_text.done", with(&place, json!({"text": text})));
        self.push("response.content_part.done", with(&place, part(&text)));
        self.done(text_item(id, &text));
    }

    fn reason(&mut self, id: &str, spoken: &Spoken, signature: &str) {
        let place = json!({"item_id": id, "output_index": self.output.len(), "summary_index": 0});
        let text = spoken.whole();
        self.add(&json!({"type": "reasoning", "id": id, "summary": []}));
        let part = |text: &str| json!({"part": {"type": "summary_text", "text": text}});
        self.push("response.reasoning_summary_part.added", with(&place, part("")));
        self.spread("response.reasoning_summary_text.delta", &place, spoken);
        self.push("response.reasoning_summary_text.done", with(&place, json!({"text": text})));
        self.push("response.reasoning_summary_part.done", with(&place, part(&text)));
        self.done(reasoning_item(id, &text, signature));
    }

    fn call(&mut self, id: &str, call_id: &str, name: &str, input: &Spoken) {
        let place = json!({"item_id": id, "output_index": self.output.len()});
        let arguments = input.whole();
        let mut begun = call_item(id, call_id, name, "");
        begun["status"] = json!("in_progress");
        self.add(&begun);
        self.spread("response.function_call_arguments.delta", &place, input);
        let all = json!({"arguments": arguments});
        self.push("response.function_call_arguments.done", with(&place, all));
        self.done(call_item(id, call_id, name, &arguments));
    }

    fn add(&mut self, item: &Json) {
        self.push("response.output_item.added", json!({"output_index": self.output.len(), "item": item}));
    }

    fn done(&mut self, item: Json) {
        self.push("response.output_item.done", json!({"output_index": self.output.len(), "item": item}));
        self.output.push(item);
    }

    fn spread(&mut self, name: &str, place: &Json, spoken: &Spoken) {
        let sequence = &mut self.sequence;
        self.timeline.spread(spoken, |piece| {
            let mut fields = with(place, json!({"delta": piece}));
            fields["sequence_number"] = json!(*sequence);
            *sequence += 1;
            encode(name, fields)
        });
    }

    fn push(&mut self, name: &str, fields: Json) {
        let bytes = self.event(name, fields);
        self.timeline.push(bytes);
    }

    fn event(&mut self, name: &str, mut fields: Json) -> Vec<u8> {
        fields["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        encode(name, fields)
    }
}

fn encode(name: &str, fields: Json) -> Vec<u8> {
    let data = with(&json!({"type": name}), fields);
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}

/// The fields of both objects.
fn with(first: &Json, second: Json) -> Json {
    let mut all = first.clone();
    if let (Json::Object(all), Json::Object(second)) = (&mut all, second) {
        all.extend(second);
    }
    all
}

fn end(answer: &Answer, output: &[Json]) -> (&'static str, Json) {
    let reason = match answer.stop {
        StopReason::MaxTokens | StopReason::ContextExceeded => "max_output_tokens",
        StopReason::Refusal => "content_filter",
        StopReason::EndTurn
        | StopReason::ToolUse
        | StopReason::StopSequence
        | StopReason::PauseTurn
        | StopReason::Other(_) => return ("response.completed", response(answer, "completed", output)),
    };
    let mut ended = response(answer, "incomplete", output);
    ended["incomplete_details"] = json!({"reason": reason});
    ("response.incomplete", ended)
}

fn response(answer: &Answer, status: &str, output: &[Json]) -> Json {
    let used = if status == "in_progress" { Json::Null } else { usage(answer.usage) };
    json!({
        "id": format!("resp_{}", answer.number),
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "model": answer.model,
        "output": output,
        "usage": used,
    })
}

fn text_item(id: &str, text: &str) -> Json {
    let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
    json!({"type": "message", "id": id, "status": "completed", "role": "assistant", "content": content})
}

fn reasoning_item(id: &str, text: &str, signature: &str) -> Json {
    let summary = json!([{"type": "summary_text", "text": text}]);
    json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": signature})
}

fn call_item(id: &str, call_id: &str, name: &str, arguments: &str) -> Json {
    json!({"type": "function_call", "id": id, "call_id": call_id, "name": name,
        "arguments": arguments, "status": "completed"})
}

fn item_id(kind: &str, answer: &Answer, step: usize) -> String {
    format!("{kind}_{}_{}", answer.number, step + 1)
}

fn usage(usage: Usage) -> Json {
    let input = usage.input + usage.cache_read + usage.cache_write;
    json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + usage.output,
    })
}
