//! A session: what happened, on disk and in memory, and who is told. [`Session::record`] is the only
//! way its state changes, so that live, resumed and replayed sessions are one path.

mod line;
mod log;
mod state;
mod store;

pub use line::Stamp;
pub use log::{Log, LogError};
pub use state::State;
pub(crate) use state::unknown_outcome;
pub use store::{Loaded, Store, StoreError, load, project_key};

use ostler_proto::{AgentEvent, Entry, EntryId, Envelope, SessionEvent, SessionId};
use tokio::sync::mpsc;
use uuid::Uuid;

/// One open session.
pub struct Session {
    id: SessionId,
    state: State,
    log: Log,
    stamp: Stamp,
    events: mpsc::Sender<Envelope>,
    seq: u64,
}

impl Session {
    /// A session that goes on from a state.
    pub fn new(id: SessionId, state: State, log: Log, stamp: Stamp, events: mpsc::Sender<Envelope>) -> Self {
        Self { id, state, log, stamp, events, seq: 0 }
    }

    /// What the session amounts to.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Where it is written, if it is.
    pub fn transcript(&self) -> Option<&std::path::Path> {
        self.log.path()
    }

    /// Makes an event part of the session: on disk first, then in memory, then told to the
    /// frontends. What could not be written did not happen.
    pub async fn record(&mut self, event: SessionEvent) -> Result<EntryId, LogError> {
        let id = EntryId(Uuid::new_v4().to_string());
        self.record_as(id, event).await
    }

    /// The same, under an id somebody else chose.
    pub async fn record_as(&mut self, id: EntryId, event: SessionEvent) -> Result<EntryId, LogError> {
        let entry =
            Entry { parent: self.state.parent_of(&event), timestamp: timestamp(), id: id.clone(), event };
        self.log.append(&line::write(&entry, &self.id, &self.stamp))?;
        self.state.apply(&entry);
        self.tell(AgentEvent::Recorded(entry)).await;
        Ok(id)
    }

    /// Tells the frontends something that is not durable.
    pub async fn tell(&mut self, event: AgentEvent) {
        self.seq += 1;
        let envelope = Envelope { seq: self.seq, session: self.id.clone(), agent: None, event };
        // A frontend that is gone also closes the inbox, which ends the session in good order.
        let _ = self.events.send(envelope).await;
    }

    /// Makes sure that what was recorded survives the machine, not only the process.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.log.sync()
    }
}

/// The time of day in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default()
}

fn timestamp() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}
