//! A conversation as an API's wire wrote it last, so that each message is written once. Messages are shared and
//! never changed in place: one that is the same object is the same text. Holds nothing that moves, such as marks.

use crate::wire::to_bytes;
use ostler_proto::Message;
use serde::Serialize;
use std::sync::Arc;

/// The messages of the last request, written. It belongs to one API and one row; another model needs another.
#[derive(Debug, Default)]
pub struct Written {
    /// All items, each with a comma behind it.
    bytes: Vec<u8>,
    messages: Vec<Kept>,
}

#[derive(Debug)]
struct Kept {
    message: Arc<Message>,
    /// How many bytes there are up to its end.
    end: usize,
    /// How many blocks went into them; nothing may be left of a message.
    blocks: usize,
}

/// A message of which something is sent.
#[derive(Clone, Copy)]
pub(crate) struct Said<'a> {
    pub(crate) place: usize,
    pub(crate) message: &'a Message,
    pub(crate) blocks: usize,
}

/// Where the items of one message go.
pub(crate) struct Page<'a> {
    bytes: &'a mut Vec<u8>,
    blocks: usize,
}

impl Written {
    /// Takes over a conversation; `write` is asked for what is new in it.
    pub(crate) fn follow(
        &mut self,
        messages: &[Arc<Message>],
        mut write: impl FnMut(&Message, &mut Page<'_>),
    ) {
        let pairs = self.messages.iter().zip(messages);
        let same = pairs.take_while(|(kept, new)| Arc::ptr_eq(&kept.message, new)).count();
        self.bytes.truncate(self.start_of(same));
        self.messages.truncate(same);
        for message in &messages[same..] {
            let mut page = Page { bytes: &mut self.bytes, blocks: 0 };
            write(message, &mut page);
            let blocks = page.blocks;
            self.messages.push(Kept { message: Arc::clone(message), end: self.bytes.len(), blocks });
        }
    }

    /// The messages of which something is sent, the last one first.
    pub(crate) fn latest_first(&self) -> impl Iterator<Item = Said<'_>> {
        let sent = self.messages.iter().enumerate().rev().filter(|(_, kept)| kept.blocks > 0);
        sent.map(|(place, kept)| Said { place, message: &kept.message, blocks: kept.blocks })
    }

    /// A body that ends with the conversation, under this name. `before` are items that go first; `instead` are
    /// other words for some messages, in order.
    pub(crate) fn body(
        &self,
        head: &impl Serialize,
        name: &str,
        before: &[u8],
        instead: &[(usize, Vec<u8>)],
    ) -> Vec<u8> {
        let mut body = to_bytes(head);
        // The brace that would end it.
        body.pop();
        let others: usize = instead.iter().map(|(_, bytes)| bytes.len()).sum();
        body.reserve_exact(self.bytes.len() + before.len() + others + name.len() + "..:[]}".len());
        body.extend_from_slice(format!(",\"{name}\":[").as_bytes());
        let start = body.len();
        body.extend_from_slice(before);
        let mut next = 0;
        for (place, bytes) in instead {
            body.extend_from_slice(&self.bytes[next..self.start_of(*place)]);
            body.extend_from_slice(bytes);
            next = self.start_of(place + 1);
        }
        body.extend_from_slice(&self.bytes[next..]);
        if body.len() > start {
            // The comma behind the last item.
            body.pop();
        }
        body.extend_from_slice(b"]}");
        body
    }

    fn start_of(&self, place: usize) -> usize {
        place.checked_sub(1).map_or(0, |before| self.messages[before].end)
    }
}

impl Page<'_> {
    /// Adds an item that stands for so many blocks.
    pub(crate) fn add(&mut self, item: &impl Serialize, blocks: usize) {
        self.bytes.extend_from_slice(&item_bytes(item));
        self.blocks += blocks;
    }
}

