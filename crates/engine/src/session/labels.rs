//! What a session is called: titles, tags and the last prompt, as lines of their own that other programs
//! write too. Whatever was written last counts; nothing here is part of the conversation.

use super::lines::{self, Content};
use ostler_proto::SessionId;
use serde::Deserialize;
use serde_json::json;
use std::{
    borrow::Cow,
    io::{self, Read},
    ops::ControlFlow,
};

/// Public readers look for labels this near the end of a file.
pub(super) const READERS_TAIL: u64 = 64 << 10;
/// How much of a prompt is kept as the last one.
const LONGEST_PROMPT: usize = 200;

/// Title and tag.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels {
    /// The title somebody gave.
    pub title: Option<String>,
    /// The tag.
    pub tag: Option<String>,
}

/// Labels and where in the file they stand.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) title: Option<(u64, String)>,
    /// An empty tag takes the tag away.
    pub(super) tag: Option<(u64, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    custom_title: Option<String>,
    tag: Option<String>,
}

impl Labels {
    /// What was found later counts.
    pub(super) fn follow(&mut self, found: Found) {
        if let Some((_, title)) = found.title {
            self.title = Some(title).filter(|title| !title.is_empty());
        }
        if let Some((_, tag)) = found.tag {
            self.tag = Some(tag).filter(|tag| !tag.is_empty());
        }
    }
}

impl Found {
    /// What one line says.
    pub(super) fn of(line: &[u8]) -> Self {
        let mut found = Self::default();
        found.take_in(0, line);
        found
    }

    /// All labels from here on.
    pub(super) fn look(from: u64, source: impl Read) -> io::Result<Self> {
        let mut found = Self::default();
        lines::each(source, |line| {
            if let Content::Whole(bytes) = line.content {
                found.take_in(from + line.offset, bytes);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    fn take_in(&mut self, offset: u64, line: &[u8]) {
        // Programs write these lines beginning with their type, because readers look for it there.
        if !line.starts_with(br#"{"type":"custom-title""#) && !line.starts_with(br#"{"type":"tag""#) {
            return;
        }
        // A damaged label is no label.
        let Ok(raw) = serde_json::from_slice::<Raw>(line) else { return };
        match (raw.kind.as_ref(), raw.custom_title, raw.tag) {
            ("custom-title", Some(title), _) => self.title = Some((offset, title)),
            ("tag", _, Some(tag)) => self.tag = Some((offset, tag)),
            _ => {}
        }
    }
}

/// The line that gives a title.
pub(super) fn title_line(title: &str, session: &SessionId) -> String {
    json!({"type": "custom-title", "customTitle": title, "sessionId": session}).to_string()
}

/// The line that gives a tag.
pub(super) fn tag_line(tag: &str, session: &SessionId) -> String {
    json!({"type": "tag", "tag": tag, "sessionId": session}).to_string()
}

/// The line that tells the last prompt.
pub(super) fn last_prompt_line(prompt: &str, leaf: &str, session: &SessionId) -> String {
    json!({"type": "last-prompt", "lastPrompt": short(prompt), "leafUuid": leaf, "sessionId": session})
        .to_string()
}

/// A prompt on one line, and not all of it.
pub(super) fn short(prompt: &str) -> String {
    let mut words = prompt.split_whitespace().fold(String::new(), |mut words, word| {
        if words.len() <= LONGEST_PROMPT * 4 {
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(word);
        }
        words
    });
    if let Some((at, _)) = words.char_indices().nth(LONGEST_PROMPT) {
        words.truncate(at);
        words.truncate(words.trim_end().len());
        words.push('…');
    }
    words
}
