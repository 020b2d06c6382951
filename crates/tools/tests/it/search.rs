//! `Grep` and `Glob`, and in its own files `LS`, rules about single results, and `rg` beside `Grep`.

mod ls;
mod ripgrep;
mod rules;

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
        (json!({"pattern": "one", "glob": "*.txt,*.py"}), "src/b.py:1:def one():"),
        (json!({"pattern": "one", "glob": "*.{txt,py}"}), "src/b.py:1:def one():"),
        (json!({"pattern": "one", "path": "ignored"}), "ignored/d.rs:1:fn one() {}"),
        (json!({"pattern": "one", "path": "src/a.rs", "-n": false}), "src/a.rs:fn one() {}"),
        (json!({"pattern": "t.o", "-o": true}), "src/a.rs:2:two"),
        (json!({"pattern": "end", "-B": 1}), "src/a.rs-2-fn two() {}\nsrc/a.rs:3:// end"),
        (json!({"pattern": "def", "context": 1}), "src/b.py:1:def one():\nsrc/b.py-2-    pass"),
        (json!({"pattern": "one.*two", "multiline": true}), "src/a.rs:1:fn one() {}\nsrc/a.rs:2:fn two() {}"),
        (json!({"pattern": "nowhere"}), "No matches found"),
        (
            json!({"pattern": "fn|end", "head_limit": 1, "offset": 1}),
            "src/a.rs:2:fn two() {}\n\n[1 more line of 3; go on with offset 2]",
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
        (json!({"pattern": "("}), "put a backslash"),
        (
            json!({"pattern": "a(?=b)"}),
            "look-around, including look-ahead and look-behind, is not supported; search",
        ),
        (json!({"pattern": "(a)\\1"}), "backreferences are not supported; spell out"),
        (json!({"pattern": "a\\nb"}), "set multiline"),
        (json!({"pattern": "a", "path": "none"}), "does not exist; the working directory is"),
        (json!({"pattern": "a", "path": "sr"}), "similar names in that folder: src"),
        (json!({"pattern": "a", "type": "klingon"}), "no file type 'klingon'"),
        (json!({"pattern": "a", "type": "rsut"}), "near ones are rst, rust"),
        (json!({"pattern": "a", "type": "tsx"}), "near ones are ts"),
        (json!({"pattern": "a", "glob": "{"}), "glob is not valid"),
        (json!({"pattern": "a", "glob": "{", "path": "none"}), "glob is not valid"),
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

#[tokio::test]
async fn caps_say_what_they_leave_out() {
    let scene = Scene::new();
    (0..260).for_each(|n| scene.write(&format!("f{n:03}"), "hit\n"));
    let files = scene.ok("Grep", json!({"pattern": "hit"})).await;
    assert!(files.starts_with("Found 260 files\n"));
    assert!(files.ends_with("\n\n[10 more files of 260; go on with offset 250]"), "{files}");
    let count = scene.ok("Grep", json!({"pattern": "hit", "output_mode": "count", "head_limit": 1})).await;
    assert_eq!(
        count,
        "f000:1\n\nFound 260 matching lines in 260 files\n\n[259 more files of 260; go on with offset 1]"
    );
    let past = scene.ok("Grep", json!({"pattern": "hit", "offset": 300})).await;
    assert!(past.contains("[offset 300 is past the end: 260 files]"), "{past}");
}

#[tokio::test]
async fn one_file_does_not_crowd_out_the_others() {
    let scene = Scene::new();
    scene.write("a", "hit\n".repeat(130));
    scene.write("b", "hit\n");
    let text = scene.ok("Grep", json!({"pattern": "hit", "output_mode": "content"})).await;
    let end = "a:100:hit\na: [30 more lines; search this file alone to see them]\nb:1:hit";
    assert!(text.ends_with(end), "{text}");
    for input in [json!({"path": "a"}), json!({"head_limit": 200, "glob": "a"})] {
        let mut input = input;
        input["pattern"] = Value::from("hit");
        input["output_mode"] = Value::from("content");
        let text = scene.ok("Grep", input).await;
        assert!(text.ends_with("a:130:hit") && text.lines().count() == 130, "{text}");
    }
}

#[tokio::test]
async fn long_lines_are_cut_around_the_match() {
    let scene = Scene::new();
    scene.write(
        "min.js",
        format!("{}needle{}\nneedle{}\n", "ü".repeat(600), "y".repeat(900), "é".repeat(600)),
    );
    let text = scene.ok("Grep", json!({"pattern": "needle", "output_mode": "content"})).await;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("min.js:1:… üü") && lines[0].contains("needley"), "{text}");
    assert!(lines[1].starts_with("min.js:2:needleé"), "{text}");
    assert!(lines.iter().all(|line| line.ends_with("… [line cut]") && line.chars().count() < 540), "{text}");
}

