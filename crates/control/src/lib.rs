//! Decides and runs: settings, permissions, asking and the executor. Every side effect of the
//! product passes through here; nothing here talks to a model or to a person.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod executor;
pub mod permission;
pub mod settings;

pub use executor::{CallInput, ExecEvent, Executor, Finished, Setup};
pub use permission::{Policy, Question, decide};
