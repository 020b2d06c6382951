//! Picks some lines out of a file: from memory, or from a stream of any length, where memory is
//! bounded by what is picked. Lines outside the range are counted, never kept.

use super::encoding::{Encoding, Extent};
use crate::text;
use std::{
    fmt::{self, Write as _},
    io::{self, Read},
    ops::Range,
};
use tokio_util::sync::CancellationToken;

/// No character of a supported encoding takes more bytes.
const MAX_CHARACTER: usize = 4;
/// What the mark of a cut line takes, and the number before a line.
const MARK: usize = 72;
/// How much of a stream tells its encoding.
const SAMPLE: usize = 64 * 1024;
const BUFFER: usize = 256 * 1024;
const BOM: char = '\u{FEFF}';

/// What to pick.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Which lines, counted from 0.
    pub(super) range: Range<usize>,
    /// A line longer than so many characters is cut, with a mark.
    pub(super) max_line: usize,
    /// How many characters at most, in all.
    pub(super) max_chars: usize,
    /// How many bytes after the range are looked at, to know how many lines there are.
    pub(super) look_ahead: u64,
}

/// What was picked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Picked {
    /// The lines, joined by newlines.
    pub(super) content: String,
    /// How many they are.
    pub(super) count: usize,
    /// Those among them that were cut, counted from 0: each with how many bytes of its text are there.
    pub(super) cut: Vec<(usize, usize)>,
    /// Whether lines of the range were left out because the text became too long.
    pub(super) overflowed: bool,
    /// How many lines the file has.
    pub(super) total: Total,
}

/// How many lines a file has; what follows a last newline is a line too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Total {
    /// So many.
    Exact(usize),
    /// More than so many: the rest was not counted.
    MoreThan(usize),
}

/// Picks from a file in memory.
pub(super) fn pick(bytes: &[u8], encoding: Encoding, wanted: Wanted) -> Picked {
    let mut picker = Picker::new(encoding, wanted);
    // A last byte without its partner is no character; it is shown as what it is, broken.
    picker.feed(bytes);
    picker.finish(Reached::End)
}

/// Picks from a stream, up to its end unless that is far. `None` when the file is binary.
pub(super) fn stream(
    mut reader: impl Read,
    wanted: Wanted,
    cancel: &CancellationToken,
) -> io::Result<Option<Picked>> {
    let mut buffer = vec![0; BUFFER];
    let mut filled = fill(&mut reader, &mut buffer[..SAMPLE])?;
    let extent = if filled < SAMPLE { Extent::Whole } else { Extent::Start };
    let Some(encoding) = Encoding::of(&buffer[..filled], extent) else { return Ok(None) };
    let look_ahead = wanted.look_ahead;
    let mut picker = Picker::new(encoding, wanted);
    let mut ahead = 0;
    while filled > 0 {
        if cancel.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        if picker.is_past() || picker.is_full() {
            ahead += filled as u64;
            if ahead > look_ahead {
                return Ok(Some(picker.finish(Reached::Enough)));
            }
        }
        // Half a unit at the end waits for its other half.
        let whole = filled - filled % encoding.unit();
        picker.feed(&buffer[..whole]);
        buffer.copy_within(whole..filled, 0);
        let kept = filled - whole;
        let read = read_some(&mut reader, &mut buffer[kept..])?;
        if read == 0 {
            picker.feed(&buffer[..kept]);
            break;
        }
        filled = kept + read;
    }
    Ok(Some(picker.finish(Reached::End)))
}

fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read_some(reader, &mut buffer[filled..])? {
            0 => break,
            length => filled += length,
        }
    }
    Ok(filled)
}

