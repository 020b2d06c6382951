//! From bytes to model events: frames the server-sent events, feeds a decoder, ends the stream
//! properly whatever happens. Holds back nothing but the event that is still arriving.

use crate::{
    EventStream, ModelError,
    wire::{Decode, Frame},
};
use bytes::Bytes;
use futures_util::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use ostler_proto::{ErrorKind, ModelEvent};
use sse_stream::SseByteStream;
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The body of an answer as it arrives.
pub type ByteStream = BoxStream<'static, Result<Bytes, ModelError>>;

/// Bytes that may arrive before an event is whole.
const LARGEST_EVENT: usize = 64 << 20;

/// How long the end of the body may lag behind the end of the answer. A body read to its end
/// leaves the connection fit for the next request.
const LINGER: Duration = Duration::from_millis(50);

struct Reader {
    events: SseByteStream<ByteStream>,
    decode: Decode,
    /// Bytes since the last whole event, counted where they enter the parser.
    unframed: Arc<AtomicUsize>,
    ready: VecDeque<Result<ModelEvent, ModelError>>,
    ended: bool,
}

/// The events that a body means. The last item is `Done` or an error.
pub(crate) fn events(bytes: ByteStream, decode: Decode) -> EventStream {
    let unframed = Arc::new(AtomicUsize::new(0));
    let limited = limit(bytes, Arc::clone(&unframed), LARGEST_EVENT);
    let reader = Reader {
        events: SseByteStream::new(limited),
        decode,
        unframed,
        ready: VecDeque::new(),
        ended: false,
    };
    stream::unfold(reader, async |mut reader| {
        let item = reader.next().await?;
        Some((item, reader))
    })
    .boxed()
}

impl Reader {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            if self.ended {
                return None;
            }
            self.read_event().await;
        }
    }

    async fn read_event(&mut self) {
        match self.events.next().await {
            Some(Ok(event)) => {
                self.unframed.store(0, Ordering::Relaxed);
                let data = event.data.as_deref().unwrap_or_default();
                // An event without data means nothing, by the standard.
                if !data.trim().is_empty() {
                    self.decode(
                        Frame::Event { name: event.event.as_deref().unwrap_or_default(), data },
                        None,
                    );
                }
            }
            // Some servers end without a last word; if the answer is whole, how the line went down
            // does not matter.
            Some(Err(error)) => self.decode(Frame::End, Some(transport_failure(error))),
            None => self.decode(Frame::End, None),
        }
        if matches!(self.ready.back(), Some(Ok(ModelEvent::Done { .. }))) {
            self.ended = true;
            // Whatever comes now is only read away; not getting to the end costs a reconnect.
            let _ = tokio::time::timeout(LINGER, async { while self.events.next().await.is_some() {} }).await;
        }
    }

    fn decode(&mut self, frame: Frame<'_>, broken: Option<ModelError>) {
        let mut decoded = Vec::new();
        let result = (self.decode)(frame, &mut decoded);
        self.ready.extend(decoded.into_iter().map(Ok));
        if let Err(error) = result {
            self.ready.push_back(Err(broken.unwrap_or(error)));
            self.ended = true;
        }
        self.ended |= matches!(frame, Frame::End);
    }
}

/// Stops an event that never ends, and completes a last event that lacks its empty line.
fn limit(bytes: ByteStream, unframed: Arc<AtomicUsize>, largest: usize) -> ByteStream {
    let last_line_end = stream::once(async { Ok(Bytes::from_static(b"\n\n")) });
    bytes
        .and_then(move |piece| {
            let held = unframed.fetch_add(piece.len(), Ordering::Relaxed) + piece.len();
            let too_much = held > largest;
            async move { if too_much { Err(too_large(largest)) } else { Ok(piece) } }
        })
        .chain(last_line_end)
        .boxed()
}

fn too_large(largest: usize) -> ModelError {
    let megabytes = largest >> 20;
    ModelError::hopeless(
        ErrorKind::ServerError,
        format!("the answer holds an event larger than {megabytes} MiB"),
    )
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is foreign and may grow")]
fn transport_failure(error: sse_stream::Error) -> ModelError {
    match error {
        sse_stream::Error::Body(source) => match source.downcast::<ModelError>() {
            Ok(error) => *error,
            Err(source) => ModelError::broken(format!("the answer broke off: {source}")),
        },
        error => ModelError::broken(format!("the answer is no sound event stream: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_endless_event_is_cut() {
        let piece = Bytes::from(vec![b'x'; 40]);
        let endless: ByteStream = stream::repeat_with(move || Ok(piece.clone())).boxed();
        let mut limited = limit(endless, Arc::default(), 100);
        assert!(limited.next().await.is_some_and(|piece| piece.is_ok()));
        assert!(limited.next().await.is_some_and(|piece| piece.is_ok()));
        assert_eq!(limited.next().await, Some(Err(too_large(100))));
    }
}
