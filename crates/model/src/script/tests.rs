//! Scripts played to an end, with the clock standing still.

use super::*;
use ostler_proto::{BlockStart, ModelEvent, StopReason, Thinking, ToolResult, Usage};
use std::time::Duration;
use tokio::time::Instant;

fn request(messages: Vec<Message>) -> Request {
    Request {
        model: "script:x".to_owned(),
        system: vec![],
        tools: Arc::new([]),
        messages: messages.into_iter().map(Arc::new).collect(),
        max_output_tokens: 100,
        thinking: Thinking::Auto,
        effort: None,
    }
}

fn prompt(text: &str) -> Message {
    Message::user(vec![Block::text(text)])
}

async fn play(script: &str, messages: Vec<Message>) -> Vec<Result<ModelEvent, ModelError>> {
    let provider = from_text(script, PathBuf::from("/w")).unwrap();
    provider.stream(request(messages)).collect().await
}

async fn problem(script: &str, messages: Vec<Message>) -> String {
    let items = play(script, messages).await;
    let [Err(error)] = items.as_slice() else { panic!("{items:?}") };
    assert_eq!(error.action, crate::Action::GiveUp);
    error.to_string()
}

const TWO_TURNS: &str = r#"
    [[turn]]
    expect = ["fix"]
    steps = [
        { thinking = "hm" },
        { text = "On {{cwd}}: {{prompt}}", pieces = 2 },
        { call = "Read", input = { file_path = "{{cwd}}/a.rs" } },
        { call = "Bash", raw = '{"command"' },
    ]

    [[turn]]
    steps = [{ text = "Got {{result.1}}" }]
    stop = "max_tokens"
    usage = { input_tokens = 7, output_tokens = 3 }
"#;

#[tokio::test]
async fn a_turn_is_played() {
    let items = play(TWO_TURNS, vec![prompt("fix it")]).await;
    let told: Vec<String> = items.iter().map(|item| format!("{:?}", item.as_ref().unwrap())).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    Started { message: "msg_script_1", model: "script:x", request: None, usage: Usage { input: 2, output: 0, cache_write: 0, cache_read: 0 } }
    BlockStarted { index: 0, start: Thinking }
    ThinkingDelta { index: 0, text: "hm" }
    BlockStopped { index: 0 }
    BlockStarted { index: 1, start: Text }
    TextDelta { index: 1, text: "On /w: " }
    TextDelta { index: 1, text: "fix it" }
    BlockStopped { index: 1 }
    BlockStarted { index: 2, start: ToolUse { id: CallId("call_1_1"), name: "Read" } }
    InputDelta { index: 2, fragment: "{\"file_path\":\"/w/a.rs\"}" }
    BlockStopped { index: 2 }
    BlockStarted { index: 3, start: ToolUse { id: CallId("call_1_2"), name: "Bash" } }
    InputDelta { index: 3, fragment: "{\"command\"" }
    BlockStopped { index: 3 }
    Usage(Usage { input: 2, output: 12, cache_write: 0, cache_read: 0 })
    Done { stop: ToolUse }
    "#);
}

#[tokio::test]
async fn a_resumed_conversation_goes_on_at_its_turn() {
    let result = ToolResult { id: "call_1_1".into(), content: vec![Block::text("text")], is_error: false };
    let history = vec![
        prompt("fix it"),
        Message::assistant(vec![Block::text("On /w")]),
        Message::user(vec![Block::ToolResult(result)]),
    ];
    let items = play(TWO_TURNS, history).await;
    assert!(items.contains(&Ok(ModelEvent::TextDelta { index: 0, text: "Got text".to_owned() })));
    assert!(items.contains(&Ok(ModelEvent::Usage(Usage { input: 7, output: 3, ..Usage::default() }))));
    assert_eq!(items.last(), Some(&Ok(ModelEvent::Done { stop: StopReason::MaxTokens })));
}

#[tokio::test(start_paused = true)]
async fn time_passes_as_written() {
    let script = "[[turn]]\nsteps = [{ pause_ms = 1000 }, { text = \"abcd\", over_ms = 2000, pieces = 4 }]";
    let begin = Instant::now();
    let items = play(script, vec![prompt("x")]).await;
    assert_eq!(begin.elapsed(), Duration::from_secs(3));
    let deltas = items.iter().filter(|item| matches!(item, Ok(ModelEvent::TextDelta { .. }))).count();
    assert_eq!(deltas, 4);
}

#[tokio::test]
async fn what_does_not_fit_is_told() {
    let history = || vec![prompt("x"), Message::assistant(vec![Block::text("y")]), prompt("z")];
    let one = "[[turn]]\nsteps = [{ text = \"a\" }]";
    assert_eq!(problem(one, history()).await, "the script has 1 turns, and request 2 came");
    assert_eq!(
        problem(TWO_TURNS, vec![prompt("break it")]).await,
        "turn 1 of the script expected \"fix\" in the last message, which says \"break it\""
    );
    let wire = "[[turn]]\nsteps = []\nwire = { status = 500 }";
    assert_eq!(
        problem(wire, vec![prompt("x")]).await,
        "turn 1 of the script has a 'wire' table, which needs the test server"
    );
}

#[test]
fn a_script_that_is_no_script_names_its_line() {
    let error =
        from_text("model = \"m\"\n\n[[turn]]\nstepz = []\n", PathBuf::new()).err().unwrap().to_string();
    assert!(error.starts_with("the script, line 4: unknown field `stepz`"), "{error}");
    let error = from_text("[[turn]]\nsteps = [\n  { sing = \"la\" },\n]\n", PathBuf::new())
        .err()
        .unwrap()
        .to_string();
    assert!(error.starts_with("the script, line "), "{error}");
}

#[tokio::test]
async fn the_model_may_be_named() {
    let items = play("model = \"m\"\n[[turn]]\nsteps = []", vec![prompt("x")]).await;
    assert!(matches!(&items[0], Ok(ModelEvent::Started { model, .. }) if model == "m"));
    assert!(
        !items
            .iter()
            .any(|item| matches!(item, Ok(ModelEvent::BlockStarted { start: BlockStart::Text, .. })))
    );
}
