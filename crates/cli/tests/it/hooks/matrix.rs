//! Two tables over whole sessions. Every gate against every way its hook can break: what cannot answer has said
//! no, what only complains or says nothing lets the thing happen, and nothing is left running. Every place hooks
//! can be set against every event: those in force hear it, those of a folder that is not trusted never run.

use super::{
    host::Host,
    session::{DONE, new_stage, write},
};
use crate::stage::Stage;
use ostler_proto::Json;
use serde_json::json;

/// What a way to break comes to at a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// It stays closed, and these words say why.
    Closed(&'static str),
    /// It says no by the rules, where the event knows a no of this kind.
    Objects(&'static str),
    /// It has said nothing.
    Open,
}

/// How hooks break, with the time each has.
const FAULTS: [(&str, f64, Expect); 9] = [
    ("kill -SEGV $$", 20.0, Expect::Closed("signal 11")),
    ("sh -c 'kill -9 $$'; exit $?", 20.0, Expect::Closed("signal 9")),
    ("sleep 300", 0.3, Expect::Closed("longer than 0.3 s")),
    ("printf '{\"decision\": \"bl'", 20.0, Expect::Closed("not JSON")),
    ("head -c 10000000 /dev/zero", 20.0, Expect::Closed("said more than")),
    ("no-such-program", 20.0, Expect::Closed("not found")),
    ("echo by code >&2; exit 2", 20.0, Expect::Objects("by code")),
    ("echo only an error >&2; exit 1", 20.0, Expect::Open),
    ("{ printf '\\033]0;owned\\007' > /dev/tty; } 2>/dev/null; echo '{}'", 20.0, Expect::Open),
];

fn breaking(event: &str, command: &str, timeout: f64) -> Json {
    let hook = json!({"type": "command", "command": command, "timeout": timeout});
    json!({"hooks": {event: [{"hooks": [hook]}]}})
}

/// What a session came to: whether the thing happened, and everything that was said.
struct Came {
    happened: bool,
    said: String,
}

#[track_caller]
fn check_gate(event: &str, run: impl Fn(&Json) -> Came) {
    for (command, timeout, expect) in FAULTS {
        let came = run(&breaking(event, command, timeout));
        // A question that a hook does not answer is still put to whoever is there.
        let is_ignored = event == "PermissionRequest";
        let (is_open, words) = match expect {
            Expect::Closed(words) => (false, words),
            Expect::Objects(words) if !is_ignored => (false, words),
            Expect::Objects(_) | Expect::Open => (true, ""),
        };
        assert_eq!(came.happened, is_open, "{event}, {command}: {}", came.said);
        assert!(came.said.contains(words), "{event}, {command}: {}", came.said);
        assert!(!came.said.contains("owned"), "{event}: {}", came.said);
    }
}

fn said(all: &[Json], stderr: &str) -> String {
    all.iter().map(Json::to_string).collect::<String>() + stderr
}

#[test]
fn a_call_is_kept_back_by_a_broken_guard() {
    check_gate("PreToolUse", |settings| {
        let stage = new_stage(&write(), settings);
        let frames = stage.frames(&["--permission-mode", "acceptEdits"]);
        Came { happened: stage.repo.has("new.txt"), said: said(&frames.all, &frames.stderr) }
    });
}

#[test]
fn a_prompt_is_kept_back_by_a_broken_guard() {
    check_gate("UserPromptSubmit", |settings| {
        let stage = new_stage(DONE, settings);
        let frames = stage.frames(&[]);
        Came { happened: !stage.server.requests().is_empty(), said: said(&frames.all, &frames.stderr) }
    });
}

#[test]
fn a_question_is_not_answered_yes_by_a_broken_hook() {
    check_gate("PermissionRequest", |settings| {
        let stage = new_stage(&write(), settings);
        let mut host = Host::start(&stage, &["--permission-prompt-tool", "stdio"]);
        host.prompt();
        let question = host.until_request("can_use_tool");
        // The host would say yes, but only when the hook has had its say.
        let transcript = stage.transcript();
        while !std::fs::read_to_string(&transcript)
            .unwrap()
            .contains("\"event\":\"PermissionRequest\",\"call\"")
        {
            std::thread::yield_now();
        }
        host.answer(&question, &json!({"behavior": "allow", "updatedInput": question["request"]["input"]}));
        host.until(|frame| frame["type"] == "result");
        let frames = host.finish(&stage);
        Came { happened: stage.repo.has("new.txt"), said: said(&frames.all, &frames.stderr) }
    });
}

#[test]
fn changed_settings_are_kept_out_by_a_broken_guard() {
    check_gate("ConfigChange", |settings| {
        let mut settings = settings.clone();
        settings["permissions"] = json!({"deny": ["Edit"]});
        let stage = new_stage(&format!("{DONE}{}", write()), &settings);
        let mut host = Host::start(&stage, &["--permission-mode", "acceptEdits"]);
        host.prompt();
        host.until(|frame| frame["type"] == "result");
        stage.home.write(".ostler/settings.json", "{}");
        host.prompt();
        host.until(|frame| frame["type"] == "result");
        let frames = host.finish(&stage);
        // The rule of before is gone only if the change is in force.
        Came { happened: stage.repo.has("new.txt"), said: said(&frames.all, &frames.stderr) }
    });
}

/// Everything that fires in an ordinary session with nobody there.
const EVENTS: [&str; 11] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PermissionDenied",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "CwdChanged",
    "Stop",
    "SessionEnd",
];

