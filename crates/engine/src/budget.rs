//! What may be used up, as a tree: a session holds its runs, a run its turns, a turn whatever agents it
//! starts. What a node spends counts for every node above it. Pure but for the counters.

use ostler_proto::{Limit, Price, TurnOutcome};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Tokens an answer is expected to have.
const USUAL_ANSWER: u64 = 1_500;
/// Tokens of a closing message.
pub(crate) const CLOSING_ANSWER: u64 = 1_000;
/// A tenth of the time is kept for the closing message.
const TIME_TO_CLOSE: u32 = 10;

/// Limits of one node; absent means none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Caps {
    /// US dollars.
    pub(crate) usd: Option<f64>,
    /// Tokens of all kinds.
    pub(crate) tokens: Option<u64>,
    /// Tool calls.
    pub(crate) calls: Option<u64>,
    /// Answers of the model.
    pub(crate) answers: Option<u32>,
    /// Time of work. It is not passed up: the clock of the node above runs meanwhile.
    pub(crate) time: Option<Duration>,
}

/// What was used.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Used {
    pub(crate) usd: f64,
    pub(crate) tokens: u64,
    pub(crate) calls: u64,
    pub(crate) answers: u32,
    pub(crate) time: Duration,
}

/// A place in the tree.
#[derive(Debug, Clone)]
pub(crate) struct Node(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    caps: Caps,
    used: Mutex<Used>,
    parent: Option<Node>,
}

/// What the next request is expected to use.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Estimate {
    pub(crate) usd: f64,
    pub(crate) tokens: u64,
    /// The same for a closing message.
    pub(crate) closing_usd: f64,
    pub(crate) closing_tokens: u64,
}

/// Whether the model may be asked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Leave {
    /// It may.
    Ask,
    /// It may, for the last time in this turn: so many answers there may be.
    AskLast(u32),
    /// Only for a closing message; then the turn ends like this.
    Close(TurnOutcome),
    /// It may not.
    End(TurnOutcome),
}

impl Node {
    /// The top of a tree, with what was used before.
    pub(crate) fn root(caps: Caps, used: Used) -> Self {
        Self(Arc::new(Inner { caps, used: Mutex::new(used), parent: None }))
    }

    /// A node below this one.
    pub(crate) fn child(&self, caps: Caps) -> Self {
        let (used, parent) = (Mutex::default(), Some(self.clone()));
        Self(Arc::new(Inner { caps, used, parent }))
    }

    /// The same node with what it has used, below another.
    pub(crate) fn moved_below(&self, parent: Self) -> Self {
        let (caps, used) = (self.0.caps, Mutex::new(*self.used()));
        Self(Arc::new(Inner { caps, used, parent: Some(parent) }))
    }

    /// Counts something, here and all the way up.
    pub(crate) fn spend(&self, more: Used) {
        for node in self.chain() {
            let mut used = node.used();
            used.usd += more.usd;
            used.tokens = used.tokens.saturating_add(more.tokens);
            used.calls = used.calls.saturating_add(more.calls);
            used.answers = used.answers.saturating_add(more.answers);
        }
    }

    /// Counts time, here only.
    pub(crate) fn work(&self, time: Duration) {
        let mut used = self.used();
        used.time = used.time.saturating_add(time);
    }

    /// The time that is left here or anywhere above, before what is being worked on now.
    pub(crate) fn time_left(&self) -> Option<(Duration, Duration)> {
        let left = |node: Self| Some((node.0.caps.time?.saturating_sub(node.used().time), node.0.caps.time?));
        self.chain().filter_map(left).min()
    }

    /// Whether what a request costs matters, here or above.
    pub(crate) fn counts_cost(&self) -> bool {
        self.chain().any(|node| node.0.caps.usd.is_some() || node.0.caps.tokens.is_some())
    }

    /// Whether dollars are limited, here or above.
    pub(crate) fn counts_dollars(&self) -> bool {
        self.chain().any(|node| node.0.caps.usd.is_some())
    }

    /// Whether anything is used up that cannot come back, here or above.
    pub(crate) fn is_spent(&self) -> bool {
        self.chain().any(|node| node.spent().is_some())
    }

