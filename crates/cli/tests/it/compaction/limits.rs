//! Compaction that nobody asked for: near the limit, and again and again in one long turn.

use super::{FRAMES, body, carried, transcript};
use crate::stage::{Done, Stage};
use ostler_proto::Json;
use serde_json::json;

/// A model with little room.
fn tiny(window: u64) -> String {
    let row = json!({"api": "anthropic", "context_window": window, "max_output_tokens": 2000});
    json!({"models": {"tiny": row}}).to_string()
}

fn run(stage: &Stage, arguments: &[&str]) -> Done {
    let settings = tiny(24_000);
    let mut all = vec!["--model", "tiny", "--settings", &settings, "--allowedTools", "Bash"];
    all.extend(arguments);
    stage.run(&all)
}

#[test]
fn thirty_rounds_with_little_room_keep_the_task() {
    let work = "word ".repeat(500);
    let round = |number: usize| {
        format!(
            "[[turn]]\nsteps = [{{ text = 'NOTES {number} {work}' }}, {{ call = 'Bash', input = {{ command = 'echo {number} >> rounds; seq {number} 2400' }} }}]\n"
        )
    };
    let todo = "[[turn]]\nsteps = [{ call = 'TodoWrite', input = { todos = [{ content = 'reach round thirty', status = 'in_progress', activeForm = 'Going' }] } }]\n";
    // A request for a summary is answered by the next round: its text is the summary, its call must not run.
    let rounds: String = (1..=60).map(round).collect();
    let stage = Stage::new(&format!("{todo}{rounds}"));
    let mut arguments = vec!["-p", "the long task: count, and never touch b.txt", "--max-turns", "31"];
    arguments.extend(FRAMES);
    let frames = run(&stage, &arguments).frames();
    assert_eq!(frames.result()["subtype"], "error_max_turns", "{}", frames.result());
    let count = |subtype: &str| frames.all.iter().filter(|frame| frame["subtype"] == subtype).count();
    assert!(count("compact_boundary") >= 2, "{}", frames.kinds());
    assert!(count("informational") >= 1, "old results were set aside first: {}", frames.kinds());

    let requests = stage.server.requests();
    let mut summaries = Vec::new();
    for (number, request) in (1..).zip(&requests) {
        let body = request.body_json().to_string();
        assert!(
            body.contains("the long task: count, and never touch b.txt"),
            "request {number} lost the task"
        );
        assert!(number < 3 || body.contains("reach round thirty"), "request {number} lost the list");
        assert!(body.len() < 24_000 * 5, "request {number} has {} bytes", body.len());
        if body.contains("Answer with the summary alone") {
            summaries.push(number);
        }
    }
    assert_eq!(summaries.len(), count("compact_boundary"));
    // The first request is the list, every other one that is no summary runs its call once.
    let ran = stage.repo.read("rounds").lines().count();
    assert_eq!(ran, requests.len() - summaries.len() - 1, "every call ran once, and none of a summary's");
    stage.server.assert_valid_histories();
}

#[test]
fn old_results_are_set_aside_before_anybody_is_asked() {
    let read = |number: usize| {
        format!(
            "[[turn]]\nsteps = [{{ call = 'Bash', id = 'c{number}', input = {{ command = 'seq {number}000 {number}999; printf x%.0s $(seq 1 8000)' }} }}]\n"
        )
    };
    let script: String = (1..=6).map(read).collect();
    let stage = Stage::new(&format!("{script}\n[[turn]]\nsteps = [{{ text = 'done' }}]"));
    let done = run(&stage, &["-p", "look"]);
    assert_eq!(done.check_ok().stdout, "done\n");
    let last = body(&stage, 7).to_string();
    assert!(last.contains("was set aside; all of it is in "), "{}", &last[..2000]);
    let place = last.split("all of it is in ").nth(1).unwrap().split(']').next().unwrap();
    assert!(std::fs::read_to_string(place).unwrap().starts_with("1000\n1001\n"), "{place}");
    assert!(!last.contains("Answer with the summary alone"));
    stage.server.assert_valid_histories();
}

#[test]
fn it_can_be_switched_off_and_its_window_set() {
    let script = "[[turn]]\nsteps = [{ call = 'Bash', input = { command = 'seq 1 4000' } }]\n[[turn]]\nsteps = [{ call = 'Bash', input = { command = 'seq 1 4000' } }]\n[[turn]]\nsteps = [{ text = 'one' }]\n[[turn]]\nsteps = [{ text = 'two' }]";
    let asked = |arguments: &[&str]| {
        let stage = Stage::new(script);
        let mut all = vec!["-p", "look", "--allowedTools", "Bash"];
        all.extend(arguments);
        let done = stage.run(&all);
        done.check_ok();
        stage.server.assert_valid_histories();
        let bodies = stage.server.requests();
        bodies.iter().any(|request| {
            let body = request.body_json().to_string();
            body.contains("Answer with the summary alone") || body.contains("set aside")
        })
    };
    assert!(!asked(&[]), "there is room enough");
    assert!(asked(&["--autocompact", "14000"]));
    assert!(asked(&["--settings", r#"{"autoCompactWindow": 14000}"#]));
    assert!(!asked(&["--settings", r#"{"autoCompactWindow": 14000, "autoCompactEnabled": false}"#]));
    let wrong = Stage::new(script).run(&["-p", "x", "--autocompact", "soon"]);
    assert!(wrong.stderr.contains("expected 'auto' or a number of tokens"), "{}", wrong.stderr);
}

#[test]
fn a_compaction_of_a_compaction_still_knows_the_first_words() {
    let texts = ["LONG", "A", "first summary", "LONG", "B", "second summary", "C"];
    let script = texts.map(|text| format!("[[turn]]\nsteps = [{{ text = '{text}' }}]\n")).concat();
    let stage = Stage::new(&script.replace("LONG", &"word ".repeat(2_000)));
    let prompts = [
        "the very first words",
        "and?",
        "/compact",
        "the second words",
        "and then?",
        "/compact",
        "the third words",
    ];
    for prompt in prompts {
        let arguments: Vec<&str> = ["-p", prompt]
            .into_iter()
            .chain((prompt != "the very first words").then_some("--continue"))
            .collect();
        stage.run(&arguments).check_ok();
    }
    let carried = carried(&stage, 7);
    for part in ["1 of 4]\nthe very first words", "3 of 4]\nthe second words", "second summary"] {
        assert!(carried.contains(part), "{part:?} in {carried}");
    }
    assert!(!carried.contains("first summary"), "one summary stands for all");
    stage.server.assert_valid_histories();
    let lines = std::fs::read_to_string(transcript(&stage)).unwrap();
    let marks = lines.lines().filter(|line| line.contains("\"compact_boundary\"")).count();
    assert_eq!(marks, 2);
    assert!(lines.lines().all(|line| serde_json::from_str::<Json>(line).is_ok()));
}
