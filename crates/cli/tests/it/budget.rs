//! Budgets: looked at before each request, counted after, with a closing word; over all runs of a session.

use crate::{context::Host, stage::Stage};
use ostler_proto::Json;
use serde_json::json;

/// A model that reads a new file with each answer, for 0.3 dollars each.
fn reads(count: usize) -> String {
    let turn = |number: usize| {
        format!(
            "[[turn]]\nusage = {{ input_tokens = 100000, output_tokens = 10 }}\nsteps = [{{ text = 'n{number}' }}, {{ call = 'Glob', input = {{ pattern = '*{number}*' }} }}]\n"
        )
    };
    (0..count).map(turn).collect()
}

fn with_budget(script: &str, budget: &Json) -> Stage {
    let stage = Stage::new(script);
    stage.home.write(".ostler/settings.json", json!({ "budget": budget }).to_string());
    stage
}

fn last_words(stage: &Stage, request: usize) -> String {
    let body = stage.server.requests()[request].body_json();
    body["messages"].as_array().unwrap().last().unwrap()["content"].to_string()
}

#[test]
fn the_last_dollars_are_kept_for_a_closing_word() {
    let closing = "[[turn]]\nusage = { input_tokens = 100000, output_tokens = 10 }\nsteps = [{ text = 'all that is left' }, { call = 'Write', input = { file_path = 'w.txt', content = 'x' } }]";
    let stage = Stage::new(&format!("{}{closing}", reads(2)));
    let frames = stage.frames(&["--max-budget-usd", "1.0", "--permission-mode", "acceptEdits"]);
    let result = frames.result();
    assert_eq!((frames.code, &result["subtype"]), (Some(1), &json!("error_max_budget_usd")), "{result}");
    assert_eq!(result["terminal_reason"], "budget_exhausted");
    assert!(result["total_cost_usd"].as_f64().unwrap() < 1.0, "the limit holds: {result}");
    assert_eq!(stage.server.requests().len(), 3);
    assert!(last_words(&stage, 2).contains("this is your last answer"), "{}", last_words(&stage, 2));
    assert!(!stage.repo.has("w.txt"), "no call of a closing message is run");
    assert!(frames.all.iter().any(|frame| frame["reason"] == "closing"));
    stage.server.assert_valid_histories();
    stage.server.assert_append_only();
    let done = Stage::new(&format!("{}{closing}", reads(2))).run(&["-p", "go", "--max-budget-usd", "1.0"]);
    assert_eq!(done.stdout, "all that is left\n", "a person reads the closing word");
    assert!(done.stderr.contains("Reached maximum budget ($1)"), "{}", done.stderr);
}

#[test]
fn a_request_that_cannot_be_paid_is_not_made() {
    let stage = Stage::new(&reads(9));
    let frames = stage.frames(&["--max-budget-usd", "0.4"]);
    assert_eq!(frames.result()["subtype"], "error_max_budget_usd");
    assert_eq!(stage.server.requests().len(), 1, "0.3 of 0.4 are spent, and the next would cost 0.3");
}

#[test]
fn a_budget_in_the_settings_holds_over_all_runs_of_a_session() {
    let stage = with_budget(&reads(9), &json!({"usd": 1.0}));
    assert_eq!(stage.frames(&["--max-turns", "1"]).result()["subtype"], "error_max_turns");
    assert_eq!(stage.frames(&["--continue", "--max-turns", "1"]).result()["subtype"], "error_max_turns");
    let frames = stage.frames(&["--continue", "--max-turns", "9"]);
    let result = frames.result();
    assert_eq!((&result["subtype"], stage.server.requests().len()), (&json!("error_max_budget_usd"), 3));
    assert!(result["total_cost_usd"].as_f64().unwrap() < 0.5, "hosts are told of this run: {result}");
    let frames = stage.frames(&["--continue"]);
    assert_eq!(frames.result()["errors"], json!(["Reached maximum budget ($1)"]));
    assert_eq!(stage.server.requests().len(), 3, "nothing is left, so nothing is asked");
    let bill = stage.run(&["-p", "/cost", "--continue"]);
    assert!(bill.check_ok().stdout.contains("Whole session: $0.90"), "{}", bill.stdout);
    assert!(bill.stdout.contains("Glob: 2 calls"), "{}", bill.stdout);
}

