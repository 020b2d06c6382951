//! The budget in the loop: looked at before each request, counted after each answer, with room kept for a
//! closing message.

use super::{Agent, Reaction};
use crate::{
    budget::{Caps, Estimate, Leave, Node, Used},
    compaction,
    ledger::{Payer, all_tokens},
    session::State,
    spawn::Limits,
    turn::Spending,
};
use ostler_model::Chosen;
use ostler_proto::{
    AgentEvent, Block, Limit, Price, Request, SessionEvent, Thinking, TurnOutcome, Usage, Why,
};
use std::{num::NonZeroU64, time::Duration};

/// The longest closing message, its reasoning included.
const LONGEST_CLOSING: u64 = 4_000;

/// The place of this process in the budget of its session.
pub(super) fn of_process(limits: &Limits, state: &State) -> Node {
    let spent = &state.spent;
    let before = Used { usd: spent.usd, tokens: spent.tokens, calls: spent.calls, ..Used::default() };
    let time = limits.budget.seconds.map(|seconds| Duration::from_secs(seconds.get()));
    of_session(limits, before).child(Caps { usd: limits.max_budget_usd, time, ..Caps::default() })
}

/// The process goes on with a session of which nothing is used yet; what it has used itself still counts.
pub(super) fn of_next_session(limits: &Limits, process: &Node) -> Node {
    process.moved_below(of_session(limits, Used::default()))
}

fn of_session(limits: &Limits, before: Used) -> Node {
    let set = limits.budget;
    let (tokens, calls) = (set.tokens.map(NonZeroU64::get), set.calls.map(NonZeroU64::get));
    Node::root(Caps { usd: set.usd, tokens, calls, ..Caps::default() }, before)
}

impl Agent {
    /// A new turn's place in the budget.
    pub(super) fn new_spending(&self) -> Spending {
        let node = self.budget.child(Caps { answers: self.parts.limits.max_turns, ..Caps::default() });
        let deadline = node.time_left().map(|(left, _)| Box::pin(tokio::time::sleep(left)));
        Spending { node, deadline, closing: None }
    }

    /// The time for the work is over, in the middle of it.
    pub(super) async fn on_time_over(&mut self) -> Reaction {
        let outcome = self.time_over();
        self.stop(outcome).await
    }

    /// How a turn ends when its time is over.
    pub(super) fn time_over(&mut self) -> TurnOutcome {
        if let Some(turn) = &mut self.turn {
            // It would be over again and again while calls come to their end.
            turn.spending.deadline = None;
        }
        let seconds = self.budget.time_left().map_or(0, |(_, limit)| limit.as_secs());
        TurnOutcome::BudgetExhausted { limit: Limit::Seconds(seconds) }
    }

    /// Says where a limit in dollars cannot be kept.
    pub(super) async fn tell_of_unknown_price(&mut self) {
        let chosen = &self.parts.chosen;
        if self.budget.counts_dollars() && chosen.row.price == Price::default() {
            let text = format!(
                "the price of {} is not known, so limits in dollars do not hold for it: add its price under \"models\" in \
                 the settings, or limit tokens with budget.tokens",
                chosen.name
            );
            self.parts.session.tell(AgentEvent::Notice { text }).await;
        }
    }

    /// How the turn ends, if a limit is reached already.
    pub(super) fn limit_reached(&self) -> Option<TurnOutcome> {
        match self.leave() {
            Leave::End(outcome) => Some(outcome),
            Leave::Ask | Leave::AskLast(_) | Leave::Close(_) => None,
        }
    }

    /// Whether the model may be asked.
    pub(super) fn leave(&self) -> Leave {
        let Some(turn) = &self.turn else { return Leave::Ask };
        let failed = turn.failed_calls;
        if failed >= self.parts.limits.max_failed_calls {
            let message = format!("the last {failed} tool calls all failed; the turn was stopped");
            return Leave::End(TurnOutcome::Failed { message });
        }
        let node = &turn.spending.node;
        let estimate = if node.counts_cost() { self.estimate() } else { Estimate::default() };
        node.leave(estimate, self.parts.deck.since(turn.began))
    }

    /// Tells the model what it should know of the limits before it is asked.
    pub(super) async fn tell_of_limits(&mut self, leave: Leave) -> Reaction {
        let Some(turn) = &mut self.turn else { return Ok(()) };
        let text = match leave {
            Leave::Close(outcome) if turn.spending.closing.is_none() => {
                turn.spending.closing = Some(outcome);
                turn.rounds.because(Why::Closing);
                "[The budget of this session is nearly used up: this is your last answer. Calls will not be run. Say briefly what is done, what you found, and what is left to do.]".to_owned()
            }
            // Whoever asks again has told already.
            Leave::AskLast(limit) if turn.rounds.next() == Why::Results => format!(
                "[This is the last of {limit} answers you have for this turn. Calls you make now are still run, but you will not see their results: finish with what you have, and say what is left.]"
            ),
            Leave::Ask | Leave::AskLast(_) | Leave::Close(_) | Leave::End(_) => return Ok(()),
        };
        let content = vec![Block::text(text)];
        self.parts.session.record(SessionEvent::Prompted { content, meta: true }).await?;
        Ok(())
    }

    /// Keeps a closing message short.
    pub(super) fn shorten(&self, request: &mut Request) {
        if self.turn.as_ref().is_some_and(|turn| turn.spending.closing.is_some()) {
            let reasoning = match request.thinking {
                Thinking::Budget(tokens) => tokens,
                Thinking::Auto | Thinking::Disabled | Thinking::Adaptive => 0,
            };
            request.max_output_tokens =
                request.max_output_tokens.min(LONGEST_CLOSING.saturating_add(reasoning));
        }
    }

    /// Books what was used and gives its price in US dollars.
    pub(super) fn charge(&mut self, usage: Usage, answers: u32) -> f64 {
        let chosen = &self.parts.chosen;
        let usd = self.ledger.book(Payer::Main, &chosen.name, &chosen.row, usage);
        self.spend(Used { usd, tokens: all_tokens(usage), answers, ..Used::default() });
        usd
    }

    /// Books what hooks used of a model and gives its price.
    pub(super) fn charge_hooks(&mut self, chosen: &Chosen, usage: Usage) -> f64 {
        let usd = self.ledger.book(Payer::Hooks, &chosen.name, &chosen.row, usage);
        self.spend(Used { usd, tokens: all_tokens(usage), ..Used::default() });
        usd
    }

    fn spend(&self, used: Used) {
        self.turn.as_ref().map_or(&self.budget, |turn| &turn.spending.node).spend(used);
    }

    /// What the next request would use: what was counted last time and a guess for the rest. What was never counted
    /// as it stands now is all guessed, and new to any cache.
    fn estimate(&self) -> Estimate {
        let state = self.parts.session.state();
        let row = &self.parts.chosen.row;
        if let Some(context) = state.spent.context {
            let fresh = compaction::weight(&state.unread());
            return Estimate::new(context.tokens, fresh, row.price, context.cached);
        }
        let all = self.fixed_tokens() + compaction::weight(&state.messages());
        Estimate::new(0, all, row.price, row.cache_breakpoints)
    }
}
