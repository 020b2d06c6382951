//! The result of a call in a few lines for people. Reads what tools say for programs; a shape it does not
//! know is shown by its first lines, so that a new tool needs nothing here.

use crate::clean::{diff_line, one_line, shorten, strip};
use ostler_proto::session::CallState;
use ostler_proto::{Json, Preview, ToolResult};

const LONGEST_LINE: usize = 160;
const DIFF_LINES: usize = 40;
const OUTPUT_LINES: usize = 10;
const OTHER_LINES: usize = 3;

/// How a line is meant; colour is the writer's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Quiet,
    Added,
    Removed,
    Bad,
}

/// A line and how it is meant.
pub(crate) type Shown = (Tone, String);

/// What a call did, for people.
pub(crate) fn summary(
    result: &ToolResult,
    structured: &Json,
    state: CallState,
    preview: &Preview,
) -> Vec<Shown> {
    match state {
        CallState::Complete if !result.is_error => done(result, structured, preview),
        CallState::Complete | CallState::Failed => excerpt(&result.text(), OUTPUT_LINES, Tone::Bad),
        CallState::Denied => vec![(Tone::Bad, format!("denied: {}", one_line(&result.text(), LONGEST_LINE)))],
        CallState::Cancelled => vec![(Tone::Bad, "cancelled".to_owned())],
        CallState::Unknown => vec![(Tone::Bad, "broken off; what it did is not known".to_owned())],
    }
}

fn done(result: &ToolResult, structured: &Json, preview: &Preview) -> Vec<Shown> {
    if let Some(hunks) = structured["structuredPatch"].as_array().filter(|hunks| !hunks.is_empty()) {
        let lines = hunks.iter().filter_map(|hunk| hunk["lines"].as_array()).flatten();
        return diff(lines.filter_map(Json::as_str));
    }
    if let Preview::Diff(text) = preview {
        let lines = text.lines().filter(|line| !line.starts_with("+++ ") && !line.starts_with("--- "));
        return diff(lines);
    }
    if let (Some("create"), Some(content)) = (structured["type"].as_str(), structured["content"].as_str()) {
        return diff(
            content.lines().map(|line| format!("+{line}")).collect::<Vec<_>>().iter().map(String::as_str),
        );
    }
    if let Some(output) = structured["stdout"].as_str() {
        return excerpt(output, OUTPUT_LINES, Tone::Quiet);
    }
    if let Some(count) = structured["file"]["numLines"].as_u64() {
        return vec![(Tone::Quiet, counted(count, "line"))];
    }
    if let (Some(count), None) = (structured["numFiles"].as_u64(), structured["content"].as_str()) {
        return vec![(Tone::Quiet, counted(count, "file"))];
    }
    if let Some(todos) = structured["newTodos"].as_array() {
        return todos.iter().map(todo).collect();
    }
    excerpt(&result.text(), OTHER_LINES, Tone::Quiet)
}

fn diff<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Shown> {
    let lines: Vec<Shown> = lines
        .map(|line| {
            let tone = match line.as_bytes().first() {
                Some(b'+') => Tone::Added,
                Some(b'-') => Tone::Removed,
                _ => Tone::Quiet,
            };
            (tone, shorten(&diff_line(line), LONGEST_LINE))
        })
        .collect();
    let count = |wanted| lines.iter().filter(|(tone, _)| *tone == wanted).count() as u64;
    let header = format!("{} added, {} removed", counted(count(Tone::Added), "line"), count(Tone::Removed));
    let left_out = lines.len().saturating_sub(DIFF_LINES) as u64;
    let mut shown = vec![(Tone::Plain, header)];
    shown.extend(lines.into_iter().take(DIFF_LINES));
    if left_out > 0 {
        shown.push((Tone::Quiet, format!("… {} more", counted(left_out, "line"))));
    }
    shown
}

/// The first and last lines of a text.
fn excerpt(text: &str, most: usize, tone: Tone) -> Vec<Shown> {
    let text = strip(text);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let line = |line: &&str| (tone, shorten(line, LONGEST_LINE));
    if lines.is_empty() {
        return vec![(Tone::Quiet, "(no output)".to_owned())];
    }
    if lines.len() <= most {
        return lines.iter().map(line).collect();
    }
    let head = most.div_ceil(2);
    let tail = most - head;
    let left_out = (lines.len() - most) as u64;
    let mut shown: Vec<Shown> = lines[..head].iter().map(line).collect();
    shown.push((Tone::Quiet, format!("… {} …", counted(left_out, "more line"))));
    shown.extend(lines[lines.len() - tail..].iter().map(line));
    shown
}

fn todo(item: &Json) -> Shown {
    let (mark, tone) = match item["status"].as_str() {
        Some("completed") => ("☒", Tone::Quiet),
        Some("in_progress") => ("◐", Tone::Plain),
        _ => ("☐", Tone::Plain),
    };
    (tone, format!("{mark} {}", one_line(item["content"].as_str().unwrap_or_default(), LONGEST_LINE)))
}

fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_proto::Block;
    use serde_json::json;

    #[track_caller]
    fn check(text: &str, structured: &Json, expect: &[&str]) {
        let result = ToolResult { id: "c".into(), content: vec![Block::text(text)], is_error: false };
        let shown = summary(&result, structured, CallState::Complete, &Preview::None);
        assert_eq!(shown.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn results_are_told_by_what_they_hold() {
        let patch = json!({"structuredPatch": [{"oldStart": 1, "lines": [" a", "-b", "+c", "+d"]}]});
        check("ok", &patch, &["2 lines added, 1 removed", " a", "-b", "+c", "+d"]);
        check("x", &json!({"type": "text", "file": {"numLines": 1}}), &["1 line"]);
        check("x", &json!({"stdout": "a\u{1b}[2Jb\n"}), &["ab"]);
        check("x", &json!({"stdout": ""}), &["(no output)"]);
        check("x", &json!({"numFiles": 3, "filenames": []}), &["3 files"]);
        check("x", &json!({"newTodos": [{"content": "a", "status": "completed"}]}), &["☒ a"]);
        check("1\n2\n3\n4\n5", &Json::Null, &["1", "2", "… 2 more lines …", "5"]);
    }
}
