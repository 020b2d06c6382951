//! The local machine beneath the tools.

use crate::Scene;
use ostler_tools::host::{Content, Expected, HostError, Replacement, read_whole};
use std::os::unix::fs::PermissionsExt;

#[tokio::test]
async fn replacing_keeps_the_mode_and_leaves_no_trace() {
    let scene = Scene::new();
    scene.write("a", "old");
    std::fs::set_permissions(scene.dir.join("a"), PermissionsExt::from_mode(0o4711)).unwrap();
    let replacement = Replacement {
        target: scene.dir.join("a"),
        content: Content::Whole(b"new".to_vec()),
        expected: Expected::Content(blake3::hash(b"old")),
    };
    let stat = scene.cx.host.replace(replacement).await.unwrap();
    assert_eq!(stat.size, 3);
    assert_eq!(scene.bytes("a"), b"new");
    assert_eq!(std::fs::metadata(scene.dir.join("a")).unwrap().permissions().mode() & 0o7777, 0o4711);
    assert_eq!(std::fs::read_dir(&scene.dir).unwrap().count(), 1);
}

#[tokio::test]
async fn replacing_the_unexpected_changes_nothing() {
    let scene = Scene::new();
    scene.write("a", "theirs");
    for expected in [Expected::Absent, Expected::Content(blake3::hash(b"old"))] {
        let target = scene.dir.join("a");
        let replaced = scene
            .cx
            .host
            .replace(Replacement { target, content: Content::Whole(b"new".to_vec()), expected })
            .await;
        assert!(matches!(replaced, Err(HostError::Changed(_))), "{replaced:?}");
    }
    assert_eq!(scene.bytes("a"), b"theirs");
    assert_eq!(std::fs::read_dir(&scene.dir).unwrap().count(), 1);
}

#[tokio::test]
async fn reading_stops_at_the_limit() {
    let scene = Scene::new();
    scene.write("a", "12345");
    let host = scene.cx.host.as_ref();
    assert_eq!(read_whole(host, &scene.dir.join("a"), 5).await.unwrap().1, b"12345");
    assert!(matches!(
        read_whole(host, &scene.dir.join("a"), 4).await,
        Err(HostError::TooLarge { size: 5, .. })
    ));
    assert!(matches!(read_whole(host, &scene.dir, 4).await, Err(HostError::Directory(_))));
}
