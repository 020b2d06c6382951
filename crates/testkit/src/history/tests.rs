//! Conversations the APIs take, and one for each reason to refuse them.

use super::*;
use serde_json::json;

#[track_caller]
fn valid(protocol: Protocol, body: &Json) {
    assert_eq!(check_history(protocol, body), Ok(()));
}

#[track_caller]
fn invalid(protocol: Protocol, body: &Json, expected: &str) {
    let problem = check_history(protocol, body).unwrap_err();
    assert!(problem.contains(expected), "{problem:?} does not contain {expected:?}");
}

fn anthropic(messages: &[Json]) -> Json {
    json!({"messages": messages})
}

fn user(content: &Json) -> Json {
    json!({"role": "user", "content": content})
}

fn assistant(content: &Json) -> Json {
    json!({"role": "assistant", "content": content})
}

fn tool_use(id: &str) -> Json {
    json!({"type": "tool_use", "id": id, "name": "Read", "input": {}})
}

fn tool_result(id: &str) -> Json {
    json!({"type": "tool_result", "tool_use_id": id, "content": "ok"})
}

fn text(text: &str) -> Json {
    json!({"type": "text", "text": text})
}

#[test]
fn anthropic_takes_a_tool_loop() {
    valid(
        Protocol::Anthropic,
        &anthropic(&[
            user(&json!("go")),
            assistant(&json!([text("so"), tool_use("a"), tool_use("b")])),
            user(&json!([tool_result("b"), tool_result("a"), text("and hurry")])),
            assistant(&json!("done")),
            user(&json!([text("thanks")])),
        ]),
    );
}

#[test]
fn anthropic_refuses_what_breaks_requests() {
    let refused = |messages: &[Json], expected: &str| {
        invalid(Protocol::Anthropic, &anthropic(messages), expected);
    };
    let go = || user(&json!("go"));
    let calls = |ids: &[&str]| assistant(&ids.iter().map(|id| tool_use(id)).collect());
    refused(&[], "no messages");
    refused(&[assistant(&json!("hi"))], "roles alternate");
    refused(&[go(), go()], "roles alternate");
    refused(&[go(), calls(&["a"])], "the conversation ends");
    refused(&[go(), calls(&["a"]), user(&json!("well"))], "\"a\" has no tool_result");
    refused(&[go(), calls(&["a", "b"]), user(&json!([tool_result("a")]))], "\"b\" has no tool_result");
    refused(&[user(&json!([tool_result("a")]))], "orphan");
    refused(&[go(), calls(&["a"]), user(&json!([tool_result("a"), tool_result("a")]))], "two results");
    refused(&[go(), calls(&["a"]), user(&json!([text("x"), tool_result("a")]))], "after other content");
    refused(&[go(), calls(&["a", "a"]), user(&json!([tool_result("a")]))], "twice");
    refused(&[user(&json!(""))], "says nothing");
    refused(&[user(&json!([text(" ")]))], "empty text");
    refused(&[user(&json!([]))], "no content");
    let thinking = json!([{"type": "thinking", "thinking": "hm", "signature": ""}]);
    refused(&[go(), assistant(&thinking), go()], "no signature");
    let string_input = json!([{"type": "tool_use", "id": "a", "name": "X", "input": "{}"}]);
    refused(&[go(), assistant(&string_input), user(&json!([tool_result("a")]))], "not an object");
}

#[test]
fn anthropic_counts_cache_marks() {
    let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let blocks: Vec<Json> = vec![marked; 5];
    invalid(Protocol::Anthropic, &anthropic(&[user(&json!(blocks))]), "5 blocks");
}

fn chat_call(id: &str, arguments: &str) -> Json {
    let function = json!({"name": "Read", "arguments": arguments});
    let call = json!({"id": id, "type": "function", "function": function});
    json!({"role": "assistant", "content": null, "tool_calls": [call]})
}

fn chat_result(id: &str) -> Json {
    json!({"role": "tool", "tool_call_id": id, "content": ""})
}

#[test]
fn chat_wants_results_right_after_their_calls() {
    let go = || user(&json!("go"));
    let body = |messages: &[Json]| json!({"messages": messages});
    let system = json!({"role": "system", "content": "s"});
    valid(Protocol::Chat, &body(&[system, go(), chat_call("a", "{}"), chat_result("a"), go()]));
    let refused = |messages: &[Json], expected: &str| invalid(Protocol::Chat, &body(messages), expected);
    refused(&[go(), chat_result("a")], "orphan");
    refused(&[go(), chat_call("a", "{}"), go(), chat_result("a")], "no tool message");
    refused(&[go(), chat_call("a", "{}")], "the conversation ends");
    refused(&[go(), chat_call("a", "{}"), chat_result("a"), chat_result("a")], "orphan");
    refused(&[go(), chat_call("a", "{\"x\":"), chat_result("a")], "arguments");
    refused(&[go(), json!({"role": "assistant", "content": null})], "neither");
    refused(&[user(&json!(""))], "says nothing");
}

#[test]
fn responses_wants_each_call_answered_once() {
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "Read", "arguments": "{}"});
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "x"});
    let go = || json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]});
    let reasoning = || json!({"type": "reasoning", "id": "r", "summary": []});
    let body = |input: &[Json]| json!({"input": input});
    valid(Protocol::Responses, &json!({"input": "go"}));
    valid(
        Protocol::Responses,
        &body(&[go(), reasoning(), call("a"), call("b"), output("b"), output("a"), go()]),
    );
    let refused = |input: &[Json], expected: &str| invalid(Protocol::Responses, &body(input), expected);
    refused(&[go(), output("a")], "orphan");
    refused(&[go(), call("a")], "the input ends");
    refused(&[go(), call("a"), go()], "no output before it");
    refused(&[go(), call("a"), output("a"), output("a")], "orphan");
    refused(&[go(), reasoning(), go()], "follows the reasoning");
}

#[test]
#[should_panic(expected = "orphan")]
fn the_assertion_finds_the_protocol_itself() {
    assert_valid_history(&json!({"messages": [user(&json!("go")), chat_result("a")]}));
}
