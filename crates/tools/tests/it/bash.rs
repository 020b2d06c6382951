//! `Bash`, and the custody of what it starts.

use crate::{Scene, quiet, text};
use ostler_proto::{Access, Preview, StateChange};
use ostler_tools::{
    Progress, RunContext,
    builtin::{Manner, Preference},
    host::Room,
};
use serde_json::json;
use std::{os::unix::fs::PermissionsExt, path::Path, time::Duration};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Runs a command that must succeed.
async fn run(scene: &Scene, command: &str) -> String {
    scene.ok("Bash", json!({"command": command})).await
}

#[tokio::test]
async fn output_is_merged_in_order_and_cleaned() {
    let scene = Scene::new();
    let command = r"echo out; echo err >&2; printf '\e[31mred\e[0m\r\n'; printf 'tab\there'";
    let output = scene.call("Bash", json!({"command": command})).await.unwrap();
    assert_eq!(text(&output), "out\nerr\nred\ntab\there");
    let stdout = "out\nerr\nred\ntab\there";
    assert_eq!(
        output.structured,
        json!({"stdout": stdout, "stderr": "", "interrupted": false, "isImage": false})
    );
    assert_eq!(run(&scene, "true").await, "(no output)");
    assert_eq!(run(&scene, "cat").await, "(no output)", "there is no input");
    assert_eq!(run(&scene, "echo \"[$1][$#][$0]\"").await, "[][0][bash]");
}

#[tokio::test]
async fn exit_codes_are_told() {
    let scene = Scene::new();
    for (command, expected, is_error) in [
        ("echo a; exit 3", "Exit code 3\na", true),
        ("false", "Exit code 1", true),
        ("kill -9 $$", "Exit code 137", true),
        ("grep x </dev/null", "(no output)", false),
        ("grep x /no/such/file 2>/dev/null", "Exit code 2", true),
        ("nonsense_program", "Exit code 127\nbash: line 1: nonsense_program: command not found", true),
    ] {
        let output = scene.call("Bash", json!({"command": command})).await.unwrap();
        assert_eq!((text(&output).as_str(), output.is_error), (expected, is_error), "{command}");
    }
    let broken = scene.call("Bash", json!({"command": "if"})).await.unwrap();
    assert!(text(&broken).starts_with("Exit code 2\nbash: eval: line"), "{}", text(&broken));
}

#[tokio::test]
async fn the_intent_says_what_will_run_and_where() {
    let scene = Scene::new();
    let intent = scene.intent("Bash", json!({"command": "ls\npwd", "description": "List"})).await;
    assert_eq!(intent.title, "List");
    assert_eq!(
        intent.access,
        Access::Execute {
            command: "ls\npwd".into(),
            cwd: scene.dir.clone(),
            footprint: ostler_proto::Footprint::default()
        }
    );
    assert_eq!(intent.preview, Preview::Text("ls\npwd".into()));
    assert_eq!(scene.intent("Bash", json!({"command": "ls\npwd"})).await.title, "ls");
}

#[tokio::test]
async fn the_working_directory_carries_over_inside_the_roots() {
    let mut scene = Scene::new();
    scene.write("sub/deep/f", "");
    let change = |output: &ostler_proto::ToolOutput| output.changes.clone();
    let stay = scene.call("Bash", json!({"command": "(cd sub)"})).await.unwrap();
    assert_eq!(change(&stay), []);
    let inside = scene.call("Bash", json!({"command": "set -ex; cd sub >&2; false"})).await.unwrap();
    assert_eq!(change(&inside), [StateChange::Cwd(scene.dir.join("sub"))], "also when the command fails");
    assert_eq!(text(&inside), "Exit code 1\n++ cd sub\n++ false");
    let outside = scene.call("Bash", json!({"command": "cd /"})).await.unwrap();
    assert_eq!(change(&outside), []);
    assert!(text(&outside).ends_with(&format!("Shell cwd was reset to {}", scene.dir.display())));
    scene.cx.cwd = scene.dir.join("gone");
    let back = scene.call("Bash", json!({"command": "pwd"})).await.unwrap();
    assert_eq!(change(&back), [StateChange::Cwd(scene.dir.clone())]);
    assert!(text(&back).starts_with(&scene.path("")[..scene.path("").len() - 1]));
    scene.cx.cwd = scene.dir.clone();
    let odd = scene.dir.join("new\nline ");
    std::fs::create_dir(&odd).unwrap();
    let moved = scene.call("Bash", json!({"command": "cd new*"})).await.unwrap();
    assert_eq!(change(&moved), [StateChange::Cwd(odd.clone())]);
    scene.cx.cwd = odd;
    assert_eq!(change(&scene.call("Bash", json!({"command": "true"})).await.unwrap()), []);
}

