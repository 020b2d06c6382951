//! Copies a folder as it stands: files, links, rights and times. Links are never followed, nothing is shared with the
//! original, and what is too much is said before the disk is full.

use anyhow::{Context, bail, ensure};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use std::{
    fs::{self, Metadata},
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

/// How much is copied at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Most {
    pub(super) bytes: u64,
    pub(super) entries: u64,
}

/// What is copied from now on.
struct Left<'a> {
    most: Most,
    /// Whether nothing more is wanted.
    stop: &'a AtomicBool,
}

/// Copies a folder to one that does not exist yet, unless it is told to stop.
pub(super) fn copy(from: &Path, to: &Path, most: Most, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut left = Left { most, stop };
    let found = fs::symlink_metadata(from).with_context(|| format!("cannot copy {}", from.display()))?;
    copy_folder(from, &found, to, &mut left).with_context(|| {
        format!(
            "cannot make a scratch copy of {} (at most {} MB and {} files are copied)",
            from.display(),
            most.bytes >> 20,
            most.entries
        )
    })
}

fn copy_folder(from: &Path, found: &Metadata, to: &Path, left: &mut Left<'_>) -> anyhow::Result<()> {
    let failed = || format!("cannot copy {}", from.display());
    fs::create_dir(to).with_context(failed)?;
    for entry in fs::read_dir(from).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        copy_entry(&entry.path(), &to.join(entry.file_name()), left)?;
    }
    // Last: a folder that cannot be written can still be filled until then.
    set_facts(to, found).with_context(failed)
}

fn copy_entry(from: &Path, to: &Path, left: &mut Left<'_>) -> anyhow::Result<()> {
    let failed = || format!("cannot copy {}", from.display());
    let found = fs::symlink_metadata(from).with_context(failed)?;
    let kind = found.file_type();
    ensure!(!left.stop.load(Ordering::Relaxed), "it was stopped");
    left.most.entries = left.most.entries.checked_sub(1).context("there are too many files")?;
    if kind.is_dir() {
        copy_folder(from, &found, to, left)
    } else if kind.is_symlink() {
        symlink(fs::read_link(from).with_context(failed)?, to).with_context(failed)
    } else if kind.is_file() {
        left.most.bytes = left.most.bytes.checked_sub(found.len()).context("there is too much in it")?;
        fs::copy(from, to).with_context(failed)?;
        set_facts(to, &found).with_context(failed)
    } else if kind.is_socket() || kind.is_fifo() {
        // It leads to a running program, which has no copy.
        Ok(())
    } else {
        bail!("{} is a device", from.display())
    }
}

fn set_facts(path: &Path, found: &Metadata) -> anyhow::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(found.mode()))?;
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(found.atime(), found.atime_nsec()),
        last_modification: time(found.mtime(), found.mtime_nsec()),
    };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "files to be copied")]
mod tests {
    use super::*;

    const MUCH: Most = Most { bytes: 1 << 20, entries: 100 };

    #[test]
    fn a_copy_is_the_same_and_shares_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let (from, to) = (temp.path().join("from"), temp.path().join("to"));
        fs::create_dir_all(from.join("sub/empty")).unwrap();
        fs::write(from.join("sub/run.sh"), "echo hi").unwrap();
        fs::set_permissions(from.join("sub/run.sh"), fs::Permissions::from_mode(0o751)).unwrap();
        fs::hard_link(from.join("sub/run.sh"), from.join("twin")).unwrap();
        symlink("/nowhere/at/all", from.join("link")).unwrap();
        fs::set_permissions(from.join("sub"), fs::Permissions::from_mode(0o555)).unwrap();
        copy(&from, &to, MUCH, &AtomicBool::new(false)).unwrap();
        let (old, new) =
            (fs::metadata(from.join("twin")).unwrap(), fs::metadata(to.join("sub/run.sh")).unwrap());
        assert_eq!((old.mode(), old.mtime_nsec(), old.len()), (new.mode(), new.mtime_nsec(), new.len()));
        assert!(old.ino() != new.ino() && new.nlink() == 1);
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/nowhere/at/all"));
        assert_eq!(fs::metadata(to.join("sub")).unwrap().mode() & 0o777, 0o555);
        assert!(to.join("sub/empty").is_dir());
        for folder in [&from, &to] {
            fs::set_permissions(folder.join("sub"), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[test]
    fn too_much_is_an_error_that_says_so() {
        let temp = tempfile::tempdir().unwrap();
        let from = temp.path().join("from");
        fs::create_dir(&from).unwrap();
        fs::write(from.join("a"), "four").unwrap();
        for most in [Most { bytes: 3, ..MUCH }, Most { entries: 0, ..MUCH }] {
            let to = temp.path().join(most.bytes.to_string());
            let error = format!("{:#}", copy(&from, &to, most, &AtomicBool::new(false)).unwrap_err());
            assert!(error.contains("cannot make a scratch copy of") && error.contains("too m"), "{error}");
        }
        let stopped = copy(&from, &temp.path().join("stopped"), MUCH, &AtomicBool::new(true)).unwrap_err();
        assert!(format!("{stopped:#}").ends_with("it was stopped"), "{stopped:#}");
    }
}
