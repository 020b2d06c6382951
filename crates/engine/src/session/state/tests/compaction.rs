//! Compactions and their undoing against scripts of events.

use super::*;
use crate::session::{Failing, Refused, Touched};
use ostler_proto::{Access, Compaction, Decision, Intent, PathFact, Preview, Pruned, Reason, Trigger};

fn compacted(carried: &[&str], pruned: &[&str], kept: usize) -> SessionEvent {
    let line = |call: &&str| Pruned { call: CallId::from(*call), text: format!("line {call}") };
    SessionEvent::Compacted {
        boundary: "b".into(),
        compaction: Compaction {
            trigger: Trigger::Auto,
            focus: String::new(),
            pruned: pruned.iter().map(line).collect(),
            carried: carried.iter().map(|text| Block::text(*text)).collect(),
            kept,
            pre_tokens: 9,
            post_tokens: 1,
            duration_ms: 1,
            model: "m".into(),
            usage: Usage::default(),
            cost_usd: 0.25,
        },
    }
}

fn long_talk() -> Vec<SessionEvent> {
    vec![
        prompted("go"),
        replied("m1", Block::Thinking { text: "hm".into(), signature: "s".into() }),
        replied("m1", call("a")),
        returned("a"),
        replied("m2", Block::text("mid")),
        prompted("on"),
        replied("m3", call("b")),
        returned("b"),
        replied("m4", Block::text("end")),
    ]
}

fn after(events: Vec<SessionEvent>, more: Vec<SessionEvent>) -> State {
    fold(events.into_iter().chain(more).collect())
}

#[test]
fn a_compaction_leaves_what_is_carried_and_the_end() {
    let check = |more: Vec<SessionEvent>, expect: &str| {
        let state = after(long_talk(), more);
        assert_eq!(shape(&state), expect);
        state
    };
    let end = "Assistant: call b | User: result b | Assistant: end";
    let state = check(vec![compacted(&["sum"], &[], 3)], &format!("User: sum | {end}"));
    assert_eq!(state.leaf, Some("e9".into()), "the chain goes on from the summary");
    check(vec![compacted(&["sum"], &[], 2)], "User: sum | Assistant: end");
    check(vec![compacted(&["sum"], &[], 0)], "User: sum");
    check(vec![compacted(&["sum"], &[], 0), prompted("next")], "User: sum, next");
    check(
        vec![compacted(&["sum"], &[], 99)],
        &format!("User: sum | Assistant: other, call a | User: result a | Assistant: mid | User: on | {end}")
            .replace("other, ", ""),
    );
    let pruned = check(
        vec![compacted(&[], &["a"], 0)],
        &format!("User: go | Assistant: call a | User: result a | Assistant: mid | User: on | {end}"),
    );
    let texts: Vec<String> = pruned
        .messages()
        .iter()
        .flat_map(|message| &message.content)
        .filter_map(|block| if let Block::ToolResult(result) = block { Some(result.text()) } else { None })
        .collect();
    assert_eq!(texts, ["line a", "b"]);
    assert_eq!(pruned.leaf, Some("e8".into()), "nothing new stands in the conversation");
    check(vec![compacted(&["one"], &[], 1), prompted("x"), compacted(&["two"], &[], 0)], "User: two");
}

#[test]
fn an_undone_compaction_gives_everything_back() {
    let whole = fold(long_talk());
    let check = |more: Vec<SessionEvent>, later: &str| {
        let state = after(long_talk(), more);
        assert_eq!(shape(&state), format!("{}{later}", shape(&whole)));
        state
    };
    for kept in [0, 1, 3, 99] {
        let state = check(vec![compacted(&["sum"], &["a", "b"], kept), SessionEvent::Uncompacted], "");
        assert_eq!((state.messages(), &state.leaf), (whole.messages(), &whole.leaf), "{kept}");
        check(
            vec![
                compacted(&["sum"], &["a"], kept),
                prompted("x"),
                replied("m9", Block::text("y")),
                SessionEvent::Uncompacted,
            ],
            " | User: x | Assistant: y",
        );
    }
    let twice = || vec![compacted(&["one"], &[], 1), compacted(&["two"], &[], 1)];
    let undone = |times: usize| twice().into_iter().chain(vec![SessionEvent::Uncompacted; times]).collect();
    assert_eq!(shape(&after(long_talk(), undone(1))), "User: one | Assistant: end");
    check(undone(2), "");
    check(undone(3), "");
    assert!(!whole.can_uncompact());
}

