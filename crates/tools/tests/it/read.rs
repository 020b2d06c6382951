//! `Read` of every kind of file, and what counts as read.

use crate::{Scene, text};
use ostler_proto::{Block, Json, Source};
use ostler_tools::{
    Registry,
    builtin::{EditNeeds, Kit, Limits, Options, all_with},
};
use serde_json::json;
use std::io::{Seek as _, SeekFrom, Write as _};

fn scene_with(options: Options) -> Scene {
    Scene { tools: Registry::new(all_with(Kit { options, ..Kit::default() })).unwrap(), ..Scene::new() }
}

fn scene_within(read: Limits) -> Scene {
    scene_with(Options { read, ..Options::default() })
}

fn read(path: &str) -> Json {
    json!({"file_path": path})
}

#[tokio::test]
async fn old_encodings_are_shown_as_text() {
    let scene = Scene::new();
    let wide =
        |order: fn(u16) -> [u8; 2], text: &str| -> Vec<u8> { text.encode_utf16().flat_map(order).collect() };
    scene.write("little", wide(u16::to_le_bytes, "\u{FEFF}é1\r\nü2\r\n"));
    scene.write("big", wide(u16::to_be_bytes, "é1, no mark\nü2\n"));
    scene.write("latin", b"caf\xE9\r\nna\xEFve");
    assert_eq!(scene.ok("Read", read("little")).await, "1\té1\n2\tü2\n3\t");
    assert_eq!(scene.ok("Read", read("big")).await, "1\té1, no mark\n2\tü2\n3\t");
    assert_eq!(scene.ok("Read", read("latin")).await, "1\tcafé\n2\tnaïve");
}

#[tokio::test]
async fn a_read_that_shows_nothing_new_says_so() {
    let scene = Scene::new();
    scene.write("a", "one\ntwo\nthree\n");
    let part = json!({"file_path": "a", "offset": 2, "limit": 1});
    scene.ok("Read", read("a")).await;
    let again = scene.call("Read", read("a")).await.unwrap();
    assert!(text(&again).contains("is unchanged"), "{again:?}");
    let file = json!({"filePath": scene.path("a")});
    assert_eq!(again.structured, json!({"type": "file_unchanged", "file": file}));
    assert_eq!(scene.ok("Read", part.clone()).await, "2\ttwo", "another range still shows");
    assert!(scene.ok("Read", part).await.contains("is unchanged"));
    scene.write("a", "one\nTWO\nthree\n");
    assert!(scene.ok("Read", read("a")).await.contains("2\tTWO"), "a changed file shows");
    scene.ok("Edit", json!({"file_path": "a", "old_string": "TWO", "new_string": "two"})).await;
    assert!(scene.ok("Read", read("a")).await.contains("2\ttwo"), "an edit shows nothing by itself");
    scene.ok("Write", json!({"file_path": "a", "content": "new\n"})).await;
    assert_eq!(scene.ok("Read", read("a")).await, "1\tnew\n2\t");
    scene.cx.files.forget_views();
    assert_eq!(scene.ok("Read", read("a")).await, "1\tnew\n2\t", "what is out of sight shows again");
}

#[tokio::test]
async fn both_ways_of_reading_show_the_same() {
    let streamed = scene_within(Limits { in_memory: 1, ..Limits::default() });
    let in_memory = Scene::new();
    let lines: Vec<String> = (1..=9000).map(|n| format!("{n} {}", "x".repeat(n % 90))).collect();
    for scene in [&streamed, &in_memory] {
        scene.write("long", lines.join("\r\n"));
    }
    for (offset, limit) in [(1, 3), (4000, 50), (8999, 50), (9000, 1), (9001, 1)] {
        let input = json!({"file_path": "long", "offset": offset, "limit": limit});
        let shown = streamed.ok("Read", input.clone()).await;
        assert_eq!(shown, in_memory.ok("Read", input).await, "{offset}");
    }
    let again = json!({"file_path": "long", "offset": 4000, "limit": 50});
    assert!(streamed.ok("Read", again).await.contains("is unchanged"));
}

