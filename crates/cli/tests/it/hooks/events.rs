//! The events around calls and turns: a batch, a failed turn, changed settings, another folder, variables for
//! later commands, hooks in the background, hooks that ask a model, and what a host can watch of it all.

use super::{
    host::Host,
    parsed,
    session::{DONE, bash, calls, check_audit, hooks, last_request, new_stage, says, write},
};
use crate::stage::Stage;
use ostler_proto::Json;
use serde_json::json;

#[test]
fn a_batch_is_told_as_a_whole_and_can_end_the_turn() {
    let two = "[[turn]]\nsteps = [{ call = 'Read', id = 'r1', input = { file_path = '{{cwd}}/a.txt' } }, { call = 'Read', id = 'r2', input = { file_path = '{{cwd}}/b.txt' } }]\n";
    let adds = says("PostToolBatch", json!({"additionalContext": "both are read"}));
    let command = format!("cat >> batches; {}", adds.replace("cat > /dev/null; ", ""));
    let stage = new_stage(&format!("{two}{DONE}"), &hooks(&[("PostToolBatch", &command)]));
    stage.run(&["-p", "go"]).check_ok();
    let told: Json = serde_json::from_str(&stage.repo.read("batches")).unwrap();
    let ids: Vec<&Json> =
        told["tool_calls"].as_array().unwrap().iter().map(|call| &call["tool_use_id"]).collect();
    assert_eq!(ids, [&json!("r1"), &json!("r2")], "one batch, in order");
    assert!(told["tool_calls"][1]["tool_response"].as_str().unwrap().contains("bee"));
    assert!(last_request(&stage).contains("both are read"));
    stage.server.assert_valid_histories();
    let stage = new_stage(&format!("{two}{DONE}"), &hooks(&[("PostToolBatch", "echo enough >&2; exit 2")]));
    let frames = stage.frames(&[]);
    assert_eq!((stage.server.requests().len(), frames.code), (1, Some(0)));
    stage.check_resumable();
}

#[test]
fn a_turn_that_the_model_api_ended_is_told() {
    let settings = hooks(&[("StopFailure", "cat > failure; exit 2"), ("Stop", "touch stopped")]);
    let stage = new_stage("[[turn]]\nwire = { status = 401 }\n", &settings);
    let frames = stage.frames(&[]);
    assert_eq!(frames.result()["is_error"], true);
    let told: Json = serde_json::from_str(&stage.repo.read("failure")).unwrap();
    assert_eq!(told["error"], "authentication_failed", "{told}");
    assert!(!stage.repo.has("stopped"));
}

#[test]
fn changed_settings_bring_their_hooks_and_the_log_knows() {
    let stage = new_stage(
        &format!("{DONE}{}", write()),
        &hooks(&[("ConfigChange", "cat >> changes; echo >> changes")]),
    );
    let mut host = Host::start(&stage, &["--permission-mode", "acceptEdits"]);
    host.prompt();
    host.until(|frame| frame["type"] == "result");
    let guarded = hooks(&[("PreToolUse", "echo guarded now >&2; exit 2")]);
    stage.home.write(".ostler/settings.json", guarded.to_string());
    host.prompt();
    host.until(|frame| frame["type"] == "result");
    host.finish(&stage);
    assert!(!stage.repo.has("new.txt") && last_request(&stage).contains("guarded now"));
    let told: Json = serde_json::from_str(&stage.repo.read("changes")).unwrap();
    assert_eq!(told["source"], "user_settings", "the hooks of before are asked: {told}");
    assert!(told["file_path"].as_str().unwrap().ends_with("settings.json"));
    check_audit(&stage, "covered");
    let audit = parsed(&stage.run(&["hooks", "audit", "--json"]));
    assert_eq!(audit["audit"]["configured"][0]["event"], "PreToolUse");
}

#[test]
fn hooks_can_keep_changed_settings_out_of_force_for_good() {
    let mut settings = hooks(&[("ConfigChange", "echo x >> changes; echo as it was >&2; exit 2")]);
    settings["permissions"] = json!({"deny": ["Edit"]});
    let stage = new_stage(&format!("{DONE}{}", write().repeat(2).replacen("c1", "c0", 1)), &settings);
    let mut host = Host::start(&stage, &["--permission-mode", "acceptEdits"]);
    let mut turn = || {
        host.prompt();
        host.until(|frame| frame["type"] == "result");
    };
    turn();
    stage.home.write(".ostler/settings.json", "{}");
    turn();
    assert_eq!((stage.repo.read("changes").lines().count(), stage.repo.has("new.txt")), (1, false));
    // Another file changes: what was kept out comes up again, and stays out with it.
    stage.home.write(".claude/settings.json", "{}");
    turn();
    assert_eq!((stage.repo.read("changes").lines().count(), stage.repo.has("new.txt")), (3, false));
    let frames = host.finish(&stage);
    assert!(
        frames
            .all
            .iter()
            .any(|frame| frame["subtype"] == "informational" && frame.to_string().contains("as it was"))
    );
}

