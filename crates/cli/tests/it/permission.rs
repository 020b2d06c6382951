//! The control plane from outside: nothing that needs a yes happens without one.

use crate::{host, stage::Stage};
use serde_json::json;

const WRITE: &str = r#"
[[turn]]
steps = [{ call = "Write", id = "w", input = { file_path = "{{cwd}}/new.txt", content = "x" } }]
[[turn]]
steps = [{ text = "{{result.w}}" }]
"#;

#[test]
fn without_anybody_to_ask_a_write_is_denied_and_reported() {
    let stage = Stage::new(WRITE);
    let frames = stage.frames(&[]);
    assert!(!stage.repo.has("new.txt"));
    assert_eq!(frames.code, Some(0));
    let result = frames.result();
    assert_eq!(result["permission_denials"][0]["tool_name"], "Write");
    assert!(frames.kinds().contains("system/permission_denied"), "{}", frames.kinds());
    assert!(frames.tool_results()[0].contains("--allowedTools"), "{:?}", frames.tool_results());
    let told = Stage::new(WRITE).run(&["-p", "go"]).check_ok().stderr.clone();
    assert!(told.contains("1 call was not allowed (Write)"), "{told}");
}

#[test]
fn a_denial_names_a_way_out_that_is_one() {
    let stage = Stage::new(&WRITE.replace("new.txt", ".git/hooks/pre-commit"));
    let frames = stage.frames(&["--allowedTools", "Edit"]);
    let told = &frames.tool_results()[0];
    assert!(told.contains("through a host program") && !told.contains("--allowedTools"), "{told}");
}

