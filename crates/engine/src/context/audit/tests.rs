//! Extended or not, and what changed.

use super::*;
use ostler_proto::{Effort, Interrupt, Price, SystemText, Thinking, ToolCall, ToolResult};
use proptest::prelude::*;
use serde_json::json;

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        aliases: vec![],
        description: "d".repeat(100),
        schema: json!({"type": "object"}),
        interrupt: Interrupt::Cancel,
        max_result: 0,
        guidance: String::new(),
    }
}

fn said(role: Role, text: &str) -> Arc<Message> {
    Arc::new(Message { role, content: vec![Block::text(text)] })
}

fn request(messages: Vec<Arc<Message>>) -> Request {
    Request {
        model: "m".to_owned(),
        system: vec![SystemText { text: "be good".to_owned(), cache: true }],
        tools: Arc::new([tool("Read")]),
        messages,
        max_output_tokens: 1,
        thinking: Thinking::Auto,
        effort: None,
    }
}

/// Sends a request and gives what it broke.
fn send(auditor: &mut Auditor, request: &Request) -> Option<(CacheBreak, u64)> {
    let Audit { fingerprint, broken } = auditor.audit("m", request, None);
    auditor.sent(fingerprint);
    auditor.answered();
    broken.map(|broken| (broken.by, broken.bytes))
}

fn talk() -> Vec<Arc<Message>> {
    vec![said(Role::User, "go"), said(Role::Assistant, "gone"), said(Role::User, "and?")]
}

#[test]
fn growing_is_fine_also_within_a_message() {
    let mut auditor = Auditor::default();
    let mut messages = talk();
    assert_eq!(send(&mut auditor, &request(messages.clone())), None);
    assert_eq!(send(&mut auditor, &request(messages.clone())), None, "asking again");
    Arc::make_mut(&mut messages[2]).content.push(Block::text("now"));
    assert_eq!(send(&mut auditor, &request(messages.clone())), None);
    messages.push(said(Role::Assistant, "so"));
    assert_eq!(send(&mut auditor, &request(messages)), None);
}

