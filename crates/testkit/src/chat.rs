//! `OpenAI` Chat Completions on the wire: an answer as chunks, as one completion, or as an error.

use crate::{
    play::{Answer, Said},
    wire::{Frame, Timeline},
};
use ostler_proto::{Json, StopReason, Usage};
use serde_json::json;

/// Whether a stream ends with a chunk of token counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsageChunk {
    Send,
    Leave,
}

/// The answer as a stream of chunks.
pub(crate) fn stream(answer: &Answer, usage_chunk: UsageChunk) -> Vec<Frame> {
    let mut timeline = Timeline::new();
    timeline.push(delta(answer, &json!({"role": "assistant", "content": ""})));
    let mut calls = 0;
    for (step, said) in answer.said.iter().enumerate() {
        timeline.begin_step(step);
        match said {
            Said::Text(spoken) => timeline.spread(spoken, |piece| delta(answer, &json!({"content": piece}))),
            Said::Thinking { text, .. } => {
                timeline.spread(text, |piece| delta(answer, &json!({"reasoning_content": piece})));
            }
            Said::Call { id, name, input } => {
                let function = json!({"name": name, "arguments": ""});
                let start = json!({"index": calls, "id": id, "type": "function", "function": function});
                timeline.push(delta(answer, &json!({"tool_calls": [start]})));
                timeline.spread(input, |piece| {
                    let more = json!({"index": calls, "function": {"arguments": piece}});
                    delta(answer, &json!({"tool_calls": [more]}))
                });
                calls += 1;
            }
            Said::Pause(time) => timeline.wait(*time),
        }
        timeline.end_step();
    }
    let finish = json!([{"index": 0, "delta": {}, "finish_reason": finish_reason(&answer.stop)}]);
    let mut closing = vec![data(&chunk(answer, &finish))];
    if usage_chunk == UsageChunk::Send {
        let mut last = chunk(answer, &json!([]));
        last["usage"] = usage(answer.usage);
        closing.push(data(&last));
    }
    closing.push(b"data: [DONE]\n\n".to_vec());
    timeline.finish(closing)
}

/// The answer as one JSON value, for a request that does not stream.
pub(crate) fn whole(answer: &Answer) -> Json {
    let (mut text, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
    for said in &answer.said {
        match said {
            Said::Text(spoken) => text.push_str(&spoken.whole()),
            Said::Thinking { text, .. } => reasoning.push_str(&text.whole()),
            Said::Call { id, name, input } => {
                let function = json!({"name": name, "arguments": input.whole()});
                calls.push(json!({"id": id, "type": "function", "function": function}));
            }
            Said::Pause(_) => {}
        }
    }
    let content = if text.is_empty() { Json::Null } else { Json::from(text) };
    let mut message = json!({"role": "assistant", "content": content});
    if !reasoning.is_empty() {
        message["reasoning_content"] = json!(reasoning);
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    let finish = finish_reason(&answer.stop);
    let mut completion = chunk(answer, &json!([{"index": 0, "message": message, "finish_reason": finish}]));
    completion["object"] = json!("chat.completion");
    completion["usage"] = usage(answer.usage);
    completion
}

/// What the API says of a failure; Responses shares it.
pub(crate) fn error(status: u16, message: &str) -> Json {
    let (kind, code) = match status {
        401 => ("invalid_request_error", json!("invalid_api_key")),
        403 => ("permission_error", Json::Null),
        404 => ("invalid_request_error", json!("model_not_found")),
        429 => ("requests", json!("rate_limit_exceeded")),
        500.. => ("server_error", Json::Null),
        _ => ("invalid_request_error", Json::Null),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// Says in the middle of a stream that the service is overloaded.
pub(crate) fn overload() -> Vec<u8> {
    data(&error(503, "The server is overloaded"))
}

fn delta(answer: &Answer, delta: &Json) -> Vec<u8> {
    data(&chunk(answer, &json!([{"index": 0, "delta": delta, "finish_reason": null}])))
}

fn chunk(answer: &Answer, choices: &Json) -> Json {
    json!({
        "id": format!("chatcmpl-{}", answer.number),
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": answer.model,
        "choices": choices,
    })
}

fn data(value: &Json) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}

fn usage(usage: Usage) -> Json {
    let prompt = usage.input + usage.cache_read + usage.cache_write;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": 0},
    })
}

fn finish_reason(stop: &StopReason) -> &str {
    match stop {
        StopReason::EndTurn | StopReason::StopSequence | StopReason::PauseTurn => "stop",
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens | StopReason::ContextExceeded => "length",
        StopReason::Refusal => "content_filter",
        StopReason::Other(name) => name,
    }
}
