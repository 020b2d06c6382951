//! A compaction as transcript lines and back: a line that marks the place, as public readers know it, and
//! what is carried over it, as the message it becomes.

use super::line::{OWN_TYPE, Shape};
use ostler_proto::{Block, Compaction, Entry, EntryId, Json, SessionEvent, Trigger, Usage};
use serde::Deserialize;
use serde_json::json;

/// The place of a compaction.
pub(super) fn boundary(entry: &Entry, compaction: &Compaction) -> Shape {
    let Compaction { trigger, pre_tokens, post_tokens, duration_ms, .. } = compaction;
    Shape {
        kind: "system",
        fields: vec![
            ("subtype", json!("compact_boundary")),
            ("content", json!("Conversation compacted")),
            ("logicalParentUuid", json!(entry.parent)),
            (
                "compactMetadata",
                json!({"trigger": trigger, "preTokens": pre_tokens, "postTokens": post_tokens,
                    "durationMs": duration_ms}),
            ),
            // What another tool's mark says at once, ours says only with the line behind it.
            (OWN_TYPE, json!({"mark": true})),
        ],
    }
}

/// What is carried over it.
pub(super) fn summary(boundary: &EntryId, compaction: &Compaction) -> Shape {
    let rest = Compaction { carried: Vec::new(), ..compaction.clone() };
    Shape {
        kind: "user",
        fields: vec![
            ("message", json!({"role": "user", "content": compaction.carried})),
            ("isCompactSummary", json!(true)),
            (OWN_TYPE, json!({"compacted": rest, "boundary": boundary})),
        ],
    }
}

/// A compaction, ours or that of another tool, which says no more than what it carried over.
pub(super) fn read(own: Option<&Json>, parent: Option<&str>, content: Vec<Block>) -> SessionEvent {
    let data = own.and_then(|own| Compaction::deserialize(own.get("compacted")?).ok());
    let boundary = own.and_then(|own| own.get("boundary")?.as_str()).or(parent).unwrap_or_default();
    let compaction = data.unwrap_or(Compaction {
        trigger: Trigger::Auto,
        focus: String::new(),
        pruned: Vec::new(),
        carried: Vec::new(),
        kept: 0,
        pre_tokens: 0,
        post_tokens: 0,
        duration_ms: 0,
        model: String::new(),
        usage: Usage::default(),
        cost_usd: 0.0,
    });
    SessionEvent::Compacted {
        boundary: EntryId::from(boundary),
        compaction: Compaction { carried: content, ..compaction },
    }
}
