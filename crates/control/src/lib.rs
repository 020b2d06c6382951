//! Decides and runs: settings, permissions, asking and the executor. Every side effect of the
//! product passes through here; nothing here talks to a model or to a person.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod checkpoint;
mod examine;
pub mod executor;
mod front_matter;
pub mod hooks;
pub mod instructions;
pub mod memory;
pub mod notes;
pub mod permission;
pub mod rehearse;
pub mod settings;
pub mod trust;

pub use examine::examine;
pub use executor::{CallInput, ExecEvent, Executor, Finished, Setup};
pub use hooks::Hooks;
pub use permission::{Policy, Question, decide};
