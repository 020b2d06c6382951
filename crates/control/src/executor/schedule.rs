//! Who may go when: calls are tickets in call order, and a ticket waits only for earlier tickets
//! whose access conflicts with its own.

use ostler_proto::Access;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// All open calls of a session.
pub(super) struct Schedule {
    open: Mutex<BTreeMap<u64, Option<Access>>>,
    version: watch::Sender<u64>,
}

/// One open call. Dropping it is how a call ends, however it ends.
pub(super) struct Ticket {
    schedule: Arc<Schedule>,
    number: u64,
}

impl Schedule {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { open: Mutex::new(BTreeMap::new()), version: watch::Sender::new(0) })
    }

    /// Opens a call; numbers are given in call order.
    pub(super) fn open(self: &Arc<Self>, number: u64) -> Ticket {
        self.table().insert(number, None);
        Ticket { schedule: Arc::clone(self), number }
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<u64, Option<Access>>> {
        // The table is a plain map: a panicking holder cannot leave it half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }
}

impl Ticket {
    /// Waits until every earlier open call has said what it would touch.
    pub(super) async fn wait_for_earlier_plans(&self) {
        self.wait_until(|earlier| earlier.is_some()).await;
    }

    /// Says what this call would touch, so that later ones can be planned.
    pub(super) fn claim(&self, access: Access) {
        self.schedule.table().insert(self.number, Some(access));
        self.schedule.changed();
    }

    /// Whether an earlier open call conflicts with this access.
    pub(super) fn is_blocked(&self, access: &Access) -> bool {
        self.earlier_any(|earlier| earlier.is_none_or(|earlier| earlier.conflicts_with(access)))
    }

    /// Whether an earlier call is open.
    pub(super) fn follows_any(&self) -> bool {
        self.earlier_any(|_| true)
    }

    /// Waits until no earlier open call conflicts with this access.
    pub(super) async fn wait_until_clear(&self, access: &Access) {
        self.wait_until(|earlier| earlier.is_some_and(|earlier| !earlier.conflicts_with(access))).await;
    }

    /// Waits until no earlier call is open.
    pub(super) async fn wait_for_earlier_calls(&self) {
        self.wait_until(|_| false).await;
    }

    fn earlier_any(&self, test: impl Fn(Option<&Access>) -> bool) -> bool {
        self.schedule.table().range(..self.number).any(|(_, access)| test(access.as_ref()))
    }

    async fn wait_until(&self, fine: impl Fn(Option<&Access>) -> bool) {
        // Subscribing before the first look means that no change is missed.
        let mut versions = self.schedule.version.subscribe();
        while self.earlier_any(|earlier| !fine(earlier)) {
            // The sender lives in the schedule this ticket holds, so it cannot be gone.
            if versions.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.schedule.table().remove(&self.number);
        self.schedule.changed();
    }
}
