//! Recorded answers become the same events, however the bytes are cut.

use crate::{
    fixtures::{FIXTURES, Fixture},
    requests::hello,
};
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use ostler_model::{APIS, Action, ModelError};
use ostler_proto::{ModelEvent, StopReason};
use proptest::prelude::*;

type Item = Result<ModelEvent, ModelError>;

/// The events of a body that arrives in these pieces. Nothing in it waits.
fn read(api: &str, pieces: Vec<Bytes>) -> Vec<Item> {
    let api = APIS.into_iter().find(|known| known.name == api).expect("a known API");
    let bytes = stream::iter(pieces.into_iter().map(Ok)).boxed();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _context = runtime.enter();
    api.read(&hello("asked-model"), bytes).collect::<Vec<_>>().now_or_never().expect("nothing to wait for")
}

fn cut(fixture: &Fixture, places: &[usize]) -> Vec<Bytes> {
    let mut places: Vec<usize> = places.iter().map(|place| place % (fixture.body.len() + 1)).collect();
    places.extend([0, fixture.body.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| Bytes::copy_from_slice(&fixture.body[pair[0]..pair[1]])).collect()
}

fn told(items: &[Item]) -> String {
    let lines = items.iter().map(|item| match item {
        Ok(event) => format!("{event:?}\n"),
        Err(error) => format!("ERROR {:?} {:?} {:?} {error}\n", error.action, error.kind, error.status),
    });
    lines.collect()
}

fn text_answer(deltas: &str) -> Bytes {
    let begin = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n";
    Bytes::from(format!("{begin}{deltas}"))
}

#[test]
fn recorded_answers_become_events() {
    for fixture in FIXTURES {
        let items = read(fixture.api, vec![Bytes::from_static(fixture.body)]);
        insta::assert_snapshot!(format!("{}__{}", fixture.api, fixture.name), told(&items));
    }
}

#[test]
fn every_answer_ends_properly() {
    for fixture in FIXTURES {
        let items = read(fixture.api, vec![Bytes::from_static(fixture.body)]);
        let (last, before) = items.split_last().expect("an answer says something");
        assert!(matches!(last, Ok(ModelEvent::Done { .. }) | Err(_)), "{fixture:?}");
        let mut open = Vec::new();
        for item in before {
            match item {
                Ok(ModelEvent::BlockStarted { index, .. }) => open.push(*index),
                Ok(ModelEvent::BlockStopped { index }) => open.retain(|other| other != index),
                Ok(ModelEvent::Done { .. }) | Err(_) => panic!("{} goes on after its end", fixture.name),
                Ok(_) => {}
            }
        }
        assert!(last.is_err() || open.is_empty(), "{} leaves blocks {open:?} open", fixture.name);
    }
}

#[test]
fn single_bytes_make_no_difference() {
    for fixture in FIXTURES {
        let singles = fixture.body.iter().map(|byte| Bytes::copy_from_slice(&[*byte])).collect();
        let whole = read(fixture.api, vec![Bytes::from_static(fixture.body)]);
        assert_eq!(read(fixture.api, singles), whole, "{}", fixture.name);
    }
}

#[test]
fn an_empty_body_is_worth_another_try() {
    for api in APIS {
        let items = read(api.name, vec![]);
        let [Err(error)] = items.as_slice() else { panic!("{items:?}") };
        assert_eq!(error.action, Action::Retry { after: None });
        assert_eq!(error.to_string(), "the answer broke off before its end");
    }
}

#[test]
fn hostile_json_is_an_error_and_no_crash() {
    for text in [
        "[".repeat(200_000),
        "{\"a\":".repeat(200_000),
        "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1e400}}}".to_owned(),
        "{\"type\":\"\\ud800\"}".to_owned(),
        "\u{0}".to_owned(),
    ] {
        for api in APIS {
            let body = Bytes::from(format!("data: {text}\n\n"));
            let items = read(api.name, vec![body]);
            let Some(Err(error)) = items.last() else { panic!("{items:?}") };
            assert_eq!(error.action, Action::Retry { after: None });
        }
    }
    let deep = format!(
        "data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{}\n\n",
        "[".repeat(200_000)
    );
    assert!(read("anthropic", vec![text_answer(&deep)]).last().unwrap().is_err());
}

#[test]
fn bytes_that_are_no_text_are_an_error() {
    let items = read("anthropic", vec![Bytes::from_static(b"data: {\"type\":\"\xff\"}\n\n")]);
    assert!(matches!(items.as_slice(), [Err(_)]));
}

#[test]
fn a_long_line_is_read_once() {
    let long = "x".repeat(8 << 20);
    let data = format!(
        "data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{\"type\":\"text\",\"text\":\"{long}\"}}}}\n\ndata: {{\"type\":\"message_stop\"}}\n\n"
    );
    let body = text_answer(&data);
    let pieces = (0..body.len()).step_by(1400).map(|at| body.slice(at..body.len().min(at + 1400))).collect();
    let items = read("anthropic", pieces);
    assert_eq!(items.last(), Some(&Ok(ModelEvent::Done { stop: StopReason::EndTurn })));
    assert!(items.contains(&Ok(ModelEvent::TextDelta { index: 0, text: long })));
}

proptest! {
    #[test]
    fn cuts_make_no_difference(
        fixture in proptest::sample::select(FIXTURES),
        places in proptest::collection::vec(any::<usize>(), 0..12),
    ) {
        let whole = read(fixture.api, vec![Bytes::from_static(fixture.body)]);
        prop_assert_eq!(read(fixture.api, cut(&fixture, &places)), whole);
    }

    #[test]
    fn a_body_that_ends_anywhere_ends_in_done_or_an_error(
        fixture in proptest::sample::select(FIXTURES),
        place in any::<usize>(),
    ) {
        let first = cut(&fixture, &[place]).remove(0);
        let items = read(fixture.api, vec![first]);
        let ended = matches!(items.last(), Some(Ok(ModelEvent::Done { .. }) | Err(_)));
        prop_assert!(ended);
    }
}
