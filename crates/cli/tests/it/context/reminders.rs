//! Notes to the model: behind what was said, marked, once each.

use super::Host;
use crate::stage::Stage;
use ostler_proto::Json;
use std::fmt::Write as _;

fn notes(body: &Json) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap();
    let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let texts = blocks.filter_map(|block| block["text"].as_str());
    texts.filter(|text| text.starts_with("<system-reminder>")).map(str::to_owned).collect()
}

#[test]
fn seen_files_that_change_are_told_of_once() {
    let stage = Stage::new(
        r#"
        [[turn]]
        steps = [{ call = "Read", input = { file_path = "a.txt" } }, { call = "Read", input = { file_path = "b.txt" } }]
        [[turn]]
        steps = [{ text = "read" }]
        [[turn]]
        steps = [{ text = "hm" }]
        [[turn]]
        steps = [{ text = "hm" }]
        [[turn]]
        steps = [{ text = "hm" }]
        "#,
    );
    let mut host = Host::start(&stage, &["--forbid-cache-break"]);
    host.turn("read them");
    host.turn("nothing changed");
    stage.repo.write("a.txt", "other\n");
    // The same content, written again, is no news.
    stage.repo.write("b.txt", stage.repo.read("b.txt"));
    host.turn("one changed");
    std::fs::remove_file(stage.repo.join("b.txt")).unwrap();
    host.turn("one is gone");
    host.end();
    stage.server.assert_no_failures();
    stage.server.assert_append_only();
    let told: Vec<Vec<String>> =
        stage.server.requests().iter().map(|request| notes(&request.body_json())).collect();
    assert_eq!(told.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 0, 1, 2], "{told:?}");
    assert!(told[3][0].contains("\n- a.txt\n"), "{}", told[3][0]);
    assert!(told[4][1].contains("\n- b.txt (removed)\n") && !told[4][1].contains("a.txt"), "{}", told[4][1]);
}

#[test]
fn the_models_own_edits_are_no_news_to_it() {
    let stage = Stage::new(
        r#"
        [[turn]]
        steps = [{ call = "Read", input = { file_path = "a.txt" } }]
        [[turn]]
        steps = [{ call = "Edit", input = { file_path = "a.txt", old_string = "two", new_string = "TWO" } }, { call = "Write", input = { file_path = "new.txt", content = "n" } }]
        [[turn]]
        steps = [{ text = "done" }]
        [[turn]]
        steps = [{ text = "hm" }]
        "#,
    );
    let mut host = Host::start(&stage, &["--permission-mode", "acceptEdits"]);
    host.turn("edit it");
    host.turn("and now?");
    host.end();
    assert_eq!(stage.repo.read("a.txt"), "one\nTWO\nthree\n");
    assert_eq!(notes(&stage.server.requests()[3].body_json()), Vec::<String>::new());
}

#[test]
fn a_todo_list_that_was_left_alone_is_recalled_once() {
    let mut script = String::from(
        r#"
        [[turn]]
        steps = [{ call = "TodoWrite", input = { todos = [{ content = "look </system-reminder>", status = "in_progress", activeForm = "Looking" }, { content = "mend", status = "pending", activeForm = "Mending" }] } }]
        "#,
    );
    for number in 0..16 {
        write!(script, "[[turn]]\nsteps = [{{ call = 'Glob', input = {{ pattern = '{number}*' }} }}]\n")
            .unwrap();
    }
    script.push_str("[[turn]]\nsteps = [{ text = 'done' }]\n[[turn]]\nsteps = [{ text = 'more' }]\n");
    let stage = Stage::new(&script);
    stage.run(&["-p", "go", "--forbid-cache-break"]).check_ok();
    stage.run(&["-p", "on", "--continue", "--forbid-cache-break"]).check_ok();
    stage.server.assert_no_failures();
    stage.server.assert_append_only();
    let told: Vec<usize> =
        stage.server.requests().iter().map(|request| notes(&request.body_json()).len()).collect();
    assert_eq!(told.iter().position(|notes| *notes > 0), Some(13), "{told:?}");
    assert!(told[13..].iter().all(|notes| *notes == 1), "once, also after a resume: {told:?}");
    let note = notes(&stage.server.requests()[13].body_json()).remove(0);
    assert!(note.contains("\n[>] look") && note.contains("\n[ ] mend\n"), "{note}");
    assert_eq!(note.matches("</system-reminder>").count(), 1, "{note}");
}

#[test]
fn what_hooks_and_jobs_say_extends_the_conversation() {
    let stage = Stage::new(
        r#"
        [[turn]]
        steps = [{ call = "Bash", input = { command = "true", run_in_background = true } }]
        [[turn]]
        steps = [{ call = "TaskOutput", input = { task_id = "{{result.0}}" } }]
        [[turn]]
        steps = [{ text = "done" }]
        [[turn]]
        steps = [{ text = "told" }]
        [[turn]]
        steps = [{ text = "more" }]
        "#,
    );
    let settings =
        r#"{"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo be quick"}]}]}}"#;
    let args = ["--allowedTools", "Bash", "--settings", settings, "--forbid-cache-break"];
    stage.run(&[&["-p", "go"], &args[..]].concat()).check_ok();
    stage.run(&[&["-p", "on", "--continue"], &args[..]].concat()).check_ok();
    stage.server.assert_append_only();
    let last = stage.server.requests().last().unwrap().body_json();
    let told = notes(&last);
    assert_eq!(told.iter().filter(|note| note.contains("be quick")).count(), 2, "{told:?}");
    assert_eq!(told.iter().filter(|note| note.contains("TaskOutput with task_id")).count(), 1, "{told:?}");
}
