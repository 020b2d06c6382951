//! Tools as a whole run sees them: long results are kept and read again, rules hold for single
//! results, and what goes to the model with every request stays small.

use crate::stage::{Done, Stage};
use std::os::unix::fs::{MetadataExt, symlink};

/// A search whose result is far too long to show.
const SPILL: &str = r#"
[[turn]]
steps = [{ call = "Grep", id = "long", input = { pattern = "line", output_mode = "content", head_limit = 0 } }]
[[turn]]
steps = [{ text = "done" }]
"#;

fn with_long_file() -> Stage {
    let stage = Stage::new(SPILL);
    let lines: Vec<String> = (0..4000).map(|n| format!("line {n} of a file too long to be shown")).collect();
    stage.repo.write("long.txt", lines.join("\n"));
    stage
}

/// The file a cut result names.
#[track_caller]
fn named_in(result: &str) -> String {
    let (_, rest) = result.split_once("the whole result is kept in ").unwrap_or_else(|| panic!("{result}"));
    rest.split_once(": Grep it").unwrap().0.to_owned()
}

#[test]
fn a_long_result_is_cut_kept_and_read_again_without_asking() {
    let stage = with_long_file();
    let frames = stage.frames(&[]);
    let shown = &frames.tool_results()[0];
    assert!(shown.chars().count() <= 100_000, "{}", shown.chars().count());
    assert!(shown.starts_with("long.txt:1:line 0 ") && shown.contains("long.txt:4000:line 3999 "));
    let kept = named_in(shown);
    assert!(kept.starts_with(&stage.home.path().canonicalize().unwrap().display().to_string()), "{kept}");
    let metadata = std::fs::metadata(&kept).unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o600);
    let whole = std::fs::read_to_string(&kept).unwrap();
    assert_eq!(whole.lines().count(), 4000);

    let again = format!(
        r#"
[[turn]]
steps = [
    {{ call = "Read", id = "r", input = {{ file_path = "{kept}", offset = 2000, limit = 1 }} }},
    {{ call = "Grep", id = "g", input = {{ pattern = "line 1234 ", path = "{kept}", output_mode = "content" }} }},
]
[[turn]]
steps = [{{ text = "done" }}]
"#
    );
    // The next run of the session is another process with another model server.
    let session = frames.result()["session_id"].as_str().unwrap().to_owned();
    let next = Stage::new(&again).with_env("HOME", &stage.home.path().display().to_string());
    let args = ["-p", "go", "--resume", &session, "--output-format", "stream-json", "--verbose"];
    let output = next.command(&args).current_dir(stage.repo.path()).output().unwrap();
    let results = Done::from(output).frames().tool_results();
    assert!(results[0].starts_with("2000\tlong.txt:2000:line 1999 "), "{results:?}");
    assert!(results[1].contains("1235:long.txt:1235:line 1234 "), "{results:?}");
}

#[test]
fn without_persistence_nothing_is_kept_and_that_is_said() {
    let stage = with_long_file();
    let frames = stage.frames(&["--no-session-persistence"]);
    assert!(frames.tool_results()[0].contains("the rest was not kept"), "{:?}", frames.tool_results());
}

#[test]
fn denied_files_are_in_no_search_result() {
    let script = r#"
[[turn]]
steps = [
    { call = "Grep", input = { pattern = "hunter2", output_mode = "content" } },
    { call = "Grep", input = { pattern = "hunter2", path = "alias" } },
    { call = "Glob", input = { pattern = "**/*" } },
    { call = "LS", input = {} },
    { call = "Grep", input = { pattern = "hunter2", path = "link" } },
]
[[turn]]
steps = [{ text = "done" }]
"#;
    let stage = Stage::new(script);
    stage.repo.write("src/ok.txt", "hunter2\n");
    stage.repo.write("secrets/key.pem", "hunter2\n");
    stage.repo.write("sub/settings.env", "hunter2\n");
    symlink("secrets", stage.repo.join("alias")).unwrap();
    symlink("sub/settings.env", stage.repo.join("link")).unwrap();
    let settings = r#"{"permissions": {"deny": ["Read(secrets/**)", "Read(*.env)"]}}"#;
    stage.repo.write(".claude/settings.json", settings);
    let results = stage.frames(&[]).tool_results();
    assert!(results[0].starts_with("src/ok.txt:1:hunter2\n\n[2 files were left out"), "{results:?}");
    assert!(results[1].starts_with("No files found\n\n[1 file was left out"), "{results:?}");
    assert!(results[2].contains("src/ok.txt") && results[3].contains("ok.txt"), "{results:?}");
    for result in &results[..4] {
        assert!(!result.contains("key.pem") && !result.contains("settings.env"), "{result}");
    }
    assert!(results[4].contains("denied"), "{results:?}");
}

