//! Copies of what went to a model and of what came back, byte for byte, so that an answer can be given again
//! without the model. Collects in memory; where copies are kept is the caller's business.

use crate::{APIS, EventStream, ModelError, Written};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use ostler_proto::{ErrorKind, ModelEvent, ModelRow, Request};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where one exchange is copied to while it happens. Clones share the copy.
#[derive(Debug, Clone, Default)]
pub struct Copy(Option<Arc<Mutex<Copied>>>);

/// One exchange.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Copied {
    /// What is known of it without its bytes.
    pub head: Head,
    /// The request's body; empty when nothing was sent.
    pub request: Bytes,
    /// The answer's body as far as it came; for a script, its events as lines of JSON.
    pub bytes: Vec<u8>,
}

/// What is known of an exchange without its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Head {
    /// The API, as in [`ModelRow::api`]; empty when nothing was sent.
    pub api: String,
    /// The API's id of the request.
    pub request: Option<String>,
}

/// The name scripts go by among APIs.
const SCRIPT: &str = "script";

impl Copy {
    /// A copy that is kept.
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// No copy at all.
    pub fn nowhere() -> Self {
        Self(None)
    }

    /// What was copied so far, which leaves the copy empty.
    pub fn take(&self) -> Copied {
        self.change(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn sends(&self, api: &str, body: &Bytes) {
        self.change(|copied| {
            api.clone_into(&mut copied.head.api);
            copied.request = body.clone();
        });
    }

    pub(crate) fn is_answered(&self, request: Option<&String>) {
        self.change(|copied| copied.head.request = request.cloned());
    }

    pub(crate) fn receives(&self, piece: &[u8]) {
        self.change(|copied| copied.bytes.extend_from_slice(piece));
    }

    /// An event that never was bytes of an API.
    pub(crate) fn plays(&self, event: &ModelEvent) {
        self.change(|copied| {
            // Events hold nothing that cannot be JSON.
            let _ = serde_json::to_writer(&mut copied.bytes, event);
            copied.bytes.push(b'\n');
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut Copied) -> T) -> Option<T> {
        let mut copied: MutexGuard<'_, Copied> =
            self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(change(&mut copied))
    }
}

impl Copied {
    /// The answer again, without the waits. An error that is no part of the bytes, such as a lost connection, is
    /// not in it.
    pub fn read(&self, request: &Request) -> EventStream {
        let head = self.head.clone();
        if head.api == SCRIPT {
            let events: Vec<_> =
                self.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(played).collect();
            return stream::iter(events).boxed();
        }
        let Some(api) = APIS.into_iter().find(|api| api.name == head.api) else {
            let error = unreadable(format!("the recording names the API '{}', which is not known", head.api));
            return stream::once(std::future::ready(Err(error))).boxed();
        };
        let bytes = stream::once(std::future::ready(Ok(Bytes::copy_from_slice(&self.bytes)))).boxed();
        api.read(request, bytes)
            .map_ok(move |event| crate::http::with_request(event, head.request.as_ref()))
            .boxed()
    }
}

fn played(line: &[u8]) -> Result<ModelEvent, ModelError> {
    serde_json::from_slice(line)
        .map_err(|error| unreadable(format!("the recording of a script is damaged: {error}")))
}

fn unreadable(message: String) -> ModelError {
    ModelError::hopeless(ErrorKind::InvalidRequest, message)
}

/// The body that a request would go out as; a script is sent nothing, so any true likeness will do.
pub fn body(request: &Request, row: &ModelRow) -> Vec<u8> {
    let api = APIS.into_iter().find(|api| api.name == row.api).unwrap_or(&crate::anthropic::API);
    (api.encode)(request, row, &mut Written::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script;
    use ostler_proto::{Message, Thinking};

    fn request() -> Request {
        Request {
            model: "m".to_owned(),
            system: vec![],
            tools: Arc::new([]),
            messages: vec![Arc::new(Message::user(vec![ostler_proto::Block::text("go")]))],
            max_output_tokens: 100,
            thinking: Thinking::Auto,
            effort: None,
        }
    }

    #[tokio::test]
    async fn a_script_is_given_again_word_for_word() {
        let text =
            "[[turn]]\nsteps = [{ text = \"a\\nb\" }, { call = \"Read\", input = { file_path = \"x\" } }]";
        let player = script::from_text(text, "/".into()).unwrap();
        let copy = Copy::new();
        let live: Vec<_> = player.stream_copied(request(), copy.clone()).collect().await;
        let copied = copy.take();
        assert_eq!(copied.request, body(&request(), &script::row()));
        let again: Vec<_> = copied.read(&request()).collect().await;
        assert_eq!(again, live);
        assert!(live.len() > 5 && copy.take() == Copied::default());
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_an_error() {
        let odd =
            Copied { head: Head { api: "telegraph".to_owned(), ..Head::default() }, ..Copied::default() };
        let damaged = Copied {
            head: Head { api: SCRIPT.to_owned(), ..Head::default() },
            bytes: b"{\n".to_vec(),
            ..Copied::default()
        };
        for copied in [odd, damaged] {
            assert!(copied.read(&request()).next().await.unwrap().is_err());
        }
    }
}
