//! The dialogue with a host: its messages, its requests, our questions, and the end of it all.

use crate::stage::*;
use ostler_proto::{
    AgentEvent, Answer, AskId, Block, Command, EntryId, JobId, Mode, Query, Queued, SessionEvent,
    TurnOutcome, envelope::Denial,
};
use ostler_serve::{About, Output, Print, StreamOptions};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

const ID: &str = "7d3f1b53-8c1c-4b0c-9c62-0f4f3a1c0a11";

#[tokio::test]
async fn a_dialogue_has_one_init_and_one_result_for_each_turn() {
    let played = play(dialogue(), async |stage: &mut Stage| {
        let response = stage.request("r1", json!({"subtype": "initialize", "hooks": null})).await;
        let payload = &response["response"];
        assert_eq!(response["subtype"], "success");
        assert_eq!(
            payload["models"],
            json!([{"value": "small", "displayName": "Small", "description": "quick"}])
        );
        for key in ["commands", "agents", "account", "output_style", "available_output_styles", "pid"] {
            assert!(payload.get(key).is_some(), "{key} is missing");
        }
        assert_eq!(
            (payload.get("hooks_applied"), &payload["hook_on_failure_supported"]),
            (None, &json!(true))
        );
        assert_eq!(stage.command().await, Command::SetHooks(vec![]));
        let message = json!({"role": "user", "content": [{"type": "text", "text": "one"}]});
        stage.say(json!({"type": "user", "message": message, "session_id": "default", "uuid": ID})).await;
        let Command::Prompt { content, id, .. } = stage.command().await else { panic!("no prompt") };
        assert_eq!((content, id.clone()), (vec![Block::text("one")], Some(EntryId(ID.into()))));
        stage.tell(AgentEvent::TurnStarted(info())).await;
        stage.record(ID, SessionEvent::Prompted { content: vec![], meta: false }).await;
        stage.say_user("two").await;
        stage.stdin = None;
        stage.end_turn(done()).await;
        stage.start_turn().await;
        assert_eq!(stage.command().await, Command::Close);
        stage.end_turn(end(TurnOutcome::MaxTurns { limit: 1 }, "")).await;
        stage.tell(AgentEvent::Closed).await;
    })
    .await;
    let frames = played.frames();
    let kinds: Vec<String> = played.kinds();
    let turn = ["session_state_changed running", "init", "result"];
    assert_eq!(kinds[..3], turn);
    assert_eq!(frames[2]["user_message_uuid"], ID);
    // Whether `idle` stands between the turns depends on when the second message was read.
    assert_eq!(kinds[kinds.len() - 4..], [turn[0], turn[1], turn[2], "session_state_changed idle"]);
    assert_eq!(frames[0]["sdk_host_only"], true);
    assert_eq!(played.exit, 1, "the code of the last result");
}

#[tokio::test]
async fn a_prompt_folded_into_the_running_turn_owes_no_turn_of_its_own() {
    let played = play(dialogue(), async |stage: &mut Stage| {
        stage.say_user("one").await;
        stage.start_turn().await;
        stage.say_user("two").await;
        let Command::Prompt { content, id, .. } = stage.command().await else { panic!("no prompt") };
        let receipt = json!({"still_queued": [id]});
        assert_eq!(interrupt(stage, json!({}), Queued::Keep, &receipt).await, receipt);
        stage.record(id.unwrap().as_str(), SessionEvent::Prompted { content, meta: false }).await;
        stage.end_turn(done()).await;
        stage.stdin = None;
        stage.close().await;
    })
    .await;
    assert_eq!(played.kinds(), ["result", "session_state_changed idle"]);
    assert_eq!(played.exit, 0);
}

