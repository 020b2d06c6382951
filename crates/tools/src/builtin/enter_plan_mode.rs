//! `EnterPlanMode`: asks the user to plan first. The mode itself is control's; a yes changes it there.

use super::{parse, spec};
use crate::{Effect, Plan, PlanContext, Tool};
use futures_util::future::BoxFuture;
use ostler_proto::{Access, Intent, Interrupt, Json, Matter, Preview, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

const DESCRIPTION: &str =
    "Asks the user to plan before changing anything: for work in many files or with several sensible ways.";
const ENTERED: &str =
    "The user agreed: plan mode is on. Look around, change nothing, and call ExitPlanMode with your plan.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {}

/// The tool.
pub(super) struct EnterPlanMode {
    spec: ToolSpec,
}

impl EnterPlanMode {
    pub(super) fn new() -> Self {
        Self { spec: spec::<Input>("EnterPlanMode", DESCRIPTION, Interrupt::Cancel) }
    }
}

impl Tool for EnterPlanMode {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, _: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let Input {} = parse("EnterPlanMode", input)?;
            let intent = Intent {
                title: "Plan before changing anything".to_owned(),
                access: Access::Consult(Matter::EnterPlan),
                preview: Preview::None,
            };
            let entered = || ToolOutput::text(ENTERED, json!({ "message": ENTERED }));
            Ok(Plan { intent, effect: Effect::new(move |_| async move { Ok(entered()) }) })
        })
    }
}
