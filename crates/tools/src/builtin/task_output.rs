//! `TaskOutput`: what background commands have printed since it was last asked, and which there are.

use super::{parse, spec};
use crate::{
    Effect, Plan, PlanContext, Tool,
    host::{Jobs, News},
    text,
};
use futures_util::future::BoxFuture;
use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use ostler_proto::{
    Access, Intent, Interrupt, Job, JobId, JobState, Json, Preview, ToolError, ToolOutput, ToolSpec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::{sync::Arc, time::Duration};

const DESCRIPTION: &str = "Shows what a background command printed since you last asked, and how it stands. Without task_id: lists them.";

const DEFAULT_TIMEOUT: u64 = 30_000;
const MAX_TIMEOUT: u64 = 600_000;
const MAX_RESULT: usize = 30_000;
/// A pattern may not take more memory than this when compiled.
const MAX_PATTERN: usize = 1 << 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The command's ID.
    task_id: Option<String>,
    /// Wait for its end: true unless told.
    block: Option<bool>,
    /// Milliseconds to wait at most: 30000 unless told, at most 600000.
    timeout: Option<u64>,
    /// Regular expression: only lines that match are shown, the others are passed over.
    filter: Option<String>,
    /// Old name of `task_id`.
    bash_id: Option<String>,
}

/// The tool.
pub(super) struct TaskOutput {
    spec: ToolSpec,
    jobs: Arc<Jobs>,
}

impl TaskOutput {
    pub(super) fn new(jobs: Arc<Jobs>) -> Self {
        let aliases = ["BashOutput", "AgentOutputTool"].map(str::to_owned).into();
        let spec = spec::<Input>("TaskOutput", DESCRIPTION, Interrupt::Cancel);
        Self { spec: ToolSpec { aliases, max_result: MAX_RESULT, ..spec }, jobs }
    }
}

impl Tool for TaskOutput {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, _: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("TaskOutput", input)?;
            let filter = input.filter.as_deref().map(compile).transpose()?;
            let id = input.task_id.clone().or_else(|| input.bash_id.clone()).map(JobId);
            let title = match &id {
                Some(id) => format!("Output of background command {id}"),
                None => "List background commands".to_owned(),
            };
            let intent = Intent { title, access: Access::Internal, preview: Preview::None };
            let jobs = Arc::clone(&self.jobs);
            let effect = Effect::new(move |_| async move {
                match id {
                    Some(id) => follow(&jobs, &id, &input, filter.as_ref()).await,
                    None => Ok(list(&jobs)),
                }
            });
            Ok(Plan { intent, effect })
        })
    }
}

fn compile(pattern: &str) -> Result<RegexMatcher, ToolError> {
    RegexMatcherBuilder::new()
        .size_limit(MAX_PATTERN)
        .build(pattern)
        .map_err(|error| ToolError::Failed(format!("the filter is not a regular expression: {error}")))
}

async fn follow(
    jobs: &Jobs,
    id: &JobId,
    input: &Input,
    filter: Option<&RegexMatcher>,
) -> Result<ToolOutput, ToolError> {
    let mut status = "success";
    if input.block.unwrap_or(true) {
        let patience = Duration::from_millis(input.timeout.unwrap_or(DEFAULT_TIMEOUT).min(MAX_TIMEOUT));
        if tokio::time::timeout(patience, jobs.wait(id)).await.is_err() {
            status = "timeout";
        }
    }
    let news = if filter.is_some() { jobs.whole_lines(id) } else { jobs.news(id) };
    let news = news.ok_or_else(|| unknown(id, jobs))?;
    Ok(told(&news, filter, status))
}

fn told(news: &News, filter: Option<&RegexMatcher>, status: &str) -> ToolOutput {
    let News { job, text, gone } = news;
    let lines = match filter {
        None => text.clone(),
        Some(filter) => matching_lines(text, filter),
    };
    let file = match &job.output {
        Some(path) => format!(" (all of it is in {})", path.display()),
        None => String::new(),
    };
    let mut body = text::cut(lines.trim_end(), MAX_RESULT - 1000, &file);
    if *gone > 0 {
        body = format!("[… {gone} bytes of output before this are left out{file} …]\n{body}");
    }
    let nothing = match filter {
        Some(_) => "(no new output that matches)",
        None => "(no new output)",
    };
    let body = if body.is_empty() { nothing } else { body.as_str() };
    let structured = json!({
        "retrieval_status": if job.state.is_over() { "success" } else { status },
        "task": {
            "task_id": job.id.0, "task_type": "local_bash", "status": status_word(job.state),
            "description": job.description, "output": body, "exitCode": exit_code(job.state),
        },
    });
    ToolOutput::text(format!("{}\n{body}", line(job)), structured)
}

fn matching_lines(text: &str, filter: &RegexMatcher) -> String {
    let matches = |line: &&str| filter.is_match(line.trim_end().as_bytes()).unwrap_or(false);
    text.split_inclusive('\n').filter(matches).collect()
}

fn list(jobs: &Jobs) -> ToolOutput {
    let jobs = jobs.list();
    let tasks: Vec<Json> = jobs
        .iter()
        .map(|job| {
            json!({"task_id": job.id.0, "task_type": "local_bash", "status": status_word(job.state),
                "description": job.description, "command": job.command})
        })
        .collect();
    let text = match jobs.as_slice() {
        [] => "There are no background commands.".to_owned(),
        jobs => jobs.iter().map(line).collect::<Vec<_>>().join("\n"),
    };
    ToolOutput::text(text, json!({"tasks": tasks}))
}

/// A job in a line.
fn line(job: &Job) -> String {
    let seconds = job.ran_for_ms / 1000;
    let command = job.command.lines().next().unwrap_or_default();
    let command = text::first(command, 80).map_or_else(|| command.to_owned(), |start| format!("{start}…"));
    match job.state {
        JobState::Running => format!("{}: running for {seconds} s: {command}", job.id),
        state @ (JobState::Exited(_) | JobState::Stopped | JobState::Lost) => {
            format!("{}: {state} after {seconds} s: {command}", job.id)
        }
    }
}

fn status_word(state: JobState) -> &'static str {
    match state {
        JobState::Running => "running",
        JobState::Exited(0) => "completed",
        JobState::Exited(_) | JobState::Lost => "failed",
        JobState::Stopped => "killed",
    }
}

fn exit_code(state: JobState) -> Option<i32> {
    match state {
        JobState::Exited(code) => Some(code),
        JobState::Running | JobState::Stopped | JobState::Lost => None,
    }
}

/// There is no such job; what there is instead.
pub(super) fn unknown(id: &JobId, jobs: &Jobs) -> ToolError {
    let known: Vec<String> = jobs.list().into_iter().map(|job| job.id.0).collect();
    let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
    ToolError::Failed(format!("no background command has the ID '{id}' ({known})"))
}