#[test]
fn a_prompt_before_a_compaction_can_still_be_gone_back_to() {
    let state = after(long_talk(), vec![compacted(&["sum"], &[], 1), prompted("x"), rewound("e5")]);
    assert_eq!(shape(&state), "User: go | Assistant: other, call a | User: result a | Assistant: mid");
    assert!(state.has_prompt(&"e0".into()) && !state.has_prompt(&"e5".into()) && !state.can_uncompact());
    assert_eq!(state.remembered.said.len(), 1, "what was taken back was not said");
}

#[test]
fn a_summary_of_another_tool_stands_for_what_came_before() {
    let mut state = fold(long_talk());
    let line = r#"{"type":"user","uuid":"u","parentUuid":"p","isCompactSummary":true,"message":{"role":"user","content":"theirs"}}"#;
    line::read(line).unwrap().iter().for_each(|entry| state.apply(entry));
    assert_eq!(shape(&state), "User: theirs");
    assert!(state.can_uncompact());
}

#[test]
fn what_must_not_be_forgotten_is_gathered() {
    let intent = |title: &str, access: Access| Intent { title: title.into(), access, preview: Preview::None };
    let path =
        |path: &str| PathFact { requested: path.into(), hops: vec![], target: path.into(), exists: true };
    let decided = |call: &str, intent: Intent, decision: Decision| SessionEvent::Decided {
        call: call.into(),
        intent,
        decision,
    };
    let allow = || Decision::Allow { because: Reason::User };
    let deny = || Decision::Deny { because: Reason::Unattended, tell_model: String::new() };
    let command = |id: &str, line: &str| {
        Block::ToolUse(ToolCall {
            id: id.into(),
            name: "Bash".into(),
            input: json!({"command": line}),
            problem: None,
        })
    };
    let ended = |id: &str, state: CallState| {
        let SessionEvent::ToolReturned { tool, result, structured, changes, duration_ms, .. } = returned(id)
        else {
            unreachable!()
        };
        SessionEvent::ToolReturned { tool, result, structured, state, changes, duration_ms }
    };
    let events = vec![
        prompted("go"),
        replied("m1", call("a")),
        decided("a", intent("Read /f", Access::Read { paths: vec![path("/f")] }), allow()),
        returned("a"),
        replied("m1", call("b")),
        decided("b", intent("Edit /g", Access::Write { paths: vec![path("/g")] }), deny()),
        ended("b", CallState::Denied),
        replied("m1", command("c", "make")),
        ended("c", CallState::Failed),
        SessionEvent::Sampled {
            message: "m1".into(),
            model: "m".into(),
            stop: Some(StopReason::EndTurn),
            usage: Usage { input: 5, output: 2, cache_write: 1, cache_read: 10 },
            cost_usd: 0.0,
            duration_ms: 1,
            request: None,
        },
    ];
    let remembered = fold(events.clone()).remembered;
    assert_eq!(remembered.said.len(), 1);
    assert_eq!(remembered.touched, [Touched { path: "/f".into(), changed: false }]);
    assert_eq!(
        remembered.refused,
        [Refused { title: "Edit /g".into(), because: "nobody could answer".into() }]
    );
    assert_eq!(remembered.failing, Some(Failing { command: "make".into(), output: "c".into() }));
    assert_eq!(remembered.measured, Some(18));
    let mended =
        after(events, vec![replied("m2", command("d", "make")), returned("d"), compacted(&["s"], &[], 0)]);
    assert_eq!((mended.remembered.failing, mended.remembered.measured), (None, None));
    assert_eq!(mended.remembered.said.len(), 1, "a compaction forgets nothing of it");
}

pub(super) fn any() -> impl Strategy<Value = SessionEvent> {
    let texts = || prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("c")], 0..3);
    (texts(), texts(), 0..6usize).prop_map(|(carried, pruned, kept)| compacted(&carried, &pruned, kept))
}
