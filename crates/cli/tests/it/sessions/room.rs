//! Disks that are full or read-only, each of our folders in turn: it is said on stderr and in the result, what was
//! shown is not lost, and with room again the work goes on.

use crate::stage::{Done, Frames, Stage};
use ostler_proto::Json;
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

const ID: &str = "11111111-2222-4333-8444-555555555555";
const STREAM: [&str; 5] = ["-p", "go", "--output-format", "stream-json", "--verbose"];
const MAY: [&str; 2] = ["--allowedTools", "Bash,Write,MultiEdit"];

/// One of our folders on a file system of its own.
struct Mount {
    folder: PathBuf,
    options: &'static str,
    /// Whether nothing fits into it from the start.
    is_full: bool,
}

impl Mount {
    /// Runs the binary with it; `after` is a command for the shell, to be run before the file system is gone.
    #[track_caller]
    fn run(&self, stage: &Stage, words: &[&str], after: &str) -> Option<Done> {
        let ours = stage.command(words);
        std::fs::create_dir_all(&self.folder).unwrap();
        let fill = if self.is_full { "dd if=/dev/zero of=\"$FOLDER/full\" bs=4k 2>/dev/null;" } else { "" };
        let mount = format!("mount -t tmpfs -o {},mode=700 ostler-test \"$FOLDER\"", self.options);
        let script = format!("{mount} || exit 99; {fill} \"$@\"; code=$?; {after} exit $code");
        let start = |more: &[&str], what: &[&OsStr]| {
            let mut command = Command::new("unshare");
            command.args(["--mount", "--propagation", "private"]).args(more);
            command.args(["sh", "-c", &script, "sh"]).args(what);
            command.current_dir(stage.repo.path()).env("FOLDER", &self.folder);
            command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command.output()
        };
        let can = |more: &[&str]| start(more, &["true".as_ref()]).is_ok_and(|output| output.status.success());
        let more: &[&str] = if can(&[]) {
            &[]
        } else if can(&["--map-root-user"]) {
            &["--map-root-user"]
        } else {
            eprintln!("skipped: this machine lets nobody mount a file system of their own");
            return None;
        };
        let all: Vec<&OsStr> = std::iter::once(ours.get_program()).chain(ours.get_args()).collect();
        Some(Done::from(start(more, &all).unwrap()))
    }
}

fn full(folder: PathBuf) -> Mount {
    Mount { folder, options: "size=8k", is_full: true }
}

/// What lies beside the session's transcript.
fn beside(stage: &Stage, below: &str) -> PathBuf {
    let key = ostler_engine::session::project_key(stage.repo.path());
    stage.home.join(".ostler/projects").join(key).join(below)
}

/// A model that uses every folder of ours: it writes a file, changes two at once, and prints more than
/// is shown.
fn busy() -> Stage {
    Stage::new(
        r#"
        [[turn]]
        steps = [
            { call = "Read", input = { file_path = "a.txt" } },
            { call = "Read", input = { file_path = "b.txt" } },
            { call = "Write", input = { file_path = "{{cwd}}/new.txt", content = "new" } },
            { call = "MultiEdit", input = { files = [
                { file_path = "a.txt", edits = [{ old_string = "one", new_string = "1" }] },
                { file_path = "b.txt", edits = [{ old_string = "bee", new_string = "B" }] },
            ] } },
            { call = "Bash", input = { command = "seq 30000" } },
        ]
        [[turn]]
        steps = [{ text = "done" }]
        [[turn]]
        steps = [{ text = "on it goes" }]
        "#,
    )
}

fn script() -> String {
    let long = "much ".repeat(30_000);
    let turn = format!(
        "[[turn]]\nsteps = [{{ text = '{long}' }}, {{ call = 'Write', input = {{ file_path = '{{{{cwd}}}}/new.txt', content = 'x' }} }}]\n"
    );
    turn.repeat(3)
}

