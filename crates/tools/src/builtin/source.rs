//! The text of a file and how it is written there: in which encoding, and whether a BOM comes first.
//! Neither is part of the text, and both come back as they were.

use super::{
    draft::visible,
    encoding::{Encoding, Extent},
};
use memchr::memchr;
use std::borrow::Cow;

const BOM: char = '\u{FEFF}';

/// A text file.
#[derive(Debug)]
pub(super) struct Source {
    raw: String,
    encoding: Encoding,
    /// Where the text starts in `raw`: after the BOM, if there is one.
    start: usize,
}

impl Source {
    /// Reads a file's bytes, if they are text that can be written back byte for byte. The error
    /// says what stands against it, to follow `cannot be edited: `.
    pub(super) fn decode(bytes: Vec<u8>) -> Result<Self, String> {
        let bytes = match String::from_utf8(bytes) {
            // A NUL tells that it is not UTF-8 after all.
            Ok(text) if memchr(0, text.as_bytes()).is_none() => return Ok(Self::new(Encoding::UTF_8, text)),
            Ok(text) => text.into_bytes(),
            Err(error) => error.into_bytes(),
        };
        let Some(encoding) = Encoding::of(&bytes, Extent::Whole) else {
            return Err("it is not a text file".to_owned());
        };
        let text = encoding.decode(&bytes);
        if encoding.encode(&text).as_ref() == Ok(&bytes) {
            return Ok(Self::new(encoding, text.into_owned()));
        }
        Err(format!(
            "some of its bytes are no valid {} and would not survive being written back",
            encoding.name()
        ))
    }

    /// The bytes of a new text, written as this one is. The error says what stands against it, as
    /// in [`Source::decode`].
    pub(super) fn encode(&self, text: String) -> Result<Vec<u8>, String> {
        let raw = match self.start {
            0 => text,
            _ => format!("{BOM}{text}"),
        };
        if self.encoding == Encoding::UTF_8 {
            return Ok(raw.into_bytes());
        }
        self.encoding.encode(&raw).map_err(|character| {
            format!(
                "it is written in {}, which has no character {character:?} (U+{:04X})",
                self.encoding.name(),
                u32::from(character)
            )
        })
    }

    fn new(encoding: Encoding, raw: String) -> Self {
        let start = if raw.starts_with(BOM) { BOM.len_utf8() } else { 0 };
        Self { raw, encoding, start }
    }

    /// The text.
    pub(super) fn text(&self) -> &str {
        &self.raw[self.start..]
    }

    /// Whether the file holds the very bytes of [`Source::into_raw`].
    pub(super) fn is_as_written(&self) -> bool {
        self.encoding == Encoding::UTF_8
    }

    /// The text as the model sees it: every line ending a newline.
    pub(super) fn visible(&self) -> Cow<'_, str> {
        visible(self.text())
    }

    /// Where the text starts in [`Source::into_raw`].
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// All that is there, the BOM too.
    pub(super) fn into_raw(self) -> String {
        self.raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn files_that_cannot_be_written_back_are_refused() {
        let refused = |bytes: &[u8]| Source::decode(bytes.to_vec()).unwrap_err();
        assert_eq!(refused(b"\x7FELF\0\0\0\0"), "it is not a text file");
        let damaged = refused("äöüäöüäöü\u{e4}".as_bytes().strip_suffix(b"\xA4").unwrap());
        assert!(damaged.contains("no valid UTF-8"), "{damaged}");
        let lone_half = refused(b"\xFF\xFEa\0\0\xD8b\0");
        assert!(lone_half.contains("no valid UTF-16LE"), "{lone_half}");
        let latin = Source::decode(b"caf\xE9".to_vec()).unwrap();
        let error = latin.encode("caf→".to_owned()).unwrap_err();
        assert!(error.contains("windows-1252, which has no character '→' (U+2192)"), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_decoded_comes_back_byte_for_byte(
            bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                "\\PC{0,60}".prop_map(String::into_bytes),
                "\u{FEFF}?[a-zäé日\r\n]{0,60}".prop_map(|text| text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
                "\u{FEFF}?[a-zäé日\r\n]{0,60}".prop_map(|text| text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
                "[а-я \n]{0,60}".prop_map(|text| encoding_rs::WINDOWS_1251.encode(&text).0.into_owned()),
                "[ぁ-ん漢字\n]{0,60}".prop_map(|text| encoding_rs::SHIFT_JIS.encode(&text).0.into_owned()),
            ],
        ) {
            if let Ok(source) = Source::decode(bytes.clone()) {
                prop_assert_eq!(source.encode(source.text().to_owned()).unwrap(), bytes);
            }
        }
    }
}
