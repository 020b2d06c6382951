//! `GitSummary` in honest repositories and in one that is a trap.

use crate::{Scene, exists, text};
use ostler_tools::{ReadPolicy, Sight};
use serde_json::json;
use std::{
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

/// Runs git as the user would to set a scene; without anybody's settings.
fn git(dir: &Path, args: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "git {args:?}");
}

fn repository(init: &[&str]) -> Scene {
    let scene = Scene::new();
    git(&scene.dir, &[&["init", "-q"], init].concat());
    scene.write("a.txt", "one\ntwo\n");
    scene.write("b.txt", "bee\n");
    git(&scene.dir, &["add", "."]);
    git(&scene.dir, &["commit", "-qm", "first things"]);
    scene
}

#[tokio::test]
async fn a_working_tree_is_told_in_one_call() {
    for init in [&[][..], &["--object-format=sha256"]] {
        let scene = repository(init);
        scene.write("a.txt", "one\nTWO\n");
        scene.write("b.txt", "bees\n");
        git(&scene.dir, &["add", "b.txt"]);
        scene.write("new file", "x");
        let output = scene.call("GitSummary", json!({})).await.unwrap();
        let told = text(&output);
        assert!(
            told.starts_with("Branch: main\n\nStatus:\n M a.txt\nM  b.txt\n?? new file\n\nStaged changes:"),
            "{told}"
        );
        assert!(
            told.contains("\n-bee\n+bees\n\nUnstaged changes:") && told.contains("\n-two\n+TWO\n"),
            "{told}"
        );
        assert!(told.contains("\n\nRecent commits:\n") && told.ends_with("A: first things"), "{told}");
        assert_eq!(output.structured["branch"], "main");
        assert_eq!(output.structured["numFiles"], 3);
    }
}

#[tokio::test]
async fn odd_states_are_told_too() {
    let scene = Scene::new();
    let told = scene.fails("GitSummary", json!({})).await;
    assert!(told.contains("is not in a git working tree"), "{told}");
    git(&scene.dir, &["init", "-q"]);
    assert_eq!(scene.ok("GitSummary", json!({})).await, "Branch: main\n\nNothing changed.");
    scene.write("evil\n\u{1b}[2Jname", "x");
    assert!(scene.ok("GitSummary", json!({})).await.ends_with("?? evil name"));
    let mut inside = repository(&[]);
    inside.write("sub/c", "x");
    inside.cx.cwd = inside.dir.join("sub");
    let told = inside.ok("GitSummary", json!({})).await;
    assert!(told.starts_with("Paths are counted from /") && told.contains("?? sub/"), "{told}");
}

#[tokio::test]
async fn long_diffs_are_cut() {
    let scene = repository(&[]);
    scene.write("a.txt", "changed\n".repeat(50_000));
    let told = scene.ok("GitSummary", json!({})).await;
    assert!(told.len() < 20_000 && told.contains("left out here") && told.contains("first things"), "{told}");
}

#[tokio::test]
async fn files_that_may_not_be_read_are_left_out() {
    let mut scene = repository(&[]);
    scene.write("a.txt", "hunter2\n");
    scene.write("b.txt", "seen\n");
    let closed = scene.dir.join("a.txt");
    scene.cx.read_policy =
        ReadPolicy::new(move |path| if path == closed { Sight::Closed } else { Sight::Open });
    let told = scene.ok("GitSummary", json!({})).await;
    assert!(!told.contains("hunter2") && !told.contains("a.txt") && told.contains("+seen"), "{told}");
    assert!(told.contains("[1 file was left out because of rules about reading]"), "{told}");
}

