//! The file system as a confined command sees it, made of mounts in a namespace of its own: all of the
//! machine's, read-only, with the layout's steps on top. It asks nothing and decides nothing.

use super::{
    layout::COVERED,
    named,
    order::{Step, StepKind},
    raw::{self, Mounts},
};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags},
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, move_mount,
        open_tree,
    },
};
use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{DirBuilderExt, symlink},
    },
    path::Path,
};

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
    ("pts/ptmx", "/dev/ptmx"),
];
/// What lies over hidden things while they are covered.
const EMPTY_FILE: &str = "/dev/.file";
const EMPTY_FOLDER: &str = "/dev/.folder";

/// Rearranges the mounts of this process, which must have a mount namespace of its own.
pub(super) fn arrange(steps: &[Step]) -> io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|error| named("detach the mounts below", Path::new("/"), &error.into()))?;
    // Taken before anything is covered or made read-only.
    let taken = steps.iter().filter(|step| matches!(step.kind, StepKind::Writable | StepKind::Shown));
    let taken: Vec<(&Path, OwnedFd)> =
        taken.map(|step| Ok((step.path.as_path(), take(&step.path)?))).collect::<io::Result<_>>()?;
    let devices: Vec<(&str, OwnedFd)> =
        DEVICES.iter().filter_map(|name| Some((*name, take(&Path::new("/dev").join(name)).ok()?))).collect();
    raw::set_read_only(CWD, c"/", Mounts::Whole)
        .map_err(|error| named("make read-only", Path::new("/"), &error))?;
    make_devices(devices)?;
    cover_folders()?;
    let mut taken = taken.into_iter();
    for step in steps {
        match step.kind {
            StepKind::Writable | StepKind::Shown => {
                // The same order as when they were taken.
                let Some((path, tree)) = taken.next() else { break };
                make_mount_point(path, &tree)?;
                if step.kind == StepKind::Shown {
                    set_tree_read_only(&tree, path)?;
                }
                attach(&tree, path)?;
            }
            StepKind::Pinned => attach(&take(&step.path)?, &step.path)?,
            StepKind::Frozen => attach(&take_read_only(&step.path)?, &step.path)?,
            StepKind::HiddenFolder => cover(&step.path, EMPTY_FOLDER)?,
            StepKind::HiddenFile => cover(&step.path, EMPTY_FILE)?,
        }
    }
    close_devices()
}

/// Mounts the process table of this process's own namespace. Answers whether it could.
pub(super) fn mount_processes(most: usize) -> bool {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if mount("proc", "/proc", "proc", flags, None).is_err() {
        return false;
    }
    bound_processes(most);
    true
}

/// Nothing below `/proc` may be written: for the machine's root, some of it governs the machine.
pub(super) fn close_processes() -> io::Result<()> {
    raw::set_read_only(CWD, c"/proc", Mounts::Whole)
        .map_err(|error| named("make read-only", Path::new("/proc"), &error))
}

/// Since Linux 6.14 each PID namespace has a bound of its own; before, this file is not to be written.
#[expect(clippy::disallowed_methods, reason = "a setting of the namespace, not a file")]
fn bound_processes(most: usize) {
    // Then others bound the number.
    let _ = std::fs::write("/proc/sys/kernel/pid_max", most.to_string());
}

/// Whether the kernel holds this namespace to a number of processes.
#[expect(clippy::disallowed_methods, reason = "a setting of the namespace, not a file")]
pub(super) fn is_bounded(most: usize) -> bool {
    std::fs::read_to_string("/proc/sys/kernel/pid_max").is_ok_and(|text| text.trim().parse() == Ok(most))
}

/// A copy of what is mounted at a path, with all below, attached nowhere yet. Links are not followed.
pub(super) fn take(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags).map_err(|error| named("bind", path, &error.into()))
}

fn take_read_only(path: &Path) -> io::Result<OwnedFd> {
    let tree = take(path)?;
    set_tree_read_only(&tree, path)?;
    Ok(tree)
}

fn set_tree_read_only(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    raw::set_read_only(tree.as_fd(), c"", Mounts::Whole)
        .map_err(|error| named("make read-only", path, &error))
}

pub(super) fn attach(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    // Without a flag that says otherwise, a link at the end of the path is covered itself.
    move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(|error| named("mount over", path, &error.into()))
}

/// What has gone in the meantime, as sockets do, has nothing to hide any more.
fn cover(path: &Path, with: &str) -> io::Result<()> {
    match attach(&take_read_only(Path::new(with))?, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// What lies in a covered folder has lost the place to be mounted on.
fn make_mount_point(path: &Path, tree: &OwnedFd) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let is_folder = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode).is_dir();
    let folder = if is_folder { Some(path) } else { path.parent() };
    std::fs::create_dir_all(folder.unwrap_or(path)).map_err(|error| named("make", path, &error))?;
    if !is_folder {
        make_file(path, Mode::RUSR)?;
    }
    Ok(())
}

fn make_file(path: &Path, mode: Mode) -> io::Result<()> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, mode).map_err(|error| named("make", path, &error.into()))?;
    Ok(())
}

/// `/dev` with nothing in it that leads to the machine's hardware, terminals or shared memory.
fn make_devices(devices: Vec<(&str, OwnedFd)>) -> io::Result<()> {
    let folder = Path::new("/dev");
    let failed = |error: rustix::io::Errno| named("mount", folder, &error.into());
    mount_tmpfs("/dev", c"mode=0755,size=256k")?;
    for (name, device) in devices {
        let path = folder.join(name);
        make_file(&path, Mode::RUSR)?;
        attach(&device, &path)?;
    }
    for (target, link) in LINKS {
        symlink(target, link).map_err(|error| named("make", Path::new(link), &error))?;
    }
    std::fs::create_dir("/dev/pts")?;
    std::fs::create_dir("/dev/shm")?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", "/dev/pts", "devpts", flags, Some(c"newinstance,ptmxmode=0666,mode=620"))
        .map_err(failed)?;
    mount_tmpfs("/dev/shm", c"mode=1777,size=1g")?;
    make_file(Path::new(EMPTY_FILE), Mode::empty())?;
    std::fs::DirBuilder::new().mode(0o000).create(EMPTY_FOLDER)
}

fn close_devices() -> io::Result<()> {
    // Copies of them stay where they are mounted.
    rustix::fs::unlink(EMPTY_FILE)?;
    rustix::fs::unlinkat(CWD, EMPTY_FOLDER, AtFlags::REMOVEDIR)?;
    for folder in std::iter::once("/dev").chain(covered()) {
        let path = CString::new(folder)?;
        raw::set_read_only(CWD, &path, Mounts::One)
            .map_err(|error| named("make read-only", Path::new(folder), &error))?;
    }
    Ok(())
}

fn cover_folders() -> io::Result<()> {
    covered().try_for_each(|folder| mount_tmpfs(folder, c"mode=0755,size=256k"))
}

fn covered() -> impl Iterator<Item = &'static str> {
    let is_folder = |folder: &&str| Path::new(folder).symlink_metadata().is_ok_and(|found| found.is_dir());
    COVERED.into_iter().filter(is_folder)
}

fn mount_tmpfs(path: &str, options: &std::ffi::CStr) -> io::Result<()> {
    mount("tmpfs", path, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(options))
        .map_err(|error| named("mount", Path::new(path), &error.into()))
}
