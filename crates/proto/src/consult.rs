//! What only the user can settle: questions to them, and the beginning and the end of plan mode.

use crate::Json;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Something that is put to the user, whose word is the point of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Matter {
    /// Questions of the model's.
    Questions(Vec<UserQuestion>),
    /// Whether to plan first and change nothing meanwhile.
    EnterPlan,
    /// Whether a plan is good, so that work may begin.
    LeavePlan {
        /// The whole plan.
        plan: String,
        /// Where it is kept, if it is.
        file: Option<PathBuf>,
    },
}

/// One question with its suggested answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserQuestion {
    /// The question; answers are found by it.
    pub question: String,
    /// A word or two that stand for it.
    #[serde(default)]
    pub header: String,
    /// Suggested answers.
    pub options: Vec<Choice>,
    /// Whether several answers may be chosen.
    #[serde(default)]
    pub multi_select: bool,
}

/// One suggested answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The answer in a few words.
    pub label: String,
    /// What it means or leads to.
    #[serde(default)]
    pub description: String,
    /// Something to look at beside it, such as a draft.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
}

impl Matter {
    /// The call's input with what the matter is about, as hooks and hosts get it.
    #[must_use]
    pub fn completed(&self, input: &Json) -> Json {
        let mut input = input.clone();
        if let (Self::LeavePlan { plan, file }, Some(fields)) = (self, input.as_object_mut()) {
            fields.insert("plan".to_owned(), plan.clone().into());
            if let Some(file) = file {
                fields.insert("planFilePath".to_owned(), file.display().to_string().into());
            }
        }
        input
    }
}
