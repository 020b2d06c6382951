//! What is said arrives: each protocol's stream and whole answer, parsed back.

use crate::{anthropic, ask, events, joined, post, start};
use ostler_testkit::{Ended, Options, Protocol, Server, script};
use serde_json::{Value, json};

const SCRIPT: &str = r#"
[[turn]]
steps = [
    { thinking = "hm, {{prompt}}" },
    { text = "Grüße, ok", pieces = 4 },
    { call = "Read", input = { path = "{{cwd}}/a", limit = 3 }, pieces = 5 },
    { call = "Bash", raw = '{"command": ' },
]
usage = { input_tokens = 10, output_tokens = 20, cache_read_input_tokens = 5 }

[[turn]]
expect = ["forty-two"]
steps = [{ text = "It is {{result.1}}, {{result.call_1_1}}" }]
"#;

fn in_folder() -> Server {
    let options = Options { cwd: Some("/w".into()), ..Options::default() };
    Server::start_with(script(SCRIPT), options).unwrap()
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}

#[tokio::test]
async fn anthropic_streams_blocks_in_order() {
    let server = in_folder();
    let events = events(&ask(&server, "/v1/messages?beta=true", &anthropic("why?")).await);
    let started = &events[0]["message"];
    assert_eq!((&started["model"], &started["role"]), (&json!("m"), &json!("assistant")));
    assert_eq!(started["usage"]["input_tokens"], 10);
    let seen = types(&events);
    assert_eq!(seen[..3], ["message_start", "ping", "content_block_start"]);
    assert_eq!(seen[seen.len() - 2..], ["message_delta", "message_stop"]);
    assert_eq!(seen.iter().filter(|name| **name == "content_block_stop").count(), 4);

    let of_block = |index: u64| {
        let own = |event: &&Value| event["index"] == index;
        events.iter().filter(own).cloned().collect::<Vec<_>>()
    };
    assert_eq!(joined(&of_block(0), "/delta/thinking"), "hm, why?");
    assert_eq!(joined(&of_block(0), "/delta/signature"), "signature-1-1");
    assert_eq!(joined(&of_block(1), "/delta/text"), "Grüße, ok");
    assert_eq!(of_block(1).len(), 4 + 2);
    let call = of_block(2);
    assert_eq!(
        call[0]["content_block"],
        json!({"type": "tool_use", "id": "call_1_1", "name": "Read", "input": {}})
    );
    assert_eq!(call.len(), 5 + 2);
    let input: Value = serde_json::from_str(&joined(&call, "/delta/partial_json")).unwrap();
    assert_eq!(input, json!({"path": "/w/a", "limit": 3}));
    assert_eq!(joined(&of_block(3), "/delta/partial_json"), r#"{"command": "#);
    let end = &events[events.len() - 2];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
    assert_eq!(
        (&end["usage"]["output_tokens"], &end["usage"]["cache_read_input_tokens"]),
        (&json!(20), &json!(5))
    );

    let result = json!({"messages": [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1_1", "content": "forty-two"}]}
    ]});
    let whole: Value = serde_json::from_str(&ask(&server, "/v1/messages", &result).await).unwrap();
    assert_eq!(whole["content"], json!([{"type": "text", "text": "It is forty-two, forty-two"}]));
    assert_eq!((&whole["type"], &whole["stop_reason"]), (&json!("message"), &json!("end_turn")));
    server.assert_no_failures();
}

#[tokio::test]
async fn chat_streams_chunks() {
    let server = in_folder();
    let body = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "why?"}]});
    let events = events(&ask(&server, "/v1/chat/completions", &body).await);
    assert_eq!(events.last(), Some(&json!("[DONE]")));
    let usage = &events[events.len() - 2];
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(
        (&usage["usage"]["prompt_tokens"], &usage["usage"]["completion_tokens"]),
        (&json!(15), &json!(20))
    );
    assert_eq!(usage["usage"]["prompt_tokens_details"]["cached_tokens"], 5);
    assert_eq!(events[events.len() - 3]["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(joined(&events, "/choices/0/delta/reasoning_content"), "hm, why?");
    assert_eq!(joined(&events, "/choices/0/delta/content"), "Grüße, ok");
    let of_call = |index: u64| {
        let own = |event: &&Value| event["choices"][0]["delta"]["tool_calls"][0]["index"] == index;
        events.iter().filter(own).cloned().collect::<Vec<_>>()
    };
    let start = &of_call(0)[0]["choices"][0]["delta"]["tool_calls"][0];
    assert_eq!((&start["id"], &start["function"]["name"]), (&json!("call_1_1"), &json!("Read")));
    let arguments = joined(&of_call(0), "/choices/0/delta/tool_calls/0/function/arguments");
    assert_eq!(arguments, r#"{"path":"/w/a","limit":3}"#);
    assert_eq!(joined(&of_call(1), "/choices/0/delta/tool_calls/0/id"), "call_1_2");

    let result = json!({"messages": [{"role": "tool", "tool_call_id": "call_1_1", "content": "forty-two"}]});
    let whole: Value = serde_json::from_str(&ask(&server, "/chat/completions", &result).await).unwrap();
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"], json!({"role": "assistant", "content": "It is forty-two, forty-two"}));
    assert_eq!((&whole["object"], &choice["finish_reason"]), (&json!("chat.completion"), &json!("stop")));
}

#[tokio::test]
async fn chat_leaves_usage_out_unless_asked() {
    let server = start("[[turn]]\nsteps = [{ text = 'hi' }]");
    let body = json!({"stream": true, "messages": [{"role": "user", "content": "?"}]});
    let events = events(&ask(&server, "/v1/chat/completions", &body).await);
    assert!(events.iter().all(|event| event.get("usage").is_none()));
}

#[tokio::test]
async fn responses_streams_items() {
    let server = in_folder();
    let body = json!({"model": "m", "stream": true, "input": "why?"});
    let events = events(&ask(&server, "/v1/responses", &body).await);
    let sequence: Vec<u64> = events.iter().filter_map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(sequence, (0..events.len() as u64).collect::<Vec<_>>());
    assert_eq!(types(&events)[..2], ["response.created", "response.in_progress"]);
    let only = |name: &str| {
        let own = |event: &&Value| event["type"] == name;
        events.iter().filter(own).cloned().collect::<Vec<_>>()
    };
    assert_eq!(joined(&only("response.output_text.delta"), "/delta"), "Grüße, ok");
    assert_eq!(joined(&only("response.reasoning_summary_text.delta"), "/delta"), "hm, why?");
    let done: Vec<Value> =
        only("response.output_item.done").into_iter().map(|event| event["item"].clone()).collect();
    assert_eq!(done.len(), only("response.output_item.added").len());
    let kinds: Vec<&str> = types(&done);
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"]);
    assert_eq!((&done[2]["call_id"], &done[2]["name"]), (&json!("call_1_1"), &json!("Read")));
    let deltas = only("response.function_call_arguments.delta");
    let own: Vec<Value> = deltas.into_iter().filter(|event| event["item_id"] == done[2]["id"]).collect();
    assert_eq!(own.len(), 5);
    assert_eq!(json!(joined(&own, "/delta")), done[2]["arguments"]);
    let end = &events[events.len() - 1];
    assert_eq!(end["type"], "response.completed");
    assert_eq!(end["response"]["output"], json!(done));
    assert_eq!(end["response"]["usage"]["input_tokens"], 15);

    let result =
        json!({"input": [{"type": "function_call_output", "call_id": "call_1_1", "output": "forty-two"}]});
    let whole: Value = serde_json::from_str(&ask(&server, "/responses", &result).await).unwrap();
    assert_eq!(whole["output"][0]["content"][0]["text"], "It is forty-two, forty-two");
}

#[tokio::test]
async fn a_cut_off_answer_says_why_it_stopped() {
    let text = "[[turn]]\nsteps = [{ text = 'so' }]\nstop = 'max_tokens'\nwire = { repeat = 2 }";
    let server = start(text);
    let anthropic = events(&ask(&server, "/v1/messages", &anthropic("?")).await);
    assert_eq!(anthropic[anthropic.len() - 2]["delta"]["stop_reason"], "max_tokens");
    let body = json!({"stream": true, "messages": [{"role": "user", "content": "?"}], "input": "?"});
    let chat = events(&ask(&server, "/v1/chat/completions", &body).await);
    assert_eq!(chat[chat.len() - 2]["choices"][0]["finish_reason"], "length");
    let responses = events(&ask(&server, "/v1/responses", &body).await);
    let last = &responses[responses.len() - 1];
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
}

#[tokio::test]
async fn requests_are_recorded_with_their_times() {
    let text =
        "[[turn]]\nsteps = [{ text = 'a', over_ms = 30, pieces = 2 }, { pause_ms = 20 }, { call = 'X' }]";
    let server = start(text);
    ask(&server, "/v1/messages", &anthropic("hello")).await;
    let requests = server.wait_for_answers(1).await;
    let request = &requests[0];
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/messages"));
    assert_eq!(request.body_json(), anthropic("hello"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(
        (request.protocol, request.turn, request.status),
        (Some(Protocol::Anthropic), Some(0), Some(200))
    );
    assert_eq!(request.ended, Some(Ended::Whole));
    let steps: Vec<usize> = request.marks.iter().map(|mark| mark.step).collect();
    assert_eq!(steps, [0, 1, 2]);
    let first = request.first_byte_sent.unwrap();
    assert!(request.arrived <= request.arrived_complete && request.arrived_complete <= first);
    // The script's times are lower bounds; nothing is said about how much later it may be.
    assert!(request.step_sent(1).unwrap() - request.arrived >= std::time::Duration::from_millis(50));
    assert!(request.answered.unwrap() >= request.step_sent(2).unwrap());
}

#[tokio::test]
async fn other_paths_take_no_turn() {
    let server = start("[[turn]]\nsteps = [{ text = 'hi' }]");
    let counted = ask(&server, "/v1/messages/count_tokens", &anthropic("hello")).await;
    assert!(serde_json::from_str::<Value>(&counted).unwrap()["input_tokens"].as_u64() > Some(5));
    let unknown = post(&server, "/v1/completions", &json!({})).await.unwrap();
    assert_eq!(unknown.status(), 404);
    assert!(ask(&server, "/v1/messages", &anthropic("hello")).await.contains("message_stop"));
    assert_eq!((server.requests().len(), server.all_requests().len()), (1, 3));
}

#[tokio::test]
async fn a_growing_conversation_passes_and_a_rewritten_one_fails() {
    let text = "[[turn]]\nsteps = [{ text = 'hi' }]\nwire = { repeat = 2 }";
    let server = Server::start(script(text)).await;
    let mut body = anthropic("go");
    ask(&server, "/v1/messages", &body).await;
    let more = [json!({"role": "assistant", "content": "hi"}), json!({"role": "user", "content": "on"})];
    body["messages"].as_array_mut().unwrap().extend(more);
    ask(&server, "/v1/messages", &body).await;
    server.assert_append_only();
    server.assert_valid_histories();
    body["messages"][1]["content"] = json!("bye");
    ask(&server, "/v1/messages", &body).await;
    let requests = server.wait_for_requests(3).await;
    let problem = ostler_testkit::check_append_only(&requests).unwrap_err();
    assert!(problem.contains("request 3 does not extend request 2: messages[1].content[0]"), "{problem}");
}