/// An item of a conversation, with the comma behind it.
pub(crate) fn item_bytes(item: &impl Serialize) -> Vec<u8> {
    let mut bytes = to_bytes(item);
    bytes.push(b',');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{APIS, Api};
    use ostler_proto::{Block, ModelRow, Request, Thinking, ToolCall, ToolResult};
    use proptest::prelude::*;
    use serde_json::json;

    /// One change of a conversation.
    #[derive(Debug, Clone)]
    enum Change {
        Said(String),
        Called(u8),
        /// Something more in the last message, which is another object then.
        Grew(String),
        CutTo(usize),
        /// All of it is written for another reason than being new.
        Again,
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            3 => "[a\"\\\\é \n]{0,6}".prop_map(Change::Said),
            4 => prop::sample::select(vec![0u8, 1, 2, 20]).prop_map(Change::Called),
            2 => "[a ]{0,3}".prop_map(Change::Grew),
            1 => (0..6usize).prop_map(Change::CutTo),
            1 => Just(Change::Again),
        ]
    }

    fn apply(messages: &mut Vec<Arc<Message>>, change: Change) {
        match change {
            Change::Said(text) => messages.push(Arc::new(Message::user(vec![Block::text(text)]))),
            Change::Called(count) => {
                let ids: Vec<String> = (0..count).map(|nth| format!("c{}_{nth}", messages.len())).collect();
                let call = |id: &String| {
                    let call = ToolCall {
                        id: id.as_str().into(),
                        name: "Read".to_owned(),
                        input: json!({"file_path": id}),
                        problem: None,
                    };
                    Block::ToolUse(call)
                };
                let result = |id: &String| {
                    let content = vec![Block::text(format!("what {id} said"))];
                    Block::ToolResult(ToolResult { id: id.as_str().into(), content, is_error: false })
                };
                messages.push(Arc::new(Message::assistant(ids.iter().map(call).collect())));
                messages.push(Arc::new(Message::user(ids.iter().map(result).collect())));
            }
            Change::Grew(text) => {
                if let Some(last) = messages.last_mut() {
                    Arc::make_mut(last).content.push(Block::text(text));
                }
            }
            Change::CutTo(length) => messages.truncate(length),
            Change::Again => {
                for message in messages {
                    *message = Arc::new(Message::clone(message));
                }
            }
        }
    }

    fn request(messages: &[Arc<Message>]) -> Request {
        Request {
            model: "m".to_owned(),
            system: vec![ostler_proto::SystemText { text: "be".to_owned(), cache: true }],
            tools: Arc::new([]),
            messages: messages.to_vec(),
            max_output_tokens: 9,
            thinking: Thinking::Auto,
            effort: None,
        }
    }

    fn check(api: &Api, changes: Vec<Change>) {
        let row = ModelRow { cache_breakpoints: true, ..ModelRow::default() };
        let (mut messages, mut written) = (Vec::new(), Written::default());
        for change in changes {
            apply(&mut messages, change);
            let request = request(&messages);
            let body = (api.encode)(&request, &row, &mut written);
            let fresh = (api.encode)(&request, &row, &mut Written::default());
            assert_eq!(String::from_utf8_lossy(&body), String::from_utf8_lossy(&fresh), "{}", api.name);
            assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok(), "{}", api.name);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn what_was_written_before_changes_no_byte(changes in prop::collection::vec(change(), 1..10)) {
            for api in APIS {
                check(api, changes.clone());
            }
        }
    }

    #[test]
    fn what_is_the_same_is_not_written_again() {
        let messages: Vec<Arc<Message>> =
            ["a", "b", "c"].map(|text| Arc::new(Message::user(vec![Block::text(text)]))).into();
        let (mut written, mut seen) = (Written::default(), Vec::new());
        for end in [2, 3, 1, 2] {
            written.follow(&messages[..end], |message, page| {
                seen.push(message.content[0].as_text().unwrap_or_default().to_owned());
                page.add(&message.content[0].as_text(), 1);
            });
        }
        assert_eq!(seen, ["a", "b", "c", "b"]);
        let body = written.body(&json!({"x": 1}), "y", b"0,", &[(0, b"9,".to_vec())]);
        assert_eq!(String::from_utf8(body).unwrap(), r#"{"x":1,"y":[0,9,"b"]}"#);
    }
}