    /// Whether the model may be asked. `worked` is how long the turn has run.
    pub(crate) fn leave(&self, estimate: Estimate, worked: Duration) -> Leave {
        let mut found = Leave::Ask;
        for node in self.chain() {
            match node.own_leave(estimate, worked) {
                leave @ Leave::End(_) => return leave,
                leave @ Leave::Close(_) if !matches!(found, Leave::Close(_)) => found = leave,
                leave @ Leave::AskLast(_) if found == Leave::Ask => found = leave,
                Leave::Ask | Leave::AskLast(_) | Leave::Close(_) => {}
            }
        }
        found
    }

    fn own_leave(&self, estimate: Estimate, worked: Duration) -> Leave {
        let (caps, used) = (self.0.caps, *self.used());
        if let Some(outcome) = self.spent() {
            return Leave::End(outcome);
        }
        let exhausted = |limit| TurnOutcome::BudgetExhausted { limit };
        if let Some(limit) = caps.usd {
            let left = limit - used.usd;
            // An estimate may be twice too high, since caches are the server's business.
            if estimate.closing_usd / 2.0 > left {
                return Leave::End(exhausted(Limit::Usd(limit)));
            }
            if estimate.usd + estimate.closing_usd > left {
                return Leave::Close(exhausted(Limit::Usd(limit)));
            }
        }
        if let Some(limit) = caps.tokens {
            let left = limit.saturating_sub(used.tokens);
            if estimate.closing_tokens / 2 > left {
                return Leave::End(exhausted(Limit::Tokens(limit)));
            }
            if estimate.tokens.saturating_add(estimate.closing_tokens) > left {
                return Leave::Close(exhausted(Limit::Tokens(limit)));
            }
        }
        if let Some(limit) = caps.time {
            let left = limit.saturating_sub(used.time).saturating_sub(worked);
            let outcome = exhausted(Limit::Seconds(limit.as_secs()));
            if left.is_zero() {
                return Leave::End(outcome);
            }
            if left < limit / TIME_TO_CLOSE {
                return Leave::Close(outcome);
            }
        }
        // A closing message needs no call.
        if let Some(limit) = caps.calls.filter(|limit| used.calls >= *limit) {
            return Leave::Close(exhausted(Limit::Calls(limit)));
        }
        match caps.answers {
            Some(limit) if limit > 1 && used.answers + 1 == limit => Leave::AskLast(limit),
            Some(_) | None => Leave::Ask,
        }
    }

    /// What is used up, if it is.
    fn spent(&self) -> Option<TurnOutcome> {
        let (caps, used) = (self.0.caps, *self.used());
        let exhausted = |limit| TurnOutcome::BudgetExhausted { limit };
        if let Some(limit) = caps.answers.filter(|limit| used.answers >= *limit) {
            return Some(TurnOutcome::MaxTurns { limit });
        }
        if let Some(limit) = caps.usd.filter(|limit| used.usd >= *limit) {
            return Some(exhausted(Limit::Usd(limit)));
        }
        if let Some(limit) = caps.tokens.filter(|limit| used.tokens >= *limit) {
            return Some(exhausted(Limit::Tokens(limit)));
        }
        let limit = caps.time.filter(|limit| used.time >= *limit)?;
        Some(exhausted(Limit::Seconds(limit.as_secs())))
    }

    fn chain(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.clone()), |node| node.0.parent.clone())
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Estimate {
    /// For a conversation of which `known` tokens were sent before and `fresh` ones were not.
    pub(crate) fn new(known: u64, fresh: u64, price: Price, cached: bool) -> Self {
        let cost = |tokens: u64, dollars: f64| {
            #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
            let tokens = tokens as f64;
            tokens * dollars / 1e6
        };
        let (old, new) =
            if cached { (price.cache_read, price.cache_write) } else { (price.input, price.input) };
        let input = cost(known, old) + cost(fresh, new);
        let tokens = known.saturating_add(fresh);
        Self {
            usd: input + cost(USUAL_ANSWER, price.output),
            tokens: tokens.saturating_add(USUAL_ANSWER),
            closing_usd: input + cost(CLOSING_ANSWER, price.output),
            closing_tokens: tokens.saturating_add(CLOSING_ANSWER),
        }
    }
}

#[cfg(test)]
mod tests;
