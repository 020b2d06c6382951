//! The model plane from outside: recorded answers in, events out, and real sockets.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod chaos;
mod fixtures;
mod loopback;
mod recorded;
mod requests;