/// Every line that a consumer was shown is in the transcript.
#[track_caller]
fn check_kept(frames: &[Json], transcript: &Path) {
    let text = String::from_utf8_lossy(&std::fs::read(transcript).unwrap()).into_owned();
    let told = frames.iter().filter(|frame| frame["type"] == "assistant" || frame["type"] == "user");
    // What only tells of a failure belongs to no line.
    for frame in told.filter(|frame| frame["error"].is_null()) {
        let id = frame["uuid"].as_str().unwrap();
        assert!(text.contains(id), "it was shown and is not on record: {frame}");
    }
}

/// The user is told, and that it is the disk.
#[track_caller]
fn check_said(frames: &Frames, told: &str) {
    let notices = frames.all.iter().filter(|frame| frame["subtype"] == "informational");
    let said: Vec<&str> = notices.filter_map(|frame| frame["content"].as_str()).collect();
    let is_it = |text: &&str| {
        let text = text.to_lowercase();
        text.contains(&told.to_lowercase()) && (text.contains("no space") || text.contains("disk"))
    };
    assert!(said.iter().any(is_it), "{told} in {said:?}");
}

/// Runs with a full folder: the user is told of it, all that was shown is on record, and the session goes on.
#[track_caller]
fn check_told(stage: &Stage, folder: PathBuf, told: &str) -> Option<Vec<String>> {
    let words = [&STREAM[..], &MAY, &["--session-id", ID]].concat();
    let done = full(folder).run(stage, &words, "")?;
    let frames = done.frames();
    check_said(&frames, told);
    assert_eq!((frames.code, frames.result()["subtype"].as_str()), (Some(0), Some("success")));
    check_kept(&frames.all, &beside(stage, &format!("{ID}.jsonl")));
    assert_eq!(stage.run(&["-p", "on", "--resume", ID]).check_ok().stdout, "on it goes\n");
    stage.server.assert_valid_histories();
    Some(frames.tool_results())
}

#[test]
fn a_full_disk_ends_the_turn_before_the_next_effect() {
    let stage = Stage::new(&script());
    let mount = Mount { folder: stage.home.join(".ostler"), options: "size=64k", is_full: false };
    let kept = stage.home.join("kept").display().to_string();
    let words = [&STREAM[..], &["--permission-mode", "acceptEdits", "--session-id", ID]].concat();
    let Some(done) = mount.run(&stage, &words, &format!("mkdir -p {kept}; cp -a \"$FOLDER/.\" {kept};"))
    else {
        return;
    };
    let frames = done.frames();
    assert_eq!((frames.code, frames.result()["is_error"].as_bool()), (Some(1), Some(true)));
    assert!(frames.result().to_string().contains("cannot write the session log"), "{}", frames.result());
    assert!(!stage.repo.has("new.txt"), "nothing more ran");
    assert_eq!(stage.server.requests().len(), 1);
    let Some(text) = mount.run(&stage, &["-p", "go", "--permission-mode", "acceptEdits"], "") else { return };
    assert!(text.stderr.contains("No space left on device"), "{}", text.stderr);
    // The same files where there is room.
    std::fs::remove_dir_all(stage.home.join(".ostler")).unwrap();
    std::fs::rename(&kept, stage.home.join(".ostler")).unwrap();
    check_kept(&frames.all, &beside(&stage, &format!("{ID}.jsonl")));
    let again = stage.run(&["-p", "again", "--resume", ID]);
    assert!(again.stdout.contains("much much"), "{} {}", again.stdout, again.stderr);
    stage.server.assert_valid_histories();
}

#[test]
fn a_read_only_disk_asks_nothing() {
    let stage = Stage::new(&script());
    let mount = Mount { folder: stage.home.join(".ostler"), options: "ro", is_full: false };
    let Some(done) = mount.run(&stage, &["-p", "go"], "") else { return };
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("Read-only file system"), "{}", done.stderr);
    assert!(stage.server.requests().is_empty());
}

#[test]
fn no_room_for_checkpoints_lets_nothing_change() {
    let told = "there is no room for checkpoints";
    let stage = busy();
    let text =
        full(stage.home.join(".ostler/checkpoints")).run(&stage, &[&["-p", "go"], &MAY[..]].concat(), "");
    let Some(text) = text else { return };
    assert!(text.check_ok().stderr.contains(told), "{}", text.stderr);
    let stage = busy();
    let Some(results) = check_told(&stage, stage.home.join(".ostler/checkpoints"), told) else { return };
    assert!(results[2].contains(told) && results[3].contains(told), "{results:?}");
    assert!(!stage.repo.has("new.txt"));
    assert_eq!(
        (stage.repo.read("a.txt").lines().next(), stage.repo.read("b.txt").as_str()),
        (Some("one"), "bee\n")
    );
}

