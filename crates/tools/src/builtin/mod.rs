//! The tools that come with Ostler: one file each, one line each in [`all`].
//! What they share is here; nothing here decides whether a tool may run.

mod ask_user_question;
mod bash;
mod change;
mod diff;
mod draft;
mod edit;
mod encoding;
mod enter_plan_mode;
mod exit_plan_mode;
mod git;
mod glob;
mod grep;
mod index;
mod lines;
mod ls;
mod matching;
mod multi_edit;
mod near;
mod notebook;
mod notebook_edit;
mod read;
mod search;
mod seen;
mod snippet;
mod source;
mod task_output;
mod task_stop;
mod todo_write;
mod tokens;
mod web_fetch;
mod write;

use crate::{PlanContext, Tool, host::Jobs, text, web::Reach};
use ostler_proto::{Interrupt, Json, PathFact, Todo, ToolError, ToolSpec};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use std::{path::Path, sync::Arc};

pub use bash::{Manner, Preference};
pub use encoding::text_of;
pub use read::{Limits, show_again};

/// What the tools of a session are made with.
pub struct Kit {
    /// How they behave.
    pub options: Options,
    /// How commands are run.
    pub manner: Manner,
    /// The session's background commands.
    pub jobs: Arc<Jobs>,
    /// What pages may be fetched from.
    pub reach: Reach,
    /// The todo list as an earlier process left it.
    pub todos: Vec<Todo>,
}

/// The tools whose point is the user's answer: they are of no use where nobody can give one.
pub const CONSULTING: [&str; 3] = ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"];

/// What a session may set about the tools. It is fixed for as long as the session lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// How much a read may show.
    pub read: Limits,
    /// What must have been read of a file before it is edited.
    pub edit_needs: EditNeeds,
    /// Whether `Glob` finds what ignore files name.
    pub glob_ignored: Found,
    /// Whether `Glob` finds what is hidden.
    pub glob_hidden: Found,
}

/// What must have been read of a file before it is edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EditNeeds {
    /// The lines that the edit touches.
    #[default]
    TouchedLines,
    /// All of it.
    WholeFile,
}

/// Whether files of a kind are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Found {
    /// They are.
    #[default]
    Yes,
    /// They are left out.
    No,
}

impl Default for Kit {
    fn default() -> Self {
        Self {
            options: Options::default(),
            manner: Manner::default(),
            jobs: Arc::new(Jobs::new(None)),
            reach: Reach::default(),
            todos: Vec::new(),
        }
    }
}

/// Every built-in tool, in the order the model sees them.
pub fn all() -> Vec<Box<dyn Tool>> {
    all_with(Kit::default())
}

/// Every built-in tool, made for a session.
pub fn all_with(kit: Kit) -> Vec<Box<dyn Tool>> {
    let Kit { options, manner, jobs, reach, todos } = kit;
    vec![
        Box::new(read::Read::new(options.read)),
        Box::new(write::Write::new()),
        Box::new(edit::Edit::new(options.edit_needs)),
        Box::new(multi_edit::MultiEdit::new(options.edit_needs)),
        Box::new(notebook_edit::NotebookEdit::new(options.edit_needs)),
        Box::new(bash::Bash::new(&manner, Arc::clone(&jobs))),
        Box::new(task_output::TaskOutput::new(Arc::clone(&jobs))),
        Box::new(task_stop::TaskStop::new(jobs)),
        Box::new(git::GitSummary::new()),
        Box::new(grep::Grep::new()),
        Box::new(glob::Glob::new(options)),
        Box::new(ls::Ls::new()),
        Box::new(todo_write::TodoWrite::new(todos)),
        Box::new(web_fetch::WebFetch::new(reach)),
        Box::new(ask_user_question::AskUserQuestion::new()),
        Box::new(enter_plan_mode::EnterPlanMode::new()),
        Box::new(exit_plan_mode::ExitPlanMode::new()),
    ]
}

/// Longest result of a tool that sets no limit of its own, in characters.
const MAX_RESULT: usize = 100_000;
/// Largest file that is changed or compared as a whole.
const MAX_WHOLE: u64 = 10 * 1024 * 1024;

fn spec<Input: JsonSchema>(name: &str, description: &str, interrupt: Interrupt) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        aliases: Vec::new(),
        description: description.to_owned(),
        schema: schema::<Input>(),
        interrupt,
        max_result: MAX_RESULT,
        guidance: String::new(),
    }
}

/// The schema of an input, as short as it can be: it goes to the model with every request.
fn schema<Input: JsonSchema>() -> Json {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<Input>().to_value();
    shorten(&mut schema);
    schema
}

/// Takes out what says nothing to a model: titles, number formats, and `null` for what may be left out.
fn shorten(schema: &mut Json) {
    let Some(object) = schema.as_object_mut() else { return };
    for noise in ["title", "format", "default"] {
        object.shift_remove(noise);
    }
    if let Some(Json::Array(choices)) = object.shift_remove("anyOf") {
        let real = choices.into_iter().find(|choice| choice.get("type") != Some(&Json::from("null")));
        object.extend(real.and_then(|real| real.as_object().cloned()).unwrap_or_default());
    }
    if let Some(Json::Array(types)) = object.get("type") {
        let real = types.iter().find(|kind| **kind != "null").cloned();
        object.insert("type".to_owned(), real.unwrap_or_default());
    }
    if let Some(Json::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Json::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(shorten);
    }
    if let Some(items) = object.get_mut("items") {
        shorten(items);
    }
}

/// Reads a tool's input, or says in words a model can act on what is wrong with it.
fn parse<Input: DeserializeOwned>(tool: &str, input: Json) -> Result<Input, ToolError> {
    serde_path_to_error::deserialize(input).map_err(|error| {
        let place = match error.path().to_string() {
            path if path == "." => String::new(),
            path => format!("{path}: "),
        };
        ToolError::Failed(format!(
            "InputValidationError: {tool} was called with wrong input: {place}{}",
            error.inner()
        ))
    })
}

/// Follows a path of the model's, which may have grown spaces around it, from the working directory.
async fn resolve(path: &str, cx: &PlanContext) -> Result<PathFact, ToolError> {
    Ok(cx.host.resolve(path.trim(), &cx.cwd).await?)
}

/// A path as people and models read it best: relative where it is below the working directory.
fn shown(path: &Path, cwd: &Path) -> String {
    match path.strip_prefix(cwd) {
        Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Ok(below) => text::name(&below.to_string_lossy()),
        Err(_) => text::name(&path.to_string_lossy()),
    }
}

/// A number with what it counts, as people say it.
fn counted(count: u64, thing: &str) -> String {
    let ending = match (count, thing.ends_with("ch")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {thing}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_plain_and_short() {
        let mut length = 0;
        for tool in all() {
            let spec = tool.spec();
            assert_eq!(spec.schema["type"], "object", "{}", spec.name);
            // Hosts and hooks add fields of their own to a plan.
            let is_open = spec.name == "ExitPlanMode";
            assert_eq!(spec.schema["additionalProperties"], is_open, "{}", spec.name);
            let text = spec.schema.to_string();
            for noise in ["$schema", "$ref", "$defs", "title", "null", "anyOf"] {
                assert!(!text.contains(&format!("\"{noise}\"")), "{}: {text}", spec.name);
            }
            length += text.len() + spec.description.len();
        }
        for name in CONSULTING {
            assert!(all().iter().any(|tool| tool.spec().name == name), "{name}");
        }
        assert!(length < 12_000, "{length} bytes go to the model with every request");
    }
}
