//! Which turn answers a request, and what it says there: a turn of the script, filled and in pieces.
//! It knows no wire; the protocol modules put an [`Answer`] into bytes.

use crate::server::AtEnd;
use ostler_proto::{
    Json, StopReason, Usage,
    script::{Scene, Script, Step, Turn},
};
use serde::Deserialize as _;
use std::time::Duration;

/// Where the script stands.
#[derive(Debug, Default)]
pub(crate) struct Playhead {
    turn: usize,
    round: u32,
    lap: u32,
}

/// A turn picked for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cue {
    /// Its position in the script, from 0.
    pub(crate) turn: usize,
    /// How often it was played before.
    pub(crate) played: u32,
}

/// What an answer depends on besides its turn.
pub(crate) struct Stage<'a> {
    pub(crate) cue: Cue,
    /// The request's number, from 1.
    pub(crate) number: usize,
    /// The model to answer as.
    pub(crate) model: &'a str,
    pub(crate) scene: Scene<'a>,
    /// The size of the request's body.
    pub(crate) sent: usize,
}

/// One answer, complete, before any wire.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The request's number; makes ids unique.
    pub(crate) number: usize,
    pub(crate) model: String,
    pub(crate) usage: Usage,
    pub(crate) stop: StopReason,
    /// One for each step of the turn, in order.
    pub(crate) said: Vec<Said>,
}

/// One step, filled.
#[derive(Debug)]
pub(crate) enum Said {
    Text(Spoken),
    Thinking { text: Spoken, signature: String },
    Call { id: String, name: String, input: Spoken },
    Pause(Duration),
}

/// Words in pieces, over some time.
#[derive(Debug)]
pub(crate) struct Spoken {
    pub(crate) pieces: Vec<String>,
    pub(crate) over: Duration,
}

impl Playhead {
    /// Picks the turn for the next request; none when the script is over.
    pub(crate) fn next(&mut self, script: &Script, at_end: AtEnd) -> Option<Cue> {
        if self.turn >= script.turns.len() {
            match at_end {
                AtEnd::Refuse => return None,
                AtEnd::StartAgain => (self.turn, self.lap) = (0, self.lap + 1),
            }
        }
        let repeat = script.turns.get(self.turn)?.wire.as_ref().map_or(0, |wire| wire.repeat);
        let earlier_laps = self.lap.saturating_mul(repeat.saturating_add(1));
        let cue = Cue { turn: self.turn, played: earlier_laps.saturating_add(self.round) };
        if self.round < repeat {
            self.round += 1;
        } else {
            (self.turn, self.round) = (self.turn + 1, 0);
        }
        Some(cue)
    }
}

impl Answer {
    /// Fills a turn for one request.
    pub(crate) fn new(turn: &Turn, stage: &Stage<'_>) -> Self {
        let Stage { cue, scene, .. } = stage;
        let mut calls = 0;
        let steps = turn.steps.iter().enumerate();
        let said: Vec<Said> = steps
            .map(|(index, step)| match step {
                Step::Text { text, over_ms, pieces } => {
                    Said::Text(Spoken::new(&scene.fill(text), *over_ms, *pieces))
                }
                Step::Thinking { thinking } => Said::Thinking {
                    text: Spoken::new(&scene.fill(thinking), 0, 0),
                    signature: format!("signature-{}-{}", cue.turn + 1, index + 1),
                },
                Step::Call { call, input, raw, id, over_ms, pieces } => {
                    calls += 1;
                    let input = raw.clone().unwrap_or_else(|| input_text(&scene.fill_json(input)));
                    let id = id.clone().unwrap_or_else(|| call_id(*cue, calls));
                    Said::Call { id, name: call.clone(), input: Spoken::new(&input, *over_ms, *pieces) }
                }
                Step::Pause { pause_ms } => Said::Pause(Duration::from_millis(*pause_ms)),
            })
            .collect();
        let stop =
            turn.stop.as_ref().and_then(|name| StopReason::deserialize(&Json::from(name.clone())).ok());
        let stop = stop.unwrap_or(if calls > 0 { StopReason::ToolUse } else { StopReason::EndTurn });
        let usage = turn.usage.unwrap_or_else(|| rough_usage(stage.sent, &said));
        Self { number: stage.number, model: stage.model.to_owned(), usage, stop, said }
    }
}

