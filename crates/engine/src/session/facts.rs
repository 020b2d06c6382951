//! What can be told of a session without reading it: its first and last 64 KiB, where public readers look
//! too. Works on lines that are cut off, so it trusts no structure beyond a key and its string.
#![expect(clippy::disallowed_types, reason = "the home of transcript files")]

use super::{labels, store::SessionFile};
use serde::Serialize;
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::PathBuf,
};

/// How much is looked at at each end.
const END: usize = 64 << 10;

/// What a list shows of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Facts {
    /// Its id.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// The file's size in bytes.
    pub bytes: u64,
    /// When it was last written, in milliseconds since 1970.
    pub modified_ms: i64,
    /// When it began, as its first line says.
    pub created: Option<String>,
    /// The title somebody gave, or a model.
    pub title: Option<String>,
    /// The first prompt, shortened.
    pub first_prompt: Option<String>,
    /// The last prompt, shortened.
    pub last_prompt: Option<String>,
    /// The tag.
    pub tag: Option<String>,
    /// The branch that was checked out.
    pub git_branch: Option<String>,
    /// Where it was started.
    pub cwd: Option<String>,
}

impl Facts {
    /// Looks at both ends of a session's file; nothing for one that holds no conversation of its own.
    pub fn look(file: &SessionFile) -> io::Result<Option<Self>> {
        let (head, tail) = ends(file)?;
        let first_line = head.lines().next().unwrap_or_default();
        if first_line.contains("\"isSidechain\":true") || first_line.contains("\"isSidechain\": true") {
            return Ok(None);
        }
        let latest =
            |key: &str| last(&tail, key).or_else(|| last(&head, key)).filter(|text| !text.is_empty());
        let facts = Self {
            created: first(&head, "timestamp"),
            title: latest("customTitle").or_else(|| latest("aiTitle")),
            first_prompt: first_prompt(&head),
            last_prompt: latest("lastPrompt").or_else(|| latest("summary")).map(|text| labels::short(&text)),
            tag: latest_tag(&tail),
            git_branch: latest("gitBranch"),
            cwd: first(&head, "cwd"),
            ..Self::of(file)
        };
        let is_shown = facts.title.is_some() || facts.first_prompt.is_some() || facts.last_prompt.is_some();
        Ok(is_shown.then_some(facts))
    }

    /// What the file system alone tells.
    pub(super) fn of(file: &SessionFile) -> Self {
        Self {
            id: file.id.to_string(),
            path: file.path.clone(),
            bytes: file.size,
            modified_ms: file.modified_ns / 1_000_000,
            ..Self::default()
        }
    }

    /// The one line that says what the session is about.
    pub fn summary(&self) -> &str {
        let told = self.title.as_deref().or(self.last_prompt.as_deref()).or(self.first_prompt.as_deref());
        told.unwrap_or("(no prompt)")
    }
}

fn ends(file: &SessionFile) -> io::Result<(String, String)> {
    let mut source = File::open(&file.path)?;
    let mut head = Vec::with_capacity(END.min(usize::try_from(file.size).unwrap_or(END)));
    source.by_ref().take(END as u64).read_to_end(&mut head)?;
    let head = String::from_utf8_lossy(&head).into_owned();
    if file.size <= END as u64 {
        return Ok((head.clone(), head));
    }
    source.seek(SeekFrom::Start(file.size - END as u64))?;
    let mut tail = Vec::with_capacity(END);
    source.take(END as u64).read_to_end(&mut tail)?;
    Ok((head, String::from_utf8_lossy(&tail).into_owned()))
}

/// The first words a person said.
fn first_prompt(head: &str) -> Option<String> {
    let is_prompt = |line: &&str| {
        let has = |mark: &str| line.contains(mark);
        (has("\"type\":\"user\"") || has("\"type\": \"user\""))
            && !has("\"tool_result\"")
            && !has("\"isMeta\":true")
            && !has("\"isCompactSummary\":true")
    };
    head.lines().filter(is_prompt).find_map(|line| {
        let text = first(line, "content").or_else(|| first(line, "text"))?;
        let text = labels::short(&text);
        let is_machine_made =
            ["<command-name>", "<local-command-stdout>", "<session-start-hook>", "<tick>", "<goal>"]
                .iter()
                .chain(&["<ide_opened_file>", "<ide_selection>", "[Request interrupted by user"])
                .any(|mark| text.starts_with(mark));
        (!text.is_empty() && !is_machine_made).then_some(text)
    })
}

/// Tags are told by lines that begin with their type: tools have inputs of that name.
fn latest_tag(tail: &str) -> Option<String> {
    let line = tail.lines().rev().find(|line| line.starts_with("{\"type\":\"tag\""))?;
    last(line, "tag").filter(|tag| !tag.is_empty())
}

fn first(text: &str, key: &str) -> Option<String> {
    starts(text, key).next().and_then(string)
}

fn last(text: &str, key: &str) -> Option<String> {
    starts(text, key).last().and_then(string)
}

/// What follows each `"key":"`.
fn starts<'a>(text: &'a str, key: &str) -> impl Iterator<Item = &'a str> {
    let marks = [format!("\"{key}\":\""), format!("\"{key}\": \"")];
    let mut places: Vec<usize> =
        marks.iter().flat_map(|mark| text.match_indices(mark).map(|(at, _)| at + mark.len())).collect();
    places.sort_unstable();
    places.into_iter().map(|at| &text[at..])
}

/// The string that begins here, as far as it goes.
fn string(text: &str) -> Option<String> {
    let mut escaped = false;
    let end = text.find(|c: char| {
        let is_end = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        is_end
    });
    let raw = &text[..end.unwrap_or(text.len())];
    // One that is cut off may end within an escape.
    let whole = |raw: &str| serde_json::from_str::<String>(&format!("\"{raw}\"")).ok();
    whole(raw).or_else(|| whole(&raw[..raw.rfind('\\')?]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn prompts_are_those_of_people() {
        let user = |content: &str| json!({"type": "user", "message": {"role": "user", "content": content}});
        let mut meta = user("a reminder");
        meta["isMeta"] = json!(true);
        let result =
            json!({"type": "user", "message": {"content": [{"type": "tool_result", "content": "x"}]}});
        let lines = [
            meta,
            result,
            user("[Request interrupted by user]"),
            user("<tick>"),
            user(" fix\n the  bug "),
            user("b"),
        ];
        let head = lines.iter().map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
        assert_eq!(first_prompt(&head).as_deref(), Some("fix the bug"));
        let blocks =
            json!({"type": "user", "message": {"content": [{"type": "text", "text": "in a block"}]}});
        assert_eq!(first_prompt(&blocks.to_string()).as_deref(), Some("in a block"));
        assert_eq!(
            first_prompt("{\"type\":\"user\",\"message\":{\"content\":\"cut off \\u00").as_deref(),
            Some("cut off")
        );
    }

    proptest! {
        #[test]
        fn a_string_is_read_back_as_it_was_written(value: String, more in "[ -~]{0,20}") {
            let text = format!("{}{more}", json!({"a": "b", "key": value}));
            prop_assert_eq!(first(&text, "key"), Some(value));
        }

        #[test]
        fn a_string_that_is_cut_off_is_the_beginning_of_it(value: String, cut in 0usize..60) {
            let text = json!({"key": value}).to_string();
            let text = &text[..text.floor_char_boundary(cut)];
            if let Some(read) = first(text, "key") {
                prop_assert!(value.starts_with(&read), "{:?}", read);
            }
        }
    }
}
