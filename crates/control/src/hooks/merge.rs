//! The answers of all hooks of one firing as one: deny over ask over allow, everything else added
//! up. Pure, and the same whichever hook was faster.

use super::{
    Fired,
    answer::{Answer, Word},
};
use ostler_proto::{HookEvent, Verdict, hook::Power};

/// One hook's answer with the hook's place in the order of settings and its name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Given {
    pub(super) place: usize,
    pub(super) hook: String,
    pub(super) answer: Answer,
}

/// Merges answers. The order they are given in does not matter.
pub(super) fn merge(event: HookEvent, mut given: Vec<Given>) -> Fired {
    given.sort_by_key(|given| given.place);
    let mut fired = Fired { verdict: verdict(event, &given), ..Fired::default() };
    let is_denied = matches!(fired.verdict, Some(Verdict::Deny { .. }));
    for Given { answer, .. } in given {
        if let Word::Block(reason) = answer.word {
            fired.block = Some(fired.block.map_or(reason.clone(), |before| format!("{before}\n{reason}")));
        }
        if !is_denied {
            fired.updated_input = fired.updated_input.or(answer.updated_input);
            fired.updated_permissions.extend(answer.updated_permissions);
        }
        fired.interrupt |= answer.interrupt;
        fired.additional_context.extend(answer.context);
        fired.system_messages.extend(answer.system_message);
        fired.stop = fired.stop.or(answer.stop);
        fired.suppress_output |= answer.suppress_output;
        fired.replaced_result = fired.replaced_result.or(answer.replaced_result);
        fired.extras.add(answer.extras);
        fired.specific.extend(answer.specific);
    }
    fired
}

/// The strongest word; among equals the one that stands first.
fn verdict(event: HookEvent, given: &[Given]) -> Option<Verdict> {
    if event.power() != Power::Gate {
        return None;
    }
    let name = |given: &Given| given.hook.clone();
    let deny = given.iter().find_map(|given| match (&given.answer.word, &given.answer.stop) {
        (Word::Deny(reason), _) => Some(Verdict::Deny { hook: name(given), reason: reason.clone() }),
        // Who stops the run does not want the thing to happen either.
        (Word::Nothing | Word::Allow(_) | Word::Ask(_) | Word::Block(_), Some(reason)) => {
            Some(Verdict::Deny { hook: name(given), reason: reason.clone() })
        }
        (Word::Nothing | Word::Allow(_) | Word::Ask(_) | Word::Block(_), None) => None,
    });
    let ask = || {
        given.iter().find_map(|given| match &given.answer.word {
            Word::Ask(reason) => Some(Verdict::Ask { hook: name(given), reason: reason.clone() }),
            Word::Nothing | Word::Allow(_) | Word::Block(_) | Word::Deny(_) => None,
        })
    };
    let allow = || {
        given.iter().find_map(|given| match &given.answer.word {
            Word::Allow(reason) => Some(Verdict::Allow { hook: name(given), reason: reason.clone() }),
            Word::Nothing | Word::Ask(_) | Word::Block(_) | Word::Deny(_) => None,
        })
    };
    deny.or_else(ask).or_else(allow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn word() -> impl Strategy<Value = Word> {
        let reason = "[a-c]";
        prop_oneof![
            Just(Word::Nothing),
            reason.prop_map(Word::Allow),
            reason.prop_map(Word::Ask),
            reason.prop_map(Word::Block),
            reason.prop_map(Word::Deny),
        ]
    }

    fn answers() -> impl Strategy<Value = Vec<Given>> {
        let maybe = || proptest::option::of("[a-z]{1,3}");
        let answer = (word(), maybe(), maybe(), maybe(), any::<bool>(), proptest::option::of(0..5u8));
        let answer = answer.prop_map(|(word, context, system_message, stop, interrupt, input)| Answer {
            word,
            context,
            system_message,
            stop,
            interrupt,
            updated_input: input.map(|number| json!({ "number": number })),
            ..Answer::default()
        });
        proptest::collection::vec(answer, 0..8).prop_map(|answers| {
            let given = |(place, answer)| Given { place, hook: format!("hook {place}"), answer };
            answers.into_iter().enumerate().map(given).collect()
        })
    }

    fn event() -> impl Strategy<Value = HookEvent> {
        proptest::sample::select(HookEvent::ALL)
    }

    /// How strict a verdict is.
    fn rank(verdict: Option<&Verdict>) -> u8 {
        match verdict {
            Some(Verdict::Allow { .. }) => 0,
            None => 1,
            Some(Verdict::Ask { .. }) => 2,
            Some(Verdict::Deny { .. }) => 3,
        }
    }

    proptest! {
        #[test]
        fn the_order_of_answers_does_not_matter(
            event in event(),
            (given, shuffled) in answers().prop_flat_map(|given| (Just(given.clone()), Just(given).prop_shuffle())),
        ) {
            prop_assert_eq!(merge(event, given), merge(event, shuffled));
        }

        #[test]
        fn a_deny_dominates_and_changes_nothing(event in event(), given in answers(), at in 0usize..8) {
            let mut given = given;
            let place = given.len();
            given.insert(at.min(place), Given {
                place,
                hook: "guard".into(),
                answer: Answer { word: Word::objection(event, "no".into()), ..Answer::default() },
            });
            let fired = merge(event, given);
            match event.power() {
                Power::Gate => {
                    prop_assert_eq!(rank(fired.verdict.as_ref()), 3);
                    prop_assert!(fired.updated_input.is_none() && fired.updated_permissions.is_empty());
                }
                Power::Steer => prop_assert!(fired.block.is_some_and(|reason| reason.contains("no"))),
                Power::Watch => prop_assert_eq!(fired.verdict, None),
            }
        }

        #[test]
        fn one_more_answer_never_loosens(given in answers(), more in word()) {
            // Without any word the rules decide; only there a lone yes counts for more than silence.
            let before = merge(HookEvent::PreToolUse, given.clone());
            let mut longer = given;
            let place = longer.len();
            longer.push(Given { place, hook: "more".into(), answer: Answer { word: more, ..Answer::default() } });
            let after = merge(HookEvent::PreToolUse, longer);
            if before.verdict.is_some() {
                prop_assert!(rank(after.verdict.as_ref()) >= rank(before.verdict.as_ref()));
            }
        }
    }
}
