//! Drives print mode as its users do: bytes in and out of pipes on one side, envelopes and commands on
//! the other. No engine: each test says what happens.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

mod control;
mod pipes;
mod stage;
mod stream;
mod text;
