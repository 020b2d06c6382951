//! Text that comes in pieces cut anywhere, on its way to a terminal as it comes. The pieces together are what the
//! whole would have been.

use super::{Behaviours, End, escape, hidden};

/// A sequence that is longer without an end is taken for none.
const MAX_HELD: usize = 4096;

/// Cleans text in pieces, as [`super::Sink::PlainTerminal`] takes it. What cannot be judged yet waits.
#[derive(Debug, Default)]
pub struct Stream {
    /// Not yet judged for sequences and controls.
    raw: String,
    /// Free of those, not yet judged for hidden characters.
    bare: String,
    left: hidden::Left,
}

impl Stream {
    /// What may be shown once this piece has come.
    pub fn push(&mut self, piece: &str) -> String {
        self.raw.push_str(piece);
        let mut shown = self.settle(End::More);
        // A sequence that never ends must not be waited for: what is held stays small.
        if self.raw.len() > MAX_HELD {
            shown.push_str(&self.settle(End::Final));
        }
        shown
    }

    /// What is left to show when no more comes; afterwards another text may begin.
    pub fn finish(&mut self) -> String {
        let shown = self.settle(End::Final);
        self.left = hidden::Left::default();
        shown
    }

    fn settle(&mut self, end: End) -> String {
        // Who shows text as it comes does not say what was done to it.
        let counts = &mut Behaviours::default();
        let (bare, settled) = escape::piece(&self.raw, escape::Manner::Remove, end, counts);
        self.bare.push_str(&bare);
        self.raw.drain(..settled);
        let (shown, settled) = hidden::piece(&self.bare, hidden::Manner::Spell, end, &mut self.left, counts);
        let shown = shown.into_owned();
        self.bare.drain(..settled);
        shown
    }
}
