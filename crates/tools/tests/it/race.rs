//! Somebody who swaps files and folders for links, faster than anybody can look, gains nothing:
//! what a call was allowed to touch is what it touches.

use crate::{Scene, quiet, text};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

const SECRET: &str = "TOP SECRET";
const SWAPS: usize = 20_000;
const ROUNDS: usize = 1_200;

/// Swaps a name for its decoy, a link to the outside, over and over.
struct Racer {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicUsize>,
    thread: std::thread::JoinHandle<()>,
}

impl Racer {
    fn start(pairs: Vec<(PathBuf, PathBuf, PathBuf)>) -> Self {
        let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&swaps));
        let thread = std::thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(1);
            while !stopped.load(Ordering::Relaxed) || counted.load(Ordering::Relaxed) < SWAPS {
                for (name, decoy, outside) in &pairs {
                    if renameat_with(CWD, name, CWD, decoy, RenameFlags::EXCHANGE).is_ok() {
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                    // Sometimes long enough for a whole call, mostly not.
                    let pause = 1 << random.u32(1..16);
                    (0..pause).for_each(|_| std::hint::spin_loop());
                    // A write may have taken the place of the link, which is its right.
                    if !name.is_symlink() && !decoy.is_symlink() {
                        let fresh = decoy.with_extension("fresh");
                        let _ = std::fs::remove_file(&fresh);
                        symlink(outside, &fresh).unwrap();
                        let _ = std::fs::remove_dir_all(decoy);
                        let _ = std::fs::rename(&fresh, decoy);
                    }
                }
            }
        });
        Self { stop, swaps, thread }
    }

    fn finish(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.swaps.load(Ordering::Relaxed)
    }
}

/// Everything that would show if somebody had been there.
fn footprints(dir: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, Vec<u8>)> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths
        .map(|path| {
            let metadata = path.symlink_metadata().unwrap();
            let content = std::fs::read(&path).unwrap();
            (path, (metadata.ino(), metadata.ctime(), metadata.ctime_nsec(), content))
        })
        .collect()
}

/// A call as control would make it: it runs only if everything it names is inside. Gives all that
/// the model would get.
async fn judged(scene: &Scene, inside: &Path, tool: &str, input: Value) -> (String, bool) {
    let plan = match scene.tools.find(tool).unwrap().plan(input, &scene.cx).await {
        Ok(plan) => plan,
        Err(error) => return (error.to_string(), false),
    };
    if !plan.intent.access.paths().iter().all(|path| path.target.starts_with(inside)) {
        return ("denied".to_owned(), false);
    }
    match plan.effect.run(quiet()).await {
        Ok(output) => (format!("{} {}", text(&output), output.structured), true),
        Err(error) => (error.to_string(), false),
    }
}

fn calls(round: usize) -> (&'static str, Value) {
    let edits = |old: &str| json!([{"old_string": old, "new_string": format!("{old}{round}")}]);
    match round % 8 {
        // Another limit each time, so that no answer is `unchanged`.
        0 => ("Read", json!({"file_path": "inside/file", "limit": round + 1})),
        1 => ("Read", json!({"file_path": "inside/sub/file", "limit": round + 1})),
        2 => (
            "Edit",
            json!({"file_path": "inside/file", "old_string": "red", "new_string": format!("red{round}")}),
        ),
        3 => ("Write", json!({"file_path": "inside/sub/file", "content": format!("red {round}\n")})),
        4 => ("Write", json!({"file_path": format!("inside/sub/new{round}"), "content": "mine"})),
        5 => ("Grep", json!({"pattern": ".", "path": "inside", "output_mode": "content"})),
        6 => (
            "MultiEdit",
            json!({"files": [
                {"file_path": "inside/file", "edits": edits("red")}, {"file_path": "inside/sub/file", "edits": edits("red")},
            ]}),
        ),
        _ => ("Write", json!({"file_path": "inside/file", "content": format!("red {round}\n")})),
    }
}

#[tokio::test]
async fn swapped_links_are_never_followed() {
    let scene = Scene::new();
    let (inside, outside) = (scene.dir.join("inside"), scene.dir.join("outside"));
    scene.write("outside/file", format!("{SECRET}\nred green blue black\n"));
    scene.write("inside/file", "red\n");
    scene.write("inside/sub/file", "red\n");
    symlink(outside.join("file"), inside.join(".file-decoy")).unwrap();
    symlink(&outside, inside.join(".sub-decoy")).unwrap();
    let before = footprints(&outside);
    let racer = Racer::start(vec![
        (inside.join("file"), inside.join(".file-decoy"), outside.join("file")),
        (inside.join("sub"), inside.join(".sub-decoy"), outside.clone()),
    ]);
    let (mut ran, mut refusals) = (BTreeMap::new(), BTreeMap::new());
    for round in 0..ROUNDS {
        let (tool, input) = calls(round);
        let (said, done) = judged(&scene, &inside, tool, input).await;
        assert!(!said.contains(SECRET), "{tool}: {said}");
        *ran.entry((tool, done)).or_insert(0) += 1;
        if !done {
            refusals.insert(tool, said);
        }
    }
    let swaps = racer.finish();
    println!("{swaps} swaps, calls by tool and whether they went through: {ran:?}; refused: {refusals:?}");
    assert_eq!(footprints(&outside), before);
    assert!(swaps >= SWAPS);
    for tool in ["Read", "Write", "Grep"] {
        assert!(ran.contains_key(&(tool, true)), "{tool} never went through: {ran:?}");
    }
}
