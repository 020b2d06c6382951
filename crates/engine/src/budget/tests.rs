//! Tables: what is left, and whether the model may be asked.

use super::*;
use proptest::prelude::*;

const PRICE: Price = Price { input: 10.0, output: 50.0, cache_write: 12.5, cache_read: 1.0 };

fn used(usd: f64, tokens: u64, calls: u64, answers: u32) -> Used {
    Used { usd, tokens, calls, answers, time: Duration::ZERO }
}

fn out(limit: Limit) -> TurnOutcome {
    TurnOutcome::BudgetExhausted { limit }
}

/// A request for 0.4 and a closing message for 0.2; 4000 tokens and 2000.
const ESTIMATE: Estimate = Estimate { usd: 0.4, tokens: 4_000, closing_usd: 0.2, closing_tokens: 2_000 };

#[track_caller]
fn check(caps: Caps, spent: Used, worked: u64, expected: &Leave) {
    let node = Node::root(caps, Used::default());
    node.spend(spent);
    assert_eq!(&node.leave(ESTIMATE, Duration::from_secs(worked)), expected, "{caps:?} {spent:?}");
}

#[test]
fn a_node_knows_when_to_close_and_when_to_end() {
    let usd = Caps { usd: Some(1.0), ..Caps::default() };
    let end = Leave::End(out(Limit::Usd(1.0)));
    check(usd, used(0.3, 0, 0, 0), 0, &Leave::Ask);
    check(usd, used(0.5, 0, 0, 0), 0, &Leave::Close(out(Limit::Usd(1.0))));
    check(usd, used(0.89, 0, 0, 0), 0, &Leave::Close(out(Limit::Usd(1.0))));
    check(usd, used(0.95, 0, 0, 0), 0, &end);
    check(usd, used(1.0, 0, 0, 0), 0, &end);
    let tokens = Caps { tokens: Some(10_000), ..Caps::default() };
    check(tokens, used(9.0, 4_000, 9, 9), 0, &Leave::Ask);
    check(tokens, used(0.0, 4_001, 0, 0), 0, &Leave::Close(out(Limit::Tokens(10_000))));
    check(tokens, used(0.0, 9_500, 0, 0), 0, &Leave::End(out(Limit::Tokens(10_000))));
    let calls = Caps { calls: Some(2), ..Caps::default() };
    check(calls, used(0.0, 0, 1, 0), 0, &Leave::Ask);
    check(calls, used(0.0, 0, 5, 0), 0, &Leave::Close(out(Limit::Calls(2))));
    let time = Caps { time: Some(Duration::from_secs(100)), ..Caps::default() };
    check(time, Used::default(), 89, &Leave::Ask);
    check(time, Used::default(), 91, &Leave::Close(out(Limit::Seconds(100))));
    check(time, Used::default(), 100, &Leave::End(out(Limit::Seconds(100))));
    let answers = |limit| Caps { answers: Some(limit), ..Caps::default() };
    check(answers(3), used(0.0, 0, 0, 1), 0, &Leave::Ask);
    check(answers(3), used(0.0, 0, 0, 2), 0, &Leave::AskLast(3));
    check(answers(3), used(0.0, 0, 0, 3), 0, &Leave::End(TurnOutcome::MaxTurns { limit: 3 }));
    check(answers(1), Used::default(), 0, &Leave::Ask);
    check(Caps::default(), used(1e9, u64::MAX, u64::MAX, u32::MAX), 1 << 40, &Leave::Ask);
}

#[test]
fn nothing_is_held_against_a_request_whose_price_nobody_knows() {
    let node = Node::root(Caps { usd: Some(0.001), tokens: Some(10), ..Caps::default() }, Used::default());
    assert_eq!(node.leave(Estimate::default(), Duration::ZERO), Leave::Ask);
    assert_eq!(node.leave(ESTIMATE, Duration::ZERO), Leave::End(out(Limit::Usd(0.001))));
}

