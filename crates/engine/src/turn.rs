//! One turn's state, with the ways it can go round again as data.

use crate::{budget::Node, reply::Reply, stuck::Watch, world::source::Moment};
use ostler_model::EventStream;
use ostler_proto::{AskId, Json, Round, StopReason, TurnOutcome, Usage, Why, envelope::Denial};
use std::{collections::BTreeMap, pin::Pin, time::Duration};
use tokio::time::Sleep;

/// A turn under way.
pub(crate) struct Turn {
    pub(crate) began: Moment,
    pub(crate) phase: Phase,
    /// Why the model is asked next, and how often each reason has come up.
    pub(crate) rounds: Rounds,
    pub(crate) recovery: Recovery,
    /// Answers of the model, whole or kept.
    pub(crate) round_trips: u32,
    /// Calls in a row that gave nothing.
    pub(crate) failed_calls: u32,
    pub(crate) usage: Usage,
    pub(crate) waited_for_model: Duration,
    /// Text of the last answer.
    pub(crate) text: String,
    pub(crate) stop: Option<StopReason>,
    pub(crate) denials: Vec<Denial>,
    /// Calls of this answer that have their results, for hooks that want to see them together.
    pub(crate) batch: Vec<Json>,
    /// How often hooks kept it from ending.
    pub(crate) sent_back: u32,
    /// Why a hook stopped the run; then nothing may prolong it.
    pub(crate) stopped_by_hook: Option<String>,
    pub(crate) spending: Spending,
    /// What its calls came to, to notice when they go in circles.
    pub(crate) watch: Watch,
}

/// What a turn waits for.
pub(crate) enum Phase {
    /// The model speaks; calls may run already.
    Answering(Box<Answering>),
    /// The model has spoken; calls still run.
    Draining { then: Next },
    /// A pause before asking again.
    Waiting(Pin<Box<Sleep>>),
    /// The user is asked whether it may go on.
    Asking { ask: AskId, finding: String },
}

/// An answer under way and where the rest of it comes from.
pub(crate) struct Answering {
    pub(crate) stream: EventStream,
    pub(crate) answer: Answer,
}

/// An answer as far as it has come.
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) began: Moment,
    /// Whether any of its blocks is recorded.
    pub(crate) recorded: bool,
    /// Whether it proposed calls.
    pub(crate) has_calls: bool,
    /// Whether any of them was whole.
    pub(crate) has_whole_calls: bool,
}

/// What comes when the last call has its result.
pub(crate) enum Next {
    Request,
    Wait(Duration),
    End(TurnOutcome),
}

/// How far each way of recovering has been gone. All but `fallbacks` start again with a good answer.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// Failed attempts since the last whole answer, or since the model changed.
    pub(crate) attempts: u32,
    /// How many of the last ones were the server's own fault.
    pub(crate) overloads: u32,
    /// How many models of the list were turned to.
    pub(crate) fallbacks: usize,
    /// Answers in a row that hit the output limit.
    pub(crate) cut_off: u32,
    /// Answers in a row that the server broke to go on later.
    pub(crate) pauses: u32,
    /// Answers in a row that the model would not give.
    pub(crate) refusals: u32,
}

/// The turn's part of the budget.
pub(crate) struct Spending {
    pub(crate) node: Node,
    /// When the time is over.
    pub(crate) deadline: Option<Pin<Box<Sleep>>>,
    /// How the turn ends after the answer that was asked for as its last.
    pub(crate) closing: Option<TurnOutcome>,
}

/// Why the model is asked.
#[derive(Debug)]
pub(crate) struct Rounds {
    now: Why,
    next: Why,
    times: BTreeMap<Why, u32>,
}

impl Turn {
    pub(crate) fn new(spending: Spending, began: Moment) -> Self {
        Self {
            began,
            phase: Phase::Draining { then: Next::Request },
            rounds: Rounds { now: Why::Prompt, next: Why::Prompt, times: BTreeMap::new() },
            recovery: Recovery::default(),
            round_trips: 0,
            failed_calls: 0,
            usage: Usage::default(),
            waited_for_model: Duration::ZERO,
            text: String::new(),
            stop: None,
            denials: Vec::new(),
            batch: Vec::new(),
            sent_back: 0,
            stopped_by_hook: None,
            spending,
            watch: Watch::default(),
        }
    }
}

impl Recovery {
    /// A whole answer came, and stopped for this reason.
    pub(crate) fn answered(&mut self, stop: Option<&StopReason>, is_cut_off: bool) {
        let count = |before: u32, again: bool| if again { before + 1 } else { 0 };
        *self = Self {
            attempts: 0,
            overloads: 0,
            fallbacks: self.fallbacks,
            cut_off: count(self.cut_off, is_cut_off),
            pauses: count(self.pauses, stop == Some(&StopReason::PauseTurn)),
            refusals: count(self.refusals, stop == Some(&StopReason::Refusal)),
        };
    }
}

impl Answer {
    /// Nothing of it has come yet.
    pub(crate) fn new(began: Moment) -> Self {
        Self { reply: Reply::default(), began, recorded: false, has_calls: false, has_whole_calls: false }
    }
}

impl Rounds {
    /// Says why the model is asked next.
    pub(crate) fn because(&mut self, why: Why) {
        self.next = why;
    }

    /// Why the model is asked next.
    pub(crate) fn next(&self) -> Why {
        self.next
    }

    /// Why the model was asked last.
    pub(crate) fn now(&self) -> Why {
        self.now
    }

    /// A request goes out: counts it, and gives why.
    pub(crate) fn begin(&mut self) -> Round {
        let why = std::mem::replace(&mut self.next, Why::Results);
        self.now = why;
        let times = self.times.entry(why).or_default();
        *times += 1;
        Round { why, times: *times }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_one_by_one() {
        let mut rounds = Rounds { now: Why::Prompt, next: Why::Prompt, times: BTreeMap::new() };
        let mut seen = vec![rounds.begin()];
        for why in [Why::OutputLimit, Why::Results, Why::OutputLimit] {
            rounds.because(why);
            seen.push(rounds.begin());
        }
        let round = |why, times| Round { why, times };
        let expected = [
            round(Why::Prompt, 1),
            round(Why::OutputLimit, 1),
            round(Why::Results, 1),
            round(Why::OutputLimit, 2),
        ];
        assert_eq!(seen, expected);
        assert_eq!(rounds.next(), Why::Results, "results are what usually comes next");
    }
}
