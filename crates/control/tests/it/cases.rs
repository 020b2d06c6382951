//! What the executor promises, case by case.

use crate::bench::Bench;
use ostler_control::{
    ExecEvent,
    executor::{Abandoned, AfterCall, Attendance, Cause},
};
use ostler_proto::{Answer, Ask, Mode, ToolCall, session::CallState};
use serde_json::json;
use std::sync::atomic::Ordering;

fn bench() -> Bench {
    Bench::new(Mode::BypassPermissions, Attendance::Unattended)
}

async fn asked(bench: &mut Bench, id: &str) -> Ask {
    match bench.until(&format!("asked {id}")).await {
        ExecEvent::Asked(ask) => ask,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn independent_calls_overlap_and_results_keep_call_order() {
    let mut bench = bench();
    bench.call("slow", "read /w/a", "wait");
    bench.call("fast", "read /w/b", "ok");
    bench.until("started fast").await;
    bench.until("progress fast").await;
    assert!(!bench.saw("finished fast"), "a result waits for the earlier call's");
    bench.strings.release("slow");
    bench.finished("slow").await;
    bench.finished("fast").await;
    assert_eq!(bench.executor.open_calls(), 0);
}

#[tokio::test]
async fn a_write_and_a_read_of_one_path_never_overlap() {
    let mut bench = bench();
    bench.call("write", "write /w/a", "wait");
    bench.call("read", "read /w/a", "ok");
    bench.call("other", "read /w/b", "ok");
    bench.until("progress other").await;
    assert!(!bench.saw("started read"));
    bench.strings.release("write");
    bench.finished("other").await;
    assert_eq!(*bench.strings.effects.lock().unwrap(), ["write", "other", "read"]);
}

#[tokio::test]
async fn a_call_with_unknown_effects_runs_alone_and_later_ones_start_from_what_it_left() {
    let mut bench = bench();
    bench.call("before", "read x", "wait");
    bench.call("run", "run", "cd");
    bench.call("after", "read x", "ok");
    bench.until("progress before").await;
    bench.strings.release("before");
    bench.finished("run").await;
    let after = bench.finished("after").await;
    assert_eq!(after.result.text(), "after in /moved");
    assert_eq!(bench.strings.most_at_once.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn no_more_than_so_many_run_at_once() {
    let mut bench = Bench::with(Mode::Default, Attendance::Unattended, 3);
    for number in 0..9 {
        bench.call(&number.to_string(), &format!("read /w/{number}"), "wait");
    }
    bench.until("progress 2").await;
    for number in 0..9 {
        bench.strings.release(&number.to_string());
    }
    bench.finished("8").await;
    assert_eq!(bench.strings.most_at_once.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_failing_or_panicking_call_takes_no_other_down() {
    let mut bench = bench();
    bench.call("fails", "read /w/a", "fail");
    bench.call("panics", "read /w/b", "panic");
    bench.call("plans badly", "read /w/c", "panic in plan");
    bench.call("is fine", "read /w/d", "ok");
    for (id, state, text) in [
        ("fails", CallState::Failed, "told to fail"),
        ("panics", CallState::Failed, "a bug in it: told to panic"),
        ("plans badly", CallState::Failed, "a bug in it"),
        ("is fine", CallState::Complete, "is fine in /w"),
    ] {
        let finished = bench.finished(id).await;
        assert_eq!((finished.state, finished.result.is_error), (state, state != CallState::Complete));
        assert!(finished.result.text().contains(text), "{}", finished.result.text());
    }
}

#[tokio::test]
async fn wrong_calls_are_answered_in_words_a_model_can_act_on() {
    let mut bench = bench();
    bench.call_tool("Nonsense", "unknown", json!({}));
    bench.call_tool("Puppet", "invalid", json!({"name": 3}));
    let problem = Some("the input of Puppet was cut off".to_owned());
    bench.executor.start(ToolCall { id: "cut".into(), name: "Puppet".into(), input: json!({}), problem });
    assert!(
        bench
            .finished("unknown")
            .await
            .result
            .text()
            .contains("no tool named 'Nonsense'; the tools are Puppet")
    );
    let invalid = bench.finished("invalid").await.result.text();
    assert!(
        invalid.contains("InputValidationError") && invalid.contains("name: 3 is not of type \"string\""),
        "{invalid}"
    );
    assert!(bench.finished("cut").await.result.text().contains("cut off"));
    assert!(bench.strings.effects.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_call_that_waits_for_approval_holds_up_only_what_depends_on_it() {
    let mut bench = Bench::new(Mode::Default, Attendance::Attended);
    bench.call("write", "write /w/a", "ok");
    bench.call("independent", "read /w/b", "ok");
    bench.call("dependent", "read /w/a", "ok");
    let ask = asked(&mut bench, "write").await;
    bench.until("progress independent").await;
    assert!(!bench.saw("started dependent") && !bench.saw("started write"));
    bench.executor.answer(ask.id, Answer::Allow { input: None });
    bench.finished("dependent").await;
    assert_eq!(*bench.strings.effects.lock().unwrap(), ["independent", "write", "dependent"]);
}

#[tokio::test]
async fn answers_allow_deny_change_and_remember() {
    let mut bench = Bench::new(Mode::Default, Attendance::Attended);
    bench.call("no", "write /w/a", "ok");
    let ask = asked(&mut bench, "no").await;
    bench.executor.answer(ask.id, Answer::Deny { message: "not today".into(), interrupt: true });
    let denied = bench.finished("no").await;
    assert_eq!((denied.state, denied.turn), (CallState::Denied, AfterCall::Interrupt));
    assert_eq!(denied.result.text(), "not today");

    bench.call("changed", "write /w/a", "ok");
    let ask = asked(&mut bench, "changed").await;
    let input = json!({"name": "otherwise", "access": "write /w/b", "does": "ok"});
    bench.executor.answer(ask.id, Answer::Allow { input: Some(input) });
    assert_eq!(bench.finished("changed").await.result.text(), "otherwise in /w");

    bench.call("always", "write /w/c", "ok");
    let ask = asked(&mut bench, "always").await;
    let rules = vec![ask.suggestions[0].rule.clone(), "Bash".to_owned()];
    bench.executor.answer(ask.id, Answer::AllowAlways { rules, keep: ostler_proto::Keep::Session });
    bench.finished("always").await;
    bench.call("again", "write /w/c", "ok");
    bench.finished("again").await;
    assert!(!bench.saw("asked again"));
    bench.call("run", "run", "ok");
    asked(&mut bench, "run").await;
}

#[tokio::test]
async fn what_follows_a_word_of_the_user_is_judged_by_it() {
    let mut bench = Bench::new(Mode::AcceptEdits, Attendance::Attended);
    bench.call("enter", "consult enter", "ok");
    bench.call("write", "write /w/a", "ok");
    let ask = asked(&mut bench, "enter").await;
    assert!(ask.suggestions.is_empty());
    bench.executor.answer(ask.id, Answer::Allow { input: None });
    bench.until("mode plan").await;
    let ask = asked(&mut bench, "write").await;
    assert_eq!(bench.executor.mode(), Mode::Plan);
    bench.executor.answer(ask.id, Answer::Deny { message: "no".into(), interrupt: false });
    bench.finished("write").await;

    bench.call("again", "consult enter", "ok");
    assert_eq!(bench.finished("again").await.state, CallState::Failed, "it is on already");
    bench.call("leave", "consult leave", "ok");
    bench.call("then", "write /w/a", "ok");
    let ask = asked(&mut bench, "leave").await;
    assert_eq!(ask.input["plan"], "leave", "whoever answers sees the plan in the input");
    bench.executor.answer(ask.id, Answer::Allow { input: None });
    bench.until("mode acceptEdits").await;
    bench.finished("then").await;
    assert!(!bench.saw("asked then"));
    bench.call("leave twice", "consult leave", "ok");
    assert_eq!(bench.finished("leave twice").await.state, CallState::Failed);
}

#[tokio::test]
async fn an_effect_that_fails_leaves_plan_mode_on() {
    let mut bench = Bench::new(Mode::Plan, Attendance::Attended);
    bench.call("leave", "consult leave", "fail");
    let ask = asked(&mut bench, "leave").await;
    bench.executor.answer(ask.id, Answer::Allow { input: None });
    bench.finished("leave").await;
    assert_eq!(bench.executor.mode(), Mode::Plan);
}

#[tokio::test]
async fn a_child_asks_its_parent_where_nobody_else_is() {
    let mut bench = Bench::new(Mode::Bubble, Attendance::Unattended);
    bench.call("write", "write /w/a", "ok");
    let ask = asked(&mut bench, "write").await;
    bench.executor.answer(ask.id, Answer::Allow { input: None });
    assert_eq!(bench.finished("write").await.state, CallState::Complete);
}

#[tokio::test]
async fn bypassing_needs_leave_from_the_start() {
    let bench = Bench::new(Mode::Default, Attendance::Attended);
    assert!(bench.executor.set_mode(Mode::BypassPermissions).is_err());
    assert_eq!(bench.executor.mode(), Mode::Default);
    assert!(bench.executor.set_mode(Mode::AcceptEdits).is_ok());
}

#[tokio::test]
async fn what_nobody_can_answer_is_denied() {
    let mut bench = Bench::new(Mode::Default, Attendance::Unattended);
    bench.call("write", "write /w/a", "ok");
    let denied = bench.finished("write").await;
    assert_eq!(denied.state, CallState::Denied);
    assert!(denied.result.text().contains("nobody is there to answer"), "{}", denied.result.text());
    assert!(bench.strings.effects.lock().unwrap().is_empty());
}

#[tokio::test]
async fn cancelling_gives_every_open_call_a_result() {
    let mut bench = Bench::new(Mode::Default, Attendance::Attended);
    bench.call("runs", "read /w/a", "wait");
    bench.call_tool(
        "Stubborn",
        "finishes",
        json!({"name": "finishes", "access": "read /w/b", "does": "wait"}),
    );
    bench.call("asks", "write /w/c", "ok");
    bench.call("waits", "read /w/c", "ok");
    bench.until("asked asks").await;
    while !(bench.saw("progress runs") && bench.saw("progress finishes")) {
        bench.until(if bench.saw("progress runs") { "progress finishes" } else { "progress runs" }).await;
    }
    bench.executor.cancel(Cause::User);
    bench.strings.release("finishes");
    for (id, state) in [
        ("runs", CallState::Cancelled),
        ("finishes", CallState::Complete),
        ("asks", CallState::Cancelled),
        ("waits", CallState::Cancelled),
    ] {
        assert_eq!(bench.finished(id).await.state, state, "{id}");
    }
    assert!(bench.saw("withdrawn"));
    assert_eq!(bench.strings.running.load(Ordering::SeqCst), 0, "nothing is left running");
    bench.call("next", "read /w/a", "ok");
    assert_eq!(bench.finished("next").await.state, CallState::Complete);
}

#[tokio::test]
async fn an_answer_is_abandoned_only_while_nothing_had_an_effect() {
    let mut bench = bench();
    bench.executor.begin_answer();
    bench.call("read", "read /w/a", "wait");
    bench.until("progress read").await;
    assert_eq!(bench.executor.abandon().await, Abandoned::Yes);
    assert_eq!((bench.executor.open_calls(), bench.strings.running.load(Ordering::SeqCst)), (0, 0));

    bench.executor.begin_answer();
    bench.call("write", "write /w/a", "wait");
    bench.until("progress write").await;
    assert_eq!(bench.executor.abandon().await, Abandoned::EffectBegan);
    bench.strings.release("write");
    assert_eq!(bench.finished("write").await.state, CallState::Complete);
}

#[tokio::test]
async fn a_fatal_call_says_so_and_long_results_are_cut_in_the_middle() {
    let mut bench = bench();
    bench.call("fatal", "read /w/a", "fatal");
    assert_eq!(bench.finished("fatal").await.turn, AfterCall::Fatal("told to be fatal".into()));
    let name = "é".repeat(1500);
    bench.call(&name, "read /w/a", "ok");
    let text = bench.finished(&name).await.result.text();
    assert!(
        text.contains("characters of output left out here; the rest was not kept") && text.ends_with("in /w"),
        "{text}"
    );
}
