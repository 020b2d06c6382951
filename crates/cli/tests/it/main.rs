//! The built binary as a user meets it, against the scripted model server over real sockets.
#![expect(clippy::disallowed_methods, reason = "tests start the real binary and look at real files")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

mod budget;
mod clock;
mod commands;
mod compaction;
mod consult;
mod context;
mod crash;
mod debug;
mod faults;
mod hooks;
mod host;
mod instructions;
mod interrupt;
mod jobs;
mod output;
mod permission;
mod recovery;
mod replay;
mod rewind;
mod sdk;
mod sessions;
mod shell;
mod stage;
mod tools;
mod trust;
mod turns;
mod undo;
mod undo_together;
