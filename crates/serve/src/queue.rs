//! Which prompts still owe a turn. The engine may fold a queued prompt into the running turn, so turns
//! cannot be counted by prompts; what was recorded tells.

use ostler_proto::{AgentEvent, EntryId, Envelope, SessionEvent};

/// Prompts on their way and the turn that runs.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Vec<EntryId>,
    running: bool,
    /// Whether the turn that runs, or the next, has taken up a prompt.
    taken: bool,
}

impl Queue {
    /// A prompt was sent.
    pub(crate) fn sent(&mut self, id: EntryId) {
        self.waiting.push(id);
    }

    /// Follows what happens to the prompts.
    pub(crate) fn watch(&mut self, envelope: &Envelope) {
        if envelope.agent.is_some() {
            return;
        }
        if let AgentEvent::Recorded(entry) = &envelope.event
            && let SessionEvent::Prompted { .. } | SessionEvent::Commanded { .. } = entry.event
        {
            // What is only added to the conversation is recorded outside of turns.
            self.taken |= self.running || self.waiting.contains(&entry.id);
            self.waiting.retain(|id| *id != entry.id);
        }
        if let AgentEvent::TurnStarted(_) = envelope.event {
            self.running = true;
        }
        if let AgentEvent::TurnEnded(_) = envelope.event {
            self.running = false;
            // A prompt that was refused is never recorded, yet its turn is over.
            if !std::mem::take(&mut self.taken) && !self.waiting.is_empty() {
                self.waiting.remove(0);
            }
        }
    }

    /// Prompts that will never be taken up.
    pub(crate) fn called_off(&mut self, prompts: &[EntryId]) {
        self.waiting.retain(|id| !prompts.contains(id));
    }

    /// Whether a turn runs.
    pub(crate) fn is_running(&self) -> bool {
        self.running
    }

    /// Whether nothing runs and nothing is owed.
    pub(crate) fn is_idle(&self) -> bool {
        !self.running && self.waiting.is_empty()
    }
}
