//! Events as transcript lines and back. What a conversation is made of takes the shape public
//! transcript readers know; everything else is a line of our own type beside it.

use ostler_proto::{
    Block, Entry, EntryId, Json, Message, Role, SessionEvent, SessionId, ToolResult, Usage,
    session::CallState,
};
use serde::Deserialize;
use serde_json::{Map, json};
use std::path::PathBuf;

/// Facts that stand on every line.
#[derive(Debug, Clone, Default)]
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

/// One line, without its newline.
pub(super) fn write(entry: &Entry, session: &SessionId, stamp: &Stamp) -> String {
    let mut line = Map::new();
    let mut put = |key: &str, value: Json| {
        line.insert(key.to_owned(), value);
    };
    let shape = shape(entry);
    if shape.kind == OWN_TYPE {
        put("type", json!(OWN_TYPE));
        put("v", json!(1));
    } else {
        put("parentUuid", json!(entry.parent));
        put("isSidechain", json!(false));
        put("type", json!(shape.kind));
    }
    for (key, value) in shape.fields {
        put(key, value);
    }
    put("uuid", json!(entry.id));
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
const OWN_TYPE: &str = "ostler";

struct Shape {
    kind: &'static str,
    fields: Vec<(&'static str, Json)>,
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
        | SessionEvent::Dropped { .. }
        | SessionEvent::Decided { .. }
        | SessionEvent::Hooked { .. }
        | SessionEvent::ModeChanged { .. }
        | SessionEvent::ModelChanged { .. }
        | SessionEvent::Rewound { .. }) => own_shape(event),
    }
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

/// What a line says. Several events where another tool put them on one line; none for a line
/// that is not ours to understand.
pub(super) fn read(line: &str) -> Result<Vec<Entry>, String> {
    let value: Json = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let text = |key: &str| value.get(key).and_then(Json::as_str).unwrap_or_default();
    let entry = |event| Entry {
        id: EntryId::from(text("uuid")),
        parent: value.get("parentUuid").and_then(Json::as_str).map(EntryId::from),
        timestamp: text("timestamp").to_owned(),
        event,
    };
    if value.get("isSidechain") == Some(&Json::Bool(true)) {
        return Ok(Vec::new());
    }
    let events = match text("type") {
        OWN_TYPE => {
            let data = value.get("data").ok_or("a line of ours without data")?;
            vec![SessionEvent::deserialize(data).map_err(|error| error.to_string())?]
        }
        "user" => user_events(&value)?,
        "assistant" => assistant_events(&value)?,
        _ => Vec::new(),
    };
    Ok(events.into_iter().map(entry).collect())
}

fn user_events(line: &Json) -> Result<Vec<SessionEvent>, String> {
    let content = match line.pointer("/message/content") {
        Some(Json::String(text)) => vec![Block::text(text.clone())],
        Some(blocks) => Vec::<Block>::deserialize(blocks).map_err(|error| error.to_string())?,
        None => return Err("a user line without content".to_owned()),
    };
    let own = line.get(OWN_TYPE);
    let own_flag = |key: &str| own.and_then(|own| own.get(key)).and_then(Json::as_bool).unwrap_or(false);
    if own_flag("interrupted")
        || matches!(content.as_slice(), [Block::Text(text)] if text == INTERRUPTED || text == INTERRUPTED_TOOLS)
    {
        return Ok(vec![SessionEvent::Interrupted { during_tools: own_flag("during_tools") }]);
    }
    let mut events = Vec::new();
    let mut said = Vec::new();
    for block in content {
        if let Block::ToolResult(result) = block {
            events.push(returned(line, own, result));
        } else {
            said.push(block);
        }
    }
    if !said.is_empty() {
        let meta = line.get("isMeta").and_then(Json::as_bool).unwrap_or(false);
        events.push(SessionEvent::Prompted { content: said, meta });
    }
    Ok(events)
}

fn returned(line: &Json, own: Option<&Json>, result: ToolResult) -> SessionEvent {
    let field = |key: &str| own.and_then(|own| own.get(key));
    let default_state = if result.is_error { CallState::Failed } else { CallState::Complete };
    SessionEvent::ToolReturned {
        tool: field("tool").and_then(Json::as_str).unwrap_or_default().to_owned(),
        structured: line.get("toolUseResult").cloned().unwrap_or_default(),
        state: field("state").and_then(|state| CallState::deserialize(state).ok()).unwrap_or(default_state),
        changes: field("changes").and_then(|list| Vec::deserialize(list).ok()).unwrap_or_default(),
        duration_ms: field("duration_ms").and_then(Json::as_u64).unwrap_or_default(),
        result,
    }
}

fn assistant_events(line: &Json) -> Result<Vec<SessionEvent>, String> {
    let message = line.get("message").ok_or("an assistant line without a message")?;
    let text = |key: &str| message.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    let parsed = Message::deserialize(message).map_err(|error| error.to_string())?;
    if parsed.role != Role::Assistant {
        return Err("an assistant line with another role".to_owned());
    }
    if line.get("isApiErrorMessage") == Some(&Json::Bool(true)) || text("model") == "<synthetic>" {
        let words: Vec<&str> = parsed.content.iter().filter_map(Block::as_text).collect();
        return Ok(vec![SessionEvent::Failed { message: words.join("\n") }]);
    }
    let usage = message.get("usage").and_then(|usage| Usage::deserialize(usage).ok()).unwrap_or_default();
    let request = line.get("requestId").and_then(Json::as_str).map(str::to_owned);
    let replied = |block| SessionEvent::Replied {
        message: text("id"),
        model: text("model"),
        request: request.clone(),
        block,
        usage,
    };
    Ok(parsed.content.into_iter().map(replied).collect())
}
