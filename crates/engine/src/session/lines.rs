//! Lines of a file of any size, one at a time. Memory is bounded: a line longer than any request could
//! be is passed over, never held.

use std::{
    io::{self, ErrorKind, Read},
    ops::ControlFlow,
};

/// No request of any API is as long, so a longer line cannot be part of one.
pub(super) const LONGEST: usize = 64 << 20;
/// What is read at once.
const PIECE: usize = 256 << 10;

/// One line.
pub(super) struct Line<'a> {
    /// Counts from one.
    pub(super) number: usize,
    /// Where it begins, from where reading began.
    pub(super) offset: u64,
    /// What stands in it, without its end.
    pub(super) content: Content<'a>,
}

/// What stands in a line.
pub(super) enum Content<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// All there is: the file ends within it.
    Torn(&'a [u8]),
    /// So many bytes that it was not read.
    TooLong(u64),
}

/// What is wrong with a line of nothing but zero bytes: the file had grown and the machine went down.
pub(super) const UNWRITTEN: &str = "what belongs there was never written: there are only zero bytes";

/// Shows each line until there is none or enough was seen.
pub(super) fn each(
    source: impl Read,
    see: impl FnMut(Line<'_>) -> io::Result<ControlFlow<()>>,
) -> io::Result<()> {
    each_up_to(LONGEST, source, see)
}

fn each_up_to(
    longest: usize,
    mut source: impl Read,
    mut see: impl FnMut(Line<'_>) -> io::Result<ControlFlow<()>>,
) -> io::Result<()> {
    let mut held = Held { buffer: vec![0; PIECE.min(longest.max(1))], begin: 0, end: 0, scanned: 0 };
    let (mut number, mut offset, mut passed_over) = (1, 0, 0_u64);
    loop {
        if let Some(length) = held.find_end() {
            let content = match passed_over {
                0 => Content::Whole(&held.buffer[held.begin..held.begin + length]),
                bytes => Content::TooLong(bytes + length as u64),
            };
            let seen = see(Line { number, offset, content })?;
            number += 1;
            offset += passed_over + length as u64 + 1;
            passed_over = 0;
            held.drop_line(length);
            if seen.is_break() {
                return Ok(());
            }
            continue;
        }
        if held.is_full() && held.buffer.len() >= longest {
            passed_over += held.give_up();
        }
        if held.fill(&mut source, longest)? == 0 {
            break;
        }
    }
    let rest = &held.buffer[held.begin..held.end];
    let content = match (rest, passed_over) {
        ([], 0) => return Ok(()),
        (rest, 0) => Content::Torn(rest),
        (rest, bytes) => Content::TooLong(bytes + rest.len() as u64),
    };
    see(Line { number, offset, content }).map(drop)
}

/// What was read and not yet shown.
struct Held {
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// Up to here there is no end of a line.
    scanned: usize,
}

impl Held {
    /// The length of the first line, if its end is here.
    fn find_end(&mut self) -> Option<usize> {
        let found = memchr::memchr(b'\n', &self.buffer[self.scanned..self.end]);
        let length = found.map(|at| self.scanned + at - self.begin);
        if length.is_none() {
            self.scanned = self.end;
        }
        length
    }

    fn drop_line(&mut self, length: usize) {
        self.begin += length + 1;
        self.scanned = self.begin;
    }

    fn is_full(&self) -> bool {
        self.begin == 0 && self.end == self.buffer.len()
    }

    /// Forgets an unfinished line and says how much of it there was.
    fn give_up(&mut self) -> u64 {
        let bytes = (self.end - self.begin) as u64;
        (self.begin, self.end, self.scanned) = (0, 0, 0);
        bytes
    }

    fn fill(&mut self, source: &mut impl Read, longest: usize) -> io::Result<usize> {
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.scanned -= self.begin;
            self.begin = 0;
        }
        if self.end == self.buffer.len() {
            let longer = (self.buffer.len() * 2).min(longest);
            self.buffer.resize(longer, 0);
        }
        loop {
            match source.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Number, offset, the line or its length, and whether it is torn.
    type Seen = (usize, u64, Result<Vec<u8>, u64>, bool);

    /// Gives as little at once as it is told to.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(self.1).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn lines(bytes: &[u8], longest: usize, at_once: usize) -> Vec<Seen> {
        let mut seen = Vec::new();
        each_up_to(longest, Drops(bytes, at_once), |line| {
            let (content, torn) = match line.content {
                Content::Whole(bytes) => (Ok(bytes.to_vec()), false),
                Content::Torn(bytes) => (Ok(bytes.to_vec()), true),
                Content::TooLong(bytes) => (Err(bytes), false),
            };
            seen.push((line.number, line.offset, content, torn));
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        seen
    }

    proptest! {
        #[test]
        fn lines_come_as_they_stand_however_they_are_read(
            text in proptest::collection::vec(prop_oneof![3 => Just(b'a'), 1 => Just(b'\n')], 0..200),
            longest in 1usize..20,
            at_once in 1usize..30,
        ) {
            let mut offset = 0;
            let mut expected = Vec::new();
            let mut pieces: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
            let last = pieces.pop().unwrap_or_default();
            for (index, piece) in pieces.iter().enumerate() {
                // A line fits when it and its end do.
                let content = if piece.len() < longest { Ok(piece.to_vec()) } else { Err(piece.len() as u64) };
                expected.push((index + 1, offset, content, false));
                offset += piece.len() as u64 + 1;
            }
            if !last.is_empty() {
                let fits = last.len() < longest;
                let content = if fits { Ok(last.to_vec()) } else { Err(last.len() as u64) };
                expected.push((pieces.len() + 1, offset, content, fits));
            }
            prop_assert_eq!(lines(&text, longest, at_once), expected);
        }
    }
}
