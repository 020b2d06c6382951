//! Commands from outside: judged by what they do, confined while they run.

use crate::stage::Stage;
use ostler_proto::Json;
use serde_json::json;
use std::io::Write as _;

fn script(commands: &[&str]) -> String {
    let calls: Vec<String> = commands
        .iter()
        .enumerate()
        .map(|(number, command)| {
            format!("{{ call = \"Bash\", id = \"c{number}\", input = {{ command = {command:?} }} }}")
        })
        .collect();
    format!("[[turn]]\nsteps = [{}]\n[[turn]]\nsteps = [{{ text = \"done\" }}]\n", calls.join(", "))
}

#[test]
fn a_look_at_a_booby_trapped_repository_springs_nothing() {
    let looks = [
        "git status",
        "git diff",
        "git log -p",
        "git show HEAD",
        "git blame a.txt",
        "git ls-files",
        "git stash list",
    ];
    let stage = Stage::new(&script(&looks));
    let repo = &stage.repo;
    repo.git(&["init", "-q"]);
    repo.git(&["add", "."]);
    repo.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "one"]);
    let bomb = repo.join("bomb.sh");
    repo.write("bomb.sh", format!("#!/bin/sh\ntouch {}/exploded\ncat\n", stage.home.path().display()));
    repo.write(".gitattributes", "* diff=evil filter=evil\n");
    repo.write("a.txt", "changed\n");
    std::process::Command::new("chmod").arg("+x").arg(&bomb).status().unwrap();
    let bomb = bomb.display().to_string();
    for key in [
        "core.fsmonitor",
        "core.pager",
        "diff.evil.textconv",
        "diff.evil.command",
        "filter.evil.clean",
        "filter.evil.process",
        "core.sshCommand",
        "gpg.program",
    ] {
        repo.git(&["config", key, &bomb]);
    }
    repo.git(&["config", "log.showSignature", "true"]);
    let frames = stage.frames(&[]);
    assert!(!stage.home.has("exploded"), "{:?}", frames.tool_results());
    let results = frames.tool_results();
    assert!(results[0].contains("modified") && results[1].contains("+changed"), "{results:?}");
    assert!(results.iter().all(|text| !text.contains("was not granted")), "none of them asks: {results:?}");

    // What overrides cannot reach makes the same look a question.
    let stage = Stage::new(&script(&["git diff"]));
    stage.repo.git(&["init", "-q"]);
    stage.repo.git(&["config", "diff.external", &bomb]);
    let results = stage.frames(&[]).tool_results();
    assert!(results[0].contains("was not granted"), "{results:?}");
}

#[test]
fn an_allowed_command_stays_within_its_bounds_and_is_told_the_way_out() {
    let stage = Stage::new(&script(&["./build.sh"]));
    let outside = stage.home.join("outside.txt");
    let secret = stage.home.join(".ssh/id");
    stage.home.write(".ssh/id", "PRIVATE");
    stage.repo.write(
        "build.sh",
        format!(
            "#!/bin/bash\necho made > made.txt\nmkdir -p .git/hooks 2>&1; echo x > .git/hooks/pre-commit\necho x > .mcp.json\n\
             cat {}\nenv | grep -i api_key\n(exec 3<>/dev/tcp/127.0.0.1/{}) 2>&1 && echo CONNECTED\necho x > {}\n",
            secret.display(),
            stage.server.url().rsplit(':').next().unwrap(),
            outside.display(),
        ),
    );
    std::process::Command::new("chmod").arg("+x").arg(stage.repo.join("build.sh")).status().unwrap();
    let frames = stage.frames(&["--allowedTools", "Bash(./build.sh)"]);
    let result = &frames.tool_results()[0];
    let confined = !stage.run(&["doctor"]).stdout.contains("best         none");
    if !confined {
        eprintln!("skipped: this machine has nothing to confine commands with");
        return;
    }
    assert!(stage.repo.has("made.txt"), "{result}");
    assert!(
        !outside.exists()
            && !stage.repo.has(".git/hooks/pre-commit")
            && !stage.repo.join(".mcp.json").is_file(),
        "{result}"
    );
    for stolen in ["PRIVATE", "key-for-tests", "CONNECTED"] {
        assert!(!result.contains(stolen), "{result}");
    }
    assert!(
        result.contains("The sandbox stopped this command") && result.contains("dangerouslyDisableSandbox"),
        "{result}"
    );
}

#[test]
fn what_a_confined_command_said_it_would_do_it_can_do() {
    let commands = [
        "rm b.txt && mkdir d && mv a.txt d/c.txt && echo new > n.txt && chmod 755 n.txt && cp d/c.txt e && rm -r d",
        "git init -q . && git add e && git -c user.name=t -c user.email=t@t commit -qm one && git log --oneline | wc -l",
    ];
    let stage = Stage::new(&script(&commands));
    let frames = stage.frames(&["--permission-mode", "acceptEdits", "--allowedTools", "Bash"]);
    let results = frames.tool_results();
    assert!(
        stage.repo.has("e") && stage.repo.has("n.txt") && !stage.repo.has("a.txt") && !stage.repo.has("d"),
        "{results:?}"
    );
    assert_eq!(results[1].trim(), "1", "{results:?}");
}

