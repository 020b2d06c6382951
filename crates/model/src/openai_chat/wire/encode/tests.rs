//! Requests in the Chat Completions API's words.

use super::*;
use ostler_proto::{Interrupt, SystemText, Thinking, ToolResult};
use serde_json::json;
use std::sync::Arc;

fn written(request: &Request, row: &ModelRow) -> Vec<u8> {
    encode(request, row, &mut Written::default())
}

fn request(messages: Vec<Message>) -> Request {
    let system = |text: &str| SystemText { text: text.to_owned(), cache: true };
    Request {
        model: "gpt-x".to_owned(),
        system: vec![system("One."), system("Two.")],
        tools: Arc::new([ToolSpec {
            name: "mcp.files/read".to_owned(),
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

fn conversation() -> Vec<Message> {
    let call = |id: &str| {
        let input = json!({"path": "/a"});
        Block::ToolUse(ToolCall { id: id.into(), name: "mcp.files/read".to_owned(), input, problem: None })
    };
    let result =
        |id: &str, content| Block::ToolResult(ToolResult { id: id.into(), content, is_error: false });
    let picture =
        Block::Image(Source::Base64 { media_type: "image/png".to_owned(), data: "QUJD".to_owned() });
    vec![
        Message::user(vec![Block::text("look"), Block::text("here")]),
        Message::assistant(vec![
            Block::Thinking { text: "hm".to_owned(), signature: "s".to_owned() },
            Block::Opaque(json!({"type": "redacted_thinking", "data": "z"})),
            Block::text("Yes"),
            Block::text("."),
            call("a"),
            call("b"),
        ]),
        Message::user(vec![
            result("a", vec![Block::text("seen"), picture]),
            result("b", vec![]),
            Block::text("go on"),
        ]),
        Message::assistant(vec![Block::Thinking { text: "only".to_owned(), signature: String::new() }]),
        Message::user(vec![Block::text("well?")]),
    ]
}

#[test]
fn a_conversation_is_cut_as_the_api_wants_it() {
    let row = ModelRow { images: true, ..ModelRow::default() };
    let text = String::from_utf8(written(&request(conversation()), &row)).unwrap();
    insta::assert_snapshot!(text.replace("{\"role\"", "\n{\"role\""), @r#"
    {"model":"gpt-x","stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":4096,"tools":[{"type":"function","function":{"name":"mcp_files_read_9c0bda67","description":"Reads.","parameters":{"type":"object"}}}],"messages":[
    {"role":"system","content":"One.\n\nTwo."},
    {"role":"user","content":"look\n\nhere"},
    {"role":"assistant","content":"Yes.","tool_calls":[{"id":"a","type":"function","function":{"name":"mcp_files_read_9c0bda67","arguments":"{\"path\":\"/a\"}"}},{"id":"b","type":"function","function":{"name":"mcp_files_read_9c0bda67","arguments":"{\"path\":\"/a\"}"}}]},
    {"role":"tool","tool_call_id":"a","content":"seen"},
    {"role":"tool","tool_call_id":"b","content":""},
    {"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},{"type":"text","text":"go on"}]},
    {"role":"user","content":"well?"}]}
    "#);
}

#[test]
fn consecutive_requests_share_their_beginning() {
    let all = conversation();
    for end in 1..all.len() {
        let before = written(&request(all[..end].to_vec()), &ModelRow::default());
        let after = written(&request(all[..=end].to_vec()), &ModelRow::default());
        assert!(after.starts_with(&before[..before.len() - "]}".len()]));
    }
}

#[test]
fn a_model_that_cannot_see_is_told_so() {
    let text = String::from_utf8(written(&request(conversation()), &ModelRow::default())).unwrap();
    assert!(!text.contains("QUJD") && text.contains(crate::NO_IMAGES));
}

#[test]
fn effort_is_for_models_that_think() {
    let effort = |thinking, effort, row: &ModelRow| {
        let request = Request { thinking, effort, ..request(vec![]) };
        let body: Json = serde_json::from_slice(&written(&request, row)).unwrap();
        body.get("reasoning_effort").cloned()
    };
    let thinks = ModelRow { thinking: true, ..ModelRow::default() };
    assert_eq!(effort(Thinking::Auto, Some(Effort::High), &ModelRow::default()), None);
    assert_eq!(effort(Thinking::Auto, None, &thinks), None);
    assert_eq!(effort(Thinking::Auto, Some(Effort::Max), &thinks), Some(json!("max")));
    assert_eq!(effort(Thinking::Disabled, None, &thinks), Some(json!("low")));
    assert_eq!(effort(Thinking::Budget(10_000), None, &thinks), Some(json!("medium")));
    assert_eq!(effort(Thinking::Budget(50_000), None, &thinks), Some(json!("high")));
}
