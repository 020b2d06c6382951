//! The bytes of an answer in time: frames, where they are cut and how they are split.
//! Pure: nothing here writes or waits.

use crate::play::Spoken;
use ostler_proto::script::Cut;
use std::time::Duration;

/// Bytes that belong together, such as one event, and when they are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Since the answer began.
    pub(crate) at: Duration,
    /// Empty where only time passes.
    pub(crate) bytes: Vec<u8>,
    pub(crate) part: Part,
    /// Whether this is the last frame of its step.
    pub(crate) ends_step: bool,
}

/// What a frame belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Opening,
    Step(usize),
    Closing,
}

/// One write to the socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) at: Duration,
    pub(crate) bytes: Vec<u8>,
    /// The steps whose last byte is in this piece.
    pub(crate) ended_steps: Vec<usize>,
}

/// Frames being laid out.
pub(crate) struct Timeline {
    frames: Vec<Frame>,
    now: Duration,
    part: Part,
}

impl Timeline {
    pub(crate) fn new() -> Self {
        Self { frames: Vec::new(), now: Duration::ZERO, part: Part::Opening }
    }

    pub(crate) fn push(&mut self, bytes: impl Into<Vec<u8>>) {
        self.frames.push(Frame { at: self.now, bytes: bytes.into(), part: self.part, ends_step: false });
    }

    pub(crate) fn begin_step(&mut self, index: usize) {
        self.part = Part::Step(index);
    }

    /// Ends the step. One that said nothing still leaves a frame: its time passes.
    pub(crate) fn end_step(&mut self) {
        if self.frames.last().is_none_or(|frame| frame.part != self.part || frame.at != self.now) {
            self.push(Vec::new());
        }
        if let Some(last) = self.frames.last_mut() {
            last.ends_step = true;
        }
        self.part = Part::Closing;
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now = self.now.saturating_add(time);
    }

    /// Says pieces over their time: the first at once, the last when the time is over.
    pub(crate) fn spread(&mut self, spoken: &Spoken, mut frame: impl FnMut(&str) -> Vec<u8>) {
        let start = self.now;
        let gaps = u32::try_from(spoken.pieces.len().saturating_sub(1)).unwrap_or(u32::MAX).max(1);
        for (index, piece) in (0u32..).zip(&spoken.pieces) {
            self.now = start.saturating_add(spoken.over.saturating_mul(index) / gaps);
            self.push(frame(piece));
        }
        self.now = start.saturating_add(spoken.over);
    }

    pub(crate) fn finish(mut self, closing: impl IntoIterator<Item = Vec<u8>>) -> Vec<Frame> {
        self.part = Part::Closing;
        for bytes in closing {
            self.push(bytes);
        }
        self.frames
    }
}

/// Frames that carry given bytes at once.
pub(crate) fn verbatim(bytes: impl Into<Vec<u8>>) -> Vec<Frame> {
    let mut timeline = Timeline::new();
    timeline.push(bytes);
    timeline.finish([])
}

/// Parts the frames at a cut: what is still sent, and the rest.
pub(crate) fn cut_at(frames: Vec<Frame>, cut: Cut) -> (Vec<Frame>, Vec<Frame>) {
    let Some(steps) = cut.after_steps else { return cut_at_byte(frames, cut.after_bytes) };
    frames.into_iter().partition(|frame| match frame.part {
        Part::Opening => true,
        Part::Step(index) => index < steps,
        Part::Closing => false,
    })
}

fn cut_at_byte(frames: Vec<Frame>, limit: usize) -> (Vec<Frame>, Vec<Frame>) {
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    let mut left = limit;
    for mut frame in frames {
        if left == 0 {
            tail.push(frame);
        } else if frame.bytes.len() <= left {
            left -= frame.bytes.len();
            head.push(frame);
        } else {
            let rest = Frame { bytes: frame.bytes.split_off(left), ..frame.clone() };
            frame.ends_step = false;
            left = 0;
            head.push(frame);
            tail.push(rest);
        }
    }
    (head, tail)
}

