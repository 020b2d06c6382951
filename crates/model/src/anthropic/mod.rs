//! The Anthropic Messages API: where it is and how its two pure halves are wired.

mod wire;

use crate::{
    api::Api,
    environment::Vendor,
    wire::{Decode, Frame},
};
use ostler_proto::Request;

/// The Messages API.
pub(crate) const API: Api = Api {
    name: "anthropic",
    vendor: Vendor::Anthropic,
    base_url: "https://api.anthropic.com",
    path: &["messages"],
    headers: &[("anthropic-version", "2023-06-01")],
    encode: wire::encode,
    decoder,
};

fn decoder(request: &Request) -> Decode {
    let mut decoder = wire::Decoder::new(request);
    Box::new(move |frame, out| match frame {
        Frame::Event { name, data } => decoder.push(name, data, out),
        Frame::End => decoder.finish(),
    })
}
