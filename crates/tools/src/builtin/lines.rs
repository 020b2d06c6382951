//! Picks some lines out of a file of any length. Memory is bounded by what is picked: the rest is
//! hashed and counted as it goes by.

use crate::{host::Hash, text};
use std::{
    io::{self, Read},
    ops::Range,
};
use tokio_util::sync::CancellationToken;

/// A line longer than this many characters is cut, with a mark.
const MAX_LINE: usize = 2000;
/// How far a file is searched for the NUL that tells binary from text.
const BINARY_PROBE: usize = 8 * 1024;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// What was picked, and what the whole file is.
#[derive(Debug)]
pub(super) struct Picked {
    /// The lines, without their ends.
    pub(super) lines: Vec<String>,
    /// Whether lines of the range were left out because the text became too long.
    pub(super) overflowed: bool,
    /// How many lines the file has; what follows a last newline is a line too.
    pub(super) total: usize,
    /// How many bytes the file has.
    pub(super) bytes: u64,
    /// Of all bytes.
    pub(super) hash: Hash,
}

/// Reads to the end and keeps the lines of `range`, counted from 0, up to `max_chars` characters in
/// all. `None` when the file is binary.
pub(super) fn pick(
    mut reader: impl Read,
    range: Range<usize>,
    max_chars: usize,
    cancel: &CancellationToken,
) -> io::Result<Option<Picked>> {
    let mut picker = Picker { range, room: max_chars, ..Picker::default() };
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut bytes = 0;
    loop {
        if cancel.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        let piece = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => &buffer[..length],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if bytes < BINARY_PROBE && piece[..piece.len().min(BINARY_PROBE - bytes)].contains(&0) {
            return Ok(None);
        }
        bytes += piece.len();
        hasher.update(piece);
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            match part.split_last() {
                Some((b'\n', body)) => {
                    picker.push(body);
                    picker.end_line(LineEnd::Newline);
                }
                Some(_) | None => picker.push(part),
            }
        }
    }
    picker.end_line(LineEnd::EndOfFile);
    Ok(Some(Picked {
        lines: picker.lines,
        overflowed: picker.overflowed,
        total: picker.number,
        bytes: bytes as u64,
        hash: hasher.finalize(),
    }))
}

#[derive(Default)]
struct Picker {
    range: Range<usize>,
    room: usize,
    number: usize,
    line: Vec<u8>,
    lines: Vec<String>,
    overflowed: bool,
}

#[derive(Clone, Copy)]
enum LineEnd {
    Newline,
    EndOfFile,
}

impl Picker {
    fn push(&mut self, body: &[u8]) {
        if self.range.contains(&self.number) && !self.overflowed {
            // A character takes at most four bytes; one more shows that the line goes on.
            let room = (4 * MAX_LINE + BOM.len() + 4).saturating_sub(self.line.len());
            self.line.extend_from_slice(&body[..body.len().min(room)]);
        }
    }

    fn end_line(&mut self, end: LineEnd) {
        if self.range.contains(&self.number) && !self.overflowed {
            let line = self.finished_line(end);
            let length = line.chars().count() + 8;
            match self.room.checked_sub(length) {
                Some(left) => {
                    self.room = left;
                    self.lines.push(line);
                }
                None => self.overflowed = true,
            }
        }
        self.line.clear();
        self.number += 1;
    }

    fn finished_line(&self, end: LineEnd) -> String {
        let mut line = self.line.as_slice();
        if self.number == 0 {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if matches!(end, LineEnd::Newline) {
            line = line.strip_suffix(b"\r").unwrap_or(line);
        }
        let line = String::from_utf8_lossy(line);
        match text::first(&line, MAX_LINE) {
            Some(start) => format!("{start}… [line cut at {MAX_LINE} characters]"),
            None => line.into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives its bytes in small pieces, as a slow disk might.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(self.1).min(buffer.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    fn pick_all(bytes: &[u8], range: Range<usize>, piece: usize) -> Option<Picked> {
        pick(Pieces(bytes, piece), range, usize::MAX, &CancellationToken::new()).unwrap()
    }

    #[test]
    fn odd_files_are_read_as_text_or_refused() {
        let picked = pick_all(b"\xEF\xBB\xBFa\r\nb\xFF\r\r\nc\r", 0..9, 2).unwrap();
        assert_eq!(picked.lines, ["a", "b\u{FFFD}\r", "c\r"]);
        assert_eq!(pick_all(b"", 0..9, 1).unwrap().lines, [""]);
        assert!(pick_all(b"a\0b", 0..9, 1).is_none());
        let long = "é".repeat(2001);
        let line = &pick_all(long.as_bytes(), 0..1, 7).unwrap().lines[0];
        assert_eq!(*line, format!("{}… [line cut at 2000 characters]", "é".repeat(2000)));
    }

    #[test]
    fn too_much_text_is_left_out_from_the_end() {
        let picked = pick(&b"abcd\nefgh\nijkl"[..], 0..9, 25, &CancellationToken::new()).unwrap().unwrap();
        assert_eq!((picked.lines.len(), picked.overflowed, picked.total), (2, true, 3));
    }

    proptest! {
        #[test]
        fn picked_lines_are_those_of_split(
            text in "[a-c€\n\r]{0,60}",
            start in 0usize..9,
            count in 0usize..9,
            piece in 1usize..9,
        ) {
            let picked = pick_all(text.as_bytes(), start..start + count, piece).unwrap();
            let flat = text.replace("\r\n", "\n");
            let lines: Vec<&str> = flat.split('\n').collect();
            let expected: Vec<&str> = lines.iter().copied().skip(start).take(count).collect();
            prop_assert_eq!(picked.lines, expected);
            prop_assert_eq!(picked.total, lines.len());
            prop_assert_eq!(picked.hash, blake3::hash(text.as_bytes()));
        }
    }
}
