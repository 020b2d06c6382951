//! `ostler replay` as a user meets it: what was recorded comes to the same again, offline; what is missing, damaged or
//! different is said so.

mod fork;
mod going_on;
mod kept;
mod live;
mod lively;
mod partner;

use crate::stage::{APIS, Done, Stage};
use ostler_proto::Json;
use ostler_testkit::process;
use serde_json::json;
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
};

/// What of everything a session can meet.
const EVENTFUL: &str = r#"
[[turn]]
wire = { status = 529, headers = { retry-after-ms = "1" } }
[[turn]]
wire = { cut = { after_steps = 1, then = "truncate" } }
steps = [{ text = "begun, but" }, { text = "never ended" }]
[[turn]]
steps = [{ thinking = "hm" }, { text = "looking" },
         { call = "Read", input = { file_path = "{{cwd}}/a.txt" } },
         { call = "Bash", input = { command = "echo four >> a.txt; echo told" } },
         { call = "Write", input = { file_path = "{{cwd}}/sub/new.txt", content = "1\n" } },
         { call = "Read", input = { file_path = "{{cwd}}/gone.txt" } }]
[[turn]]
steps = [{ text = "all done" }]
[[turn]]
steps = [{ text = "and more" }]
"#;

const TOOLS: [&str; 2] = ["--allowedTools", "Bash,Write,Edit,Read"];

/// The verdict on the one session, with the model's server gone.
#[track_caller]
fn verdict(stage: &Stage, transcript: &Path) -> Json {
    let asked = stage.server.requests().len();
    let done = stage.run(&["replay", transcript.to_str().unwrap(), "--json"]);
    assert_eq!(stage.server.requests().len(), asked, "a replay asks nobody");
    let verdict: Json = serde_json::from_str(&done.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", done.stdout, done.stderr));
    assert_eq!(done.code, Some(i32::from(verdict["same"] != true)), "{verdict}");
    verdict
}

/// Every run of the session was closed in good order and comes to the same; gives how many requests that were.
#[track_caller]
fn check_same(stage: &Stage, runs: usize) -> u64 {
    let verdict = verdict(stage, &stage.transcript());
    let all = verdict["runs"].as_array().unwrap();
    assert_eq!(all.len(), runs, "{verdict:#}");
    for run in all {
        assert_eq!(run["verdict"], "same", "{verdict:#}");
        assert!(run["entries"].as_u64() > Some(0), "{verdict:#}");
    }
    all.iter().filter_map(|run| run["requests"].as_u64()).sum()
}

/// The files of the session's recording that end so.
fn recorded(stage: &Stage, end: &str) -> Vec<PathBuf> {
    let folder = stage.transcript().with_extension("").join("recording");
    let files = folder.read_dir().unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.to_str().unwrap().ends_with(end)).collect()
}

#[test]
fn an_eventful_session_comes_to_the_same_over_every_api() {
    for api in APIS {
        let stage = Stage::speaking(api, EVENTFUL);
        stage.repo.write("CLAUDE.md", "Be brief.");
        stage.home.write(
            ".ostler/settings.json",
            json!({"hooks": {
                "PreToolUse": [{"hooks": [{"type": "command", "command": "echo '{}'"}]}],
                "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo mind the gap"}]}],
                "Stop": [{"hooks": [{"type": "command", "command": "true"}]}],
            }})
            .to_string(),
        );
        stage.run(&[&["-p", "go"], &TOOLS[..]].concat()).check_ok();
        // What the tools would do now must not matter.
        stage.repo.write("a.txt", "other");
        assert_eq!(check_same(&stage, 1), 4, "{api:?}");
        stage.run(&[&["-p", "more", "--continue"], &TOOLS[..]].concat()).check_ok();
        assert_eq!(check_same(&stage, 2), 5, "{api:?}");
        assert_eq!(stage.repo.read("a.txt"), "other", "nothing runs in a replay");
        let said = stage.run(&["replay", stage.transcript().file_stem().unwrap().to_str().unwrap()]);
        let said = &said.check_ok().stdout;
        assert!(said.contains("run 2 of 2: 1 request and") && said.contains("came to the same"), "{said}");
    }
}

#[test]
fn a_conversation_with_commands_and_compaction_comes_to_the_same() {
    let stage = Stage::new(&format!(
        "[[turn]]\nsteps = [{{ text = '{}' }}]\n[[turn]]\nsteps = [{{ text = 'one' }}]\n[[turn]]\nsteps = [{{ text = '<summary>we said one</summary>' }}]\n[[turn]]\nsteps = [{{ text = 'two' }}]",
        "word ".repeat(2_000)
    ));
    let words = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
    let mut child = stage.command(&words).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for said in ["hello", "and?", "/cost", "/compact", "/model nonsense-model", "again"] {
        let line = json!({"type": "user", "message": {"role": "user", "content": said}});
        writeln!(stdin, "{line}").unwrap();
    }
    drop(stdin);
    Done::from(child.wait_with_output().unwrap()).check_ok();
    assert_eq!(stage.server.requests().len(), 4);
    assert_eq!(check_same(&stage, 1), 4);
}

