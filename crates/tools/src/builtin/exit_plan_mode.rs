//! `ExitPlanMode`: lays the plan before the user and keeps it in the session's plan file. The mode itself is
//! control's; a yes ends it there.

use super::{parse, schema, spec};
use crate::{
    Effect, Plan, PlanContext, Tool,
    host::{Content, Expected, Replacement, read_whole},
};
use futures_util::future::BoxFuture;
use ostler_proto::{
    Access, Intent, Interrupt, Json, Matter, PathFact, Preview, ToolError, ToolOutput, ToolSpec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

const DESCRIPTION: &str =
    "In plan mode: shows the user your plan, given here or in the plan file, and asks whether to begin.";
/// Longer files are no plans.
const MAX_PLAN: u64 = 256 * 1024;

/// Hosts and hooks get and give more than the model does, so other fields pass.
#[derive(Deserialize, JsonSchema)]
struct Input {
    /// The whole plan, in Markdown.
    plan: Option<String>,
}

/// The tool.
pub(super) struct ExitPlanMode {
    spec: ToolSpec,
}

impl ExitPlanMode {
    pub(super) fn new() -> Self {
        let mut open = schema::<Input>();
        open["additionalProperties"] = true.into();
        let spec = spec::<Input>("ExitPlanMode", DESCRIPTION, Interrupt::Finish);
        Self { spec: ToolSpec { schema: open, ..spec } }
    }
}

impl Tool for ExitPlanMode {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("ExitPlanMode", input)?;
            let kept = kept(cx).await?;
            let given = input.plan.filter(|plan| !plan.trim().is_empty());
            let standing = kept.as_ref().and_then(|(_, text)| text.clone());
            let plan =
                given.or(standing.clone().filter(|text| !text.trim().is_empty())).ok_or_else(|| {
                    let place =
                        cx.plan_file.as_ref().map(|file| format!(", or write it to {}", file.display()));
                    ToolError::Failed(format!(
                        "there is no plan yet: give it as plan{}",
                        place.unwrap_or_default()
                    ))
                })?;
            let file = kept.map(|(fact, _)| fact.target);
            let intent = Intent {
                title: "Leave plan mode and begin".to_owned(),
                access: Access::Consult(Matter::LeavePlan { plan: plan.clone(), file: file.clone() }),
                preview: Preview::Text(plan.clone()),
            };
            let host = cx.host.clone();
            let effect = Effect::new(move |_| async move {
                if let Some(target) = file.clone().filter(|_| standing.as_ref() != Some(&plan)) {
                    let expected = standing
                        .map_or(Expected::Absent, |text| Expected::Content(blake3::hash(text.as_bytes())));
                    let content = Content::Whole(plan.clone().into_bytes());
                    host.replace(Replacement { target, content, expected }).await?;
                }
                Ok(approved(&plan, file.as_deref()))
            });
            Ok(Plan { intent, effect })
        })
    }
}

/// The plan file and what stands in it.
async fn kept(cx: &PlanContext) -> Result<Option<(PathFact, Option<String>)>, ToolError> {
    let Some(file) = cx.plan_file.as_ref().and_then(|file| file.to_str()) else { return Ok(None) };
    let fact = cx.host.resolve(file, &cx.cwd).await?;
    if !fact.exists {
        return Ok(Some((fact, None)));
    }
    let (_, bytes) = read_whole(cx.host.as_ref(), &fact.target, MAX_PLAN).await?;
    Ok(Some((fact, Some(String::from_utf8_lossy(&bytes).into_owned()))))
}

fn approved(plan: &str, file: Option<&std::path::Path>) -> ToolOutput {
    let place = file.map(|file| format!(" It is kept in {}.", file.display())).unwrap_or_default();
    let text = format!(
        "The user approved the plan, and plan mode is over: begin now.{place}\n\nThe plan as approved:\n{plan}"
    );
    ToolOutput::text(text, json!({"plan": plan, "isAgent": false, "filePath": file}))
}
