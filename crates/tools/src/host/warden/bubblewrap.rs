//! The same layout told to `bwrap`, for machines where only that program may make namespaces. What it
//! cannot do is an error, never left out.
#![expect(clippy::disallowed_methods, reason = "here the program is started that confines the command")]

use super::{
    layout::{COVERED, lay_out},
    named,
    order::{Order, Reach, Stage, Step, StepKind},
    stages::{SELF, pass_on, spawn},
};
use rustix::{fs::OFlags, io::FdFlags};
use std::{
    ffi::OsString,
    io::{self, Read},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    process::{Child, Command, Stdio},
};

/// Where distributions put it; profiles that let it make namespaces are bound to this path.
const PROGRAM: &str = "/usr/bin/bwrap";
/// Where the warden stands inside; the name tells it what it is.
const INSIDE: &str = "/run/ostler-warden";
const BASE: [&str; 20] = [
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--as-pid-1",
    "--cap-drop",
    "ALL",
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--remount-ro",
    "/dev",
    "--proc",
    "/proc",
    // For the machine's root, some of it governs the machine.
    "--remount-ro",
    "/proc",
];

/// How often a layout is made anew that the disk has overtaken: sockets come and go.
const TRIES: usize = 4;

/// Runs the inner stage within it, to its end.
pub(super) fn run(order: Order, control: &UnixStream) -> io::Result<()> {
    // It keeps its own standard streams open as long as it runs, so it gets none of the command's.
    let stdio =
        [rustix::io::dup(io::stdin())?, rustix::io::dup(io::stdout())?, rustix::io::dup(io::stderr())?];
    let gate = pass_on(&order, control)?;
    let (warden, cwd) = (std::fs::read_link(SELF)?, std::env::current_dir()?);
    let bounds = order.steps.clone();
    let mut order =
        Order { stage: Stage::Inner, stdio: Some(stdio.each_ref().map(AsRawFd::as_raw_fd)), ..order };
    let mut tries = 0;
    loop {
        let layout = lay_out(&bounds, order.network)?;
        order.steps.clone_from(&layout.steps);
        let mut child = begin(&words(&order, &warden, &cwd)?)?;
        tries += 1;
        match complaint(&mut child)? {
            None => {
                drop((stdio, gate));
                return child.wait().map(drop);
            }
            Some(_) if tries < TRIES => drop(child.wait()),
            Some(complaint) => {
                child.wait()?;
                return Err(io::Error::other(complaint));
            }
        }
    }
}

/// Starts it and waits until it has either started the inner stage or failed.
fn begin(words: &[OsString]) -> io::Result<Child> {
    let (mut begun, end) = io::pipe()?;
    let end = OwnedFd::from(end);
    // It closes what it does not know, and so does the inner stage, first of all.
    rustix::io::fcntl_setfd(&end, FdFlags::empty())?;
    let mut command = Command::new(PROGRAM);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = spawn(command, PROGRAM.as_ref())?;
    drop(end);
    // Nothing is written; the end is what is awaited.
    begun.read_to_end(&mut Vec::new())?;
    Ok(child)
}

/// What it has to say; nothing if all went well.
fn complaint(child: &mut Child) -> io::Result<Option<String>> {
    let Some(mut stderr) = child.stderr.take() else { return Ok(None) };
    rustix::fs::fcntl_setfl(&stderr, OFlags::NONBLOCK)?;
    let mut text = vec![0; 4096];
    match stderr.read(&mut text) {
        Ok(0) => Ok(Some("bwrap ended without a word".to_owned())),
        Ok(length) => Ok(Some(String::from_utf8_lossy(&text[..length]).trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            // It holds the other end as long as it runs, and must not be stopped by its loss.
            child.stderr = Some(stderr);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// All words after the program's name. `order` is what the warden inside is to do.
fn words(order: &Order, warden: &Path, cwd: &Path) -> io::Result<Vec<OsString>> {
    let mut words: Vec<OsString> = BASE.map(OsString::from).to_vec();
    if order.network == Reach::Cut {
        words.push("--unshare-net".into());
    }
    let is_folder = |folder: &&str| Path::new(folder).symlink_metadata().is_ok_and(|found| found.is_dir());
    let covered: Vec<&str> = COVERED.into_iter().filter(is_folder).collect();
    for folder in &covered {
        words.extend(["--tmpfs".into(), folder.into()]);
    }
    if !covered.contains(&"/run") {
        return Err(io::Error::other("bubblewrap needs a folder /run"));
    }
    for step in &order.steps {
        words.extend(step_words(step)?);
    }
    words.extend(["--ro-bind".into(), warden.into(), INSIDE.into()]);
    for folder in &covered {
        words.extend(["--remount-ro".into(), folder.into()]);
    }
    words.extend(["--chdir".into(), cwd.into(), "--".into(), INSIDE.into()]);
    let inner = Order { steps: Vec::new(), ..order.clone() };
    words.extend(inner.to_words());
    Ok(words)
}

fn step_words(step: &Step) -> io::Result<Vec<OsString>> {
    let path = step.path.as_os_str().to_owned();
    let bind = |how: &str| vec![OsString::from(how), path.clone(), path.clone()];
    Ok(match step.kind {
        StepKind::Pinned if step.path.is_symlink() => {
            let why = "it is a symbolic link, which bubblewrap cannot hold in its place";
            return Err(named("protect", &step.path, &io::Error::other(why)));
        }
        StepKind::Writable | StepKind::Pinned => bind("--bind"),
        StepKind::Frozen | StepKind::Shown => bind("--ro-bind"),
        // Gone in the meantime, as sockets do.
        StepKind::HiddenFile | StepKind::HiddenFolder if step.path.symlink_metadata().is_err() => Vec::new(),
        StepKind::HiddenFolder => {
            let mut words: Vec<OsString> = ["--perms", "0000", "--tmpfs"].map(OsString::from).to_vec();
            words.extend([path.clone(), "--remount-ro".into(), path]);
            words
        }
        StepKind::HiddenFile => vec!["--ro-bind".into(), "/dev/null".into(), path],
    })
}
