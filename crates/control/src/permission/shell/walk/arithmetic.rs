//! Arithmetic, which can run commands: a variable's value is computed with in its turn, and `a[$(x)]`
//! in it runs x. It is harmless only if every variable in it certainly holds a number.

use super::super::syntax::Part;
use super::Walker;
use super::variable::Value;

const RUNS: &str = "arithmetic computes with a text that is only known later and may run commands";

impl Walker<'_> {
    /// Walks an arithmetic text.
    pub(super) fn arithmetic(&mut self, parts: &[Part]) {
        let mut text = String::new();
        let known = self.arithmetic_text(parts, &mut text);
        if known {
            self.compute(&text);
        } else {
            self.trouble(RUNS);
        }
    }

    /// Walks a subscript, which is computed with unless it names all elements.
    pub(super) fn subscript(&mut self, parts: &[Part]) {
        if !matches!(parts, [Part::Literal(text)] if text == "@" || text == "*") {
            self.arithmetic(parts);
        }
    }

    /// Checks a text that the shell computes with.
    pub(super) fn compute(&mut self, text: &str) {
        let is_conditional = text.contains("&&") || text.contains("||") || text.contains('?');
        for (name, behind) in names(text) {
            let assigns = behind.starts_with('=') && !behind.starts_with("==");
            let is_number = self.scope.value(name, &self.ground.home).is_number();
            if behind.starts_with('[') || !(assigns || is_number) {
                self.trouble(RUNS);
                return;
            }
            if assigns || changes(behind) || text.contains("++") || text.contains("--") {
                let value = if is_conditional && !is_number { Value::Unknown } else { Value::Number };
                self.scope.assign(name, value);
            }
        }
    }

    /// Puts the text together; whether all of it is known, with numbers as far as they matter.
    fn arithmetic_text(&mut self, parts: &[Part], text: &mut String) -> bool {
        let mut known = true;
        for part in parts {
            match part {
                Part::Literal(piece) | Part::Quoted(piece) => text.push_str(piece),
                Part::Double { parts, translated } => {
                    known &= self.arithmetic_text(parts, text) && !translated;
                }
                Part::Arithmetic(inner) => {
                    self.arithmetic(&inner.parts);
                    text.push('0');
                }
                Part::Parameter(parameter) => {
                    self.look_into(std::slice::from_ref(part));
                    let is_plain =
                        parameter.operator.is_none() && parameter.subscript.is_none() && !parameter.indirect;
                    let value = self.scope.value(&parameter.name, &self.ground.home);
                    let is_count = parameter.length || matches!(parameter.name.as_str(), "#" | "?" | "$");
                    if is_count || (is_plain && value.is_number()) {
                        text.push('0');
                    } else {
                        known = false;
                    }
                }
                Part::Command(_) | Part::Process { .. } => {
                    self.look_into(std::slice::from_ref(part));
                    known = false;
                }
            }
        }
        known
    }
}

/// The names in a text, each with what stands behind it.
fn names(text: &str) -> Vec<(&str, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '#' || c == '@';
    let mut names = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        let (_, from) = rest.split_at(start);
        let (run, behind) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
        // What begins with a digit is a number, whatever its base.
        if !run.starts_with(|c: char| c.is_ascii_digit()) {
            names.push((run, behind.trim_start()));
        }
        rest = behind;
    }
    names
}

/// Whether an operator that assigns stands there, as `+=`.
fn changes(behind: &str) -> bool {
    let operator = behind.trim_start_matches(['+', '-', '*', '/', '%', '<', '>', '&', '^', '|']);
    operator.len() < behind.len() && operator.starts_with('=')
}
