//! What stands between a session and the world: it lets things through, writes them on a tape on the way, or
//! gives them again from one. The loop does not know which.

use super::{
    Came,
    player::{Over, Player, Progress},
    source::{Moment, Source},
    tape::{Head, Line, Recorder, Tape},
};
use ostler_model::Copied;
use ostler_proto::{EntryId, SessionId};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// One session's way to the world, shared by all its parts.
#[derive(Debug)]
pub(crate) struct Deck {
    inner: Mutex<Inner>,
    /// Nothing more is played.
    over: Notify,
}

#[derive(Debug)]
struct Inner {
    source: Source,
    mode: Mode,
}

#[derive(Debug)]
enum Mode {
    Live,
    Recording(Box<Recorder>),
    Replaying(Box<Player>),
}

impl Deck {
    /// Lets everything through.
    pub(crate) fn live() -> Self {
        Self::with(Source::live(), Mode::Live)
    }

    /// Lets everything through and writes it down in a folder.
    pub(crate) fn recording(folder: &Path, head: impl FnOnce(&Source) -> Head) -> Self {
        let source = Source::live();
        let recorder = Box::new(Recorder::new(folder, head(&source)));
        Self::with(source, Mode::Recording(recorder))
    }

    /// Gives again what is on a tape of a session that is written here.
    pub(crate) fn replaying(tape: &Tape, transcript: PathBuf) -> Result<Self, String> {
        let mut source = Source::told(tape.head.seed);
        source.set(tape.head.at);
        Ok(Self::with(source, Mode::Replaying(Box::new(Player::new(tape, transcript)?))))
    }

    fn with(source: Source, mode: Mode) -> Self {
        Self { inner: Mutex::new(Inner { source, mode }), over: Notify::new() }
    }

    /// Whether nothing of the real world may be touched.
    pub(crate) fn is_replaying(&self) -> bool {
        matches!(self.lock().mode, Mode::Replaying(_))
    }

    /// Whether copies of exchanges are wanted.
    pub(crate) fn is_recording(&self) -> bool {
        matches!(self.lock().mode, Mode::Recording(_))
    }

    /// The loop has something to react to.
    pub(crate) fn came(&self, what: impl FnOnce() -> Came) {
        let mut inner = self.lock();
        let at = inner.source.look();
        if let Mode::Recording(recorder) = &mut inner.mode {
            recorder.add(Line::Came { at, what: what() });
        }
    }

    /// What the loop had to react to next, on the tape. When there is nothing more, the wait has no end: whoever
    /// plays the tape ends it.
    pub(crate) async fn next(&self) -> Came {
        let came = {
            let mut inner = self.lock();
            let next = if let Mode::Replaying(player) = &mut inner.mode { player.next() } else { None };
            next.map(|(at, what)| {
                inner.source.set(at);
                what
            })
        };
        match came {
            Some(came) => came,
            None => self.wait_for_nothing().await,
        }
    }

    /// Something came that the loop does not wait for.
    pub(crate) async fn is_no_use<T>(&self, came: &Came) -> T {
        let then = came.name();
        self.diverge(format!("then the loop reacted to {then} here, now it does not wait for that"));
        self.wait_for_nothing().await
    }

    /// An answer from the world beside the loop; it is written down on the way.
    pub(crate) fn gave<T: Serialize>(&self, of: &str, answer: T) -> T {
        let mut inner = self.lock();
        let at = inner.source.look();
        if let Mode::Recording(recorder) = &mut inner.mode {
            match serde_json::to_value(&answer) {
                Ok(value) => recorder.add(Line::Gave { at, of: of.to_owned(), value }),
                Err(error) => recorder.stop(&format!("the answer to '{of}' cannot be written down: {error}")),
            }
        }
        answer
    }

    /// The answer on the tape. After its end it is the other one given here, which no longer matters.
    pub(crate) fn again<T: DeserializeOwned>(&self, of: &str, otherwise: T) -> T {
        let mut inner = self.lock();
        let Mode::Replaying(player) = &mut inner.mode else { return otherwise };
        let Some((at, value)) = player.answer(of) else { return otherwise };
        match serde_json::from_value(value) {
            Ok(answer) => {
                inner.source.set(at);
                answer
            }
            Err(error) => {
                player.diverge(format!("the recorded answer to '{of}' cannot be read: {error}"));
                otherwise
            }
        }
    }