#[test]
fn what_changed_is_named_with_what_it_costs() {
    let check = |change: fn(&mut Request), expect: CacheBreak, bytes: u64| {
        let mut auditor = Auditor::default();
        let mut request = request(talk());
        assert_eq!(send(&mut auditor, &request), None);
        change(&mut request);
        assert_eq!(send(&mut auditor, &request), Some((expect, bytes)));
        assert_eq!(send(&mut auditor, &request), None, "it is told once");
    };
    let tools = ("Read".len() + 100 + r#"{"type":"object"}"#.len()) as u64;
    let system = "be good".len() as u64;
    let all = tools + system + "gogoneand?".len() as u64;
    let changed = |added: &[&str], removed: &[&str]| CacheBreak::ToolsChanged {
        added: added.iter().map(ToString::to_string).collect(),
        removed: removed.iter().map(ToString::to_string).collect(),
    };
    check(|request| request.tools = Arc::new([tool("Write")]), changed(&["Write"], &["Read"]), all);
    check(
        |request| request.tools = Arc::new([ToolSpec { description: "x".into(), ..tool("Read") }]),
        changed(&[], &[]),
        all,
    );
    check(|request| request.system[0].text.push('!'), CacheBreak::SystemChanged, all - tools);
    check(|request| request.effort = Some(Effort::Max), CacheBreak::MannerChanged, all - tools - system);
    check(
        |request| request.messages[1] = said(Role::Assistant, "went"),
        CacheBreak::HistoryEdited,
        "goneand?".len() as u64,
    );
    check(|request| request.messages.truncate(1), CacheBreak::HistoryEdited, "goneand?".len() as u64);
    // Not part of what is cached.
    let mut auditor = Auditor::default();
    let mut request = request(talk());
    send(&mut auditor, &request);
    request.max_output_tokens = 2;
    request.system[0].cache = false;
    assert_eq!(send(&mut auditor, &request), None);
}

#[test]
fn another_process_is_held_against_the_same_fingerprint() {
    let mut auditor = Auditor::default();
    send(&mut auditor, &request(talk()));
    let last = auditor.answered();
    let more = || talk().into_iter().chain([said(Role::Assistant, "so")]).collect::<Vec<_>>();
    assert_eq!(send(&mut Auditor::after(last.clone()), &request(more())), None);
    let mut other = Auditor::after(last.clone());
    let mut edited = more();
    edited[0] = said(Role::User, "stop");
    let audit = other.audit("m", &request(edited), Some(CacheBreak::Rewind));
    assert_eq!(audit.broken.map(|broken| broken.by), Some(CacheBreak::Rewind));
    let mut other = Auditor::after(last);
    let audit = other.audit("n", &request(more()), Some(CacheBreak::Rewind));
    let expect = CacheBreak::ModelChanged { from: "m".into(), to: "n".into() };
    assert_eq!(audit.broken.map(|broken| broken.by), Some(expect));
}

#[test]
fn a_break_is_told_once_however_often_the_request_is_made() {
    let mut auditor = Auditor::default();
    assert_eq!(send(&mut auditor, &request(talk())), None);
    let other = request(vec![said(Role::User, "else")]);
    let mut told = 0;
    for _ in 0..3 {
        let audit = auditor.audit("m", &other, None);
        told += usize::from(audit.broken.is_some());
        auditor.sent(audit.fingerprint);
    }
    assert_eq!(told, 1);
}

#[test]
fn a_request_that_was_not_answered_is_in_no_cache() {
    let mut auditor = Auditor::default();
    let audit = auditor.audit("m", &request(talk()), None);
    auditor.sent(audit.fingerprint);
    assert!(auditor.audit("n", &request(talk()), None).broken.is_none());
    auditor.answered();
    assert!(auditor.audit("n", &request(talk()), None).broken.is_some());
}

#[test]
fn a_break_is_priced_by_what_reading_would_have_saved() {
    let price = Price { input: 3.0, output: 15.0, cache_write: 3.75, cache_read: 0.3 };
    let marks = ModelRow { price, cache_breakpoints: true, ..ModelRow::default() };
    assert!((cost(&marks, 1_000_000) - 3.45).abs() < 1e-9);
    let plain = ModelRow { cache_breakpoints: false, ..marks };
    assert!((cost(&plain, 1_000_000) - 2.7).abs() < 1e-9);
    assert!(cost(&ModelRow::default(), 1_000_000).abs() < 1e-9);
}

fn any_block() -> impl Strategy<Value = Block> {
    let text = "[a-c]{0,3}";
    let call = |(id, name): (String, String)| {
        Block::ToolUse(ToolCall { id: id.as_str().into(), name, input: json!({}), problem: None })
    };
    let result = |(id, text): (String, String)| {
        let content = vec![Block::text(text)];
        Block::ToolResult(ToolResult { id: id.as_str().into(), content, is_error: false })
    };
    prop_oneof![
        text.prop_map(Block::text),
        (text, text).prop_map(|(text, signature)| Block::Thinking { text, signature }),
        (text, text).prop_map(call),
        (text, text).prop_map(result),
    ]
}

fn any_talk() -> impl Strategy<Value = Vec<Vec<Block>>> {
    prop::collection::vec(prop::collection::vec(any_block(), 1..3), 0..6)
}

fn messages(talk: &[Vec<Block>]) -> Vec<Arc<Message>> {
    let roles = [Role::User, Role::Assistant].into_iter().cycle();
    let message = |(role, content): (Role, &Vec<Block>)| Arc::new(Message { role, content: content.clone() });
    roles.zip(talk).map(message).collect()
}

fn flat(talk: &[Vec<Block>]) -> Vec<(usize, Block)> {
    let of = |(index, content): (usize, &Vec<Block>)| {
        content.iter().map(move |block| (index, block.clone())).collect::<Vec<_>>()
    };
    talk.iter().enumerate().flat_map(of).collect()
}

proptest! {
    /// The verdict is the one that comparing all blocks would give, whether messages are shared or built anew.
    #[test]
    fn the_verdict_is_that_of_a_full_comparison(first in any_talk(), kept in 0usize..6, then in any_talk()) {
        let kept = kept.min(first.len());
        let second: Vec<Vec<Block>> = first[..kept].iter().chain(&then).cloned().collect();
        let (old, new) = (flat(&first), flat(&second));
        let extends = new.starts_with(&old);
        let shared_start: Vec<Arc<Message>> = messages(&first);
        let mut shared = shared_start[..kept].to_vec();
        shared.extend(messages(&second)[kept..].iter().cloned());
        for later in [shared, messages(&second)] {
            let mut auditor = Auditor::default();
            send(&mut auditor, &request(shared_start.clone()));
            let broken = send(&mut auditor, &request(later.clone()));
            prop_assert_eq!(broken.is_none(), extends, "{:?}", &broken);
            let mut other = Auditor::default();
            send(&mut other, &request(later));
            prop_assert_eq!(auditor.answered(), other.answered(), "how it came about leaves no trace");
        }
    }
}
