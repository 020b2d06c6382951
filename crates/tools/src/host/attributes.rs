//! Gives a new file what an old one had beside its content: owner, extended attributes (access
//! lists are among them) and mode. What cannot be kept is an error, never a silent loss.

use rustix::{
    fs::{self, Gid, Mode, Uid, XattrFlags},
    io::Errno,
};
use std::{ffi::CString, fs::Metadata, os::fd::AsFd, os::unix::fs::MetadataExt};

/// Why an attribute could not be kept.
#[derive(Debug)]
pub(super) enum Lost {
    /// The file would belong to somebody else.
    Owner,
    /// The system refused.
    Io(Errno),
}

impl From<Errno> for Lost {
    fn from(errno: Errno) -> Self {
        Self::Io(errno)
    }
}

/// Copies all that `old` has to `new`, which was made by this process and is not in use yet.
pub(super) fn copy(old: impl AsFd, metadata: &Metadata, new: impl AsFd, made: &Metadata) -> Result<(), Lost> {
    let (owner, group) = (metadata.uid(), metadata.gid());
    if (owner, group) != (made.uid(), made.gid()) {
        fs::fchown(&new, Some(Uid::from_raw(owner)), Some(Gid::from_raw(group))).map_err(|errno| {
            // Only root gives files away, and only members give files to a group.
            if errno == Errno::PERM { Lost::Owner } else { Lost::Io(errno) }
        })?;
    }
    copy_extended(old, &new)?;
    // After the change of owner, which clears the set-id bits, and of the access list, whose mask
    // the mode shows.
    Ok(fs::fchmod(&new, Mode::from_raw_mode(metadata.mode()))?)
}

fn copy_extended(old: impl AsFd, new: impl AsFd) -> Result<(), Errno> {
    let (wanted, inherited) = (names(&old)?, names(&new)?);
    for name in inherited.iter().filter(|name| !wanted.contains(name)) {
        unless_guarded(name, fs::fremovexattr(&new, name.as_c_str()))?;
    }
    for name in &wanted {
        let mut value = vec![0; fs::fgetxattr_query(&old, name.as_c_str())?];
        let length = fs::fgetxattr(&old, name.as_c_str(), value.as_mut_slice())?;
        unless_guarded(name, fs::fsetxattr(&new, name.as_c_str(), &value[..length], XattrFlags::empty()))?;
    }
    Ok(())
}

fn names(file: impl AsFd) -> Result<Vec<CString>, Errno> {
    let length = match fs::flistxattr_query(&file) {
        // A file system without attributes.
        Ok(0) | Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        Ok(length) => length,
        Err(errno) => return Err(errno),
    };
    let mut list = vec![0; length];
    let length = fs::flistxattr(&file, list.as_mut_slice())?;
    list.truncate(length);
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.filter_map(|name| CString::new(name).ok()).collect())
}

/// The kernel keeps some attributes to itself: labels, which it gives again by its own rules, and
/// capabilities, which any write takes away.
fn unless_guarded(name: &CString, done: Result<(), Errno>) -> Result<(), Errno> {
    let guarded = ["security.", "trusted.", "system.nfs4", "com.apple."]
        .iter()
        .any(|space| name.to_bytes().starts_with(space.as_bytes()));
    match done {
        Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::INVAL) if guarded => Ok(()),
        done => done,
    }
}
