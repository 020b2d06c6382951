//! Two sessions at work in one folder at the same time: each takes back its own, and what may be either's only when
//! it is told to.

use crate::stage::{Done, Stage};
use ostler_testkit::{Options, Server};
use std::process::Child;

const LONG: &str = "aaaaaaaa-2222-4333-8444-555555555555";
const SHORT: &str = "bbbbbbbb-2222-4333-8444-555555555555";

/// A model that writes a file, runs a command and ends.
fn server(stage: &Stage, file: &str, command: &str) -> Server {
    let script = format!(
        r#"
        [[turn]]
        steps = [
            {{ call = "Write", input = {{ file_path = "{file}", content = "mine\n" }} }},
            {{ call = "Bash", input = {{ command = "{command}" }} }},
        ]
        [[turn]]
        steps = [{{ text = "done" }}]
        "#
    );
    let options = Options { cwd: Some(stage.repo.path().to_path_buf()), ..Options::default() };
    Server::start_with(ostler_testkit::script(&script), options).unwrap()
}

fn start(stage: &Stage, server: &Server, session: &str) -> Child {
    let words = ["-p", "go", "--session-id", session, "--allowedTools", "Bash,Write"];
    stage.command(&words).env("ANTHROPIC_BASE_URL", server.url()).spawn().unwrap()
}

fn end(child: Child) {
    Done::from(child.wait_with_output().unwrap()).check_ok();
}

/// Which of these files are there.
fn there(stage: &Stage) -> String {
    let names = ["edit-a", "cmd-a", "late-a", "edit-b", "cmd-b"];
    names.into_iter().filter(|name| stage.repo.has(name)).collect::<Vec<_>>().join(" ")
}

/// The first session runs a command from before the other one's begins until after it has ended.
fn two_sessions() -> Stage {
    let stage = Stage::new("");
    let go = stage.home.join("go");
    let wait = format!("until test -e {}; do sleep 0.01; done", go.display());
    let long = server(&stage, "edit-a", &format!("echo 1 > cmd-a; {wait}; echo 1 > late-a"));
    let short = server(&stage, "edit-b", "echo 1 > cmd-b");
    let mut running = start(&stage, &long, LONG);
    while !stage.repo.has("cmd-a") {
        assert!(running.try_wait().unwrap().is_none(), "it ended too soon");
        std::thread::yield_now();
    }
    end(start(&stage, &short, SHORT));
    std::fs::write(go, "").unwrap();
    end(running);
    assert_eq!(there(&stage), "edit-a cmd-a late-a edit-b cmd-b");
    stage
}

#[test]
fn a_rewind_leaves_what_another_session_may_have_made() {
    let stage = two_sessions();
    let rewound = stage.run(&["rewind", "--session", SHORT, "--to", "1"]);
    assert_eq!(rewound.code, Some(1), "{}{}", rewound.stdout, rewound.stderr);
    assert!(
        rewound.stdout.contains(&format!("kept cmd-b: it may have been session {LONG}"))
            && rewound.stdout.contains("--force"),
        "{}",
        rewound.stdout
    );
    assert_eq!(there(&stage), "edit-a cmd-a late-a cmd-b");
    stage.run(&["rewind", "--session", LONG, "--to", "1"]);
    assert_eq!(there(&stage), "cmd-b", "what only it did is gone");
    stage.run(&["rewind", "--session", SHORT, "--to", "1", "--force"]).check_ok();
    assert_eq!(there(&stage), "");
    stage.run(&["rewind", "--session", SHORT, "--undo"]).check_ok();
    assert_eq!(there(&stage), "cmd-b");
}

#[test]
fn blame_names_both_sessions() {
    let stage = two_sessions();
    let either = stage.run(&["blame", "cmd-b:1"]).check_ok().stdout.clone();
    assert!(either.contains(&format!("session {SHORT}")), "{either}");
    assert!(either.contains(&format!("or session {LONG}")), "{either}");
    for file in ["cmd-a:1", "edit-b:1"] {
        let one = stage.run(&["blame", file]).check_ok().stdout.clone();
        assert!(one.contains("session") && !one.contains("or session"), "{one}");
    }
}