#[test]
fn modes_rules_and_settings_allow_and_deny() {
    let check = |args: &[&str], settings: &str, expect: bool| {
        let stage = Stage::new(WRITE);
        stage.repo.write(".claude/settings.json", settings);
        stage.run(&[&["-p", "go"], args].concat()).check_ok();
        assert_eq!(stage.repo.has("new.txt"), expect, "{args:?} {settings}");
    };
    check(&["--permission-mode", "acceptEdits"], "{}", true);
    check(&["--allowedTools", "Write"], "{}", true);
    check(&["--allowedTools", "Edit(*.txt)"], "{}", true);
    check(&["--allowedTools", "Edit(*.md)"], "{}", false);
    check(&["--permission-mode", "acceptEdits", "--disallowedTools", "Edit(new.txt)"], "{}", false);
    check(&["--permission-mode", "plan", "--allowedTools", "Write"], "{}", false);
    check(&["--permission-mode", "dontAsk"], "{}", false);
    check(&[], r#"{"permissions": {"allow": ["Write"], "defaultMode": "acceptEdits"}}"#, false);
    check(&["--permission-mode", "acceptEdits"], r#"{"permissions": {"deny": ["Write"]}}"#, false);
}

#[test]
fn a_bare_deny_rule_hides_the_tool() {
    let stage = Stage::new(WRITE);
    stage.run(&["-p", "go", "--disallowedTools", "Write", "Bash"]).check_ok();
    let tools = stage.server.requests()[0].body_json()["tools"].to_string();
    assert!(!tools.contains("\"Write\"") && tools.contains("\"Edit\""), "{tools}");
}

#[test]
fn outside_the_working_directories_and_protected_names_ask_even_for_accepted_edits() {
    for path in [
        "/tmp/ostler-outside-test.txt",
        "{{cwd}}/.git/hooks/pre-commit",
        "{{cwd}}/.mcp.json",
        "{{cwd}}/link/x",
    ] {
        let stage = Stage::new(&WRITE.replace("{{cwd}}/new.txt", path));
        std::os::unix::fs::symlink("/tmp", stage.repo.join("link")).unwrap();
        let frames = stage.frames(&["--permission-mode", "acceptEdits"]);
        assert_eq!(frames.result()["permission_denials"][0]["tool_name"], "Write", "{path}");
    }
}

#[test]
fn secrets_of_the_agent_do_not_reach_commands() {
    let script = "[[turn]]\nsteps = [{ call = 'Bash', input = { command = 'env' } }]\n[[turn]]\nsteps = [{ text = '{{result.1}}' }]";
    let done = Stage::new(script).run(&["-p", "go", "--allowedTools", "Bash"]);
    assert!(done.check_ok().stdout.contains("OSTLER=1"), "{}", done.stdout);
    assert!(!done.stdout.contains("key-for-tests"), "{}", done.stdout);
}

#[test]
fn a_program_on_the_other_end_can_answer() {
    for (answer, expect) in [
        (
            json!({"behavior": "allow", "updatedInput": {"file_path": "other.txt", "content": "changed"}}),
            "other.txt",
        ),
        (json!({"behavior": "deny", "message": "not now"}), ""),
    ] {
        let stage = Stage::new(WRITE);
        let heard = host::answering(&stage, &[], |request| {
            assert_eq!(request["tool_name"], "Write");
            answer.clone()
        });
        assert!(!stage.repo.has("new.txt"));
        assert_eq!(stage.repo.has("other.txt"), expect == "other.txt");
        let text = heard.result["result"].as_str().unwrap();
        assert!(if expect.is_empty() { text == "not now" } else { text.contains("other.txt") }, "{text}");
    }
}

/// The same write twice, then a read outside the project.
const TWICE: &str = r#"
[[turn]]
steps = [{ call = "Write", id = "one", input = { file_path = "{{cwd}}/new.txt", content = "1" } }]
[[turn]]
steps = [{ call = "Write", id = "two", input = { file_path = "{{cwd}}/new.txt", content = "2" } }]
[[turn]]
steps = [{ call = "Read", id = "three", input = { file_path = "/etc/hosts" } }]
[[turn]]
steps = [{ text = "{{result.two}}" }]
"#;

#[test]
fn answers_change_what_may_run_for_as_long_as_they_say() {
    let rule = |kind: &str, behavior: &str, destination: &str| {
        let rules = json!([{"toolName": "Edit", "ruleContent": "new.txt"}]);
        json!({"type": kind, "rules": rules, "behavior": behavior, "destination": destination})
    };
    let etc = json!({"type": "addDirectories", "directories": ["/etc"], "destination": "session"});
    let mode = json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"});
    // What comes with the first yes; who is asked then; which file of settings has it.
    for (updates, asked, file) in [
        (json!([]), "Write Write Read", ""),
        (json!([rule("addRules", "allow", "session")]), "Write Read", ""),
        (
            json!([rule("addRules", "allow", "localSettings")]),
            "Write Read",
            "repo .ostler/settings.local.json",
        ),
        (json!([rule("addRules", "allow", "projectSettings")]), "Write Read", "repo .ostler/settings.json"),
        (json!([rule("addRules", "allow", "userSettings")]), "Write Read", "home .ostler/settings.json"),
        (json!([rule("addRules", "deny", "session")]), "Write Read", ""),
        (json!([rule("addRules", "deny", "userSettings")]), "Write Read", "home .ostler/settings.json"),
        (
            json!([rule("addRules", "allow", "session"), rule("addRules", "ask", "session")]),
            "Write Write Read",
            "",
        ),
        (
            json!([rule("addRules", "allow", "session"), rule("removeRules", "allow", "session")]),
            "Write Write Read",
            "",
        ),
        (
            json!([rule("addRules", "allow", "session"), {"type": "replaceRules", "rules": [], "behavior": "allow", "destination": "session"}]),
            "Write Write Read",
            "",
        ),
        (json!([mode]), "Write Read", ""),
        (json!([mode, etc]), "Write", ""),
        (
            json!([{"type": "setMode", "mode": "bypassPermissions", "destination": "session"}]),
            "Write Write Read",
            "",
        ),
        (json!([{"type": "setMode", "mode": "bubble", "destination": "session"}]), "Write Write Read", ""),
    ] {
        let stage = Stage::new(TWICE);
        let mut asks = Vec::new();
        host::answering(&stage, &[], |request| {
            asks.push(request["tool_name"].as_str().unwrap().to_owned());
            let updates = if asks.len() == 1 { updates.clone() } else { json!([]) };
            json!({"behavior": "allow", "updatedInput": request["input"], "updatedPermissions": updates})
        });
        assert_eq!(asks.join(" "), asked, "{updates}");
        let denied = updates.to_string().contains("deny");
        assert_eq!(stage.repo.read("new.txt"), if denied { "1" } else { "2" }, "{updates}");
        if let Some((place, file)) = file.split_once(' ') {
            let folder = if place == "repo" { &stage.repo } else { &stage.home };
            assert!(folder.read(file).contains("Edit(new.txt)"), "{}", folder.read(file));
        } else {
            assert!(!stage.repo.has(".ostler") && !stage.home.has(".ostler/settings.json"), "{updates}");
        }
    }
}

#[test]
fn rules_are_taken_out_of_the_files_they_stand_in() {
    let stage = Stage::new(TWICE);
    let settings = r#"{"permissions": {"allow": ["Edit(new.txt)", "Read"], "ask": ["Write"]}}"#;
    stage.home.write(".ostler/settings.json", settings);
    let mut asks = 0;
    host::answering(&stage, &[], |_| {
        asks += 1;
        let rules = |text: &str| json!([{"toolName": text}]);
        let updates = json!([
            {"type": "removeRules", "rules": rules("Write"), "behavior": "ask", "destination": "userSettings"},
            {"type": "replaceRules", "rules": rules("Edit"), "behavior": "allow", "destination": "userSettings"},
            {"type": "setMode", "mode": "acceptEdits", "destination": "userSettings"},
        ]);
        json!({"behavior": "allow", "updatedPermissions": updates})
    });
    assert_eq!(asks, 2, "the first write, and the read that nothing allows any more");
    let kept: ostler_proto::Json = serde_json::from_str(&stage.home.read(".ostler/settings.json")).unwrap();
    let expected = json!({"allow": ["Edit"], "ask": [], "defaultMode": "acceptEdits"});
    assert_eq!(kept["permissions"], expected);
}

#[test]
fn modes_keep_their_promises() {
    let call = |tool: &str, input: &str| {
        format!(
            "[[turn]]\nsteps = [{{ call = '{tool}', id = 'c', input = {input} }}]\n[[turn]]\nsteps = [{{ text = 'done' }}]"
        )
    };
    let write = call("Write", "{ file_path = '{{cwd}}/new.txt', content = 'x' }");
    let make = call("Bash", "{ command = 'touch {{cwd}}/new.txt' }");
    let protected = call("Write", "{ file_path = '{{cwd}}/.envrc', content = 'x' }");
    let wipe = call("Bash", "{ command = 'rm -rf {{cwd}}' }");
    let bypass = ["--permission-mode", "bypassPermissions"];
    let skip = ["--dangerously-skip-permissions"];
    let off = r#"{"permissions": {"disableBypassPermissionsMode": "disable"}}"#;
    let ask = r#"{"permissions": {"ask": ["Edit"]}}"#;
    let deny = r#"{"permissions": {"deny": ["Edit(.envrc)"]}}"#;
    let allow = r#"{"permissions": {"allow": ["Edit", "Bash(touch *)"]}}"#;
    for (script, args, settings, runs) in [
        (&write, &bypass[..], "{}", true),
        (&write, &skip, "{}", true),
        (&make, &skip, "{}", true),
        (&protected, &skip, "{}", true),
        (&wipe, &skip, "{}", false),
        (&wipe, &skip, allow, false),
        (&write, &skip, ask, false),
        (&protected, &skip, deny, false),
        (&write, &skip, off, false),
        (&write, &bypass, off, false),
        (&write, &["--permission-mode", "dontAsk"], "{}", false),
        (&write, &["--permission-mode", "dontAsk"], allow, true),
        (&make, &["--permission-mode", "dontAsk"], allow, true),
        (&protected, &["--permission-mode", "dontAsk"], allow, false),
        (&write, &["--permission-mode", "plan"], allow, false),
        (&make, &["--permission-mode", "plan"], allow, false),
        (&make, &["--permission-mode", "acceptEdits"], "{}", true),
        (&protected, &["--permission-mode", "acceptEdits"], allow, false),
    ] {
        let stage = Stage::new(script).with_env("IS_SANDBOX", "1");
        let args = [args, &["--settings", settings]].concat();
        let frames = stage.frames(&args);
        let denials = frames.result()["permission_denials"].as_array().unwrap().len();
        assert_eq!(denials, usize::from(!runs), "{script} {args:?}");
        let done = stage.repo.has("new.txt") || stage.repo.has(".envrc");
        assert_eq!(done, runs, "{script} {args:?}");
        assert!(stage.repo.has("a.txt"));
    }
}

#[test]
fn nobody_can_choose_a_mode_that_is_not_theirs_or_that_settings_forbid() {
    let refused = |args: &[&str], settings: &str, part: &str| {
        let stage = Stage::new(WRITE);
        stage.home.write(".ostler/settings.json", settings);
        let done = stage.run(&[&["-p", "go"], args].concat());
        assert!(done.code != Some(0) && done.stderr.contains(part), "{:?} {}", done.code, done.stderr);
    };
    refused(&["--permission-mode", "bubble"], "{}", "bubble");
    refused(&[], r#"{"permissions": {"defaultMode": "bubble"}}"#, "bubble");
    let off = r#"{"permissions": {"disableBypassPermissionsMode": "disable"}}"#;
    for (args, settings, expect) in [
        (&[][..], "{}", "error"),
        (&["--allow-dangerously-skip-permissions"], "{}", "success"),
        (&["--allow-dangerously-skip-permissions"], off, "error"),
    ] {
        let stage = Stage::new(WRITE).with_env("IS_SANDBOX", "1");
        stage.home.write(".ostler/settings.json", settings);
        let answer = host::requesting(
            &stage,
            args,
            &json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"}),
        );
        assert_eq!(answer["response"]["subtype"], expect, "{args:?} {settings} {answer}");
    }
}

#[test]
fn a_call_too_long_to_be_shown_can_only_be_allowed_once() {
    let long = "x\n".repeat(300);
    for (content, offered) in [("x", true), (long.as_str(), false)] {
        let stage = Stage::new(
            &WRITE.replace("content = \"x\"", &format!("content = \"{}\"", content.replace('\n', "\\n"))),
        );
        std::os::unix::fs::symlink("b.txt", stage.repo.join("new.txt")).unwrap();
        host::answering(&stage, &[], |request| {
            let suggestions = request["permission_suggestions"].as_array().unwrap();
            assert_eq!(!suggestions.is_empty(), offered, "{request}");
            let description = request["description"].as_str().unwrap();
            assert_eq!(description.contains("too long to be shown whole"), !offered, "{description}");
            assert!(description.contains("new.txt -> ") && description.contains("/b.txt"), "{description}");
            json!({"behavior": "deny", "message": "no"})
        });
    }
}

#[test]
fn explain_tells_the_steps_of_a_file_call() {
    let stage = Stage::new(WRITE);
    for (tool, path, lines) in [
        ("Read", "//server/share/x", &["a network path", "Decision   ask"][..]),
        ("Read", "a.txt", &["inside the working directories", "allow", "Decision   allow"]),
        ("Write", ".git/config", &["protected files and folders", "Decision   ask"]),
        ("Write", "PROGRA~1", &["a form Windows reads otherwise", "Decision   ask"]),
    ] {
        let done = stage.run(&["permissions", "explain", "--tool", tool, path]);
        for line in lines {
            assert!(done.check_ok().stdout.contains(line), "{tool} {path}: {}", done.stdout);
        }
    }
}

#[test]
fn explain_knows_which_addresses_are_never_fetched() {
    let stage = Stage::new(WRITE);
    let settings =
        json!({"permissions": {"allow": ["WebFetch"]}, "webFetch": {"allowHosts": ["127.0.0.1:8080"]}});
    stage.home.write(".ostler/settings.json", settings.to_string());
    for (address, expect) in [
        ("https://docs.rs/x", "Decision   allow"),
        ("http://[::ffff:169.254.169.254]/", "Decision   deny"),
        ("file:///etc/passwd", "Decision   deny"),
        ("http://127.1:8080/", "Decision   allow"),
        ("http://127.1:8081/", "Decision   deny"),
    ] {
        let done = stage.run(&["permissions", "explain", "--tool", "WebFetch", address]);
        assert!(done.check_ok().stdout.contains(expect), "{address}: {}", done.stdout);
    }
}
