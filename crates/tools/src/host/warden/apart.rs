//! Sets a whole process apart: other folders stand in for some of the machine's, all else can only be read, and there
//! is no network. Unlike a warden's command the process keeps its rights inside, so that it can confine its own.

use super::{
    StandIn,
    mounts::{attach, take},
    named,
    raw::{self, Mounts},
};
use rustix::{
    fs::CWD,
    mount::{MountPropagationFlags, mount_change},
    process::{DumpableBehavior, getegid, geteuid, set_dumpable_behavior},
    thread::UnshareFlags,
};
use std::{io, os::fd::OwnedFd, path::Path};

/// Programs need them as they are; a table of processes that can only be read could not be mounted anew.
const LEFT: [&str; 2] = ["/proc", "/dev"];

/// Sets this process apart, for good and with all it will start. Must be called before any thread is started, and
/// leaves the working directory where it was, as it now looks. An outer stand-in must come before one within it.
#[expect(clippy::disallowed_methods, reason = "settings of the namespace, not files")]
pub fn enter(stand_ins: &[StandIn]) -> io::Result<()> {
    let cwd = std::env::current_dir()?;
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    // The maps of a process that hides its memory belong to root.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    raw::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWNET)
        .map_err(|error| named("make", Path::new("namespaces"), &error))?;
    for (file, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ] {
        std::fs::write(file, text).map_err(|error| named("write", Path::new(file), &error))?;
    }
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|error| named("detach the mounts below", Path::new("/"), &error.into()))?;
    // Taken before anything is covered or made read-only.
    let taken = stand_ins.iter().map(|stand_in| Ok((stand_in.at.as_path(), take(&stand_in.folder)?)));
    let left = LEFT.iter().map(|path| Ok((Path::new(*path), take(Path::new(path))?)));
    let trees: Vec<(&Path, OwnedFd)> = left.chain(taken).collect::<io::Result<_>>()?;
    raw::set_read_only(CWD, c"/", Mounts::Whole)
        .map_err(|error| named("make read-only", Path::new("/"), &error))?;
    for (path, tree) in trees {
        attach(&tree, path)?;
    }
    std::env::set_current_dir(&cwd).map_err(|error| named("enter", &cwd, &error))
}
