//! Undo in a running session: hosts that have files put back, `/rewind`, and calls that do not run because what they
//! would change cannot be kept.

use crate::stage::{Done, Stage};
use ostler_control::checkpoint::{Checkpoints, Force, Limits, Place};
use ostler_engine::session::project_key;
use ostler_proto::{EntryId, Json, SessionId};
use serde_json::json;
use std::{
    io::{BufRead, BufReader, Write},
    panic::AssertUnwindSafe,
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// A first prompt that edits a file and runs a command, and a second that edits again.
const TWO_PROMPTS: &str = r#"
[[turn]]
steps = [{ call = "Write", input = { file_path = "{{cwd}}/new.txt", content = "1\n" } },
         { call = "Bash", input = { command = "echo four >> a.txt; mkdir sub; echo x > sub/x" } }]
[[turn]]
steps = [{ text = "first done" }]
[[turn]]
steps = [{ call = "Write", input = { file_path = "{{cwd}}/new.txt", content = "2\n2\n" } },
         { call = "Bash", input = { command = "rm b.txt" } }]
[[turn]]
steps = [{ text = "second done" }]
"#;

/// A host that talks with the binary line by line.
struct Host {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Host {
    fn start(stage: &Stage, more: &[&str]) -> Self {
        let mut words = vec!["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
        words.extend(["--allowedTools", "Bash,Write,Edit", "--replay-user-messages"]);
        words.extend(more);
        let mut child = stage.command(&words).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    fn say(&mut self, line: &Json) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Reads until a frame of this type, which is returned.
    #[track_caller]
    fn until(&mut self, kind: &str) -> Json {
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "it ended before a {kind}");
            let frame: Json = serde_json::from_str(&line).unwrap();
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// Says something and waits for the end of the turn.
    fn prompt(&mut self, text: &str, id: &str) -> String {
        self.say(&json!({"type": "user", "uuid": id, "message": {"role": "user", "content": text}}));
        self.until("result")["result"].as_str().unwrap_or_default().to_owned()
    }

    /// Asks for files as they were right before a prompt.
    fn rewind(&mut self, id: &str, dry_run: bool) -> Json {
        let request = json!({"subtype": "rewind_files", "user_message_id": id, "dry_run": dry_run});
        self.say(&json!({"type": "control_request", "request_id": "r", "request": request}));
        self.until("control_response")["response"].clone()
    }

    fn end(mut self) {
        self.stdin = None;
        self.until_end();
        assert!(self.child.wait().unwrap().success());
    }

    fn until_end(&mut self) {
        let mut rest = String::new();
        while self.stdout.read_line(&mut rest).unwrap() > 0 {}
    }
}

const FIRST: &str = "11111111-1111-4111-8111-111111111111";
const SECOND: &str = "22222222-2222-4222-8222-222222222222";

fn files(stage: &Stage) -> String {
    let names = ["a.txt", "b.txt", "new.txt", "sub/x"];
    let shown = names.iter().filter(|name| stage.repo.has(name)).map(|name| {
        let text = stage.repo.read(name);
        format!("{name}={}", text.trim_end().replace('\n', ","))
    });
    shown.collect::<Vec<_>>().join(" ")
}

const BEFORE_FIRST: &str = "a.txt=one,two,three b.txt=bee";
const BEFORE_SECOND: &str = "a.txt=one,two,three,four b.txt=bee new.txt=1 sub/x=x";
const AFTER_SECOND: &str = "a.txt=one,two,three,four new.txt=2,2 sub/x=x";

#[test]
fn a_host_has_files_put_back_in_any_order_and_after_a_resume() {
    let stage = Stage::new(&format!(
        "{TWO_PROMPTS}[[turn]]\nexpect = ['The user put files back to an earlier state']\nsteps = [{{ text = 'I see' }}]"
    ));
    let mut host = Host::start(&stage, &[]);
    assert_eq!(host.prompt("go", FIRST), "first done");
    assert_eq!(host.prompt("on", SECOND), "second done");
    let unknown = host.rewind("33333333-3333-4333-8333-333333333333", false);
    assert_eq!(
        (&unknown["subtype"], &unknown["error"]),
        (&json!("error"), &json!("No file checkpoint found for this message."))
    );

    let cwd = stage.repo.path().canonicalize().unwrap();
    let trial = host.rewind(SECOND, true);
    let expected = json!({
        "canRewind": true, "filesChanged": [cwd.join("b.txt"), cwd.join("new.txt")], "insertions": 2, "deletions": 2,
        "skippedLinks": [], "kept": [],
    });
    assert_eq!((&trial["subtype"], &trial["response"]), (&json!("success"), &expected));
    assert_eq!(files(&stage), AFTER_SECOND, "a dry run changes nothing");
    assert_eq!(host.rewind(SECOND, false)["response"], expected);
    assert_eq!(files(&stage), BEFORE_SECOND);
    assert_eq!(host.rewind(FIRST, false)["response"]["canRewind"], true);
    assert_eq!(files(&stage), BEFORE_FIRST);
    assert_eq!(
        host.rewind(FIRST, false)["response"]["filesChanged"],
        json!([]),
        "there is nothing left to do"
    );
    host.end();

    let session = stage.transcript().file_stem().unwrap().to_str().unwrap().to_owned();
    stage.run(&["rewind", "--undo"]).check_ok();
    assert_eq!(files(&stage), BEFORE_SECOND);
    let mut host = Host::start(&stage, &["--resume", &session]);
    assert_eq!(host.rewind(FIRST, false)["response"]["canRewind"], true);
    assert_eq!(files(&stage), BEFORE_FIRST);
    assert_eq!(host.prompt("well?", "44444444-4444-4444-8444-444444444444"), "I see");
    host.end();
    stage.server.assert_valid_histories();
}

#[test]
fn nothing_is_put_back_through_a_link() {
    let command = "echo 2 > dir/f; echo 2 > new.txt; echo four >> a.txt";
    let stage = Stage::new(&format!(
        "[[turn]]\nsteps = [{{ call = 'Bash', input = {{ command = '{command}' }} }}]\n[[turn]]\nsteps = [{{ text = 'ok' }}]"
    ));
    stage.repo.write("dir/f", "1\n");
    let mut host = Host::start(&stage, &[]);
    host.prompt("go", FIRST);
    let cwd = stage.repo.path().canonicalize().unwrap();
    let elsewhere = stage.home.join("elsewhere");
    std::fs::rename(cwd.join("dir"), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, cwd.join("dir")).unwrap();
    std::fs::remove_file(cwd.join("new.txt")).unwrap();
    std::os::unix::fs::symlink("b.txt", cwd.join("new.txt")).unwrap();
    stage.repo.write("a.txt", "mine\n");
    let done = host.rewind(FIRST, false)["response"].clone();
    assert_eq!(
        (&done["canRewind"], &done["skippedLinks"]),
        (&json!(true), &json!([cwd.join("dir/f")])),
        "{done}"
    );
    assert_eq!(done["kept"][0]["path"], json!(cwd.join("dir/f")), "{done}");
    assert_eq!(std::fs::read_to_string(elsewhere.join("f")).unwrap(), "2\n");
    assert_eq!(stage.repo.read("b.txt"), "bee\n");
    assert!(!stage.repo.has("new.txt"), "a link itself is put back like a file");
    assert_eq!(
        stage.repo.read("a.txt"),
        "one\ntwo\nthree\n",
        "a host cannot be asked; an undo brings it back"
    );
    host.end();
    stage.run(&["rewind", "--undo"]).check_ok();
    assert_eq!(stage.repo.read("a.txt"), "mine\n");
}

#[test]
fn without_checkpoints_a_host_is_told_so() {
    let stage = Stage::new(TWO_PROMPTS);
    let off = json!({"canRewind": false, "error": "File rewinding is not enabled."});
    let mut host = Host::start(&stage, &["--settings", r#"{"fileCheckpointingEnabled": false}"#]);
    host.prompt("go", FIRST);
    assert_eq!(host.rewind(FIRST, false)["response"], off);
    let said = host.prompt("/rewind 1", SECOND);
    assert!(said.contains("checkpoints are off") && stage.repo.has("new.txt"), "{said}");
    host.end();
    assert!(!stage.home.has(".ostler/checkpoints"));
}

#[test]
fn the_command_goes_back_and_forth_in_files_and_conversation() {
    let stage = Stage::new(&format!(
        "{TWO_PROMPTS}[[turn]]\nexpect = ['then this']\nsteps = [{{ text = 'third done' }}]"
    ));
    let mut host = Host::start(&stage, &[]);
    host.prompt("go", FIRST);
    host.prompt("go on", SECOND);
    let list = host.prompt("/rewind", "a0000000-0000-4000-8000-000000000000");
    assert!(list.starts_with("  1  ") && list.contains(&format!("changed  {SECOND}  go on")), "{list}");
    let trial = host.prompt("/rewind 1 --dry-run", "a0000000-0000-4000-8000-000000000001");
    assert!(trial.contains("would change 4 files") && files(&stage) == AFTER_SECOND, "{trial}");

    let done = host.prompt(&format!("/rewind {}", &SECOND[..8]), "a0000000-0000-4000-8000-000000000002");
    assert!(done.contains("changed 2 files") && done.contains("the conversation goes on"), "{done}");
    assert_eq!(files(&stage), BEFORE_SECOND);
    let undone = host.prompt("/rewind --undo", "a0000000-0000-4000-8000-000000000003");
    assert!(undone.contains("the conversation is where it was"), "{undone}");
    assert_eq!(files(&stage), AFTER_SECOND);

    host.prompt("/rewind 2 conversation", "a0000000-0000-4000-8000-000000000004");
    assert_eq!(files(&stage), AFTER_SECOND, "files stay");
    assert_eq!(host.prompt("then this", "a0000000-0000-4000-8000-000000000005"), "third done");
    let request = stage.server.requests().last().unwrap().body_json().to_string();
    assert!(request.contains("first done") && !request.contains("go on"), "{request}");
    let gone = host.prompt("/rewind 2 both", "a0000000-0000-4000-8000-000000000006");
    assert!(gone.contains("no longer part of the conversation"), "{gone}");
    host.prompt("/rewind 2 code", "a0000000-0000-4000-8000-000000000007");
    assert_eq!(files(&stage), BEFORE_SECOND, "its files can still be had back");
    host.end();
    stage.server.assert_valid_histories();
}

#[test]
fn after_a_rewind_the_model_must_look_again() {
    let edit = |old: &str, new: &str| {
        format!(
            "{{ call = 'Edit', input = {{ file_path = '{{{{cwd}}}}/a.txt', old_string = '{old}', new_string = '{new}' }} }}"
        )
    };
    let read = "{ call = 'Read', input = { file_path = '{{cwd}}/a.txt' } }";
    let script = format!(
        "[[turn]]\nsteps = [{read}]\n[[turn]]\nsteps = [{}]\n[[turn]]\nsteps = [{{ text = 'ok' }}]\n\
         [[turn]]\nsteps = [{}]\n[[turn]]\nsteps = [{{ text = 'ok' }}]\n",
        edit("two", "2"),
        edit("three", "3"),
    );
    let stage = Stage::new(&script);
    let mut host = Host::start(&stage, &[]);
    host.prompt("go", FIRST);
    assert_eq!(stage.repo.read("a.txt"), "one\n2\nthree\n");
    host.prompt("/rewind 1", "a0000000-0000-4000-8000-000000000001");
    host.prompt("on", SECOND);
    assert_eq!(stage.repo.read("a.txt"), "one\ntwo\nthree\n", "an edit of a file it has not seen is refused");
    host.end();
}

fn store(stage: &Stage) -> PathBuf {
    let cwd = stage.repo.path().canonicalize().unwrap();
    stage.home.join(".ostler/checkpoints").join(project_key(&cwd))
}

fn checkpoints(stage: &Stage) -> Checkpoints {
    let place = Place { folder: store(stage), excluded: Vec::new(), limits: Limits::default() };
    Checkpoints::open(&place).unwrap().0
}

#[test]
fn the_project_is_taken_in_before_the_first_command() {
    let stage = Stage::new("[[turn]]\nsteps = [{ text = 'hello' }]");
    stage.repo.write(".git/HEAD", "ref: refs/heads/main\n");
    let mut host = Host::start(&stage, &[]);
    host.prompt("go", FIRST);
    while !store(&stage).join("store.db").exists() || checkpoints(&stage).statistics().unwrap().contents < 2 {
        std::thread::yield_now();
    }
    host.end();
    let stat = stage.run(&["checkpoints"]).check_ok().stdout.clone();
    assert!(stat.starts_with("1 checkpoints in 1 sessions") && stat.contains("kept: 30 days"), "{stat}");
}

#[test]
fn an_interrupted_rewind_is_finished_at_the_start_and_said() {
    let stage = Stage::new(&format!("{TWO_PROMPTS}[[turn]]\nsteps = [{{ text = 'hello' }}]"));
    let mut host = Host::start(&stage, &[]);
    host.prompt("go", FIRST);
    host.prompt("on", SECOND);
    host.end();
    let session = SessionId::from(stage.transcript().file_stem().unwrap().to_str().unwrap());
    let cut_off = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let checkpoints = checkpoints(&stage);
        let to = checkpoints.checkpoint(&session, &EntryId::from(FIRST)).unwrap();
        let mut steps = 0;
        let mut watch = |_: &'static str| {
            steps += 1;
            assert!(steps < 6, "here the process dies");
        };
        checkpoints.restore_watched(&session, to, Force::KeepOthers, &mut watch).map(drop)
    }));
    assert!(cut_off.is_err());
    let done = stage.run(&["-p", "go"]);
    assert!(done.check_ok().stderr.contains("ostler: an interrupted rewind was finished"), "{}", done.stderr);
    assert_eq!(files(&stage), BEFORE_FIRST);
}

#[track_caller]
fn check_refused(stage: &Stage, done: Done, why: &str) {
    let frames = done.frames();
    let results = frames.tool_results();
    for result in &results {
        assert!(result.contains("not run, and nothing was changed") && result.contains(why), "{result}");
        assert!(result.contains("fileCheckpointingEnabled"), "it names the way out: {result}");
    }
    assert_eq!(results.len(), 2);
    assert_eq!(files(stage), BEFORE_FIRST);
}

const FRAMES: [&str; 7] =
    ["-p", "go", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash,Write"];

#[test]
fn a_call_does_not_run_when_there_is_no_place_for_what_it_changes() {
    let stage = Stage::new(TWO_PROMPTS);
    stage.home.write(".ostler/checkpoints", "in the way");
    let refused = stage.run(&FRAMES);
    check_refused(&stage, refused, "cannot use");
    let off = stage.run(&[&FRAMES[..], &["--settings", r#"{"fileCheckpointingEnabled": false}"#]].concat());
    assert_eq!(off.frames().tool_results().len(), 2);
    assert_eq!(files(&stage), "a.txt=one,two,three new.txt=2,2", "without undo it works");
}

/// On a small disk of our own; where none can be had, the kernel gives no way to test it.
#[test]
fn a_call_does_not_run_when_the_disk_is_full() {
    let stage = Stage::new(
        "[[turn]]\nsteps = [{ call = 'Bash', input = { command = 'rm noise' } }]\n[[turn]]\nsteps = [{ text = 'no' }]",
    );
    let noise: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(400 << 10).collect();
    std::fs::write(stage.repo.join("noise"), &noise).unwrap();
    let home = stage.home.join(".ostler/checkpoints");
    std::fs::create_dir_all(&home).unwrap();
    let mount = format!("mount -t tmpfs -o size=320k,mode=700 none {} && exec \"$@\"", home.display());
    let ours = stage.command(&FRAMES);
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &mount, "sh"]).arg(ours.get_program()).args(ours.get_args());
    command.current_dir(stage.repo.path()).env_clear();
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let Ok(output) = command.output() else { return eprintln!("skipped: there is no unshare") };
    let done = Done::from(output);
    if done.stderr.contains("unshare:") || done.stderr.contains("mount:") {
        return eprintln!("skipped: no disk of our own can be had: {}", done.stderr);
    }
    let frames = done.frames();
    let results = frames.tool_results();
    assert_eq!(results.len(), 1, "{}", frames.stderr);
    assert!(results[0].contains("there is no room for checkpoints"), "{}", results[0]);
    assert!(stage.repo.has("noise"), "it did not run");
}
