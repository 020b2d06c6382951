//! `Edit`, `MultiEdit` and `Write` on real files.

use crate::{Scene, text};
use ostler_proto::{Access, Json, Preview};
use serde_json::json;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

impl Scene {
    /// Sets a file, reads all of it, and makes the call.
    async fn after(&self, content: impl AsRef<[u8]>, tool: &str, mut input: Json) -> Result<String, String> {
        self.write("f", content);
        if !self.bytes("f").is_empty() {
            self.ok("Read", json!({"file_path": "f"})).await;
        }
        input["file_path"] = json!("f");
        match self.call(tool, input).await {
            Ok(output) => Ok(text(&output)),
            Err(error) => Err(error.to_string()),
        }
    }

    #[track_caller]
    fn holds(&self, expected: impl AsRef<[u8]>) {
        let (found, expected) = (self.bytes("f"), expected.as_ref());
        assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(expected));
        assert_eq!(found, expected);
    }
}

fn step(old: &str, new: &str) -> Json {
    json!({"old_string": old, "new_string": new})
}

fn batch(steps: &[(&str, &str)]) -> Json {
    json!({"edits": steps.iter().map(|(old, new)| step(old, new)).collect::<Vec<_>>()})
}

#[tokio::test]
async fn nothing_outside_the_replaced_text_changes() {
    let scene = Scene::new();
    for (before, (old, new), after) in [
        ("a  \nb\t\n\n\nc", ("b", "x"), "a  \nx\t\n\n\nc"),
        ("a  \nb\t\n\n\nc", ("b\t\n", ""), "a  \n\n\nc"),
        ("one two  three", (" two", ""), "one  three"),
        ("a\r\nb\nc\r\n", ("c", "c\nd"), "a\r\nb\nc\r\nd\r\n"),
        ("a\r\nb\nc\r\n", ("a\nb\nc", "a\nB\nc"), "a\r\nB\nc\r\n"),
        ("\u{FEFF}a\r\nb", ("b", "b\n"), "\u{FEFF}a\r\nb\r\n"),
        ("a\u{c}b\rc\n", ("b\rc", "b\rd"), "a\u{c}b\rd\n"),
        ("last", ("last", "last\n"), "last\n"),
    ] {
        scene.after(before, "Edit", step(old, new)).await.unwrap();
        scene.holds(after);
    }
}

#[tokio::test]
async fn quotes_of_the_file_stay() {
    let scene = Scene::new();
    let curly = "He said “it’s late” and left.\n";
    scene.after(curly, "Edit", step("said \"it's late\"", "said \"it's too late\"")).await.unwrap();
    scene.holds("He said “it’s too late” and left.\n");
    scene.after("x = 'a'; y = ‘b’", "Edit", step("'a'", "'c'")).await.unwrap();
    scene.holds("x = 'c'; y = ‘b’");
    let twice = scene.after("“a” “a”", "Edit", step("\"a\"", "\"b\"")).await.unwrap_err();
    assert!(twice.contains("stands 2 times"), "{twice}");
}

#[tokio::test]
async fn other_encodings_are_written_back_as_they_were() {
    let scene = Scene::new();
    let wide = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    scene.after(wide("\u{FEFF}Grüße\r\nan alle\r\n"), "Edit", step("an alle", "an\n日本")).await.unwrap();
    scene.holds(wide("\u{FEFF}Grüße\r\nan\r\n日本\r\n"));
    scene.after(b"caf\xE9 cr\xE8me\nend\n", "Edit", step("end", "fin\u{e9}")).await.unwrap();
    scene.holds(b"caf\xE9 cr\xE8me\nfin\xE9\n");
    let refused = scene.after(b"caf\xE9 cr\xE8me\nend\n", "Edit", step("end", "→")).await.unwrap_err();
    assert!(refused.contains("cannot be edited") && refused.contains("'→'"), "{refused}");
    scene.holds(b"caf\xE9 cr\xE8me\nend\n");
    scene.after(wide("\u{FEFF}a\n"), "Write", json!({"content": "b\n"})).await.unwrap();
    scene.holds(wide("\u{FEFF}b\n"));
    scene.after("\u{FEFF}a\r\n", "Write", json!({"content": "b\n"})).await.unwrap();
    scene.holds("\u{FEFF}b\n");
}

