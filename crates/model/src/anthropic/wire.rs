//! The Messages API's JSON, both ways, without any I/O.

mod decode;
mod encode;

pub(super) use decode::Decoder;
pub(super) use encode::encode;

/// The longest tool name the API takes.
const LONGEST_NAME: usize = 128;
