//! The runtime: turns, context and sessions. It asks the model, hands proposed calls to control
//! and records what happened; it never touches the world itself.
#![warn(clippy::wildcard_enum_match_arm)]

mod agent;
mod budget;
mod commands;
mod compaction;
mod context;
mod ledger;
pub mod question;
pub mod replay;
mod reply;
mod retry;
pub mod rewind;
pub mod session;
mod spawn;
mod stuck;
pub mod tokens;
mod turn;
mod world;

pub use agent::AutoCompact;
pub use commands::commands;
pub use context::{
    Budget, ContextUsage, Instructed, Picture, Place, Share, Snapshot, Surroundings, Talk, default_system,
    window,
};
pub use ledger::{Context, Spent};
pub use spawn::{CacheBreaks, Handle, Lifetime, Limits, Origin, Recording, Start, spawn};
