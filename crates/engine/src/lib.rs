//! The runtime: turns, context and sessions. It asks the model, hands proposed calls to control
//! and records what happened; it never touches the world itself.
#![warn(clippy::wildcard_enum_match_arm)]

mod agent;
mod context;
mod ledger;
mod reply;
mod retry;
pub mod session;
mod spawn;
mod turn;

pub use context::{Surroundings, default_system};
pub use spawn::{Handle, Lifetime, Limits, Start, spawn};