#[tokio::test]
async fn a_miss_shows_what_is_near() {
    let scene = Scene::new();
    let file = "fn one() {\n    let a = 1;\n    call(a);\n}\n\nfn two() {\n\tlet a = 2;\n    call(a);\n}\n";
    let miss = async |old: &str| scene.after(file, "Edit", step(old, "x")).await.unwrap_err();
    let near = miss("    let a = 3;\n    call(a);\n").await;
    assert!(near.contains("not found") && near.contains("also near: "), "{near}");
    assert!(near.contains("the nearest text is on lines 2-3 "), "{near}");
    assert!(near.contains("-     let a = 3;\n+ 2\t    let a = 1;\n  3\t    call(a);"), "{near}");
    let blank = miss("    let a = 2;\n    call(a);").await;
    assert!(blank.contains("on lines 7-8; only white space differs"), "{blank}");
    let numbered = miss("2\t    let a = 1;\n3\t    call(a);").await;
    assert!(numbered.contains("line numbers"), "{numbered}");
    let far = miss("zzzz qqqq").await;
    assert!(far.ends_with("not found in ".to_owned().as_str()) || !far.contains("nearest"), "{far}");
}

#[tokio::test]
async fn counts_are_checked() {
    let scene = Scene::new();
    let counted = |count: u32| json!({"old_string": "a", "new_string": "b", "expected_replacements": count});
    let error = scene.after("a a a", "Edit", counted(2)).await.unwrap_err();
    assert!(error.contains("stands 3 times") && error.contains("expected_replacements is 2"), "{error}");
    scene.holds("a a a");
    scene.after("a a a", "Edit", counted(3)).await.unwrap();
    scene.holds("b b b");
    let overlap = scene.after("x\n\n\ny", "Edit", step("\n\n", "\n")).await.unwrap_err();
    assert!(overlap.contains("overlaps itself on line 1"), "{overlap}");
}

#[tokio::test]
async fn a_batch_is_made_in_order() {
    let scene = Scene::new();
    let steps = [("one", "1\n1.5"), ("two", "2"), ("1.5\n2", "1.5\n2\n2.5"), ("three\n", "")];
    let report = scene.after("one\r\ntwo\r\nthree\r\n", "MultiEdit", batch(&steps)).await.unwrap();
    scene.holds("1\r\n1.5\r\n2\r\n2.5\r\n");
    assert!(report.contains("in 4 places. It now reads:\n1\t1\n2\t1.5\n3\t2\n4\t2.5"), "{report}");
    scene.ok("Edit", json!({"file_path": "f", "old_string": "2.5", "new_string": "3"})).await;
    scene.holds("1\r\n1.5\r\n2\r\n3\r\n");
}

#[tokio::test]
async fn a_batch_that_fails_changes_nothing_and_says_why() {
    let scene = Scene::new();
    let text = "alpha\nbeta\ngamma\n";
    for (steps, expected) in [
        (
            vec![("alpha", "a"), ("nothing", "n")],
            "edit 2 of 2 failed and nothing was changed: old_string was not found",
        ),
        (
            vec![("alpha\nbeta", "x"), ("beta", "b")],
            "it would have matched, but edit 1 changed the text it speaks of",
        ),
        (
            vec![("gamma", "g"), ("alpha", "beta"), ("beta", "b")],
            "but edit 2 changed in how many places it stands",
        ),
        (vec![("alpha", "a"), ("", "x")], "edit 2 of 2 failed"),
        (vec![("alpha", "a"), ("b", "b")], "are the same"),
        (vec![("alpha", "x"), ("x", "alpha")], "undo each other"),
        (vec![], "no edits"),
    ] {
        let error = scene.after(text, "MultiEdit", batch(&steps)).await.unwrap_err();
        assert!(error.contains(expected), "{error}");
        scene.holds(text);
    }
    for input in
        [json!({}), json!({"file_path": "f"}), json!({"files": []}), json!({"edits": [], "files": []})]
    {
        assert!(scene.fails("MultiEdit", input).await.contains("either file_path and edits, or files"));
    }
}

#[tokio::test]
async fn a_batch_touches_only_lines_that_were_seen() {
    let scene = Scene::new();
    scene.write("f", "1\r\n2\r\n3\r\n4\r\n5\r\n2\r\n");
    scene.ok("Read", json!({"file_path": "f", "offset": 2, "limit": 2})).await;
    let call = |steps: &[(&str, &str)]| {
        let mut input = batch(steps);
        input["file_path"] = json!("f");
        input
    };
    let moved = scene.fails("MultiEdit", call(&[("3", "x\ny\nz"), ("4", "q")])).await;
    assert!(moved.contains("lines 6-6 of") && moved.contains("(only 2-5)"), "{moved}");
    let all = json!({"file_path": "f", "old_string": "2", "new_string": "x", "replace_all": true});
    assert!(scene.fails("Edit", all).await.contains("lines 6-6"));
    scene.ok("MultiEdit", call(&[("3", "x\ny\nz"), ("y", "Y"), ("x\nY\nz", "w")])).await;
    scene.holds("1\r\n2\r\nw\r\n4\r\n5\r\n2\r\n");
    assert!(scene.fails("MultiEdit", call(&[("w", "v"), ("4", "q")])).await.contains("lines 4-4"));
    scene.ok("MultiEdit", call(&[("2\nw", "v\n3")])).await;
}