#[test]
fn a_killed_process_leaves_a_recording_that_only_ends_early() {
    let stage = Stage::new(
        "[[turn]]\nsteps = [{ call = 'Bash', input = { command = 'echo hi' } }]\n[[turn]]\nsteps = [{ text = 'half' }, { pause_ms = 60000 }]",
    );
    stage.run(&["-p", "first", "--max-turns", "1", "--allowedTools", "Bash"]);
    let mut child = stage.spawn(&["-p", "go on", "--continue"]);
    let sent = || stage.server.requests().get(1).is_some_and(|request| request.step_sent(0).is_some());
    while !sent() {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    process::assert_none_running_in(stage.repo.path());
    let verdict = verdict(&stage, &stage.transcript());
    assert_eq!(verdict["same"], true, "{verdict:#}");
    assert_eq!(verdict["runs"][0]["verdict"], "same", "{verdict:#}");
}

#[test]
fn differences_are_found_and_shown_where_they_begin() {
    let stage = Stage::new("[[turn]]\nsteps = [{ text = 'said so' }]");
    stage.run(&["-p", "go"]).check_ok();
    let transcript = stage.transcript();
    let whole = fs::read_to_string(&transcript).unwrap();
    fs::write(&transcript, whole.replace("said so", "said no")).unwrap();
    let done = stage.run(&["replay", transcript.to_str().unwrap()]);
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    assert!(done.stdout.contains("DIFFERENT after 1 request"), "{}", done.stdout);
    assert!(done.stdout.contains("then: …") && done.stdout.contains("said no"), "{}", done.stdout);
    assert!(done.stdout.contains("now:  …") && done.stdout.contains("said so"), "{}", done.stdout);
    // A prompt that was another makes another request, which is found before the answer to it.
    fs::write(&transcript, whole.lines().next().unwrap()).unwrap();
    let done = stage.run(&["replay", transcript.to_str().unwrap(), "--json"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stdout.contains("was not in"), "{}", done.stdout);
}

#[test]
fn what_is_missing_or_damaged_is_named() {
    let stage = Stage::new("[[turn]]\nwire = { repeat = 9 }\nsteps = [{ text = 'hi' }]");
    stage.run(&["-p", "go"]).check_ok();
    let transcript = stage.transcript();
    let replay = || stage.run(&["replay", transcript.to_str().unwrap()]);

    let tape = recorded(&stage, ".tape.zst").remove(0);
    let whole = fs::read(&tape).unwrap();
    for bytes in [&b"no tape"[..], b"", &zstd_of("{}\n"), &zstd_of("data: nothing")] {
        fs::write(&tape, bytes).unwrap();
        let done = replay();
        assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""));
        assert!(done.stderr.contains(tape.to_str().unwrap()), "{}", done.stderr);
    }
    fs::write(&tape, [&whole[..], b"garbage"].concat()).unwrap();
    replay().check_ok();
    fs::remove_file(&tape).unwrap();
    let done = replay();
    assert!(done.code == Some(1) && done.stderr.contains("there is no recording of"), "{}", done.stderr);
    assert!(
        stage.run(&["replay", "00000000-0000-4000-8000-000000000000"]).stderr.contains("no conversation")
    );
}

fn zstd_of(text: &str) -> Vec<u8> {
    // One frame with one raw block: magic, a header that says so, the block's length.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, u8::try_from(text.len()).unwrap()];
    let header = (u32::try_from(text.len()).unwrap() << 3) | 1;
    frame.extend(&header.to_le_bytes()[..3]);
    frame.extend(text.as_bytes());
    frame
}

#[test]
fn who_wants_no_recording_has_none() {
    let stage = Stage::new("[[turn]]\nwire = { repeat = 9 }\nsteps = [{ text = 'hi' }]");
    stage.home.write(".ostler/settings.json", r#"{"session": {"record": false}}"#);
    stage.run(&["-p", "go"]).check_ok();
    assert!(!stage.transcript().with_extension("").join("recording").exists());
    stage.home.write(".ostler/settings.json", "{}");
    stage.run(&["-p", "go", "--no-session-persistence"]).check_ok();
    assert!(!stage.transcript().with_extension("").join("recording").exists());
    // What a project says about it does not count.
    stage.repo.write(".ostler/settings.json", r#"{"session": {"record": false}}"#);
    stage.run(&["-p", "go", "--continue"]).check_ok();
    assert_eq!(check_same(&stage, 1), 1);
}