/// Makes pieces of so many bytes, across frames that are due together; one for each frame if `split` is 0.
pub(crate) fn split_into(frames: Vec<Frame>, split: usize) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for frame in frames {
        let full = |piece: &Piece| split == 0 || piece.bytes.len() >= split;
        if pieces.last().is_none_or(|last| last.at != frame.at || full(last)) {
            pieces.push(Piece { at: frame.at, bytes: Vec::new(), ended_steps: Vec::new() });
        }
        let mut rest = frame.bytes.as_slice();
        while let Some(last) = pieces.last_mut() {
            let room = if split == 0 { rest.len() } else { split - last.bytes.len() };
            let (now, later) = rest.split_at(room.min(rest.len()));
            last.bytes.extend_from_slice(now);
            rest = later;
            if rest.is_empty() {
                if let (Part::Step(index), true) = (frame.part, frame.ends_step) {
                    last.ended_steps.push(index);
                }
                break;
            }
            pieces.push(Piece { at: frame.at, bytes: Vec::new(), ended_steps: Vec::new() });
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_proto::script::CutKind;
    use proptest::prelude::*;

    fn spoken(pieces: &[&str], over_ms: u64) -> Spoken {
        Spoken {
            pieces: pieces.iter().map(|&piece| piece.to_owned()).collect(),
            over: Duration::from_millis(over_ms),
        }
    }

    fn sample() -> Vec<Frame> {
        let mut timeline = Timeline::new();
        timeline.push("open");
        timeline.begin_step(0);
        timeline.spread(&spoken(&["ab", "cd", "ef"], 10), |piece| piece.as_bytes().to_vec());
        timeline.end_step();
        timeline.begin_step(1);
        timeline.wait(Duration::from_millis(5));
        timeline.end_step();
        timeline.finish([b"close".to_vec(), b"!".to_vec()])
    }

    fn bytes(pieces: &[Piece]) -> Vec<u8> {
        pieces.iter().flat_map(|piece| piece.bytes.clone()).collect()
    }

    #[test]
    fn time_is_spread_with_the_first_piece_at_once() {
        let at: Vec<u128> = sample().iter().map(|frame| frame.at.as_millis()).collect();
        assert_eq!(at, [0, 0, 5, 10, 15, 15, 15]);
        let ends: Vec<bool> = sample().iter().map(|frame| frame.ends_step).collect();
        assert_eq!(ends, [false, false, false, true, true, false, false]);
    }

    #[test]
    fn a_single_piece_comes_first_and_its_time_passes() {
        let mut timeline = Timeline::new();
        timeline.begin_step(0);
        timeline.spread(&spoken(&["x"], 7), |piece| piece.as_bytes().to_vec());
        timeline.end_step();
        let frames = timeline.finish([]);
        assert_eq!(frames.iter().map(|frame| frame.at.as_millis()).collect::<Vec<_>>(), [0, 7]);
    }

    #[test]
    fn cutting_after_steps_keeps_pauses_and_drops_the_closing() {
        let cut = |steps| Cut { after_bytes: 0, after_steps: Some(steps), then: CutKind::Stall };
        let heads: Vec<usize> = (0..3).map(|steps| cut_at(sample(), cut(steps)).0.len()).collect();
        assert_eq!(heads, [1, 4, 5]);
    }

    proptest! {
        #[test]
        fn splitting_keeps_every_byte_and_every_mark(split in 0usize..20) {
            let pieces = split_into(sample(), split);
            prop_assert_eq!(bytes(&pieces), b"openabcdefclose!".to_vec());
            let ended: Vec<usize> = pieces.iter().flat_map(|piece| piece.ended_steps.clone()).collect();
            prop_assert_eq!(ended, vec![0, 1]);
            prop_assert!(split == 0 || pieces.iter().all(|piece| piece.bytes.len() <= split));
        }

        #[test]
        fn cutting_anywhere_loses_nothing(limit in 0usize..30, split in 0usize..5) {
            let cut = Cut { after_bytes: limit, after_steps: None, then: CutKind::Garbage };
            let (head, tail) = cut_at(sample(), cut);
            let head = bytes(&split_into(head, split));
            prop_assert_eq!(head.len(), limit.min(16));
            let whole = [head, bytes(&split_into(tail, split))].concat();
            prop_assert_eq!(whole, b"openabcdefclose!".to_vec());
        }
    }
}
