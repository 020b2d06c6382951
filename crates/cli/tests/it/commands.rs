//! Commands that a prompt may begin with: carried out without the model, and told apart from other words.

use crate::stage::Stage;
use ostler_proto::Json;

const ONE_ANSWER: &str = r#"
[[turn]]
steps = [{ text = "heard" }]
"#;

#[test]
fn a_command_is_carried_out_without_the_model() {
    let stage = Stage::new(ONE_ANSWER);
    let done = stage.run(&["-p", "/help"]);
    assert!(done.check_ok().stdout.contains("/cost: Show tokens and dollars spent"), "{}", done.stdout);
    assert!(stage.server.requests().is_empty());
    let frames = stage.run(&["-p", "/cost", "--output-format", "stream-json", "--verbose"]).frames();
    let init = &frames.all[0];
    assert!(init["slash_commands"].as_array().unwrap().contains(&Json::from("cost")), "{init}");
    let result = frames.result();
    assert_eq!((&result["num_turns"], &result["result"]), (&Json::from(0), &Json::from("Total: $0.0000")));
}

#[test]
fn other_words_with_a_slash_are_said_to_the_model() {
    let stage = Stage::new(ONE_ANSWER);
    assert_eq!(stage.run(&["-p", "/usr/bin/env is missing"]).check_ok().stdout, "heard\n");
}
