//! `ostler replay --live-tools`: calls run again in a copy of the project as it was, results are compared, and nothing
//! of the original changes.

use crate::stage::Stage;
use ostler_proto::Json;
use ostler_testkit::process;
use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt, path::Path, process::Command};

const TOOLS: [&str; 2] = ["--allowedTools", "Bash,Write,Edit,Read"];

/// A session that reads, edits, runs, commits and fails.
const WORK: &str = r#"
[[turn]]
steps = [{ call = "Read", input = { file_path = "{{cwd}}/a.txt" } },
         { call = "Edit", input = { file_path = "{{cwd}}/a.txt", old_string = "two", new_string = "2" } },
         { call = "Bash", input = { command = "cat a.txt; echo made > made.txt; ls" } },
         { call = "Bash", input = { command = "cat {{cwd}}/b.txt >> {{cwd}}/made.txt; wc -l < {{cwd}}/made.txt; exit 3" } },
         { call = "Write", input = { file_path = "{{cwd}}/sub/new.txt", content = "1\n" } }]
[[turn]]
steps = [{ call = "Read", input = { file_path = "{{cwd}}/gone.txt" } }]
[[turn]]
steps = [{ call = "Bash", input = { command = "git add -A && git -c user.name=n -c user.email=e@x commit -qm work && git status --short && git log --format=%s" } }]
[[turn]]
steps = [{ text = "done" }]
"#;

/// What stands below a folder: kinds, contents, rights and times.
fn picture(folder: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for entry in folder.read_dir().unwrap().map(|entry| entry.unwrap()) {
        let found = fs::symlink_metadata(entry.path()).unwrap();
        let bytes = if found.is_file() { fs::read(entry.path()).unwrap() } else { Vec::new() };
        let told = format!("{:o} {}.{} {bytes:?}", found.mode(), found.mtime(), found.mtime_nsec());
        if found.is_dir() {
            all.extend(picture(&entry.path()));
        }
        all.insert(entry.path().display().to_string(), told);
    }
    all
}

/// Replays with live tools; whatever comes of it, neither the project nor anything of the user's changes.
#[track_caller]
fn relive(stage: &Stage) -> (Json, String) {
    let before = (picture(stage.repo.path()), picture(stage.home.path()));
    let asked = stage.server.requests().len();
    let transcript = stage.transcript();
    let done = stage.run(&["replay", transcript.to_str().unwrap(), "--live-tools", "--json"]);
    assert_eq!(stage.server.requests().len(), asked, "a replay asks nobody");
    let after = (picture(stage.repo.path()), picture(stage.home.path()));
    assert!(before == after, "the original changed");
    process::assert_none_running_in(stage.repo.path());
    let verdict: Json = serde_json::from_str(&done.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", done.stdout, done.stderr));
    assert_eq!(done.code, Some(i32::from(verdict["same"] != true)), "{verdict}");
    (verdict, done.stderr)
}

fn with_repository(script: &str) -> Stage {
    let stage = Stage::new(script);
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(stage.repo.path()).env("GIT_CONFIG_GLOBAL", "/dev/null").args(words);
        assert!(command.output().unwrap().status.success());
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "first"]);
    stage
}

#[test]
fn calls_come_to_the_same_in_a_copy_that_was_put_back() {
    let stage = with_repository(WORK);
    stage.run(&[&["-p", "go"], &TOOLS[..]].concat()).check_ok();
    assert!(stage.repo.join("sub/new.txt").exists());
    let (verdict, stderr) = relive(&stage);
    let run = &verdict["runs"][0];
    assert_eq!(run["verdict"], "same", "{verdict:#} {stderr}");
    assert_eq!(run["calls"]["same"], 7, "{verdict:#} {stderr}");
    assert_eq!(run["calls"]["not_run"], Json::Array(vec![]), "{verdict:#}");
    assert_eq!(stderr, "");
}

