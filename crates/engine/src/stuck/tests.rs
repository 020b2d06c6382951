//! Tables of rounds: which of them are circles, and which only look like one.

use super::*;
use proptest::prelude::*;
use serde_json::json;

/// One round: calls as `tool input`, what each came to, and what else happened.
#[derive(Clone, Copy)]
struct Step<'a> {
    calls: &'a [(&'a str, &'a str)],
    changed: bool,
    ran_ms: u64,
}

fn step<'a>(calls: &'a [(&'a str, &'a str)]) -> Step<'a> {
    Step { calls, changed: false, ran_ms: 5 }
}

fn call(words: &str) -> ToolCall {
    let (name, input) = words.split_once(' ').unwrap_or((words, ""));
    ToolCall { id: "c".into(), name: name.into(), input: json!({ "x": input }), problem: None }
}

fn play(watch: &mut Watch, step: Step<'_>) -> Finding {
    for (words, text) in step.calls {
        let is_error = text.starts_with("error");
        let result = ToolResult { id: "c".into(), content: vec![Block::text(*text)], is_error };
        watch.saw(&call(words), &result, Trace { changed: step.changed, ran_ms: step.ran_ms });
    }
    watch.end_round(false)
}

/// Whether the rounds end in a circle, and none is found before.
#[track_caller]
fn check(steps: &[Step<'_>], expected: Option<(usize, usize)>) {
    let mut watch = Watch::default();
    let findings: Vec<Finding> = steps.iter().map(|step| play(&mut watch, *step)).collect();
    let circles: Vec<(usize, (usize, usize))> = findings
        .iter()
        .enumerate()
        .filter_map(|(at, finding)| match finding {
            Finding::Circle { times, length, .. } => Some((at, (*times, *length))),
            Finding::Fine | Finding::Repeated => None,
        })
        .collect();
    assert_eq!(circles, expected.map(|found| (steps.len() - 1, found)).into_iter().collect::<Vec<_>>());
}

#[test]
fn the_same_three_times_is_a_circle_and_twice_is_told() {
    let same = step(&[("Bash make", "error: no rule")]);
    check(&[same, same], None);
    check(&[same, same, same], Some((3, 1)));
    let mut watch = Watch::default();
    assert_eq!(play(&mut watch, same), Finding::Fine);
    assert_eq!(play(&mut watch, same), Finding::Repeated);
}

#[test]
fn alternating_rounds_are_a_circle_too() {
    let (a, b, c) = (step(&[("Read a", "one")]), step(&[("Read b", "two")]), step(&[("Read c", "three")]));
    check(&[a, b, a, b], None);
    check(&[a, b, a, b, a, b], Some((3, 2)));
    check(&[c, a, b, c, a, b, c, a, b], Some((3, 3)));
    check(&[a, b, c, a, b, a, c, b, a], None);
}

#[test]
fn a_round_is_what_one_answer_proposed() {
    let same = ("Read a", "one");
    check(&[step(&[same, same, same, same])], None);
    let both = [same, ("Read b", "two")];
    let pair = step(&both);
    check(&[pair, pair, pair], Some((3, 1)));
}

#[test]
fn what_changes_is_progress() {
    let test = step(&[("Bash cargo test", "error: 1 failed")]);
    let edit = Step { changed: true, ..step(&[("Edit a", "Edited a")]) };
    check(&[test, edit, test, edit, test, edit, test], None);
    check(&[test, test, edit, test, test], None);
    check(&[test, test, edit, test, test, test], Some((3, 1)));
    let append = Step { changed: true, ..step(&[("Bash echo x >> log", "")]) };
    check(&[append; 9], None);
    let polls = ["10 %", "20 %", "30 %", "40 %"].map(|text| [("TaskOutput 1", text)]);
    check(&polls.each_ref().map(|calls| step(calls)), None);
}

#[test]
fn five_hundred_reads_of_different_files_pass() {
    let calls: Vec<String> = (0..500).map(|number| format!("Read {number}.txt")).collect();
    let rounds: Vec<[(&str, &str); 1]> =
        calls.iter().map(|call| [(call.as_str(), "the same text")]).collect();
    check(&rounds.iter().map(|calls| step(calls)).collect::<Vec<_>>(), None);
}

#[test]
fn who_waits_may_repeat_themselves_for_longer() {
    let wait = Step { ran_ms: 30_000, ..step(&[("Bash sleep 30; gh run view", "in progress")]) };
    check(&[wait; 11], None);
    check(&[wait; 12], Some((12, 1)));
    let mut watch = Watch::default();
    for _ in 0..11 {
        let result = ToolResult { id: "c".into(), content: vec![Block::text("running")], is_error: false };
        watch.saw(&call("TaskOutput 1"), &result, Trace { changed: false, ran_ms: 1 });
        assert!(!matches!(watch.end_round(true), Finding::Circle { .. }), "a command still runs");
    }
}

#[test]
fn a_dropped_answer_does_not_count() {
    let mut watch = Watch::default();
    let result = ToolResult { id: "c".into(), content: vec![], is_error: false };
    for _ in 0..5 {
        watch.saw(&call("Read a"), &result, Trace { changed: false, ran_ms: 0 });
        watch.forget_round();
    }
    assert_eq!(watch.end_round(false), Finding::Fine, "there was no round");
    let same = step(&[("Read a", "")]);
    play(&mut watch, same);
    play(&mut watch, same);
    watch.reset();
    assert_eq!(play(&mut watch, same), Finding::Fine);
}

#[track_caller]
fn check_same(a: &str, b: &str, expected: bool) {
    let print = |text: &str| {
        let result = ToolResult { id: "c".into(), content: vec![Block::text(text)], is_error: false };
        fingerprint(&call("Bash x"), &result)
    };
    assert_eq!(print(a) == print(b), expected, "{a:?} and {b:?}");
}

#[test]
fn times_and_addresses_do_not_count_but_figures_do() {
    check_same("1 failed; finished in 0.52s", "1 failed; finished in 0.61s", true);
    check_same("took 12 ms", "took 140 ms", true);
    check_same("2026-11-16T08:00:01Z error", "2026-11-16T08:00:02Z error", true);
    check_same("[08:00:01] error", "[08:13:59] error", true);
    check_same("panicked at 0x7f00aa11bb", "panicked at 0x7f00cc22dd", true);
    check_same("wrote /tmp/a1b2.log", "wrote /tmp/c3d4.log", true);
    check_same("id 7d3f1b53-8c1c-4b0c-9c62-0f4f3a1c0a11", "id 00000000-8c1c-4b0c-9c62-0f4f3a1c0a11", true);
    check_same("10 % done", "20 % done", false);
    check_same("3 failed", "2 failed", false);
    check_same("a.rs:10:5", "a.rs:11:5", false);
    check_same("version 1.2.3", "version 1.2.4", false);
    check_same("commit 1a2b3c4", "commit 9f8e7d6", false);
    check_same("exit 1", "exit 2", false);
}

proptest! {
    #[test]
    fn rounds_that_are_all_different_are_never_a_circle(texts in prop::collection::hash_set("[a-z]{1,8}", 1..40)) {
        let mut watch = Watch::default();
        for text in &texts {
            let found = play(&mut watch, step(&[("Read a", text)]));
            prop_assert_eq!(found, Finding::Fine);
        }
    }

    #[test]
    fn any_short_circle_is_found_in_its_third_round(length in 1usize..=LONGEST_CIRCLE, before in 0usize..5) {
        let mut watch = Watch::default();
        for number in 0..before {
            play(&mut watch, step(&[("Read before", &format!("n{number}x"))]));
        }
        let mut found = Finding::Fine;
        for _ in 0..OFTEN {
            for number in 0..length {
                found = play(&mut watch, step(&[("Read in", &format!("n{number}x"))]));
            }
        }
        let is_circle = matches!(found, Finding::Circle { times: OFTEN, length: l, .. } if l == length);
        prop_assert!(is_circle, "{:?}", found);
    }
}