#[tokio::test]
async fn several_files_change_together() {
    let scene = Scene::new();
    scene.write("a", "one\n");
    scene.write("b", "two\n");
    symlink("b", scene.dir.join("link")).unwrap();
    for name in ["a", "b"] {
        scene.ok("Read", json!({"file_path": name})).await;
    }
    let file = |path: &str, old: &str, new: &str| json!({"file_path": path, "edits": [step(old, new)]});
    let twice = json!({"files": [file("b", "two", "2"), file("link", "two", "2")]});
    assert!(scene.fails("MultiEdit", twice).await.contains("named twice"));
    let bad = json!({"files": [file("a", "one", "1"), file("new/c", "", "3\n"), file("b", "nothing", "2")]});
    assert!(scene.fails("MultiEdit", bad).await.contains("not found in"));
    assert!(!scene.dir.join("new").exists());
    let good = json!({"files": [file("a", "one", "1"), file("new/c", "", "3\n"), file("link", "two", "2")]});
    let intent = scene.intent("MultiEdit", good.clone()).await;
    assert_eq!(intent.title, "Edit 3 files: a, new/c, link");
    let (Access::Write { paths }, Preview::Diff(diff)) = (&intent.access, &intent.preview) else {
        panic!("{intent:?}")
    };
    assert_eq!((paths.len(), diff.matches("+++ ").count()), (3, 3));
    let output = scene.call("MultiEdit", good).await.unwrap();
    assert_eq!(output.structured["files"].as_array().unwrap().len(), 3);
    let contents = ["a", "new/c", "b"].map(|name| scene.bytes(name));
    assert_eq!(contents, [b"1\n", b"3\n", b"2\n"]);
    scene.ok("MultiEdit", json!({"files": [file("new/c", "3", "4"), file("a", "1", "one")]})).await;
    assert_eq!(std::fs::read_dir(&scene.dir).unwrap().count(), 4, "no temporary file is left");
}

#[tokio::test]
async fn an_outside_change_to_one_file_stops_all() {
    let scene = Scene::new();
    for name in ["a", "b", "c"] {
        scene.write(name, "old");
        scene.ok("Read", json!({"file_path": name})).await;
    }
    let file = |path: &str| json!({"file_path": path, "edits": [step("old", "new")]});
    let input = json!({"files": [file("a"), file("b"), file("c")]});
    let plan = scene.tools.find("MultiEdit").unwrap().plan(input, &scene.cx).await.unwrap();
    scene.write("c", "theirs");
    assert!(plan.effect.run(crate::quiet()).await.unwrap_err().to_string().contains("changed on disk"));
    assert_eq!(["a", "b", "c"].map(|name| scene.bytes(name)), [&b"old"[..], b"old", b"theirs"]);
}

#[tokio::test]
async fn a_touch_is_no_change() {
    let scene = Scene::new();
    scene.write("f", "a");
    scene.ok("Read", json!({"file_path": "f"})).await;
    let input = json!({"file_path": "f", "old_string": "a", "new_string": "b"});
    let plan = scene.tools.find("Edit").unwrap().plan(input, &scene.cx).await.unwrap();
    let later = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(4_000_000_000);
    let file = std::fs::OpenOptions::new().write(true).open(scene.dir.join("f")).unwrap();
    file.set_modified(later).unwrap();
    plan.effect.run(crate::quiet()).await.unwrap();
    scene.holds("b");
}

#[tokio::test]
async fn what_is_kept_beside_the_content_stays() {
    let scene = Scene::new();
    scene.write("f", "a");
    let path = scene.dir.join("f");
    let file = std::fs::File::open(&path).unwrap();
    let attribute = |name: &str| {
        let file = std::fs::File::open(&path).unwrap();
        let mut value = vec![0; 256];
        rustix::fs::fgetxattr(&file, name, value.as_mut_slice()).map(|length| value[..length].to_vec())
    };
    // An access list: owner rw, user 1234 r, group r, mask r, others nothing.
    let mut access_list = 2_u32.to_le_bytes().to_vec();
    for (tag, permission, id) in
        [(1_u16, 6_u16, u32::MAX), (2, 4, 1234), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)]
    {
        access_list.extend(tag.to_le_bytes());
        access_list.extend(permission.to_le_bytes());
        access_list.extend(id.to_le_bytes());
    }
    let mut kept = Vec::new();
    for (name, value) in [("user.note", b"mine".to_vec()), ("system.posix_acl_access", access_list)] {
        match rustix::fs::fsetxattr(&file, name, &value, rustix::fs::XattrFlags::empty()) {
            Ok(()) => kept.push((name, value)),
            Err(errno) => println!("skipped {name}: this file system has none of these ({errno})"),
        }
    }
    // Only root may give it away.
    let given = std::os::unix::fs::chown(&path, Some(4321), Some(4322)).is_ok();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    scene.ok("Read", json!({"file_path": "f"})).await;
    scene.ok("Edit", json!({"file_path": "f", "old_string": "a", "new_string": "b"})).await;
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o640);
    assert!(!given || (metadata.uid(), metadata.gid()) == (4321, 4322));
    for (name, value) in kept {
        assert_eq!(attribute(name).unwrap(), value, "{name}");
    }
}

