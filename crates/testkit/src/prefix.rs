//! Do requests only ever grow? Compares what a prompt cache sees: tools, system, messages, in this order,
//! without the cache marks, which move.

use crate::{
    conversation::{Protocol, items, role, without_cache_marks},
    log::Recorded,
};
use ostler_proto::Json;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

/// What of a request must stay, in comparable pieces, each with its place.
struct Prompt {
    /// Equal in every request of a conversation.
    tools: Vec<(String, String)>,
    /// Equal in every request of a conversation.
    system: Vec<(String, String)>,
    /// The conversation: only extended.
    growing: Vec<(String, String)>,
    /// Whether the model has spoken yet.
    begun: bool,
}

/// Panics unless each of these requests, all of one conversation, extends the one before it.
#[track_caller]
pub fn assert_prefixes(requests: &[Recorded]) {
    let prompts: Vec<Prompt> = requests.iter().map(Prompt::of).collect();
    for (number, pair) in (1..).zip(prompts.windows(2)) {
        if let [earlier, later] = pair
            && let Err(difference) = earlier.extended_by(later)
        {
            panic!("request {} does not extend request {number}: {difference}", number + 1);
        }
    }
}

/// Says which request does not extend the conversation it continues.
///
/// A request in which the model has not spoken begins a conversation of its own (another agent, a
/// summary). Any other must extend the last request of some conversation; only the very first may come
/// from nowhere, being a resumed one.
pub fn check_append_only(requests: &[Recorded]) -> Result<(), String> {
    let mut conversations: Vec<(usize, Prompt)> = Vec::new();
    for (number, request) in (1..).zip(requests) {
        let prompt = Prompt::of(request);
        let extended = conversations.iter().position(|(_, last)| last.extended_by(&prompt).is_ok());
        match extended {
            Some(index) => conversations[index] = (number, prompt),
            None if !prompt.begun || conversations.is_empty() => conversations.push((number, prompt)),
            None => {
                let closest = conversations.iter().max_by_key(|(_, last)| last.shared_with(&prompt));
                let (earlier, last) = closest.expect("there are conversations");
                let difference = last.extended_by(&prompt).err().unwrap_or_default();
                return Err(format!("request {number} does not extend request {earlier}: {difference}"));
            }
        }
    }
    Ok(())
}

/// Panics unless the later body has the earlier one's tools, system and messages byte for byte, cache
/// marks included, and only more messages after them.
#[track_caller]
pub fn assert_byte_prefix(earlier: &[u8], later: &[u8]) {
    let read = |body| serde_json::from_slice::<RawPrompt<'_>>(body).expect("a request body");
    let (earlier, later) = (read(earlier), read(later));
    let text = |value: Option<&RawValue>| value.map(|value| value.get().to_owned()).unwrap_or_default();
    let fixed = [
        ("tools", earlier.tools, later.tools),
        ("system", earlier.system, later.system),
        ("instructions", earlier.instructions, later.instructions),
    ];
    for (name, before, after) in fixed {
        let (before, after) = (text(before), text(after));
        assert!(before == after, "{name} changed: {}", difference(&before, &after));
    }
    let (before, after) = (text(earlier.growing()), text(later.growing()));
    let open = before.trim_end().trim_end_matches(']').trim_end();
    assert!(after.starts_with(open), "messages changed: {}", difference(open, &after));
}

/// How many bytes two bodies have in common from the start.
pub fn common_bytes(earlier: &[u8], later: &[u8]) -> usize {
    earlier.iter().zip(later).take_while(|(a, b)| a == b).count()
}

#[derive(Deserialize)]
struct RawPrompt<'a> {
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

impl<'a> RawPrompt<'a> {
    fn growing(&self) -> Option<&'a RawValue> {
        self.messages.or(self.input)
    }
}

impl Prompt {
    fn of(request: &Recorded) -> Self {
        let body = without_cache_marks(&request.body_json());
        let protocol = request.protocol.unwrap_or_else(|| Protocol::of_body(&body));
        let list = |key: &str| {
            let pieces = items(&body[key]).iter().enumerate();
            pieces.map(|(index, piece)| (format!("{key}[{index}]"), piece.to_string())).collect::<Vec<_>>()
        };
        let system = match protocol {
            Protocol::Anthropic => vec![("system".to_owned(), as_blocks(&body["system"]).to_string())],
            Protocol::Chat => Vec::new(),
            Protocol::Responses => vec![("instructions".to_owned(), body["instructions"].to_string())],
        };
        let (growing, spoken) = match protocol {
            Protocol::Anthropic => (anthropic_blocks(&body["messages"]), "messages"),
            Protocol::Chat => (list("messages"), "messages"),
            Protocol::Responses => (list("input"), "input"),
        };
        let models = |item: &Json| role(item) == "assistant" || item["type"] == "function_call";
        Self { tools: list("tools"), system, growing, begun: items(&body[spoken]).iter().any(models) }
    }

    fn extended_by(&self, later: &Self) -> Result<(), String> {
        extends(&self.tools, &later.tools)?;
        if let Some((place, extra)) = later.tools.get(self.tools.len()) {
            return Err(format!("{place} is new: {}", excerpt(extra, 0)));
        }
        extends(&self.system, &later.system)?;
        extends(&self.growing, &later.growing)
    }

    fn shared_with(&self, other: &Self) -> usize {
        self.growing.iter().zip(&other.growing).take_while(|(a, b)| a.1 == b.1).count()
    }
}

