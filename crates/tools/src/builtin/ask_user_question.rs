//! `AskUserQuestion`: puts questions with suggested answers to the user. Whoever shows them writes the answers
//! into the call's input; this tool only hands them on.

use super::{parse, spec};
use crate::{Effect, Plan, PlanContext, Tool};
use futures_util::future::BoxFuture;
use ostler_proto::{
    Access, Choice, Intent, Interrupt, Json, Matter, Preview, ToolError, ToolOutput, ToolSpec, UserQuestion,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};
use std::fmt::Write as _;

const DESCRIPTION: &str = "Asks the user up to four questions with suggested answers: for choices that are theirs and that the code does not settle.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    #[schemars(length(min = 1, max = 4))]
    questions: Vec<Asked>,
    /// The user fills this in.
    answers: Option<Map<String, Json>>,
    annotations: Option<Map<String, Json>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Asked {
    #[schemars(length(min = 1))]
    question: String,
    /// One or two words that stand for it.
    header: Option<String>,
    #[schemars(length(min = 2, max = 4))]
    options: Vec<Offered>,
    /// Whether several may be chosen.
    multi_select: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Offered {
    #[schemars(length(min = 1))]
    label: String,
    /// What it leads to.
    description: Option<String>,
    preview: Option<String>,
}

/// The tool.
pub(super) struct AskUserQuestion {
    spec: ToolSpec,
}

impl AskUserQuestion {
    pub(super) fn new() -> Self {
        Self { spec: spec::<Input>("AskUserQuestion", DESCRIPTION, Interrupt::Cancel) }
    }
}

impl Tool for AskUserQuestion {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, _: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("AskUserQuestion", input)?;
            let questions: Vec<UserQuestion> = input.questions.into_iter().map(UserQuestion::from).collect();
            if let Some(twice) = first_repeated(&questions) {
                return Err(ToolError::Failed(format!("'{twice}' is asked twice; ask each question once")));
            }
            let (answers, notes) = (input.answers.unwrap_or_default(), input.annotations.unwrap_or_default());
            let intent = Intent {
                title: format!("Ask the user: {}", questions[0].question),
                access: Access::Consult(Matter::Questions(questions.clone())),
                preview: Preview::None,
            };
            let effect = Effect::new(move |_| async move { Ok(answered(&questions, &answers, &notes)) });
            Ok(Plan { intent, effect })
        })
    }
}

/// Answers are found by their question, so no two may read the same.
fn first_repeated(questions: &[UserQuestion]) -> Option<&str> {
    let same = |(index, question): (usize, &UserQuestion)| {
        questions[..index].iter().any(|earlier| earlier.question == question.question)
    };
    let twice = questions.iter().enumerate().find(|entry| same(*entry));
    twice.map(|(_, question)| question.question.as_str())
}

fn answered(
    questions: &[UserQuestion],
    answers: &Map<String, Json>,
    notes: &Map<String, Json>,
) -> ToolOutput {
    let mut text = String::from("The user answered:");
    for question in questions {
        let answer = answers.get(&question.question).map(in_words).filter(|answer| !answer.trim().is_empty());
        let answer = answer.unwrap_or_else(|| "(no answer)".to_owned());
        // Writing to a string cannot fail.
        let _ = write!(text, "\n- {}\n  {answer}", question.question);
        let note = notes.get(&question.question).and_then(|about| about.get("notes")?.as_str());
        if let Some(note) = note {
            let _ = write!(text, "\n  with the note: {note}");
        }
    }
    ToolOutput::text(text, json!({"questions": questions, "answers": answers}))
}

fn in_words(answer: &Json) -> String {
    match answer {
        Json::String(text) => text.clone(),
        Json::Array(several) => several.iter().map(in_words).collect::<Vec<_>>().join(", "),
        Json::Null => String::new(),
        other @ (Json::Bool(_) | Json::Number(_) | Json::Object(_)) => other.to_string(),
    }
}

impl From<Asked> for UserQuestion {
    fn from(asked: Asked) -> Self {
        let choice = |offered: Offered| Choice {
            label: offered.label,
            description: offered.description.unwrap_or_default(),
            preview: offered.preview,
        };
        Self {
            question: asked.question,
            header: asked.header.unwrap_or_default(),
            options: asked.options.into_iter().map(choice).collect(),
            multi_select: asked.multi_select.unwrap_or_default(),
        }
    }
}