#[tokio::test]
async fn binary_files_are_passed_over_unless_named() {
    let scene = Scene::new();
    scene.write("image", b"hit\0hit\n");
    scene.write("late", [b"hit\n".repeat(40_000), b"\0".to_vec()].concat());
    scene.write("text", "hit\n");
    let call = |extra: Value| {
        let mut input = json!({"pattern": "hit", "output_mode": "content", "head_limit": 1});
        input.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        input
    };
    assert_eq!(scene.ok("Grep", call(json!({"glob": "image"}))).await, "No matches found");
    let named = scene.ok("Grep", call(json!({"path": "image"}))).await;
    assert!(named.contains("the file is binary and matches"), "{named}");
    let late = scene.ok("Grep", call(json!({"glob": "late"}))).await;
    assert!(late.starts_with("late:1:hit\n") && late.contains("1 file turned out to be binary"), "{late}");
    assert_eq!(
        scene.ok("Grep", call(json!({"output_mode": "count"}))).await,
        "text:1\n\nFound 1 matching line in 1 file"
    );
}

#[tokio::test]
async fn marked_encodings_are_read() {
    let scene = Scene::new();
    let utf16 = |big: bool| -> Vec<u8> {
        let units = "\u{feff}first\nnaïve 🦀\n".encode_utf16();
        units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    };
    scene.write("be", utf16(true));
    scene.write("le", utf16(false));
    scene.write("utf8", "\u{feff}naïve 🦀\n");
    let text = scene.ok("Grep", json!({"pattern": "^na.ve", "output_mode": "content"})).await;
    assert_eq!(text, "be:2:naïve 🦀\nle:2:naïve 🦀\nutf8:1:naïve 🦀");
}

#[tokio::test]
async fn what_cannot_be_searched_is_said() {
    let scene = Scene::new();
    scene.write("huge-line", "");
    let file = std::fs::OpenOptions::new().write(true).open(scene.dir.join("huge-line")).unwrap();
    std::io::Write::write_all(&mut &file, &vec![b'x'; 80 * 1024 * 1024]).unwrap();
    scene.write("ok", "x\n");
    let text = scene.ok("Grep", json!({"pattern": "x$"})).await;
    assert!(text.starts_with("Found 1 file\nok"), "{text}");
    assert!(text.contains("[1 could not be searched:"), "{text}");
}

/// A search of two gigabytes is cancelled as soon as it runs, and must end.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_in_a_huge_file_can_be_cancelled() {
    let scene = Scene::new();
    scene.write("huge", "");
    let file = std::fs::OpenOptions::new().write(true).open(scene.dir.join("huge")).unwrap();
    file.set_len(2 << 30).unwrap();
    for multiline in [false, true] {
        let input =
            json!({"pattern": "never", "path": "huge", "output_mode": "count", "multiline": multiline});
        let plan = scene.tools.find("Grep").unwrap().plan(input, &scene.cx).await.unwrap();
        let run = crate::quiet();
        let cancel = run.cancel.clone();
        let running = plan.effect.run(run);
        let (output, ()) = tokio::join!(running, async { cancel.cancel() });
        assert_eq!(output.unwrap().structured["numFiles"], 0);
    }
}

#[tokio::test]
async fn links_are_found_by_name_and_never_followed_in_circles() {
    let scene = Scene::new();
    scene.write("real/a.md", "one\n");
    scene.write("notes.md", "two\n");
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, scene.dir.join(name)).unwrap();
    link("..", "real/up");
    link("notes.md", "link.md");
    link("nowhere", "dangling.md");
    link("real", "folder.md");
    link("self.md", "self.md");
    let found = scene.ok("Glob", json!({"pattern": "**/*.md"})).await;
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    assert_eq!(found, ["link.md", "notes.md", "real/a.md"]);
    assert_eq!(scene.ok("Grep", json!({"pattern": "."})).await.lines().count(), 3);
}