/// A session in which all of it happens.
const SCRIPT: &str = "[[turn]]\nsteps = [{ call = 'Read', id = 'c1', input = { file_path = '{{cwd}}/a.txt' } }, { call = 'Read', id = 'c2', input = { file_path = '{{cwd}}/none.txt' } }, { call = 'Write', id = 'c3', input = { file_path = '{{cwd}}/new.txt', content = 'x' } }, { call = 'Bash', id = 'c4', input = { command = 'cd sub' } }, { call = 'Bash', id = 'c5', input = { command = 'false' } }]\n[[turn]]\nsteps = [{ text = 'done' }]\n";

/// A hook on every event that leaves a mark in the home, wherever the session stands.
fn marking(stage: &Stage) -> Json {
    let hook = |event: &str| {
        let mark = stage.home.join(&format!("heard-{event}"));
        let command = format!("cat > /dev/null; touch '{}'", mark.display());
        (event.to_owned(), json!([{"hooks": [{"type": "command", "command": command}]}]))
    };
    json!({"hooks": Json::Object(EVENTS.iter().map(|event| hook(event)).collect())})
}

fn heard(stage: &Stage) -> Vec<&'static str> {
    EVENTS.into_iter().filter(|event| stage.home.has(&format!("heard-{event}"))).collect()
}

#[test]
fn every_place_hears_every_event_and_an_untrusted_folder_none() {
    let places: [(&str, &[&str], bool); 9] = [
        ("~/.ostler/settings.json", &[], true),
        ("~/.claude/settings.json", &[], true),
        ("--settings", &[], true),
        (".ostler/settings.json", &["--trust"], true),
        (".claude/settings.json", &["--trust"], true),
        (".claude/settings.local.json", &["--trust"], true),
        (".ostler/settings.json", &[], false),
        (".claude/settings.json", &[], false),
        (".claude/settings.local.json", &[], false),
    ];
    for (place, args, expect) in places {
        let stage = Stage::new(SCRIPT);
        stage.repo.write("sub/x", "");
        let settings = marking(&stage).to_string();
        let mut all = vec!["-p", "go", "--allowedTools", "Bash"];
        all.extend(args);
        match place.strip_prefix("~/") {
            Some(below) => stage.home.write(below, &settings),
            None if place == "--settings" => all.extend(["--settings", &settings]),
            None => stage.repo.write(place, &settings),
        }
        let done = stage.run(&all);
        let expected: Vec<&str> = if expect { EVENTS.into() } else { Vec::new() };
        assert_eq!(heard(&stage), expected, "{place} {args:?}: {}{}", done.stdout, done.stderr);
    }
}

#[test]
fn a_host_hears_every_event_but_those_it_made_itself() {
    let stage = Stage::new(SCRIPT);
    stage.repo.write("sub/x", "");
    let groups = EVENTS.iter().map(|event| ((*event).to_owned(), json!([{"hookCallbackIds": [event]}])));
    let hooks = Json::Object(groups.collect());
    let mut host = Host::with_hooks(&stage, &["--allowedTools", "Bash"], &hooks);
    host.prompt();
    let mut called: Vec<String> = Vec::new();
    host.until_result(|request| {
        called.push(request["callback_id"].as_str().unwrap().to_owned());
        json!({})
    });
    host.request("end", &json!({"subtype": "end_session"}));
    host.finish(&stage);
    for event in EVENTS {
        // It starts the session, and has said goodbye when it ends.
        let is_its_own = ["SessionStart", "SessionEnd"].contains(&event);
        assert_eq!(called.iter().any(|name| name == event), !is_its_own, "{event}: {called:?}");
    }
}
