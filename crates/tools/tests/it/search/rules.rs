//! Rules about reading hold for every file a search meets, whichever way it is spelled.

use crate::Scene;
use ostler_tools::{ReadPolicy, Sight};
use serde_json::json;
use std::{os::unix::fs::symlink, path::Path};

/// A project with secrets. Reading `.env` and `secrets` is denied, reading `asked` would ask.
fn scene() -> Scene {
    let mut scene = Scene::new();
    for name in ["src/a", ".env", "sub/.env", "secrets/key", "secrets/deep/key", "asked/b"] {
        scene.write(name, "token\n");
    }
    scene.write("empty/.env", "nothing\n");
    symlink(".env", scene.dir.join("innocent")).unwrap();
    symlink("secrets", scene.dir.join("folder")).unwrap();
    symlink("src", scene.dir.join("alias")).unwrap();
    let dir = scene.dir.clone();
    scene.cx.read_policy = ReadPolicy::new(move |path: &Path| {
        let below = path.strip_prefix(&dir).unwrap_or(path);
        if path.ends_with(".env") || below.starts_with("secrets/") && below.components().count() > 1 {
            Sight::Closed
        } else if below.starts_with("asked") {
            Sight::Asks
        } else {
            Sight::Open
        }
    });
    scene
}

#[tokio::test]
async fn closed_files_are_in_no_result() {
    let scene = scene();
    let files = scene.ok("Grep", json!({"pattern": "token", "glob": "*"})).await;
    assert_eq!(files, "Found 1 file\nsrc/a\n\n[6 files were left out because permission rules cover them]");
    let other = scene.ok("Grep", json!({"pattern": "no such text", "glob": "*"})).await;
    assert!(
        other.contains("[6 files were left out"),
        "the count must not tell what closed files hold: {other}"
    );
    let count = scene.call("Grep", json!({"pattern": "token", "output_mode": "count"})).await.unwrap();
    assert_eq!(count.structured["numMatches"], 1);

    let found = scene.ok("Glob", json!({"pattern": "**/*"})).await;
    assert!(found.contains("src/a"), "{found}");
    for hidden in [".env", "key", "innocent", "asked/"] {
        assert!(!found.contains(hidden), "{hidden}: {found}");
    }

    let tree = scene.ok("LS", json!({})).await;
    assert!(tree.contains("  secrets/\n    deep/") || tree.contains("  secrets/\n  src/"), "{tree}");
    for hidden in [".env", "key", "innocent"] {
        assert!(!tree.contains(hidden), "{hidden}: {tree}");
    }
}

#[tokio::test]
async fn links_open_nothing() {
    let scene = scene();
    for path in ["folder", "secrets", "innocent"] {
        let found = scene.ok("Grep", json!({"pattern": "token", "path": path})).await;
        assert!(found.starts_with("No files found\n\n["), "{path}: {found}");
    }
    for path in ["folder", "secrets"] {
        let found = scene.ok("Glob", json!({"pattern": "**/*", "path": path})).await;
        assert!(found.starts_with("No files found\n\n["), "{path}: {found}");
        assert!(!scene.ok("LS", json!({"path": path})).await.contains("key"));
    }
    // A rule about the link's own name holds although the files lie elsewhere.
    let mut scene = scene;
    let alias = scene.dir.join("alias");
    scene.cx.read_policy =
        ReadPolicy::new(move |path| if path.starts_with(&alias) { Sight::Closed } else { Sight::Open });
    assert!(
        scene.ok("Grep", json!({"pattern": "token", "path": "alias"})).await.starts_with("No files found")
    );
    assert!(scene.ok("Grep", json!({"pattern": "token", "path": "src"})).await.contains("src/a"));
}

#[tokio::test]
async fn what_was_asked_about_as_a_whole_is_open() {
    let scene = scene();
    let found = scene.ok("Grep", json!({"pattern": "token", "path": "asked"})).await;
    assert_eq!(found, "Found 1 file\nasked/b");
}

#[tokio::test]
async fn similar_names_tell_of_no_closed_file() {
    let scene = scene();
    let error = scene.fails("Grep", json!({"pattern": "x", "path": ".enw"})).await;
    assert!(error.contains("does not exist") && !error.contains(".env"), "{error}");
}
