//! Histories replayed with the tools end as git says they end.

use crate::replay::{replay, synthetic};
use std::path::Path;

#[tokio::test]
async fn a_made_up_history_is_replayed_byte_for_byte() {
    let temp = tempfile::tempdir().unwrap();
    synthetic(temp.path(), 320, 7);
    let report = replay(temp.path(), 1000).await;
    assert!(report.wrong.is_empty(), "{report:#?}");
    assert_eq!(report.commits, 320);
    assert!(report.edits + report.batches > 200 && report.writes > 20, "{report:?}");
}

#[tokio::test]
async fn the_history_of_this_project_is_replayed_byte_for_byte() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let count = std::process::Command::new("git")
        .arg("-C")
        .arg(&project)
        .args(["rev-list", "--count", "--first-parent", "HEAD"])
        .output();
    let commits = count
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse::<usize>().ok());
    // A shallow clone has a short history: then its first commit writes all files.
    let Some(commits) = commits else { return println!("skipped: this is no git repository") };
    let report = replay(&project, 200).await;
    println!("{report:?}");
    assert!(report.wrong.is_empty(), "{:#?}", report.wrong);
    assert!(report.commits == commits.min(200) && report.compared > 0, "{report:?}");
}