/// Each block on its own: a cache hit may end within a message.
fn anthropic_blocks(messages: &Json) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    for (index, message) in items(messages).iter().enumerate() {
        let role = role(message);
        for (position, block) in items(&as_blocks(&message["content"])).iter().enumerate() {
            let place = format!("messages[{index}].content[{position}]");
            blocks.push((place, format!("{role} {index}: {block}")));
        }
    }
    blocks
}

/// Both ways to write a text are one to the API, and a mark needs the longer.
fn as_blocks(content: &Json) -> Json {
    match content {
        Json::String(text) => json!([{"type": "text", "text": text}]),
        blocks => blocks.clone(),
    }
}

fn extends(earlier: &[(String, String)], later: &[(String, String)]) -> Result<(), String> {
    for (index, (place, before)) in earlier.iter().enumerate() {
        match later.get(index) {
            None => return Err(format!("{place} is gone: {}", excerpt(before, 0))),
            Some((_, after)) if after != before => {
                return Err(format!("{place} changed: {}", difference(before, after)));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn difference(before: &str, after: &str) -> String {
    let at = common_bytes(before.as_bytes(), after.as_bytes());
    format!("at byte {at}\n  before: {}\n  after:  {}", excerpt(before, at), excerpt(after, at))
}

fn excerpt(text: &str, at: usize) -> String {
    let (from, to) = (text.floor_char_boundary(at.saturating_sub(60)), text.ceil_char_boundary(at + 80));
    let (left, right) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
    format!("{left}{}{right}", &text[from..to])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn request(body: &Json) -> Recorded {
        let now = Instant::now();
        let incoming = crate::http::Incoming {
            method: "POST".to_owned(),
            path: "/v1/messages".to_owned(),
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
            arrived: now,
            arrived_complete: now,
            keep_alive: true,
        };
        Recorded::new(&incoming, 1, Some(Protocol::of_body(body)))
    }

    fn says(role: &str, text: &str) -> Json {
        json!({"role": role, "content": text})
    }

    fn marked(role: &str, text: &str) -> Json {
        let mark = json!({"type": "ephemeral"});
        json!({"role": role, "content": [{"type": "text", "text": text, "cache_control": mark}]})
    }

    fn body(system: &str, messages: &[Json]) -> Json {
        json!({"tools": [{"name": "Read"}], "system": system, "messages": messages})
    }

    fn check(bodies: &[Json]) -> Result<(), String> {
        check_append_only(&bodies.iter().map(request).collect::<Vec<_>>())
    }

    #[test]
    fn moving_cache_marks_and_other_conversations_are_fine() {
        let first = body("s", &[marked("user", "go")]);
        let other = body("other", &[says("user", "a side question")]);
        let second = body("s", &[says("user", "go"), says("assistant", "so"), marked("user", "on")]);
        assert_eq!(check(&[first.clone(), other, second.clone()]), Ok(()));
        assert_prefixes(&[request(&first), request(&second), request(&second)]);
    }

    #[test]
    fn a_rewritten_beginning_is_found() {
        let first = body("s", &[says("user", "it is 10:00; go")]);
        let second =
            body("s", &[says("user", "it is 10:01; go"), says("assistant", "so"), says("user", "on")]);
        let problem = check(&[first, second]).unwrap_err();
        assert!(problem.starts_with("request 2 does not extend request 1: messages[0].content[0] changed"));
        assert!(problem.contains("it is 10:00; go") && problem.contains("it is 10:01; go"), "{problem}");
    }

    #[test]
    fn a_rewritten_answer_is_found_though_an_older_request_is_extended() {
        let first = body("s", &[says("user", "go")]);
        let second = body("s", &[says("user", "go"), says("assistant", "so"), says("user", "on")]);
        let third = body("s", &[says("user", "go"), says("assistant", "oh"), says("user", "on")]);
        let problem = check(&[first, second, third]).unwrap_err();
        assert!(problem.contains("messages[1].content[0] changed"), "{problem}");
    }

    #[test]
    fn changed_tools_and_system_are_found() {
        let messages = [says("user", "go"), says("assistant", "so"), says("user", "on")];
        let mut more_tools = body("s", &messages);
        more_tools["tools"] = json!([{"name": "Read"}, {"name": "Bash"}]);
        let first = body("s", &messages[..1]);
        assert!(check(&[first.clone(), more_tools]).unwrap_err().contains("tools[1]"));
        assert!(check(&[first, body("t", &messages)]).unwrap_err().contains("system changed"));
    }

    #[test]
    #[should_panic(expected = "request 2 does not extend request 1: messages[1].content[0] is gone")]
    fn a_shortened_conversation_fails() {
        let messages = [says("user", "go"), says("assistant", "so"), says("user", "on")];
        assert_prefixes(&[request(&body("s", &messages)), request(&body("s", &messages[..1]))]);
    }

    #[test]
    fn bytes_are_compared_as_they_are() {
        let first = body("s", &[says("user", "go")]).to_string();
        let second = body("s", &[says("user", "go"), says("assistant", "so")]).to_string();
        assert_byte_prefix(first.as_bytes(), second.as_bytes());
        let marked = body("s", &[marked("user", "go"), says("assistant", "so")]).to_string();
        let caught = std::panic::catch_unwind(|| assert_byte_prefix(first.as_bytes(), marked.as_bytes()));
        assert!(caught.is_err());
        assert_eq!(common_bytes(b"abc", b"abx"), 2);
    }
}
