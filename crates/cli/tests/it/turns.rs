//! Whole turns, from prompt to file change and back, over each API.

use crate::stage::{APIS, Stage};
use ostler_testkit::{common_bytes, process};

const FIX: &str = r#"
[[turn]]
steps = [
    { thinking = "look first" },
    { text = "Looking." },
    { call = "Read", input = { file_path = "{{cwd}}/a.txt" } },
    { call = "Grep", input = { pattern = "bee", output_mode = "content" } },
]
[[turn]]
expect = ["two", "bee"]
steps = [{ call = "Edit", input = { file_path = "{{cwd}}/a.txt", old_string = "two", new_string = "TWO" } }]
[[turn]]
expect = ["TWO"]
steps = [{ call = "Bash", input = { command = "cat a.txt; cd sub 2>/dev/null || mkdir sub && cd sub" } }]
[[turn]]
expect = ["one\nTWO\nthree"]
steps = [{ call = "Write", input = { file_path = "new.txt", content = "made in {{result.1}}" } }]
[[turn]]
steps = [{ text = "Done." }]
"#;

#[test]
fn a_prompt_becomes_a_file_change_over_every_api() {
    for api in APIS {
        // Tests may run as root, where bypassing needs a declared sandbox.
        let stage = Stage::speaking(api, FIX).with_env("IS_SANDBOX", "1");
        let done = stage.run(&["-p", "fix it", "--dangerously-skip-permissions"]);
        assert_eq!(done.check_ok().stdout, "Done.\n", "{api:?}");
        stage.server.assert_no_failures();
        stage.server.assert_valid_histories();
        stage.server.assert_append_only();
        assert_eq!(stage.repo.read("a.txt"), "one\nTWO\nthree\n");
        assert!(stage.repo.has("sub/new.txt"), "the shell's directory persists");
    }
}

#[test]
fn requests_are_append_only_bytes() {
    let stage = Stage::new(FIX);
    stage.run(&["-p", "fix it", "--permission-mode", "acceptEdits", "--allowedTools", "Bash"]).check_ok();
    let requests = stage.server.requests();
    assert_eq!(requests.len(), 5);
    assert!(requests.iter().all(|request| request.connection == 1), "one connection serves the whole turn");
    for pair in requests.windows(2) {
        // Everything up to the moving cache mark on the last message is the same bytes.
        let shared = common_bytes(&pair[0].body, &pair[1].body);
        assert!(shared + 64 >= pair[0].body.len(), "{shared} of {}", pair[0].body.len());
    }
}

#[test]
fn a_tool_starts_while_the_model_still_speaks() {
    for api in APIS {
        // The second step cannot be sent before the test has seen the first call's effect.
        let script = r#"
            [[turn]]
            steps = [
                { call = "Bash", input = { command = "echo started > started.txt" } },
                { text = "still talking", over_ms = 1500, pieces = 30 },
            ]
            [[turn]]
            steps = [{ text = "done" }]
        "#;
        let stage = Stage::speaking(api, script);
        let child = stage.spawn(&["-p", "go", "--allowedTools", "Bash"]);
        let asked_again = || stage.server.requests().len() > 1;
        while !stage.repo.has("started.txt") {
            assert!(!asked_again(), "{api:?}: the answer ended before the tool started");
            std::thread::yield_now();
        }
        let first = &stage.server.requests()[0];
        assert!(first.answered.is_none(), "{api:?}: the tool ran while the answer was still coming");
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        process::assert_none_running_in(stage.repo.path());
    }
}

#[test]
fn results_return_in_call_order_in_one_message() {
    let stage = Stage::new(
        r#"
        [[turn]]
        steps = [
            { call = "Bash", id = "slow", input = { command = "sleep 0.2; echo slow" } },
            { call = "Read", id = "fast", input = { file_path = "b.txt" } },
            { call = "Glob", id = "glob", input = { pattern = "*.txt" } },
        ]
        [[turn]]
        steps = [{ text = "1:{{result.1}} 2:{{result.2}}" }]
        "#,
    );
    let done = stage.run(&["-p", "go", "--allowedTools", "Bash"]);
    assert!(done.check_ok().stdout.starts_with("1:slow"), "{}", done.stdout);
    assert!(done.stdout.contains("2:1\tbee"), "{}", done.stdout);
    stage.server.assert_valid_histories();
}

#[test]
fn the_embedded_demo_repairs_its_project() {
    let stage = Stage::new("");
    let done = stage.run(&["demo"]);
    done.check_ok();
    for part in [
        "FAIL cart",
        "● Edit(cart.sh)",
        "+    echo $((amount * (100 - percent) / 100))",
        "ok   cart 199 1 half",
        "model",
        "cost",
    ] {
        assert!(done.stdout.contains(part), "{part} is missing from:\n{}", done.stdout);
    }
    assert!(stage.server.all_requests().is_empty());
}

#[test]
fn a_script_file_is_an_ordinary_model() {
    let stage = Stage::new("");
    stage.repo.write("play.toml", FIX.replace("{{cwd}}/", ""));
    let args = [
        "-p",
        "fix it",
        "--model",
        "script:play.toml",
        "--permission-mode",
        "acceptEdits",
        "--allowedTools",
        "Bash",
    ];
    assert_eq!(stage.run(&args).check_ok().stdout, "Done.\n");
    assert_eq!(stage.repo.read("a.txt"), "one\nTWO\nthree\n");
    stage.repo.write("bad.toml", "[[turn]]\nstops = 1\n");
    let done = stage.run(&["-p", "x", "--model", "script:bad.toml"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("bad.toml") && done.stderr.contains('2'), "{}", done.stderr);
}

#[test]
fn a_row_in_settings_makes_a_model_known() {
    let stage = Stage::new(
        "[[turn]]\nsteps = [{ text = 'hi' }]\nusage = { input_tokens = 1000000, output_tokens = 0 }",
    );
    let row = format!(
        r#"{{"models": {{"mine": {{"api": "openai-chat", "base_url": "{}", "name": "x-1", "api_key_env": "MY_KEY", "price": {{"input": 7.0}}}}}}}}"#,
        stage.server.openai_url()
    );
    stage.home.write(".ostler/settings.json", row);
    let stage = stage.with_env("MY_KEY", "mine-for-tests");
    let done = stage.run(&["-p", "go", "--model", "mine", "--output-format", "json"]);
    let result: ostler_proto::Json = serde_json::from_str(&done.check_ok().stdout).unwrap();
    assert_eq!(result["total_cost_usd"], 7.0);
    let request = &stage.server.requests()[0];
    assert_eq!(request.header("authorization"), Some("Bearer mine-for-tests"));
    assert_eq!(request.body_json()["model"], "x-1");
}
