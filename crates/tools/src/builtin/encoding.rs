//! How the bytes of a file stand for text: found by looking at them, and turned back exactly.
//! It never changes a byte it cannot give back; what would be lost is refused, not replaced.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{UTF_8, UTF_16BE, UTF_16LE};
use memchr::{memchr, memchr_iter};
use std::{borrow::Cow, str};

/// How far a file is searched for what tells binary from text.
const PROBE: usize = 8 * 1024;
/// How much is looked at to tell one old encoding from another.
const GUESS: usize = 1024 * 1024;

/// One way to write text as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Encoding(&'static encoding_rs::Encoding);

/// How much of a file the bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it.
    Whole,
    /// The start: a character may be cut at its end.
    Start,
}

/// The text that a whole file's bytes stand for, or nothing when they are none.
pub fn text_of(bytes: &[u8]) -> Option<Cow<'_, str>> {
    Encoding::of(bytes, Extent::Whole).map(|encoding| encoding.decode(bytes))
}

impl Encoding {
    /// What nearly every text is written in, and every new one.
    pub(super) const UTF_8: Self = Self(UTF_8);

    /// The encoding of a text, or `None` when the bytes are none.
    pub(super) fn of(bytes: &[u8], extent: Extent) -> Option<Self> {
        if let Some((marked, _)) = encoding_rs::Encoding::for_bom(bytes) {
            // The mark of UTF-32 starts like that of UTF-16.
            return (!bytes.starts_with(b"\xFF\xFE\0\0")).then_some(Self(marked));
        }
        let probe = &bytes[..bytes.len().min(PROBE)];
        if memchr(0, probe).is_some() {
            return unmarked_utf16(probe).or_else(|| has_holes(probe, extent).then_some(UTF_8)).map(Self);
        }
        let valid = match (str::from_utf8(bytes), extent) {
            (Ok(_), Extent::Whole | Extent::Start) => return Some(Self::UTF_8),
            (Err(error), Extent::Start) if error.error_len().is_none() => return Some(Self::UTF_8),
            (Err(error), Extent::Whole | Extent::Start) => error.valid_up_to(),
        };
        if is_damaged_utf8(bytes) {
            return Some(Self::UTF_8);
        }
        let controls = probe.iter().filter(|byte| matches!(byte, 0..=8 | 14..=26 | 28..=31 | 127)).count();
        if controls * 50 > probe.len() {
            return None;
        }
        let from = valid.saturating_sub(PROBE);
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(&bytes[from..bytes.len().min(from + GUESS)], false);
        Some(Self(detector.guess(None, Utf8Detection::Deny)))
    }

    /// Its usual name.
    pub(super) fn name(self) -> &'static str {
        self.0.name()
    }

    /// The text that bytes stand for; what stands for nothing becomes U+FFFD. A byte order mark stays.
    pub(super) fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        self.0.decode_without_bom_handling(bytes).0
    }

    /// The bytes of a text, or the first character that cannot be written.
    pub(super) fn encode(self, text: &str) -> Result<Vec<u8>, char> {
        if self.0 == UTF_8 {
            Ok(text.as_bytes().to_vec())
        } else if self.0 == UTF_16LE {
            Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect())
        } else if self.0 == UTF_16BE {
            Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect())
        } else {
            self.encode_legacy(text)
        }
    }

    /// How many bytes the shortest character takes; every character takes a multiple of that.
    pub(super) fn unit(self) -> usize {
        if self.0 == UTF_16LE || self.0 == UTF_16BE { 2 } else { 1 }
    }

    /// Where the first newline is, in bytes that start with a whole character.
    pub(super) fn newline(self, bytes: &[u8]) -> Option<usize> {
        if self.unit() == 1 { memchr(b'\n', bytes) } else { self.wide_newlines(bytes).next() }
    }

    /// How many newlines there are, in bytes that start with a whole character.
    pub(super) fn count_newlines(self, bytes: &[u8]) -> usize {
        if self.unit() == 1 { memchr_iter(b'\n', bytes).count() } else { self.wide_newlines(bytes).count() }
    }

    fn wide_newlines(self, bytes: &[u8]) -> impl Iterator<Item = usize> {
        let (low, newline) = if self.0 == UTF_16LE { (0, [b'\n', 0]) } else { (1, [0, b'\n']) };
        memchr_iter(b'\n', bytes).filter_map(move |at| {
            let start = at.checked_sub(low)?;
            (start.is_multiple_of(2) && bytes.get(start..start + 2) == Some(&newline)).then_some(start)
        })
    }

    fn encode_legacy(self, text: &str) -> Result<Vec<u8>, char> {
        let mut encoder = self.0.new_encoder();
        let mut bytes = Vec::new();
        let mut rest = text;
        loop {
            let room = encoder.max_buffer_length_from_utf8_without_replacement(rest.len());
            bytes.reserve(room.unwrap_or(4 * rest.len() + 16));
            let (result, read) = encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut bytes, true);
            rest = &rest[read..];
            match result {
                encoding_rs::EncoderResult::InputEmpty => return Ok(bytes),
                encoding_rs::EncoderResult::OutputFull => {}
                encoding_rs::EncoderResult::Unmappable(character) => return Err(character),
            }
        }
    }
}

