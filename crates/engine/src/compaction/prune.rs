//! What of a conversation can be made a line without losing anything: views of files that were seen again or
//! changed later, results that came twice, and long results that are kept elsewhere. Calls stay, each with its
//! one result.

use crate::tokens;
use ostler_proto::{
    Block, CallId, Json, Message, Role, ToolCall, ToolResult,
    content::{Sink, Source, deliver},
};
use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::Arc,
};

/// Tokens from which on a result is worth a line instead.
const WORTH_A_LINE: u64 = 60;
/// Tokens from which on a result that nothing supersedes is long.
const LONG: u64 = 400;
/// Bytes that a token stands for, on the low side.
const BYTES_PER_TOKEN: u64 = 3;
/// Characters of a call's main argument that are told.
const LONGEST_TITLE: usize = 100;

/// What could go, and what stays word for word.
#[derive(Debug, PartialEq)]
pub(crate) struct Survey {
    /// Results before the end that could be a line.
    pub(crate) stale: Vec<Cut>,
    /// Results at the end that must be shorter to stay.
    pub(crate) tail: Vec<Cut>,
    /// How many messages at the end stay as they are; they begin with the model's.
    pub(crate) kept: usize,
}

/// A result that could be shorter.
#[derive(Debug, PartialEq)]
pub(crate) struct Cut {
    /// The call it answers.
    pub(crate) call: CallId,
    /// What the call was.
    title: String,
    what: What,
}

#[derive(Debug, PartialEq)]
enum What {
    /// A view of a file that was seen again, or is otherwise by now.
    Superseded,
    /// A later call gave the same.
    Repeated,
    /// A long text, of which so many bytes may stay.
    Long { text: String, stays: usize },
}

/// A result with its call and its place.
struct Given<'a> {
    call: &'a ToolCall,
    result: &'a ToolResult,
    at: usize,
    weight: u64,
}

impl Survey {
    /// All results that could be shorter.
    pub(crate) fn cuts(&self) -> impl Iterator<Item = &Cut> {
        self.stale.iter().chain(&self.tail)
    }
}

impl Cut {
    /// A text that must be kept elsewhere before this is done.
    pub(crate) fn keepsake(&self) -> Option<&str> {
        match &self.what {
            What::Long { text, .. } => Some(text),
            What::Superseded | What::Repeated => None,
        }
    }

    /// What the model reads instead, with the place where the whole is kept.
    pub(crate) fn line(&self, kept: Option<&Path>) -> String {
        let title = &self.title;
        let place = match kept {
            Some(path) => format!("; all of it is in {}", path.display()),
            None => "; it was not kept".to_owned(),
        };
        match &self.what {
            What::Superseded => {
                format!("[{title}: this view was set aside, for the file was read again or changed later]")
            }
            What::Repeated => format!("[{title}: set aside, for a later call gave the same]"),
            What::Long { text, stays: 0 } => {
                format!("[{title}: the result, {} bytes, was set aside{place}]", text.len())
            }
            What::Long { text, stays } => super::ends(text, *stays, &place),
        }
    }
}

/// Looks through a conversation, of which about `tail` tokens at the end stay as they are.
pub(crate) fn survey(messages: &[Arc<Message>], tail: u64) -> Survey {
    let tail_from = tail_start(messages, tail);
    let mut survey = Survey { stale: Vec::new(), tail: Vec::new(), kept: messages.len() - tail_from };
    let mut later = Later::default();
    for given in results(messages).iter().rev() {
        let is_stale = given.at < tail_from;
        let what = if is_stale {
            later.covers(given).or_else(|| long(given))
        } else {
            too_long(given, tail, messages)
        };
        later.see(given);
        if let Some(what) = what {
            let cut = Cut { call: given.result.id.clone(), title: title(given.call), what };
            if is_stale { survey.stale.push(cut) } else { survey.tail.push(cut) }
        }
    }
    survey
}

