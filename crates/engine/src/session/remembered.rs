//! What a session must not forget however short its conversation becomes, gathered from its events: what the
//! user said, what was refused, what failed, which files were touched and how full the context was. Bounded,
//! and only ever told to the model as data; nothing is decided by it.

use ostler_proto::{
    Access, Block, CallId, Decision, Entry, EntryId, SessionEvent, ToolCall, ToolResult, Usage,
    session::CallState,
};
use std::{collections::HashMap, path::PathBuf, sync::Arc};

/// The most files that are remembered.
const MOST_FILES: usize = 64;
/// The most refused calls that are remembered.
const MOST_REFUSED: usize = 40;
/// Characters of a failed command's output that are remembered: the end says what went wrong.
const OUTPUT_TAIL: usize = 4000;

/// The fold's value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Remembered {
    /// What the user said, oldest first.
    pub said: Vec<Said>,
    /// Calls that were not allowed, oldest first.
    pub refused: Vec<Refused>,
    /// The last command that failed and has not succeeded since.
    pub failing: Option<Failing>,
    /// Files that calls read or changed, the last one last.
    pub touched: Vec<Touched>,
    /// Tokens of the context at the end of the last answer, as the API counted them.
    pub measured: Option<u64>,
    /// Files that calls without a result would touch.
    pending: HashMap<CallId, Pending>,
}

/// One thing the user said.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// Its line.
    pub id: EntryId,
    /// Its text.
    pub text: Arc<str>,
    /// Pictures and documents beside the text.
    pub attachments: usize,
}

/// One call that was not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What it would have done.
    pub title: String,
    /// Why not.
    pub because: String,
}

/// A command that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failing {
    /// The command line.
    pub command: String,
    /// The end of what it printed.
    pub output: String,
}

/// A file that a call read or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Where it really lies.
    pub path: PathBuf,
    /// Whether it was changed.
    pub changed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pending {
    paths: Vec<PathBuf>,
    changed: bool,
}

impl Remembered {
    /// Takes one event in. A result comes with the call it answers, where that is known.
    pub(super) fn apply(&mut self, entry: &Entry, call: Option<&ToolCall>) {
        match &entry.event {
            SessionEvent::Prompted { content, meta: false } => {
                self.pending.clear();
                self.said.push(said(&entry.id, content));
            }
            SessionEvent::Decided { call, intent, decision } => match decision {
                Decision::Deny { because, .. } => {
                    self.pending.remove(call);
                    self.refuse(Refused { title: intent.title.clone(), because: because.to_string() });
                }
                Decision::Allow { .. } => {
                    if let Some(pending) = files_of(&intent.access) {
                        self.pending.insert(call.clone(), pending);
                    }
                }
                Decision::Ask { .. } => {}
            },
            SessionEvent::ToolReturned { result, state, .. } => self.returned(result, *state, call),
            SessionEvent::Sampled { usage, stop: Some(_), .. } => self.measured = measured(*usage),
            SessionEvent::Rewound { to } => {
                if let Some(at) = self.said.iter().position(|said| &said.id == to) {
                    self.said.truncate(at);
                    self.measured = None;
                }
            }
            // Another model counts otherwise, and a changed conversation was never counted.
            SessionEvent::ModelChanged { .. }
            | SessionEvent::RewindUndone
            | SessionEvent::Compacted { .. }
            | SessionEvent::Uncompacted
            | SessionEvent::Sampled { stop: None, .. } => self.measured = None,
            SessionEvent::Opened { .. }
            | SessionEvent::Prompted { meta: true, .. }
            | SessionEvent::Instructed { .. }
            | SessionEvent::Commanded { .. }
            | SessionEvent::Replied { .. }
            | SessionEvent::Dropped { .. }
            | SessionEvent::Hooked { .. }
            | SessionEvent::Interrupted { .. }
            | SessionEvent::Failed { .. }
            | SessionEvent::CacheBroken { .. }
            | SessionEvent::ModeChanged { .. } => {}
        }
    }

    fn returned(&mut self, result: &ToolResult, state: CallState, call: Option<&ToolCall>) {
        let pending = self.pending.remove(&result.id);
        let command = call.and_then(|call| call.input.get("command")?.as_str());
        if let Some(command) = command {
            match state {
                CallState::Failed => {
                    let output = tail(&result.text(), OUTPUT_TAIL);
                    self.failing = Some(Failing { command: command.to_owned(), output });
                }
                CallState::Complete => {
                    self.failing.take_if(|failing| failing.command == command);
                }
                CallState::Denied | CallState::Cancelled | CallState::Unknown => {}
            }
        }
        if let Some(Pending { paths, changed }) = pending
            && state == CallState::Complete
        {
            for path in paths {
                self.touch(path, changed);
            }
        }
    }

    fn touch(&mut self, path: PathBuf, changed: bool) {
        // Paths here are resolved, so that equal ones have equal bytes; this is asked for every call of a session.
        let is_it = |touched: &Touched| touched.path.as_os_str() == path.as_os_str();
        let before = self.touched.iter().position(is_it);
        let was_changed = before.map(|at| self.touched.remove(at)).is_some_and(|touched| touched.changed);
        self.touched.push(Touched { path, changed: changed || was_changed });
        if self.touched.len() > MOST_FILES {
            self.touched.remove(0);
        }
    }

    fn refuse(&mut self, refused: Refused) {
        self.refused.retain(|known| known.title != refused.title);
        self.refused.push(refused);
        if self.refused.len() > MOST_REFUSED {
            self.refused.remove(0);
        }
    }
}

fn files_of(access: &Access) -> Option<Pending> {
    let (facts, changed) = match access {
        Access::Read { paths } => (paths, false),
        Access::Write { paths } => (paths, true),
        Access::Internal
        | Access::Execute { .. }
        | Access::Network { .. }
        | Access::Mcp { .. }
        | Access::Agent { .. }
        | Access::Consult(_) => return None,
    };
    Some(Pending { paths: facts.iter().map(|fact| fact.target.clone()).collect(), changed })
}

fn said(id: &EntryId, content: &[Block]) -> Said {
    let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
    Said { id: id.clone(), text: texts.join("\n").into(), attachments: content.len() - texts.len() }
}

/// Everything the next request will hold again; an API that counts nothing has measured nothing.
fn measured(usage: Usage) -> Option<u64> {
    let sent = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    (sent > 0).then(|| sent.saturating_add(usage.output))
}

fn tail(text: &str, most: usize) -> String {
    text[text.ceil_char_boundary(text.len().saturating_sub(most))..].to_owned()
}