#[tokio::test]
async fn a_file_larger_than_any_memory_can_be_read() {
    let scene = Scene::new();
    let mut file = std::fs::File::create(scene.dir.join("huge")).unwrap();
    file.write_all(b"first\nsecond\n").unwrap();
    file.seek(SeekFrom::Start(100 << 30)).unwrap();
    file.write_all(b"\nlast").unwrap();
    drop(file);
    let shown = scene.call("Read", json!({"file_path": "huge", "limit": 3})).await.unwrap();
    assert!(text(&shown).starts_with("1\tfirst\n2\tsecond\n3\t\u{2400}"));
    assert!(scene.fails("Read", read("huge")).await.contains("too many to read at once"));
}

#[tokio::test]
async fn tokens_are_limited_before_and_after() {
    let scene = scene_within(Limits { tokens: 200, ..Limits::default() });
    let dense = "0 1 2 3 4 5 6 7 8 9\n".repeat(30);
    scene.write("dense", &dense);
    let shown = scene.call("Read", read("dense")).await.unwrap();
    assert!(text(&shown).contains("[PARTIAL view: lines 1-"), "{shown:?}");
    assert_eq!(shown.structured["file"]["truncatedByTokenCap"], true);
    let lines = shown.structured["file"]["numLines"].as_u64().unwrap();
    let error = scene.fails("Read", json!({"file_path": "dense", "offset": 1, "limit": 30})).await;
    assert!(error.ends_with(&format!("ask for at most {lines} lines from there")), "{error}");
    let paged = json!({"file_path": "dense", "offset": lines + 1, "limit": lines});
    assert!(scene.ok("Read", paged).await.starts_with(&format!("{}\t0 1", lines + 1)));
    let small = scene_within(Limits { whole: 10, ..Limits::default() });
    small.write("dense", dense);
    assert!(
        small.fails("Read", read("dense")).await.contains("has 600 bytes, too many to read at once (10)")
    );
    let large = json!({"file_path": "dense", "allow_large": true});
    assert!(small.ok("Read", large).await.starts_with("1\t0 1"));
}

#[tokio::test]
async fn names_tell_what_is_not_opened() {
    let scene = Scene::new();
    scene.write("a.zip", "text in disguise");
    scene.write("folder/x", "");
    scene.write("Shot at 9.41.00\u{202F}AM.txt", "found");
    assert!(scene.fails("Read", read("a.zip")).await.contains("is a binary file"));
    assert!(scene.fails("Read", read("folder")).await.contains("list it with LS or Glob"));
    assert!(scene.ok("Read", read("/dev/null")).await.contains("is empty"));
    assert_eq!(scene.ok("Read", read("Shot at 9.41.00 AM.txt")).await, "1\tfound");
    assert!(scene.fails("Read", read("/dev/tty")).await.contains("is a device"));
    let stdin = scene.call("Read", read("/dev/stdin")).await;
    assert!(stdin.is_err() || stdin.unwrap().structured["file"]["content"] == "", "it does not wait");
}