#[test]
fn variables_reach_later_commands_and_nobody_else() {
    let start = "printf 'export KEY=%s\\nexport PATH=\"$PATH:/opt/odd\"\\nexport X=$(id)\\n' \"$(cat secret)\" >> \"$CLAUDE_ENV_FILE\"";
    let moved = "cat > moved; echo export WHERE=below >> \"$CLAUDE_ENV_FILE\"";
    let one = "printf %s \"$KEY\" | wc -c; echo \"${PATH##*:}:${CLAUDE_ENV_FILE:-none}:${X:-unset}\"; cd sub";
    let two = bash("echo \"$WHERE $(pwd)\"").replace("c1", "c2");
    let script = format!("{}{two}", bash(one).replace(DONE, ""));
    let stage = new_stage(&script, &hooks(&[("SessionStart", start), ("CwdChanged", moved)]));
    stage.repo.write("secret", "hunter2");
    stage.repo.write("sub/x", "");
    let frames = stage.frames(&["--allowedTools", "Bash"]);
    let results = frames.tool_results();
    assert!(results[0].contains("7\n/opt/odd:none:unset"), "{results:?}");
    assert!(results[1].contains("below") && results[1].contains("/sub"), "{results:?}");
    let told: Json = serde_json::from_str(&stage.repo.read("sub/moved")).unwrap();
    assert_eq!(told["new_cwd"].as_str().unwrap(), format!("{}/sub", told["old_cwd"].as_str().unwrap()));
    // A line that is no plain assignment is named; the values are nowhere.
    let shown = frames.all.iter().map(Json::to_string).collect::<String>() + &frames.stderr;
    assert!(shown.contains("line 3"), "{shown}");
    let transcript = std::fs::read_to_string(stage.transcript()).unwrap();
    assert!(!shown.contains("hunter2") && !transcript.contains("hunter2"));
}

#[test]
fn a_hook_in_the_background_is_heard_with_the_next_prompt() {
    let adds = says("PostToolUse", json!({"additionalContext": "lint found two things"}));
    let hook = json!({"type": "command", "command": format!("{adds}; touch linted"), "async": true});
    let script = format!("{}{DONE}", write());
    let stage = new_stage(&script, &json!({"hooks": {"PostToolUse": [{"hooks": [hook]}]}}));
    let mut host = Host::start(&stage, &["--permission-mode", "acceptEdits"]);
    host.prompt();
    host.until(|frame| frame["type"] == "result");
    // The log knows when it has been heard.
    let transcript = stage.transcript();
    while !std::fs::read_to_string(&transcript).unwrap().contains("\"late\":true") {
        std::thread::yield_now();
    }
    host.prompt();
    host.until(|frame| frame["type"] == "result");
    host.finish(&stage);
    assert!(last_request(&stage).contains("lint found two things"), "{}", last_request(&stage));
    let audit = parsed(&stage.run(&["hooks", "audit", "--json"]));
    let firings = audit["audit"]["calls"][0]["firings"].as_array().unwrap();
    let ends: Vec<&Json> = firings.iter().map(|firing| &firing["runs"][0]["end"]["how"]).collect();
    assert_eq!(ends, [&json!("background"), &json!("exited")], "{audit}");
}

#[test]
fn a_hook_in_the_background_can_wake_the_model() {
    let command = "until [ -e go ]; do sleep 0.01; done; echo the tests fail >&2; exit 2";
    let hook = json!({"type": "command", "command": command, "asyncRewake": true});
    let stage =
        new_stage(&format!("{}{DONE}", write()), &json!({"hooks": {"PostToolUse": [{"hooks": [hook]}]}}));
    let mut host = Host::start(&stage, &["--permission-mode", "acceptEdits"]);
    host.prompt();
    host.until(|frame| frame["type"] == "result");
    assert_eq!(stage.server.requests().len(), 2);
    stage.repo.write("go", "");
    host.until(|frame| frame["type"] == "result");
    host.finish(&stage);
    assert!(last_request(&stage).contains("the tests fail"), "{}", last_request(&stage));
    stage.server.assert_valid_histories();
    // A run of one turn does not wait for it, and leaves nothing behind.
    let stage = new_stage(&write(), &json!({"hooks": {"PostToolUse": [{"hooks": [hook]}]}}));
    stage.run(&["-p", "go", "--permission-mode", "acceptEdits"]).check_ok();
}

fn asks_model(event: &str, fields: &Json) -> Json {
    let mut hook = json!({"type": "prompt", "prompt": "Is this fine? $ARGUMENTS"});
    hook.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"hooks": {event: [{"hooks": [hook]}]}})
}

