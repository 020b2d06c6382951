//! How long an answer may take: deadlines on silence, on standing still and on the whole of it. Timers are
//! monotonic; a process that was stopped and goes on finds what arrived meanwhile before its deadline.

use super::{Waits, sse::ByteStream};
use crate::{EventStream, ModelError};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use ostler_proto::ModelEvent;
use std::{pin::pin, time::Duration};
use tokio::time::{Instant, error::Elapsed, timeout, timeout_at};

/// After a stop of the whole process a deadline and the bytes it waited for come at the same moment; the
/// bytes are given this time to make their way.
const GRACE: Duration = Duration::from_millis(50);

/// An answer and when it must have moved on.
struct Watched {
    events: EventStream,
    waits: Waits,
    /// When something must have been said.
    next: Instant,
    /// When all must have been said.
    last: Instant,
}

/// The result of a future, if it comes in time.
pub(super) async fn within<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    by(Instant::now() + limit, future).await
}

/// The bytes of a body, which may not be silent for too long.
pub(super) fn on_silence(
    bytes: impl Stream<Item = Result<Bytes, ModelError>> + Send + 'static,
    idle: Duration,
) -> ByteStream {
    stream::unfold(Some(bytes.boxed()), move |bytes| async move {
        let mut bytes = bytes?;
        match within(idle, bytes.next()).await {
            Ok(None) => None,
            Ok(Some(piece)) => Some((piece, Some(bytes))),
            Err(_) => {
                let seconds = idle.as_secs_f64();
                let error = format!("timed out: no byte of the answer came for {seconds} s");
                Some((Err(ModelError::broken(error)), None))
            }
        }
    })
    // Whoever has seen the end may ask again.
    .fuse()
    .boxed()
}

/// The events of an answer, which must move on and come to an end. A ping is no progress.
pub(super) fn on_progress(events: EventStream, waits: Waits, began: Instant) -> EventStream {
    let watched = Watched { events, waits, next: Instant::now() + waits.answer, last: began + waits.total };
    stream::unfold(Some(watched), |watched| async move {
        let mut watched = watched?;
        let item = watched.next().await?;
        let is_over = item.is_err();
        Some((item, (!is_over).then_some(watched)))
    })
    .boxed()
}

impl Watched {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        match by(self.next.min(self.last), self.events.next()).await {
            Ok(item) => {
                if let Some(Ok(event)) = &item
                    && !matches!(event, ModelEvent::Ping | ModelEvent::Usage(_))
                {
                    self.next = Instant::now() + self.waits.answer;
                }
                item
            }
            Err(_) if self.last <= self.next => {
                let seconds = self.waits.total.as_secs_f64();
                Some(Err(ModelError::broken(format!("timed out: the answer took longer than {seconds} s"))))
            }
            Err(_) => {
                let seconds = self.waits.answer.as_secs_f64();
                Some(Err(ModelError::broken(format!("timed out: the answer stood still for {seconds} s"))))
            }
        }
    }
}

async fn by<F: Future>(deadline: Instant, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    match timeout_at(deadline, future.as_mut()).await {
        Ok(output) => Ok(output),
        Err(_) => timeout(GRACE, future).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_proto::StopReason;

    fn waits(idle: u64, answer: u64) -> Waits {
        let seconds = Duration::from_secs;
        Waits {
            connect: seconds(1),
            answer: seconds(answer),
            idle: seconds(idle),
            total: seconds(answer * 6),
        }
    }

    /// Items of a stream, one every so many seconds, for ever.
    fn every<T: Clone + Send + 'static>(seconds: u64, item: T) -> stream::BoxStream<'static, T> {
        stream::unfold(item, move |item| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Some((item.clone(), item))
        })
        .boxed()
    }

    fn text() -> ModelEvent {
        ModelEvent::TextDelta { index: 0, text: "x".into() }
    }

    /// When, in seconds, and with which words an answer ends that would go on for ever.
    async fn end_of<T>(mut items: stream::BoxStream<'static, Result<T, ModelError>>) -> (u64, String) {
        let began = Instant::now();
        loop {
            match items.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    assert!(items.next().await.is_none(), "an error is the last item");
                    return (began.elapsed().as_secs(), error.message);
                }
                None => return (began.elapsed().as_secs(), "ended".into()),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_body_and_a_trickle_does_not() {
        let silent = on_silence(stream::pending(), Duration::from_mins(5));
        let (after, message) = end_of(silent).await;
        assert_eq!((after, message.as_str()), (300, "timed out: no byte of the answer came for 300 s"));
        let trickle = on_silence(every(10, Ok(Bytes::from_static(b"x"))).take(100), Duration::from_mins(5));
        assert_eq!(end_of(trickle).await, (1000, "ended".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_only_pings_stands_still() {
        let pings = on_progress(every(10, Ok(ModelEvent::Ping)), waits(300, 600), Instant::now());
        let (after, message) = end_of(pings).await;
        assert_eq!((after, message.as_str()), (600, "timed out: the answer stood still for 600 s"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_moves_on_has_its_time_and_no_more() {
        let slow = on_progress(every(10, Ok(text())), waits(300, 600), Instant::now());
        let (after, message) = end_of(slow).await;
        assert_eq!((after, message.as_str()), (3600, "timed out: the answer took longer than 3600 s"));
        let done = every(10, Ok(text()))
            .take(200)
            .chain(stream::iter([Ok(ModelEvent::Done { stop: StopReason::EndTurn })]));
        let long = on_progress(done.boxed(), waits(300, 600), Instant::now());
        assert_eq!(end_of(long).await, (2000, "ended".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_while_the_process_was_stopped_is_found() {
        // The item is ready a moment after the deadline, as when another task must first pick it up.
        let late = stream::once(async {
            tokio::time::sleep(Duration::from_millis(300_010)).await;
            Ok(Bytes::from_static(b"x"))
        });
        assert_eq!(end_of(on_silence(late, Duration::from_mins(5))).await, (300, "ended".to_owned()));
    }
}
