//! What a command came to, in words for the model and fields for programs. Long output is shown by its
//! two ends and named by its file.

use super::words::last_command;
use crate::{
    Artifacts,
    host::{Exit, Kept, Recording},
    text,
};
use ostler_proto::{Block, Job, Json, ToolOutput};
use serde_json::json;
use std::path::PathBuf;

/// Longest result in characters.
pub(super) const MAX_RESULT: usize = 30_000;
/// Longest output of a command that succeeded; the rest is room for the exit code and notes.
const MAX_OUTPUT: usize = MAX_RESULT - 1000;
/// Longest output of one that failed.
const MAX_FAILURE: usize = 10_000;
/// What is shown of an output that is kept in a file.
const PREVIEW: usize = 10_000;

/// The output as it is shown.
pub(super) struct Shown {
    body: String,
    /// Where all of it is and how long that file is, when it was cut.
    kept: Option<(PathBuf, u64)>,
}

impl Shown {
    /// Of a command that failed.
    pub(super) async fn failure(recording: &Recording, artifacts: Option<&Artifacts>) -> Self {
        Self::within(MAX_FAILURE, recording, artifacts).await
    }

    async fn within(limit: usize, recording: &Recording, artifacts: Option<&Artifacts>) -> Self {
        let captured = recording.captured();
        let (head, tail) = captured.texts();
        let is_short = captured.dropped() == 0 && text::first(&head, limit).is_none();
        if is_short {
            return Self { body: trimmed(&head), kept: None };
        }
        let (kept, note) = keep(recording, &head, artifacts).await;
        let limit = if kept.is_some() { limit.min(PREVIEW) } else { limit };
        let body = text::join_noting(&head, &tail, captured.dropped(), limit, &note);
        Self { body: trimmed(&body), kept }
    }

    fn structured(&self) -> Json {
        let mut structured =
            json!({"stdout": self.body, "stderr": "", "interrupted": false, "isImage": false});
        if let Some((path, size)) = &self.kept {
            structured["persistedOutputPath"] = json!(path);
            structured["persistedOutputSize"] = json!(size);
        }
        structured
    }
}

/// Makes sure that all of an output is in a file, and says where.
async fn keep(
    recording: &Recording,
    whole: &str,
    artifacts: Option<&Artifacts>,
) -> (Option<(PathBuf, u64)>, String) {
    let kept = match (recording.kept(), artifacts) {
        (Kept::Yes(spooled), _) => Ok((spooled.path, spooled.size)),
        (Kept::Failed(error), artifacts) => {
            artifacts.inspect(|artifacts| artifacts.failed(&error));
            Err(format!("; the rest could not be kept: {error}"))
        }
        // What is not on the disk yet was short enough to be whole in memory.
        (Kept::No, Some(artifacts)) => match artifacts.keep(whole.to_owned()).await {
            Ok(kept) => Ok((kept.path, whole.len() as u64)),
            Err(error) => Err(format!("; the rest could not be kept: {error}")),
        },
        (Kept::No, None) => Err("; the rest was not kept".to_owned()),
    };
    match kept {
        Ok((path, size)) => {
            let note = format!(
                "; all of it ({size} bytes) is kept in {}: Grep it, or Read it with offset and limit",
                path.display()
            );
            (Some((path, size)), note)
        }
        Err(note) => (None, note),
    }
}

/// As the model gets it: with nothing in it that only Ostler may say.
fn trimmed(text: &str) -> String {
    text::clean(text.trim_end().trim_start_matches('\n'))
}

/// The result of a command that ended by itself, or was stopped by somebody.
pub(super) async fn of(
    command: &str,
    exit: Exit,
    recording: &Recording,
    artifacts: Option<&Artifacts>,
) -> ToolOutput {
    let (first_line, meaning) = match exit {
        Exit::Code(0) => (None, None),
        Exit::Code(code) => match meaning(command, code) {
            Some(meaning) => (None, Some(meaning)),
            None => (Some(format!("Exit code {code}")), None),
        },
        Exit::Stopped => (Some("Command was stopped".to_owned()), None),
    };
    let limit = if first_line.is_some() { MAX_FAILURE } else { MAX_OUTPUT };
    let shown = Shown::within(limit, recording, artifacts).await;
    let mut structured = shown.structured();
    if let Some(meaning) = meaning {
        structured["returnCodeInterpretation"] = json!(meaning);
    }
    told(first_line.as_deref(), &shown, structured)
}

