//! `/compact`: a shorter conversation now, or the longer one back.

use super::{Builtin, Outcome};
use crate::agent::Compacted;
use ostler_proto::TurnOutcome;

pub(super) const COMPACT: Builtin = Builtin {
    name: "compact",
    argument_hint: "[what to dwell on | undo]",
    description: "Make the conversation shorter by a summary, or take that back",
    run: |agent, arguments| {
        Box::pin(async move {
            if arguments == "undo" {
                let said = if agent.uncompact().await? {
                    "The last compaction was taken back: the conversation is whole again."
                } else {
                    "There is no compaction to take back."
                };
                return Ok(Outcome::Said(said.to_owned()));
            }
            Ok(Outcome::Said(match agent.compact_as_told(arguments).await? {
                Compacted::Shorter { before, after } => format!(
                    "Compacted: about {before} tokens became about {after}. /compact undo takes it back."
                ),
                Compacted::Not(why) => format!("The conversation stays as it was: {why}."),
                Compacted::Stopped(TurnOutcome::Interrupted { .. }) => {
                    "Interrupted: the conversation stays as it was.".to_owned()
                }
                Compacted::Stopped(_) => {
                    "There was no time for it: the conversation stays as it was.".to_owned()
                }
            }))
        })
    },
};