impl Spoken {
    fn new(text: &str, over_ms: u64, pieces: usize) -> Self {
        let length = text.chars().count();
        let pieces = match pieces {
            // Often enough to look alive, seldom enough that a long text is not mostly frames.
            0 if over_ms > 0 => usize::try_from(over_ms / 20).unwrap_or(usize::MAX).clamp(2, 1000),
            0 => length.div_ceil(24).min(64),
            wanted => wanted,
        };
        Self { pieces: evenly(text, length, pieces), over: Duration::from_millis(over_ms) }
    }

    pub(crate) fn whole(&self) -> String {
        self.pieces.concat()
    }
}

fn evenly(text: &str, length: usize, pieces: usize) -> Vec<String> {
    let pieces = pieces.min(length);
    let mut characters = text.chars();
    (0..pieces)
        .map(|index| {
            let size = length * (index + 1) / pieces - length * index / pieces;
            characters.by_ref().take(size).collect()
        })
        .collect()
}

fn input_text(input: &Json) -> String {
    if input.is_null() { "{}".to_owned() } else { input.to_string() }
}

/// A repeated turn makes new ids: no API gives one twice.
fn call_id(cue: Cue, number: usize) -> String {
    let turn = cue.turn + 1;
    match cue.played {
        0 => format!("call_{turn}_{number}"),
        played => format!("call_{turn}_{number}_again_{played}"),
    }
}

fn rough_usage(sent: usize, said: &[Said]) -> Usage {
    let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX);
    let output = said.iter().map(|said| match said {
        Said::Text(spoken) | Said::Thinking { text: spoken, .. } | Said::Call { input: spoken, .. } => {
            spoken.pieces.iter().map(String::len).sum()
        }
        Said::Pause(_) => 0,
    });
    Usage { input: tokens(sent), output: tokens(output.sum()).max(1), ..Usage::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_proto::script::Wire;
    use proptest::prelude::*;

    fn script(repeats: &[u32]) -> Script {
        let turn = |&repeat| Turn { wire: Some(Wire { repeat, ..Wire::default() }), ..Turn::default() };
        Script { model: None, turns: repeats.iter().map(turn).collect() }
    }

    fn play(script: &Script, at_end: AtEnd, requests: usize) -> Vec<Option<(usize, u32)>> {
        let mut playhead = Playhead::default();
        let mut cue = || playhead.next(script, at_end).map(|cue| (cue.turn, cue.played));
        (0..requests).map(|_| cue()).collect()
    }

    #[test]
    fn turns_come_in_order_and_repeat() {
        let played = play(&script(&[0, 2]), AtEnd::Refuse, 5);
        assert_eq!(played, [Some((0, 0)), Some((1, 0)), Some((1, 1)), Some((1, 2)), None]);
    }

    #[test]
    fn a_script_may_start_again() {
        let played = play(&script(&[0, 1]), AtEnd::StartAgain, 5);
        assert_eq!(played, [Some((0, 0)), Some((1, 0)), Some((1, 1)), Some((0, 1)), Some((1, 2))]);
        assert_eq!(play(&script(&[]), AtEnd::StartAgain, 1), [None]);
    }

    proptest! {
        #[test]
        fn pieces_are_the_text(text in ".{0,200}", pieces in 0usize..300, over_ms in 0u64..500) {
            let spoken = Spoken::new(&text, over_ms, pieces);
            prop_assert_eq!(spoken.whole(), text.clone());
            prop_assert!(spoken.pieces.iter().all(|piece| !piece.is_empty()));
            prop_assert!(pieces == 0 || spoken.pieces.len() == pieces.min(text.chars().count()));
        }
    }
}
