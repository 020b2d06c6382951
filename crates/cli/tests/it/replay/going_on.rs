//! Recordings that go on where something reaches far beyond the loop: changed settings, a new conversation, files and
//! conversations that go back.

use super::{check_same, partner::Partner, verdict};
use crate::{host, stage::Stage};
use serde_json::json;

const TOOLS: [&str; 2] = ["--allowedTools", "Bash,Write,Edit,Read"];

const EDITS: &str = r#"
[[turn]]
steps = [{ call = "Write", input = { file_path = "{{cwd}}/n.txt", content = "1\n" } }]
[[turn]]
steps = [{ text = "wrote it" }]
[[turn]]
steps = [{ call = "Read", input = { file_path = "{{cwd}}/a.txt" } }]
[[turn]]
steps = [{ text = "read it" }]
[[turn]]
wire = { repeat = 9 }
steps = [{ text = "and on" }]
"#;

#[test]
fn a_recording_goes_on_over_a_new_conversation() {
    let stage = Stage::new(EDITS);
    let prompts = ["one", "/clear", "two", "/cost", "/clear", "three"];
    host::telling(&stage, &TOOLS, &prompts);
    let transcripts = stage.transcripts();
    assert_eq!(transcripts.len(), 3);
    let recorded: Vec<_> =
        transcripts.iter().filter(|path| path.with_extension("").join("recording").exists()).collect();
    assert_eq!(recorded.len(), 1, "all of it is one tape");
    let verdict = verdict(&stage, recorded[0]);
    assert_eq!(verdict["runs"][0]["verdict"], "same", "{verdict:#}");
    assert_eq!(verdict["runs"][0]["requests"], 5, "{verdict:#}");
}

#[test]
fn a_recording_goes_on_over_changed_settings() {
    let stage = Stage::new(
        r#"
[[turn]]
steps = [{ call = "Bash", input = { command = "echo 1 > one.txt" } }]
[[turn]]
steps = [{ call = "Bash", input = { command = "echo 2 > two.txt" } }]
[[turn]]
steps = [{ text = "done" }]
"#,
    );
    let mut asked = 0;
    let heard = host::answering(&stage, &[], |_| {
        asked += 1;
        // In force before the next answer: nobody is asked again, and a hook listens from then on.
        let settings = json!({"permissions": {"allow": ["Bash"]}, "hooks": {
            "PreToolUse": [{"hooks": [{"type": "command", "command": "echo '{}'"}]}],
        }});
        stage.home.write(".ostler/settings.json", settings.to_string());
        json!({"behavior": "allow", "updatedInput": {"command": "echo 1 > one.txt"}})
    });
    assert_eq!((heard.result["result"].as_str(), asked), (Some("done"), 1));
    assert_eq!(check_same(&stage, 1), 3);
    let transcript = std::fs::read_to_string(stage.transcript()).unwrap();
    assert!(transcript.contains("PreToolUse"), "the new hooks were in force");
}

#[test]
fn a_recording_goes_on_over_rewinds() {
    let stage = Stage::new(EDITS);
    let prompts = [
        "one",
        "two",
        "/rewind",
        "/rewind 1 code --dry-run",
        "/rewind 1 code",
        "three",
        "/rewind --undo",
        "/rewind 2 both",
        "four",
        "/rewind 99",
        "five",
    ];
    host::telling(&stage, &TOOLS, &prompts);
    assert_eq!(check_same(&stage, 1), 7);
}

#[test]
fn a_recording_goes_on_over_files_that_a_host_puts_back() {
    let stage = Stage::new(EDITS);
    let mut partner = Partner::start(&stage, &TOOLS);
    let id = "5e551017-0000-4000-8000-00000000aaaa";
    partner.say("one", id);
    partner.until("result");
    for (to, dry_run) in [(id, true), (id, false), ("5e551017-0000-4000-8000-00000000bbbb", false)] {
        partner.request(&json!({"subtype": "rewind_files", "user_message_id": to, "dry_run": dry_run}));
        partner.until("control_response");
    }
    assert!(!stage.repo.has("n.txt"));
    partner.say("two", "5e551017-0000-4000-8000-00000000cccc");
    partner.until("result");
    partner.leave();
    assert_eq!(check_same(&stage, 1), 4);
    let live = stage.run(&["replay", stage.transcript().to_str().unwrap(), "--live-tools", "--json"]);
    let live = &live.check_ok().stdout;
    assert!(live.contains("same-so-far") && live.contains("files were put back here"), "{live}");
}
