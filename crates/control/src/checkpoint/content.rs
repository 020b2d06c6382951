//! Reads files into the form in which the store keeps them, and back. It opens regular files
//! only, follows no link and never waits for a pipe.

use super::standing::Stamp;
use ostler_tools::host::Hash;
use rustix::{
    fs::{self, FileType, Mode, OFlags},
    io::Errno,
};
use std::{
    ffi::OsStr,
    io,
    os::fd::{AsFd, OwnedFd},
};

/// How the bytes of a blob are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Zstd,
    /// As a file of its own that shares the disk blocks with the project's.
    Linked,
}

/// A content on its way into the store.
#[derive(Debug)]
pub(super) struct Blob {
    pub(super) hash: Hash,
    pub(super) size: u64,
    pub(super) form: Form,
    pub(super) data: Vec<u8>,
}

/// Reads, names and shrinks contents; its buffers are used again.
pub(super) struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
    buffer: Vec<u8>,
}

/// What reading a file gave.
pub(super) struct Taken {
    pub(super) hash: Hash,
    /// As it was when it was read.
    pub(super) stamp: Stamp,
    /// Absent when the store has it.
    pub(super) blob: Option<Blob>,
}

const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);

impl Packer {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { compressor: zstd::bulk::Compressor::new(1)?, buffer: Vec::new() })
    }

    /// Takes in the content of a regular file; `is_known` says what need not be packed.
    pub(super) fn take(
        &mut self,
        directory: impl AsFd,
        name: &OsStr,
        is_known: impl Fn(&Hash) -> bool,
    ) -> Result<Taken, Errno> {
        let file = fs::openat(directory, name, READ, Mode::empty())?;
        let mut stamp = Stamp::of(&fs::fstat(&file)?);
        if stamp.kind() != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        // A file that is written to while it is read is read again; one that never rests is taken
        // as it is, and its stamp is too young to be trusted later.
        for _ in 0..3 {
            read_whole(&file, stamp.size, &mut self.buffer)?;
            let after = Stamp::of(&fs::fstat(&file)?);
            let rested = after == stamp && self.buffer.len() as u64 == stamp.size;
            stamp = after;
            if rested {
                break;
            }
            fs::seek(&file, fs::SeekFrom::Start(0))?;
        }
        let hash = blake3::hash(&self.buffer);
        let blob = (!is_known(&hash)).then(|| self.pack(hash));
        Ok(Taken { hash, stamp, blob })
    }

    fn pack(&mut self, hash: Hash) -> Blob {
        /// Below this the frame costs more than is saved.
        const SHORT: usize = 64;
        let size = self.buffer.len() as u64;
        if self.buffer.len() > SHORT
            && let Ok(shrunk) = self.compressor.compress(&self.buffer)
            && shrunk.len() < self.buffer.len()
        {
            return Blob { hash, size, form: Form::Zstd, data: shrunk };
        }
        Blob { hash, size, form: Form::Plain, data: self.buffer.clone() }
    }
}

/// Gives back the bytes of a blob; `None` when they are not what their name says.
pub(super) fn unpack(blob: Blob) -> Option<Vec<u8>> {
    let bytes = match blob.form {
        Form::Plain | Form::Linked => blob.data,
        Form::Zstd => zstd::bulk::decompress(&blob.data, usize::try_from(blob.size).ok()?).ok()?,
    };
    (blake3::hash(&bytes) == blob.hash).then_some(bytes)
}

/// Writes everything to a file.
pub(super) fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let count = rustix::io::retry_on_intr(|| rustix::io::write(file, bytes))?;
        bytes = &bytes[count..];
    }
    Ok(())
}

fn read_whole(file: &OwnedFd, size: u64, buffer: &mut Vec<u8>) -> Result<(), Errno> {
    buffer.clear();
    // One byte more shows the end without another round.
    buffer.reserve(usize::try_from(size).unwrap_or_default().saturating_add(1));
    loop {
        if buffer.spare_capacity_mut().is_empty() {
            buffer.reserve(64 * 1024);
        }
        let spare = rustix::buffer::spare_capacity(buffer);
        if rustix::io::read(file, spare)? == 0 {
            return Ok(());
        }
    }
}