#[test]
fn what_every_request_carries_stays_small() {
    let stage = Stage::new("[[turn]]\nsteps = [{ text = 'done' }]");
    stage.run(&["-p", "go"]).check_ok();
    let request = stage.server.requests()[0].body_json();
    let [system, tools] = ["system", "tools"].map(|key| request[key].to_string());
    println!("system prompt {} bytes, tool definitions {} bytes", system.len(), tools.len());
    assert!(system.len() + tools.len() <= 24 * 1024, "{} + {} bytes", system.len(), tools.len());
    assert!(system.contains("Search file contents with Grep"), "{system}");
    let fewer = Stage::new("[[turn]]\nsteps = [{ text = 'done' }]");
    fewer.run(&["-p", "go", "--tools", "Read"]).check_ok();
    let system = fewer.server.requests()[0].body_json()["system"].to_string();
    assert!(system.contains("Use Read rather") && !system.contains("with Grep"), "{system}");
}

const READ_AND_EDIT: &str = r#"
[[turn]]
steps = [{ call = "Read", input = { file_path = "long.txt" } }]
[[turn]]
steps = [
    { call = "Edit", input = { file_path = "long.txt", old_string = "line 1\n", new_string = "LINE 1\n" } },
    { call = "Glob", input = { pattern = "*.log" } },
]
[[turn]]
steps = [{ text = "done" }]
"#;

fn reading(env: &[(&str, &str)], settings: &str) -> Vec<String> {
    let stage =
        env.iter().fold(Stage::new(READ_AND_EDIT), |stage, (name, value)| stage.with_env(name, value));
    let lines: Vec<String> = (1..=50).map(|n| format!("line {n}\n")).collect();
    stage.repo.write("long.txt", lines.concat());
    // A folder of that name is what makes ignore files count.
    std::fs::create_dir_all(stage.repo.join(".git")).unwrap();
    stage.repo.write(".gitignore", "*.log\n");
    stage.repo.write("a.log", "");
    stage.home.write(".ostler/settings.json", settings);
    stage.frames(&["--permission-mode", "acceptEdits"]).tool_results()
}

#[test]
fn limits_come_from_settings_and_variables() {
    let usual = reading(&[], "{}");
    assert!(usual[0].ends_with("50\tline 50\n51\t"), "{usual:?}");
    assert!(usual[1].starts_with("Edited") && usual[2] == "a.log", "{usual:?}");
    let set = reading(&[], r#"{"read": {"maxLines": 7}, "requireFullRead": true}"#);
    assert!(set[0].contains("[PARTIAL view: lines 1-7 of 51"), "{set:?}");
    assert!(set[1].contains("requireFullRead"), "{set:?}");
    let stronger = reading(&[("OSTLER_READ_MAX_LINES", "9")], r#"{"read": {"maxLines": 7}}"#);
    assert!(stronger[0].contains("lines 1-9 of 51"), "{stronger:?}");
    let bytes = reading(&[("OSTLER_READ_MAX_BYTES", "100")], "{}");
    assert!(bytes[0].contains("too many to read at once (100)"), "{bytes:?}");
    let tokens = reading(&[("CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS", "40")], "{}");
    assert!(tokens[0].contains("PARTIAL view"), "{tokens:?}");
    let ignored = reading(&[("CLAUDE_CODE_GLOB_NO_IGNORE", "false")], "{}");
    assert_eq!(ignored[2], "No files found");
}

#[test]
fn a_limit_that_is_no_number_stops_the_start() {
    for (value, problem) in [("many", "must be a whole number, not 'many'"), ("0", "must be at least 1")] {
        let stage = Stage::new(READ_AND_EDIT).with_env("OSTLER_READ_MAX_TOKENS", value);
        let done = stage.run(&["-p", "go"]);
        assert!(done.code != Some(0) && done.stderr.contains(problem), "{}", done.stderr);
        assert!(done.stderr.contains("OSTLER_READ_MAX_TOKENS"), "{}", done.stderr);
    }
}
