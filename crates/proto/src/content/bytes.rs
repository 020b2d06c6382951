//! Bytes that should be text and are not quite. What is no UTF-8 is shown as the bytes it is, never dropped.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text of some bytes, and how many of them were no text; those are spelled out as `\x9b`.
pub fn from_bytes(bytes: &[u8]) -> (Cow<'_, str>, usize) {
    if let Ok(text) = str::from_utf8(bytes) {
        return (Cow::Borrowed(text), 0);
    }
    let (mut text, mut invalid) = (String::with_capacity(bytes.len()), 0);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            invalid += 1;
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    (Cow::Owned(text), invalid)
}
