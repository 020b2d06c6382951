//! What the system refuses leaves the old content, says why, and leaves no temporary file.

use crate::{Scene, exists};
use serde_json::json;
use std::{path::Path, process::Command};

const PLACE: &str = "OSTLER_TEST_PLACE";

/// Runs one of the tests below, which do nothing elsewhere, in a world of its own, or says why it cannot.
fn in_world(test: &str, dir: &Path, world: &mut Command) -> String {
    let status = world
        .arg(std::env::current_exe().unwrap())
        .args([&format!("errors::{test}"), "--exact", "--nocapture"])
        .env(PLACE, dir)
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&status.stdout).into_owned() + &String::from_utf8_lossy(&status.stderr);
    if said.contains("1 passed") {
        return "done".to_owned();
    }
    assert!(!said.contains("panicked"), "{said}");
    format!("skipped: this machine does not let a test make such a world: {said}")
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_full_disk_keeps_the_old_content() {
    let temp = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=256k none \"$OSTLER_TEST_PLACE\" && exec \"$@\"";
    println!(
        "{}",
        in_world(
            "on_a_small_disk",
            temp.path(),
            Command::new("unshare").args(["-mr", "sh", "-c", script, "sh"])
        )
    );
}

#[tokio::test]
async fn on_a_small_disk() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let mut scene = Scene::new();
    scene.dir = Path::new(&place).canonicalize().unwrap();
    scene.cx.cwd.clone_from(&scene.dir);
    scene.write("f", "a");
    scene.write("g", "a");
    let big = "x".repeat(400 * 1024);
    for name in ["f", "g"] {
        scene.ok("Read", json!({"file_path": name})).await;
    }
    let step = |new: &str| json!([{"old_string": "a", "new_string": new}]);
    for (tool, input) in [
        ("Edit", json!({"file_path": "f", "old_string": "a", "new_string": big})),
        ("Write", json!({"file_path": "f", "content": big})),
        ("Write", json!({"file_path": "new/deep/f", "content": big})),
        (
            "MultiEdit",
            json!({"files": [
                {"file_path": "f", "edits": step("b")}, {"file_path": "g", "edits": step(&big)},
            ]}),
        ),
    ] {
        let error = scene.fails(tool, input).await;
        assert!(error.contains("no space left"), "{tool}: {error}");
        assert_eq!((scene.bytes("f"), scene.bytes("g")), (b"a".to_vec(), b"a".to_vec()), "{tool}");
        assert_eq!(names(&scene.dir), ["f", "g"], "{tool}");
    }
    scene.ok("Write", json!({"file_path": "f", "content": "fits"})).await;
}

#[test]
fn a_read_only_disk_says_so() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("f"), "a").unwrap();
    let script = "mount --bind \"$OSTLER_TEST_PLACE\" \"$OSTLER_TEST_PLACE\" && \
                  mount -o remount,bind,ro \"$OSTLER_TEST_PLACE\" && exec \"$@\"";
    let world = in_world(
        "on_a_read_only_disk",
        temp.path(),
        Command::new("unshare").args(["-mr", "sh", "-c", script, "sh"]),
    );
    println!("{world}");
}

#[tokio::test]
async fn on_a_read_only_disk() {
    let Ok(place) = std::env::var(PLACE) else { return };
    refuses(Path::new(&place), "read-only file system").await;
}

#[test]
fn a_directory_of_others_says_so() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("f"), "a").unwrap();
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    mode(temp.path(), 0o755);
    mode(&temp.path().join("f"), 0o644);
    if rustix::process::geteuid().is_root() {
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        println!("{}", in_world("as_somebody_else", temp.path(), Command::new("setpriv").args(nobody)));
    } else {
        mode(temp.path(), 0o555);
        mode(&temp.path().join("f"), 0o444);
        println!("{}", in_world("as_somebody_else", temp.path(), &mut Command::new("env")));
        mode(temp.path(), 0o755);
    }
}

#[tokio::test]
async fn as_somebody_else() {
    let Ok(place) = std::env::var(PLACE) else { return };
    refuses(Path::new(&place), "permission denied").await;
}

/// Every way to write fails with this reason and changes nothing.
async fn refuses(place: &Path, reason: &str) {
    let mut scene = Scene::new();
    scene.dir = place.canonicalize().unwrap();
    scene.cx.cwd.clone_from(&scene.dir);
    scene.ok("Read", json!({"file_path": "f"})).await;
    for (tool, input) in [
        ("Edit", json!({"file_path": "f", "old_string": "a", "new_string": "b"})),
        ("Write", json!({"file_path": "f", "content": "b"})),
        ("Write", json!({"file_path": "new", "content": "b"})),
        ("Write", json!({"file_path": "new/deep/f", "content": "b"})),
    ] {
        let error = scene.fails(tool, input).await;
        assert!(error.contains("cannot write") && error.contains(reason), "{tool}: {error}");
    }
    assert_eq!((scene.bytes("f"), names(&scene.dir)), (b"a".to_vec(), vec!["f".to_owned()]));
}

#[tokio::test]
async fn what_vanishes_or_becomes_something_else_is_told() {
    let scene = Scene::new();
    let edit = json!({"file_path": "dir/f", "old_string": "a", "new_string": "b"});
    let create = json!({"file_path": "dir/new", "content": "b"});
    let plan = async |tool: &str, input: &serde_json::Value| {
        scene.write("dir/f", "a");
        scene.ok("Read", json!({"file_path": "dir/f", "offset": 1, "limit": 1})).await;
        scene.tools.find(tool).unwrap().plan(input.clone(), &scene.cx).await.unwrap()
    };
    let dir = scene.dir.join("dir");
    let vanished = plan("Edit", &edit).await;
    std::fs::remove_dir_all(&dir).unwrap();
    let error = vanished.effect.run(crate::quiet()).await.unwrap_err().to_string();
    assert!(error.contains("does not exist") && !exists(&scene.dir, "dir"), "{error}");
    let directory = plan("Edit", &edit).await;
    std::fs::remove_file(dir.join("f")).unwrap();
    std::fs::create_dir(dir.join("f")).unwrap();
    let error = directory.effect.run(crate::quiet()).await.unwrap_err().to_string();
    assert!(error.contains("is a directory"), "{error}");
    std::fs::remove_dir(dir.join("f")).unwrap();
    let taken = plan("Write", &create).await;
    std::fs::create_dir(dir.join("new")).unwrap();
    assert!(taken.effect.run(crate::quiet()).await.is_err());
    std::fs::remove_dir(dir.join("new")).unwrap();
    let blocked = plan("Write", &create).await;
    std::fs::remove_dir_all(&dir).unwrap();
    std::fs::write(&dir, "a file").unwrap();
    assert!(blocked.effect.run(crate::quiet()).await.is_err());
    assert_eq!(names(&scene.dir), ["dir"]);
}
