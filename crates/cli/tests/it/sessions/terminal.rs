//! Going on at a terminal without a prompt: which session is chosen there, and the prompt is asked for.

use super::TALK;
use crate::stage::Stage;
use std::{
    io::Write as _,
    process::{Command, Stdio},
};

const FIRST: &str = "11111111-2222-4333-8444-555555555555";
const SECOND: &str = "22222222-2222-4333-8444-555555555555";

/// What a terminal shows when this is typed into it; `script` makes one.
#[track_caller]
fn typed(stage: &Stage, words: &[&str], keys: &str) -> Option<String> {
    let ours = stage.command(words);
    let quoted: Vec<String> = std::iter::once(ours.get_program())
        .chain(ours.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mut command = Command::new("script");
    command.args(["-qec", &quoted.join(" "), "/dev/null"]).env_clear().current_dir(stage.repo.path());
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: there is no `script` here to make a terminal");
        return None;
    };
    child.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
    Some(String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned())
}

#[test]
fn the_session_is_chosen_and_then_the_prompt_is_asked_for() {
    let stage = Stage::new(&TALK.repeat(2));
    stage.run(&["-p", "the harbour", "--session-id", FIRST]).check_ok();
    stage.run(&["-p", "the quay", "--session-id", SECOND]).check_ok();
    let model = ["--model", stage.model()];
    let asked = stage.server.requests().len();
    let Some(shown) = typed(&stage, &[&["--continue"], &model[..]].concat(), "\n") else { return };
    assert!(shown.contains("said last: the quay") && shown.contains("nothing was said"), "{shown}");
    assert_eq!(stage.server.requests().len(), asked, "nothing was asked of the model");
    let shown = typed(&stage, &[&["--resume"], &model[..]].concat(), "2\nand the ships?\n").unwrap();
    assert!(shown.contains("which one? 1 to 2") && shown.contains("said last: the harbour"), "{shown}");
    let last = stage.server.requests().last().unwrap().body_json().to_string();
    assert!(last.contains("the harbour") && last.contains("and the ships?"), "{last}");
    assert_eq!(stage.transcripts().len(), 2, "it went on in its own file");
}
