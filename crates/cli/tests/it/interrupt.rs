//! Ctrl-C and SIGTERM at every stage: a clear end, nothing left running, a session that goes on.

use crate::stage::{Done, Stage};
use ostler_testkit::process;
use std::process::Child;

fn signal(child: &Child, name: &str) {
    let status = std::process::Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

fn wait_until(child: &mut Child, mut ready: impl FnMut() -> bool) {
    while !ready() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before the stage was reached");
        std::thread::yield_now();
    }
}

const FRAMES: [&str; 7] =
    ["-p", "go", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash"];

/// Interrupts a run when `ready` says so, and checks what every interrupt must leave.
#[track_caller]
fn check(script: &str, ready: impl Fn(&Stage) -> bool, reason: &str) -> Done {
    let stage = Stage::new(&format!("{script}\n[[turn]]\nsteps = [{{ text = 'going on' }}]"));
    let mut child = stage.spawn(&FRAMES);
    wait_until(&mut child, || ready(&stage));
    signal(&child, "-INT");
    let frames = Done::from(child.wait_with_output().unwrap()).frames();
    process::assert_none_running_in(stage.repo.path());
    assert_eq!(frames.code, Some(0), "{}", frames.stderr);
    let result = frames.result();
    assert_eq!(result["subtype"], "error_during_execution", "{result}");
    assert_eq!(result["terminal_reason"], reason, "{result}");
    assert!(frames.all.iter().any(|frame| frame.to_string().contains("[Request interrupted by user")));
    stage.check_resumable();
    stage.run(&["-p", "x", "--continue"])
}

fn asked(stage: &Stage) -> bool {
    !stage.server.requests().is_empty()
}

/// Whether the step's last byte has left the server.
fn sent(stage: &Stage, step: usize) -> bool {
    stage.server.requests().first().is_some_and(|request| request.step_sent(step).is_some())
}

#[test]
fn before_the_first_byte() {
    check("[[turn]]\nwire = { delay_ms = 60000 }\nsteps = [{ text = 'never' }]", asked, "aborted_streaming");
}

#[test]
fn in_the_middle_of_text() {
    let script = "[[turn]]\nsteps = [{ text = 'half a' }, { pause_ms = 60000 }, { text = 'never' }]";
    check(script, |stage| sent(stage, 0), "aborted_streaming");
}

#[test]
fn in_the_middle_of_a_calls_input() {
    let script = "[[turn]]\nsteps = [{ text = 'x' }, { call = 'Bash', input = { command = 'touch never' }, over_ms = 60000, pieces = 4 }]";
    check(script, |stage| sent(stage, 0), "aborted_streaming");
}

#[test]
fn while_a_tool_runs_and_the_model_is_silent() {
    let script =
        "[[turn]]\nsteps = [{ call = 'Bash', input = { command = 'touch started; sleep 60 & sleep 60' } }]";
    check(script, |stage| stage.repo.has("started"), "aborted_tools");
}

#[test]
fn while_a_tool_runs_and_the_model_speaks() {
    let script = "[[turn]]\nsteps = [{ call = 'Bash', input = { command = 'touch started; sleep 60' } }, { text = 'on', over_ms = 60000, pieces = 600 }]";
    check(script, |stage| stage.repo.has("started"), "aborted_tools");
}

#[test]
fn while_waiting_to_try_again() {
    let script = "[[turn]]\nwire = { status = 529, headers = { retry-after = '60' } }";
    let answered =
        |stage: &Stage| stage.server.requests().first().is_some_and(|request| request.answered.is_some());
    check(script, answered, "aborted_streaming");
}

#[test]
fn a_term_signal_ends_everything_and_the_session_goes_on() {
    let stage = Stage::new(
        "[[turn]]\nsteps = [{ call = 'Bash', input = { command = 'touch started; sleep 60' } }]\n[[turn]]\nsteps = [{ text = 'going on' }]",
    );
    let mut child = stage.spawn(&FRAMES);
    wait_until(&mut child, || stage.repo.has("started"));
    signal(&child, "-TERM");
    let done = Done::from(child.wait_with_output().unwrap());
    assert_eq!(done.code, Some(143));
    process::assert_none_running_in(stage.repo.path());
    stage.check_resumable();
}
