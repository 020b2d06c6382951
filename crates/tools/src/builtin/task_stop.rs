//! `TaskStop`: ends a background command and everything it started.

use super::{parse, spec, task_output::unknown};
use crate::{Effect, Plan, PlanContext, Tool, host::Jobs};
use futures_util::future::BoxFuture;
use ostler_proto::{
    Access, Intent, Interrupt, JobId, JobState, Json, Preview, ToolError, ToolOutput, ToolSpec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

const DESCRIPTION: &str = "Stops a background command.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The command's ID.
    task_id: Option<String>,
    /// Old name of `task_id`.
    shell_id: Option<String>,
}

/// The tool.
pub(super) struct TaskStop {
    spec: ToolSpec,
    jobs: Arc<Jobs>,
}

impl TaskStop {
    pub(super) fn new(jobs: Arc<Jobs>) -> Self {
        let aliases = ["KillShell", "KillBash"].map(str::to_owned).into();
        let spec = spec::<Input>("TaskStop", DESCRIPTION, Interrupt::Finish);
        Self { spec: ToolSpec { aliases, ..spec }, jobs }
    }
}

impl Tool for TaskStop {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, _: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("TaskStop", input)?;
            let id = input.task_id.or(input.shell_id);
            let id = JobId(id.ok_or_else(|| ToolError::failed("task_id is missing: which command?"))?);
            let intent = Intent {
                title: format!("Stop background command {id}"),
                access: Access::Internal,
                preview: Preview::None,
            };
            let jobs = Arc::clone(&self.jobs);
            Ok(Plan { intent, effect: Effect::new(move |_| async move { stop(&jobs, &id).await }) })
        })
    }
}

async fn stop(jobs: &Jobs, id: &JobId) -> Result<ToolOutput, ToolError> {
    let before = jobs.list().into_iter().find(|job| job.id == *id).ok_or_else(|| unknown(id, jobs))?;
    if before.state != JobState::Running {
        return Err(ToolError::Failed(format!("background command {id} {} before", before.state)));
    }
    jobs.stop(id).await;
    // Whoever stopped it need not be told of its end.
    jobs.mark_heard(id);
    let message = format!("Stopped background command {id}: {}", before.command);
    let structured =
        json!({"message": message, "task_id": id.0, "task_type": "local_bash", "command": before.command});
    Ok(ToolOutput::text(message, structured))
}