fn read_some(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

struct Picker {
    encoding: Encoding,
    range: Range<usize>,
    max_line: usize,
    room: usize,
    /// The line the next byte belongs to.
    number: usize,
    /// The start of that line, where it began in bytes fed before.
    line: Vec<u8>,
    content: String,
    count: usize,
    cut: Vec<(usize, usize)>,
    overflowed: bool,
}

#[derive(Clone, Copy)]
enum Reached {
    End,
    Enough,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Newline,
    EndOfFile,
}

impl Picker {
    fn new(encoding: Encoding, wanted: Wanted) -> Self {
        Self {
            encoding,
            range: wanted.range,
            max_line: wanted.max_line,
            room: wanted.max_chars,
            number: 0,
            line: Vec::new(),
            content: String::new(),
            count: 0,
            cut: Vec::new(),
            overflowed: false,
        }
    }

    /// How much of a line is kept: what is shown, and enough to know that it goes on.
    fn max_line_bytes(&self) -> usize {
        (self.max_line + 2).saturating_mul(MAX_CHARACTER)
    }

    fn is_past(&self) -> bool {
        self.number >= self.range.end || self.overflowed
    }

    /// Whether no more bytes can change what is picked: the last line is longer than is shown.
    fn is_full(&self) -> bool {
        self.number + 1 >= self.range.end && self.line.len() >= self.max_line_bytes()
    }

    fn feed(&mut self, bytes: &[u8]) {
        let mut rest = self.skip_to_range(bytes);
        while !self.is_past() && !rest.is_empty() {
            let Some(end) = self.encoding.newline(rest) else {
                let room = self.max_line_bytes().saturating_sub(self.line.len());
                self.line.extend_from_slice(&rest[..rest.len().min(room)]);
                return;
            };
            self.take_line(&rest[..end], LineEnd::Newline);
            rest = &rest[end + self.encoding.unit()..];
        }
        self.number += self.encoding.count_newlines(rest);
    }

    /// What remains when the lines before the range are counted off.
    fn skip_to_range<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.number >= self.range.start {
            return bytes;
        }
        let found = self.encoding.count_newlines(bytes);
        if self.number + found < self.range.start {
            self.number += found;
            return &[];
        }
        let mut rest = bytes;
        while self.number < self.range.start {
            let Some(end) = self.encoding.newline(rest) else { return &[] };
            rest = &rest[end + self.encoding.unit()..];
            self.number += 1;
        }
        rest
    }

    fn take_line(&mut self, body: &[u8], end: LineEnd) {
        let mut line = std::mem::take(&mut self.line);
        if line.is_empty() {
            self.add(body, end);
        } else {
            let room = self.max_line_bytes().saturating_sub(line.len());
            line.extend_from_slice(&body[..body.len().min(room)]);
            self.add(&line, end);
            line.clear();
            self.line = line;
        }
        self.number += 1;
    }

    fn add(&mut self, body: &[u8], end: LineEnd) {
        let decoded = self.encoding.decode(&body[..body.len().min(self.max_line_bytes())]);
        let mut line = decoded.as_ref();
        if self.number == 0 {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if end == LineEnd::Newline {
            line = line.strip_suffix('\r').unwrap_or(line);
        }
        let cut = text::first(line, self.max_line);
        // The number and the tab before a line are characters too.
        let length = if cut.is_some() { self.max_line + MARK } else { line.chars().count() + 8 };
        let Some(left) = self.room.checked_sub(length) else {
            self.overflowed = true;
            return;
        };
        self.room = left;
        if self.count > 0 {
            self.content.push('\n');
        }
        let kept = cut.unwrap_or(line);
        if kept.contains('\0') {
            // Not every reader of the result can take the character itself.
            self.content.push_str(&kept.replace('\0', "\u{2400}"));
        } else {
            self.content.push_str(kept);
        }
        if cut.is_some() {
            self.cut.push((self.count, kept.len()));
            // Writing to a string cannot fail.
            let _ = write!(self.content, "… [line cut at {} characters]", self.max_line);
        }
        self.count += 1;
    }

    fn finish(mut self, reached: Reached) -> Picked {
        let total = match reached {
            Reached::Enough => {
                if !self.line.is_empty() {
                    self.take_line(&[], LineEnd::EndOfFile);
                }
                Total::MoreThan(self.number)
            }
            Reached::End => {
                let in_range = self.range.contains(&self.number) && !self.overflowed;
                if in_range {
                    self.take_line(&[], LineEnd::EndOfFile);
                    Total::Exact(self.number)
                } else {
                    Total::Exact(self.number + 1)
                }
            }
        };
        let Self { content, count, cut, overflowed, .. } = self;
        Picked { content, count, cut, overflowed, total }
    }
}

impl Total {
    /// The number that is known.
    pub(super) fn known(self) -> usize {
        match self {
            Self::Exact(lines) | Self::MoreThan(lines) => lines,
        }
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(lines) => write!(f, "{lines}"),
            Self::MoreThan(lines) => write!(f, "more than {lines}"),
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

    fn all(range: Range<usize>) -> Wanted {
        Wanted { range, max_line: 2000, max_chars: usize::MAX, look_ahead: 1 << 20 }
    }

    fn stream_all(bytes: &[u8], range: Range<usize>, piece: usize) -> Option<Picked> {
        stream(Pieces(bytes, piece), all(range), &CancellationToken::new()).unwrap()
    }

    /// Feeds a picker directly, so that small files meet the edges between pieces too.
    fn feed_pieces(bytes: &[u8], encoding: Encoding, wanted: Wanted, piece: usize) -> Picked {
        let mut picker = Picker::new(encoding, wanted);
        bytes.chunks(piece * encoding.unit()).for_each(|piece| picker.feed(piece));
        picker.finish(Reached::End)
    }

    #[test]
    fn odd_files_are_read_as_text_or_refused() {
        let picked = stream_all(b"\xEF\xBB\xBFa\r\nb\xFF\r\r\nc\r", 0..9, 2).unwrap();
        assert_eq!(picked.content, "a\nb\u{FFFD}\r\nc\r");
        let empty = stream_all(b"", 0..9, 1).unwrap();
        assert_eq!((empty.content.as_str(), empty.count, empty.total), ("", 1, Total::Exact(1)));
        assert!(stream_all(b"a\0b", 0..9, 1).is_none());
        let wide: Vec<u8> = "\u{FEFF}é\r\n→\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(stream_all(&wide, 0..9, 1).unwrap().content, "é\n→\n");
        assert_eq!(stream_all(b"caf\xE9\nna\xEFve", 1..2, 3).unwrap().content, "naïve");
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        for character in ["é", "€", "🦀"] {
            let long = format!("{}\nnext", character.repeat(3000));
            for piece in [7, 1000] {
                let picked = feed_pieces(long.as_bytes(), Encoding::UTF_8, all(0..2), piece);
                let shown = format!("{}… [line cut at 2000 characters]\nnext", character.repeat(2000));
                assert_eq!((picked.content, picked.cut), (shown, vec![(0, 2000 * character.len())]));
            }
            let exact = character.repeat(2000);
            assert_eq!(pick(exact.as_bytes(), Encoding::UTF_8, all(0..1)).content, exact);
        }
    }

    #[test]
    fn too_much_text_is_left_out_from_the_end() {
        let wanted = Wanted { max_chars: 25, ..all(0..9) };
        let picked = pick(b"abcd\nefgh\nijkl", Encoding::UTF_8, wanted);
        assert_eq!((picked.count, picked.overflowed, picked.total), (2, true, Total::Exact(3)));
    }

    #[test]
    fn a_far_end_is_not_counted() {
        let endless = io::repeat(b'\n');
        let picked = stream(endless, all(5..7), &CancellationToken::new()).unwrap().unwrap();
        assert_eq!((picked.content.as_str(), picked.count), ("\n", 2));
        assert!(matches!(picked.total, Total::MoreThan(lines) if lines >= 1 << 20));
        let picked = stream(io::repeat(b'a'), all(0..1), &CancellationToken::new()).unwrap().unwrap();
        assert_eq!((picked.count, picked.total), (1, Total::MoreThan(1)), "a line without an end");
        let cancel = CancellationToken::new();
        cancel.cancel();
        assert!(stream(io::repeat(b'a'), all(0..7), &cancel).is_err());
    }

    proptest! {
        #[test]
        fn picked_lines_are_those_of_split(
            text in "\u{FEFF}?[a-c€\n\r]{0,60}",
            start in 0usize..9,
            count in 0usize..9,
            piece in 1usize..9,
            wide in any::<bool>(),
        ) {
            let flat = text.replace("\r\n", "\n");
            let lines: Vec<&str> = flat.strip_prefix(BOM).unwrap_or(&flat).split('\n').collect();
            let picked: Vec<&str> = lines.iter().copied().skip(start).take(count).collect();
            let expected = Picked {
                content: picked.join("\n"),
                count: picked.len(),
                cut: Vec::new(),
                overflowed: false,
                total: Total::Exact(lines.len()),
            };
            let (encoding, bytes) = if wide {
                let bytes = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
                (Encoding::of(b"\xFF\xFE", Extent::Start).unwrap(), bytes)
            } else {
                (Encoding::UTF_8, text.clone().into_bytes())
            };
            let wanted = all(start..start + count);
            prop_assert_eq!(&pick(&bytes, encoding, wanted.clone()), &expected);
            prop_assert_eq!(&feed_pieces(&bytes, encoding, wanted, piece), &expected);
            if !wide {
                prop_assert_eq!(&stream_all(&bytes, start..start + count, piece).unwrap(), &expected);
            }
        }
    }
}