#[test]
fn leaving_the_sandbox_asks_whatever_is_allowed() {
    let call = |flag: &str| {
        format!(
            "[[turn]]\nsteps = [{{ call = \"Bash\", input = {{ command = \"make x\"{flag} }} }}]\n[[turn]]\nsteps = [{{ text = \"done\" }}]\n"
        )
    };
    let stage = Stage::new(&call(", dangerouslyDisableSandbox = true"));
    let frames = stage.frames(&["--allowedTools", "Bash"]);
    if stage.run(&["doctor"]).stdout.contains("best         none") {
        eprintln!("skipped: this machine has nothing to leave");
        return;
    }
    assert!(frames.tool_results()[0].contains("outside the sandbox"), "{:?}", frames.tool_results());
}

#[test]
fn changed_settings_count_from_the_next_answer_on() {
    let script = r#"
[[turn]]
steps = [{ call = "Bash", input = { command = "cp strict.json live.json" } }]
[[turn]]
steps = [{ call = "Write", id = "w", input = { file_path = "{{cwd}}/new.txt", content = "x" } }]
[[turn]]
steps = [{ text = "{{result.w}}" }]
"#;
    let stage = Stage::new(script);
    stage.repo.write("live.json", "{}");
    stage.repo.write("strict.json", r#"{"permissions": {"deny": ["Edit(new.txt)"]}}"#);
    let done = stage.run(&["-p", "go", "--settings", "live.json", "--permission-mode", "acceptEdits"]);
    assert!(!stage.repo.has("new.txt") && done.stdout.contains("Edit(new.txt)"), "{}", done.stdout);
}

#[test]
fn many_cases_are_judged_at_once() {
    let cases = [
        (json!({"tool": "Bash", "input": {"command": "ls -la | wc -l"}}), "allow", "read-only"),
        (
            json!({"tool": "Bash", "input": {"command": "rm -rf /"}, "mode": "bypassPermissions"}),
            "deny",
            "forbidden",
        ),
        (
            json!({"tool": "Bash", "input": {"command": "git push"}, "allow": ["Bash(git *)"]}),
            "allow",
            "normal",
        ),
        (
            json!({"tool": "Bash", "input": {"command": "git push"}, "allow": ["Bash(git *)"], "trusted": false}),
            "ask",
            "normal",
        ),
        (
            json!({"tool": "Bash", "input": {"command": "git -C x push"}, "allow": ["Bash"], "deny": ["Bash(git push *)"]}),
            "deny",
            "normal",
        ),
        (json!({"tool": "Bash", "input": {"command": "sudo ls"}, "allow": ["Bash"]}), "ask", "dangerous"),
        (json!({"tool": "Bash", "input": {"command": "if"}, "allow": ["Bash(if)"]}), "ask", "normal"),
        (json!({"tool": "Bash", "input": {"command": "ls"}, "shell": "zsh"}), "ask", "normal"),
        (json!({"tool": "Bash", "input": {"command": "cat /etc/passwd"}}), "ask", "normal"),
        (
            json!({"tool": "Bash", "input": {"command": "cat .env"}, "deny": ["Read(.env)"]}),
            "deny",
            "read-only",
        ),
        (json!({"tool": "Bash", "input": {"command": "make"}, "mode": "dontAsk"}), "deny", "normal"),
        (json!({"tool": "Read", "input": {"file_path": "src/a.rs"}}), "allow", "read-only"),
        (json!({"tool": "Read", "input": {"file_path": "~/.ssh/id"}}), "ask", "read-only"),
        (
            json!({"tool": "Edit", "input": {"file_path": "/repo/a"}, "mode": "acceptEdits"}),
            "allow",
            "normal",
        ),
        (
            json!({"tool": "Write", "input": {"file_path": "/repo/.git/hooks/x"}, "mode": "acceptEdits"}),
            "ask",
            "normal",
        ),
        (json!({"tool": "Grep", "input": {"pattern": "x", "path": "/etc"}}), "ask", "read-only"),
        (json!({"tool": "Glob", "input": {"pattern": "**/*.rs"}}), "allow", "read-only"),
        (
            json!({"tool": "WebFetch", "input": {"url": "https://a.example.org/x", "prompt": "p"}, "allow": ["WebFetch(domain:*.example.org)"]}),
            "allow",
            "normal",
        ),
        (
            json!({"tool": "WebFetch", "input": {"url": "https://example.org.evil.com", "prompt": "p"}, "allow": ["WebFetch(domain:*.example.org)"]}),
            "ask",
            "normal",
        ),
    ];
    let stage = Stage::new("[[turn]]\nsteps = [{ text = \"x\" }]\n");
    let mut lines = String::new();
    for (id, (case, ..)) in cases.iter().enumerate() {
        let mut case = case.clone();
        case["id"] = json!(id);
        case["root"] = json!("/repo");
        case["home"] = json!("/somebody");
        lines.extend([case.to_string(), "\n".to_owned()]);
    }
    lines.push_str("{\"id\": \"odd\", \"tool\": \"Bash\"}\n");
    let mut child = stage
        .command(&["permissions", "check", "--jsonl", "-"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let answers: Vec<Json> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), cases.len() + 1);
    for ((case, decision, class), answer) in cases.iter().zip(&answers) {
        assert_eq!(
            (answer["decision"].as_str(), answer["class"].as_str()),
            (Some(*decision), Some(*class)),
            "{case}: {answer}"
        );
    }
    assert!(answers.last().unwrap()["error"].is_string());
    assert_eq!(output.status.code(), Some(1), "a case that cannot be judged is an error");
}
