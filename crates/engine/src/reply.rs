//! Folds the events of one answer into whole blocks. A call comes out at the moment its input is
//! whole, which is usually before its block is stopped.

use ostler_control::CallInput;
use ostler_proto::{Block, BlockStart, Json, ModelEvent, StopReason, ToolCall, Usage};
use std::collections::BTreeMap;

/// One answer on its way in.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// The API's id of the message; empty until it has begun.
    pub(crate) message: String,
    /// The model that answers.
    pub(crate) model: String,
    /// The API's id of the request.
    pub(crate) request: Option<String>,
    /// Tokens as far as known.
    pub(crate) usage: Usage,
    /// Why it stopped, once it has.
    pub(crate) stop: Option<StopReason>,
    open: BTreeMap<usize, OpenBlock>,
}

#[derive(Debug)]
enum OpenBlock {
    Text(String),
    Thinking { text: String, signature: String },
    Call(CallInput),
    Opaque(Json),
}

/// Something of the answer that is whole.
#[derive(Debug, PartialEq)]
pub(crate) enum Whole {
    Block(Block),
    Call(ToolCall),
}

impl Reply {
    /// Takes one event in. Pieces of blocks that were never started are ignored.
    pub(crate) fn apply(&mut self, event: &ModelEvent) -> Option<Whole> {
        match event {
            ModelEvent::Started { message, model, request, usage } => {
                self.message.clone_from(message);
                self.model.clone_from(model);
                self.request.clone_from(request);
                self.usage = *usage;
                None
            }
            ModelEvent::BlockStarted { index, start } => {
                self.open.insert(*index, OpenBlock::from(start));
                None
            }
            ModelEvent::TextDelta { index, text } => {
                if let Some(OpenBlock::Text(all)) = self.open.get_mut(index) {
                    all.push_str(text);
                }
                None
            }
            ModelEvent::ThinkingDelta { index, text: piece } => {
                if let Some(OpenBlock::Thinking { text, .. }) = self.open.get_mut(index) {
                    text.push_str(piece);
                }
                None
            }
            ModelEvent::SignatureDelta { index, signature: piece } => {
                if let Some(OpenBlock::Thinking { signature, .. }) = self.open.get_mut(index) {
                    signature.push_str(piece);
                }
                None
            }
            ModelEvent::InputDelta { index, fragment } => match self.open.get_mut(index) {
                Some(OpenBlock::Call(input)) => input.push(fragment).map(Whole::Call),
                Some(OpenBlock::Text(_) | OpenBlock::Thinking { .. } | OpenBlock::Opaque(_)) | None => None,
            },
            ModelEvent::BlockStopped { index } => self.open.remove(index)?.finish(),
            ModelEvent::Usage(usage) => {
                self.usage = *usage;
                None
            }
            ModelEvent::Done { stop } => {
                self.stop = Some(stop.clone());
                None
            }
            ModelEvent::Ping => None,
        }
    }

    /// Text of blocks that are not whole.
    pub(crate) fn partial_text(&self) -> String {
        let texts = self.open.values().filter_map(|block| match block {
            OpenBlock::Text(text) => Some(text.as_str()),
            OpenBlock::Thinking { .. } | OpenBlock::Call(_) | OpenBlock::Opaque(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl From<&BlockStart> for OpenBlock {
    fn from(start: &BlockStart) -> Self {
        match start {
            BlockStart::Text => Self::Text(String::new()),
            BlockStart::Thinking => Self::Thinking { text: String::new(), signature: String::new() },
            BlockStart::ToolUse { id, name } => Self::Call(CallInput::new(id.clone(), name.clone())),
            BlockStart::Opaque(value) => Self::Opaque(value.clone()),
        }
    }
}

impl OpenBlock {
    fn finish(self) -> Option<Whole> {
        match self {
            // An empty text block is not sent back: APIs refuse it.
            Self::Text(text) if text.is_empty() => None,
            Self::Text(text) => Some(Whole::Block(Block::Text(text))),
            Self::Thinking { text, signature } => Some(Whole::Block(Block::Thinking { text, signature })),
            Self::Call(mut input) => input.stop().map(Whole::Call),
            Self::Opaque(value) => Some(Whole::Block(Block::Opaque(value))),
        }
    }
}