/// Every way that is known to make reading commands of git run something. Each trap leaves its name.
#[tokio::test]
async fn nothing_of_a_trapped_repository_runs() {
    let scene = repository(&[]);
    let trap = scene.dir.join("trap.sh");
    let sprung = scene.dir.join(".git/sprung");
    std::fs::create_dir(&sprung).unwrap();
    scene.write("trap.sh", format!("#!/bin/sh\ntouch '{}'/\"$1\"\ncat\n", sprung.display()));
    std::fs::set_permissions(&trap, PermissionsExt::from_mode(0o755)).unwrap();
    let trap = trap.display();
    for (key, name) in [
        ("core.fsmonitor", "fsmonitor"),
        ("diff.external", "external"),
        ("diff.evil.textconv", "textconv"),
        ("diff.evil.command", "driver"),
        ("filter.evil.clean", "clean"),
        ("filter.evil.process", "process"),
        ("filter.e=v.il.clean", "clean2"),
        ("gpg.program", "gpg"),
        ("core.pager", "pager"),
        ("pager.log", "pager2"),
        ("core.sshCommand", "ssh"),
        ("credential.helper", "credential"),
    ] {
        git(&scene.dir, &["config", key, &format!("{trap} {name}")]);
    }
    for (key, value) in [
        ("filter.evil.required", "true"),
        ("log.showSignature", "true"),
        ("status.submoduleSummary", "true"),
        ("core.hooksPath", "hooks"),
    ] {
        git(&scene.dir, &["config", key, value]);
    }
    for hook in ["post-index-change", "pre-auto-gc", "reference-transaction"] {
        scene.write(&format!("hooks/{hook}"), format!("#!/bin/sh\n{trap} hook </dev/null\n"));
        std::fs::set_permissions(scene.dir.join(format!("hooks/{hook}")), PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    let attributes = "*.txt diff=evil filter=evil\nb.txt filter=e=v.il\n";
    scene.write(".gitattributes", attributes);
    scene.write(".git/info/attributes", attributes);
    scene.write("a.txt", "one\nTWO\n");
    scene.write("b.txt", "bees\n");
    let before = std::fs::read(scene.dir.join(".git/index")).unwrap();

    let told = scene.ok("GitSummary", json!({})).await;
    let names: Vec<_> = sprung.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.is_empty(), "{names:?}");
    assert!(told.contains("\n-two\n+TWO\n") && told.contains("first things"), "{told}");
    assert_eq!(std::fs::read(scene.dir.join(".git/index")).unwrap(), before, "the index is left alone");

    // The traps are real: the user's own git would have sprung some.
    let _ = Command::new("git")
        .args(["diff"])
        .current_dir(&scene.dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(exists(&sprung, "fsmonitor") && sprung.read_dir().unwrap().count() >= 2);
}

#[tokio::test]
async fn what_a_partial_clone_lacks_is_not_fetched() {
    let scene = repository(&[]);
    let sprung = scene.dir.join(".git/sprung");
    for (key, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("protocol.ext.allow", "always"),
        ("remote.origin.url", &format!("ext::touch {}", sprung.display())),
    ] {
        git(&scene.dir, &["config", key, value]);
    }
    let blob =
        Command::new("git").args(["rev-parse", "HEAD:a.txt"]).current_dir(&scene.dir).output().unwrap();
    let blob = String::from_utf8(blob.stdout).unwrap();
    let (folder, name) = blob.trim().split_at(2);
    std::fs::remove_file(scene.dir.join(format!(".git/objects/{folder}/{name}"))).unwrap();
    scene.write("a.txt", "changed\n");
    let told = scene.fails("GitSummary", json!({})).await;
    assert!(told.contains("git returned 128"), "{told}");
    assert!(!sprung.exists());
    let _ = Command::new("git").args(["diff"]).current_dir(&scene.dir).stderr(Stdio::null()).output();
    assert!(sprung.exists(), "the user's own git would have fetched");
}

#[tokio::test]
async fn a_bare_repository_in_disguise_is_not_entered() {
    let scene = Scene::new();
    let hidden = scene.dir.join("docs");
    git(&scene.dir, &["init", "-q", "--bare", "docs"]);
    scene.write("trap.sh", format!("#!/bin/sh\ntouch '{}'\n", scene.dir.join("sprung").display()));
    std::fs::set_permissions(scene.dir.join("trap.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    git(&hidden, &["config", "core.fsmonitor", &scene.path("trap.sh")]);
    git(&hidden, &["config", "core.bare", "false"]);
    git(&hidden, &["config", "core.worktree", &scene.path("")]);
    let mut scene = scene;
    scene.cx.cwd = hidden;
    let told = scene.fails("GitSummary", json!({})).await;
    assert!(told.contains("is not in a git working tree"), "{told}");
    assert!(!exists(&scene.dir, "sprung"));
}
