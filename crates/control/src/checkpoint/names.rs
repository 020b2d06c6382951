//! Reads the names in a folder into buffers that are used again, for walks through many folders.

use ostler_tools::host::is_temporary_name;
use rustix::io::Errno;
use std::{
    ffi::{CStr, OsStr},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
};

/// The names in a folder.
#[derive(Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    /// Where each name ends.
    ends: Vec<usize>,
    /// What the kernel writes into.
    #[cfg(target_os = "linux")]
    buffer: Vec<u8>,
}

impl Names {
    /// Reads them, once, from a folder that was just opened.
    #[cfg(target_os = "linux")]
    pub(super) fn read(&mut self, folder: &OwnedFd) -> Result<(), Errno> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.reserve(64 * 1024);
        self.clear();
        let mut entries = rustix::fs::RawDir::new(folder, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            self.add(entry?.file_name());
        }
        self.buffer = buffer;
        Ok(())
    }

    /// Reads them.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn read(&mut self, folder: &OwnedFd) -> Result<(), Errno> {
        self.clear();
        for entry in rustix::fs::Dir::read_from(folder)? {
            self.add(entry?.file_name());
        }
        Ok(())
    }

    /// Gives them in the folder's own order, save those of files that a call of ours is just writing.
    pub(super) fn iter(&self) -> impl Iterator<Item = &OsStr> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let names = begins.zip(&self.ends).map(|(begin, &end)| OsStr::from_bytes(&self.bytes[begin..end]));
        names.filter(|name| !is_temporary_name(name))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn add(&mut self, name: &CStr) {
        let name = name.to_bytes();
        if name != b"." && name != b".." {
            self.bytes.extend_from_slice(name);
            self.ends.push(self.bytes.len());
        }
    }
}