/// UTF-16 that does not say so: plain characters in every second byte make it visible.
fn unmarked_utf16(probe: &[u8]) -> Option<&'static encoding_rs::Encoding> {
    let pairs = || probe.chunks_exact(2);
    let (mut high_first, mut low_first) = (0, 0);
    for pair in pairs() {
        high_first += usize::from(pair[0] == 0);
        low_first += usize::from(pair[1] == 0);
    }
    let (encoding, unit): (_, fn([u8; 2]) -> u16) =
        if low_first > high_first { (UTF_16LE, u16::from_le_bytes) } else { (UTF_16BE, u16::from_be_bytes) };
    let looks_like_text = char::decode_utf16(pairs().map(|pair| unit([pair[0], pair[1]]))).all(|character| {
        match character {
            Ok(character) => {
                matches!(character, '\t' | '\n' | '\x0C' | '\r' | '\x1B') || !character.is_control()
            }
            // The probe may end between the halves of a character.
            Err(half) => (0xD800..0xDC00).contains(&half.unpaired_surrogate()) && probe.len() == PROBE,
        }
    });
    (looks_like_text && probe.len().is_multiple_of(2)).then_some(encoding)
}

/// Whether bytes are text with holes in it, as a log has that was emptied while it was written: long
/// runs of nothing between plain words. Only a file too long to be looked at may be all hole so far.
fn has_holes(probe: &[u8], extent: Extent) -> bool {
    const LONG: usize = 512;
    let mut text = 0;
    for run in probe.chunk_by(|a, b| (*a == 0) == (*b == 0)) {
        let is_hole = run[0] == 0;
        let is_cut = run.as_ptr_range().end == probe.as_ptr_range().end;
        if is_hole && run.len() < LONG && !is_cut {
            return false;
        }
        if !is_hole {
            let plain = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
            if !run.iter().all(plain) {
                return false;
            }
            text += run.len();
        }
    }
    text >= 64 || extent == Extent::Start
}