/// The result of a command that was killed because its time was over.
pub(super) fn timed_out(timeout: u64, shown: &Shown) -> ToolOutput {
    let mut structured = shown.structured();
    structured["interrupted"] = json!(true);
    structured["timedOutAfterMs"] = json!(timeout);
    told(Some(&format!("Command timed out after {timeout} ms and was killed")), shown, structured)
}

/// A first line means failure.
fn told(first_line: Option<&str>, shown: &Shown, structured: Json) -> ToolOutput {
    let text = match (first_line, shown.body.as_str()) {
        (None, "") => "(no output)".to_owned(),
        (None, body) => body.to_owned(),
        (Some(line), "") => line.to_owned(),
        (Some(line), body) => format!("{line}\n{body}"),
    };
    ToolOutput { is_error: first_line.is_some(), ..ToolOutput::text(text, structured) }
}

/// The result of a call that only started a command.
pub(super) fn started_in_background(job: &Job, outside_sandbox: bool) -> ToolOutput {
    let text = format!("Command running in background with ID: {}. {}", job.id, follow(job));
    let mut structured = json!({
        "stdout": "", "stderr": "", "interrupted": false, "isImage": false, "backgroundTaskId": job.id.0,
    });
    if outside_sandbox {
        structured["dangerouslyDisableSandbox"] = json!(true);
    }
    ToolOutput::text(text, structured)
}

/// The result of a call whose command goes on without it.
pub(super) fn moved_to_background(job: &Job, timeout: u64, recording: &Recording) -> ToolOutput {
    let captured = recording.captured();
    let (head, tail) = captured.texts();
    let body = trimmed(&text::join_ends(&head, &tail, captured.dropped(), MAX_FAILURE));
    let so_far = if body.is_empty() { String::new() } else { format!("\nIts output so far:\n{body}") };
    let text = format!(
        "Command did not end within {timeout} ms and was moved to the background with ID: {}. {}{so_far}",
        job.id,
        follow(job)
    );
    let structured = json!({
        "stdout": body, "stderr": "", "interrupted": false, "isImage": false,
        "backgroundTaskId": job.id.0, "timedOutAfterMs": timeout,
    });
    ToolOutput::text(text, structured)
}

fn follow(job: &Job) -> String {
    let file = match &job.output {
        Some(path) => format!("Output is being written to: {}. ", path.display()),
        None => String::new(),
    };
    format!("{file}You will be told when it ends; TaskOutput shows what it prints, TaskStop stops it.")
}

/// Adds paragraphs to the text of a result.
pub(super) fn add_notes(output: &mut ToolOutput, notes: impl Iterator<Item = String>) {
    if let Some(Block::Text(text)) = output.content.first_mut() {
        for note in notes {
            text.push_str("\n\n");
            text.push_str(&note);
        }
    }
}

/// What exit code 1 means for programs that answer a question with it.
fn meaning(command: &str, code: i32) -> Option<&'static str> {
    if code != 1 {
        return None;
    }
    let words = last_command(command);
    let mut words = words.iter().map(String::as_str);
    match words.next()?.rsplit('/').next()? {
        "grep" | "egrep" | "fgrep" | "rg" => Some("No matches found"),
        "find" => Some("Some directories could not be read"),
        "diff" => Some("The files differ"),
        "test" | "[" => Some("The condition is false"),
        "git" => match words.next()? {
            "diff" => Some("There are differences"),
            "grep" => Some("No matches found"),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_question(command: &str, is_question: bool) {
        assert_eq!(meaning(command, 1).is_some(), is_question, "{command}");
    }

    #[test]
    fn exit_code_one_answers_a_question() {
        check_question("grep x file", true);
        check_question("cd a && LANG=C /usr/bin/grep 'a;b' file 2>&1;", true);
        check_question("cat f | rg x", true);
        check_question("git diff --quiet", true);
        check_question("[ -f x ]", true);
        check_question("make", false);
        check_question("grep x f; make", false);
        check_question("git commit", false);
        check_question("echo 'grep x'", false);
        assert_eq!(meaning("grep x", 2), None);
    }
}
