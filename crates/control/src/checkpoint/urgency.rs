//! Who is in a hurry: lets a look at a large project that nobody waits for be broken off. It says so only;
//! whoever looks must ask.

use super::CheckpointError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What one process knows about its own hurry.
#[derive(Debug, Default)]
pub(super) struct Urgency {
    /// How many wait for something short.
    waiting: AtomicUsize,
    /// Whether the look that goes on gives way to them.
    gives_way: AtomicBool,
    /// Whether the process is about to end.
    is_over: AtomicBool,
}

/// Somebody who waits, for as long as this is held.
pub(super) struct Waiting<'a>(&'a Urgency);

/// A look that gives way, for as long as this is held.
pub(super) struct GivingWay<'a>(&'a Urgency);

impl Urgency {
    pub(super) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting(self)
    }

    pub(super) fn give_way(&self) -> GivingWay<'_> {
        self.gives_way.store(true, Ordering::SeqCst);
        GivingWay(self)
    }

    /// Every look ends now, and later ones do not begin.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// An error when the look that asks must be broken off.
    pub(super) fn check(&self) -> Result<(), CheckpointError> {
        let must_give_way = self.gives_way.load(Ordering::SeqCst) && self.waiting.load(Ordering::SeqCst) > 0;
        if must_give_way || self.is_over() { Err(CheckpointError::BrokenOff) } else { Ok(()) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for GivingWay<'_> {
    fn drop(&mut self) {
        self.0.gives_way.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_look_that_gives_way_is_broken_off_by_those_who_wait() {
        let urgency = Urgency::default();
        let waiting = urgency.wait();
        assert!(urgency.check().is_ok(), "this look is needed itself");
        let giving_way = urgency.give_way();
        assert!(matches!(urgency.check(), Err(CheckpointError::BrokenOff)));
        drop(waiting);
        assert!(urgency.check().is_ok());
        drop(giving_way);
        urgency.end();
        assert!(urgency.check().is_err(), "at the end every look is");
    }
}
