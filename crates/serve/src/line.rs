//! What a host writes to us: lines out of a pipe, and each line as what it says. A line may hold anything,
//! so nothing here trusts its shape and nothing ends the dialogue.

use ostler_proto::{Block, EntryId, Json, Wording};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use uuid::Uuid;

/// Longer lines are skipped: twice the largest request a model API takes.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// One line, understood.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Line {
    /// The user says something.
    User { content: Vec<Block>, id: EntryId, wording: Wording },
    /// Something to add to the conversation, without a turn.
    Aside { content: Vec<Block>, id: EntryId },
    /// The host asks something of us.
    Request { id: String, request: Json },
    /// The host answers a request of ours; an error is its text.
    Response { id: String, response: Result<Json, String> },
    /// The host no longer wants an answer. All requests are answered at once, so there is none to call off.
    Cancel,
    /// Nothing but space.
    Blank,
}

/// Reads lines from a pipe. Dropping `next` half-way loses nothing.
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    partial: Vec<u8>,
    longest: usize,
    overlong: bool,
}

/// Takes a line apart. The error says what is wrong with it.
pub(crate) fn from_line(line: &[u8]) -> Result<Line, String> {
    if line.trim_ascii().is_empty() {
        return Ok(Line::Blank);
    }
    let value: Json = serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
    match value["type"].as_str() {
        Some("user") => user(&value),
        Some("control_request") => {
            let id = text(&value, "request_id")?;
            Ok(Line::Request { id, request: value["request"].clone() })
        }
        Some("control_response") => {
            let response = &value["response"];
            let id = text(response, "request_id")?;
            let response = match response["subtype"].as_str() {
                Some("success") => Ok(response["response"].clone()),
                _ => Err(response["error"].as_str().unwrap_or("no reason given").to_owned()),
            };
            Ok(Line::Response { id, response })
        }
        Some("control_cancel_request") => Ok(Line::Cancel),
        Some(other) => Err(format!("unknown message type '{other}'")),
        None => Err("no message type".to_owned()),
    }
}

fn text(value: &Json, key: &str) -> Result<String, String> {
    value[key].as_str().map(str::to_owned).ok_or_else(|| format!("{key} is missing or no text"))
}

fn user(value: &Json) -> Result<Line, String> {
    let content = match &value["message"]["content"] {
        Json::String(text) => vec![Block::text(text.clone())],
        Json::Array(blocks) => blocks.iter().map(user_block).collect::<Result<_, _>>()?,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => {
            return Err("message.content must be a text or a list of blocks".to_owned());
        }
    };
    // Model APIs refuse empty texts, and a refused message would stay in the conversation for good.
    let content: Vec<Block> = content.into_iter().filter(|block| block.as_text() != Some("")).collect();
    if content.is_empty() {
        return Err("the user message is empty".to_owned());
    }
    let own_id = value["uuid"].as_str().and_then(|text| Uuid::parse_str(text).ok());
    let id = own_id.unwrap_or_else(Uuid::new_v4).to_string();
    if value["shouldQuery"] == false {
        return Ok(Line::Aside { content, id: EntryId(id) });
    }
    let wording = if value["client_composed"] == true { Wording::Verbatim } else { Wording::Typed };
    Ok(Line::User { content, id: EntryId(id), wording })
}

