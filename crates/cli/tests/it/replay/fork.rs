//! `ostler replay --from`: a prompt of a session is sent again, in a copy of the conversation up to it.

use crate::stage::Stage;
use ostler_proto::Json;
use std::fs;

const TALK: &str = r#"
[[turn]]
steps = [{ text = "first answer" }]
[[turn]]
steps = [{ text = "second answer" }]
[[turn]]
steps = [{ text = "third answer" }]
[[turn]]
steps = [{ text = "another second" }]
[[turn]]
steps = [{ text = "another first" }]
"#;

fn request(stage: &Stage, number: usize) -> Json {
    serde_json::from_slice(&stage.server.requests()[number].body).unwrap()
}

#[test]
fn a_prompt_is_sent_again_to_another_model_and_the_session_stays() {
    let stage = Stage::new(TALK);
    stage.run(&["-p", "prompt one"]).check_ok();
    stage.run(&["-p", "prompt two", "--continue"]).check_ok();
    stage.run(&["-p", "prompt three", "--continue"]).check_ok();
    let transcript = stage.transcript();
    let (id, before) = (transcript.file_stem().unwrap().to_str().unwrap(), fs::read(&transcript).unwrap());

    let words = ["replay", id, "--from", "2", "--model", "claude-haiku-4-5", "--output-format", "json"];
    let done = stage.run(&words);
    let result: Json = serde_json::from_str(&done.check_ok().stdout).unwrap();
    assert_eq!(result["result"], "another second");
    let asked = request(&stage, 3);
    let text = asked["messages"].to_string();
    assert!(asked["model"].as_str().unwrap().starts_with("claude-haiku-4-5"), "{}", asked["model"]);
    assert!(text.contains("first answer") && text.contains("prompt two"), "{text}");
    assert!(!text.contains("second answer") && !text.contains("prompt three"), "{text}");
    stage.server.assert_valid_histories();
    assert_eq!(fs::read(&transcript).unwrap(), before);
    assert_eq!(stage.transcripts().len(), 2);
    let new = result["session_id"].as_str().unwrap();
    assert!(new != id && stage.transcripts().iter().any(|path| path.file_stem().unwrap() == new));
    // The copy is a session of its own, recorded like any other.
    assert!(stage.run(&["replay", new]).check_ok().stdout.contains("1 request and"));

    // From the very first, with the session's own model.
    let done = stage.run(&["replay", id, "--from", "1", "--", "--max-turns", "3"]);
    assert_eq!(done.check_ok().stdout.trim(), "another first");
    let asked = request(&stage, 4);
    assert!(asked["model"].as_str().unwrap().starts_with("claude-sonnet-4-5"), "{}", asked["model"]);
    assert!(!asked["messages"].to_string().contains("first answer"));

    let done = stage.run(&["replay", id, "--from", "4"]);
    assert!(
        done.code == Some(1) && done.stderr.contains("has no prompt '4'; it has\n  1  "),
        "{}",
        done.stderr
    );
    let done = stage.run(&["replay", id, "--model", "x"]);
    assert!(done.code == Some(1) && done.stderr.contains("--from"), "{}", done.stderr);
}