/// One line of an ignore file, as simple as a naive reading can follow.
fn ignore_line() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{1,2}/", "[d-f]{1,2}", "\\*[d-f]", "/[a-c]{1,2}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn searches_find_what_a_naive_search_finds(
        files in prop::collection::btree_map("[a-c]{1,2}/([a-c]/)?[d-f]{1,2}", "[ab \n]{0,40}", 0..8),
        ignored in prop::collection::vec(ignore_line(), 0..3),
        needle in "[ab]{1,2}",
        (limit, offset) in (1usize..6, 0usize..4),
    ) {
        let scene = Scene::new();
        for (name, content) in &files {
            scene.write(name, content);
        }
        scene.write(".ignore", ignored.join("\n"));
        let visible: BTreeMap<_, _> =
            files.iter().filter(|(name, _)| !ignored.iter().any(|line| covers(line, name))).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let call = |tool: &str, input: Value| runtime.block_on(scene.call(tool, input)).unwrap();

        let expected = naive(&visible, &needle);
        let page = json!({"pattern": needle, "output_mode": "content", "head_limit": limit, "offset": offset});
        let output = call("Grep", page);
        let shown: Vec<String> = expected.iter().skip(offset).take(limit).cloned().collect();
        prop_assert_eq!(output.structured["content"].as_str().unwrap(), shown.join("\n"));
        let more = expected.len().saturating_sub(offset + shown.len());
        prop_assert_eq!(crate::text(&output).contains(&format!("[{more} more line")), more > 0);

        let count = call("Grep", json!({"pattern": needle, "output_mode": "count"}));
        prop_assert_eq!(count.structured["numMatches"].as_u64(), Some(expected.len() as u64));
        let matching = visible.iter().filter(|(_, content)| content.contains(&needle)).count();
        let listed = call("Grep", json!({"pattern": needle}));
        prop_assert_eq!(listed.structured["filenames"].as_array().unwrap().len(), matching);

        let found = call("Glob", json!({"pattern": "**/*d*"}));
        let mut found: Vec<&str> =
            found.structured["filenames"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        found.sort_unstable();
        let named: Vec<&String> =
            files.keys().filter(|name| name.rsplit('/').next().unwrap().contains('d')).collect();
        let mut named: Vec<&str> = named.into_iter().map(String::as_str).collect();
        named.sort_unstable();
        prop_assert_eq!(found, named, "ignore files do not count for names");
    }
}

/// Whether a line of the top ignore file covers a file, read as naively as can be.
fn covers(line: &str, path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let (folders, name) = parts.split_at(parts.len() - 1);
    if let Some(folder) = line.strip_suffix('/') {
        return folders.contains(&folder);
    }
    if let Some(top) = line.strip_prefix('/') {
        return parts[0] == top;
    }
    match line.strip_prefix('*') {
        Some(end) => parts.iter().any(|part| part.ends_with(end)),
        None => folders.contains(&line) || name[0] == line,
    }
}

fn naive(files: &BTreeMap<&String, &String>, needle: &str) -> Vec<String> {
    // A path is its names, one after the other, and is sorted as such.
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by_key(|(name, _)| name.split('/').collect::<Vec<_>>());
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

#[tokio::test]
async fn glob_finds_what_the_session_wants_found() {
    use ostler_tools::{
        Registry,
        builtin::{Found, Kit, Options, all_with},
    };
    let scene = Scene::new();
    std::fs::create_dir(scene.dir.join(".git")).unwrap();
    scene.write(".gitignore", "ignored.txt\n");
    for name in ["plain.txt", "ignored.txt", ".hidden.txt", ".git/inner.txt"] {
        scene.write(name, "");
    }
    for (ignored, hidden, expected) in [
        (Found::Yes, Found::Yes, &[".hidden.txt", "ignored.txt", "plain.txt"][..]),
        (Found::No, Found::Yes, &[".hidden.txt", "plain.txt"]),
        (Found::Yes, Found::No, &["ignored.txt", "plain.txt"]),
        (Found::No, Found::No, &["plain.txt"]),
    ] {
        let options = Options { glob_ignored: ignored, glob_hidden: hidden, ..Options::default() };
        let scene = Scene {
            tools: Registry::new(all_with(Kit { options, ..Kit::default() })).unwrap(),
            ..Scene::at(&scene.dir)
        };
        let found = scene.ok("Glob", json!({"pattern": "*.txt"})).await;
        let mut found: Vec<&str> = found.lines().collect();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn the_return_at_the_end_of_a_line_matches_nothing() {
    let scene = Scene::new();
    scene.write("crlf", "needle\r\nneedle;\r\nlast needle\r\n");
    for (pattern, expected) in [
        ("needle", 3),
        ("needle$", 2),
        ("needle.", 1),
        ("needle[^;]", 0),
        ("needle\\s", 0),
        ("^needle\\W", 1),
        ("needle\\b", 3),
    ] {
        for around in [0, 1] {
            let input = json!({"pattern": pattern, "path": "crlf", "output_mode": "content", "-C": around});
            let shown = scene.ok("Grep", input).await;
            assert!(!shown.contains('\r'), "{shown:?}");
            let found = shown.lines().filter(|line| line.starts_with("crlf:")).count();
            assert_eq!(found, expected, "{pattern}, {around}: {shown}");
        }
        let counted = scene
            .call("Grep", json!({"pattern": pattern, "path": "crlf", "output_mode": "count"}))
            .await
            .unwrap();
        assert_eq!(counted.structured["numMatches"], expected, "{pattern}");
        let files = scene.call("Grep", json!({"pattern": pattern})).await.unwrap();
        assert_eq!(files.structured["numFiles"], usize::from(expected > 0), "{pattern}");
    }
}