#[test]
fn tokens_and_calls_have_their_limits_too() {
    let stage = with_budget(&reads(9), &json!({"tokens": 350_000}));
    let frames = stage.frames(&[]);
    assert_eq!(frames.result()["errors"], json!(["Reached maximum budget (350000 tokens)"]));
    assert_eq!(stage.server.requests().len(), 3);
    let stage = with_budget(&reads(9), &json!({"calls": 2}));
    let frames = stage.frames(&[]);
    assert_eq!(frames.result()["errors"], json!(["Reached maximum budget (2 tool calls)"]));
    assert_eq!((stage.server.requests().len(), frames.tool_results().len()), (3, 2));
}

#[test]
fn time_stops_a_command_that_never_ends() {
    let stage = with_budget(
        "[[turn]]\nsteps = [{ call = 'Bash', input = { command = 'touch started; sleep 60' } }]\n[[turn]]\nsteps = [{ text = 'on' }]",
        &json!({"seconds": 1}),
    );
    let frames = stage.frames(&["--allowedTools", "Bash"]);
    assert_eq!(frames.result()["errors"], json!(["Reached maximum budget (1 seconds)"]));
    stage.server.assert_valid_histories();
    stage.check_resumable();
}

#[test]
fn the_last_answer_of_a_turn_is_told_that_it_is() {
    let stage = Stage::new(&format!("{}[[turn]]\nsteps = [{{ text = 'summed up' }}]", reads(2)));
    let done = stage.run(&["-p", "go", "--max-turns", "3"]);
    assert_eq!(done.check_ok().stdout, "summed up\n");
    assert!(!last_words(&stage, 1).contains("the last of"), "{}", last_words(&stage, 1));
    assert!(last_words(&stage, 2).contains("This is the last of 3 answers"), "{}", last_words(&stage, 2));
    let stage = Stage::new("[[turn]]\nsteps = [{ text = 'at once' }]");
    assert_eq!(stage.run(&["-p", "go", "--max-turns", "1"]).check_ok().stdout, "at once\n");
    assert!(!last_words(&stage, 0).contains("the last of"));
}

#[test]
fn an_answer_that_broke_off_is_paid_for() {
    let stage = Stage::new(
        "[[turn]]\nusage = { input_tokens = 1000000, output_tokens = 0 }\nwire = { cut = { after_steps = 1, then = 'reset' } }\nsteps = [{ text = 'half' }, { text = 'more' }]\n[[turn]]\nusage = { input_tokens = 1000000, output_tokens = 0 }\nsteps = [{ text = 'whole' }]",
    );
    let frames = stage.frames(&[]);
    let result = frames.result();
    assert_eq!((&result["result"], &result["num_turns"]), (&json!("whole"), &json!(1)));
    assert!((result["total_cost_usd"].as_f64().unwrap() - 6.0).abs() < 1e-3, "{result}");
}

