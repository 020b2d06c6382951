//! Output on the disk in bounded room: its start in one file, its end in segments of which the oldest
//! goes when a new one begins, joined when it is over. The files are the user's alone.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "writes the session's own files")]

use crate::artifact::make_private;
use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// How much of an output is kept on the disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Of its start.
    pub head: u64,
    /// Of its end, at least; a quarter more at times.
    pub tail: u64,
}

/// An output on its way to the disk. All of it blocks. Dropped before [`Spool::finish`], it leaves nothing.
#[derive(Debug)]
pub(super) struct Spool {
    path: PathBuf,
    room: Room,
    head: File,
    in_head: u64,
    /// The closed segments of the tail and then the open one, with their lengths.
    segments: VecDeque<(PathBuf, u64)>,
    open: Option<File>,
    next_segment: u64,
    lost: u64,
    finished: bool,
}

/// What stands on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spooled {
    /// Where.
    pub path: PathBuf,
    /// How long the file is.
    pub size: u64,
    /// How many bytes are missing between its two ends.
    pub lost: u64,
}

impl Default for Room {
    fn default() -> Self {
        Self { head: 64 * 1024 * 1024, tail: 64 * 1024 * 1024 }
    }
}

impl Spool {
    /// A new file; its folder is made where it is missing.
    pub(super) fn create(path: &Path, room: Room) -> io::Result<Self> {
        make_private(path.parent().unwrap_or(Path::new("/")))?;
        Ok(Self {
            head: create(path)?,
            path: path.to_owned(),
            room,
            in_head: 0,
            segments: VecDeque::new(),
            open: None,
            next_segment: 0,
            lost: 0,
            finished: false,
        })
    }

    /// Takes in the next bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let fits = usize::try_from(self.room.head - self.in_head).unwrap_or(usize::MAX);
        let (first, mut rest) = bytes.split_at(bytes.len().min(fits));
        self.head.write_all(first)?;
        self.in_head += first.len() as u64;
        while !rest.is_empty() {
            let room = self.room_in_segment()?;
            let (now, later) = rest.split_at(rest.len().min(room));
            if let (Some(file), Some((_, length))) = (&mut self.open, self.segments.back_mut()) {
                file.write_all(now)?;
                *length += now.len() as u64;
            }
            rest = later;
        }
        Ok(())
    }

    /// Room in the open segment, after opening another and giving up the oldest where needed.
    fn room_in_segment(&mut self) -> io::Result<usize> {
        let whole = (self.room.tail / 4).max(1);
        let used = self.segments.back().map_or(whole, |(_, length)| *length);
        if self.open.is_some() && used < whole {
            return Ok(usize::try_from(whole - used).unwrap_or(usize::MAX));
        }
        // Four whole segments and the open one hold at least the room of the tail.
        if self.segments.len() > 4
            && let Some((oldest, length)) = self.segments.pop_front()
        {
            std::fs::remove_file(oldest)?;
            self.lost += length;
        }
        let path = self.path.with_extension(format!("tail-{}", self.next_segment));
        self.next_segment += 1;
        self.open = Some(create(&path)?);
        self.segments.push_back((path, 0));
        Ok(usize::try_from(whole).unwrap_or(usize::MAX))
    }

    /// How many bytes are gone so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Joins what there is into the one file.
    pub(super) fn finish(mut self) -> io::Result<Spooled> {
        if self.lost > 0 {
            write!(self.head, "\n\n[… {} bytes of output were not kept here …]\n\n", self.lost)?;
        }
        self.open = None;
        while let Some((path, _)) = self.segments.front() {
            io::copy(&mut File::open(path)?, &mut self.head)?;
            std::fs::remove_file(path)?;
            self.segments.pop_front();
        }
        let size = self.head.metadata()?.len();
        self.finished = true;
        Ok(Spooled { path: self.path.clone(), size, lost: self.lost })
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // What stays because it cannot be removed is in a folder of the session's own.
        let _ = std::fs::remove_file(&self.path);
        for (path, _) in &self.segments {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn files(folder: &Path) -> Vec<u64> {
        folder.read_dir().unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn both_ends_are_kept_in_the_room_there_is(
            length in 0usize..4000,
            piece in 1usize..300,
            head in 1u64..400,
            tail in 4u64..400,
        ) {
            let temp = tempfile::tempdir().unwrap();
            let bytes: Vec<u8> = (0..length).map(|at| b'a' + u8::try_from(at % 26).unwrap()).collect();
            let mut spool = Spool::create(&temp.path().join("x.txt"), Room { head, tail }).unwrap();
            for piece in bytes.chunks(piece) {
                spool.write(piece).unwrap();
                let on_disk: u64 = files(temp.path()).iter().sum();
                prop_assert!(on_disk <= head + tail + tail / 2, "{on_disk}");
            }
            let spooled = spool.finish().unwrap();
            prop_assert_eq!(files(temp.path()), vec![spooled.size]);
            let kept = std::fs::read(&spooled.path).unwrap();
            let lost = usize::try_from(spooled.lost).unwrap();
            if lost == 0 {
                prop_assert_eq!(kept, bytes);
            } else {
                let head = usize::try_from(head).unwrap();
                let end = &bytes[head + lost..];
                prop_assert!(end.len() as u64 >= tail - tail % 4);
                prop_assert!(kept.starts_with(&bytes[..head]) && kept.ends_with(end));
            }
        }
    }

    #[test]
    fn dropped_unfinished_it_leaves_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(&temp.path().join("x.txt"), Room { head: 2, tail: 4 }).unwrap();
        spool.write(b"0123456789").unwrap();
        assert!(files(temp.path()).len() > 2);
        drop(spool);
        assert!(files(temp.path()).is_empty());
    }
}