#[test]
fn the_first_result_that_is_another_is_shown() {
    let stage = Stage::new(
        r#"
[[turn]]
steps = [{ call = "Bash", input = { command = "cat a.txt" } }]
[[turn]]
steps = [{ call = "Bash", input = { command = "echo wrong > {{cwd}}/b.txt; cat b.txt" } },
         { call = "Bash", input = { command = "date +%N > b.txt; cat b.txt" } }]
[[turn]]
steps = [{ text = "done" }]
"#,
    );
    stage.run(&[&["-p", "go"], &TOOLS[..]].concat()).check_ok();
    let (verdict, _) = relive(&stage);
    let run = &verdict["runs"][0];
    let detail = run["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("call 3 that was run again, Bash (") && detail.contains("\n  - "),
        "{verdict:#}"
    );
    assert!(detail.contains("\n  + ") && run["verdict"] == "different", "{verdict:#}");

    // A file that the session never touched is as it is now, and what reads it says so.
    stage.repo.write("a.txt", "one\nzwei\nthree\n");
    let (verdict, _) = relive(&stage);
    let detail = verdict["runs"][0]["detail"].as_str().unwrap();
    assert!(detail.starts_with("call 1 that was run again, Bash (cat a.txt)"), "{detail}");
    assert!(detail.ends_with("line 2 on, - then, + now:\n  - two\n  + zwei"), "{detail}");
    let said = stage.run(&["replay", stage.transcript().to_str().unwrap(), "--live-tools"]);
    assert_eq!(said.code, Some(1));
    assert!(said.stdout.contains("  - two\n  + zwei\n  recording: "), "{}", said.stdout);
    assert!(said.stdout.contains("  0 calls came to the same when run again, 0 not run"), "{}", said.stdout);
}

#[test]
fn what_leads_out_was_denied_or_changed_by_a_hook_is_given_from_the_recording() {
    let outside = ostler_testkit::TempRepo::new(&[("o.txt", "out\n")]);
    let path = outside.path().display();
    let stage = Stage::new(&format!(
        r#"
[[turn]]
steps = [{{ call = "Read", input = {{ file_path = "{path}/o.txt" }} }},
         {{ call = "Bash", input = {{ command = "echo x >> {path}/o.txt" }} }},
         {{ call = "Write", input = {{ file_path = "{path}/w.txt", content = "w" }} }},
         {{ call = "WebFetch", input = {{ url = "http://127.0.0.1:9/", prompt = "?" }} }},
         {{ call = "Bash", input = {{ command = "sleep 60", run_in_background = true }} }},
         {{ call = "Bash", input = {{ command = "rm b.txt" }} }},
         {{ call = "Bash", input = {{ command = "echo changed" }} }},
         {{ call = "Bash", input = {{ command = "echo heard" }} }}]
[[turn]]
steps = [{{ text = "done" }}]
"#
    ));
    let change = r#"grep -q '"echo changed"' && echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"command":"echo other"}}}'; exit 0"#;
    stage.home.write(
        ".ostler/settings.json",
        serde_json::json!({"webFetch": {"allowHosts": ["127.0.0.1"]}, "hooks": {
            "PreToolUse": [{"hooks": [{"type": "command", "command": change}]}],
            "PostToolUse": [{"hooks": [{"type": "command", "command": "echo '{\"hookSpecificOutput\":{\"hookEventName\":\"PostToolUse\",\"additionalContext\":\"mind\"}}'"}]}],
        }})
        .to_string(),
    );
    let words =
        ["--allowedTools", "Bash,Read,Write,WebFetch", "--disallowedTools", "Bash(rm *)", "--add-dir"];
    let place = path.to_string();
    stage.run(&[&["-p", "go"], &words[..], &[place.as_str()]].concat()).check_ok();
    let after = fs::read_to_string(outside.join("o.txt")).unwrap();
    let (verdict, stderr) = relive(&stage);
    let run = &verdict["runs"][0];
    assert_eq!(run["verdict"], "same", "{verdict:#} {stderr}");
    let given: Vec<String> = run["calls"]["not_run"]
        .as_array()
        .unwrap()
        .iter()
        .map(|given| format!("{}: {}", given["tool"].as_str().unwrap(), given["why"].as_str().unwrap()))
        .collect();
    let out = |name: &str| format!("it touches {path}/{name}, which is outside of the project");
    assert_eq!(
        given,
        [
            format!("Read: {}", out("o.txt")),
            format!("Bash: {}", out("o.txt")),
            format!("Write: {}", out("w.txt")),
            "WebFetch: it talks to other machines".to_owned(),
            "Bash: it is about a command in the background".to_owned(),
            "Bash: it was denied".to_owned(),
            "Bash: a hook changed its input".to_owned(),
        ],
        "{verdict:#}"
    );
    assert_eq!(run["calls"]["same"], 1, "{verdict:#}");
    assert_eq!(fs::read_to_string(outside.join("o.txt")).unwrap(), after);
}

#[test]
fn a_command_that_hides_where_it_writes_reaches_only_the_copy() {
    let outside = ostler_testkit::TempRepo::new(&[("o.txt", "out\n")]);
    let path = outside.path().display();
    // What it touches cannot be read off it.
    let stage = Stage::new(&format!(
        r#"
[[turn]]
steps = [{{ call = "Write", input = {{ file_path = "{{{{cwd}}}}/run.sh", content = "echo again >> {{{{cwd}}}}/a.txt\ncp a.txt {path}/stolen.txt\nrm -f {path}/o.txt\ntrue\n" }} }}]
[[turn]]
steps = [{{ call = "Bash", input = {{ command = "sh run.sh 2>/dev/null; tail -n 1 {{{{cwd}}}}/a.txt" }} }}]
[[turn]]
steps = [{{ text = "done" }}]
"#
    ));
    let place = path.to_string();
    let words = ["--add-dir", place.as_str()];
    stage.run(&[&["-p", "go"], &TOOLS[..], &words[..]].concat()).check_ok();
    assert!(!outside.join("o.txt").exists(), "it did so when it was recorded");
    fs::remove_file(outside.join("stolen.txt")).unwrap();
    outside.write("o.txt", "out");
    let (verdict, stderr) = relive(&stage);
    assert_eq!(verdict["runs"][0]["calls"]["same"], 2, "{verdict:#} {stderr}");
    assert!(outside.join("o.txt").exists() && !outside.join("stolen.txt").exists());
}

#[test]
fn each_run_begins_where_the_project_stood_and_what_is_gone_is_said() {
    let stage = Stage::new(
        r#"
[[turn]]
steps = [{ call = "Bash", input = { command = "echo 1 >> n.txt; cat n.txt" } }]
[[turn]]
steps = [{ text = "one" }]
[[turn]]
steps = [{ call = "Bash", input = { command = "echo 2 >> n.txt; cat n.txt" } }]
[[turn]]
steps = [{ text = "two" }]
"#,
    );
    stage.run(&[&["-p", "go"], &TOOLS[..]].concat()).check_ok();
    // Somebody else in between.
    stage.repo.write("n.txt", "1\nbetween\n");
    stage.run(&[&["-p", "more", "--continue"], &TOOLS[..]].concat()).check_ok();
    let (verdict, stderr) = relive(&stage);
    assert_eq!(verdict["same"], true, "{verdict:#} {stderr}");
    assert_eq!(verdict["runs"].as_array().unwrap().len(), 2);
    fs::remove_dir_all(stage.home.join(".ostler/checkpoints")).unwrap();
    let (verdict, stderr) = relive(&stage);
    assert_eq!(verdict["runs"][0]["verdict"], "different", "{verdict:#}");
    assert!(stderr.contains("so they are as they are now: there are no checkpoints of"), "{stderr}");
}
