//! The system calls that have no safe wrapper in the libraries used here. Nothing else in this
//! crate may be unsafe; each function says why its call is sound.
#![expect(unsafe_code, reason = "calls without a safe wrapper, each argued below")]

use rustix::{
    io::FdFlags,
    thread::{UnshareFlags, unshare_unsafe},
};
use std::{
    ffi::{CStr, c_long},
    io,
    mem::size_of,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

/// The kernel's `struct mount_attr`.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

const MOUNT_ATTR_RDONLY: u64 = 1;

/// Takes over a descriptor that was passed on the command line, closed to programs started later.
pub(super) fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    if number < 3 {
        return Err(io::Error::other("a standard stream is not to be adopted"));
    }
    // SAFETY: only looked at; a number that is not open is answered with EBADF.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    // SAFETY: it is open (just seen), and the warden, which has one thread and has opened nothing
    // under this number itself, adopts each number of its order once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Closes descriptors that came along by accident or to tell by their closing.
pub(super) fn close(numbers: impl Iterator<Item = RawFd>) {
    for number in numbers.filter(|number| *number > 2) {
        // SAFETY: only looked at; a number that is not open is answered with EBADF.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        if rustix::io::fcntl_getfd(borrowed).is_ok() {
            // SAFETY: it is open, and nothing of this process has it: this is done before anything is
            // opened, on the one thread, and leaves out what the order names.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
}

/// Leaves namespaces of the parent's for new ones.
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    if flags.contains(UnshareFlags::FILES) {
        return Err(io::Error::other("descriptors stay shared"));
    }
    // SAFETY: the call is unsound only with `CLONE_FILES`, refused above.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// Makes a tree of mounts read-only, with everything mounted below it.
pub(super) fn set_read_only(directory: BorrowedFd<'_>, path: &CStr, reach: Mounts) -> io::Result<()> {
    let attributes = MountAttributes { set: MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, user_namespace: 0 };
    let flags = libc::AT_EMPTY_PATH
        | match reach {
            Mounts::Whole => libc::AT_RECURSIVE,
            Mounts::One => 0,
        };
    // SAFETY: path and attributes are valid for the length of the call, and the size is theirs.
    let result: c_long = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory.as_raw_fd(),
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How much of a tree of mounts is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mounts {
    /// What is mounted there.
    One,
    /// That and all that is mounted below.
    Whole,
}
