//! Anthropic Messages on the wire: an answer as events, as one message, or as an error.

use crate::{
    play::{Answer, Said},
    wire::{Frame, Timeline},
};
use ostler_proto::{Json, Usage};
use serde_json::json;

/// The answer as a stream of events.
pub(crate) fn stream(answer: &Answer) -> Vec<Frame> {
    let mut timeline = Timeline::new();
    let mut start = message(answer, &[]);
    start["stop_reason"] = Json::Null;
    start["usage"]["output_tokens"] = json!(1);
    timeline.push(event(&json!({"type": "message_start", "message": start})));
    timeline.push(event(&json!({"type": "ping"})));
    let mut blocks = 0;
    for (step, said) in answer.said.iter().enumerate() {
        timeline.begin_step(step);
        blocks += usize::from(say(&mut timeline, blocks, said));
        timeline.end_step();
    }
    let stop = json!({"stop_reason": answer.stop, "stop_sequence": null});
    timeline.finish([
        event(&json!({"type": "message_delta", "delta": stop, "usage": usage(answer.usage)})),
        event(&json!({"type": "message_stop"})),
    ])
}

/// The answer as one JSON value, for a request that does not stream.
pub(crate) fn whole(answer: &Answer) -> Json {
    let blocks: Vec<Json> = answer.said.iter().filter_map(whole_block).collect();
    message(answer, &blocks)
}

/// What the API says of a failure.
pub(crate) fn error(status: u16, message: &str) -> Json {
    let kind = match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

/// Says in the middle of a stream that the service is overloaded.
pub(crate) fn overload() -> Vec<u8> {
    event(&error(529, "Overloaded"))
}

/// Says one block; false when it was none.
fn say(timeline: &mut Timeline, index: usize, said: &Said) -> bool {
    let start =
        |block: Json| event(&json!({"type": "content_block_start", "index": index, "content_block": block}));
    let delta = |kind: &str, key: &str, text: &str| {
        event(&json!({"type": "content_block_delta", "index": index, "delta": {"type": kind, key: text}}))
    };
    match said {
        Said::Text(spoken) => {
            timeline.push(start(json!({"type": "text", "text": ""})));
            timeline.spread(spoken, |piece| delta("text_delta", "text", piece));
        }
        Said::Thinking { text, signature } => {
            timeline.push(start(json!({"type": "thinking", "thinking": "", "signature": ""})));
            timeline.spread(text, |piece| delta("thinking_delta", "thinking", piece));
            timeline.push(delta("signature_delta", "signature", signature));
        }
        Said::Call { id, name, input } => {
            timeline.push(start(json!({"type": "tool_use", "id": id, "name": name, "input": {}})));
            timeline.spread(input, |piece| delta("input_json_delta", "partial_json", piece));
        }
        Said::Pause(time) => {
            timeline.wait(*time);
            return false;
        }
    }
    timeline.push(event(&json!({"type": "content_block_stop", "index": index})));
    true
}

fn whole_block(said: &Said) -> Option<Json> {
    Some(match said {
        Said::Text(spoken) => json!({"type": "text", "text": spoken.whole()}),
        Said::Thinking { text, signature } => {
            json!({"type": "thinking", "thinking": text.whole(), "signature": signature})
        }
        Said::Call { id, name, input } => {
            let text = input.whole();
            let input: Json = serde_json::from_str(&text).unwrap_or(Json::String(text));
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }
        Said::Pause(_) => return None,
    })
}

fn message(answer: &Answer, content: &[Json]) -> Json {
    json!({
        "id": format!("msg_{}", answer.number),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": answer.stop,
        "stop_sequence": null,
        "usage": usage(answer.usage),
    })
}

fn usage(usage: Usage) -> Json {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    })
}

fn event(data: &Json) -> Vec<u8> {
    let name = data["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}
