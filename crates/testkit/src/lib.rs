//! A model that says what a script tells it, behind real sockets: for tests of the whole agent and
//! for trying clients without a key. Nothing here is ever part of the shipped program.
//!
//! A request becomes an answer in one direction: `http` reads it, `conversation` understands it,
//! `play` picks and fills the turn, `anthropic` / `chat` / `responses` put it into frames, `wire`
//! cuts and splits them, `exchange` writes them out and `log` remembers what happened when.
//!
//! ```
//! # use ostler_testkit::{Options, Server, script};
//! let server = Server::start_with(
//!     script("[[turn]]\nsteps = [{ call = 'Read', input = { file_path = 'a' } }]"),
//!     Options::default(),
//! )?;
//! // … a client talks to server.url() …
//! server.assert_no_failures();
//! server.assert_valid_histories();
//! server.assert_append_only();
//! # Ok::<(), std::io::Error>(())
//! ```
#![expect(clippy::expect_used, reason = "what cannot be done here fails the test that asked for it")]

mod anthropic;
mod chat;
mod conversation;
mod exchange;
mod history;
mod http;
mod log;
mod play;
mod prefix;
pub mod process;
mod reply;
pub mod repo;
mod responses;
mod script;
mod server;
mod wire;

pub use conversation::Protocol;
pub use history::{assert_valid_history, check_history};
pub use log::{Ended, Mark, Recorded};
pub use prefix::{assert_byte_prefix, assert_prefixes, check_append_only, common_bytes};
pub use repo::TempRepo;
pub use script::{EXAMPLE, call, load, parse, say, script, turn};
pub use server::{AtEnd, Options, Server};
