//! What hooks can do beyond decisions: name the session, speak first, watch files, let a denied call be tried again;
//! that hosts see them at work when they are, that the end waits for them a little, and that what they use is paid for.

use super::{
    host::Host,
    session::{DONE, bash, calls, hooks, last_request, new_stage, says, write},
};
use ostler_proto::Json;
use serde_json::json;

#[test]
fn a_hook_can_name_the_session() {
    let names = says("SessionStart", json!({"sessionTitle": "Fix  the\nparser\u{1b}[2J"}));
    let renames = says("UserPromptSubmit", json!({"sessionTitle": "Fix the lexer"}));
    let settings = hooks(&[("SessionStart", &names), ("UserPromptSubmit", "cat >> asked")]);
    let stage = new_stage(&DONE.repeat(2), &settings);
    stage.run(&["-p", "go"]).check_ok();
    let told: Json = serde_json::from_str(&stage.repo.read("asked")).unwrap();
    let title = told["session_title"].as_str().unwrap();
    assert!(title.starts_with("Fix the parser") && !title.contains('\u{1b}'), "{title}");
    let listed = stage.run(&["session", "list"]);
    assert!(listed.check_ok().stdout.contains("Fix the parser"), "{}", listed.stdout);
    let stage = new_stage(DONE, &hooks(&[("UserPromptSubmit", &renames)]));
    stage.run(&["-p", "go"]).check_ok();
    assert!(stage.run(&["session", "list"]).stdout.contains("Fix the lexer"));
}

#[test]
fn a_hook_can_speak_before_the_first_prompt() {
    let opens = says("SessionStart", json!({"initialUserMessage": "Read the notes first."}));
    let stage = new_stage(&DONE.repeat(2), &hooks(&[("SessionStart", &opens)]));
    let frames = stage.frames(&["--replay-user-messages"]);
    let first = stage.server.requests()[0].body_json();
    let said = first["messages"][0]["content"].to_string();
    let (opening, prompt) = (said.find("Read the notes first."), said.find("\"go\""));
    assert!(opening.is_some() && opening < prompt, "{said}");
    assert_eq!(frames.all.iter().filter(|frame| frame["type"] == "result").count(), 1);
    stage.server.assert_valid_histories();
}

#[test]
fn a_denied_call_can_be_tried_again() {
    let retry = says("PermissionDenied", json!({"retry": true}));
    let stage = new_stage(&write(), &hooks(&[("PermissionDenied", &retry)]));
    stage.run(&["-p", "go"]).check_ok();
    assert!(!stage.repo.has("new.txt") && last_request(&stage).contains("may be tried again"));
    let plain = new_stage(&write(), &hooks(&[("PermissionDenied", "cat > /dev/null")]));
    plain.run(&["-p", "go"]).check_ok();
    assert!(!last_request(&plain).contains("may be tried again"));
}

#[test]
fn changed_files_are_told_to_hooks_that_watch_them() {
    let stage = new_stage(&format!("{DONE}{}", bash("echo mode: $MODE")), &json!({}));
    let watches =
        says("SessionStart", json!({"watchPaths": [stage.repo.join("deep/conf").to_str().unwrap()]}));
    let told = "cat >> changes; echo >> changes; echo export MODE=fresh >> \"$CLAUDE_ENV_FILE\"";
    let hook = |command: &str| json!({"type": "command", "command": command, "timeout": 20});
    let settings = json!({"hooks": {
        "SessionStart": [{"hooks": [hook(&watches)]}],
        "FileChanged": [{"matcher": ".envrc|conf", "hooks": [hook(told)]}],
    }});
    stage.home.write(".ostler/settings.json", settings.to_string());
    stage.repo.write("deep/conf", "1");
    let mut host = Host::start(&stage, &["--allowedTools", "Bash", "--include-hook-events"]);
    host.prompt();
    host.until(|frame| frame["type"] == "result");
    let mut write_and_wait = |path: &str, content: &str| {
        stage.repo.write(path, content);
        // The host sees it while nothing else goes on.
        host.until(|frame| frame["subtype"] == "hook_response" && frame["hook_event"] == "FileChanged");
    };
    write_and_wait("deep/conf", "22");
    write_and_wait(".envrc", "new");
    let changes: Vec<Json> =
        stage.repo.read("changes").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let facts = |change: &Json| {
        let path = change["file_path"].as_str().unwrap().to_owned();
        (path, change["event"].as_str().unwrap().to_owned())
    };
    let expect =
        |name: &str, event: &str| (stage.repo.join(name).to_str().unwrap().to_owned(), event.to_owned());
    let told: Vec<_> = changes.iter().map(facts).collect();
    assert_eq!(told, [expect("deep/conf", "change"), expect(".envrc", "add")]);
    host.prompt();
    host.until(|frame| frame["type"] == "result");
    let frames = host.finish(&stage);
    assert!(frames.tool_results()[0].contains("mode: fresh"), "{:?}", frames.tool_results());
}

