//! One table for all tools, whoever supplies them: names, aliases, schemas, in a stable order.

use crate::{Plan, PlanContext, Tool};
use ostler_proto::{Json, ToolError, ToolSpec};
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

/// All tools of a session.
pub struct Registry {
    tools: Vec<Arc<Registered>>,
    by_name: HashMap<String, usize>,
}

/// A tool with its compiled schema.
pub struct Registered {
    tool: Box<dyn Tool>,
    /// Compiled on first use: most sessions use few of the tools.
    validator: OnceLock<Result<jsonschema::Validator, String>>,
}

/// Two tools answer to one name.
#[derive(Debug, thiserror::Error)]
#[error("two tools are named '{0}'")]
pub struct DuplicateName(pub String);

impl Registry {
    /// Builds the table. The order given is the order the model sees.
    pub fn new(tools: Vec<Box<dyn Tool>>) -> Result<Self, DuplicateName> {
        let mut by_name = HashMap::new();
        for (position, tool) in tools.iter().enumerate() {
            let spec = tool.spec();
            for name in std::iter::once(&spec.name).chain(&spec.aliases) {
                if by_name.insert(name.clone(), position).is_some() {
                    return Err(DuplicateName(name.clone()));
                }
            }
        }
        let tools =
            tools.into_iter().map(|tool| Arc::new(Registered { tool, validator: OnceLock::new() })).collect();
        Ok(Self { tools, by_name })
    }

    /// The tool that answers to a name or alias.
    pub fn find(&self, name: &str) -> Option<Arc<Registered>> {
        self.by_name.get(name).map(|position| Arc::clone(&self.tools[*position]))
    }

    /// What each tool is, in order.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.iter().map(|tool| tool.tool.spec())
    }
}

impl Registered {
    /// What the tool is.
    pub fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    /// Checks an input against the schema; the error names every wrong field in words a model can act on.
    pub fn validate(&self, input: &Json) -> Result<(), ToolError> {
        let compiled = self.validator.get_or_init(|| {
            jsonschema::validator_for(&self.spec().schema).map_err(|error| error.to_string())
        });
        let name = &self.spec().name;
        let validator = compiled
            .as_ref()
            .map_err(|error| ToolError::Fatal(format!("the schema of {name} is broken: {error}")))?;
        let problems: Vec<String> = validator
            .iter_errors(input)
            .map(|error| match error.instance_path().to_string() {
                path if path.is_empty() => error.to_string(),
                path => format!("{}: {error}", path.trim_start_matches('/')),
            })
            .collect();
        if problems.is_empty() {
            return Ok(());
        }
        Err(ToolError::Failed(format!(
            "InputValidationError: {name} was called with wrong input: {}",
            problems.join("; ")
        )))
    }

    /// Turns an input into an intent and a held-back effect.
    pub async fn plan(&self, input: Json, cx: &PlanContext) -> Result<Plan, ToolError> {
        self.tool.plan(input, cx).await
    }
}