#[test]
fn a_small_model_can_be_asked() {
    let (call, done) = (write().replace(DONE, ""), DONE);
    for (answer, expect) in [
        ("{\"ok\": true}", true),
        ("{\"ok\": false, \"reason\": \"it is late\"}", false),
        ("I would rather not say", false),
    ] {
        let small = format!("[[turn]]\nsteps = [{{ text = '{answer}' }}]\n");
        let stage = new_stage(&format!("{call}{small}{done}"), &asks_model("PreToolUse", &json!({})));
        let frames = stage.frames(&["--permission-mode", "acceptEdits"]);
        assert_eq!(stage.repo.has("new.txt"), expect, "{answer}: {:?}", frames.tool_results());
        let asked = stage.server.requests()[1].body_json();
        assert!(asked["model"].as_str().unwrap().contains("haiku"), "{}", asked["model"]);
        assert!(
            asked["messages"].to_string().contains("Is this fine?")
                && asked["tools"].as_array().is_none_or(Vec::is_empty)
        );
        assert_eq!(frames.result()["modelUsage"].as_object().unwrap().len(), 2, "what it used is counted");
        check_audit(&stage, "covered");
    }
}

#[test]
fn the_model_to_ask_is_the_hooks_or_the_users() {
    let script = format!("{DONE}[[turn]]\nsteps = [{{ text = '{{\"ok\": true}}' }}]\n");
    let model = |stage: &Stage| {
        stage.run(&["-p", "go"]).check_ok();
        stage.server.requests()[1].body_json()["model"].clone()
    };
    let stage = new_stage(&script, &asks_model("Stop", &json!({})));
    assert_eq!(model(&stage.with_env("ANTHROPIC_SMALL_FAST_MODEL", "claude-haiku-4-5")), "claude-haiku-4-5");
    let stage = new_stage(&script, &asks_model("Stop", &json!({"model": "claude-sonnet-4-5"})));
    assert_eq!(model(&stage), "claude-sonnet-4-5");
    // A model that cannot be asked sends nobody back to work, but closes a gate.
    let refused = format!("{}[[turn]]\nwire = {{ status = 400 }}\n{DONE}", write().replace(DONE, ""));
    let stage = new_stage(&refused, &asks_model("PreToolUse", &json!({})));
    stage.frames(&["--permission-mode", "acceptEdits"]);
    assert!(!stage.repo.has("new.txt"));
    let stage =
        new_stage(&format!("{DONE}[[turn]]\nwire = {{ status = 400 }}\n"), &asks_model("Stop", &json!({})));
    stage.run(&["-p", "go"]).check_ok();
    assert_eq!(stage.server.requests().len(), 2);
}

#[test]
fn a_host_can_watch_hooks_at_work() {
    let all =
        hooks(&[("SessionStart", "echo welcome"), ("PreToolUse", "echo hm >&2; exit 1"), ("Stop", "true")]);
    let read = calls("Read", "{ file_path = \"{{cwd}}/a.txt\" }");
    let watched = |args: &[&str]| {
        let frames = new_stage(&read, &all).frames(args);
        let of_hooks = frames.all.into_iter().filter(|frame| frame.get("hook_event").is_some());
        of_hooks.collect::<Vec<Json>>()
    };
    let few = watched(&[]);
    assert_eq!(few.len(), 2, "{few:?}");
    assert_eq!(
        (&few[0]["subtype"], &few[0]["hook_name"], &few[0]["hook_id"]),
        (&json!("hook_started"), &json!("SessionStart:startup"), &few[1]["hook_id"])
    );
    let ended = &few[1];
    assert_eq!(
        (&ended["subtype"], &ended["stdout"], &ended["exit_code"], &ended["outcome"]),
        (&json!("hook_response"), &json!("welcome\n"), &json!(0), &json!("success"))
    );
    let many = watched(&["--include-hook-events"]);
    let names: Vec<&str> = many.iter().map(|frame| frame["hook_name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "SessionStart:startup",
            "SessionStart:startup",
            "PreToolUse:Read",
            "PreToolUse:Read",
            "Stop",
            "Stop"
        ]
    );
    assert_eq!(
        (&many[3]["outcome"], &many[3]["stderr"], &many[3]["exit_code"]),
        (&json!("error"), &json!("hm\n"), &json!(1))
    );
}

#[test]
fn hooks_learn_which_prompt_and_how_hard_the_model_tries() {
    let stage = new_stage(DONE, &hooks(&[("UserPromptSubmit", "cat > prompt"), ("Stop", "cat > stop")]));
    stage.run(&["-p", "go", "--effort", "low"]).check_ok();
    let (prompt, stop): (Json, Json) = (
        serde_json::from_str(&stage.repo.read("prompt")).unwrap(),
        serde_json::from_str(&stage.repo.read("stop")).unwrap(),
    );
    assert_eq!((&stop["effort"]["level"], &stop["prompt_id"]), (&json!("low"), &prompt["prompt_id"]));
    let transcript = std::fs::read_to_string(stage.transcript()).unwrap();
    assert!(
        transcript.contains(prompt["prompt_id"].as_str().unwrap()),
        "it is the prompt's id in the transcript"
    );
}
