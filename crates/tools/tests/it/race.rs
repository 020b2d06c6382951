//! Another process that swaps files and folders for links, faster than anybody can look, gains
//! nothing: what a call was allowed to touch is what it touches, and what it shows is from there.

use crate::{Scene, quiet, text};
use rustix::{
    fs::{
        CWD, RenameFlags,
        inotify::{self, CreateFlags, WatchFlags},
        renameat_with,
    },
    io::Errno,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// What stands in the files outside, and a name that only stands there.
const SECRET: &str = "TOP SECRET";
const SECRET_NAME: &str = "only-outside";
const SWAPS: usize = 100_000;
/// Tells a child process what to swap.
const ORDER: &str = "OSTLER_TEST_RACE";
/// Which tools must get through now and then, or nothing was tried.
const TOOLS: [&str; 8] = ["Read", "Edit", "MultiEdit", "Write", "NotebookEdit", "Grep", "Glob", "LS"];

/// The process that swaps. It ends by itself.
struct Racer(Child);

impl Racer {
    /// `pairs` are names inside, their decoys, and where those lead.
    fn start(pairs: &[(PathBuf, PathBuf, PathBuf)]) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["race::racer", "--exact", "--quiet"])
            .env(ORDER, json!(pairs).to_string())
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    fn is_running(&mut self) -> bool {
        match self.0.try_wait().unwrap() {
            None => true,
            Some(status) => {
                assert!(status.success(), "the racer failed: {status}");
                false
            }
        }
    }
}

impl Drop for Racer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The racer itself; elsewhere it does nothing.
#[test]
fn racer() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let pairs: Vec<(PathBuf, PathBuf, PathBuf)> = serde_json::from_str(&order).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut swaps = 0;
    while swaps < SWAPS {
        for (name, decoy, outside) in &pairs {
            if renameat_with(CWD, name, CWD, decoy, RenameFlags::EXCHANGE).is_ok() {
                swaps += 1;
            }
            // Sometimes long enough for a whole call, mostly not.
            (0..1 << random.u32(1..15)).for_each(|_| std::hint::spin_loop());
            // A write may have taken the place of the link, which is its right.
            if !name.is_symlink() && !decoy.is_symlink() {
                let fresh = decoy.with_extension("fresh");
                let _ = std::fs::remove_file(&fresh);
                symlink(outside, &fresh).unwrap();
                let _ = std::fs::remove_dir_all(decoy);
                let _ = std::fs::remove_file(decoy);
                let _ = std::fs::rename(&fresh, decoy);
            }
        }
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

/// Watches the files of a folder for anything at all, and the folder itself for changes. A walk by
/// names may be led into it and list it; what it met there is looked at again before it is shown.
fn sentinel(dir: &Path) -> impl FnOnce() -> usize {
    let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    let listing = WatchFlags::OPEN | WatchFlags::ACCESS | WatchFlags::CLOSE_NOWRITE;
    inotify::add_watch(&queue, dir, WatchFlags::ALL_EVENTS.difference(listing)).unwrap();
    for entry in std::fs::read_dir(dir).unwrap() {
        inotify::add_watch(&queue, entry.unwrap().path(), WatchFlags::ALL_EVENTS).unwrap();
    }
    move || {
        let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 4096];
        let mut reader = inotify::Reader::new(&queue, &mut buffer);
        let mut events = 0;
        loop {
            match reader.next() {
                Ok(_) => events += 1,
                Err(Errno::AGAIN) => return events,
                Err(errno) => panic!("{errno}"),
            }
        }
    }
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
    match round % 16 {
        // Another limit each time, so that no answer is `unchanged`.
        0 | 6 => ("Read", json!({"file_path": "inside/file", "limit": round + 1})),
        1 | 8 => ("Read", json!({"file_path": "inside/sub/file", "limit": round + 1})),
        2 => (
            "Edit",
            json!({"file_path": "inside/file", "old_string": "red", "new_string": format!("red{round}")}),
        ),
        3 => ("Write", json!({"file_path": "inside/sub/file", "content": format!("red {round}\n")})),
        4 => ("Write", json!({"file_path": format!("inside/sub/new{round}"), "content": "mine"})),
        5 => ("Grep", json!({"pattern": ".", "path": "inside", "output_mode": "content"})),
        7 => ("Write", json!({"file_path": "inside/file", "content": format!("red {round}\n")})),
        9 => (
            "MultiEdit",
            json!({"files": [
                {"file_path": "inside/file", "edits": edits("red")}, {"file_path": "inside/sub/file", "edits": edits("red")},
            ]}),
        ),
        10 => ("Glob", json!({"pattern": "**/*", "path": "inside"})),
        11 => ("LS", json!({"path": "inside"})),
        12 => ("Read", json!({"file_path": format!("inside/sub/{SECRET_NAME}"), "limit": round + 1})),
        13 => ("Read", json!({"file_path": "inside/sub/only-outsidr"})),
        14 => ("Read", json!({"file_path": "inside/n.ipynb", "limit": round + 1})),
        _ => (
            "NotebookEdit",
            json!({"notebook_path": "inside/n.ipynb", "cell_id": "c", "new_source": format!("red {round}")}),
        ),
    }
}

fn notebook(source: &str) -> String {
    let cell = json!({"cell_type": "markdown", "id": "c", "metadata": {}, "source": source});
    json!({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).to_string()
}

#[tokio::test]
async fn swapped_links_are_never_followed() {
    let scene = Scene::new();
    let (inside, outside) = (scene.dir.join("inside"), scene.dir.join("outside"));
    scene.write("outside/file", format!("{SECRET}\nred green blue black\n"));
    scene.write("outside/n.ipynb", notebook(SECRET));
    scene.write(&format!("outside/{SECRET_NAME}"), SECRET);
    scene.write("inside/file", "red\n");
    scene.write("inside/sub/file", "red\n");
    scene.write("inside/n.ipynb", notebook("red"));
    let pairs = [("file", "file"), ("sub", "."), ("n.ipynb", "n.ipynb")].map(|(name, leads_to)| {
        let leads_to = outside.join(leads_to);
        symlink(&leads_to, inside.join(format!(".{name}-decoy"))).unwrap();
        (inside.join(name), inside.join(format!(".{name}-decoy")), leads_to)
    });
    let before = footprints(&outside);
    let events = sentinel(&outside);
    let mut racer = Racer::start(&pairs);
    let (mut ran, mut refusals) = (BTreeMap::new(), BTreeMap::new());
    let got_through = |ran: &BTreeMap<_, _>| TOOLS.iter().all(|tool| ran.contains_key(&(*tool, true)));
    let mut rounds = 0;
    // Whoever never gets through while the links fly gets its chance when they rest.
    while racer.is_running() || (!got_through(&ran) && rounds < 100_000) {
        let (tool, input) = calls(rounds);
        rounds += 1;
        let asked = input.to_string();
        let (said, done) = judged(&scene, &inside, tool, input).await;
        assert!(!said.contains(SECRET), "{tool}: {said}");
        assert!(!said.contains(SECRET_NAME) || asked.contains(SECRET_NAME), "{tool}: {said}");
        *ran.entry((tool, done)).or_insert(0) += 1;
        if !done {
            refusals.insert(tool, said);
        }
    }
    println!(
        "{SWAPS} swaps, {rounds} calls, by tool and whether they went through: {ran:?}; refused: {refusals:?}"
    );
    assert_eq!(events(), 0, "somebody was outside");
    assert_eq!(footprints(&outside), before);
    assert!(got_through(&ran), "{ran:?}");
}
