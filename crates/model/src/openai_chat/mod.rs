//! The Chat Completions API, the one every compatible server speaks: where it is and how its two
//! pure halves are wired.

mod wire;

use crate::{
    api::Api,
    environment::Vendor,
    wire::{Decode, Frame},
};
use ostler_proto::Request;

/// The Chat Completions API.
pub(crate) const API: Api = Api {
    name: "openai-chat",
    vendor: Vendor::OpenAi,
    base_url: "https://api.openai.com",
    path: &["chat", "completions"],
    headers: &[],
    encode: wire::encode,
    decoder,
};

fn decoder(request: &Request) -> Decode {
    let mut decoder = wire::Decoder::new(request);
    Box::new(move |frame, out| match frame {
        Frame::Event { data, .. } => decoder.push(data, out),
        Frame::End => decoder.finish(out),
    })
}
