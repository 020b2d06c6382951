//! Pipes that misbehave: readers that leave, readers that are slow, engines that do not listen.

use crate::stage::*;
use ostler_proto::{AgentEvent, Block, Command};
use ostler_serve::Pipes;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

#[tokio::test]
async fn when_nobody_reads_the_session_is_stopped_quietly() {
    let played = play(dialogue(), async |stage: &mut Stage| {
        stage.say_user("one").await;
        stage.stdout = None;
        stage.start_turn().await;
        assert_eq!(stage.command().await, Command::Interrupt);
        assert_eq!(stage.command().await, Command::Close);
        stage.end_turn(done()).await;
        // A queued turn that begins all the same is not left to run.
        stage.tell(AgentEvent::TurnStarted(info())).await;
        assert_eq!(stage.command().await, Command::Interrupt);
        stage.tell(AgentEvent::Closed).await;
    })
    .await;
    assert_eq!((played.exit, played.stderr.as_str()), (141, ""));
}

#[tokio::test]
async fn one_shot_without_a_reader_ends_too() {
    let played = play(one_shot(stream()), async |stage: &mut Stage| {
        stage.stdout = None;
        stage.start_turn().await;
        assert_eq!(stage.command().await, Command::Interrupt);
        stage.end_turn(done()).await;
        assert_eq!(stage.command().await, Command::Close);
        stage.tell(AgentEvent::Closed).await;
    })
    .await;
    assert_eq!(played.exit, 141);
}

#[tokio::test]
async fn a_slow_reader_gets_everything() {
    let (commands, mut commands_rx) = mpsc::channel(1);
    let (events, events_rx) = mpsc::channel(1);
    let (mut reader, stdout) = tokio::io::duplex(7);
    let pipes = Pipes { stdin: tokio::io::empty(), stdout, stderr: tokio::io::sink() };
    let (print_mode, long) = (one_shot(plain()), "word ".repeat(10_000));
    let engine = async {
        let send = async |event| {
            let envelope = ostler_proto::Envelope { seq: 1, session: "s".into(), agent: None, event };
            events.send(envelope).await.unwrap();
        };
        commands_rx.recv().await.unwrap();
        send(AgentEvent::TurnStarted(info())).await;
        send(AgentEvent::TurnEnded(end(ostler_proto::TurnOutcome::Completed, &long))).await;
        assert_eq!(commands_rx.recv().await, Some(Command::Close));
        send(AgentEvent::Closed).await;
    };
    let reading = async {
        let mut text = String::new();
        reader.read_to_string(&mut text).await.unwrap();
        text
    };
    let run = ostler_serve::run(print_mode, commands, events_rx, pipes);
    let (exit, (), text) = tokio::join!(run, engine, reading);
    assert_eq!((exit, text), (0, format!("{long}\n")));
}

#[tokio::test]
async fn a_busy_engine_does_not_lock_up_the_dialogue() {
    let played = play(dialogue(), async |stage: &mut Stage| {
        stage.say_user("one").await;
        stage.start_turn().await;
        // More commands than the engine's channel holds, while it only talks.
        for _ in 0..20 {
            stage.say(serde_json::json!({"type": "control_request", "request_id": "r", "request": {"subtype": "interrupt"}})).await;
        }
        for number in 0..50 {
            stage.record(&format!("e{number}"), replied(Block::text("x"))).await;
        }
        for _ in 0..20 {
            assert!(matches!(stage.command().await, Command::Query { .. }));
        }
        stage.end_turn(done()).await;
        stage.stdin = None;
        stage.close().await;
    })
    .await;
    assert_eq!(played.exit, 0);
    assert_eq!(played.kinds().iter().filter(|kind| *kind == "assistant").count(), 50);
}
