//! `Read`, `Write` and `Edit`.

use crate::{Scene, exists, text};
use ostler_proto::{Access, Preview};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};

#[tokio::test]
async fn read_numbers_lines_and_gives_them_to_programs() {
    let scene = Scene::new();
    scene.write("a.txt", "\u{FEFF}one\r\ntwo\n");
    let output = scene.call("Read", json!({"file_path": " a.txt\n"})).await.unwrap();
    assert_eq!(text(&output), "1\tone\n2\ttwo\n3\t");
    let file = json!({
        "filePath": scene.path("a.txt"), "content": "one\ntwo\n",
        "numLines": 3, "startLine": 1, "totalLines": 3,
    });
    assert_eq!(output.structured, json!({"type": "text", "file": file}));
}

#[tokio::test]
async fn read_shows_ranges_and_says_what_it_does_not_show() {
    let scene = Scene::new();
    let lines: Vec<String> = (1..=2100).map(|n| format!("l{n}")).collect();
    scene.write("long", lines.join("\n"));
    assert_eq!(scene.ok("Read", json!({"file_path": "long", "offset": 3, "limit": 2})).await, "3\tl3\n4\tl4");
    assert!(
        scene
            .ok("Read", json!({"file_path": "long"}))
            .await
            .ends_with("2000 of 2100; read on with offset 2001]")
    );
    let past = scene.ok("Read", json!({"file_path": "long", "offset": 9999})).await;
    assert_eq!(past, "The file has only 2100 lines; line 9999 is past its end.");
    scene.write("empty", "");
    assert!(scene.ok("Read", json!({"file_path": "empty"})).await.contains("empty"));
    scene.write("wide", format!("{}\n", "x".repeat(1900)).repeat(130));
    assert!(scene.ok("Read", json!({"file_path": "wide"})).await.contains("PARTIAL view: lines 1-51 of 131"));
    let whole = scene.fails("Read", json!({"file_path": "wide", "limit": 130})).await;
    assert!(whole.ends_with("ask for at most 51 lines from there"), "{whole}");
}

#[tokio::test]
async fn read_refuses_what_is_no_text_file() {
    let scene = Scene::new();
    scene.write("main.rs", "x");
    scene.write("binary", b"ab\0cd");
    scene.write("big", vec![b'\n'; 300 * 1024]);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scene.dir.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scene.dir.join("socket")).unwrap();
    symlink("loop", scene.dir.join("loop")).unwrap();
    for (path, expected) in [
        ("mian.rs", "does not exist; similar names in that folder: main.rs"),
        ("no/such/folder", "does not exist; there is no folder no; the working directory is"),
        ("binary", "is a binary file"),
        ("big", "too many to read at once"),
        (".", "is a directory"),
        ("pipe", "is a named pipe"),
        ("socket", "is a socket"),
        ("/dev/zero", "is a device"),
        ("/proc/self/environ", "is a file of the kernel"),
        ("loop", "in a loop"),
        ("a\0b", "NUL"),
    ] {
        let error = scene.fails("Read", json!({"file_path": path})).await;
        assert!(error.contains(expected), "{path:?}: {error}");
    }
    assert_eq!(scene.ok("Read", json!({"file_path": "big", "offset": 5, "limit": 2})).await, "5\t\n6\t");
}

#[tokio::test]
async fn wrong_input_is_explained() {
    let scene = Scene::new();
    let error = scene.fails("Read", json!({"file_path": "a", "offset": "x"})).await;
    assert!(error.starts_with("InputValidationError: Read was called with wrong input: offset: "), "{error}");
    let unknown = scene.fails("Read", json!({"file_path": "a", "ofset": 1})).await;
    assert!(unknown.contains("ofset"), "{unknown}");
    let tool = scene.tools.find("TodoWrite").unwrap();
    let input = json!({"todos": [{"content": "a", "status": "done", "activeForm": "b"}]});
    let Err(error) = tool.plan(input, &scene.cx).await else { panic!("the status is unknown") };
    let error = error.to_string();
    assert!(error.contains("todos[0].status: unknown variant `done`"), "{error}");
}

