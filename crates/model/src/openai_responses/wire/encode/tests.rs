//! Requests in the Responses API's words.

use super::*;
use ostler_proto::{Interrupt, SystemText, ToolCall, ToolResult};
use serde_json::json;
use std::sync::Arc;

fn written(request: &Request, row: &ModelRow) -> Vec<u8> {
    encode(request, row, &mut Written::default())
}

fn row() -> ModelRow {
    ModelRow { thinking: true, images: true, ..ModelRow::default() }
}

fn request(messages: Vec<Message>) -> Request {
    Request {
        model: "gpt-x".to_owned(),
        system: vec![SystemText { text: "Be brief.".to_owned(), cache: true }],
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
        effort: Some(Effort::High),
    }
}

fn conversation() -> Vec<Message> {
    let input = json!({"file_path": "/a"});
    let call = ToolCall { id: "call_1".into(), name: "Read".to_owned(), input, problem: None };
    let picture =
        Block::Image(Source::Base64 { media_type: "image/png".to_owned(), data: "QUJD".to_owned() });
    let paper = Block::Document(Source::Url { url: "https://example.org/a.pdf".to_owned() });
    let result =
        ToolResult { id: "call_1".into(), content: vec![Block::text("seen"), picture], is_error: true };
    vec![
        Message::user(vec![Block::text("look"), paper]),
        Message::assistant(vec![
            Block::Thinking { text: "Look first.".to_owned(), signature: String::new() },
            Block::Opaque(
                json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}),
            ),
            Block::Opaque(json!({"type": "reasoning", "id": "rs_2", "summary": []})),
            Block::Opaque(json!({"type": "redacted_thinking", "data": "z"})),
            Block::text("Reading."),
            Block::ToolUse(call),
        ]),
        Message::user(vec![Block::ToolResult(result), Block::text("go on")]),
    ]
}

#[test]
fn a_conversation_becomes_items() {
    let text = String::from_utf8(written(&request(conversation()), &row())).unwrap();
    insta::assert_snapshot!(text.replace("{\"type\":\"", "\n{\"type\":\""), @r#"
    {"model":"gpt-x","stream":true,"store":false,"include":["reasoning.encrypted_content"],"reasoning":{"effort":"high","summary":"auto"},"max_output_tokens":4096,"tools":[
    {"type":"function","name":"Read","description":"Reads.","parameters":
    {"type":"object"},"strict":false}],"instructions":"Be brief.","input":[
    {"type":"message","role":"user","content":[
    {"type":"input_text","text":"look"},
    {"type":"input_file","file_url":"https://example.org/a.pdf"}]},
    {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"},
    {"type":"message","role":"assistant","content":[
    {"type":"output_text","text":"Reading."}]},
    {"type":"function_call","call_id":"call_1","name":"Read","arguments":"{\"file_path\":\"/a\"}"},
    {"type":"function_call_output","call_id":"call_1","output":"seen"},
    {"type":"message","role":"user","content":[
    {"type":"input_image","image_url":"data:image/png;base64,QUJD"},
    {"type":"input_text","text":"go on"}]}]}
    "#);
}

#[test]
fn consecutive_requests_share_their_beginning() {
    let all = conversation();
    for end in 1..all.len() {
        let before = written(&request(all[..end].to_vec()), &row());
        let after = written(&request(all[..=end].to_vec()), &row());
        assert!(after.starts_with(&before[..before.len() - "]}".len()]));
    }
}

#[test]
fn a_model_that_does_not_think_gets_no_reasoning() {
    let text = String::from_utf8(written(&request(conversation()), &ModelRow::default())).unwrap();
    assert!(!text.contains("reasoning"), "{text}");
}