#[test]
fn no_room_for_the_journal_changes_neither_file() {
    let stage = busy();
    let told = "a call failed: none of the 2 files was changed";
    if check_told(&stage, stage.home.join(".ostler/journal"), told).is_none() {
        return;
    }
    assert!(stage.repo.has("new.txt"));
    assert_eq!(
        (stage.repo.read("a.txt").lines().next(), stage.repo.read("b.txt").as_str()),
        (Some("one"), "bee\n")
    );
}

#[test]
fn no_room_for_long_results_shows_their_ends() {
    let stage = busy();
    let folder = beside(&stage, &format!("{ID}/tool-results"));
    let Some(results) = check_told(&stage, folder, "long results can no longer be kept whole") else {
        return;
    };
    assert!(results[4].starts_with("1\n2\n") && results[4].ends_with("30000"), "both ends are there");
    assert!(results[4].contains("could not be kept"), "and the model knows");
}

#[test]
fn no_room_for_the_recording_stops_only_that() {
    let stage = busy();
    let folder = beside(&stage, &format!("{ID}/recording"));
    if check_told(&stage, folder, "the session is not recorded any further").is_some() {
        assert_eq!(stage.repo.read("b.txt"), "B\n", "the work went on");
    }
}

/// Both are folders where the model writes without asking; here they lie where a script can name them.
#[test]
fn no_room_for_notes_and_plans_is_told() {
    for (folder, setting, mode) in
        [("notes", "autoMemoryDirectory", "default"), ("plans", "plansDirectory", "plan")]
    {
        let stage = Stage::new(&format!(
            "[[turn]]\nsteps = [{{ call = 'Write', input = {{ file_path = '{{{{cwd}}}}/{folder}/{ID}.md', content = 'tabs' }} }}]\n[[turn]]\nsteps = [{{ text = 'done' }}]"
        ));
        let there = stage.repo.join(folder);
        let settings = serde_json::json!({setting: there.display().to_string()});
        stage.home.write(".ostler/settings.json", settings.to_string());
        let words = [&STREAM[..], &["--session-id", ID, "--permission-mode", mode]].concat();
        let Some(done) = full(there).run(&stage, &words, "") else { return };
        let frames = done.frames();
        let results = frames.tool_results();
        assert!(results[0].to_lowercase().contains("no space left"), "{folder}: {}", results[0]);
        check_said(&frames, "a call failed: ");
        check_kept(&frames.all, &beside(&stage, &format!("{ID}.jsonl")));
    }
}

/// Lists, searches and goes on as ever; the index is only a cache.
#[test]
fn no_room_for_the_index_is_told_and_costs_only_time() {
    let stage = busy().with_env("CLAUDE_CODE_ENTRYPOINT", "sdk-py");
    let mount = full(stage.home.join(".ostler"));
    let words = [&["-p", "go", "--session-id", ID], &MAY[..]].concat();
    let Some(done) = mount.run(&stage, &words, "") else { return };
    let told = "the index of sessions is not kept";
    assert!(done.check_ok().stderr.contains(told), "{}", done.stderr);
    for words in [&["session", "list"][..], &["session", "search", "done"], &["session", "rename", ID, "T"]] {
        let done = mount.run(&stage, words, "").unwrap();
        assert!(done.check_ok().stderr.contains(told), "{words:?}: {}", done.stderr);
        assert_eq!(done.stdout.contains("11111111"), words[1] != "rename", "{words:?}: {}", done.stdout);
    }
    let listed = stage.run(&["session", "list"]);
    assert!(listed.check_ok().stderr.is_empty() && listed.stdout.contains("11111111"), "{}", listed.stdout);
    assert!(mount.run(&stage, &["session", "delete", ID], "").unwrap().check_ok().stdout.contains("removed"));
}
