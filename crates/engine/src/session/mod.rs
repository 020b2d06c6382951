//! A session: what happened, on disk and in memory, and who is told. [`Session::record`] is the only
//! way its state changes, so that live, resumed and replayed sessions are one path.

mod cache;
mod compacted;
mod facts;
mod fork;
mod holder;
mod index;
mod labels;
mod line;
mod lines;
mod load;
mod log;
mod records;
mod remembered;
pub(crate) mod shorten;
mod state;
mod store;
pub mod upkeep;

pub use cache::{Cache, Lost};
pub use facts::Facts;
pub use fork::Fork;
pub use holder::Holder;
pub use index::{Hit, Index};
pub use labels::Labels;
pub use line::Stamp;
pub use load::{Loaded, Until, Writer, each_entry, each_line, load, load_until};
pub(crate) use load::{each_line_from, load_first};
pub use log::{Log, LogError};
pub use remembered::{Failing, Refused, Remembered, Said, Touched};
pub use state::State;
pub(crate) use state::unknown_outcome;
pub use store::{Scope, SessionFile, Store, StoreError, project_key};

use crate::world::deck::Deck;
use ostler_proto::{AgentEvent, Block, Entry, EntryId, Envelope, SessionEvent, SessionId};
use std::sync::Arc;
use tokio::sync::mpsc;

/// One open session.
pub struct Session {
    id: SessionId,
    state: State,
    log: Log,
    stamp: Stamp,
    events: mpsc::Sender<Envelope>,
    seq: u64,
    /// What the user said last, since the session was opened.
    last_prompt: Option<String>,
    deck: Arc<Deck>,
}

impl Session {
    /// A session that goes on from a state.
    pub fn new(id: SessionId, state: State, log: Log, stamp: Stamp, events: mpsc::Sender<Envelope>) -> Self {
        let deck = Arc::new(Deck::live());
        Self { id, state, log, stamp, events, seq: 0, last_prompt: None, deck }
    }

    /// The same session, with its ids and its time from here.
    #[must_use]
    pub(crate) fn through(self, deck: Arc<Deck>) -> Self {
        Self { deck, ..self }
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
        let id = self.deck.id();
        self.record_as(id, event).await
    }

    /// The same, under an id somebody else chose.
    pub async fn record_as(&mut self, id: EntryId, event: SessionEvent) -> Result<EntryId, LogError> {
        let (parent, timestamp) = (self.state.parent_of(&event), self.deck.timestamp());
        let entry = Entry { parent, timestamp, id: id.clone(), event };
        let line = line::write(&entry, &self.id, &self.stamp);
        self.log.append(&line)?;
        self.deck.wrote(&line, self.log.began_at());
        self.state.apply(&entry);
        if let SessionEvent::Prompted { content, meta: false } = &entry.event {
            let words: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
            self.last_prompt = Some(words.join(" ")).filter(|words| !words.trim().is_empty());
        }
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

    /// A turn is over: what was recorded survives the machine, not only the process, unless the user
    /// chose otherwise.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.log.sync()
    }

    /// Gives the session a title.
    pub fn name(&mut self, title: &str) -> Result<(), LogError> {
        self.log.append(&labels::title_line(title, &self.id))?;
        self.state.labels.title = Some(title.to_owned());
        Ok(())
    }

    /// The process leaves the session: what lists of sessions look for is put where they look for it.
    /// Others may have written labels meanwhile, and theirs are newer.
    pub fn close(&mut self) -> Result<(), LogError> {
        let Some((found, tail)) = self.log.labels()? else { return Ok(()) };
        let is_far = |place: Option<&(u64, String)>| place.is_none_or(|(offset, _)| *offset < tail);
        let (title_is_far, tag_is_far) = (is_far(found.title.as_ref()), is_far(found.tag.as_ref()));
        self.state.labels.follow(found);
        if let (Some(title), true) = (&self.state.labels.title, title_is_far) {
            self.log.append(&labels::title_line(title, &self.id))?;
        }
        if let (Some(tag), true) = (&self.state.labels.tag, tag_is_far) {
            self.log.append(&labels::tag_line(tag, &self.id))?;
        }
        if let Some(prompt) = self.last_prompt.take() {
            let leaf = self.state.leaf().map_or("", EntryId::as_str);
            self.log.append(&labels::last_prompt_line(&prompt, leaf, &self.id))?;
        }
        self.log.sync()
    }

    /// Goes on as another session, of which nothing is known yet.
    pub fn begin_anew(&mut self, id: SessionId) {
        self.log = self.log.beside(&id);
        self.deck.entered(&id);
        self.state = State::default();
        self.id = id;
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }
}
