//! `Grep` and `Glob`.

use crate::Scene;
use ostler_proto::Access;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("src/a.rs", "fn one() {}\nfn two() {}\n// end\n");
    scene.write("src/b.py", "def one():\r\n    pass\r\n");
    scene.write(".hidden/c.rs", "fn one() {}\n");
    scene.write("binary", b"fn one\0");
    scene.write("ignored/d.rs", "fn one() {}\n");
    scene.write(".ignore", "ignored/\n");
    for (name, seconds) in [("src/a.rs", 10), ("src/b.py", 20), (".hidden/c.rs", 30), ("ignored/d.rs", 40)] {
        let file = std::fs::OpenOptions::new().write(true).open(scene.dir.join(name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }
    scene
}

#[tokio::test]
async fn grep_modes_word_the_same_findings() {
    let scene = scene();
    let files = scene.call("Grep", json!({"pattern": "one"})).await.unwrap();
    assert_eq!(crate::text(&files), "Found 2 files\nsrc/b.py\nsrc/a.rs");
    let expected =
        json!({"mode": "files_with_matches", "numFiles": 2, "filenames": ["src/b.py", "src/a.rs"]});
    assert_eq!(files.structured, expected);
    let content =
        scene.call("Grep", json!({"pattern": "ONE|pass$", "-i": true, "output_mode": "content"})).await;
    let lines = "src/a.rs:1:fn one() {}\nsrc/b.py:1:def one():\nsrc/b.py:2:    pass";
    assert_eq!(
        content.unwrap().structured,
        json!({"mode": "content", "numFiles": 2, "filenames": [], "content": lines, "numLines": 3})
    );
    let count = scene.call("Grep", json!({"pattern": "fn|def", "output_mode": "count"})).await.unwrap();
    assert_eq!(crate::text(&count), "src/a.rs:2\nsrc/b.py:1\n\nFound 3 matching lines in 2 files");
    assert_eq!(count.structured["numMatches"], 3);
}

#[tokio::test]
async fn grep_options_narrow_and_widen() {
    let scene = scene();
    for (input, expected) in [
        (json!({"pattern": "one", "type": "py"}), "src/b.py:1:def one():"),
        (json!({"pattern": "one", "glob": "*.rs"}), "src/a.rs:1:fn one() {}"),
        (json!({"pattern": "one", "glob": "!*.rs !*.txt"}), "src/b.py:1:def one():"),
        (json!({"pattern": "one", "path": "ignored"}), "ignored/d.rs:1:fn one() {}"),
        (json!({"pattern": "one", "path": "src/a.rs", "-n": false}), "src/a.rs:fn one() {}"),
        (json!({"pattern": "t.o", "-o": true}), "src/a.rs:2:two"),
        (json!({"pattern": "end", "-B": 1}), "src/a.rs-2-fn two() {}\nsrc/a.rs:3:// end"),
        (json!({"pattern": "def", "context": 1}), "src/b.py:1:def one():\nsrc/b.py-2-    pass"),
        (json!({"pattern": "one.*two", "multiline": true}), "src/a.rs:1:fn one() {}\nsrc/a.rs:2:fn two() {}"),
        (json!({"pattern": "nowhere"}), "No matches found"),
        (
            json!({"pattern": "fn|end", "head_limit": 1, "offset": 1}),
            "src/a.rs:2:fn two() {}\n\n[1 more of 3; go on with offset 2]",
        ),
    ] {
        let mut input = input;
        input["output_mode"] = Value::from("content");
        assert_eq!(scene.ok("Grep", input.clone()).await, expected, "{input}");
    }
}

#[tokio::test]
async fn grep_explains_what_it_cannot_do() {
    let scene = scene();
    for (input, expected) in [
        (json!({"pattern": "("}), "not a valid regular expression"),
        (json!({"pattern": "a\\nb"}), "set multiline"),
        (json!({"pattern": "a", "path": "none"}), "does not exist"),
        (json!({"pattern": "a", "type": "klingon"}), "klingon"),
        (json!({"pattern": "a", "glob": "{"}), "filter is not valid"),
        (json!({"pattern": "a", "path": "/proc"}), "kernel"),
    ] {
        let error = scene.fails("Grep", input).await;
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn glob_finds_the_newest_first() {
    let scene = scene();
    let rust = scene.call("Glob", json!({"pattern": "**/*.rs"})).await.unwrap();
    assert_eq!(crate::text(&rust), "ignored/d.rs\n.hidden/c.rs\nsrc/a.rs");
    assert_eq!(scene.ok("Glob", json!({"pattern": "*.py"})).await, "src/b.py");
    assert_eq!(scene.ok("Glob", json!({"pattern": "src/*"})).await, "src/b.py\nsrc/a.rs");
    assert_eq!(scene.ok("Glob", json!({"pattern": "*.{py,rs}", "path": "src"})).await, "src/b.py\nsrc/a.rs");
    assert_eq!(scene.ok("Glob", json!({"pattern": scene.path("sr*/a.rs")})).await, "src/a.rs");
    assert_eq!(scene.ok("Glob", json!({"pattern": "none"})).await, "No files found");
    assert!(scene.fails("Glob", json!({"pattern": "{"})).await.contains("not a glob"));
    let intent = scene.intent("Glob", json!({"pattern": "/etc/*.conf"})).await;
    let Access::Read { paths } = intent.access else { panic!() };
    assert_eq!(paths[0].requested.to_str(), Some("/etc"), "what is judged is where the search starts");
}

#[tokio::test]
async fn glob_is_honest_about_its_cap() {
    let scene = Scene::new();
    (0..120).for_each(|n| scene.write(&format!("f{n}"), ""));
    let output = scene.call("Glob", json!({"pattern": "*"})).await.unwrap();
    assert!(crate::text(&output).ends_with("[120 files match; the 100 newest are shown]"));
    let counts = ["numFiles", "truncated", "totalMatches"].map(|key| output.structured[key].clone());
    assert_eq!(counts, [json!(100), json!(true), json!(120)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn grep_finds_what_a_naive_search_finds(
        files in prop::collection::btree_map("[a-c]{1,2}/[d-f]{1,2}", "[ab \n]{0,40}", 0..8),
        needle in "[ab]{1,2}",
        limit in 1usize..6,
        offset in 0usize..4,
    ) {
        let scene = Scene::new();
        for (name, content) in &files {
            scene.write(name, content);
        }
        let expected = naive(&files, &needle);
        let input = json!({"pattern": needle, "output_mode": "content", "head_limit": limit, "offset": offset});
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let output = runtime.block_on(scene.call("Grep", input)).unwrap();
        let shown: Vec<String> = expected.iter().skip(offset).take(limit).cloned().collect();
        prop_assert_eq!(output.structured["content"].as_str().unwrap(), shown.join("\n"));
        let more = expected.len().saturating_sub(offset + shown.len());
        prop_assert_eq!(crate::text(&output).contains(" more of "), more > 0);
    }
}

fn naive(files: &BTreeMap<String, String>, needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (name, content) in files {
        for (number, line) in content.lines().enumerate() {
            if line.contains(needle) {
                found.push(format!("{name}:{}:{line}", number + 1));
            }
        }
    }
    found
}