#[tokio::test]
async fn prompts_that_are_called_off_owe_nothing() {
    let played = play(dialogue(), async |stage: &mut Stage| {
        stage.say_user("one").await;
        stage.start_turn().await;
        stage.say_user("two").await;
        let Command::Prompt { id, .. } = stage.command().await else { panic!("no prompt") };
        let receipt = json!({"still_queued": [], "cancelled": [id]});
        let wanted = json!({"cancel_queued": true});
        assert_eq!(interrupt(stage, wanted, Queued::Cancel, &receipt).await, receipt);
        stage.end_turn(done()).await;
        stage.stdin = None;
        stage.close().await;
    })
    .await;
    assert_eq!(played.kinds(), ["result", "session_state_changed idle"]);
    assert_eq!((played.exit, played.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn an_aside_is_passed_on_and_owes_no_turn() {
    let played = play(dialogue(), async |stage: &mut Stage| {
        stage.say(json!({"type": "user", "shouldQuery": false, "message": {"content": "by the way"}})).await;
        let Command::Append { content, id } = stage.command().await else { panic!("no aside") };
        assert_eq!(content, vec![Block::text("by the way")]);
        stage.record(id.unwrap().as_str(), SessionEvent::Prompted { content, meta: false }).await;
        stage.say_user("one").await;
        stage.start_turn().await;
        stage.end_turn(done()).await;
        stage.stdin = None;
        stage.close().await;
    })
    .await;
    assert_eq!((played.exit, played.stderr.as_str()), (0, ""));
}

/// Interrupts with a receipt, as the engine would give it, and returns what the host gets.
async fn interrupt(stage: &mut Stage, mut request: Json, queued: Queued, receipt: &Json) -> Json {
    request["subtype"] = json!("interrupt");
    stage.say(json!({"type": "control_request", "request_id": "i", "request": request})).await;
    let Command::Query { id, query } = stage.command().await else { panic!("no query") };
    assert_eq!(query, Query::Interrupt { queued });
    stage.tell(AgentEvent::Answered { id, answer: Ok(receipt.clone()) }).await;
    loop {
        let frame = stage.frame().await;
        if frame["type"] == "control_response" {
            return frame["response"]["response"].clone();
        }
    }
}

/// The payload of a successful answer; frames before it are passed over.
async fn stage_response(stage: &mut Stage, request: Json) -> Json {
    stage.say(json!({"type": "control_request", "request_id": "r", "request": request})).await;
    loop {
        let frame = stage.frame().await;
        if frame["type"] == "control_response" {
            return frame["response"]["response"].clone();
        }
    }
}

#[tokio::test]
async fn requests_are_served_while_a_turn_runs() {
    let played = play(dialogue(), async |stage: &mut Stage| {
        stage.say_user("one").await;
        stage.start_turn().await;
        assert_eq!(kind(&stage.frame().await), "session_state_changed running");
        assert_eq!(kind(&stage.frame().await), "init");
        let response = stage.request("r1", json!({"subtype": "set_permission_mode", "mode": "plan"})).await;
        assert_eq!(response["response"], json!({"mode": "plan"}));
        assert_eq!(stage.command().await, Command::SetMode(Mode::Plan));
        let response = stage.request("r2", json!({"subtype": "set_permission_mode", "mode": "odd"})).await;
        assert!(response["error"].as_str().unwrap().contains("unknown permission mode 'odd'"));
        let bypass = json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"});
        assert_eq!(stage.request("r3", bypass).await["subtype"], "error");
        let response = stage.request("r4", json!({"subtype": "set_model", "model": "small"})).await;
        assert_eq!(response["response"], json!({"model": "small"}));
        assert_eq!(stage.command().await, Command::SetModel("small".into()));
        stage.request("r5", json!({"subtype": "set_model", "model": null})).await;
        assert_eq!(stage.command().await, Command::SetModel("big".into()));
        let response = stage.request("r6", json!({"subtype": "mcp_status"})).await;
        assert_eq!(response["error"], "Unsupported control request subtype: mcp_status");
        let response = stage.request("r7", json!("odd")).await;
        assert_eq!(response["subtype"], "error");
        let receipt = json!({"still_queued": []});
        assert_eq!(interrupt(stage, json!({}), Queued::Keep, &receipt).await, receipt);
        stage.end_turn(end(TurnOutcome::Interrupted { during_tools: false }, "")).await;
        let response = stage_response(stage, json!({"subtype": "end_session"})).await;
        assert_eq!(response, json!({}));
        stage.close().await;
    })
    .await;
    assert_eq!((played.exit, played.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn a_host_that_may_bypass_can() {
    let print = Print { about: About { bypass_allowed: true, ..about() }, ..dialogue() };
    play(print, async |stage: &mut Stage| {
        let bypass = json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"});
        assert_eq!(stage.request("r", bypass).await["subtype"], "success");
        assert_eq!(stage.command().await, Command::SetMode(Mode::BypassPermissions));
        stage.stdin = None;
        stage.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_host_is_told_what_of_its_wishes_is_ignored() {
    let played = play(dialogue(), async |stage: &mut Stage| {
        let callbacks = json!([{"matcher": "Bash", "hookCallbackIds": ["hook_0"]}]);
        let hooks = json!({"PreToolUse": callbacks, "PreModelSwitch": callbacks});
        let request =
            json!({"subtype": "initialize", "hooks": hooks, "agents": {}, "appendSystemPrompt": "x"});
        assert_eq!(stage.request("r", request).await["response"]["hooks_applied"], true);
        let Command::SetHooks(hooks) = stage.command().await else { panic!("no hooks") };
        assert_eq!((hooks.len(), hooks[0].callback.as_str()), (1, "hook_0"));
        let odd =
            json!({"subtype": "initialize", "hooks": {"Stop": [{"hookCallbackIds": ["h"], "timeout": -1}]}});
        let refused = stage.request("r2", odd).await;
        assert!(refused["error"].as_str().unwrap().contains("timeout"), "{refused}");
        stage.stdin = None;
        stage.close().await;
    })
    .await;
    assert_eq!(
        played.stderr,
        "ostler: initialize: not supported and ignored: appendSystemPrompt, hooks.PreModelSwitch\n"
    );
    assert_eq!(played.exit, 0);
}

async fn asked(stage: &mut Stage, id: u64) -> Json {
    stage.tell(AgentEvent::Asked(ask(id, "make"))).await;
    loop {
        let frame = stage.frame().await;
        if frame["type"] == "control_request" {
            return frame;
        }
        assert_ne!(kind(&frame), "result");
    }
}

async fn answer(stage: &mut Stage, id: &Json, response: Json) -> Command {
    let response = json!({"subtype": "success", "request_id": id, "response": response});
    stage.say(json!({"type": "control_response", "response": response})).await;
    stage.command().await
}

#[tokio::test]
async fn a_host_answers_questions() {
    let played = play(dialogue(), async |stage: &mut Stage| {
        stage.say_user("one").await;
        stage.start_turn().await;
        let question = asked(stage, 1).await;
        let request = &question["request"];
        assert_eq!((&request["tool_name"], &request["tool_use_id"]), (&json!("Bash"), &json!("toolu_1")));
        assert_eq!(request["input"], json!({"command": "make"}));
        let rule = json!({"toolName": "Bash", "ruleContent": "make *"});
        let suggestion = json!({"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"});
        assert_eq!(request["permission_suggestions"], json!([suggestion]));
        let allow = json!({"behavior": "allow", "updatedInput": {"command": "make"}});
        let command = answer(stage, &question["request_id"], allow).await;
        assert_eq!(command, Command::Answer { ask: AskId(1), answer: Answer::Allow { input: None } });
        assert_eq!(kind(&stage.frame().await), "session_state_changed running");

        let question = asked(stage, 2).await;
        let always = json!({"behavior": "allow", "updatedInput": {"command": "make"}, "updatedPermissions": [suggestion]});
        let command = answer(stage, &question["request_id"], always).await;
        let update = ostler_proto::Update::Rules {
            change: ostler_proto::Change::Add,
            side: ostler_proto::RuleSide::Allow,
            rules: vec!["Bash(make *)".into()],
            keep: ostler_proto::Keep::Session,
        };
        let expected = Answer::AllowWith { input: None, updates: vec![update] };
        assert_eq!(command, Command::Answer { ask: AskId(2), answer: expected });

        let question = asked(stage, 3).await;
        let deny = json!({"behavior": "deny", "message": "not now", "interrupt": true});
        let command = answer(stage, &question["request_id"], deny).await;
        let expected = Answer::Deny { message: "not now".into(), interrupt: true };
        assert_eq!(command, Command::Answer { ask: AskId(3), answer: expected });

        let question = asked(stage, 4).await;
        stage.tell(AgentEvent::AskWithdrawn { ask: AskId(4) }).await;
        let cancel = stage.frame().await;
        assert_eq!(cancel["type"], "control_cancel_request");
        assert_eq!(cancel["request_id"], question["request_id"]);

        asked(stage, 5).await;
        stage.stdin = None;
        let Command::Answer { ask: AskId(5), answer: Answer::Deny { .. } } = stage.command().await else {
            panic!("a closed pipe is no");
        };
        assert_eq!(stage.command().await, Command::Close);
        stage.tell(AgentEvent::Asked(ask(6, "make"))).await;
        let Command::Answer { ask: AskId(6), answer: Answer::Deny { .. } } = stage.command().await else {
            panic!("nobody is left to answer");
        };
        let mut end = done();
        end.denials.push(Denial { tool: "Bash".into(), call: "toolu_1".into(), input: json!({}) });
        stage.end_turn(end).await;
        stage.tell(AgentEvent::Closed).await;
    })
    .await;
    assert_eq!(played.kinds().last().unwrap(), "session_state_changed idle");
}

#[tokio::test]
async fn requires_action_comes_just_before_the_question() {
    let played = play(dialogue(), async |stage: &mut Stage| {
        stage.say_user("one").await;
        stage.start_turn().await;
        stage.tell(AgentEvent::Asked(ask(1, "make"))).await;
        stage.tell(AgentEvent::AskWithdrawn { ask: AskId(1) }).await;
        stage.end_turn(done()).await;
        stage.stdin = None;
        stage.close().await;
    })
    .await;
    let mut kinds =
        played.frames().iter().map(|frame| frame["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    kinds.dedup();
    assert_eq!(kinds, ["system", "control_request", "control_cancel_request", "system", "result", "system"]);
    let states: Vec<Json> =
        played.frames().iter().map(|frame| frame["state"].clone()).filter(|state| !state.is_null()).collect();
    assert_eq!(states, ["running", "requires_action", "running", "idle"]);
}

#[tokio::test]
async fn a_call_too_large_to_show_is_denied_not_cut() {
    let played = play(dialogue(), async |stage: &mut Stage| {
        stage.say_user("one").await;
        stage.start_turn().await;
        stage.tell(AgentEvent::Asked(ask(1, &"x".repeat(2_000_000)))).await;
        let Command::Answer { answer: Answer::Deny { message, .. }, .. } = stage.command().await else {
            panic!("not denied");
        };
        assert!(message.contains("too large"));
        stage.end_turn(done()).await;
        stage.stdin = None;
        stage.close().await;
    })
    .await;
    assert!(!played.kinds().contains(&"can_use_tool".to_owned()));
}

#[tokio::test]
async fn bad_lines_are_noted_and_passed_over() {
    let played = play(dialogue(), async |stage: &mut Stage| {
        stage.write("nonsense\n\n{\"type\":\"keep\"}\n").await;
        stage.say_user("one").await;
        stage.start_turn().await;
        stage.end_turn(done()).await;
        stage.stdin = None;
        stage.close().await;
    })
    .await;
    assert_eq!(played.exit, 0);
    assert!(played.stderr.contains("input line 1: not JSON"), "{}", played.stderr);
    assert!(played.stderr.contains("input line 3: unknown message type 'keep'"), "{}", played.stderr);
}

#[tokio::test]
async fn user_messages_are_replayed_after_init_if_asked_for() {
    let options = StreamOptions { replay_user: true, ..StreamOptions::default() };
    let print = Print { output: Output::StreamJson(options), ..dialogue() };
    let played = play(print, async |stage: &mut Stage| {
        stage.say_user("one").await;
        let Command::Prompt { content, .. } = stage.command().await else { panic!("no prompt") };
        stage.record(ID, SessionEvent::Prompted { content, meta: false }).await;
        stage.tell(AgentEvent::TurnStarted(info())).await;
        stage.end_turn(done()).await;
        stage.stdin = None;
        stage.close().await;
    })
    .await;
    assert_eq!(played.kinds(), ["init", "user", "result"]);
    let replay = &played.frames()[1];
    assert_eq!((&replay["isReplay"], &replay["uuid"]), (&json!(true), &json!(ID)));
    assert_eq!(replay["message"]["content"], "one");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn no_input_breaks_the_dialogue(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let played = runtime.block_on(play(dialogue(), async |stage: &mut Stage| {
            use tokio::io::AsyncWriteExt;
            stage.stdin.as_mut().unwrap().write_all(&bytes).await.unwrap();
            stage.stdin = None;
            while stage.command().await != Command::Close {}
            stage.tell(AgentEvent::Closed).await;
        }));
        prop_assert_eq!(played.exit, 0);
    }
}

#[tokio::test]
async fn a_turn_nobody_asked_for_takes_no_prompt_away() {
    let played = play(dialogue(), async |stage: &mut Stage| {
        stage.tell(AgentEvent::TurnStarted(info())).await;
        stage
            .record("n", SessionEvent::Prompted { content: vec![Block::text("[it ended]")], meta: true })
            .await;
        stage.say_user("one").await;
        let Command::Prompt { content, id, .. } = stage.command().await else { panic!("no prompt") };
        interrupt(stage, json!({}), Queued::Keep, &json!({"still_queued": [id]})).await;
        assert_eq!(stage_response(stage, json!({"subtype": "stop_task", "task_id": "b1"})).await, json!({}));
        assert_eq!(stage.command().await, Command::StopJob(JobId("b1".into())));
        stage.end_turn(done()).await;
        stage.tell(AgentEvent::TurnStarted(info())).await;
        stage.record(id.unwrap().as_str(), SessionEvent::Prompted { content, meta: false }).await;
        stage.end_turn(done()).await;
        stage.stdin = None;
        stage.close().await;
    })
    .await;
    let idle = played.kinds().iter().filter(|kind| *kind == "session_state_changed idle").count();
    assert_eq!((idle, played.exit), (1, 0), "it is idle only when the prompt has had its turn");
}
