//! The Chat Completions API's JSON, both ways, without any I/O.

mod decode;
mod encode;

pub(super) use decode::Decoder;
pub(super) use encode::encode;
