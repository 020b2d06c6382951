//! What people read: the answer alone, the run told live, and questions at the terminal.

use crate::stage::*;
use ostler_proto::session::CallState;
use ostler_proto::{
    Access, AgentEvent, Answer, Ask, AskId, Block, Choice, Command, Decision, ErrorKind, Intent, Limit,
    Matter, ModelEvent, Preview, Reason, RuleSource, SessionEvent, StopReason, TurnOutcome, Usage,
    UserQuestion,
};
use ostler_serve::{Asks, Narrate, Output};
use serde_json::json;

async fn check_outcome(outcome: TurnOutcome, text: &str, exit: u8, stdout: &str, stderr: &str) {
    let played = play(one_shot(plain()), async |stage: &mut Stage| {
        stage.start_turn().await;
        stage.end_turn(end(outcome, text)).await;
        stage.close().await;
    })
    .await;
    assert_eq!((played.exit, played.stdout.as_str(), played.stderr.as_str()), (exit, stdout, stderr));
}

#[tokio::test]
async fn each_outcome_has_its_streams_and_exit_code() {
    check_outcome(TurnOutcome::Completed, "done\u{1b}[2J", 0, "done\n", "").await;
    let max = TurnOutcome::MaxTurns { limit: 3 };
    check_outcome(max, "half", 1, "half\n", "ostler: Reached maximum number of turns (3)\n").await;
    let budget = TurnOutcome::BudgetExhausted { limit: Limit::Usd(0.5) };
    check_outcome(budget, "", 1, "", "ostler: Reached maximum budget ($0.5)\n").await;
    let api = TurnOutcome::ApiError {
        status: Some(529),
        kind: ErrorKind::Overloaded,
        message: "overloaded\ntry later".into(),
    };
    check_outcome(api, "", 1, "", "ostler: API Error: 529 overloaded try later\n").await;
    let stopped = TurnOutcome::Interrupted { during_tools: true };
    check_outcome(stopped, "", 0, "", "ostler: Interrupted by the user\n").await;
    let failed = TurnOutcome::Failed { message: "cannot write the transcript: disk full".into() };
    check_outcome(failed, "", 1, "", "ostler: cannot write the transcript: disk full\n").await;
}

#[tokio::test]
async fn a_session_that_closes_early_is_an_error() {
    let played = play(one_shot(plain()), async |stage: &mut Stage| {
        stage.start_turn().await;
        stage.tell(AgentEvent::Closed).await;
    })
    .await;
    assert_eq!(played.exit, 1);
    assert!(played.stderr.contains("closed before the turn ended"));
}

/// A run with a read, an edit, a denied command, a retry and an answer.
async fn run_with_tools(stage: &mut Stage) {
    stage.start_turn().await;
    stage.record("e1", replied(call("c1", "Read", json!({"file_path": "/w/cart.sh"})))).await;
    let read = Intent { title: "Read".into(), access: Access::Internal, preview: Preview::None };
    stage.tell(AgentEvent::CallStarted { call: "c1".into(), tool: "Read".into(), intent: read }).await;
    let file = json!({"type": "text", "file": {"filePath": "/w/cart.sh", "numLines": 12}});
    stage.record("e2", returned("c1", "Read", "1\tx", file, CallState::Complete)).await;
    stage.record("e3", replied(call("c2", "Edit", json!({"file_path": "/w/cart.sh"})))).await;
    let patch = json!({"structuredPatch": [{"lines": [" a", "-b", "+c\u{1b}]0;x\u{7}"]}]});
    stage.record("e4", returned("c2", "Edit", "ok", patch, CallState::Complete)).await;
    stage.record("e5", replied(call("c3", "Bash", json!({"command": "rm -rf /"})))).await;
    let because =
        Reason::Rule { rule: "Bash(rm *)".into(), source: RuleSource::User("/u/settings.json".into()) };
    let intent = Intent { title: "rm".into(), access: Access::Internal, preview: Preview::None };
    let decision = Decision::Deny { because, tell_model: "no".into() };
    stage.record("e6", SessionEvent::Decided { call: "c3".into(), intent, decision }).await;
    stage.record("e7", returned("c3", "Bash", "no", json!(null), CallState::Denied)).await;
    stage
        .tell(AgentEvent::Retrying {
            attempt: 1,
            max_attempts: 10,
            delay_ms: 1500,
            status: Some(529),
            kind: ErrorKind::Overloaded,
            message: "overloaded".into(),
        })
        .await;
    for text in ["all ", "go\u{1b}", "[31mod"] {
        stage.tell(AgentEvent::Delta(ModelEvent::TextDelta { index: 0, text: text.into() })).await;
    }
    stage.record("e8", replied(Block::text("all go\u{1b}[31mod"))).await;
    let usage = Usage::default();
    let sampled = SessionEvent::Sampled {
        message: "m".into(),
        model: "big".into(),
        stop: Some(StopReason::EndTurn),
        usage,
        cost_usd: 0.0,
        duration_ms: 1234,
        request: None,
    };
    stage.record("e9", sampled).await;
    stage.end_turn(done()).await;
    stage.close().await;
}