#[test]
fn what_a_child_spends_its_parents_lack() {
    let session = Node::root(Caps { usd: Some(2.0), ..Caps::default() }, used(0.5, 0, 0, 0));
    let run = session.child(Caps { calls: Some(1), ..Caps::default() });
    let (turn, sibling) = (run.child(Caps::default()), session.child(Caps::default()));
    turn.spend(used(1.45, 0, 1, 1));
    assert_eq!(turn.leave(ESTIMATE, Duration::ZERO), Leave::End(out(Limit::Usd(2.0))));
    assert_eq!(sibling.leave(ESTIMATE, Duration::ZERO), Leave::End(out(Limit::Usd(2.0))));
    assert_eq!(run.leave(Estimate::default(), Duration::ZERO), Leave::Close(out(Limit::Calls(1))));
    assert_eq!(sibling.leave(Estimate::default(), Duration::ZERO), Leave::Ask);
    assert!(!turn.is_spent() && turn.counts_cost());
    sibling.spend(used(0.05, 0, 0, 0));
    assert!(turn.is_spent() && session.is_spent());
}

#[test]
fn a_run_keeps_its_account_in_another_session() {
    let caps = Caps { usd: Some(2.0), ..Caps::default() };
    let run = Node::root(caps, Used::default()).child(Caps { usd: Some(3.0), ..Caps::default() });
    run.spend(used(2.0, 0, 0, 0));
    assert!(run.is_spent(), "the session's budget");
    let run = run.moved_below(Node::root(caps, Used::default()));
    assert!(!run.is_spent(), "the next session has its own");
    run.spend(used(1.0, 0, 0, 0));
    assert_eq!(run.leave(Estimate::default(), Duration::ZERO), Leave::End(out(Limit::Usd(3.0))));
}

#[test]
fn time_counts_where_it_is_worked() {
    let run = Node::root(Caps { time: Some(Duration::from_mins(1)), ..Caps::default() }, Used::default());
    let turn = run.child(Caps::default());
    turn.work(Duration::from_secs(50));
    assert_eq!(turn.time_left(), Some((Duration::from_mins(1), Duration::from_mins(1))));
    run.work(Duration::from_secs(50));
    assert_eq!(turn.time_left(), Some((Duration::from_secs(10), Duration::from_mins(1))));
    assert_eq!(Node::root(Caps::default(), Used::default()).time_left(), None);
}

#[test]
fn what_is_cached_costs_less() {
    let plain = Estimate::new(100_000, 1_000, PRICE, false);
    let cached = Estimate::new(100_000, 1_000, PRICE, true);
    assert!((plain.closing_usd - 1.06).abs() < 1e-9, "{plain:?}");
    assert!((cached.closing_usd - 0.1625).abs() < 1e-9, "{cached:?}");
    assert_eq!(plain.tokens, 101_000 + USUAL_ANSWER);
}

proptest! {
    #[test]
    fn a_tree_never_allows_what_one_of_its_nodes_forbids(
        caps in prop::collection::vec((prop::option::of(0.0f64..3.0), prop::option::of(0u64..9_000), prop::option::of(0u32..4)), 1..5),
        spent in (0.0f64..2.0, 0u64..8_000, 0u32..4),
    ) {
        let caps: Vec<Caps> = caps
            .into_iter()
            .map(|(usd, tokens, answers)| Caps { usd, tokens, answers, ..Caps::default() })
            .collect();
        let tree = caps.iter().fold(None::<Node>, |above, caps| Some(match above {
            None => Node::root(*caps, Used::default()),
            Some(node) => node.child(*caps),
        })).unwrap();
        let spent = used(spent.0, spent.1, 0, spent.2);
        tree.spend(spent);
        let alone: Vec<Leave> = caps.iter().map(|caps| {
            let node = Node::root(*caps, Used::default());
            node.spend(spent);
            node.leave(ESTIMATE, Duration::ZERO)
        }).collect();
        let rank = |leave: &Leave| match leave {
            Leave::Ask => 0,
            Leave::AskLast(_) => 1,
            Leave::Close(_) => 2,
            Leave::End(_) => 3,
        };
        let strictest = alone.iter().map(rank).max().unwrap();
        prop_assert_eq!(rank(&tree.leave(ESTIMATE, Duration::ZERO)), strictest);
    }
}
