//! `TodoWrite`: the model's own list of what is left to do, replaced whole with every call.

use super::{parse, spec};
use crate::{Effect, Plan, PlanContext, Tool};
use futures_util::future::BoxFuture;
use ostler_proto::{
    Access, Intent, Interrupt, Json, Preview, StateChange, Todo, TodoStatus, ToolError, ToolOutput, ToolSpec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};

const DESCRIPTION: &str = "Keeps a list of what is to be done in work of several steps; the user sees it. Send the \
whole list each time. Keep exactly one item in_progress while you work, and mark items completed as soon as they are.";
const GUIDANCE: &str = "Plan work of several steps with TodoWrite and keep the list current.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The whole list.
    todos: Vec<Item>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Item {
    /// What is to be done: Run the tests.
    #[schemars(length(min = 1))]
    content: String,
    status: Status,
    /// The same while it is being done: Running the tests.
    #[schemars(length(min = 1))]
    active_form: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

/// The tool, with the list as it was written last.
pub(super) struct TodoWrite {
    spec: ToolSpec,
    list: Arc<Mutex<Vec<Todo>>>,
}

impl TodoWrite {
    pub(super) fn new(list: Vec<Todo>) -> Self {
        Self {
            spec: spec::<Input>("TodoWrite", DESCRIPTION, Interrupt::Cancel).guided(GUIDANCE),
            list: Arc::new(Mutex::new(list)),
        }
    }
}

impl Tool for TodoWrite {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, _: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("TodoWrite", input)?;
            let todos: Vec<Todo> = input.todos.into_iter().map(Todo::from).collect();
            let intent = Intent {
                title: "Update the todo list".to_owned(),
                access: Access::Internal,
                preview: Preview::None,
            };
            let list = Arc::clone(&self.list);
            Ok(Plan { intent, effect: Effect::new(move |_| async move { Ok(update(&list, todos)) }) })
        })
    }
}

fn update(list: &Mutex<Vec<Todo>>, todos: Vec<Todo>) -> ToolOutput {
    let old = std::mem::replace(&mut *list.lock().unwrap_or_else(PoisonError::into_inner), todos.clone());
    let count = |status| todos.iter().filter(|todo| todo.status == status).count();
    let text = format!(
        "The todo list is updated: {} completed, {} in progress, {} pending. Go on with the work.",
        count(TodoStatus::Completed),
        count(TodoStatus::InProgress),
        count(TodoStatus::Pending)
    );
    let structured = json!({"oldTodos": old, "newTodos": todos});
    ToolOutput { changes: vec![StateChange::Todos(todos)], ..ToolOutput::text(text, structured) }
}

impl From<Item> for Todo {
    fn from(item: Item) -> Self {
        let status = match item.status {
            Status::Pending => TodoStatus::Pending,
            Status::InProgress => TodoStatus::InProgress,
            Status::Completed => TodoStatus::Completed,
        };
        Self { content: item.content, status, active_form: item.active_form }
    }
}
