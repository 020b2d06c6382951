//! Requests in the Messages API's words.

use super::*;
use ostler_proto::{Interrupt, Message, SystemText, ToolCall, ToolResult, ToolSpec};
use serde_json::json;
use std::sync::Arc;

fn written(request: &Request, row: &ModelRow) -> Vec<u8> {
    encode(request, row, &mut Written::default())
}

fn row() -> ModelRow {
    ModelRow { thinking: true, cache_breakpoints: true, images: true, ..ModelRow::default() }
}

fn request(messages: Vec<Message>) -> Request {
    Request {
        model: "claude-x".to_owned(),
        system: vec![
            SystemText { text: "You are here.".to_owned(), cache: true },
            SystemText { text: "  ".to_owned(), cache: true },
        ],
        tools: Arc::new([ToolSpec {
            name: "Read".to_owned(),
            aliases: vec![],
            description: "Reads.".to_owned(),
            schema: json!({"type": "object"}),
            interrupt: Interrupt::Cancel,
            max_result: 0,
            guidance: String::new(),
        }]),
        messages: messages.into_iter().map(Arc::new).collect(),
        max_output_tokens: 4_096,
        thinking: Thinking::Auto,
        effort: None,
    }
}

fn body(request: &Request, row: &ModelRow) -> Json {
    serde_json::from_slice(&written(request, row)).unwrap()
}

fn user(text: &str) -> Message {
    Message::user(vec![Block::text(text)])
}

fn call(id: &str) -> Block {
    let input = json!({"file_path": "/a"});
    Block::ToolUse(ToolCall { id: id.into(), name: "Read".to_owned(), input, problem: None })
}

fn result(id: &str, content: Vec<Block>) -> Block {
    Block::ToolResult(ToolResult { id: id.into(), content, is_error: false })
}

#[test]
fn a_request_has_its_conversation_last() {
    let text = String::from_utf8(written(&request(vec![user("hi")]), &row())).unwrap();
    insta::assert_snapshot!(text, @r#"{"model":"claude-x","max_tokens":4096,"stream":true,"tools":[{"name":"Read","description":"Reads.","input_schema":{"type":"object"}}],"system":[{"type":"text","text":"You are here.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]}"#);
}

/// Where marks stand, as places in the body without them.
fn marks(request: &Request) -> Vec<usize> {
    const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;
    let text = String::from_utf8(written(request, &row())).unwrap();
    let unmarked = text.match_indices(MARK).enumerate();
    unmarked.map(|(number, (at, _))| at - number * MARK.len()).collect()
}

#[test]
fn consecutive_requests_share_their_beginning() {
    let plain = ModelRow { cache_breakpoints: false, ..row() };
    let mut messages = vec![user("one")];
    for turn in 0..5 {
        let before = request(messages.clone());
        // A single answer may propose more calls than a look-back of the cache reaches.
        let calls: Vec<String> = (0..=turn * 20).map(|call| format!("c{turn}_{call}")).collect();
        messages.push(Message::assistant(calls.iter().map(|id| call(id)).collect()));
        let results = calls.iter().map(|id| result(id, vec![Block::text("x".repeat(100))]));
        messages.push(Message::user(results.collect()));
        let after = request(messages.clone());
        // All but the closing brackets is a prefix.
        let (early, late) = (written(&before, &plain), written(&after, &plain));
        assert!(late.starts_with(&early[..early.len() - "]}".len()]));
        let (early, late) = (marks(&before), marks(&after));
        assert!(late.len() <= CACHE_MARKS, "{late:?}");
        let is_far = 2 * calls.len() + 1 >= LOOK_BACK;
        assert_eq!(late.contains(early.last().unwrap()), is_far, "{early:?} {late:?}");
    }
}

#[test]
fn tools_are_marked_where_no_system_prompt_is() {
    let mut request = request(vec![user("hi")]);
    assert!(body(&request, &row())["tools"][0].get("cache_control").is_none());
    request.system.clear();
    assert_eq!(body(&request, &row())["tools"][0]["cache_control"], json!({"type": "ephemeral"}));
}

#[test]
fn what_cannot_be_marked_is_passed_over() {
    let opaque = Block::Opaque(json!({"type": "search_result", "source": "s"}));
    let sent = body(&request(vec![Message::user(vec![Block::text("a"), opaque])]), &row());
    assert_eq!(sent["messages"][0]["content"][0]["cache_control"], json!({"type": "ephemeral"}));
}

#[test]
fn cache_marks_are_few_and_at_the_boundaries() {
    let mut request = request(vec![user("a"), Message::assistant(vec![Block::text("b")]), user("c")]);
    request.system = (0..6).map(|n| SystemText { text: n.to_string(), cache: n != 3 }).collect();
    let sent = body(&request, &row());
    let marked: Vec<bool> =
        sent["system"].as_array().unwrap().iter().map(|part| part.get("cache_control").is_some()).collect();
    assert_eq!(marked, [false, false, false, false, true, true]);
    assert!(sent["messages"][0]["content"][0].get("cache_control").is_none());
    assert_eq!(sent["messages"][2]["content"][0]["cache_control"], json!({"type": "ephemeral"}));
    let unmarked =
        String::from_utf8(written(&request, &ModelRow { cache_breakpoints: false, ..row() })).unwrap();
    assert!(!unmarked.contains("cache_control"));
}

#[test]
fn only_what_the_api_takes_is_sent_back() {
    let redacted = json!({"type": "redacted_thinking", "data": "z"});
    let search = json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": []});
    let cited = json!({"type": "text", "text": "t", "citations": []});
    let signed = Block::Thinking { text: String::new(), signature: "sig".to_owned() };
    let unsigned = Block::Thinking { text: "thought".to_owned(), signature: String::new() };
    let foreign = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "e"});
    let assistant = Message::assistant(vec![
        signed,
        unsigned,
        Block::Opaque(redacted.clone()),
        Block::Opaque(foreign),
        Block::Opaque(search.clone()),
        Block::Opaque(cited.clone()),
        Block::Opaque(json!({"type": "text", "text": " ", "citations": []})),
        Block::text(" \n"),
        call("c"),
    ]);
    let answers = Message::user(vec![
        Block::text("and"),
        result("c", vec![Block::text(""), Block::Image(Source::Url { url: "u".to_owned() })]),
        result("d", vec![]),
    ]);
    let empty = Message::assistant(vec![Block::text("")]);
    let sent = body(
        &request(vec![user("hi"), assistant, answers, empty]),
        &ModelRow { cache_breakpoints: false, ..row() },
    );
    assert_eq!(
        sent["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "", "signature": "sig"},
                redacted,
                search,
                cited,
                {"type": "tool_use", "id": "c", "name": "Read", "input": {"file_path": "/a"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "image", "source": {"type": "url", "url": "u"}}]},
                {"type": "tool_result", "tool_use_id": "d"},
                {"type": "text", "text": "and"},
            ]},
        ])
    );
}

