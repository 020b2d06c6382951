//! What every tool declares and returns, whoever supplies it.

use crate::{Block, Json};
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf};

/// A tool as the model, the registry and the scheduler see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Canonical name, e.g. `Read`.
    pub name: String,
    /// Other names it answers to in calls and rules.
    pub aliases: Vec<String>,
    /// What the model is told about it.
    pub description: String,
    /// JSON Schema of its input: an object, no further properties.
    pub schema: Json,
    /// What an interrupt does to a running call.
    pub interrupt: Interrupt,
    /// Longest result in characters that goes to the model.
    pub max_result: usize,
    /// How to use it well, in a line for the system prompt; empty where the description says it all.
    pub guidance: String,
}

/// What an interrupt does to a running call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Interrupt {
    /// It is dropped at once and cleans up behind itself.
    Cancel,
    /// It is short and must finish, such as a file write.
    Finish,
}

/// What a call gave.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// For the model.
    pub content: Vec<Block>,
    /// For programs: the structured result.
    pub structured: Json,
    /// Whether the model should take it as a failure (a command that exited with an error).
    pub is_error: bool,
    /// Changes to shared state; applied in call order.
    pub changes: Vec<StateChange>,
}

/// A change to what later calls start from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateChange {
    /// The shell moved.
    Cwd(PathBuf),
    /// The todo list is now this.
    Todos(Vec<Todo>),
}

/// One item of the model's todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
    /// The same while it is being done, e.g. `Running tests`.
    pub active_form: String,
}

/// How far a [`Todo`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
}

/// Why a call gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolError {
    /// Told to the model, which may try another way.
    Failed(String),
    /// Ends the turn and is told to the user.
    Fatal(String),
}

impl ToolSpec {
    /// The same tool with a line for the system prompt.
    #[must_use]
    pub fn guided(self, guidance: &str) -> Self {
        Self { guidance: guidance.to_owned(), ..self }
    }
}

impl ToolOutput {
    /// A plain success.
    pub fn text(text: impl Into<String>, structured: Json) -> Self {
        Self { content: vec![Block::text(text)], structured, is_error: false, changes: Vec::new() }
    }
}

impl ToolError {
    /// A failure the model is told.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(text) | Self::Fatal(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ToolError {}
