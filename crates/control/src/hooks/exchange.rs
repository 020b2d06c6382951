//! Where hooks and the rest of the session meet while nobody waits for their word: what they have to tell
//! goes out in order, and answers of a host's callbacks come in. Decides nothing.

use super::Late;
use ostler_proto::{HookCall, HookId, HookNews, HookRecord, HookReply, Json};
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tokio::sync::{Notify, oneshot};

/// Something hooks have to tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Told {
    /// For frontends, while it happens.
    News(HookNews),
    /// A hook in the background is done.
    Late(Box<Late>),
    /// Hooks that nobody waited for, as a whole, have had their say.
    Fired {
        /// For the log.
        record: HookRecord,
        /// For the user.
        messages: Vec<String>,
    },
}

/// The place itself.
#[derive(Debug, Default)]
pub struct Exchange {
    told: Mutex<VecDeque<Told>>,
    changed: Notify,
    calls: Mutex<HashMap<HookId, oneshot::Sender<HookReply>>>,
    next_id: AtomicU64,
    /// Whether nobody is left to call back.
    hung_up: AtomicBool,
}

/// A call of a callback that is open; dropped before its answer it is withdrawn.
struct Open<'a> {
    exchange: &'a Exchange,
    id: HookId,
}

impl Exchange {
    /// The next thing told. Safe to drop and call again.
    pub async fn next(&self) -> Told {
        loop {
            let changed = self.changed.notified();
            if let Some(told) = self.pending() {
                return told;
            }
            changed.await;
        }
    }

    /// The next thing that was told already.
    pub fn pending(&self) -> Option<Told> {
        self.told().pop_front()
    }

    /// Delivers a host's answer. One that nobody waits for any more is ignored.
    pub fn answer(&self, id: HookId, reply: HookReply) {
        if let Some(waiting) = self.calls().remove(&id) {
            // The turn may have been cancelled in this very moment; then nobody needs the answer.
            let _ = waiting.send(reply);
        }
    }

    /// Nobody is left to call back: open calls are answered so, and later ones at once.
    pub fn hang_up(&self) {
        self.hung_up.store(true, Ordering::SeqCst);
        // Whoever waits finds its sender gone, which means the same.
        self.calls().clear();
    }

    /// Tells something.
    pub(crate) fn tell(&self, told: Told) {
        self.told().push_back(told);
        self.changed.notify_one();
    }

    /// A number for one run of a hook.
    pub(super) fn new_id(&self) -> HookId {
        HookId(self.next_id.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Calls a host back and waits for its answer.
    pub(super) async fn call_back(
        &self,
        callback: &str,
        input: Json,
        tool_use_id: Option<String>,
    ) -> HookReply {
        let (tx, answer) = oneshot::channel();
        let open = Open { exchange: self, id: self.new_id() };
        let gone = || HookReply::Unreachable("nobody is left to be called".to_owned());
        self.calls().insert(open.id, tx);
        if self.hung_up.load(Ordering::SeqCst) {
            self.calls().remove(&open.id);
            return gone();
        }
        let call = HookCall { id: open.id, callback: callback.to_owned(), input, tool_use_id };
        self.tell(Told::News(HookNews::Called(call)));
        answer.await.unwrap_or_else(|_| gone())
    }

    fn told(&self) -> MutexGuard<'_, VecDeque<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<HookId, oneshot::Sender<HookReply>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // An answer that came has taken its place in the table.
        if self.exchange.calls().remove(&self.id).is_some() {
            self.exchange.tell(Told::News(HookNews::Withdrawn(self.id)));
        }
    }
}
