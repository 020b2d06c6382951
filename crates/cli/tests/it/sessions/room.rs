//! A disk that is full or read-only: said on stderr and in the result, and nothing more runs.

use crate::stage::{Done, Stage};
use std::process::Command;

/// Runs the binary where its folder is a file system of its own, as `mount` makes it.
#[track_caller]
fn mounted(stage: &Stage, mount: &str, words: &[&str]) -> Option<Done> {
    let ours = stage.command(words);
    let folder = stage.home.join(".ostler");
    std::fs::create_dir_all(&folder).unwrap();
    let script = format!("{mount} && exec \"$@\"");
    let start = |more: &[&str], what: &[&std::ffi::OsStr]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]).args(more).args(["sh", "-c", &script, "sh"]);
        command.args(what).current_dir(stage.repo.path()).env("FOLDER", &folder);
        command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.output()
    };
    let can_mount =
        |more: &[&str]| start(more, &["true".as_ref()]).is_ok_and(|output| output.status.success());
    let more: &[&str] = if can_mount(&[]) {
        &[]
    } else if can_mount(&["--map-root-user"]) {
        &["--map-root-user"]
    } else {
        eprintln!("skipped: this machine lets nobody mount a file system of their own");
        return None;
    };
    let all: Vec<&std::ffi::OsStr> = std::iter::once(ours.get_program()).chain(ours.get_args()).collect();
    Some(Done::from(start(more, &all).unwrap()))
}

fn script() -> String {
    let long = "much ".repeat(30_000);
    let turn = format!(
        "[[turn]]\nsteps = [{{ text = '{long}' }}, {{ call = 'Write', input = {{ file_path = '{{{{cwd}}}}/new.txt', content = 'x' }} }}]\n"
    );
    turn.repeat(2)
}

#[test]
fn a_full_disk_ends_the_turn_before_the_next_effect() {
    let stage = Stage::new(&script());
    let mount = "mount -t tmpfs -o size=64k ostler-test \"$FOLDER\"";
    let words =
        ["-p", "go", "--permission-mode", "acceptEdits", "--output-format", "stream-json", "--verbose"];
    let Some(done) = mounted(&stage, mount, &words) else { return };
    let frames = done.frames();
    assert_eq!((frames.code, frames.result()["is_error"].as_bool()), (Some(1), Some(true)));
    assert!(frames.result().to_string().contains("cannot write the session log"), "{}", frames.result());
    assert!(!stage.repo.has("new.txt"), "nothing more ran");
    assert_eq!(stage.server.requests().len(), 1);
    let Some(text) = mounted(&stage, mount, &["-p", "go", "--permission-mode", "acceptEdits"]) else {
        return;
    };
    assert!(text.stderr.contains("No space left on device"), "{}", text.stderr);
}

#[test]
fn a_read_only_disk_asks_nothing() {
    let stage = Stage::new(&script());
    let mount = "mount -t tmpfs -o ro ostler-test \"$FOLDER\"";
    let Some(done) = mounted(&stage, mount, &["-p", "go"]) else { return };
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("Read-only file system"), "{}", done.stderr);
    assert!(stage.server.requests().is_empty());
}
