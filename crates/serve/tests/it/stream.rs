//! The frames a program reads: their keys, their order, and how each outcome looks.

use crate::stage::*;
use ostler_proto::envelope::Denial;
use ostler_proto::session::CallState;
use ostler_proto::{
    Access, AgentEvent, Block, BlockStart, Decision, ErrorKind, Intent, Job, JobId, JobState, Json, Limit,
    Mode, ModelEvent, Preview, Reason, SessionEvent, StopReason, TurnEnd, TurnOutcome, Usage,
};
use ostler_serve::{Output, StreamOptions};
use serde_json::json;

#[track_caller]
fn check_keys(frame: &Json, keys: &[&str]) {
    for key in keys {
        assert!(frame.get(key).is_some(), "{key} is missing in {frame}");
    }
    assert_eq!(frame["session_id"], "s-1");
    assert!(!frame["uuid"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn a_turn_with_a_call_has_its_frames_in_order_and_with_all_keys() {
    let played = play(one_shot(stream()), async |stage: &mut Stage| {
        stage.start_turn().await;
        stage.tell(AgentEvent::Requesting).await;
        let thinking = Block::Thinking { text: "hm".into(), signature: "sig".into() };
        stage.record("e1", replied(thinking)).await;
        stage.record("e2", replied(call("toolu_1", "Read", json!({"file_path": "/w/a"})))).await;
        let structured = json!({"type": "text", "file": {"numLines": 2}});
        stage.record("e3", returned("toolu_1", "Read", "1\tx", structured, CallState::Complete)).await;
        stage.record("e4", returned("toolu_2", "Read", "no such file", json!(null), CallState::Failed)).await;
        stage.record("e5", replied(Block::text("all good"))).await;
        stage.end_turn(done()).await;
        stage.close().await;
    })
    .await;
    assert_eq!(played.exit, 0);
    assert_eq!(played.kinds(), ["init", "assistant", "assistant", "user", "user", "assistant", "result"]);
    let frames = played.frames();
    let init = [
        "cwd",
        "tools",
        "mcp_servers",
        "model",
        "permissionMode",
        "slash_commands",
        "apiKeySource",
        "claude_code_version",
        "ostler_version",
        "output_style",
        "agents",
        "skills",
        "plugins",
        "capabilities",
    ];
    check_keys(&frames[0], &init);
    assert_eq!(frames[0]["tools"], json!(["Task", "Bash", "Read"]));
    check_keys(&frames[2], &["message", "parent_tool_use_id", "timestamp", "request_id"]);
    assert_eq!(frames[2]["uuid"], "e2");
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "big-2",
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/w/a"}}],
        "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 100, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}});
    assert_eq!(frames[2]["message"], message);
    assert_eq!(frames[3]["tool_use_result"]["file"]["numLines"], 2);
    assert_eq!(frames[3]["message"]["content"][0]["tool_use_id"], "toolu_1");
    assert_eq!(frames[4]["tool_use_result"], "no such file");
    assert_eq!(frames[4]["message"]["content"][0]["is_error"], true);
}

async fn result_of(end: TurnEnd) -> (Json, u8) {
    let played = play(one_shot(Output::Json), async |stage: &mut Stage| {
        stage.start_turn().await;
        stage.end_turn(end).await;
        stage.close().await;
    })
    .await;
    let frames = played.frames();
    assert_eq!(frames.len(), 1, "exactly one object");
    (frames[0].clone(), played.exit)
}

#[tokio::test]
async fn the_result_says_what_was_used() {
    let mut end = done();
    end.denials.push(Denial { tool: "Bash".into(), call: "c".into(), input: json!({"command": "x"}) });
    let (result, exit) = result_of(end).await;
    assert_eq!(exit, 0);
    check_keys(&result, &["duration_ms", "duration_api_ms", "num_turns", "total_cost_usd", "stop_reason"]);
    assert_eq!(result["result"], "all good");
    assert_eq!(result["usage"]["cache_read_input_tokens"], 60);
    assert_eq!(
        result["usage"]["server_tool_use"],
        json!({"web_search_requests": 0, "web_fetch_requests": 0})
    );
    let usage = json!({"inputTokens": 200, "outputTokens": 20, "cacheReadInputTokens": 60,
        "cacheCreationInputTokens": 40, "webSearchRequests": 0, "costUSD": 0.0014,
        "contextWindow": 200_000, "maxOutputTokens": 32_000});
    assert_eq!(result["modelUsage"], json!({"big": usage}));
    let denials = json!([{"tool_name": "Bash", "tool_use_id": "c", "tool_input": {"command": "x"}}]);
    assert_eq!(result["permission_denials"], denials);
}

async fn check_outcome(outcome: TurnOutcome, expect: [&str; 2], is_error: bool, exit: u8) -> Json {
    let (result, code) = result_of(end(outcome, "")).await;
    assert_eq!([&result["subtype"], &result["terminal_reason"]], expect);
    assert_eq!((&result["is_error"], code), (&json!(is_error), exit));
    result
}

#[tokio::test]
async fn each_outcome_has_its_result() {
    check_outcome(TurnOutcome::Completed, ["success", "completed"], false, 0).await;
    let api =
        TurnOutcome::ApiError { status: Some(400), kind: ErrorKind::InvalidRequest, message: "bad".into() };
    let result = check_outcome(api, ["success", "api_error"], true, 1).await;
    assert_eq!(result["result"], "API Error: 400 bad");
    assert_eq!(result["api_error_status"], 400);
    let max = TurnOutcome::MaxTurns { limit: 1 };
    let result = check_outcome(max, ["error_max_turns", "max_turns"], true, 1).await;
    assert_eq!(result["errors"], json!(["Reached maximum number of turns (1)"]));
    assert!(result.get("result").is_none());
    let budget = TurnOutcome::BudgetExhausted { limit: Limit::Usd(1.0) };
    check_outcome(budget, ["error_max_budget_usd", "budget_exhausted"], true, 1).await;
    let streaming = TurnOutcome::Interrupted { during_tools: false };
    check_outcome(streaming, ["error_during_execution", "aborted_streaming"], true, 0).await;
    let tools = TurnOutcome::Interrupted { during_tools: true };
    check_outcome(tools, ["error_during_execution", "aborted_tools"], true, 0).await;
    let failed = TurnOutcome::Failed { message: "disk full".into() };
    let result = check_outcome(failed, ["error_during_execution", "failed"], true, 1).await;
    assert_eq!(result["errors"], json!(["disk full"]));
}

#[tokio::test]
async fn an_api_failure_is_told_by_a_synthetic_answer_before_the_result() {
    let played = play(one_shot(stream()), async |stage: &mut Stage| {
        stage.start_turn().await;
        let retrying = AgentEvent::Retrying {
            attempt: 1,
            max_attempts: 2,
            delay_ms: 611,
            status: Some(529),
            kind: ErrorKind::Overloaded,
            message: "m".into(),
        };
        stage.tell(retrying).await;
        stage.record("e1", SessionEvent::Failed { message: "overloaded".into() }).await;
        let (status, kind) = (Some(529), ErrorKind::Overloaded);
        let outcome = TurnOutcome::ApiError { status, kind, message: "overloaded".into() };
        stage.end_turn(end(outcome, "")).await;
        stage.close().await;
    })
    .await;
    assert_eq!(played.kinds(), ["init", "api_retry", "assistant", "result"]);
    let frames = played.frames();
    let retry = json!({"attempt": 1, "max_retries": 2, "retry_delay_ms": 611, "error_status": 529, "error": "overloaded"});
    for (key, value) in retry.as_object().unwrap() {
        assert_eq!(&frames[1][key], value);
    }
    assert_eq!(frames[2]["uuid"], "e1");
    assert_eq!(frames[2]["message"]["model"], "<synthetic>");
    assert_eq!(
        frames[2]["message"]["content"],
        json!([{"type": "text", "text": "API Error: 529 overloaded"}])
    );
    assert_eq!(
        (&frames[2]["error"], &frames[2]["is_api_error_message"]),
        (&json!("overloaded"), &json!(true))
    );
    assert_eq!(played.exit, 1);
}

fn decided(because: Reason) -> SessionEvent {
    let intent = Intent { title: "t".into(), access: Access::Internal, preview: Preview::None };
    SessionEvent::Decided {
        call: "toolu_1".into(),
        intent,
        decision: Decision::Deny { because, tell_model: "not granted".into() },
    }
}

#[tokio::test]
async fn denials_nobody_was_asked_about_and_changes_of_mode_are_told() {
    let played = play(one_shot(stream()), async |stage: &mut Stage| {
        stage.start_turn().await;
        stage.record("e1", replied(call("toolu_1", "Write", json!({})))).await;
        stage.record("e2", decided(Reason::Unattended)).await;
        stage.record("e3", decided(Reason::User)).await;
        stage.record("e4", decided(Reason::Hook { name: "h".into(), text: String::new() })).await;
        stage.record("e5", SessionEvent::ModeChanged { mode: Mode::AcceptEdits }).await;
        stage.record("e6", SessionEvent::Interrupted { during_tools: true }).await;
        stage.end_turn(end(TurnOutcome::Interrupted { during_tools: true }, "")).await;
        stage.close().await;
    })
    .await;
    assert_eq!(played.kinds(), ["init", "assistant", "permission_denied", "status", "user", "result"]);
    let frames = played.frames();
    assert_eq!(frames[2]["tool_name"], "Write");
    assert_eq!(frames[2]["message"], "not granted");
    assert_eq!(frames[3]["permissionMode"], "acceptEdits");
    let marker = json!([{"type": "text", "text": "[Request interrupted by user for tool use]"}]);
    assert_eq!(frames[4]["message"]["content"], marker);
    assert_eq!(frames[4]["uuid"], "e6");
}

fn partial() -> Output {
    Output::StreamJson(StreamOptions { include_partial: true, ..StreamOptions::default() })
}

async fn delta(stage: &mut Stage, event: ModelEvent) {
    stage.tell(AgentEvent::Delta(event)).await;
}

#[tokio::test]
async fn partial_messages_put_the_whole_block_between_deltas_and_stop() {
    let played = play(one_shot(partial()), async |stage: &mut Stage| {
        stage.start_turn().await;
        stage.tell(AgentEvent::Requesting).await;
        delta(stage, started("big-2")).await;
        delta(stage, ModelEvent::Ping).await;
        delta(stage, ModelEvent::BlockStarted { index: 0, start: BlockStart::Text }).await;
        delta(stage, ModelEvent::TextDelta { index: 0, text: "Hel".into() }).await;
        // A text block is recorded after it stopped, a call as soon as its input is whole.
        delta(stage, ModelEvent::BlockStopped { index: 0 }).await;
        stage.record("e1", replied(Block::text("Hel"))).await;
        let start = BlockStart::ToolUse { id: "toolu_1".into(), name: "Read".into() };
        delta(stage, ModelEvent::BlockStarted { index: 1, start }).await;
        delta(stage, ModelEvent::InputDelta { index: 1, fragment: "{}".into() }).await;
        stage.record("e2", replied(call("toolu_1", "Read", json!({})))).await;
        delta(stage, ModelEvent::BlockStopped { index: 1 }).await;
        delta(stage, ModelEvent::Usage(Usage { output: 9, ..Usage::default() })).await;
        delta(stage, ModelEvent::Done { stop: StopReason::ToolUse }).await;
        stage.end_turn(done()).await;
        stage.close().await;
    })
    .await;
    let expected = [
        "init",
        "status",
        "message_start",
        "content_block_start",
        "content_block_delta",
        "assistant",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "assistant",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "result",
    ];
    assert_eq!(played.kinds(), expected);
    let frames = played.frames();
    assert_eq!(frames[1]["status"], "requesting");
    assert_eq!(frames[4]["event"]["delta"], json!({"type": "text_delta", "text": "Hel"}));
    let block = json!({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}});
    assert_eq!(frames[7]["event"]["content_block"], block);
    assert_eq!(frames[8]["event"]["delta"], json!({"type": "input_json_delta", "partial_json": "{}"}));
    assert_eq!(frames[11]["event"]["delta"]["stop_reason"], "tool_use");
    assert_eq!(frames[11]["event"]["usage"]["output_tokens"], 9);
    check_keys(&frames[12], &["event", "parent_tool_use_id"]);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_closed() {
    let played = play(one_shot(partial()), async |stage: &mut Stage| {
        stage.start_turn().await;
        delta(stage, started("big-2")).await;
        delta(stage, ModelEvent::BlockStarted { index: 0, start: BlockStart::Thinking }).await;
        stage.record("e1", SessionEvent::Interrupted { during_tools: false }).await;
        stage.end_turn(end(TurnOutcome::Interrupted { during_tools: false }, "")).await;
        stage.close().await;
    })
    .await;
    let expected = [
        "init",
        "message_start",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "user",
        "result",
    ];
    assert_eq!(played.kinds(), expected);
}

#[tokio::test]
async fn no_line_is_longer_than_readers_take() {
    let played = play(one_shot(stream()), async |stage: &mut Stage| {
        stage.start_turn().await;
        let long = "\u{1}é".repeat(150_000);
        let structured = json!({"stdout": long});
        stage.record("e1", returned("c", "Bash", &long, structured, CallState::Complete)).await;
        stage.record("e2", replied(Block::text(long.clone()))).await;
        stage.end_turn(end(TurnOutcome::Completed, &long)).await;
        stage.close().await;
    })
    .await;
    assert_eq!(played.kinds(), ["init", "user", "assistant", "result"]);
    assert!(played.stdout.lines().all(|line| line.len() < 1_048_576));
    assert!(
        played.frames()[1]["tool_use_result"]["stdout"].as_str().unwrap().contains("left out of this frame")
    );
}

#[tokio::test]
async fn jobs_are_told_as_tasks_and_a_turn_they_start_says_so() {
    let job = |state| Job {
        id: JobId("b1".into()),
        call: "toolu_1".into(),
        command: "make".into(),
        description: "build".into(),
        state,
        ran_for_ms: 1500,
        output: Some("/k/bash-b1.txt".into()),
    };
    let played = play(one_shot(stream()), async |stage: &mut Stage| {
        stage.start_turn().await;
        stage.tell(AgentEvent::JobChanged { job: job(JobState::Running), at_ms: 5 }).await;
        stage.end_turn(done()).await;
        stage.tell(AgentEvent::JobChanged { job: job(JobState::Exited(2)), at_ms: 7 }).await;
        stage.tell(AgentEvent::TurnStarted(info())).await;
        stage
            .record("n", SessionEvent::Prompted { content: vec![Block::text("[it ended]")], meta: true })
            .await;
        stage.end_turn(TurnEnd { stopped_jobs: vec![job(JobState::Stopped)], ..done() }).await;
        stage.close().await;
    })
    .await;
    let kinds = played.kinds();
    let ended = ["task_updated", "task_notification", "background_tasks_changed"];
    assert_eq!(kinds[..4], ["init", "task_started", "background_tasks_changed", "result"]);
    assert_eq!(kinds[4..7], ended);
    assert_eq!(kinds[7..], ["init", "result"]);
    let frames = played.frames();
    check_keys(&frames[1], &["task_id", "tool_use_id", "description", "task_type", "is_backgrounded"]);
    assert_eq!(frames[4]["patch"], json!({"status": "failed", "end_time": 7}));
    check_keys(&frames[5], &["task_id", "tool_use_id", "status", "output_file", "summary", "usage"]);
    assert_eq!(frames[5]["summary"], "Background command \"build\" failed (exit code 2)");
    assert_eq!(frames[5]["usage"]["duration_ms"], 1500);
    assert!(frames[3].get("origin").is_none() && frames[3].get("background_tasks_stopped").is_none());
    assert_eq!(frames[8]["origin"], json!({"kind": "task-notification"}));
    assert_eq!(frames[8]["background_tasks_stopped"][0]["command"], "make");
}
