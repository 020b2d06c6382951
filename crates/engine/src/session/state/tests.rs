//! The fold against scripts of events: the conversation stays valid whatever happens.

mod compaction;

use super::*;
use crate::session::{Stamp, line};
use ostler_proto::{
    CacheBreak, Fingerprint, InstructionScope, LoadReason, SessionId, StopReason, Usage, session::CallState,
};
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
    let (mut live, mut read_back, mut resumed) = (State::default(), State::default(), State::default());
    for (number, event) in events.into_iter().enumerate() {
        let entry = entry(number, live.parent_of(&event), event);
        live.apply(&entry);
        let text = line::write(&entry, &SessionId::from("s"), &Stamp::default());
        for entry in text.lines().flat_map(|line| line::read(line).unwrap()) {
            read_back.apply(&entry);
        }
        for line in text.lines() {
            let said = line::understand(line, line::Keep::Conversation).unwrap();
            said.entries.iter().for_each(|entry| resumed.apply(entry));
        }
    }
    assert_eq!(live, read_back);
    assert_eq!(live, resumed);
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
    let dropped = SessionEvent::Dropped {
        message: Some("m1".into()),
        reason: "reset".into(),
        partial: String::new(),
        usage: Usage::default(),
        cost_usd: 0.0,
    };
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

fn fingerprint() -> Fingerprint {
    Fingerprint {
        model: "m".into(),
        manner: "1".into(),
        tools: "2".into(),
        system: "3".into(),
        conversation: "4".into(),
        blocks: 5,
        bytes: 6,
        tokens: 7,
    }
}

#[test]
fn what_was_counted_and_what_was_lost_is_known_after_a_resume() {
    let usage = Usage { input: 3, cache_read: 4, cache_write: 5, output: 6 };
    let sampled = SessionEvent::Sampled {
        message: "m1".into(),
        model: "m".into(),
        stop: None,
        usage,
        cost_usd: 0.0,
        duration_ms: 1,
        request: Some(fingerprint()),
    };
    let state = fold(vec![prompted("go"), replied("m1", Block::text("x")), sampled.clone(), rewound("e0")]);
    assert_eq!(state.cache.measured().map(|measured| (measured.guessed, measured.real)), Some((7, 12)));
    assert_eq!(state.cache.edit, Some(CacheBreak::Rewind));
    let broken = SessionEvent::CacheBroken { by: CacheBreak::Rewind, bytes: 9, est_cost_usd: 0.5 };
    let state = fold(vec![prompted("go"), rewound("e0"), broken, sampled]);
    assert_eq!((state.cache.edit, state.cache.breaks.len()), (None, 1));
    assert_eq!(state.cache.breaks[0].at, "2026-01-01T00:00:00.000Z");
}

fn instructed(lead: &str, files: &[(&str, &str)], gone: &[&str]) -> SessionEvent {
    let file = |(path, text): &(&str, &str)| Instruction {
        path: path.into(),
        scope: InstructionScope::Project,
        reason: LoadReason::SessionStart,
        globs: vec![],
        trigger: None,
        parent: None,
        hash: (*text).to_owned(),
        tokens: 1,
        text: (*text).to_owned(),
    };
    let record = InstructionRecord {
        lead: lead.to_owned(),
        files: files.iter().map(file).collect(),
        gone: gone.iter().map(Into::into).collect(),
        notes: vec![],
    };
    SessionEvent::Instructed { record }
}

#[test]
fn instructions_are_said_where_they_came_and_the_newest_are_in_force() {
    let said = |text: &str| format!("<system-reminder>\n{text}\n</system-reminder>");
    let events = vec![
        instructed("first", &[("/a", "A"), ("/b", "B")], &[]),
        prompted("go"),
        replied("m1", call("a")),
        returned("a"),
        instructed("then", &[("/c", "C")], &[]),
        replied("m2", Block::text("done")),
        instructed("new", &[("/a", "A2")], &["/b"]),
    ];
    let state = fold(events.clone());
    let (first, then, new) = (said("first\n\nA\n\nB"), said("then\n\nC"), said("new\n\nA2"));
    assert_eq!(
        shape(&state),
        format!(
            "User: {first}, go | Assistant: call a | User: result a, {then} | Assistant: done | User: {new}"
        )
    );
    let texts = |state: &State| state.instructions.iter().map(|file| file.text.clone()).collect::<Vec<_>>();
    assert_eq!(texts(&state), ["C", "A2"]);
    let back = fold(events.into_iter().chain([rewound("e1")]).collect());
    assert_eq!(
        (shape(&back), texts(&back)),
        (format!("User: {first}"), vec!["A".to_owned(), "B".to_owned()])
    );
}

#[test]
fn a_rewind_is_taken_back_until_the_conversation_has_gone_on() {
    let (undone, on) = (|| SessionEvent::RewindUndone, || prompted("on"));
    let check = |more: Vec<SessionEvent>, expect: &str| {
        let state =
            fold([prompted("go"), replied("m1", Block::text("done"))].into_iter().chain(more).collect());
        assert_eq!(shape(&state), expect);
        state
    };
    let state = check(vec![on(), rewound("e2"), undone()], "User: go | Assistant: done | User: on");
    assert_eq!(state.leaf, Some("e2".into()));
    assert!(state.can_undo_rewind() && state.prompts().count() == 2);
    check(vec![on(), rewound("e2"), undone(), undone()], "User: go | Assistant: done");
    let state = check(
        vec![on(), rewound("e2"), prompted("else"), undone()],
        "User: go | Assistant: done | User: else",
    );
    assert!(!state.can_undo_rewind(), "what was said since is not lost");
    check(vec![undone()], "User: go | Assistant: done");
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
            partial: String::new(),
            usage: Usage { input: 7, ..Usage::default() },
            cost_usd: 0.25,
        }),
        any::<bool>().prop_map(|during_tools| SessionEvent::Interrupted { during_tools }),
        Just(SessionEvent::Failed { message: "no".into() }),
        "[a-z]".prop_map(|text| instructed("i", &[("/a", &text)], &[])),
        (0..24).prop_map(|number| rewound(&format!("e{number}"))),
        compaction::any(),
        Just(SessionEvent::Uncompacted),
        Just(SessionEvent::RewindUndone),
        Just(SessionEvent::Sampled {
            message: "m1".into(),
            model: "m".into(),
            stop: Some(StopReason::Other("odd".into())),
            usage: Usage::default(),
            cost_usd: 0.5,
            duration_ms: 1,
            request: Some(fingerprint()),
        }),
        (0..99u64).prop_map(|bytes| SessionEvent::CacheBroken {
            by: CacheBreak::ToolsChanged { added: vec!["A".into()], removed: vec![] },
            bytes,
            est_cost_usd: 0.25,
        }),
    ]
}

proptest! {
    #[test]
    fn any_order_of_events_folds_to_a_valid_conversation(events in prop::collection::vec(any_event(), 0..24)) {
        let state = fold(events);
        let (all, unread) = (state.messages(), state.unread());
        prop_assert!(unread.iter().all(|message| message.role == Role::User));
        prop_assert_eq!(&all[all.len() - unread.len()..], &unread[..]);
        let spoken = all.len().checked_sub(unread.len() + 1).map(|before| all[before].role);
        prop_assert!(spoken.is_none_or(|role| role == Role::Assistant));
    }
}
