//! Transcript lines as events. Borrows from the line and parses no more of it than whoever reads needs;
//! what another program wrote is understood as far as it means the same.

use super::{
    super::compacted,
    INTERRUPTED, INTERRUPTED_TOOLS, OWN_TYPE,
    message::{Message, Quick, Thorough},
    own,
};
use ostler_proto::{
    Block, Entry, EntryId, Json, Mode, Role, SessionEvent, StateChange, ToolResult, session::CallState,
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// How much of a line is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Keep {
    /// All there is.
    Everything,
    /// What the fold needs: not what programs got of a result, what an approval prompt showed, or what hooks said.
    Conversation,
}

/// What a line says.
#[derive(Debug, Default)]
pub(in crate::session) struct Said {
    /// Several where another tool put them on one line; none for a line that is not ours to understand.
    pub(in crate::session) entries: Vec<Entry>,
    /// The id of a line without events, if it has one; events carry it themselves.
    id: Option<EntryId>,
    /// The line that one follows.
    pub(in crate::session) parent: Option<EntryId>,
    /// Whether it is Ostler's.
    pub(in crate::session) is_ours: bool,
    /// Whether another program summed up what came before, which counts no more.
    pub(in crate::session) sums_up: bool,
}

/// The keys of a line that mean something to us; how its message is read, and whether what programs got of
/// a result is, is up to the reader.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "M: Deserialize<'de>, S: Deserialize<'de>, 'de: 'a"))]
struct Raw<'a, M, S> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    uuid: Option<Text<'a>>,
    #[serde(borrow)]
    parent_uuid: Option<Text<'a>>,
    #[serde(borrow)]
    timestamp: Option<Text<'a>>,
    is_sidechain: Option<bool>,
    is_meta: Option<bool>,
    is_api_error_message: Option<bool>,
    is_compact_summary: Option<bool>,
    #[serde(borrow)]
    permission_mode: Option<Text<'a>>,
    #[serde(borrow)]
    subtype: Option<Text<'a>>,
    #[serde(borrow)]
    request_id: Option<Text<'a>>,
    message: Option<M>,
    tool_use_result: Option<S>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    ostler: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// What we keep beside what public readers know.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Own {
    tool: String,
    state: Option<CallState>,
    changes: Vec<StateChange>,
    duration_ms: u64,
    interrupted: bool,
    during_tools: bool,
    command: Option<SessionEvent>,
}

/// The events of a line, with all that is known of them.
pub(in crate::session) fn read(line: &str) -> Result<Vec<Entry>, String> {
    understand(line, Keep::Everything).map(|said| said.entries)
}

/// What a line says.
pub(in crate::session) fn understand(line: &str, keep: Keep) -> Result<Said, String> {
    if keep == Keep::Conversation {
        if is_beside_the_point(line) {
            return Ok(Said { is_ours: true, ..Said::default() });
        }
        if let Some(entry) = own::quick(line) {
            return Ok(Said { is_ours: true, entries: vec![entry], ..Said::default() });
        }
        // A block that is not of the plainest shape takes the long way.
        if let Ok(mut raw) = serde_json::from_str::<Raw<Quick, IgnoredAny>>(line) {
            // When words were said is not part of the fold; when other things happened may be.
            if raw.kind != OWN_TYPE {
                (raw.timestamp, raw.request_id) = (None, None);
            }
            return said(raw, |message| Ok(message.0), |_| Ok(Json::Null));
        }
    }
    let raw: Raw<Thorough, &RawValue> = serde_json::from_str(line).map_err(|error| error.to_string())?;
    said(
        raw,
        |message| message.read(),
        |structured| match keep {
            Keep::Everything => parse(structured),
            Keep::Conversation => Ok(Json::Null),
        },
    )
}

fn said<M, S>(
    mut raw: Raw<'_, M, S>,
    read: impl FnOnce(M) -> Result<Message, String>,
    structured: impl Fn(&S) -> Result<Json, String>,
) -> Result<Said, String> {
    let id = raw.uuid.as_ref().map(|Text(id)| EntryId::from(id.as_ref()));
    let parent = raw.parent_uuid.as_ref().map(|Text(id)| EntryId::from(id.as_ref()));
    let mut said = Said {
        is_ours: raw.kind == OWN_TYPE || raw.ostler.is_some(),
        sums_up: raw.subtype.as_ref().is_some_and(|Text(subtype)| subtype == "compact_boundary")
            && raw.ostler.is_none(),
        ..Said::default()
    };
    if raw.is_sidechain == Some(true) {
        return Ok(said);
    }
    let message = || raw.message.take().ok_or("a line without its message").map(read);
    let events = match raw.kind.as_ref() {
        OWN_TYPE => own_event(raw.data.ok_or("a line of ours without data")?)?,
        "user" => {
            let message = message()??;
            user_events(&raw, message, structured)?
        }
        "assistant" => {
            let message = message()??;
            assistant_events(&raw, message)?
        }
        "system" => raw.own().command.into_iter().collect(),
        _ => Vec::new(),
    };
    let timestamp = raw.timestamp.map(|Text(text)| text.into_owned()).unwrap_or_default();
    let mut common = Some((id, parent, timestamp));
    let count = events.len();
    for (at, event) in events.into_iter().enumerate() {
        // Nearly every line has one event, which need not share.
        let taken = if at + 1 == count { common.take() } else { common.clone() };
        let Some((id, parent, timestamp)) = taken else { break };
        let id = id.unwrap_or_else(|| EntryId(String::new()));
        said.entries.push(Entry { id, parent, timestamp, event });
    }
    if let Some((id, parent, _)) = common {
        (said.id, said.parent) = (id, parent);
    }
    Ok(said)
}