#[tokio::test]
async fn write_creates_files_and_folders() {
    let scene = Scene::new();
    let input = json!({"file_path": "new/deep/a.txt", "content": "a\nb\n"});
    let intent = scene.intent("Write", input.clone()).await;
    assert_eq!(intent.title, "Create new/deep/a.txt");
    let diff = "--- new/deep/a.txt\n+++ new/deep/a.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n";
    assert_eq!(intent.preview, Preview::Diff(diff.to_owned()));
    assert!(!exists(&scene.dir, "new"), "planning changes nothing");
    let output = scene.call("Write", input).await.unwrap();
    assert_eq!(scene.bytes("new/deep/a.txt"), b"a\nb\n");
    assert_eq!(
        std::fs::read_dir(scene.dir.join("new/deep")).unwrap().count(),
        1,
        "no temporary file is left"
    );
    assert_eq!(
        output.structured,
        json!({
            "type": "create", "filePath": scene.path("new/deep/a.txt"), "content": "a\nb\n",
            "structuredPatch": [], "originalFile": null,
        })
    );
    let again = scene.call("Write", json!({"file_path": "new/deep/a.txt", "content": "c\n"})).await.unwrap();
    assert_eq!(again.structured["type"], "update");
    assert_eq!(again.structured["originalFile"], "a\nb\n");
    let hunk =
        json!([{"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 1, "lines": ["-a", "-b", "+c"]}]);
    assert_eq!(again.structured["structuredPatch"], hunk);
}

#[tokio::test]
async fn write_overwrites_only_what_was_read_and_is_unchanged() {
    let scene = Scene::new();
    scene.write("a", "1\n2\n3");
    let write = || json!({"file_path": "a", "content": "new"});
    assert!(scene.fails("Write", write()).await.contains("has not been read"));
    scene.ok("Read", json!({"file_path": "a", "limit": 2})).await;
    assert!(scene.fails("Write", write()).await.contains("only lines 1-2 of 3 were read"));
    scene.ok("Read", json!({"file_path": "a"})).await;
    scene.write("a", "1\n2\nX");
    assert!(scene.fails("Write", write()).await.contains("changed on disk"));
    scene.write("a", "1\n2\n3");
    scene.ok("Write", write()).await;
    assert_eq!(scene.bytes("a"), b"new");
    assert!(scene.fails("Write", json!({"file_path": ".", "content": ""})).await.contains("is a directory"));
}

#[tokio::test]
async fn a_change_between_plan_and_run_is_not_overwritten() {
    let scene = Scene::new();
    scene.write("a", "old");
    scene.ok("Read", json!({"file_path": "a"})).await;
    for (tool, input) in [
        ("Edit", json!({"file_path": "a", "old_string": "old", "new_string": "new"})),
        ("Write", json!({"file_path": "a", "content": "new"})),
        ("Write", json!({"file_path": "fresh", "content": "new"})),
    ] {
        let plan = scene.tools.find(tool).unwrap().plan(input.clone(), &scene.cx).await.unwrap();
        scene.write(input["file_path"].as_str().unwrap(), "theirs");
        assert!(plan.effect.run(crate::quiet()).await.is_err(), "{tool}");
        assert_eq!(scene.bytes(input["file_path"].as_str().unwrap()), b"theirs", "{tool}");
        scene.write("a", "old");
    }
}

#[tokio::test]
async fn a_link_that_appears_after_the_plan_is_not_followed() {
    let scene = Scene::new();
    scene.write("outside/secret", "secret");
    scene.write("inside/secret", "plain");
    let read = json!({"file_path": "inside/secret"});
    let plan = scene.tools.find("Read").unwrap().plan(read, &scene.cx).await.unwrap();
    let create = json!({"file_path": "inside/new", "content": "x"});
    let creation = scene.tools.find("Write").unwrap().plan(create, &scene.cx).await.unwrap();
    std::fs::rename(scene.dir.join("inside"), scene.dir.join("moved")).unwrap();
    symlink("outside", scene.dir.join("inside")).unwrap();
    assert!(plan.effect.run(crate::quiet()).await.is_err());
    assert!(creation.effect.run(crate::quiet()).await.is_err());
    assert!(!exists(&scene.dir, "outside/new"));
}

#[tokio::test]
async fn edit_keeps_every_other_byte() {
    let scene = Scene::new();
    scene.write("a", "\u{FEFF}one\r\ntwo\r\nthree");
    std::fs::set_permissions(scene.dir.join("a"), PermissionsExt::from_mode(0o750)).unwrap();
    symlink("a", scene.dir.join("link")).unwrap();
    scene.ok("Read", json!({"file_path": "link"})).await;
    let input = json!({"file_path": "link", "old_string": "two\nth", "new_string": "2\n2.5\nTH"});
    let intent = scene.intent("Edit", input.clone()).await;
    let Access::Write { paths } = &intent.access else { panic!("{intent:?}") };
    assert_eq!((&paths[0].requested, &paths[0].target), (&scene.dir.join("link"), &scene.dir.join("a")));
    let output = scene.call("Edit", input).await.unwrap();
    assert_eq!(scene.bytes("a"), "\u{FEFF}one\r\n2\r\n2.5\r\nTHree".as_bytes());
    assert_eq!(std::fs::metadata(scene.dir.join("a")).unwrap().permissions().mode() & 0o7777, 0o750);
    assert!(scene.dir.join("link").is_symlink());
    assert!(text(&output).ends_with("It now reads:\n1\tone\n2\t2\n3\t2.5\n4\tTHree"), "{}", text(&output));
    let keys: Vec<&String> = output.structured.as_object().unwrap().keys().collect();
    let expected = [
        "filePath",
        "oldString",
        "newString",
        "originalFile",
        "structuredPatch",
        "userModified",
        "replaceAll",
    ];
    assert_eq!(keys, expected);
}

#[tokio::test]
async fn edit_touches_only_lines_that_were_seen() {
    let scene = Scene::new();
    scene.write("a", "alpha\nbeta\ngamma\ndelta\n");
    let edit = |old: &str, new: &str| json!({"file_path": "a", "old_string": old, "new_string": new});
    assert!(scene.fails("Edit", edit("beta", "b")).await.contains("has not been read"));
    scene.ok("Read", json!({"file_path": "a", "offset": 2, "limit": 1})).await;
    assert!(scene.fails("Edit", edit("gamma", "g")).await.contains("lines 3-3"));
    let unseen = scene.fails("Edit", edit("gamna", "g")).await;
    assert!(
        unseen.contains("not found") && !unseen.contains("gamma"),
        "unseen lines are not quoted: {unseen}"
    );
    scene.ok("Edit", edit("beta", "b\nB")).await;
    scene.ok("Edit", edit("b\nB", "bB")).await;
    assert_eq!(scene.bytes("a"), b"alpha\nbB\ngamma\ndelta\n");
    assert!(scene.fails("Edit", edit("gamma", "g")).await.contains("lines 3-3"));
    scene.write("a", "alpha\nbB\nother\n");
    assert!(scene.fails("Edit", edit("bB", "x")).await.contains("changed on disk"));
}

#[tokio::test]
async fn edit_explains_what_it_cannot_do() {
    let scene = Scene::new();
    scene.write("a", "let x = 1;\nlet y = 2;\nlet x = 1;\n");
    scene.ok("Read", json!({"file_path": "a"})).await;
    let edit = |old: &str, new: &str| json!({"file_path": "a", "old_string": old, "new_string": new});
    for (input, expected) in [
        (edit("let x = 1;", "z"), "stands 2 times in"),
        (edit("let x = 1;", "z"), "on lines 1, 3"),
        (edit("let y = 3;", "z"), "not found"),
        (edit("let y = 3;", "z"), "2\tlet y = 2;"),
        (edit("x", "x"), "are the same"),
        (edit("", "x"), "only creates new files"),
        (json!({"file_path": "b", "old_string": "x", "new_string": "y"}), "does not exist"),
    ] {
        let error = scene.fails("Edit", input).await;
        assert!(error.contains(expected), "{error}");
    }
    let all = json!({"file_path": "a", "old_string": "x", "new_string": "v", "replace_all": true});
    assert!(scene.ok("Edit", all).await.contains("in 2 places"));
    assert_eq!(scene.bytes("a"), b"let v = 1;\nlet y = 2;\nlet v = 1;\n");
    let create = json!({"file_path": "new/b", "old_string": "", "new_string": "made"});
    let output = scene.call("Edit", create).await.unwrap();
    assert_eq!((scene.bytes("new/b"), &output.structured["oldString"]), (b"made".to_vec(), &Value::from("")));
}

#[tokio::test]
async fn two_edits_planned_together_both_land() {
    let scene = Scene::new();
    scene.write("a", "one\ntwo\n");
    scene.ok("Read", json!({"file_path": "a"})).await;
    let tool = scene.tools.find("Edit").unwrap();
    let edit = |old: &str, new: &str| json!({"file_path": "a", "old_string": old, "new_string": new});
    let first = tool.plan(edit("one", "1\n1.5"), &scene.cx).await.unwrap();
    let second = tool.plan(edit("two", "2"), &scene.cx).await.unwrap();
    first.effect.run(crate::quiet()).await.unwrap();
    second.effect.run(crate::quiet()).await.unwrap();
    assert_eq!(scene.bytes("a"), b"1\n1.5\n2\n");
}

#[tokio::test]
async fn todos_are_replaced_whole() {
    let scene = Scene::new();
    let todo = |status: &str| json!([{"content": "Test", "status": status, "activeForm": "Testing"}]);
    scene.ok("TodoWrite", json!({"todos": todo("pending")})).await;
    let output = scene.call("TodoWrite", json!({"todos": todo("in_progress")})).await.unwrap();
    assert_eq!(output.structured, json!({"oldTodos": todo("pending"), "newTodos": todo("in_progress")}));
    assert_eq!(output.changes.len(), 1);
}
