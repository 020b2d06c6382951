//! Small recordings that are kept with the code: the loop of today must come to what it came to when they were made.
//! `just bless-recordings` makes them again after the loop was changed on purpose.

use super::partner::Partner;
use crate::stage::{Done, Stage};
use ostler_testkit::TempRepo;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Most bytes that one of them takes.
const MOST: u64 = 10_000;

const TRANSCRIPT: &str = "transcript.zst";

/// A session to record.
struct Story {
    /// What it is about; the end of its id.
    name: &'static str,
    id: &'static str,
    script: &'static str,
    tell: fn(&Stage, &Story),
}

const STORIES: [Story; 5] = [
    Story {
        name: "an edit and a command",
        id: "5e551017-0000-4000-8000-000000000001",
        script: r#"
[[turn]]
steps = [{ call = "Edit", input = { file_path = "{{cwd}}/a.txt", old_string = "two", new_string = "2" } }]
[[turn]]
steps = [{ thinking = "read it first" }, { call = "Read", input = { file_path = "{{cwd}}/a.txt" } },
         { call = "Edit", input = { file_path = "{{cwd}}/a.txt", old_string = "two", new_string = "2" } },
         { call = "Bash", input = { command = "cat a.txt; exit 3" } }]
[[turn]]
steps = [{ text = "done" }]
"#,
        tell: |stage, story| {
            run(stage, story, &["--tools", "Edit,Read,Bash", "--allowedTools", "Edit,Read,Bash"]);
        },
    },
    Story {
        name: "a denial and an interrupt",
        id: "5e551017-0000-4000-8000-000000000002",
        script: r#"
[[turn]]
steps = [{ call = "Bash", input = { command = "rm b.txt" } }]
[[turn]]
steps = [{ text = "then I wait" }, { call = "Bash", input = { command = "touch c.txt; sleep 60" } }]
[[turn]]
steps = [{ text = "as you wish" }]
"#,
        tell: deny_and_interrupt,
    },
    Story {
        name: "a compaction",
        id: "5e551017-0000-4000-8000-000000000003",
        script: r#"
[[turn]]
steps = [{ text = "LONG" }]
[[turn]]
steps = [{ text = "one" }]
[[turn]]
steps = [{ text = "<summary>they said hello</summary>" }]
[[turn]]
steps = [{ text = "two" }]
"#,
        tell: |stage, story| {
            let mut partner = Partner::start(stage, &words(story, &["--tools", "Read"]));
            for (at, said) in ["hello", "and?", "/compact the greeting", "again"].into_iter().enumerate() {
                partner.say(said, &format!("5e551017-0000-4000-8000-00000000030{at}"));
                partner.until("result");
            }
            partner.leave();
        },
    },
    Story {
        name: "a broken stream and an overloaded server",
        id: "5e551017-0000-4000-8000-000000000004",
        script: r#"
[[turn]]
wire = { status = 529, headers = { retry-after-ms = "1" } }
[[turn]]
wire = { cut = { after_steps = 1, then = "truncate" } }
steps = [{ text = "begun, but" }, { text = "never ended" }]
[[turn]]
wire = { cut = { after_steps = 2, then = "truncate" } }
steps = [{ text = "again" }, { call = "Bash", input = { command = "echo kept" } }, { text = "lost" }]
[[turn]]
steps = [{ text = "done" }]
"#,
        tell: |stage, story| run(stage, story, &["--tools", "Bash", "--allowedTools", "Bash"]),
    },
    Story {
        name: "a session that was gone on with",
        id: "5e551017-0000-4000-8000-000000000005",
        script: r#"
[[turn]]
steps = [{ call = "Write", input = { file_path = "{{cwd}}/n.txt", content = "1\n" } }]
[[turn]]
steps = [{ text = "first" }]
[[turn]]
steps = [{ text = "second" }]
"#,
        tell: |stage, story| {
            let tools = ["--tools", "Write", "--allowedTools", "Write"];
            run(stage, story, &tools);
            let words = [&["-p", "more", "--resume", story.id], &tools[..], &BRIEF].concat();
            stage.run(&words).check_ok();
        },
    },
];