#[test]
fn a_host_sees_hooks_when_they_are_at_work_also_between_turns() {
    let command = "until [ -e go ]; do sleep 0.01; done; echo linted";
    let hook = json!({"type": "command", "command": command, "async": true, "timeout": 20});
    let settings = json!({"hooks": {"PostToolUse": [{"hooks": [hook]}]}});
    let stage = new_stage(&format!("{}{DONE}", write()), &settings);
    let mut host = Host::start(&stage, &["--permission-mode", "acceptEdits", "--include-hook-events"]);
    host.prompt();
    host.until(|frame| frame["type"] == "result");
    stage.repo.write("go", "");
    let response = host.until(|frame| frame["subtype"] == "hook_response");
    assert_eq!((&response["hook_event"], &response["stdout"]), (&json!("PostToolUse"), &json!("linted\n")));
    host.prompt();
    let init = host.until(|frame| frame["type"] == "system");
    assert_eq!(init["subtype"], "init", "a turn still begins with it");
    host.until(|frame| frame["type"] == "result");
    host.finish(&stage);
}

#[test]
fn the_end_lets_hooks_finish_that_were_told_in_passing() {
    let late = |mark: &str| {
        format!("cat > /dev/null; until [ -e closing ]; do sleep 0.01; done; sleep 0.2; touch {mark}")
    };
    let (notified, ended) = (late("notified"), late("ended"));
    let hook = json!({"type": "command", "command": ended, "async": true, "timeout": 20});
    let mut settings = hooks(&[("Notification", &notified)]);
    settings["hooks"]["SessionEnd"] = json!([{"hooks": [hook]}]);
    let stage = new_stage(&write(), &settings);
    let args = ["--permission-prompt-tool", "stdio", "--include-hook-events"];
    let mut host = Host::start(&stage, &args);
    host.prompt();
    host.until_result(|request| json!({"behavior": "allow", "updatedInput": request["input"]}));
    stage.repo.write("closing", "");
    let frames = host.finish(&stage);
    assert!(stage.repo.has("new.txt") && stage.repo.has("notified") && stage.repo.has("ended"));
    let ends = frames.all.iter().filter(|frame| frame["subtype"] == "hook_response");
    let mut ends: Vec<&str> = ends.map(|frame| frame["hook_event"].as_str().unwrap()).collect();
    ends.sort_unstable();
    assert_eq!(ends, ["Notification", "SessionEnd"], "and the host is told");
}

#[test]
fn what_hooks_ask_a_model_comes_out_of_the_budget() {
    let usage = "usage = { input_tokens = 1000000, output_tokens = 10 }";
    let small = format!("[[turn]]\n{usage}\nsteps = [{{ text = '{{\"ok\": true}}' }}]\n");
    let call = calls("Write", "{ file_path = \"{{cwd}}/new.txt\", content = \"x\" }").replace(DONE, "");
    let numbered = |number: usize| call.replace("c1", &format!("c{number}"));
    let script =
        [numbered(1), small.clone(), numbered(2), small.clone(), DONE.to_owned(), numbered(3), small]
            .concat();
    let hook = json!({"type": "prompt", "prompt": "Is this fine?"});
    let settings = json!({"hooks": {"PreToolUse": [{"hooks": [hook]}]}, "budget": {"usd": 0.3}});
    let stage = new_stage(&script, &settings);
    // Asking the small model takes 0.1 dollars each time, all else little.
    let frames = stage.frames(&["--permission-mode", "acceptEdits", "--max-budget-usd", "0.09"]);
    let result = frames.result();
    assert_eq!(result["subtype"], "error_max_budget_usd", "{result}");
    let asked = stage.server.requests().len();
    assert!(stage.repo.has("new.txt") && asked == 2, "{asked} {:?}", frames.tool_results());
    assert!(result["total_cost_usd"].as_f64().unwrap() > 0.1);
    // Later runs know of it.
    let again = stage.frames(&["--continue", "--permission-mode", "acceptEdits"]);
    assert_eq!(again.result()["subtype"], "success", "0.3 are not used up: {}", again.result());
    let spent = stage.frames(&["--continue", "--permission-mode", "acceptEdits"]);
    assert_eq!(spent.result()["subtype"], "error_max_budget_usd", "now they are: {}", spent.result());
}