impl Said {
    /// Whether the line is neither ours nor part of a conversation.
    pub(in crate::session) fn is_nothing(&self) -> bool {
        self.entries.is_empty() && self.id.is_none() && !self.is_ours
    }

    /// The line's id, if it has one.
    pub(in crate::session) fn id(&self) -> Option<&EntryId> {
        let of_events = self.entries.first().map(|entry| &entry.id).filter(|id| !id.as_str().is_empty());
        of_events.or(self.id.as_ref())
    }
}

/// Whether a line of ours holds nothing that the fold takes in. These lines are many and long, and are
/// known by how we begin them.
fn is_beside_the_point(line: &str) -> bool {
    let Some(event) = line.strip_prefix(r#"{"type":"ostler","v":1,"data":{"event":""#) else { return false };
    // What hooks asked a model was paid for, and counts.
    event.starts_with("hooked\"") && !event.contains(r#""spent":{"#)
}

pub(super) fn parse<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Result<T, String> {
    serde_json::from_str(value.get()).map_err(|error| error.to_string())
}

/// An event of a later version is no damage; it means nothing to us.
fn own_event(data: &RawValue) -> Result<Vec<SessionEvent>, String> {
    match parse::<SessionEvent>(data) {
        Ok(event) => Ok(vec![event]),
        Err(problem) if problem.starts_with("unknown variant") => Ok(Vec::new()),
        Err(problem) => Err(problem),
    }
}

impl<M, S> Raw<'_, M, S> {
    /// What a later version wrote differently is worth less than the result it stands beside.
    fn own(&self) -> Own {
        self.ostler.and_then(|own| parse(own).ok()).unwrap_or_default()
    }
}

fn user_events<M, S>(
    raw: &Raw<'_, M, S>,
    message: Message,
    structured: impl Fn(&S) -> Result<Json, String>,
) -> Result<Vec<SessionEvent>, String> {
    let content = message.content;
    if raw.is_compact_summary == Some(true) {
        let own: Option<Json> = raw.ostler.and_then(|own| parse(own).ok());
        let parent = raw.parent_uuid.as_ref().map(|Text(id)| id.as_ref());
        return Ok(vec![compacted::read(own.as_ref(), parent, content)]);
    }
    let mut own = raw.own();
    let is_marker = |marker: &str| matches!(content.as_slice(), [Block::Text(text)] if text == marker);
    if own.interrupted || is_marker(INTERRUPTED) || is_marker(INTERRUPTED_TOOLS) {
        let during_tools = own.during_tools || (raw.ostler.is_none() && is_marker(INTERRUPTED_TOOLS));
        return Ok(vec![SessionEvent::Interrupted { during_tools }]);
    }
    let mut events = Vec::new();
    let mut said = Vec::new();
    for block in content {
        if let Block::ToolResult(result) = block {
            let structured = raw.tool_use_result.as_ref().map_or(Ok(Json::Null), &structured)?;
            events.push(returned(&mut own, result, structured));
        } else {
            said.push(block);
        }
    }
    if !said.is_empty() {
        let mode = raw.permission_mode.as_ref().and_then(|Text(mode)| mode.parse::<Mode>().ok());
        events.extend(mode.map(|mode| SessionEvent::ModeChanged { mode }));
        events.push(SessionEvent::Prompted { content: said, meta: raw.is_meta == Some(true) });
    }
    Ok(events)
}

/// We put each result on a line of its own; others that share one share what only we write.
fn returned(own: &mut Own, result: ToolResult, structured: Json) -> SessionEvent {
    let default_state = if result.is_error { CallState::Failed } else { CallState::Complete };
    SessionEvent::ToolReturned {
        tool: std::mem::take(&mut own.tool),
        structured,
        state: own.state.unwrap_or(default_state),
        changes: std::mem::take(&mut own.changes),
        duration_ms: own.duration_ms,
        result,
    }
}

fn assistant_events<M, S>(raw: &Raw<'_, M, S>, message: Message) -> Result<Vec<SessionEvent>, String> {
    if message.role != Some(Role::Assistant) {
        return Err("an assistant line with another role".to_owned());
    }
    if raw.is_api_error_message == Some(true) || message.model == "<synthetic>" {
        let words: Vec<&str> = message.content.iter().filter_map(Block::as_text).collect();
        return Ok(vec![SessionEvent::Failed { message: words.join("\n") }]);
    }
    let request = raw.request_id.as_ref().map(|Text(id)| id.to_string());
    let Message { id, model, mut content, usage, .. } = message;
    let last = content.pop();
    let replied = |block| SessionEvent::Replied {
        message: id.clone(),
        model: model.clone(),
        request: request.clone(),
        block,
        usage,
    };
    let mut events: Vec<SessionEvent> = content.into_iter().map(replied).collect();
    events.extend(last.map(|block| SessionEvent::Replied { message: id, model, request, block, usage }));
    Ok(events)
}
