//! Programs as users: one-shot print mode and the stream-json dialogue, over any pair of pipes.
//! Everything here only watches envelopes and sends commands; nothing decides, runs or remembers a turn.
#![warn(clippy::wildcard_enum_match_arm)]

mod ask;
mod cap;
mod clean;
mod control;
mod form;
mod frame;
mod frontend;
mod hook;
mod line;
mod partial;
mod print;
mod queue;
mod result;
mod screen;
mod spend;
mod summary;
mod text;

pub use clean::escape as visible;
pub use print::{
    About, Asks, Input, ModelChoice, Narrate, Output, Pipes, Print, StateFrames, StreamOptions, run,
};