#[tokio::test]
async fn a_run_is_told_live_with_its_bill() {
    let output = Output::Text { narrate: Narrate::Stdout, color: false };
    let played = play(one_shot(output), run_with_tools).await;
    let expected = "\
big · default · /w
> fix it
● Read(cart.sh)
  ⎿ 12 lines
● Edit(cart.sh)
  ⎿ 1 line added, 1 removed
     a
    -b
    +c\\u{1b}]0;x\\u{7}
● Bash(rm -rf /)
  ⎿ denied: rule Bash(rm *) from user settings /u/settings.json
↻ overloaded; trying again in 1.5 s (1 of 10)
all good

model  input  cached  output     cost   time
big      240      60      20  $0.0014  1.2 s
2 answers in 0.6 s, of that 0.0 s waiting for the model
";
    assert_eq!(played.stdout, expected);
}

#[tokio::test]
async fn beside_the_telling_on_stderr_the_answer_stays_alone_on_stdout() {
    let output = Output::Text { narrate: Narrate::Stderr, color: true };
    let played = play(one_shot(output), run_with_tools).await;
    assert_eq!(played.stdout, "all good\n");
    assert!(played.stderr.contains("\u{1b}[31m-b\u{1b}[0m"), "removed lines are red");
    assert!(!played.stderr.contains('\u{7}') && !played.stderr.contains("\u{1b}]0;x"));
}

#[tokio::test]
async fn overlapping_calls_name_themselves_with_their_results() {
    let output = Output::Text { narrate: Narrate::Stdout, color: false };
    let played = play(one_shot(output), async |stage: &mut Stage| {
        stage.start_turn().await;
        for id in ["c1", "c2"] {
            stage.record(id, replied(call(id, "Bash", json!({"command": format!("run {id}")})))).await;
            let intent = Intent { title: id.into(), access: Access::Internal, preview: Preview::None };
            stage.tell(AgentEvent::CallStarted { call: id.into(), tool: "Bash".into(), intent }).await;
        }
        let out = |text: &str| json!({"stdout": text});
        stage.record("r1", returned("c1", "Bash", "", out("one"), CallState::Complete)).await;
        stage.record("r2", returned("c2", "Bash", "", out("two"), CallState::Complete)).await;
        stage.end_turn(done()).await;
        stage.close().await;
    })
    .await;
    let expected = "● Bash(run c1)\n● Bash(run c2)\n● Bash(run c1)\n  ⎿ one\n● Bash(run c2)\n  ⎿ two\n";
    assert!(played.stdout.contains(expected), "{}", played.stdout);
}

