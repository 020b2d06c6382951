//! Scripts as files, as texts in tests, and as values written in Rust.
#![expect(clippy::disallowed_methods, reason = "a script is read before the server starts")]

use crate::conversation::items;
use anyhow::{Context as _, anyhow};
use ostler_proto::{
    Json,
    script::{Script, Step, Turn},
};
use serde::Deserialize as _;
use std::path::Path;

/// A script that shows everything a script can do.
pub const EXAMPLE: &str = include_str!("example.toml");

/// Reads a script from a file.
pub fn load(path: &Path) -> anyhow::Result<Script> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text, &path.display().to_string())
}

/// Reads a script; `name` is what problems are reported under.
pub fn parse(text: &str, name: &str) -> anyhow::Result<Script> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().map_or("", |span| &text[..span.start.min(text.len())]);
        let line = before.matches('\n').count() + 1;
        let problem = wrong_step(text).unwrap_or_else(|| error.message().to_owned());
        anyhow!("{name}:{line}: {problem}\n{error}")
    })
}

/// Names the first step that is none: the reader itself only knows that one of many forms did not fit.
fn wrong_step(text: &str) -> Option<String> {
    let script: Json = toml::from_str(text).ok()?;
    for (turn, steps) in (1..).zip(items(&script["turn"])) {
        for (number, step) in (1..).zip(items(&steps["steps"])) {
            if Step::deserialize(step).is_err() {
                return Some(format!(
                    "step {number} of turn {turn} is none: {step}; it needs one of the keys text, thinking, call \
                     and pause_ms, and beside it only what belongs to it (see `ostler-testkit example`)"
                ));
            }
        }
    }
    None
}

/// A script in a test. Panics when it cannot be read.
#[track_caller]
pub fn script(text: &str) -> Script {
    match parse(text, "script") {
        Ok(script) => script,
        Err(error) => panic!("{error}"),
    }
}

/// A turn of these steps, with nothing special about it.
pub fn turn(steps: impl IntoIterator<Item = Step>) -> Turn {
    Turn { steps: steps.into_iter().collect(), ..Turn::default() }
}

/// Says a text.
pub fn say(text: &str) -> Step {
    Step::Text { text: text.to_owned(), over_ms: 0, pieces: 0 }
}

/// Proposes a call.
pub fn call(tool: &str, input: Json) -> Step {
    Step::Call { call: tool.to_owned(), input, raw: None, id: None, over_ms: 0, pieces: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_can_be_read() {
        let script = parse(EXAMPLE, "example.toml").unwrap();
        assert!(script.turns.len() > 5);
        let texts = script.turns.iter().flat_map(|turn| &turn.steps);
        assert!(texts.clone().any(|step| matches!(step, Step::Call { raw: Some(_), .. })));
        assert!(texts.clone().any(|step| matches!(step, Step::Pause { .. })));
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let problem = parse(text, "s.toml").unwrap_err().to_string();
        assert!(problem.starts_with(expected), "{problem}");
    }

    #[test]
    fn problems_name_file_and_line() {
        refused("[[turn]]\nsteps = [\n", "s.toml:2: ");
        refused("[[turn]]\nsteps = []\nstep = 1\n", "s.toml:3: unknown field `step`");
        let wrong = "[[turn]]\nsteps = [\n  { text = 'a' }, { txt = 'hi' },\n]\n";
        refused(wrong, r#"s.toml:2: step 2 of turn 1 is none: {"txt":"hi"}; it needs one of the keys text"#);
    }
}