#[tokio::test]
async fn links_and_read_only_files_are_left_alone() {
    let scene = Scene::new();
    let edit = || step("a", "b");
    scene.write("f", "a");
    std::fs::hard_link(scene.dir.join("f"), scene.dir.join("other")).unwrap();
    let linked = scene.after("a", "Edit", edit()).await.unwrap_err();
    assert!(linked.contains("has 2 hard links"), "{linked}");
    assert_eq!((scene.bytes("f"), scene.bytes("other")), (b"a".to_vec(), b"a".to_vec()));
    std::fs::remove_file(scene.dir.join("other")).unwrap();
    std::fs::set_permissions(scene.dir.join("f"), PermissionsExt::from_mode(0o444)).unwrap();
    scene.ok("Read", json!({"file_path": "f", "limit": 1})).await;
    let mut input = edit();
    input["file_path"] = json!("f");
    let read_only = scene.fails("Edit", input).await;
    assert!(read_only.contains("read-only") || read_only.contains("ermission denied"), "{read_only}");
    scene.holds("a");
}

#[tokio::test]
async fn an_empty_old_string_creates() {
    let scene = Scene::new();
    let create = |name: &str| json!({"file_path": name, "old_string": "", "new_string": "a\r\nb\n"});
    assert_eq!(scene.intent("Edit", create("f")).await.title, "Create f");
    scene.ok("Edit", create("f")).await;
    scene.holds("a\r\nb\n");
    assert!(scene.fails("Edit", create("f")).await.contains("only creates new files"));
    let several = json!({"file_path": "g", "edits": [step("", "one\ntwo\n"), step("two", "2")]});
    scene.ok("MultiEdit", several).await;
    assert_eq!(scene.bytes("g"), b"one\n2\n");
    scene.ok("Edit", json!({"file_path": "g", "old_string": "one\n2", "new_string": "1"})).await;
    scene.write("empty", "");
    scene.ok("Read", json!({"file_path": "empty"})).await;
    scene.ok("Edit", create("empty")).await;
    assert_eq!(scene.bytes("empty"), b"a\r\nb\n", "an empty file is filled as a new one is");
}

#[tokio::test]
async fn the_part_of_a_line_that_was_cut_off_was_not_seen() {
    let scene = Scene::new();
    let long = format!("near {}far {}end\nlast\n", "é".repeat(3000), "x".repeat(40_000));
    let edit = |old: &str, new: &str| json!({"file_path": "f", "old_string": old, "new_string": new});
    scene.write("f", format!("first\r\n{}", long.replace('\n', "\r\n")));
    assert!(scene.ok("Read", json!({"file_path": "f"})).await.contains("… [line cut at 2000 characters]"));
    let error = scene.fails("Edit", edit("far", "FAR")).await;
    assert!(error.contains("line 2 of") && error.contains("offset 2 and limit 1"), "{error}");
    assert!(scene.fails("Edit", edit("end\nlast", "x")).await.contains("shown only in part"));
    let whole = scene.fails("Write", json!({"file_path": "f", "content": "x"})).await;
    assert!(whole.contains("line 2") && whole.contains("limit 1"), "{whole}");
    // What was shown of it may be changed, and moves the rest along.
    scene.ok("Edit", edit("near ", "nearer\nor ")).await;
    assert!(scene.fails("Edit", edit("far", "FAR")).await.contains("line 3 of"));
    let seen = format!("or {}", "é".repeat(1995));
    scene.ok("Edit", edit(&seen, "nearest ")).await;
    assert!(scene.fails("Edit", edit("nearest é", "x")).await.contains("line 3 of"));
    scene.ok("Edit", edit("last", "LAST")).await;
    // Asked for alone, a line is shown as far as tokens allow.
    scene.ok("Read", json!({"file_path": "f", "offset": 3, "limit": 1})).await;
    scene.ok("Edit", edit("far", "FAR")).await;
    assert!(scene.fails("Edit", edit("end\n", "")).await.contains("line 3 of"));
    let expected =
        format!("first\r\nnearer\r\nnearest {}FAR {}end\r\nLAST\r\n", "é".repeat(1005), "x".repeat(40_000));
    assert!(scene.bytes("f") == expected.as_bytes());
}