#[tokio::test]
async fn the_environment_is_what_the_host_was_given() {
    let scene = Scene::new();
    let names = run(&scene, "env | cut -d= -f1 | sort | tr '\\n' ' '").await;
    let expected = "CLAUDECODE GIT_PAGER GIT_TERMINAL_PROMPT OSTLER PAGER PATH PWD SHLVL TERM _";
    assert_eq!(names, expected);
}

#[tokio::test]
async fn long_output_is_shown_by_its_ends_and_kept_whole() {
    let scene = Scene::new();
    run(&scene, "seq 1 5000").await;
    assert_eq!(scene.kept(), [], "what is shown whole leaves nothing");
    let output = scene.call("Bash", json!({"command": "seq 1 10000"})).await.unwrap();
    let shown = text(&output);
    assert!(shown.chars().count() <= 10_000 && shown.starts_with("1\n2\n") && shown.ends_with("9999\n10000"));
    let path = output.structured["persistedOutputPath"].as_str().unwrap();
    assert_eq!(output.structured["persistedOutputSize"], 48894);
    assert!(shown.contains(&format!("all of it (48894 bytes) is kept in {path}: Grep it")), "{shown}");
    let whole = std::fs::read_to_string(path).unwrap();
    assert!(whole.starts_with("1\n2\n") && whole.lines().count() == 10_000);
}

#[tokio::test]
async fn a_flood_is_kept_by_its_ends_in_bounded_room() {
    let room = Room { head: 200_000, tail: 200_000 };
    let scene = Scene::with(Manner::default(), room);
    // Escapes and broken characters are split everywhere by the pipe.
    let command = r"for i in {1..40000}; do printf '\e[31mline %d\e[0m \xff\n' $i; done";
    let output = scene.call("Bash", json!({"command": command})).await.unwrap();
    let shown = text(&output);
    assert!(shown.chars().count() <= 10_000 && shown.ends_with("line 40000 \u{fffd}"), "{shown}");
    let path = Path::new(output.structured["persistedOutputPath"].as_str().unwrap());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let whole = std::fs::read_to_string(path).unwrap();
    assert!(whole.starts_with("line 1 \u{fffd}\nline 2 ") && whole.ends_with("line 40000 \u{fffd}\n"));
    assert!(whole.contains("bytes of output were not kept here") && !whole.contains('\u{1b}'));
    let [(_, size)] = scene.kept()[..] else { panic!("{:?}", scene.kept()) };
    assert!((400_000..500_000).contains(&size), "{size}");
}

#[tokio::test]
async fn a_failure_shows_less_and_is_kept_too() {
    let scene = Scene::new();
    let output = scene.call("Bash", json!({"command": "seq 1 4000; exit 3"})).await.unwrap();
    let shown = text(&output);
    assert!(
        output.is_error && shown.starts_with("Exit code 3\n1\n2\n") && shown.ends_with("\n4000"),
        "{shown}"
    );
    assert!(shown.chars().count() <= 10_020 && shown.contains("is kept in"), "{shown}");
}

#[tokio::test]
async fn a_long_sleep_and_nothing_else_is_refused() {
    let scene = Scene::new();
    let told = scene.fails("Bash", json!({"command": "sleep 600"})).await;
    assert!(told.contains("TaskOutput") && told.contains("600 seconds"), "{told}");
    let intent = scene.intent("Bash", json!({"command": "sleep 600", "run_in_background": true})).await;
    assert_eq!(intent.title, "sleep 600 (in the background)");
}

#[tokio::test]
async fn leaving_the_sandbox_is_visible() {
    let scene = Scene::new();
    let input = json!({"command": "true", "description": "x".repeat(200), "dangerouslyDisableSandbox": true});
    assert!(scene.intent("Bash", input.clone()).await.title.ends_with("x… (outside the sandbox)"));
    assert_eq!(scene.call("Bash", input).await.unwrap().structured["dangerouslyDisableSandbox"], true);
}

