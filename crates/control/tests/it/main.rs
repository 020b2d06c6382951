//! The executor against tools that do exactly what a test tells them: order, overlap, conflicts,
//! asking, cancelling and breaking.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod cases;
mod checkpoint;
mod hooks;
