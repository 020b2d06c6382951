//! One API as data: where it is, how a key travels, how its bytes are written and read.
//! A new API is a constant of this type and a line in the registry.

use crate::{
    Action, Copy, EventStream, ModelError, Provider, Written,
    environment::Vendor,
    http::{
        Http, Target,
        sse::{self, ByteStream},
    },
    wire::Decode,
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use ostler_proto::{ErrorKind, ModelRow, Request};
use reqwest::Url;
use std::sync::{Arc, Mutex, PoisonError};

/// A model API.
#[derive(Debug)]
pub struct Api {
    /// Its name in [`ModelRow::api`].
    pub name: &'static str,
    /// Whose keys and addresses in the environment it uses.
    pub vendor: Vendor,
    /// The vendor's own address.
    pub base_url: &'static str,
    /// The path below the version.
    pub path: &'static [&'static str],
    /// Headers every request carries.
    pub headers: &'static [(&'static str, &'static str)],
    /// The body of a request, given what was written for the one before it. Consecutive requests of a conversation
    /// share their beginning.
    pub encode: fn(&Request, &ModelRow, &mut Written) -> Vec<u8>,
    /// A decoder for the answer to a request.
    pub decoder: fn(&Request) -> Decode,
}

/// A model behind an API.
pub(crate) struct Remote {
    pub(crate) api: &'static Api,
    pub(crate) http: Arc<Http>,
    pub(crate) target: Arc<Target>,
    pub(crate) row: ModelRow,
    pub(crate) written: Mutex<Written>,
    /// Whether asking without a key can only fail.
    pub(crate) needs_key: bool,
}

impl Api {
    /// Reads an answer from bytes that came some other way, such as a recording.
    pub fn read(&self, request: &Request, bytes: ByteStream) -> EventStream {
        sse::events(bytes, (self.decoder)(request))
    }

    /// The address of requests below a base URL, which may or may not name the version.
    pub fn address(&self, base: &Url) -> Url {
        let names_version = base.path().split('/').any(|part| {
            part.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
        let mut address = base.clone();
        if let Ok(mut parts) = address.path_segments_mut() {
            parts.pop_if_empty();
            parts.extend(if names_version { None } else { Some("v1") });
            parts.extend(self.path);
        }
        address
    }
}

impl Provider for Remote {
    fn stream_copied(&self, request: Request, copy: Copy) -> EventStream {
        if self.needs_key && self.target.secret.is_none() {
            return stream::once(std::future::ready(Err(self.no_key()))).boxed();
        }
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let body = Bytes::from((self.api.encode)(&request, &self.row, &mut written));
        drop(written);
        copy.sends(self.api.name, &body);
        let decode = (self.api.decoder)(&request);
        Arc::clone(&self.http).stream(Arc::clone(&self.target), body, decode, copy)
    }
}

impl Remote {
    fn no_key(&self) -> ModelError {
        let message = format!(
            "no API key: set {} to use this model, or choose another with --model",
            self.target.key_variable
        );
        ModelError::new(Action::LogIn, ErrorKind::AuthenticationFailed, message)
    }
}
