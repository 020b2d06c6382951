//! The budget in the loop: looked at before each request, counted after each answer, with room kept for a
//! closing message.

use super::{Agent, Reaction};
use crate::{
    budget::{Caps, Estimate, Leave, Node, Used},
    ledger::all_tokens,
    session::State,
    spawn::Limits,
    tokens,
    turn::Spending,
};
use ostler_model::Chosen;
use ostler_proto::{
    AgentEvent, Block, Limit, Price, Request, Role, SessionEvent, Thinking, TurnOutcome, Usage, Why,
};
use std::time::Duration;

/// The longest closing message, its reasoning included.
const LONGEST_CLOSING: u64 = 4_000;

/// The place of this process in the budget of its session.
pub(super) fn of_process(limits: &Limits, state: &State) -> Node {
    let set = limits.budget;
    let session = Caps { usd: set.usd, tokens: set.tokens, calls: set.calls, ..Caps::default() };
    let spent = &state.spent;
    let before = Used { usd: spent.usd, tokens: spent.tokens, calls: spent.calls, ..Used::default() };
    let time = set.seconds.map(Duration::from_secs);
    Node::root(session, before).child(Caps { usd: limits.max_budget_usd, time, ..Caps::default() })
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
        if let Some(turn) = &mut self.turn {
            // It would be over again and again while calls come to their end.
            turn.spending.deadline = None;
        }
        let seconds = self.budget.time_left().map_or(0, |(_, limit)| limit.as_secs());
        self.stop(TurnOutcome::BudgetExhausted { limit: Limit::Seconds(seconds) }).await
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
        let estimate = if node.counts_cost() { self.estimate() } else { None };
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
        let chosen = self.parts.chosen.clone();
        self.charge_for(&chosen, usage, answers)
    }

    /// The same for another model than the one of the conversation.
    pub(super) fn charge_for(&mut self, chosen: &Chosen, usage: Usage, answers: u32) -> f64 {
        let usd = self.ledger.book(&chosen.name, &chosen.row, usage);
        let node = self.turn.as_ref().map_or(&self.budget, |turn| &turn.spending.node);
        node.spend(Used { usd, tokens: all_tokens(usage), answers, ..Used::default() });
        usd
    }

    /// What the next request would use. Nothing is known before the first answer to this conversation.
    fn estimate(&self) -> Option<Estimate> {
        let state = self.parts.session.state();
        let context = state.spent.context?;
        let messages = state.messages();
        let fresh = messages.iter().rev().take_while(|message| message.role == Role::User);
        let fresh = fresh.map(|message| tokens::of_message(message)).sum();
        Some(Estimate::new(context.tokens, fresh, self.parts.chosen.row.price, context.cached))
    }
}
