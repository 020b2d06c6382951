//! `Edit`: replaces an exact piece of a text file.

use super::{
    EditNeeds,
    change::{Change, Job, Step, apply},
    counted, parse, resolve, shown, spec,
};
use crate::{Effect, Plan, PlanContext, Tool};
use futures_util::future::BoxFuture;
use ostler_proto::{Access, Intent, Interrupt, Json, Preview, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

const DESCRIPTION: &str = "Replaces exact text in a file that was read before. old_string must match the file \
character for character (without line numbers) and stand there only once, unless replace_all or \
expected_replacements is set. An empty old_string creates a new file.";

const GUIDANCE: &str = "Give Edit only as much text around a change as makes the place unique.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file; absolute, or relative to the working directory.
    file_path: String,
    /// The text to replace, with enough around it to be unique.
    old_string: String,
    /// The text to put there.
    new_string: String,
    /// Replace every place where the text stands.
    #[serde(default)]
    replace_all: bool,
    /// Replace every place, and fail if there are not exactly so many.
    expected_replacements: Option<usize>,
}

/// The tool.
pub(super) struct Edit {
    spec: ToolSpec,
    needs: EditNeeds,
}

impl Edit {
    pub(super) fn new(needs: EditNeeds) -> Self {
        Self { spec: spec::<Input>("Edit", DESCRIPTION, Interrupt::Finish).guided(GUIDANCE), needs }
    }
}

impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let Input { file_path, old_string, new_string, replace_all, expected_replacements } =
                parse("Edit", input)?;
            let step = Step { old_string, new_string, replace_all, expected_replacements };
            let fact = resolve(&file_path, cx).await?;
            let job = Arc::new(Job { fact, steps: vec![step], needs: self.needs, cx: cx.clone() });
            let planned = job.change().await?;
            let verb = if planned.is_edit() { "Edit" } else { "Create" };
            let intent = Intent {
                title: format!("{verb} {}", shown(&job.fact.requested, &cx.cwd)),
                access: Access::Write { paths: vec![job.fact.clone()] },
                preview: Preview::Diff(planned.diff.unified.clone()),
            };
            Ok(Plan { intent, effect: Effect::new(move |_| run(job, planned)) })
        })
    }
}

async fn run(job: Arc<Job>, planned: Change) -> Result<ToolOutput, ToolError> {
    let jobs = [job];
    let changes = apply(&jobs, vec![planned]).await?;
    let ([job], Some(change)) = (jobs, changes.into_iter().next()) else {
        return Err(ToolError::Fatal("an edit gave no result".to_owned()));
    };
    let (path, step) = (&job.fact.requested, &job.steps[0]);
    let text = report(&job, &change);
    let mut structured = json!({
        "filePath": path,
        "oldString": step.old_string,
        "newString": step.new_string,
        "originalFile": "",
        "structuredPatch": [],
        "userModified": false,
        "replaceAll": step.replace_all,
    });
    (structured["originalFile"], structured["structuredPatch"]) = change.into_structured();
    Ok(ToolOutput::text(text, structured))
}

/// What the model is told about a file that was edited.
pub(super) fn report(job: &Job, change: &Change) -> String {
    let path = job.fact.requested.display();
    if !change.is_edit() {
        return format!("Created {path} with {}.", counted(change.diff.added as u64, "line"));
    }
    let places = match change.places {
        1 => String::new(),
        many => format!(" in {many} places"),
    };
    format!("Edited {path}{places}. It now reads:\n{}", change.snippet)
}
