//! One turn of a script as timed events. Pure: the clock runs elsewhere.

use crate::wire::stop_reason;
use ostler_proto::{
    Block, BlockStart, Json, Message, ModelEvent, Request, StopReason, Usage,
    script::{Scene, Step, Turn},
};
use std::time::Duration;

/// Characters in a piece when the script leaves it to us.
const PIECE: usize = 24;

/// An event, and how long to wait before it.
#[derive(Debug)]
pub(super) struct Beat {
    pub(super) after: Duration,
    pub(super) event: ModelEvent,
}

struct Player<'a> {
    scene: &'a Scene<'a>,
    number: usize,
    beats: Vec<Beat>,
    blocks: usize,
    calls: usize,
    /// Bytes said so far.
    said: usize,
    /// Silence before the next event.
    pause: Duration,
}

/// The events of turn `number`.
pub(super) fn beats(
    turn: &Turn,
    number: usize,
    model: String,
    scene: &Scene<'_>,
    request: &Request,
) -> Vec<Beat> {
    let mut player =
        Player { scene, number, beats: Vec::new(), blocks: 0, calls: 0, said: 0, pause: Duration::ZERO };
    let asked = Usage { input: tokens(request_bytes(request)), ..Usage::default() };
    let begun = Usage { output: 0, ..turn.usage.unwrap_or(asked) };
    player.push(ModelEvent::Started {
        message: format!("msg_script_{number}"),
        model,
        request: None,
        usage: begun,
    });
    turn.steps.iter().for_each(|step| player.play(step));
    let said = Usage { output: tokens(player.said), ..asked };
    player.push(ModelEvent::Usage(turn.usage.unwrap_or(said)));
    let usual = if player.calls > 0 { StopReason::ToolUse } else { StopReason::EndTurn };
    player.push(ModelEvent::Done { stop: turn.stop.as_deref().map_or(usual, stop_reason) });
    player.beats
}

impl Player<'_> {
    fn play(&mut self, step: &Step) {
        match step {
            Step::Text { text, over_ms, pieces } => {
                let text = self.scene.fill(text);
                let delta = |index, text| ModelEvent::TextDelta { index, text };
                self.block(BlockStart::Text, &text, Pace { over_ms: *over_ms, pieces: *pieces }, delta);
            }
            Step::Thinking { thinking } => {
                let text = self.scene.fill(thinking);
                let delta = |index, text| ModelEvent::ThinkingDelta { index, text };
                self.block(BlockStart::Thinking, &text, Pace { over_ms: 0, pieces: 0 }, delta);
            }
            Step::Call { call, input, raw, id, over_ms, pieces } => {
                self.calls += 1;
                let id = id.clone().unwrap_or_else(|| format!("call_{}_{}", self.number, self.calls));
                let start = BlockStart::ToolUse { id: id.into(), name: call.clone() };
                let text = match (raw, input) {
                    (Some(raw), _) => raw.clone(),
                    (None, Json::Null) => "{}".to_owned(),
                    (None, input) => self.scene.fill_json(input).to_string(),
                };
                let delta = |index, fragment| ModelEvent::InputDelta { index, fragment };
                self.block(start, &text, Pace { over_ms: *over_ms, pieces: *pieces }, delta);
            }
            Step::Pause { pause_ms } => self.pause += Duration::from_millis(*pause_ms),
        }
    }

    fn block(
        &mut self,
        start: BlockStart,
        text: &str,
        pace: Pace,
        delta: impl Fn(usize, String) -> ModelEvent,
    ) {
        let index = self.blocks;
        self.blocks += 1;
        self.said += text.len();
        self.push(ModelEvent::BlockStarted { index, start });
        let pieces = pace.cut(text);
        let gap = pace.gap(pieces.len());
        for piece in pieces {
            self.pause += gap;
            self.push(delta(index, piece));
        }
        self.push(ModelEvent::BlockStopped { index });
    }

    fn push(&mut self, event: ModelEvent) {
        self.beats.push(Beat { after: std::mem::take(&mut self.pause), event });
    }
}

/// How a text is spread.
#[derive(Clone, Copy)]
struct Pace {
    over_ms: u64,
    pieces: usize,
}

impl Pace {
    /// The pieces, cut between characters.
    fn cut(self, text: &str) -> Vec<String> {
        let characters: Vec<char> = text.chars().collect();
        let size = match self.pieces {
            0 => PIECE,
            pieces => characters.len().div_ceil(pieces).max(1),
        };
        characters.chunks(size).map(|piece| piece.iter().collect()).collect()
    }

    fn gap(self, pieces: usize) -> Duration {
        let pieces = u32::try_from(pieces).unwrap_or(u32::MAX).max(1);
        Duration::from_millis(self.over_ms) / pieces
    }
}

/// Four bytes a token, as good a guess as any.
fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

fn request_bytes(request: &Request) -> usize {
    let system: usize = request.system.iter().map(|text| text.text.len()).sum();
    let messages: usize = request.messages.iter().map(|message| message_bytes(message)).sum();
    system + messages
}

fn message_bytes(message: &Message) -> usize {
    message.content.iter().map(block_bytes).sum()
}

fn block_bytes(block: &Block) -> usize {
    match block {
        Block::Text(text) | Block::Thinking { text, .. } => text.len(),
        Block::ToolUse(call) => call.name.len() + call.input.to_string().len(),
        Block::ToolResult(result) => result.content.iter().map(block_bytes).sum(),
        // Bytes say nothing about what a picture costs.
        Block::Image(_) | Block::Document(_) | Block::Opaque(_) => 4_000,
    }
}
