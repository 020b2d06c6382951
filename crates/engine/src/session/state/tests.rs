//! The fold against scripts of events: the conversation stays valid whatever happens.

use super::*;
use crate::session::{Stamp, line};
use ostler_proto::{SessionId, StopReason, Usage, session::CallState};
use proptest::prelude::*;
use serde_json::json;

fn entry(number: usize, parent: Option<EntryId>, event: SessionEvent) -> Entry {
    Entry { id: format!("e{number}").into(), parent, timestamp: "2026-01-01T00:00:00.000Z".into(), event }
}

fn replied(message: &str, block: Block) -> SessionEvent {
    SessionEvent::Replied {
        message: message.into(),
        model: "m".into(),
        request: None,
        block,
        usage: Usage::default(),
    }
}

fn call(id: &str) -> Block {
    Block::ToolUse(ToolCall { id: id.into(), name: "Read".into(), input: json!({"a": 1}), problem: None })
}

fn returned(id: &str) -> SessionEvent {
    SessionEvent::ToolReturned {
        tool: "Read".into(),
        result: ToolResult { id: id.into(), content: vec![Block::text(id)], is_error: false },
        structured: json!({"x": id}),
        state: CallState::Complete,
        changes: vec![],
        duration_ms: 1,
    }
}

fn prompted(text: &str) -> SessionEvent {
    SessionEvent::Prompted { content: vec![Block::text(text)], meta: false }
}

/// Folds live, and again from the lines written; both must agree.
#[track_caller]
fn fold(events: Vec<SessionEvent>) -> State {
    let (mut live, mut read_back) = (State::default(), State::default());
    for (number, event) in events.into_iter().enumerate() {
        let entry = entry(number, live.parent_of(&event), event);
        live.apply(&entry);
        let text = line::write(&entry, &SessionId::from("s"), &Stamp::default());
        for entry in line::read(&text).unwrap() {
            read_back.apply(&entry);
        }
    }
    assert_eq!(live, read_back);
    check_valid(&live.messages());
    live
}

#[track_caller]
fn check_valid(messages: &[Arc<Message>]) {
    for pair in messages.windows(2) {
        assert_ne!(pair[0].role, pair[1].role, "roles alternate");
        let calls: Vec<_> = pair[0].content.iter().filter_map(Block::as_call).map(|call| &call.id).collect();
        let results = pair[1]
            .content
            .iter()
            .map_while(|block| if let Block::ToolResult(result) = block { Some(&result.id) } else { None });
        assert_eq!(results.collect::<Vec<_>>(), calls, "every call is answered, in call order, first");
    }
    if let Some(last) = messages.last() {
        assert!(last.content.iter().all(|block| block.as_call().is_none()), "no open call at the end");
    }
}

fn shape(state: &State) -> String {
    let messages = state.messages();
    let sides = messages.iter().map(|message| {
        let blocks = message.content.iter().map(|block| match block {
            Block::Text(text) => text.clone(),
            Block::ToolUse(call) => format!("call {}", call.id),
            Block::ToolResult(result) => format!("result {}", result.id),
            Block::Thinking { .. } | Block::Image(_) | Block::Document(_) | Block::Opaque(_) => {
                "other".to_owned()
            }
        });
        format!("{:?}: {}", message.role, blocks.collect::<Vec<_>>().join(", "))
    });
    sides.collect::<Vec<_>>().join(" | ")
}

#[test]
fn results_stand_in_call_order_behind_their_answer() {
    let state = fold(vec![
        prompted("go"),
        replied("m1", call("a")),
        returned("a"),
        replied("m1", call("b")),
        replied("m1", Block::text("t")),
        returned("b"),
        replied("m2", Block::text("done")),
    ]);
    assert_eq!(
        shape(&state),
        "User: go | Assistant: call a, call b, t | User: result a, result b | Assistant: done"
    );
}

#[test]
fn a_dropped_answer_leaves_no_trace_in_the_conversation() {
    let dropped =
        SessionEvent::Dropped { message: Some("m1".into()), reason: "reset".into(), partial: String::new() };
    let state = fold(vec![
        prompted("go"),
        replied("m1", call("a")),
        returned("a"),
        dropped,
        replied("m2", Block::text("x")),
    ]);
    assert_eq!(shape(&state), "User: go | Assistant: x");
    assert_eq!(
        state.answer.unwrap().base,
        Some("e0".into()),
        "the chain goes on from before the dropped answer"
    );
}

#[test]
fn an_open_call_is_answered_truthfully() {
    let state = fold(vec![prompted("go"), replied("m1", call("a")), prompted("next")]);
    assert_eq!(shape(&state), "User: go | Assistant: call a | User: result a, next");
    let open = fold(vec![prompted("go"), replied("m1", call("a"))]);
    assert_eq!(open.unanswered().len(), 1);
}

fn rewound(to: &str) -> SessionEvent {
    SessionEvent::Rewound { to: to.into() }
}

#[test]
fn a_rewound_conversation_goes_on_from_before_the_prompt() {
    let first = || vec![prompted("go"), replied("m1", Block::text("done"))];
    let check = |more: Vec<SessionEvent>, expect: &str| {
        let state = fold(first().into_iter().chain(more).collect());
        assert_eq!(shape(&state), expect);
        state
    };
    let state =
        check(vec![prompted("on"), replied("m2", call("a")), rewound("e2")], "User: go | Assistant: done");
    assert_eq!(state.leaf, Some("e1".into()));
    assert!(state.has_prompt(&"e0".into()) && !state.has_prompt(&"e2".into()));
    check(vec![prompted("on"), rewound("e2"), prompted("else")], "User: go | Assistant: done | User: else");
    check(vec![prompted("on"), prompted("more"), rewound("e3")], "User: go | Assistant: done | User: on");
    check(vec![rewound("e0")], "");
    check(vec![rewound("e9")], "User: go | Assistant: done");
}

fn any_event() -> impl Strategy<Value = SessionEvent> {
    let id = prop_oneof![Just("a"), Just("b"), Just("c")];
    let message = prop_oneof![Just("m1"), Just("m2")];
    prop_oneof![
        "[a-z]{1,3}".prop_map(|text| prompted(&text)),
        (message.clone(), "[a-z]{1,3}").prop_map(|(message, text)| replied(message, Block::text(text))),
        (message.clone(), id.clone()).prop_map(|(message, id)| replied(message, call(id))),
        id.prop_map(returned),
        message.prop_map(|message| SessionEvent::Dropped {
            message: Some(message.into()),
            reason: String::new(),
            partial: String::new()
        }),
        any::<bool>().prop_map(|during_tools| SessionEvent::Interrupted { during_tools }),
        Just(SessionEvent::Failed { message: "no".into() }),
        (0..24).prop_map(|number| rewound(&format!("e{number}"))),
        Just(SessionEvent::Sampled {
            message: "m1".into(),
            model: "m".into(),
            stop: Some(StopReason::Other("odd".into())),
            usage: Usage::default(),
            cost_usd: 0.5,
            duration_ms: 1
        }),
    ]
}

proptest! {
    #[test]
    fn any_order_of_events_folds_to_a_valid_conversation(events in prop::collection::vec(any_event(), 0..24)) {
        fold(events);
    }
}