#[tokio::test]
async fn dedicated_tools_are_hinted_at_once_or_insisted_on() {
    let scene = Scene::new();
    scene.write("f", "x\n");
    let first = run(&scene, "cat f").await;
    assert!(first.starts_with("x\n\n(Next time use Read"), "{first}");
    assert_eq!(run(&scene, "head -1 f").await, "x");
    assert!(run(&scene, "ls").await.contains("use LS"));
    let manner = |prefer| Manner { prefer, ..Manner::default() };
    let quiet = Scene::with(manner(Preference::Off), Room::default());
    assert_eq!(run(&quiet, "ls").await, "(no output)");
    let strict = Scene::with(manner(Preference::Deny), Room::default());
    let told = strict.fails("Bash", json!({"command": "grep -r x ."})).await;
    assert!(told.contains("use the Grep tool"), "{told}");
    assert_eq!(run(&strict, "ls | wc -l").await, "0");
}

#[tokio::test]
async fn a_trailer_is_spoken_of_only_when_wanted() {
    let guidance = |scene: &Scene| scene.tools.find("Bash").unwrap().spec().guidance.clone();
    assert!(!guidance(&Scene::new()).contains("Authored"));
    let manner = Manner { commit_trailer: Some("Co-Authored-By: X <x@y>".into()), ..Manner::default() };
    assert!(guidance(&Scene::with(manner, Room::default())).ends_with("the line: Co-Authored-By: X <x@y>"));
}

#[tokio::test]
async fn output_is_shown_while_it_comes() {
    let scene = Scene::new();
    let (tx, mut rx) = mpsc::channel(100);
    let tool = scene.tools.find("Bash").unwrap();
    let command = "echo first; until [ -e go ]; do sleep 0.01; done; echo second";
    let plan = tool.plan(json!({"command": command}), &scene.cx).await.unwrap();
    let running = plan.effect.run(RunContext {
        call: "call".into(),
        cancel: CancellationToken::new(),
        progress: Progress::to(tx),
        terms: ostler_tools::host::Terms::default(),
    });
    let watching = async {
        assert_eq!(rx.recv().await.unwrap(), "first\n");
        scene.write("go", "");
        assert_eq!(rx.recv().await.unwrap(), "second\n");
    };
    let (output, ()) = tokio::join!(running, watching);
    assert_eq!(text(&output.unwrap()), "first\nsecond");
}

#[tokio::test]
async fn a_time_out_ends_a_command_that_will_not_end() {
    let scene = Scene::new();
    let command = "trap '' TERM; echo $$ >pid; echo started; while :; do sleep 0.05; done";
    let output = scene.call("Bash", json!({"command": command, "timeout": 700})).await.unwrap();
    assert_eq!(text(&output), "Command timed out after 700 ms and was killed\nstarted");
    assert!(output.is_error);
    assert_eq!(output.structured["timedOutAfterMs"], 700);
    gone(&scene, "pid").await;
}

#[tokio::test]
async fn a_child_left_in_the_background_does_not_hold_the_call() {
    let scene = Scene::new();
    let text = run(&scene, "sleep 1000 & echo $! >pid; echo done").await;
    assert_eq!(text, "done");
    gone(&scene, "pid").await;
}

#[tokio::test]
async fn dropping_a_call_kills_the_whole_group() {
    let scene = Scene::new();
    let command =
        "echo $$ >shell; (trap '' TERM HUP; sleep 1000 & echo $! >inner; wait) & echo $! >outer; wait";
    let plan = scene.tools.find("Bash").unwrap().plan(json!({"command": command}), &scene.cx).await.unwrap();
    let mut running = plan.effect.run(quiet());
    let all_started = async {
        for name in ["shell", "inner", "outer"] {
            while pid(&scene, name).is_none() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    };
    tokio::select! {
        output = &mut running => panic!("it ended: {output:?}"),
        () = all_started => {}
    }
    drop(running);
    for name in ["shell", "inner", "outer"] {
        gone(&scene, name).await;
    }
    // Our own child must not even be a zombie.
    let shell = pid(&scene, "shell").unwrap();
    until(|| !Path::new(&format!("/proc/{shell}")).exists()).await;
}

pub(crate) fn pid(scene: &Scene, name: &str) -> Option<u32> {
    std::fs::read_to_string(scene.dir.join(name)).ok()?.trim().parse().ok()
}

/// Waits, within bounds, until a process runs no more. One whose new parent is slow to reap it is dead too.
pub(crate) async fn gone(scene: &Scene, name: &str) {
    let pid = pid(scene, name).unwrap();
    until(|| match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Err(_) => true,
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])),
    })
    .await;
}

pub(crate) async fn until(condition: impl Fn() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not come to pass");
}