#[test]
fn a_project_may_lower_a_budget_and_not_raise_it() {
    let stage = with_budget(&reads(9), &json!({"calls": 2}));
    stage.repo.write(".claude/settings.json", r#"{"budget": {"calls": 99, "tokens": 150000}}"#);
    let frames = stage.frames(&[]);
    assert_eq!(frames.result()["errors"], json!(["Reached maximum budget (150000 tokens)"]));
    stage.repo.write(".claude/settings.json", r#"{"budget": {"calls": 99}}"#);
    let stage = stage;
    let frames = stage.frames(&[]);
    assert_eq!(frames.result()["errors"], json!(["Reached maximum budget (2 tool calls)"]));
}

#[test]
fn a_limit_in_dollars_that_cannot_be_kept_is_said() {
    let script = "[[turn]]\nsteps = [{ text = 'ok' }]\n".repeat(2);
    let stage = Stage::new(&script);
    let unknown = stage.run(&["-p", "go", "--max-budget-usd", "1", "--model", "nobodys-model"]);
    let told = "the price of nobodys-model is not known";
    assert!(unknown.check_ok().stderr.contains(told), "{}", unknown.stderr);
    let known = stage.run(&["-p", "go", "--max-budget-usd", "1"]);
    assert_eq!(known.check_ok().stderr, "");
}

#[test]
fn the_first_request_too_must_be_paid_for() {
    let stage = Stage::new(&reads(9));
    let prompt = "word ".repeat(20_000);
    // 20,000 words cost more than 0.05 dollars, and half of that is more than there is.
    let frames = stage.run(&[
        "-p",
        &prompt,
        "--max-budget-usd",
        "0.01",
        "--output-format",
        "stream-json",
        "--verbose",
    ]);
    let frames = frames.frames();
    assert_eq!(frames.result()["subtype"], "error_max_budget_usd", "{}", frames.result());
    assert_eq!(stage.server.requests().len(), 0);
    let frames = stage.frames(&["--max-budget-usd", "0.31"]);
    assert_eq!((stage.server.requests().len(), frames.code), (1, Some(1)), "a short one can be paid");
}

#[test]
fn a_budget_of_nothing_is_refused_by_name() {
    let stage = with_budget(&reads(1), &json!({"usd": -1}));
    let done = stage.run(&["-p", "go"]);
    assert_ne!(done.code, Some(0));
    assert!(
        done.stderr.contains("settings.json:1:") && done.stderr.contains("key 'budget.usd'"),
        "{}",
        done.stderr
    );
    let stage = Stage::new(&reads(1));
    for (flag, value) in [("--max-budget-usd", "-1"), ("--max-budget-usd", "NaN"), ("--max-turns", "0")] {
        let done = stage.run(&["-p", "go", flag, value]);
        assert!(done.code != Some(0) && done.stderr.contains(flag), "{flag} {value}: {}", done.stderr);
    }
    assert!(stage.server.requests().is_empty());
}

#[test]
fn a_cleared_conversation_has_its_own_session_budget_and_the_run_goes_on() {
    let answer =
        "[[turn]]\nusage = { input_tokens = 100000, output_tokens = 0 }\nsteps = [{ text = 'ok' }]\n";
    let stage = with_budget(&answer.repeat(9), &json!({"usd": 0.4}));
    let mut host = Host::start(&stage, &["--max-budget-usd", "0.61"]);
    assert_eq!(host.turn("one")["subtype"], "success");
    assert_eq!(host.turn("two")["subtype"], "error_max_budget_usd", "0.3 of the session's 0.4 are spent");
    host.turn("/clear");
    let result = host.turn("three");
    assert_eq!(result["subtype"], "success", "{result}");
    assert!((result["total_cost_usd"].as_f64().unwrap() - 0.3).abs() < 1e-9, "{result}");
    let bill = host.turn("/cost")["result"].as_str().unwrap().to_owned();
    assert!(bill.starts_with("Total: $0.3000\n"), "{bill}");
    assert!(bill.contains("This run, with conversations before /clear: $0.6000"), "{bill}");
    host.turn("/clear");
    assert_eq!(
        host.turn("four")["errors"],
        json!(["Reached maximum budget ($0.61)"]),
        "the run's limit holds"
    );
    host.turn("/cost");
    host.end();
    assert_eq!(stage.server.requests().len(), 2);
}

#[test]
fn figures_are_told_by_model_agent_and_tool() {
    let stage = Stage::new(&format!("{}[[turn]]\nsteps = [{{ text = 'done' }}]", reads(2)));
    let mut host = Host::start(&stage, &[]);
    let result = host.turn("go");
    assert_eq!(result["agentUsage"]["main"]["costUSD"], result["total_cost_usd"]);
    assert!(result["agentUsage"]["main"]["inputTokens"].as_u64() >= Some(200_000), "{result}");
    assert_eq!(
        (&result["toolUsage"]["Glob"]["calls"], &result["toolUsage"]["Glob"]["failed"]),
        (&json!(2), &json!(0))
    );
    let bill = host.turn("/cost")["result"].as_str().unwrap().to_owned();
    host.end();
    assert!(bill.contains("agent main: $0.61") && bill.contains("Glob: 2 calls"), "{bill}");
}
