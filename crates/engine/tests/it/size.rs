//! Sessions of a size nobody expected: listed and read in bounded memory.

use ostler_engine::session::{Index, Scope, Store, load};
use ostler_proto::SessionId;
use serde_json::json;
use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    path::PathBuf,
};

const ID: &str = "11111111-2222-4333-8444-555555555555";

fn place(folder: &tempfile::TempDir) -> (Store, PathBuf) {
    let store = Store { homes: vec![folder.path().to_path_buf()] };
    let path = store.path_for(folder.path(), &SessionId::from(ID));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    (store, path)
}

fn prompt(number: usize, text: &str) -> String {
    json!({"parentUuid": null, "type": "user", "message": {"role": "user", "content": text}, "uuid": format!("u{number}")})
        .to_string()
}

#[test]
fn a_line_longer_than_any_request_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = place(&folder);
    let mut file = File::create(&path).unwrap();
    write!(file, "{}\n{{\"type\":\"user\",\"text\":\"", prompt(1, "before")).unwrap();
    // A hole takes no room on the disk, and no time to make.
    file.seek(SeekFrom::Current(66 << 20)).unwrap();
    writeln!(file, "\"}}\n{}", prompt(2, "after")).unwrap();
    let loaded = load(&path).unwrap();
    let text = serde_json::to_string(&loaded.state.messages()).unwrap();
    assert!(text.contains("before") && text.contains("after") && text.len() < 1000);
    assert_eq!(loaded.damaged.len(), 1);
    assert!(loaded.damaged[0].1.contains("too long"), "{:?}", loaded.damaged);
    let listed = Index::open(folder.path()).unwrap().list(&store, &Scope::Everywhere, 1).unwrap();
    assert_eq!(listed[0].first_prompt.as_deref(), Some("before"));
}