/// Whether bytes are UTF-8 with a few errors: text of another encoding hardly ever holds several
/// whole multi-byte characters by chance.
fn is_damaged_utf8(bytes: &[u8]) -> bool {
    let (mut whole, mut broken) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        whole += chunk.valid().chars().filter(|character| !character.is_ascii()).count();
        broken += usize::from(!chunk.invalid().is_empty());
    }
    whole > 4 * broken
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(bytes: &[u8], encoding: Option<&str>) {
        assert_eq!(Encoding::of(bytes, Extent::Whole).map(Encoding::name), encoding, "{bytes:?}");
    }

    fn utf16(text: &str, order: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(order).collect()
    }

    #[test]
    fn encodings_are_told_apart() {
        check(b"", Some("UTF-8"));
        check("naïve €".as_bytes(), Some("UTF-8"));
        check(b"\xEF\xBB\xBFa", Some("UTF-8"));
        check(&utf16("\u{FEFF}a", u16::to_le_bytes), Some("UTF-16LE"));
        check(&utf16("\u{FEFF}a", u16::to_be_bytes), Some("UTF-16BE"));
        check(&utf16("Grüße, Jürgen\r\n日本 €\n", u16::to_le_bytes), Some("UTF-16LE"));
        check(&utf16("Grüße, Jürgen\r\n日本 €\n", u16::to_be_bytes), Some("UTF-16BE"));
        check(b"Gr\xFC\xDFe aus K\xF6ln", Some("windows-1252"));
        let russian = encoding_rs::WINDOWS_1251.encode("Привет, как дела? Это обычный русский текст.").0;
        check(&russian, Some("windows-1251"));
        let japanese = encoding_rs::SHIFT_JIS.encode("これは日本語のテキストです。漢字も含まれています。").0;
        check(&japanese, Some("Shift_JIS"));
        check("ein Wort ä ö ü ß é è und ein Rest \u{e4}".as_bytes(), Some("UTF-8"));
        check(b"\xC3\xA4\xC3\xB6\xC3\xBC\xC3\x9F\xC3\xA9 and one stray \xFF byte", Some("UTF-8"));
        check(b"\x7FELF\x02\x01\x01\0\0\0\0", None);
        check(b"\xFF\xFE\0\0a\0\0\0", None);
        check(&[0; 4096], None);
        check(&[[0; 4096].as_slice(), &b"a line of a log\n".repeat(9)].concat(), Some("UTF-8"));
        assert_eq!(Encoding::of(&[0; 4096], Extent::Start), Some(Encoding::UTF_8));
        check(&(0..=255u8).filter(|byte| *byte != 0).collect::<Vec<_>>(), None);
    }

    #[test]
    fn a_character_cut_at_the_end_of_a_sample_is_no_error() {
        let bytes = "ab€".as_bytes();
        assert_eq!(Encoding::of(&bytes[..4], Extent::Start), Some(Encoding::UTF_8));
        assert_eq!(Encoding::of(&bytes[..4], Extent::Whole).map(Encoding::name), Some("windows-1252"));
    }

    #[test]
    fn what_an_encoding_lacks_is_named() {
        let latin = Encoding(encoding_rs::WINDOWS_1252);
        assert_eq!(latin.encode("añ€"), Ok(b"a\xF1\x80".to_vec()));
        assert_eq!(latin.encode("a→b"), Err('→'));
    }

    #[test]
    fn wide_newlines_are_whole_units() {
        let little = Encoding(UTF_16LE);
        let bytes = utf16("\u{0A00}\u{000A}\u{0A0A}\u{000A}", u16::to_le_bytes);
        assert_eq!((little.newline(&bytes), little.count_newlines(&bytes)), (Some(2), 2));
        let big = Encoding(UTF_16BE);
        let bytes = utf16("\u{0A00}\u{000A}\u{0A0A}\u{000A}", u16::to_be_bytes);
        assert_eq!((big.newline(&bytes), big.count_newlines(&bytes)), (Some(2), 2));
    }

    proptest! {
        #[test]
        fn text_comes_back_from_every_encoding(text in "[a-z äöüß€\n\r\t]{0,80}") {
            for encoding in [UTF_8, UTF_16LE, UTF_16BE, encoding_rs::WINDOWS_1252] {
                let bytes = Encoding(encoding).encode(&text).unwrap();
                prop_assert_eq!(Encoding(encoding).decode(&bytes), text.as_str());
            }
        }

        #[test]
        fn every_byte_string_comes_back_from_latin(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let latin = Encoding(encoding_rs::WINDOWS_1252);
            prop_assert_eq!(latin.encode(&latin.decode(&bytes)).unwrap(), bytes);
        }
    }
}