/// What was met further on in the conversation.
#[derive(Default)]
struct Later<'a> {
    /// Files read as a whole or changed.
    files: HashSet<&'a str>,
    /// Reads of a part of a file.
    parts: HashSet<String>,
    /// Calls by name and input, with what they gave.
    calls: HashMap<String, String>,
}

impl<'a> Later<'a> {
    fn covers(&self, given: &Given<'_>) -> Option<What> {
        if given.weight < WORTH_A_LINE || given.result.is_error {
            return None;
        }
        let read = path(given.call).filter(|_| given.call.name == "Read");
        if read.is_some_and(|path| self.files.contains(path)) || self.parts.contains(&key(given.call)) {
            return Some(What::Superseded);
        }
        let same = self.calls.get(&key(given.call)).is_some_and(|text| *text == given.result.text());
        same.then_some(What::Repeated)
    }

    fn see(&mut self, given: &Given<'a>) {
        if given.result.is_error {
            return;
        }
        if let Some(path) = path(given.call) {
            let is_part =
                ["offset", "limit", "pages"].iter().any(|name| given.call.input.get(name).is_some());
            match given.call.name.as_str() {
                "Read" if is_part => {
                    self.parts.insert(key(given.call));
                }
                "Read" | "Edit" | "MultiEdit" | "Write" => {
                    self.files.insert(path);
                }
                _ => {}
            }
        }
        self.calls.entry(key(given.call)).or_insert_with(|| given.result.text());
    }
}

fn long(given: &Given<'_>) -> Option<What> {
    (given.weight >= LONG).then(|| What::Long { text: given.result.text(), stays: 0 })
}

/// The last results stay readable, but share what there is.
fn too_long(given: &Given<'_>, tail: u64, messages: &[Arc<Message>]) -> Option<What> {
    let results = messages[given.at].content.iter().filter(|block| matches!(block, Block::ToolResult(_)));
    let share = tail / results.count().max(1) as u64;
    let stays = usize::try_from(share * BYTES_PER_TOKEN).unwrap_or(usize::MAX);
    (given.weight > share.max(LONG)).then(|| What::Long { text: given.result.text(), stays })
}

/// Where the messages begin that stay as they are: with the model's, and at least its last.
fn tail_start(messages: &[Arc<Message>], tail: u64) -> usize {
    let Some(last) = messages.iter().rposition(|message| message.role == Role::Assistant) else {
        return messages.len();
    };
    let (mut start, mut weight) = (last, super::weight(&messages[last..]));
    for at in (0..last).rev() {
        weight += tokens::of_message(&messages[at]);
        if weight > tail {
            break;
        }
        // The first message is the user's, and what is carried takes its place.
        if messages[at].role == Role::Assistant {
            start = at;
        }
    }
    start
}

fn results(messages: &[Arc<Message>]) -> Vec<Given<'_>> {
    let calls: HashMap<&CallId, &ToolCall> = messages
        .iter()
        .flat_map(|message| message.content.iter().filter_map(Block::as_call))
        .map(|call| (&call.id, call))
        .collect();
    let mut given = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        for block in &message.content {
            if let Block::ToolResult(result) = block
                && let Some(call) = calls.get(&result.id)
            {
                given.push(Given { call, result, at, weight: tokens::of_block(block) });
            }
        }
    }
    given
}

fn path(call: &ToolCall) -> Option<&str> {
    call.input.get("file_path").and_then(Json::as_str)
}

fn key(call: &ToolCall) -> String {
    format!("{} {}", call.name, call.input)
}

/// A call in a few words.
pub(super) fn title(call: &ToolCall) -> String {
    let main = ["command", "file_path", "path", "pattern", "url", "query"]
        .iter()
        .find_map(|name| call.input.get(name)?.as_str());
    let main = deliver(main.unwrap_or_default(), Source::FileName, Sink::ModelContext, "").text;
    let mut shown: String = main.chars().take(LONGEST_TITLE).collect();
    if shown.len() < main.len() {
        shown.push('…');
    }
    format!("{} {shown}", call.name).trim_end().to_owned()
}
