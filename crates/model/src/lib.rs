//! Speaks to model APIs: request in, events out. Nothing here retries, counts money or knows
//! what a tool does; that belongs to the engine.
#![warn(clippy::wildcard_enum_match_arm)]

mod anthropic;
mod api;
mod catalog;
mod copy;
mod environment;
mod error;
mod http;
mod openai;
mod openai_chat;
mod openai_responses;
mod registry;
pub mod script;
mod secret;
mod tool_name;
mod wire;
mod written;

pub use api::Api;
pub use catalog::Catalog;
pub use copy::{Copied, Copy, Head, body};
pub use environment::{Environment, EnvironmentError, Vendor};
pub use error::{Action, ChooseError, ModelError};
pub use http::{Waits, sse::ByteStream};
pub use registry::{APIS, Chosen, Models};
pub use secret::Secret;
pub use wire::{Decode, Frame};
pub use written::Written;

use futures_util::stream::BoxStream;
use ostler_proto::{ModelEvent, Request};

/// A model's answer as it comes. Dropping it cancels the request.
pub type EventStream = BoxStream<'static, Result<ModelEvent, ModelError>>;

/// What a model that cannot see is told in place of a picture.
pub(crate) const NO_IMAGES: &str = "[a picture or document that this model cannot see]";

/// One way to reach a model.
///
/// Implementors owe: events of one answer in order, every started block stopped before `Done`,
/// `Done` exactly once and last, and an error as the last item when the answer breaks off.
/// They never retry and never hold the whole answer back.
pub trait Provider: Send + Sync {
    /// Sends the request and returns the answer as it comes; both are copied.
    fn stream_copied(&self, request: Request, copy: Copy) -> EventStream;

    /// Sends the request and returns the answer as it comes.
    fn stream(&self, request: Request) -> EventStream {
        self.stream_copied(request, Copy::nowhere())
    }
}
