//! Custody: whatever a command starts and however it hides, nothing of it outlives the call or the harness.

use crate::cage::{WARDEN, backends, finish, launch};
use ostler_tools::host::{Bounds, Confinement, Warden, process::Group};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::Read,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Children that leave their group and session, are orphaned on purpose, ignore signals, close their
/// descriptors, and go on forking. The mark is on every one's command line.
fn hostile(mark: &str) -> String {
    format!(
        r#"
        bad='$SIG{{$_}} = "IGNORE" for qw(TERM HUP INT QUIT USR1 USR2 PIPE); sleep 1 while 1;'
        setsid perl -e "$bad" {mark} &
        ( ( setsid perl -e "$bad" {mark} & ) & )
        ( perl -e 'use POSIX; POSIX::close($_) for 0..255; fork and exit; setsid; fork and exit; chdir "/"; sleep 1 while 1' {mark} & )
        perl -e '$SIG{{TERM}} = "IGNORE"; $SIG{{CHLD}} = "IGNORE"; while (1) {{ fork or do {{ select undef, undef, undef, 0.05; exit }}; select undef, undef, undef, 0.002 }}' {mark} &
        nohup sleep 100000 {mark}x 2>/dev/null &
        disown -a
        "#
    )
}

/// How many processes have a mark on their command line, wardens included.
fn marked(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(mark)).count()
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}: it did not come to pass");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A way to run a command, with its name: who keeps it, and how it is confined to a folder.
type Way = (String, Warden, fn(&Path) -> Confinement);

/// Free, and confined in each way.
fn ways() -> Vec<Way> {
    let within = |folder: &Path| {
        Confinement::Within(Bounds { writable: vec![folder.to_owned()], ..Bounds::default() })
    };
    let mut ways: Vec<Way> = vec![("free".to_owned(), Warden::new(WARDEN.into()), |_| Confinement::Free)];
    for backend in backends() {
        ways.push((backend.name().to_owned(), Warden::with_backend(WARDEN.into(), backend), within));
    }
    ways
}

struct Case {
    _temp: tempfile::TempDir,
    mark: String,
    group: Group,
}

/// Starts hostile children with `tail` after them, and waits until they run.
fn begin(way: &str, warden: &Warden, confinement: fn(&Path) -> Confinement, tail: &str) -> Case {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().canonicalize().unwrap();
    let mark =
        format!("mark-{way}-{}", folder.file_name().unwrap().to_string_lossy().trim_start_matches('.'));
    let (mut output, end) = std::io::pipe().unwrap();
    let command = format!("{}\necho ready\n{tail}", hostile(&mark));
    let group = launch(warden, &confinement(&folder), &folder, &command, end.into()).unwrap();
    output.read_exact(&mut [0; 6]).unwrap();
    until(&format!("{way}: all run"), || marked(&mark) >= 6);
    Case { _temp: temp, mark, group }
}

#[track_caller]
fn check_gone(way: &str, mark: &str) {
    until(&format!("{way}: all gone"), || marked(mark) == 0);
    // Nobody was only hiding between two looks.
    assert_eq!(marked(mark), 0, "{way}");
}

#[test]
fn dropping_the_group_kills_everything() {
    for (way, warden, confinement) in ways() {
        let Case { mark, group, .. } = begin(&way, &warden, confinement, "sleep 100000");
        drop(group);
        check_gone(&way, &mark);
    }
}

#[test]
fn killing_the_group_kills_everything() {
    for (way, warden, confinement) in ways() {
        let Case { mark, group, .. } =
            begin(&way, &warden, confinement, "trap '' TERM; while :; do sleep 1; done");
        group.signal(Signal::TERM);
        group.signal(Signal::KILL);
        check_gone(&way, &mark);
    }
}

#[test]
fn the_end_of_the_command_ends_what_it_left_behind() {
    for (way, warden, confinement) in ways() {
        let Case { mark, group, .. } = begin(&way, &warden, confinement, "exit 5");
        assert_eq!(finish(group).unwrap().code(), Some(5), "{way}");
        check_gone(&way, &mark);
    }
}

#[test]
fn what_the_command_left_behind_runs_until_the_group_is_finished() {
    for (way, warden, confinement) in ways() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().canonicalize().unwrap();
        let (mut output, end) = std::io::pipe().unwrap();
        let command = "(until test -e go; do sleep 0.01; done; echo late) & exit 4";
        let group = launch(&warden, &confinement(&folder), &folder, command, end.into()).unwrap();
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(group.ended())
            .unwrap();
        std::fs::write(folder.join("go"), "").unwrap();
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), group.finish().unwrap().code()), ("late\n", Some(4)), "{way}");
    }
}

#[test]
fn a_signal_reaches_the_command_first() {
    for (way, warden, confinement) in ways() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().canonicalize().unwrap();
        let (mut output, end) = std::io::pipe().unwrap();
        let command = "trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.01; done";
        let group = launch(&warden, &confinement(&folder), &folder, command, end.into()).unwrap();
        output.read_exact(&mut [0; 6]).unwrap();
        group.signal(Signal::TERM);
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), finish(group).unwrap().code()), ("caught\n", Some(7)), "{way}");
    }
}

#[test]
fn a_command_cannot_end_its_warden_by_signals_to_its_group_or_parent() {
    for (way, warden, confinement) in ways() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().canonicalize().unwrap();
        let command =
            "for s in HUP INT QUIT TERM USR1 USR2; do kill -$s $PPID; done; setsid sleep 100000 & kill -9 0";
        let group = launch(&warden, &confinement(&folder), &folder, command, Stdio::null()).unwrap();
        let status = finish(group).unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{way}: {status}");
    }
}

fn harness(way: &str, folder: &Path, mark: &str) -> Child {
    let command = format!("{}\nsleep 100000", hostile(mark));
    Command::new(WARDEN).args(["harness", way]).arg(folder).arg(command).spawn().unwrap()
}

#[test]
fn everything_dies_with_the_harness_however_it_dies() {
    for (way, _, _) in ways() {
        for signal in [Signal::KILL, Signal::TERM, Signal::ABORT] {
            let temp = tempfile::tempdir().unwrap();
            let folder = temp.path().canonicalize().unwrap();
            let name = folder.file_name().unwrap().to_string_lossy().trim_start_matches('.').to_owned();
            let mark = format!("mark-{way}-{name}");
            let mut harness = harness(&way, &folder, &mark);
            until(&format!("{way}: all run"), || marked(&mark) >= 7);
            kill_process(Pid::from_child(&harness), signal).unwrap();
            harness.wait().unwrap();
            let held = std::fs::File::open(folder.join("held")).unwrap();
            held.lock().unwrap();
            assert_eq!(marked(&mark), 0, "{way}: whoever gets the lock has seen the last of it");
            check_gone(&format!("{way} after {signal:?}"), &mark);
        }
    }
}
