//! `LS`.

use crate::Scene;
use ostler_proto::Access;
use serde_json::json;

#[tokio::test]
async fn a_tree_at_a_glance() {
    let scene = Scene::new();
    scene.write("src/main.rs", "");
    scene.write("src/deep/er/still/more/x", "");
    scene.write("target/debug/big", "");
    scene.write(".ignore", "target/\n*.log\n");
    scene.write("a.log", "");
    std::fs::create_dir(scene.dir.join("empty")).unwrap();
    std::os::unix::fs::symlink("src/main.rs", scene.dir.join("link")).unwrap();
    let expected = "\
./
  .ignore
  a.log [ignored]
  empty/
  link -> src/main.rs
  src/
    deep/
      er/
        still/ …
    main.rs
  target/ [ignored]";
    let output = scene.call("LS", json!({})).await.unwrap();
    assert_eq!(crate::text(&output), expected);
    assert_eq!(output.structured["truncated"], true);
    assert_eq!(scene.ok("LS", json!({"path": "src", "ignore": ["deep"]})).await, "src/\n  main.rs");
    assert_eq!(scene.ok("LS", json!({"path": "empty"})).await, "empty/\n  [empty]");
    let intent = scene.intent("LS", json!({"path": "src"})).await;
    assert!(matches!(intent.access, Access::Read { .. }));
    assert_eq!(intent.title, "LS src");
}

#[tokio::test]
async fn the_deepest_is_left_out_first_and_counted() {
    let scene = Scene::new();
    for folder in ["a", "b"] {
        (0..150).for_each(|n| scene.write(&format!("{folder}/f{n:03}"), ""));
    }
    scene.write("c/x", "");
    let text = scene.ok("LS", json!({})).await;
    assert!(text.contains("\n  b/\n    [150 entries]\n  c/\n    x"), "{text}");
    assert!(text.contains("    f149\n  b/"), "{text}");
    (0..300).for_each(|n| scene.write(&format!("wide/f{n:03}"), ""));
    let text = scene.ok("LS", json!({"path": "wide"})).await;
    assert!(text.ends_with("  f199\n  [100 more entries]"), "{text}");
}

#[tokio::test]
async fn what_is_no_folder_is_said() {
    let scene = Scene::new();
    scene.write("file", "");
    assert!(scene.fails("LS", json!({"path": "file"})).await.contains("is a file, not a directory"));
    assert!(scene.fails("LS", json!({"path": "fil"})).await.contains("similar names in that folder: file"));
    assert!(scene.fails("LS", json!({"ignore": ["{"]})).await.contains("not valid"));
}
