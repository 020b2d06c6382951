//! What was asked and when each part of the answer left: the tests' view of the server.
//! Written by the connections, read by anyone; it never answers anything.

use crate::{conversation::Protocol, history, http::Incoming, play::Playhead};
use ostler_proto::Json;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::sync::watch;

/// One request and what became of it.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Which connection it came on, from 1.
    pub connection: usize,
    /// `POST`, mostly.
    pub method: String,
    /// As sent, with its query.
    pub path: String,
    /// Names in lower case, in order.
    pub headers: Vec<(String, String)>,
    /// As sent.
    pub body: Vec<u8>,
    /// The API it was meant for; none for anything that is not a request to a model.
    pub protocol: Option<Protocol>,
    /// The turn that answered it, from 0.
    pub turn: Option<usize>,
    /// What in it went against the script.
    pub problem: Option<String>,
    /// When its head was read.
    pub arrived: Instant,
    /// When its last byte was read.
    pub arrived_complete: Instant,
    /// The status it was answered with.
    pub status: Option<u16>,
    /// When the answer's head was written: just before, as for all that is written.
    pub first_byte_sent: Option<Instant>,
    /// When each step's last byte was written, in order.
    pub marks: Vec<Mark>,
    /// When the answer was over, however it ended.
    pub answered: Option<Instant>,
    /// How the answer ended.
    pub ended: Option<Ended>,
}

/// The end of one step on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The step's position in its turn, from 0.
    pub step: usize,
    /// When its last byte was written.
    pub at: Instant,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All of it was written.
    Whole,
    /// The script broke the connection.
    Broken,
    /// The client left before the end.
    ClientLeft,
}

/// The server's memory.
pub(crate) struct Log {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) requests: Vec<Recorded>,
    pub(crate) failures: Vec<String>,
    pub(crate) playhead: Playhead,
}

impl Recorded {
    pub(crate) fn new(incoming: &Incoming, connection: usize, protocol: Option<Protocol>) -> Self {
        Self {
            connection,
            method: incoming.method.clone(),
            path: incoming.path.clone(),
            headers: incoming.headers.clone(),
            body: incoming.body.clone(),
            protocol,
            turn: None,
            problem: None,
            arrived: incoming.arrived,
            arrived_complete: incoming.arrived_complete,
            status: None,
            first_byte_sent: None,
            marks: Vec::new(),
            answered: None,
            ended: None,
        }
    }

    /// The body as JSON; null when it is none.
    pub fn body_json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The value of a header; `name` in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        crate::http::find(&self.headers, name)
    }

    /// When a step's last byte was written; the step's position counts from 0.
    pub fn step_sent(&self, step: usize) -> Option<Instant> {
        self.marks.iter().find(|mark| mark.step == step).map(|mark| mark.at)
    }

    /// Panics unless the conversation it carries is one its API would take.
    #[track_caller]
    pub fn assert_valid_history(&self) {
        let body = self.body_json();
        let protocol = self.protocol.unwrap_or_else(|| Protocol::of_body(&body));
        if let Err(problem) = history::check_history(protocol, &body) {
            panic!("{problem}");
        }
    }
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), changed: watch::Sender::new(()) }
    }

    /// Looks without changing anything.
    pub(crate) fn read(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere must not hide what was recorded.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something and tells those who wait.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let value = change(&mut self.read());
        self.changed.send_replace(());
        value
    }

    /// Changes one request.
    pub(crate) fn update(&self, index: usize, update: impl FnOnce(&mut Recorded)) {
        self.change(|state| state.requests.get_mut(index).map(update));
    }

    /// Waits until a look at all requests satisfies.
    pub(crate) async fn wait_until(&self, mut satisfied: impl FnMut(&[Recorded]) -> bool) {
        let mut changes = self.changed.subscribe();
        while !satisfied(&self.read().requests) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}
