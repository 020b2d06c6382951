//! Requests to ask with.

use ostler_proto::{Block, Message, Request, Thinking};
use std::sync::Arc;

/// A request with one short prompt.
pub(crate) fn hello(model: &str) -> Request {
    Request {
        model: model.to_owned(),
        system: vec![],
        tools: Arc::new([]),
        messages: vec![Arc::new(Message::user(vec![Block::text("hello")]))],
        max_output_tokens: 1_000,
        thinking: Thinking::Auto,
        effort: None,
    }
}
