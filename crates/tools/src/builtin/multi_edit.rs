//! `MultiEdit`: several replacements in one file or in several, all of them or none.

use super::{
    EditNeeds,
    change::{Change, Job, Step, apply},
    edit::report,
    parse, resolve, shown, spec,
};
use crate::{Effect, Plan, PlanContext, Tool};
use futures_util::future::BoxFuture;
use ostler_proto::{Access, Intent, Interrupt, Json, Preview, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

const DESCRIPTION: &str = "Makes several edits at once, all or none: give file_path and edits for one file, or \
files for several. The edits of a file are made in order, each on the result of those before it, under the rules \
of Edit.";

const GUIDANCE: &str = "Use MultiEdit for edits that belong together, in one file or across several.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file, if it is one.
    file_path: Option<String>,
    /// The edits of that file.
    edits: Option<Vec<Step>>,
    /// The files, if they are several.
    files: Option<Vec<FileEdits>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FileEdits {
    /// The file; absolute, or relative to the working directory.
    file_path: String,
    edits: Vec<Step>,
}

/// The tool.
pub(super) struct MultiEdit {
    spec: ToolSpec,
    needs: EditNeeds,
}

impl MultiEdit {
    pub(super) fn new(needs: EditNeeds) -> Self {
        Self { spec: spec::<Input>("MultiEdit", DESCRIPTION, Interrupt::Finish).guided(GUIDANCE), needs }
    }
}

impl Tool for MultiEdit {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let jobs = jobs(parse("MultiEdit", input)?, self.needs, cx).await?;
            let mut planned = Vec::new();
            for job in &jobs {
                planned.push(job.change().await.map_err(|error| of_several(error, jobs.len()))?);
            }
            let names: Vec<String> = jobs.iter().map(|job| shown(&job.fact.requested, &cx.cwd)).collect();
            let intent = Intent {
                title: match names.as_slice() {
                    [only] => format!("Edit {only}"),
                    many => format!("Edit {} files: {}", many.len(), many.join(", ")),
                },
                access: Access::Write { paths: jobs.iter().map(|job| job.fact.clone()).collect() },
                preview: Preview::Diff(planned.iter().map(|change| change.diff.unified.as_str()).collect()),
            };
            Ok(Plan { intent, effect: Effect::new(move |_| run(jobs, planned)) })
        })
    }
}

async fn jobs(input: Input, needs: EditNeeds, cx: &PlanContext) -> Result<Vec<Arc<Job>>, ToolError> {
    let files = match input {
        Input { file_path: Some(file_path), edits: Some(edits), files: None } => {
            vec![FileEdits { file_path, edits }]
        }
        Input { file_path: None, edits: None, files: Some(files) } if !files.is_empty() => files,
        Input { .. } => {
            return Err(ToolError::failed(
                "InputValidationError: MultiEdit takes either file_path and edits, or files with at least one file",
            ));
        }
    };
    let mut jobs: Vec<Arc<Job>> = Vec::new();
    for FileEdits { file_path, edits } in files {
        if edits.is_empty() {
            return Err(ToolError::Failed(format!("there are no edits for {file_path}")));
        }
        let fact = resolve(&file_path, cx).await?;
        if jobs.iter().any(|job| job.fact.target == fact.target) {
            return Err(ToolError::Failed(format!(
                "{} is named twice; put all edits of a file in one place",
                fact.requested.display()
            )));
        }
        jobs.push(Arc::new(Job { fact, steps: edits, needs, cx: cx.clone() }));
    }
    Ok(jobs)
}

/// An error about one file, which means that the others were left alone too.
fn of_several(error: ToolError, files: usize) -> ToolError {
    match error {
        ToolError::Failed(reason) if files > 1 => {
            ToolError::Failed(format!("none of the {files} files was changed: {reason}"))
        }
        ToolError::Failed(_) | ToolError::Fatal(_) => error,
    }
}

async fn run(jobs: Vec<Arc<Job>>, planned: Vec<Change>) -> Result<ToolOutput, ToolError> {
    let changes = apply(&jobs, planned).await.map_err(|error| of_several(error, jobs.len()))?;
    let reports: Vec<String> = jobs.iter().zip(&changes).map(|(job, change)| report(job, change)).collect();
    let mut files: Vec<Json> =
        jobs.iter().zip(changes).map(|(job, change)| structured(job, change)).collect();
    let structured = match (files.pop(), files.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            files.extend(last);
            json!({ "files": files })
        }
    };
    Ok(ToolOutput::text(reports.join("\n\n"), structured))
}

fn structured(job: &Job, change: Change) -> Json {
    let mut structured = json!({
        "filePath": job.fact.requested,
        "edits": job.steps,
        "originalFile": "",
        "structuredPatch": [],
        "userModified": false,
    });
    (structured["originalFile"], structured["structuredPatch"]) = change.into_structured();
    structured
}
