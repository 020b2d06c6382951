//! Touches the world: the built-in tools and the host they act through.
//! No tool checks its own permission; it says what it would do and is run, or not, by control.
#![warn(clippy::wildcard_enum_match_arm)]

mod artifact;
pub mod builtin;
mod contract;
pub mod host;
mod registry;
mod text;
pub mod web;

pub use artifact::{Artifacts, Kept};
pub use contract::{Effect, Plan, PlanContext, Progress, ReadPolicy, RunContext, Sight, Tool};
pub use registry::{DuplicateName, Registered, Registry};
pub use text::cut;