    /// The answer on the tape, if this was asked here at all.
    pub(crate) fn again_if<T: DeserializeOwned>(&self, of: &str) -> Option<T> {
        let is_next = match &self.lock().mode {
            Mode::Replaying(player) => player.is_next(of),
            Mode::Live | Mode::Recording(_) => false,
        };
        if is_next { self.again(of, None) } else { None }
    }

    /// Plays no further, for this reason.
    pub(crate) fn cut(&self, why: &str) {
        if let Mode::Replaying(player) = &mut self.lock().mode {
            player.cut(why);
        }
    }

    /// A line is in the transcript, which was so long before the first one.
    pub(crate) fn wrote(&self, line: &str, before: Option<u64>) {
        match &mut self.lock().mode {
            Mode::Live => {}
            Mode::Recording(recorder) => recorder.wrote(line.lines().count(), before),
            Mode::Replaying(player) => player.writes(line),
        }
    }

    /// The conversation goes on as another session.
    pub(crate) fn entered(&self, id: &SessionId) {
        if let Mode::Replaying(player) = &mut self.lock().mode {
            player.enters(id);
        }
    }

    /// The loop has come to its end. Gives why there is no recording of it, if that is not known yet.
    pub(crate) fn close(&self) -> Option<String> {
        match &mut self.lock().mode {
            Mode::Live => None,
            Mode::Recording(recorder) => {
                recorder.close();
                recorder.flush()
            }
            Mode::Replaying(player) => {
                player.closes();
                None
            }
        }
    }

    /// An exchange with the model is over.
    pub(crate) fn exchanged(&self, copied: Copied) {
        if let Mode::Recording(recorder) = &mut self.lock().mode {
            recorder.exchange(copied);
        }
    }

    /// The next exchange with the model, on the tape.
    pub(crate) fn next_exchange(&self) -> Option<Copied> {
        match &mut self.lock().mode {
            Mode::Replaying(player) => player.exchange(),
            Mode::Live | Mode::Recording(_) => None,
        }
    }

    /// A request was the same as then, or how it was not.
    pub(crate) fn requested(&self, same: Result<(), String>) {
        if let Mode::Replaying(player) = &mut self.lock().mode {
            match same {
                Ok(()) => player.progress.requests += 1,
                Err(how) => {
                    player.diverge(format!("request {}: {how}", player.progress.requests + 1));
                }
            }
        }
    }

    /// Says how this run differs from the tape; the first difference is the one that counts.
    pub(crate) fn diverge(&self, how: String) {
        if let Mode::Replaying(player) = &mut self.lock().mode {
            player.diverge(how);
        }
    }

    /// How far the tape was played, and why no further.
    pub(crate) fn played(&self) -> (Progress, Option<Over>) {
        match &self.lock().mode {
            Mode::Replaying(player) => (player.progress, player.over.clone()),
            Mode::Live | Mode::Recording(_) => (Progress::default(), None),
        }
    }

    /// Waits until the loop waits for something that will never come.
    pub(crate) async fn is_over(&self) {
        self.over.notified().await;
    }

    /// Writes what waits; gives why there is no more recording, once.
    pub(crate) fn flush(&self) -> Option<String> {
        match &mut self.lock().mode {
            Mode::Recording(recorder) => recorder.flush(),
            Mode::Live | Mode::Replaying(_) => None,
        }
    }

    /// The moment of the last thing that came.
    pub(crate) fn now(&self) -> Moment {
        self.lock().source.now()
    }

    /// How long ago an earlier moment was.
    pub(crate) fn since(&self, earlier: Moment) -> Duration {
        self.lock().source.since(earlier)
    }

    /// Now, as transcripts write it.
    pub(crate) fn timestamp(&self) -> String {
        self.lock().source.timestamp()
    }

    /// An id nobody else has.
    pub(crate) fn id(&self) -> EntryId {
        self.lock().source.id()
    }

    /// A number in 0..1.
    pub(crate) fn chance(&self) -> f64 {
        self.lock().source.chance()
    }

    pub(super) async fn wait_for_nothing<T>(&self) -> T {
        self.over.notify_one();
        std::future::pending().await
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