#[tokio::test]
async fn a_person_answers_at_the_terminal() {
    let print = ostler_serve::Print { asks: Asks::Terminal, ..one_shot(plain()) };
    let played = play(print, async |stage: &mut Stage| {
        stage.start_turn().await;
        stage.tell(AgentEvent::Asked(ask(1, "make\u{1b}[8m"))).await;
        stage.tell(AgentEvent::Asked(ask(2, "make test"))).await;
        let question = stage.stderr_until("> ").await;
        assert!(question.contains("│ make\\u{1b}[8m\n") && !question.contains("make test"), "{question}");
        stage.write("what?\n").await;
        stage.stderr_until("> ").await;
        stage.write("n\n").await;
        let no = Answer::Deny { message: "the user said no".into(), interrupt: false };
        assert_eq!(stage.command().await, Command::Answer { ask: AskId(1), answer: no });
        assert!(stage.stderr_until("> ").await.contains("make test"));
        stage.write("a\n").await;
        let always =
            Answer::AllowAlways { rules: vec!["Bash(make *)".into()], keep: ostler_proto::Keep::Session };
        assert_eq!(stage.command().await, Command::Answer { ask: AskId(2), answer: always });
        stage.tell(AgentEvent::Asked(ask(3, "make clean"))).await;
        stage.stderr_until("> ").await;
        stage.stdin = None;
        let Command::Answer { ask: AskId(3), answer: Answer::Deny { .. } } = stage.command().await else {
            panic!("the end of input is no");
        };
        stage.end_turn(done()).await;
        stage.close().await;
    })
    .await;
    assert_eq!((played.exit, played.stdout.as_str()), (0, "all good\n"));
}

#[tokio::test]
async fn a_person_fills_in_a_form_between_other_questions() {
    let print = ostler_serve::Print { asks: Asks::Terminal, ..one_shot(plain()) };
    play(print, async |stage: &mut Stage| {
        let choice = |label: &str| Choice { label: label.into(), description: String::new(), preview: None };
        let question = |text: &str| UserQuestion {
            question: text.into(),
            header: String::new(),
            options: vec![choice("Red"), choice("Blue")],
            multi_select: false,
        };
        let access = Access::Consult(Matter::Questions(vec![question("First?"), question("Second?")]));
        let intent = Intent { title: "Ask".into(), access, preview: Preview::None };
        let form = Ask { input: json!({"questions": 2}), intent, ..ask(1, "") };
        stage.start_turn().await;
        stage.tell(AgentEvent::Asked(form)).await;
        stage.tell(AgentEvent::Asked(ask(2, "make"))).await;
        assert!(stage.stderr_until("> ").await.contains("(1 of 2): First?"));
        stage.write("2\n").await;
        assert!(stage.stderr_until("> ").await.contains("(2 of 2): Second?"));
        stage.write("neither\n").await;
        let input = json!({"questions": 2, "answers": {"First?": "Blue", "Second?": "neither"}});
        let answer = Answer::Allow { input: Some(input) };
        assert_eq!(stage.command().await, Command::Answer { ask: AskId(1), answer });
        assert!(stage.stderr_until("> ").await.contains("│ make\n"), "the next question is an ordinary one");
        stage.write("y\n").await;
        let answer = Answer::Allow { input: None };
        assert_eq!(stage.command().await, Command::Answer { ask: AskId(2), answer });
        stage.end_turn(done()).await;
        stage.close().await;
    })
    .await;
}

#[tokio::test]
async fn what_was_typed_before_a_question_is_no_answer() {
    let print = ostler_serve::Print { asks: Asks::Terminal, ..one_shot(plain()) };
    play(print, async |stage: &mut Stage| {
        stage.start_turn().await;
        stage.write("y\n").await;
        // More than the pipe holds: once it is written, the first line has been read.
        stage.write(&"\n".repeat(2 * STDIN_PIPE)).await;
        stage.tell(AgentEvent::Asked(ask(1, "make"))).await;
        stage.stderr_until("> ").await;
        stage.tell(AgentEvent::AskWithdrawn { ask: AskId(1) }).await;
        stage.stderr_until("no answer needed any more)\n").await;
        stage.end_turn(done()).await;
        stage.close().await;
    })
    .await;
}

#[tokio::test]
async fn when_nobody_can_answer_the_answer_is_no() {
    check_denied(one_shot(plain())).await;
    // A host that sends no lines cannot answer by them.
    check_denied(ostler_serve::Print { asks: Asks::ControlProtocol, ..one_shot(plain()) }).await;
}

async fn check_denied(print: ostler_serve::Print) {
    play(print, async |stage: &mut Stage| {
        stage.start_turn().await;
        stage.tell(AgentEvent::Asked(ask(1, "make"))).await;
        let Command::Answer { ask: AskId(1), answer: Answer::Deny { message, interrupt: false } } =
            stage.command().await
        else {
            panic!("not denied");
        };
        assert!(message.contains("nobody can answer"));
        stage.end_turn(done()).await;
        stage.close().await;
    })
    .await;
}