fn user_block(value: &Json) -> Result<Block, String> {
    match value["type"].as_str() {
        Some("text" | "image" | "document" | "tool_result") => {
            Block::deserialize(value).map_err(|error| error.to_string())
        }
        Some(other) => Err(format!("a user message cannot hold a '{other}' block")),
        None => Err("a content block without a type".to_owned()),
    }
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader: BufReader::new(reader), partial: Vec::new(), longest: LONGEST_LINE, overlong: false }
    }

    /// The next line without its newline, `None` at the end. A read error counts as the end.
    pub(crate) async fn next(&mut self) -> Option<Result<Vec<u8>, String>> {
        loop {
            let Ok(read) = self.reader.fill_buf().await else { return None };
            if read.is_empty() {
                let rest = self.take();
                return (rest != Ok(Vec::new())).then_some(rest);
            }
            let newline = read.iter().position(|byte| *byte == b'\n');
            let piece = &read[..newline.unwrap_or(read.len())];
            self.overlong |= self.partial.len() + piece.len() > self.longest;
            if !self.overlong {
                self.partial.extend_from_slice(piece);
            }
            let used = newline.map_or(read.len(), |position| position + 1);
            self.reader.consume(used);
            if newline.is_some() {
                return Some(self.take());
            }
        }
    }

    fn take(&mut self) -> Result<Vec<u8>, String> {
        let line = std::mem::take(&mut self.partial);
        if std::mem::take(&mut self.overlong) {
            return Err(format!("longer than {} bytes", self.longest));
        }
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[track_caller]
    fn check_refused(line: &str, part: &str) {
        let problem = from_line(line.as_bytes()).unwrap_err();
        assert!(problem.contains(part), "{problem}");
    }

    #[test]
    fn user_messages_keep_content_and_id() {
        let id = "7d3f1b53-8c1c-4b0c-9c62-0f4f3a1c0a11";
        let line =
            json!({"type": "user", "uuid": id, "message": {"role": "user", "content": "hi"}}).to_string();
        let expected =
            Line::User { content: vec![Block::text("hi")], id: id.into(), wording: Wording::Typed };
        assert_eq!(from_line(line.as_bytes()), Ok(expected));
        let blocks = json!([{"type": "text", "text": ""}, {"type": "text", "text": "a"},
            {"type": "image", "source": {"type": "url", "url": "u"}}]);
        let line = json!({"type": "user", "uuid": "../x", "message": {"content": blocks}}).to_string();
        let Ok(Line::User { content, id, .. }) = from_line(line.as_bytes()) else {
            panic!("no user message")
        };
        assert_eq!(content.len(), 2);
        assert!(Uuid::parse_str(id.as_str()).is_ok(), "an id that is none is replaced");
    }

    #[test]
    fn a_message_that_asks_for_nothing_is_an_aside() {
        let line = r#"{"type":"user","shouldQuery":false,"message":{"content":"x"}}"#;
        let Ok(Line::Aside { content, .. }) = from_line(line.as_bytes()) else { panic!("no aside") };
        assert_eq!(content, vec![Block::text("x")]);
    }

    #[test]
    fn bad_lines_are_named() {
        check_refused("{", "not JSON");
        check_refused("[1]", "no message type");
        check_refused(r#"{"type":"odd"}"#, "unknown message type 'odd'");
        check_refused(r#"{"type":"user"}"#, "message.content");
        check_refused(r#"{"type":"user","message":{"content":""}}"#, "empty");
        check_refused(r#"{"type":"user","message":{"content":[{"type":"tool_use"}]}}"#, "'tool_use'");
        check_refused(r#"{"type":"control_request","request":{}}"#, "request_id");
        assert_eq!(from_line(b" \r"), Ok(Line::Blank));
    }

    #[tokio::test]
    async fn lines_end_at_newlines_and_at_the_end_of_input() {
        let mut lines = Lines::new(&b"one\n\ntwo"[..]);
        assert_eq!(lines.next().await, Some(Ok(b"one".to_vec())));
        assert_eq!(lines.next().await, Some(Ok(Vec::new())));
        assert_eq!(lines.next().await, Some(Ok(b"two".to_vec())));
        assert_eq!(lines.next().await, None);
    }

    #[tokio::test]
    async fn an_endless_line_is_skipped_without_being_kept() {
        let mut lines = Lines { longest: 4, ..Lines::new(&b"12345\nnext\n"[..]) };
        assert!(lines.next().await.unwrap().unwrap_err().contains("longer"));
        assert_eq!(lines.next().await, Some(Ok(b"next".to_vec())));
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let keys = "type|message|content|request|request_id|response|subtype|uuid|user|text|source";
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            "user|control_request|control_response|text|image|success|.{0,6}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 32, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                proptest::collection::vec((keys, inner), 0..6)
                    .prop_map(|fields| Json::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_line_is_fatal(bytes in proptest::collection::vec(any::<u8>(), 0..200), value in any_json()) {
            let _ = from_line(&bytes);
            let _ = from_line(value.to_string().as_bytes());
        }
    }
}
