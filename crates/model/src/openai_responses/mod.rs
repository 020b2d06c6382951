//! The Responses API: where it is and how its two pure halves are wired.

mod wire;

use crate::{
    api::Api,
    environment::Vendor,
    wire::{Decode, Frame},
};
use ostler_proto::Request;

/// The Responses API.
pub(crate) const API: Api = Api {
    name: "openai-responses",
    vendor: Vendor::OpenAi,
    base_url: "https://api.openai.com",
    path: &["responses"],
    headers: &[],
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
