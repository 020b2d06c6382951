//! Questions of the model's, put to a person one after the other, and their typed answers. A number chooses,
//! other words are an answer of their own; nothing counts before the last question is answered.

use crate::ask::one_escaped_line;
use ostler_proto::{Access, Answer, Ask, Json, Matter, UserQuestion};
use serde_json::Map;
use std::fmt::Write as _;

/// Questions on their way to being answered.
#[derive(Debug)]
pub(crate) struct Form {
    input: Json,
    questions: Vec<UserQuestion>,
    answers: Map<String, Json>,
}

/// What a typed line led to.
#[derive(Debug, PartialEq)]
pub(crate) enum Filled {
    /// The question stands, or the next one does: it is to be shown.
    Ask,
    /// All are answered, or none will be.
    Done(Answer),
}

impl Form {
    /// The form of a question that has one.
    pub(crate) fn of(ask: &Ask) -> Option<Self> {
        let Access::Consult(Matter::Questions(questions)) = &ask.intent.access else { return None };
        Some(Self { input: ask.input.clone(), questions: questions.clone(), answers: Map::new() })
    }

    /// The question that waits for an answer.
    pub(crate) fn question(&self) -> String {
        let Some(question) = self.questions.get(self.answers.len()) else { return String::new() };
        let of = match self.questions.len() {
            1 => String::new(),
            all => format!(" ({} of {all})", self.answers.len() + 1),
        };
        let mut shown = format!("\n? The model asks{of}: {}\n", one_escaped_line(&question.question));
        for (number, option) in question.options.iter().enumerate() {
            let description = match option.description.as_str() {
                "" => String::new(),
                text => format!(": {}", one_escaped_line(text)),
            };
            let label = one_escaped_line(&option.label);
            // Writing to a string cannot fail.
            let _ = writeln!(shown, "  {}. {label}{description}", number + 1);
            for line in option.preview.iter().flat_map(|preview| preview.lines()) {
                let _ = writeln!(shown, "     │ {}", one_escaped_line(line));
            }
        }
        let how = if question.multi_select { "numbers, as in 1,3" } else { "a number" };
        let _ = write!(shown, "  {how}, or your own words; - = no answer to any of it\n  > ");
        shown
    }

    /// Takes a typed line.
    pub(crate) fn typed(&mut self, line: &str) -> Filled {
        let line = line.trim();
        if line == "-" {
            let message = "the user does not want to answer".to_owned();
            return Filled::Done(Answer::Deny { message, interrupt: false });
        }
        let Some(question) = self.questions.get(self.answers.len()).filter(|_| !line.is_empty()) else {
            return Filled::Ask;
        };
        self.answers.insert(question.question.clone(), Json::String(chosen(question, line)));
        if self.answers.len() < self.questions.len() {
            return Filled::Ask;
        }
        let mut input = self.input.clone();
        input["answers"] = Json::Object(std::mem::take(&mut self.answers));
        Filled::Done(Answer::Allow { input: Some(input) })
    }
}

/// The labels that numbers stand for; other words stand for themselves.
fn chosen(question: &UserQuestion, line: &str) -> String {
    let label = |word: &str| {
        let number: usize = word.trim().parse().ok()?;
        Some(question.options.get(number.checked_sub(1)?)?.label.clone())
    };
    let several: Option<Vec<String>> = if question.multi_select {
        line.split([',', ' ']).filter(|word| !word.is_empty()).map(label).collect()
    } else {
        None
    };
    several.map(|labels| labels.join(", ")).or_else(|| label(line)).unwrap_or_else(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_proto::{AskId, Choice, Intent, Preview, Reason};
    use serde_json::json;

    fn form() -> Form {
        let choice = |label: &str| Choice { label: label.into(), description: String::new(), preview: None };
        let question = |text: &str, multi_select| UserQuestion {
            question: text.into(),
            header: String::new(),
            options: vec![choice("Red"), choice("Blue\u{1b}[8m")],
            multi_select,
        };
        let questions = vec![question("Which?", false), question("Which else?", true)];
        let access = Access::Consult(Matter::Questions(questions));
        Form::of(&Ask {
            id: AskId(1),
            call: "c".into(),
            tool: "AskUserQuestion".into(),
            input: json!({"questions": []}),
            intent: Intent { title: "t".into(), access, preview: Preview::None },
            because: Reason::Unattended,
            suggestions: vec![],
        })
        .unwrap()
    }

    #[test]
    fn questions_are_shown_one_by_one_with_nothing_hidden() {
        let mut form = form();
        let expected = "\n? The model asks (1 of 2): Which?\n  1. Red\n  2. Blue\\u{1b}[8m\n  a number, or your own \
            words; - = no answer to any of it\n  > ";
        assert_eq!(form.question(), expected);
        assert_eq!(form.typed("  "), Filled::Ask);
        assert_eq!(form.typed("2"), Filled::Ask);
        assert!(form.question().contains("(2 of 2): Which else?"));
        let input = json!({"questions": [], "answers": {"Which?": "Blue\u{1b}[8m", "Which else?": "Red, Blue\u{1b}[8m"}});
        assert_eq!(form.typed("1, 2"), Filled::Done(Answer::Allow { input: Some(input) }));
    }

    #[test]
    fn own_words_and_numbers_out_of_range_are_answers_of_their_own() {
        for (line, answer) in [("1", "Red"), ("3", "3"), ("0", "0"), ("neither, really", "neither, really")] {
            assert_eq!(chosen(&form().questions[0], line), answer, "{line}");
        }
        assert_eq!(chosen(&form().questions[1], "1 and more"), "1 and more");
        assert!(matches!(form().typed("-"), Filled::Done(Answer::Deny { .. })));
    }
}
