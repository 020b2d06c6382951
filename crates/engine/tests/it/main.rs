//! The engine through its public face: sessions on disk, whatever happens to their files.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests damage real files")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod damage;
mod races;
mod size;
