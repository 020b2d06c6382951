//! Events as transcript lines and back. What a conversation is made of takes the shape public
//! transcript readers know; everything else is a line of our own type beside it.

mod message;
mod own;
mod read;
mod salvage;

pub(super) use read::{Keep, Said, read, understand};
pub(super) use salvage::salvage;

use super::compacted;
use ostler_proto::{Block, Entry, EntryId, Json, SessionEvent, SessionId, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use std::path::PathBuf;

/// Facts that stand on every line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stamp {
    /// Our version.
    pub version: String,
    /// Where the session started.
    pub cwd: PathBuf,
    /// The branch that was checked out.
    pub git_branch: String,
    /// What kind of program started us, e.g. `sdk-cli`.
    pub entrypoint: String,
}

const INTERRUPTED: &str = "[Request interrupted by user]";
const INTERRUPTED_TOOLS: &str = "[Request interrupted by user for tool use]";

/// The words the model reads where the user stopped it.
pub(super) fn interrupt_marker(during_tools: bool) -> &'static str {
    if during_tools { INTERRUPTED_TOOLS } else { INTERRUPTED }
}

/// One line, without its newline. A summary is preceded by a line of its own that marks the place: what is
/// left when the second is not written whole means nothing yet.
pub(super) fn write(entry: &Entry, session: &SessionId, stamp: &Stamp) -> String {
    if let SessionEvent::Compacted { boundary, compaction } = &entry.event
        && !compaction.carried.is_empty()
    {
        let mark =
            write_shape(entry, (None, boundary), compacted::boundary(entry, compaction), session, stamp);
        let summary = write_shape(
            entry,
            (Some(boundary), &entry.id),
            compacted::summary(boundary, compaction),
            session,
            stamp,
        );
        return format!("{mark}\n{summary}");
    }
    write_shape(entry, (entry.parent.as_ref(), &entry.id), shape(entry), session, stamp)
}

fn write_shape(
    entry: &Entry,
    (parent, id): (Option<&EntryId>, &EntryId),
    shape: Shape,
    session: &SessionId,
    stamp: &Stamp,
) -> String {
    let mut line = Map::new();
    let mut put = |key: &str, value: Json| {
        line.insert(key.to_owned(), value);
    };
    if shape.kind == OWN_TYPE {
        put("type", json!(OWN_TYPE));
        put("v", json!(1));
    } else {
        put("parentUuid", json!(parent));
        put("isSidechain", json!(false));
        put("type", json!(shape.kind));
    }
    for (key, value) in shape.fields {
        put(key, value);
    }
    put("uuid", json!(id));
    put("timestamp", json!(entry.timestamp));
    put("sessionId", json!(session));
    put("cwd", json!(stamp.cwd));
    put("version", json!(stamp.version));
    put("gitBranch", json!(stamp.git_branch));
    put("userType", json!("external"));
    put("entrypoint", json!(stamp.entrypoint));
    Json::Object(line).to_string()
}

/// The type of lines only Ostler reads.
pub(super) const OWN_TYPE: &str = "ostler";

pub(super) struct Shape {
    pub(super) kind: &'static str,
    pub(super) fields: Vec<(&'static str, Json)>,
}

fn shape(entry: &Entry) -> Shape {
    let user = |content: Json, more: Vec<(&'static str, Json)>| {
        let mut fields = vec![("message", json!({"role": "user", "content": content}))];
        fields.extend(more);
        Shape { kind: "user", fields }
    };
    match &entry.event {
        SessionEvent::Prompted { content, meta } => {
            let content = match content.as_slice() {
                [Block::Text(text)] => json!(text),
                blocks => json!(blocks),
            };
            user(content, if *meta { vec![("isMeta", json!(true))] } else { vec![] })
        }
        SessionEvent::Replied { message, model, request, block, usage } => Shape {
            kind: "assistant",
            fields: vec![
                ("message", assistant_message(message, model, block, *usage)),
                ("requestId", json!(request)),
            ],
        },
        SessionEvent::ToolReturned { tool, result, structured, state, changes, duration_ms } => {
            let extra = json!({"tool": tool, "state": state, "changes": changes, "duration_ms": duration_ms});
            user(
                json!([result]),
                vec![
                    ("toolUseResult", structured.clone()),
                    ("sourceToolAssistantUUID", json!(entry.parent)),
                    (OWN_TYPE, extra),
                ],
            )
        }
        SessionEvent::Commanded { name, arguments, output, .. } => Shape {
            kind: "system",
            fields: vec![
                ("subtype", json!("local_command")),
                ("content", json!(command_text(name, arguments, output))),
                (OWN_TYPE, json!({"command": entry.event})),
            ],
        },
        SessionEvent::Interrupted { during_tools } => {
            let marker = Block::text(interrupt_marker(*during_tools));
            user(
                json!([marker]),
                vec![(OWN_TYPE, json!({"interrupted": true, "during_tools": during_tools}))],
            )
        }
        SessionEvent::Failed { message } => {
            let block = Block::text(message.clone());
            Shape {
                kind: "assistant",
                fields: vec![
                    (
                        "message",
                        assistant_message(entry.id.as_str(), "<synthetic>", &block, Usage::default()),
                    ),
                    ("isApiErrorMessage", json!(true)),
                ],
            }
        }
        event @ (SessionEvent::Opened { .. }
        | SessionEvent::Sampled { .. }
        | SessionEvent::CacheBroken { .. }
        | SessionEvent::Dropped { .. }
        | SessionEvent::Decided { .. }
        | SessionEvent::Hooked { .. }
        | SessionEvent::Instructed { .. }
        | SessionEvent::ModeChanged { .. }
        | SessionEvent::ModelChanged { .. }
        | SessionEvent::Rewound { .. }
        | SessionEvent::RewindUndone
        | SessionEvent::Compacted { .. }
        | SessionEvent::Uncompacted) => own_shape(event),
    }
}

/// A command as public transcript readers show it.
fn command_text(name: &str, arguments: &str, output: &str) -> String {
    format!(
        "<command-name>/{name}</command-name>\n<command-args>{arguments}</command-args>\n<local-command-stdout>{output}</local-command-stdout>"
    )
}

fn own_shape(event: &SessionEvent) -> Shape {
    // Plain data with string keys always becomes a JSON value.
    let value = serde_json::to_value(event).unwrap_or_default();
    Shape { kind: OWN_TYPE, fields: vec![("data", value)] }
}

fn assistant_message(id: &str, model: &str, block: &Block, usage: Usage) -> Json {
    json!({
        "id": id, "type": "message", "role": "assistant", "model": model, "content": [block],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    })
}