#[tokio::test]
async fn a_picture_is_shown_as_one() {
    let scene = Scene::new();
    // One red pixel.
    let png =
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\
        \xf8\xcf\xc0\0\0\x03\x01\x01\0\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB`\x82";
    scene.write("dot.png", png);
    let output = scene.call("Read", read("dot.png")).await.unwrap();
    let [Block::Image(Source::Base64 { media_type, data })] = output.content.as_slice() else {
        panic!("{output:?}")
    };
    assert_eq!(media_type, "image/png");
    let size = json!({"originalWidth": 1, "originalHeight": 1, "displayWidth": 1, "displayHeight": 1});
    let file = json!({"base64": data, "type": "image/png", "originalSize": png.len(), "dimensions": size});
    assert_eq!(output.structured, json!({"type": "image", "file": file}));
    assert!(scene.ok("Read", read("dot.png")).await.contains("is unchanged"));
    scene.write("broken.png", &png[..50]);
    assert!(
        scene.fails("Read", read("broken.png")).await.contains("cannot be shown: it is no readable image")
    );
    scene.write("fake.jpg", "plain text");
    assert!(scene.fails("Read", read("fake.jpg")).await.contains("no image of a known kind"));
}

#[tokio::test]
async fn pages_of_a_pdf_are_checked_as_a_text_first() {
    let scene = Scene::new();
    scene.write("a.pdf", "no pdf at all");
    assert!(scene.fails("Read", read("a.pdf")).await.contains("it is no PDF"));
    for (pages, expected) in [("1-50", "50 pages are too many"), ("x", "must be like 3 or 1-5")] {
        let error = scene.fails("Read", json!({"file_path": "missing.pdf", "pages": pages})).await;
        assert!(error.contains(expected), "{error}");
    }
    scene.write("bad.pdf", b"%PDF-1.7\n1 0 obj << /Kids [1 0 R 1 0 R] /Parent 1 0 R >> endobj");
    assert!(scene.fails("Read", read("bad.pdf")).await.contains("cannot be shown"));
}

#[tokio::test]
async fn a_file_shown_by_a_plain_command_counts_as_read() {
    let scene = Scene::new();
    scene.write("a b.txt", "one\ntwo\nthree\nfour\n");
    let edit = |old: &str| json!({"file_path": "a b.txt", "old_string": old, "new_string": "x"});
    scene.ok("Bash", json!({"command": "cat 'a b.txt' | head -2"})).await;
    assert!(scene.fails("Edit", edit("one")).await.contains("has not been read"));
    scene.ok("Bash", json!({"command": "sed -n '2,3p' 'a b.txt'"})).await;
    assert!(scene.fails("Edit", edit("four")).await.contains("lines 4-4"));
    scene.ok("Edit", edit("two")).await;
    scene.ok("Bash", json!({"command": "cat 'a b.txt'"})).await;
    scene.ok("Edit", edit("four")).await;
    assert_eq!(scene.bytes("a b.txt"), b"one\nx\nthree\nx\n");
    assert!(scene.ok("Read", read("a b.txt")).await.contains("1\tone"), "a command is no read");
}

#[tokio::test]
async fn limits_are_those_of_the_session() {
    let scene = scene_within(Limits { lines: 3, ..Limits::default() });
    let description = scene.tools.find("Read").unwrap().spec().description.clone();
    assert!(description.contains("first 3 lines"), "{description}");
    scene.write("f", "1\n2\n3\n4\n5\n");
    let shown = scene.ok("Read", read("f")).await;
    assert!(shown.starts_with("1\t1\n2\t2\n3\t3\n\n[PARTIAL view: lines 1-3 of 6"), "{shown}");
}

#[tokio::test]
async fn a_session_may_demand_that_files_are_read_as_a_whole() {
    let scene = scene_with(Options { edit_needs: EditNeeds::WholeFile, ..Options::default() });
    scene.write("f", "one\ntwo\nthree\n");
    let edit = json!({"file_path": "f", "old_string": "one", "new_string": "1"});
    let batch = json!({"file_path": "f", "edits": [{"old_string": "one", "new_string": "1"}]});
    scene.ok("Read", json!({"file_path": "f", "offset": 1, "limit": 2})).await;
    for (tool, input) in [("Edit", &edit), ("MultiEdit", &batch)] {
        let error = scene.fails(tool, input.clone()).await;
        assert!(error.contains("only lines 1-2 of 4") && error.contains("requireFullRead"), "{error}");
    }
    scene.ok("Read", json!({"file_path": "f", "offset": 3})).await;
    scene.ok("Edit", edit).await;
    scene.ok("Edit", json!({"file_path": "f", "old_string": "two", "new_string": "2"})).await;
    assert_eq!(scene.bytes("f"), b"1\n2\nthree\n");
}