#[track_caller]
fn check_thinking(reasoning: Reasoning, thinking: Thinking, expected: &Json) {
    let request = Request { thinking, effort: Some(Effort::Xhigh), ..request(vec![user("hi")]) };
    let sent = body(&request, &ModelRow { reasoning, ..row() });
    assert_eq!(sent.get("thinking").cloned().unwrap_or_default(), *expected, "{reasoning:?} {thinking:?}");
    let effort = if reasoning == Reasoning::Budget { Json::Null } else { json!({"effort": "xhigh"}) };
    assert_eq!(sent.get("output_config").cloned().unwrap_or_default(), effort);
}

#[test]
fn thinking_is_asked_for_in_the_models_way() {
    let adaptive = || json!({"type": "adaptive", "display": "summarized"});
    let budget = |tokens: u64| json!({"type": "enabled", "budget_tokens": tokens});
    check_thinking(Reasoning::Budget, Thinking::Auto, &Json::Null);
    check_thinking(Reasoning::Budget, Thinking::Disabled, &json!({"type": "disabled"}));
    check_thinking(Reasoning::Budget, Thinking::Budget(2_000), &budget(2_000));
    check_thinking(Reasoning::Budget, Thinking::Budget(5), &budget(1_024));
    check_thinking(Reasoning::Budget, Thinking::Budget(1_000_000), &budget(4_095));
    check_thinking(Reasoning::Budget, Thinking::Adaptive, &budget(2_048));
    check_thinking(Reasoning::Adaptive, Thinking::Auto, &Json::Null);
    check_thinking(Reasoning::Adaptive, Thinking::Disabled, &json!({"type": "disabled"}));
    check_thinking(Reasoning::Adaptive, Thinking::Budget(2_000), &adaptive());
    check_thinking(Reasoning::Always, Thinking::Disabled, &adaptive());
    check_thinking(Reasoning::Always, Thinking::Auto, &adaptive());
    let small =
        Request { thinking: Thinking::Budget(2_000), max_output_tokens: 1_024, ..request(vec![user("hi")]) };
    assert!(body(&small, &row()).get("thinking").is_none());
}

#[test]
fn a_row_may_name_the_model_and_forbid_parallel_calls() {
    let row = ModelRow { name: Some("other".to_owned()), parallel_calls: false, ..row() };
    let sent = body(&request(vec![user("hi")]), &row);
    assert_eq!(sent["model"], "other");
    assert_eq!(sent["tool_choice"], json!({"type": "auto", "disable_parallel_tool_use": true}));
}
