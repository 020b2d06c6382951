//! What is put to the user: plan mode begins and ends with their word, and questions get their answers.

use crate::{host, stage::Stage};
use ostler_proto::Json;
use serde_json::json;

const SESSION: &str = "11111111-2222-4333-8444-555555555555";

/// A plan, then a change.
const PLAN: &str = r##"
[[turn]]
steps = [{ call = "ExitPlanMode", id = "p", input = { plan = "# Do it\nwrite new.txt" } }]
[[turn]]
steps = [{ call = "Write", id = "w", input = { file_path = "{{cwd}}/new.txt", content = "x" } }]
[[turn]]
steps = [{ text = "{{result.p}}" }]
"##;

fn yes(request: &Json) -> Json {
    json!({"behavior": "allow", "updatedInput": request["input"]})
}

fn modes(heard: &host::Heard) -> Vec<&str> {
    heard.frames.iter().filter_map(|frame| frame["permissionMode"].as_str()).collect()
}

#[test]
fn plan_mode_ends_with_the_users_yes_and_goes_back_to_what_was() {
    let accept = json!([{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]);
    for (settings, updates, asked, mode) in [
        ("{}", json!([]), "ExitPlanMode Write", "default"),
        (r#"{"permissions": {"defaultMode": "acceptEdits"}}"#, json!([]), "ExitPlanMode", "acceptEdits"),
        ("{}", accept, "ExitPlanMode", "acceptEdits"),
        (r#"{"permissions": {"allow": ["ExitPlanMode", "Edit"]}}"#, json!([]), "ExitPlanMode", "default"),
    ] {
        let stage = Stage::new(PLAN);
        stage.home.write(".ostler/settings.json", settings);
        let mut asks = Vec::new();
        let args = ["--permission-mode", "plan", "--session-id", SESSION];
        let heard = host::answering(&stage, &args, |request| {
            asks.push(request["tool_name"].as_str().unwrap().to_owned());
            if asks.len() > 1 {
                return yes(request);
            }
            assert_eq!(request["input"]["plan"], "# Do it\nwrite new.txt");
            let file = request["input"]["planFilePath"].as_str().unwrap();
            assert!(file.ends_with(&format!(".ostler/plans/{SESSION}.md")), "{file}");
            assert_eq!(request["permission_suggestions"], json!([]));
            json!({"behavior": "allow", "updatedInput": request["input"], "updatedPermissions": updates})
        });
        assert_eq!(asks.join(" "), asked);
        assert_eq!(modes(&heard), ["plan", mode], "{settings}");
        assert!(stage.repo.has("new.txt"));
        assert_eq!(stage.home.read(&format!(".ostler/plans/{SESSION}.md")), "# Do it\nwrite new.txt");
        let text = heard.result["result"].as_str().unwrap();
        assert!(text.contains("approved the plan") && text.contains("# Do it"), "{text}");
        let results: Vec<&Json> = heard
            .frames
            .iter()
            .map(|frame| &frame["tool_use_result"])
            .filter(|result| result["plan"].is_string())
            .collect();
        assert_eq!((&results[0]["isAgent"], results[0]["filePath"].is_string()), (&json!(false), true));
        stage.server.assert_append_only();
        stage.server.assert_valid_histories();
    }
}

#[test]
fn a_no_keeps_plan_mode_on_and_the_model_hears_the_users_words() {
    let stage = Stage::new(PLAN);
    let heard =
        host::answering(&stage, &["--permission-mode", "plan", "--allowedTools", "Write"], |request| {
            let reason = request["decision_reason"].as_str().unwrap();
            if request["tool_name"] == "ExitPlanMode" {
                return json!({"behavior": "deny", "message": "smaller steps, please"});
            }
            assert!(reason.contains("permission mode plan"), "{reason}");
            json!({"behavior": "deny", "message": "still planning"})
        });
    assert_eq!(modes(&heard), ["plan"]);
    assert!(!stage.repo.has("new.txt"));
    assert_eq!(heard.result["result"], "smaller steps, please");
}

#[test]
fn the_model_is_told_of_plan_mode_once_and_after_the_prompt() {
    let stage = Stage::new(PLAN);
    host::answering(&stage, &["--permission-mode", "plan"], yes);
    let bodies: Vec<Json> = stage.server.requests().iter().map(ostler_testkit::Recorded::body_json).collect();
    let told = |body: &Json| body["messages"].to_string().matches("Plan mode is on").count();
    assert_eq!(bodies.iter().map(told).collect::<Vec<_>>(), [1, 1, 1]);
    assert!(!bodies[0]["system"].to_string().contains("Plan mode is on"));
    let first = bodies[0]["messages"][0]["content"].as_array().unwrap();
    assert_eq!((first.len(), &first[0]["text"]), (2, &json!("go")), "{first:?}");
}

/// Answers with words alone, in any conversation.
fn words(answers: usize) -> Stage {
    Stage::new(&"[[turn]]\nsteps = [{ text = \"fine\" }]\n".repeat(answers))
}

/// What the model was sent with its last request.
fn last_messages(stage: &Stage) -> String {
    stage.server.requests().last().unwrap().body_json()["messages"].to_string()
}

#[test]
fn plan_mode_is_said_again_where_the_conversation_lost_it() {
    for lost in ["/compact", "/rewind 1 conversation"] {
        let stage = words(3);
        host::saying(&stage, &["--permission-mode", "plan"], &["go", lost, "on"]);
        assert_eq!(last_messages(&stage).matches("Plan mode is on").count(), 1, "{lost}");
    }
}

#[test]
fn a_new_conversation_has_a_plan_file_of_its_own() {
    let stage = words(2);
    let args = ["--permission-mode", "plan", "--session-id", SESSION];
    let result = host::saying(&stage, &args, &["go", "/clear", "on"]);
    let file = format!("plans/{}.md", result["session_id"].as_str().unwrap());
    let told = last_messages(&stage);
    assert!(told.contains(&file) && !told.contains(SESSION), "{file} in {told}");
}

/// How often the model of the last request is told that plan mode is on, and that it is over.
fn told_last(stage: &Stage) -> (usize, usize) {
    let messages = stage.server.requests().last().unwrap().body_json()["messages"].to_string();
    (messages.matches("Plan mode is on").count(), messages.matches("Plan mode is over").count())
}

#[test]
fn a_resumed_model_is_told_that_plan_mode_is_over() {
    let stage = Stage::new(&"[[turn]]\nsteps = [{ text = 'ok' }]\n".repeat(4));
    stage.run(&["-p", "go", "--permission-mode", "plan"]).check_ok();
    stage.run(&["-p", "and now?", "--continue"]).check_ok();
    assert_eq!(told_last(&stage), (1, 1), "the mode does not come back with the session");
    stage.run(&["-p", "go on", "--continue"]).check_ok();
    assert_eq!(told_last(&stage), (1, 1), "once is enough");
    stage.run(&["-p", "plan again", "--continue", "--permission-mode", "plan"]).check_ok();
    assert_eq!(told_last(&stage), (2, 1));
    stage.server.assert_append_only();
}

#[test]
fn plan_mode_is_told_again_where_a_rewind_or_a_compaction_took_it_out() {
    for (command, answers) in [("/rewind 1 conversation", 2), ("/compact", 3)] {
        let stage = Stage::new(&"[[turn]]\nsteps = [{ text = 'ok' }]\n".repeat(answers));
        let heard = host::telling(&stage, &["--permission-mode", "plan"], &["one", command, "two"]);
        assert_eq!(heard.result["result"], "ok", "{command}");
        assert_eq!(told_last(&stage), (1, 0), "{command}");
    }
}

#[test]
fn the_plan_may_stand_in_its_file() {
    let script = format!(
        r#"
[[turn]]
steps = [{{ call = "ExitPlanMode", id = "none", input = {{}} }}]
[[turn]]
steps = [{{ call = "Write", id = "w", input = {{ file_path = "{{{{cwd}}}}/plans/{SESSION}.md", content = "the plan" }} }}]
[[turn]]
steps = [{{ call = "ExitPlanMode", id = "p", input = {{}} }}]
[[turn]]
steps = [{{ text = "{{{{result.none}}}}" }}]
"#
    );
    let stage = Stage::new(&script);
    let settings = r#"{"plansDirectory": "plans"}"#;
    let args = ["--permission-mode", "plan", "--session-id", SESSION, "--settings", settings];
    let mut asked = Vec::new();
    let heard = host::answering(&stage, &args, |request| {
        asked.push((request["tool_name"].clone(), request["input"]["plan"].clone()));
        yes(request)
    });
    assert_eq!(asked, [(json!("ExitPlanMode"), json!("the plan"))], "the plan file is the agent's own");
    assert!(heard.result["result"].as_str().unwrap().contains("there is no plan yet"), "{}", heard.result);
    assert_eq!(modes(&heard), ["plan", "default"]);
}

#[test]
fn the_model_may_ask_to_plan_first() {
    let script = r#"
[[turn]]
steps = [{ call = "ExitPlanMode", id = "early", input = { plan = "x" } }]
[[turn]]
steps = [{ call = "EnterPlanMode", id = "e", input = {} }]
[[turn]]
steps = [{ call = "Write", id = "w", input = { file_path = "{{cwd}}/new.txt", content = "x" } }]
[[turn]]
steps = [{ call = "ExitPlanMode", id = "p", input = { plan = "y" } }]
[[turn]]
steps = [{ call = "Write", id = "v", input = { file_path = "{{cwd}}/other.txt", content = "x" } }]
[[turn]]
steps = [{ text = "{{result.early}}" }]
"#;
    let stage = Stage::new(script);
    let mut asked = Vec::new();
    let heard = host::answering(&stage, &["--permission-mode", "acceptEdits"], |request| {
        let tool = request["tool_name"].as_str().unwrap().to_owned();
        asked.push(tool.clone());
        if tool == "Write" { json!({"behavior": "deny", "message": "not yet"}) } else { yes(request) }
    });
    assert_eq!(asked, ["EnterPlanMode", "Write", "ExitPlanMode"]);
    assert_eq!(modes(&heard), ["acceptEdits", "plan", "acceptEdits"]);
    assert!(!stage.repo.has("new.txt") && stage.repo.has("other.txt"));
    assert!(heard.result["result"].as_str().unwrap().contains("plan mode is not on"), "{}", heard.result);
    stage.server.assert_append_only();
}

#[test]
fn a_hooks_yes_settles_nothing_unless_it_brings_an_answer() {
    let hook = |output: &Json| {
        let output = json!({"hookSpecificOutput": output}).to_string();
        let command = format!("cat >> seen.jsonl; echo >> seen.jsonl; echo '{output}'");
        let entry = json!({"matcher": "ExitPlanMode", "hooks": [{"type": "command", "command": command}]});
        json!({"hooks": {"PreToolUse": [entry]}}).to_string()
    };
    let allow = json!({"hookEventName": "PreToolUse", "permissionDecision": "allow"});
    let mut with_plan = allow.clone();
    with_plan["updatedInput"] = json!({"plan": "from the hook"});
    for (output, asked) in [(&allow, 1), (&with_plan, 0)] {
        let stage = Stage::new(PLAN);
        let mut asks = 0;
        let settings = hook(output);
        let args = ["--permission-mode", "plan", "--settings", &settings, "--allowedTools", "Edit"];
        let heard = host::answering(&stage, &args, |request| {
            asks += 1;
            yes(request)
        });
        assert_eq!(asks, asked, "{output}");
        assert_eq!(modes(&heard), ["plan", "default"]);
        let seen = stage.repo.read("seen.jsonl");
        let first: Json = serde_json::from_str(seen.lines().next().unwrap()).unwrap();
        assert_eq!(first["tool_input"]["plan"], "# Do it\nwrite new.txt");
        assert!(first["tool_input"]["planFilePath"].is_string());
    }
}

const QUESTIONS: &str = r#"
[[turn]]
steps = [{ call = "AskUserQuestion", id = "q", input = { questions = [
  { question = "Which?", header = "W", options = [{ label = "A", description = "a" }, { label = "B", description = "b" }], multiSelect = false },
  { question = "And?", header = "X", options = [{ label = "C", description = "c" }, { label = "D", description = "d" }], multiSelect = true },
], answers = { "Which?" = "what the model wants" } } }]
[[turn]]
steps = [{ text = "{{result.q}}" }]
"#;

#[test]
fn questions_are_answered_by_the_user_and_nobody_else() {
    let stage = Stage::new(QUESTIONS).with_env("IS_SANDBOX", "1");
    let args = ["--dangerously-skip-permissions", "--allowedTools", "AskUserQuestion"];
    let heard = host::answering(&stage, &args, |request| {
        assert_eq!(request["input"]["answers"], Json::Null, "the model cannot answer for the user");
        let mut input = request["input"].clone();
        input["answers"] = json!({"Which?": "B", "And?": ["C", "D"]});
        json!({"behavior": "allow", "updatedInput": input})
    });
    assert_eq!(heard.result["result"], "The user answered:\n- Which?\n  B\n- And?\n  C, D");
    let result = heard.frames.iter().find(|frame| frame["tool_use_result"]["answers"].is_object()).unwrap();
    assert_eq!(result["tool_use_result"]["answers"]["Which?"], "B");
    assert_eq!(result["tool_use_result"]["questions"][1]["multiSelect"], true);

    let stage = Stage::new(QUESTIONS);
    let heard = host::answering(&stage, &[], yes);
    assert_eq!(heard.result["result"], "The user answered:\n- Which?\n  (no answer)\n- And?\n  (no answer)");
}

#[test]
fn where_nobody_can_answer_nothing_is_put_to_the_user() {
    for (script, tool) in [(PLAN, "ExitPlanMode"), (QUESTIONS, "AskUserQuestion")] {
        let stage = Stage::new(script);
        let frames = stage.frames(&["--permission-mode", "plan"]);
        let offered = stage.server.requests()[0].body_json()["tools"].to_string();
        for name in ["ExitPlanMode", "EnterPlanMode", "AskUserQuestion"] {
            assert!(!offered.contains(name), "{offered}");
        }
        assert_eq!(frames.result()["permission_denials"][0]["tool_name"], tool);
        assert!(!stage.repo.has("new.txt"));
        let told = stage.server.requests()[0].body_json()["messages"].to_string();
        assert!(told.contains("Plan mode is on") && !told.contains("ExitPlanMode"), "{told}");
    }
    let stage = Stage::new(QUESTIONS);
    host::answering(&stage, &[], |_| json!({"behavior": "deny", "message": "later"}));
    let offered = stage.server.requests()[0].body_json()["tools"].to_string();
    assert!(offered.contains("AskUserQuestion") && offered.contains("EnterPlanMode"), "{offered}");
}

#[test]
fn the_todo_list_is_shown_and_outlives_the_process() {
    let todo = |content: &str, status: &str| {
        format!("{{ content = '{content}', status = '{status}', activeForm = 'Doing {content}' }}")
    };
    let script = format!(
        "[[turn]]\nsteps = [{{ call = 'TodoWrite', input = {{ todos = [{}, {}] }} }}]\n[[turn]]\nsteps = [{{ text = 'ok' }}]\n\
         [[turn]]\nsteps = [{{ call = 'TodoWrite', input = {{ todos = [{}] }} }}]\n[[turn]]\nsteps = [{{ text = 'ok' }}]",
        todo("one", "completed"),
        todo("two", "in_progress"),
        todo("three", "pending")
    );
    let stage = Stage::new(&script);
    let told = stage.run(&["-p", "go", "--verbose"]);
    assert!(told.check_ok().stderr.contains("☒ one\n    ◐ two\n"), "{}", told.stderr);
    let frames = stage.frames(&["--continue"]);
    let result = frames.all.iter().find(|frame| frame["tool_use_result"]["newTodos"].is_array()).unwrap();
    assert_eq!(result["tool_use_result"]["oldTodos"].as_array().unwrap().len(), 2, "{result}");
}
