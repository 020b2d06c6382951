//! Every event against every way a hook can break: gates close, the rest goes on, nothing is left.

use super::{Stage, none_left};
use futures_util::future::join_all;
use ostler_control::hooks::{Fired, Occasion};
use ostler_proto::{
    HookEvent, Verdict,
    hook::{HookEnd, Power},
};
use serde_json::json;

/// What a way to break comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// A gate says no, the others only note it.
    Broken,
    /// An objection, wherever one can be made.
    Objects,
    /// An odd way to say nothing.
    Fine,
}

#[track_caller]
fn check(event: HookEvent, fired: &Fired, expect: Expect, end: &HookEnd) {
    let [run] = fired.runs.as_slice() else { panic!("{event}: {fired:?}") };
    assert_eq!(&run.end, end, "{event}: {fired:?}");
    let is_denied = matches!(fired.verdict, Some(Verdict::Deny { .. }));
    let is_blocked = fired.block.is_some();
    let is_ignored = expect == Expect::Objects && event == HookEvent::PermissionRequest;
    let wanted = match (expect, event.power()) {
        (Expect::Broken | Expect::Objects, Power::Gate) => (!is_ignored, false),
        (Expect::Objects, Power::Steer) => (false, true),
        (Expect::Fine, Power::Gate | Power::Steer | Power::Watch)
        | (Expect::Broken, Power::Steer | Power::Watch)
        | (Expect::Objects, Power::Watch) => (false, false),
    };
    assert_eq!((is_denied, is_blocked), wanted, "{event}: {fired:?}");
    let is_noted = expect == Expect::Broken || (expect == Expect::Objects && wanted == (false, false));
    assert_eq!(run.problem.is_some(), is_noted, "{event}: {fired:?}");
    assert!(fired.updated_input.is_none() && fired.stop.is_none(), "{event}: {fired:?}");
}

/// Fires all events at a hook that breaks in one way, with an input that fills any pipe.
async fn matrix(command: &str, timeout: f64, expect: Expect, end: HookEnd) {
    let stage = Stage::new();
    let one = |event: HookEvent| {
        let mut stage =
            Stage { folder: tempfile::tempdir_in(stage.folder.path()).unwrap(), scopes: Vec::new() };
        let hook = json!({"type": "command", "command": command, "timeout": timeout});
        stage.add(super::user(), event, json!([{"hooks": [hook]}]));
        async move {
            let occasion = Occasion::sample(event).with("padding", "x".repeat(100_000));
            (event, stage.fire(&occasion).await, stage)
        }
    };
    for (event, fired, _stage) in join_all(HookEvent::ALL.iter().copied().map(one)).await {
        check(event, &fired, expect, &end);
    }
    none_left(stage.folder.path());
}

const LONG: f64 = 30.0;

#[tokio::test]
async fn a_crash() {
    matrix("kill -SEGV $$", LONG, Expect::Broken, HookEnd::Killed { signal: 11 }).await;
    matrix("sh -c 'kill -9 $$'; exit $?", LONG, Expect::Broken, HookEnd::Exited { code: 137 }).await;
}

#[tokio::test]
async fn a_program_that_is_not_there() {
    matrix("no-such-program", LONG, Expect::Broken, HookEnd::Exited { code: 127 }).await;
}

#[tokio::test]
async fn a_hang() {
    matrix("sleep 300", 0.3, Expect::Broken, HookEnd::TimedOut).await;
    matrix(
        "trap '' TERM INT HUP; echo '{}'; while :; do sleep 300; done",
        0.3,
        Expect::Broken,
        HookEnd::TimedOut,
    )
    .await;
}

#[tokio::test]
async fn half_an_answer() {
    matrix("printf '{\"decision\": \"bl'", LONG, Expect::Broken, HookEnd::Exited { code: 0 }).await;
    matrix("printf '{\"decision\": \"perhaps\"}'", LONG, Expect::Broken, HookEnd::Exited { code: 0 }).await;
}

#[tokio::test]
async fn ten_megabytes() {
    matrix("head -c 10000000 /dev/zero", LONG, Expect::Broken, HookEnd::Babbled).await;
    matrix("head -c 10000000 /dev/zero >&2; exit 2", LONG, Expect::Broken, HookEnd::Babbled).await;
}

#[tokio::test]
async fn exit_code_two() {
    matrix("echo no >&2; exit 2", LONG, Expect::Objects, HookEnd::Exited { code: 2 }).await;
}

#[tokio::test]
async fn words_for_the_terminal() {
    matrix(
        "{ printf '\\033]0;owned\\007' >/dev/tty; } 2>/dev/null; echo '{}'",
        LONG,
        Expect::Fine,
        HookEnd::Exited { code: 0 },
    )
    .await;
}

#[tokio::test]
async fn input_that_nobody_reads() {
    matrix("exit 0", LONG, Expect::Fine, HookEnd::Exited { code: 0 }).await;
    matrix("exec <&-; echo '{}'", LONG, Expect::Fine, HookEnd::Exited { code: 0 }).await;
    matrix("head -c 10 >/dev/null; exit 0", LONG, Expect::Fine, HookEnd::Exited { code: 0 }).await;
}

#[tokio::test]
async fn a_daemon_left_behind() {
    matrix("( ( sleep 300 & ) & ); echo '{}'", LONG, Expect::Fine, HookEnd::Exited { code: 0 }).await;
    matrix(
        "( ( sleep 300 & ) & ) >/dev/null 2>&1 </dev/null; exit 2",
        LONG,
        Expect::Objects,
        HookEnd::Exited { code: 2 },
    )
    .await;
}

#[tokio::test]
async fn closed_streams() {
    matrix("exec >&- 2>&-; exit 2", LONG, Expect::Objects, HookEnd::Exited { code: 2 }).await;
}

#[tokio::test]
async fn what_is_dropped_is_killed() {
    let stage = Stage::command(HookEvent::PreToolUse, "echo $$ > started; ( sleep 300 & ); sleep 300");
    let (hooks, common, occasion) = (stage.hooks(), stage.common(), super::bash("ls"));
    let firing = hooks.fire(&common, &occasion);
    let started = async {
        while stage.read("started").is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = firing => panic!("it does not end by itself"),
        () = started => {}
    }
    none_left(stage.folder.path());
}