/// Keeps requests, and with them recordings, short.
const BRIEF: [&str; 2] = ["--system-prompt", "Be brief."];

#[test]
fn sessions_that_were_recorded_before_still_come_to_the_same() {
    if std::env::var_os("OSTLER_BLESS").is_some() {
        STORIES.iter().for_each(record);
    }
    let home = TempRepo::new(&[]);
    for story in &STORIES {
        let transcript = unpack(story, home.path());
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command.env_clear().env("HOME", home.path()).current_dir(home.path());
        let done = Done::from(command.arg("replay").arg(&transcript).output().unwrap());
        assert_eq!(done.code, Some(0), "{}: {}{}", story.name, done.stdout, done.stderr);
        let is_whole = done.stdout.contains("came to the same") && !done.stdout.contains("no further");
        assert!(is_whole, "{}: {}", story.name, done.stdout);
        let bytes: u64 = files(&place(story)).iter().map(|file| file.metadata().unwrap().len()).sum();
        assert!(bytes <= MOST, "{} takes {bytes} bytes", story.name);
    }
    let kept = place(&STORIES[0]).parent().unwrap().read_dir().unwrap();
    assert_eq!(kept.count(), STORIES.len(), "each recording is one of a story");
}

/// Where the files of a story are kept: its transcript, packed, and its recording.
fn place(story: &Story) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/replay/kept").join(story.id)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    folder.read_dir().unwrap().map(|file| file.unwrap().path()).collect()
}

/// Plays a story and keeps what was recorded of it.
fn record(story: &Story) {
    // What is short already is not compacted.
    let stage = Stage::new(&story.script.replace("LONG", &"word ".repeat(2_000)));
    stage.home.write(".ostler/settings.json", r#"{"fileCheckpointingEnabled": false}"#);
    (story.tell)(&stage, story);
    let (from, to) = (stage.transcript(), place(story));
    // The first time there is nothing to remove.
    let _ = fs::remove_dir_all(&to);
    fs::create_dir_all(&to).unwrap();
    let packed = zstd::encode_all(&fs::read(&from).unwrap()[..], 19).unwrap();
    fs::write(to.join(TRANSCRIPT), packed).unwrap();
    for file in files(&from.with_extension("").join("recording")) {
        fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

/// Puts a story where sessions lie; gives its transcript.
fn unpack(story: &Story, home: &Path) -> PathBuf {
    let transcript = home.join(story.id).with_extension("jsonl");
    let recording = transcript.with_extension("").join("recording");
    fs::create_dir_all(&recording).unwrap();
    for file in files(&place(story)) {
        if file.ends_with(TRANSCRIPT) {
            fs::write(&transcript, zstd::decode_all(&fs::read(&file).unwrap()[..]).unwrap()).unwrap();
        } else {
            fs::copy(&file, recording.join(file.file_name().unwrap())).unwrap();
        }
    }
    transcript
}

fn words<'a>(story: &'a Story, more: &[&'a str]) -> Vec<&'a str> {
    [&["--session-id", story.id], more, &BRIEF].concat()
}

fn run(stage: &Stage, story: &Story, more: &[&str]) {
    stage.run(&[&["-p", "go"], &words(story, more)[..]].concat()).check_ok();
}

fn deny_and_interrupt(stage: &Stage, story: &Story) {
    let mut partner = Partner::start(stage, &words(story, &["--tools", "Bash"]));
    partner.say("go", "5e551017-0000-4000-8000-000000000201");
    let question = partner.until("control_request");
    partner.answer(&question, &json!({"behavior": "deny", "message": "keep it"}));
    let question = partner.until("control_request");
    partner.answer(&question, &json!({"behavior": "allow", "updatedInput": question["request"]["input"]}));
    partner.interrupt();
    partner.until("result");
    partner.say("do nothing", "5e551017-0000-4000-8000-000000000202");
    partner.until("result");
    partner.leave();
}
