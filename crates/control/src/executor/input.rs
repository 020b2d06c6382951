//! A call's input on its way in: pieces of JSON text become one [`ToolCall`], at the moment the
//! object closes and never before.

use super::scan::{Scan, Scanner};
use ostler_proto::{CallId, Json, ToolCall};
use serde_json::json;

/// More than any model writes in one call; beyond it the text is counted but not kept.
const MAX_INPUT: usize = 64 << 20;

/// The input of one call, as far as it has arrived.
#[derive(Debug)]
pub struct CallInput {
    id: CallId,
    name: String,
    text: String,
    scanner: Scanner,
    given: bool,
    too_long: bool,
}

impl CallInput {
    /// A call whose input has not begun.
    pub fn new(id: CallId, name: String) -> Self {
        Self { id, name, text: String::new(), scanner: Scanner::default(), given: false, too_long: false }
    }

    /// Takes one more piece. Returns the call, once, when its input is whole.
    pub fn push(&mut self, fragment: &str) -> Option<ToolCall> {
        if self.given {
            return None;
        }
        let (state, used) = self.scanner.push(fragment.as_bytes());
        if self.text.len() + used > MAX_INPUT {
            self.too_long = true;
        } else {
            // An object ends in an ASCII brace, so the cut is on a character boundary.
            self.text.push_str(&fragment[..used]);
        }
        (state == Scan::Closed).then(|| self.give())
    }

    /// The model says the input is over. Returns the call if `push` has not: with its input when
    /// nothing was needed, else with the problem.
    pub fn stop(&mut self) -> Option<ToolCall> {
        (!self.given).then(|| self.give())
    }

    fn give(&mut self) -> ToolCall {
        self.given = true;
        let text = std::mem::take(&mut self.text);
        let (input, problem) = match self.read(&text) {
            Ok(input) => (input, None),
            Err(problem) => (json!({}), Some(problem)),
        };
        ToolCall { id: self.id.clone(), name: self.name.clone(), input, problem }
    }

    fn read(&self, text: &str) -> Result<Json, String> {
        if self.too_long {
            return Err(format!("the input of {} is longer than {MAX_INPUT} bytes", self.name));
        }
        // Models send no text at all for a call without arguments.
        if text.trim().is_empty() {
            return Ok(json!({}));
        }
        match serde_json::from_str::<Json>(text) {
            Ok(input) if input.is_object() => Ok(input),
            Ok(other) => {
                Err(format!("the input of {} must be a JSON object, not {}", self.name, kind(&other)))
            }
            Err(error) if error.is_eof() => {
                Err(format!("the input of {} was cut off: {error}; nothing was run", self.name))
            }
            Err(error) => Err(format!("the input of {} is not valid JSON: {error}", self.name)),
        }
    }
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&str], expect_early: bool, expect: Result<Json, &str>) {
        let mut input = CallInput::new("c".into(), "Read".into());
        let early = pieces.iter().filter_map(|piece| input.push(piece)).collect::<Vec<_>>();
        assert_eq!(early.len(), usize::from(expect_early));
        let call = early.into_iter().next().or_else(|| input.stop()).unwrap();
        assert!(input.stop().is_none(), "a call is given once");
        match expect {
            Ok(value) => assert_eq!((call.input, call.problem), (value, None)),
            Err(part) => {
                assert_eq!(call.input, json!({}));
                let problem = call.problem.unwrap();
                assert!(problem.contains(part), "{problem}");
            }
        }
    }

    #[test]
    fn input_is_given_when_whole_or_with_its_problem() {
        check(&["{\"a\":", "\"}\"", "}"], true, Ok(json!({"a": "}"})));
        check(&["{}", " {\"again\":1}"], true, Ok(json!({})));
        check(&[], false, Ok(json!({})));
        check(&["{\"a\": \"un"], false, Err("cut off"));
        check(&["[1, 2]"], false, Err("not an array"));
        check(&["{]"], true, Err("not valid JSON"));
        let deep = format!("{}1{}", "{\"a\":".repeat(200_000), "}".repeat(200_000));
        check(&[&deep], true, Err("recursion limit"));
    }
}
