//! How a conversation is made shorter: what of it is pruned, what stays word for word, what a summary is asked
//! for and how it is taken. Pure: it asks nobody, reads no file and records nothing.

mod carry;
mod prune;
mod room;
mod summary;

pub(crate) use carry::{Contract, File, Words, allot};
pub(crate) use prune::{Cut, Survey, survey};
pub(crate) use room::{Room, Shares};
pub(crate) use summary::{Futile, instruction, longest_summary, take};

use crate::tokens;
use ostler_proto::Message;
use std::sync::Arc;

/// What messages cost.
pub(crate) fn weight(messages: &[Arc<Message>]) -> u64 {
    messages.iter().map(|message| tokens::of_message(message)).sum()
}

/// How much of the end of a conversation stays word for word: a part of the room, and of what there is.
pub(crate) fn tail(messages: &[Arc<Message>], shares: Shares) -> u64 {
    shares.tail.min(weight(messages) / 4)
}

/// The two ends of a text that is too long for `most` bytes, and a note on what lies between.
pub(crate) fn ends(text: &str, most: usize, note: &str) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(most / 3 * 2);
    let tail = text.ceil_char_boundary(text.len() - most / 3);
    format!("{}\n[… {} bytes are left out here{note} …]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests;
