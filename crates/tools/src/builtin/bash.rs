//! `Bash`: runs a command in a fresh shell that starts where the last one ended.

use super::{parse, seen, spec};
use crate::{
    Effect, Plan, PlanContext, RunContext, Tool,
    host::{Exit, Finished, Kind, Shell},
    text,
};
use futures_util::future::BoxFuture;
use ostler_proto::{
    Access, Footprint, Intent, Interrupt, Json, Preview, StateChange, ToolError, ToolOutput, ToolSpec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

const DESCRIPTION: &str = "Runs a bash command and returns its output, stdout and stderr together. The working \
directory carries over to the next call, variables do not; there is no input and no terminal. What it leaves \
in the background is killed when it ends.";
const GUIDANCE: &str =
    "Use Bash for builds, tests, version control and other programs; for files use the tools made for them.";

const MAX_RESULT: usize = 30_000;
/// Leaves room for the exit code and notes.
const MAX_OUTPUT: usize = MAX_RESULT - 400;
const DEFAULT_TIMEOUT: u64 = 120_000;
const MAX_TIMEOUT: u64 = 600_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The command.
    command: String,
    /// Milliseconds it may take: 120000 unless told, at most 600000.
    timeout: Option<u64>,
    /// What it does, in a few words for the user.
    description: Option<String>,
}

/// The tool.
pub(super) struct Bash {
    spec: ToolSpec,
}

impl Bash {
    pub(super) fn new() -> Self {
        let spec = spec::<Input>("Bash", DESCRIPTION, Interrupt::Cancel).guided(GUIDANCE);
        Self { spec: ToolSpec { max_result: MAX_RESULT, ..spec } }
    }
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("Bash", input)?;
            if input.command.trim().is_empty() {
                return Err(ToolError::failed("the command is empty"));
            }
            if input.command.contains('\0') {
                return Err(ToolError::failed("the command contains a NUL character"));
            }
            let cwd = starting_directory(cx).await?;
            let intent = Intent {
                title: title(&input),
                access: Access::Execute {
                    command: input.command.clone(),
                    cwd: cwd.clone(),
                    footprint: Footprint::default(),
                },
                preview: Preview::Text(input.command.clone()),
            };
            let cx = cx.clone();
            Ok(Plan { intent, effect: Effect::new(move |run| execute(input, cwd, cx, run)) })
        })
    }
}

/// The working directory, or where the session started if it is gone.
async fn starting_directory(cx: &PlanContext) -> Result<PathBuf, ToolError> {
    for directory in std::iter::once(&cx.cwd).chain(cx.roots.first()) {
        if cx.host.stat(&real(directory, cx).await?).await?.is_some_and(|stat| stat.kind == Kind::Directory) {
            return Ok(directory.clone());
        }
    }
    Err(ToolError::Failed(format!("the working directory {} does not exist any more", cx.cwd.display())))
}

fn title(input: &Input) -> String {
    let described = input.description.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let line = described.unwrap_or(&input.command).trim().lines().next().unwrap_or_default();
    text::first(line, 120).map_or_else(|| line.to_owned(), |start| format!("{start}…"))
}

async fn execute(
    input: Input,
    cwd: PathBuf,
    cx: PlanContext,
    run: RunContext,
) -> Result<ToolOutput, ToolError> {
    let timeout = input.timeout.unwrap_or(DEFAULT_TIMEOUT).clamp(1, MAX_TIMEOUT);
    let shell = Shell {
        command: input.command.clone(),
        cwd: cwd.clone(),
        timeout: Duration::from_millis(timeout),
        terms: run.terms,
    };
    let finished = cx.host.run(shell, run.progress).await?;
    let (change, note) = moved(&finished, &cwd, &cx).await?;
    let output = output(&input.command, timeout, &finished, change, note);
    if let (Exit::Code(0), Some(printed)) = (finished.exit, output.structured["stdout"].as_str()) {
        seen::record(&input.command, &cwd, &cx, printed).await;
    }
    Ok(output)
}

/// Where the next command starts, and what the model is told when that is not where this one ended.
async fn moved(
    finished: &Finished,
    cwd: &Path,
    cx: &PlanContext,
) -> Result<(Option<StateChange>, Option<String>), ToolError> {
    let reset = |why: String| Some(format!("Shell cwd was reset to {}{why}", cwd.display()));
    let (start, note) = match &finished.cwd {
        Some(end) if end != cwd && *end != real(cwd, cx).await? => {
            if is_inside(end, cx).await? {
                (end.as_path(), None)
            } else {
                (cwd, reset(String::new()))
            }
        }
        Some(_) | None if cwd != cx.cwd => (cwd, reset(format!(": {} is gone", cx.cwd.display()))),
        Some(_) | None => (cwd, None),
    };
    let change = (start != cx.cwd).then(|| StateChange::Cwd(start.to_owned()));
    Ok((change, note))
}

/// Whether a directory is in one of the working directories, whichever way those are spelled.
async fn is_inside(directory: &Path, cx: &PlanContext) -> Result<bool, ToolError> {
    for root in &cx.roots {
        if directory.starts_with(real(root, cx).await?) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn real(directory: &Path, cx: &PlanContext) -> Result<PathBuf, ToolError> {
    Ok(cx.host.resolve(&directory.to_string_lossy(), Path::new("/")).await?.target)
}

fn output(
    command: &str,
    timeout: u64,
    finished: &Finished,
    change: Option<StateChange>,
    note: Option<String>,
) -> ToolOutput {
    let (head, tail) = finished.output.texts();
    let body =
        text::join_ends(&text::clean(&head), &text::clean(&tail), finished.output.dropped(), MAX_OUTPUT);
    let body = body.trim_end().trim_start_matches('\n');
    let mut structured = json!({"stdout": body, "stderr": "", "interrupted": false, "isImage": false});
    let (first_line, is_error) = match finished.exit {
        Exit::Code(0) => (None, false),
        Exit::Code(code) => match meaning(command, code) {
            Some(meaning) => {
                structured["returnCodeInterpretation"] = json!(meaning);
                (None, false)
            }
            None => (Some(format!("Exit code {code}")), true),
        },
        Exit::TimedOut => {
            structured["interrupted"] = json!(true);
            structured["timedOutAfterMs"] = json!(timeout);
            (Some(format!("Command timed out after {timeout} ms and was killed")), true)
        }
    };
    let body = if body.is_empty() && first_line.is_none() { "(no output)" } else { body };
    let parts = [first_line.as_deref(), Some(body).filter(|body| !body.is_empty())];
    let mut text = parts.into_iter().flatten().collect::<Vec<_>>().join("\n");
    if let Some(note) = note {
        text.push_str("\n\n");
        text.push_str(&note);
    }
    ToolOutput { is_error, changes: change.into_iter().collect(), ..ToolOutput::text(text, structured) }
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

/// The words of the last simple command, roughly: it only chooses how an exit code is put.
fn last_command(command: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut quote = None;
    let mut characters = command.trim_end().trim_end_matches(';').chars().peekable();
    let mut previous = ' ';
    while let Some(character) = characters.next() {
        let redirects = previous == '>' || characters.peek() == Some(&'>');
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '|' | ';' | '\n' | '(' | ')') => words = vec![String::new()],
            (None, '&') if !redirects => words = vec![String::new()],
            (None, space) if space.is_whitespace() => words.push(String::new()),
            (Some(_) | None, other) => words.last_mut().into_iter().for_each(|word| word.push(other)),
        }
        previous = character;
    }
    words.retain(|word| !word.is_empty());
    let assignments = words.iter().take_while(|word| word.contains('=')).count();
    words.split_off(assignments)
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
