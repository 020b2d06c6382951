//! Simple commands: words and assignments are expanded, what the program does is asked of the table,
//! and what that leaves behind in this shell is kept.

use super::super::facts::{Directory, Effects, Word};
use super::super::syntax::{self, Assignment, Plain, Redirect};
use super::super::table::{self, At};
use super::super::{Simple, Within};
use super::expand::Mode;
use super::scope::Places;
use super::variable::{Value, steers};
use super::{Ends, Walker};

/// Builtins whose arguments are expanded like assignments.
const DECLARING: [&str; 5] = ["declare", "typeset", "export", "readonly", "local"];

impl Walker<'_> {
    /// Walks one simple command.
    pub(super) fn simple(&mut self, plain: &Plain, redirects: &[Redirect]) -> Ends {
        let index = self.reserve();
        let words = self.words(&plain.words);
        let mark = self.scope.mark();
        let assignments = self.assignments(&plain.assignments);
        if !words.is_empty() {
            // In front of a command they are for its environment alone.
            self.scope.roll_back(mark);
        }
        let opened = self.redirects(redirects);
        let mut ends: Option<Ends> = None;
        for directory in self.scope.places.each() {
            let slot = ends.is_none().then_some(index);
            let outer = std::mem::replace(&mut self.scope.places, Places::of(&directory));
            let mut simple = Simple {
                source: plain.source.clone(),
                words: words.clone(),
                assignments: assignments.clone(),
                redirects: opened.touches(&directory),
                effects: self.command_effects(&words, &directory),
                ..self.blank(directory.clone())
            };
            let effects = simple.effects.clone();
            simple.effects.network |= opened.network;
            let written = self.write(slot, simple);
            self.run_steered(written, &words, &effects, &assignments);
            let next = self.aftermath(&words, &effects, &directory);
            ends = Some(match ends {
                Some(ends) => Ends { yes: ends.yes.or(&next.yes), no: ends.no.or(&next.no) },
                None => next,
            });
            self.scope.places = outer;
        }
        for name in opened.variables {
            self.scope.assign(&name, Value::Number);
        }
        ends.unwrap_or_else(|| self.unmoved())
    }

    /// Walks what a command runs, with doubts about what assignments in front of it change.
    fn run_steered(&mut self, index: usize, words: &[Word], effects: &Effects, front: &[(String, Word)]) {
        let directory = self.scope.places.each().first().cloned().unwrap_or(Directory::Unknown);
        let steering: Vec<&String> = front.iter().map(|(name, _)| name).filter(|name| steers(name)).collect();
        if effects.runs.is_empty() || steering.is_empty() {
            return self.run(index, words, effects, &directory);
        }
        let same_shell = matches!(words.first().and_then(Word::known), Some("eval" | "command" | "builtin"));
        let mark = self.scope.mark();
        for name in steering {
            self.scope.doubt(format!("it runs with {name} changed"));
        }
        self.run(index, words, effects, &directory);
        if !same_shell {
            self.scope.roll_back(mark);
        }
    }

    /// What the table says of a program and its words.
    pub(super) fn effects(&self, words: &[Word], directory: &Directory) -> Effects {
        if words.is_empty() {
            return Effects::default();
        }
        table::effects(words, &At { directory, home: &self.ground.home })
    }

    fn command_effects(&self, words: &[Word], directory: &Directory) -> Effects {
        let Some(name) = words.first().and_then(Word::known) else { return self.effects(words, directory) };
        let Some(function) = self.scope.function(name) else { return self.effects(words, directory) };
        let mut effects = if function.certain { Effects::default() } else { self.effects(words, directory) };
        if !function.certain {
            effects.unknown.push(format!("'{name}' may be a program or a function of the line"));
        }
        if function.places != Places::of(directory) {
            effects
                .unknown
                .push(format!("the function '{name}' runs in another directory than it was read in"));
        }
        let copies = |within: &Within| matches!(within, Within::Pipe { .. } | Within::Background);
        if self.defining.iter().any(|defining| defining == name) && self.within.iter().any(copies) {
            effects.dangers.push(format!("the function '{name}' starts copies of itself without end"));
        }
        effects
    }

    fn words(&mut self, words: &[syntax::Word]) -> Vec<Word> {
        let declares =
            words.first().and_then(syntax::Word::literal).is_some_and(|first| DECLARING.contains(&first));
        let mut expanded = Vec::new();
        for word in words {
            if declares && word.is_assignment() {
                expanded.push(self.expand_one(&word.parts, Mode::Value));
            } else {
                expanded.extend(self.fields(word));
            }
        }
        expanded
    }

    /// Expands assignments one by one, as each sees those before it.
    fn assignments(&mut self, assignments: &[Assignment]) -> Vec<(String, Word)> {
        let mut expanded = Vec::new();
        for assignment in assignments {
            let Assignment { name, subscript, appends, value, span: _ } = assignment;
            let word = match value {
                syntax::Value::Text(word) => self.expand_one(&word.parts, Mode::Value),
                syntax::Value::Array(words) => {
                    self.elements(words);
                    Word::Unknown { start: String::new(), splits: false }
                }
            };
            let is_array = subscript.is_some() || matches!(value, syntax::Value::Array(_));
            if let Some(subscript) = subscript {
                self.subscript(subscript);
            }
            if is_array {
                self.scope.make_odd(name);
            }
            let value = match (&word, appends) {
                (Word::Unknown { .. }, false) if assignment.is_computed() => Value::Number,
                (Word::Known(text), false) => Value::Known(text.clone()),
                (Word::Known(text), true) => match self.scope.value(name, &self.ground.home) {
                    Value::Known(front) => Value::Known(front + text),
                    Value::Pattern(_) | Value::Number | Value::Unknown => Value::Unknown,
                },
                // Only the value of another variable can be a pattern here.
                (Word::Glob(pattern), false) => Value::Pattern(pattern.clone()),
                (Word::Glob(_) | Word::Unknown { .. }, _) => Value::Unknown,
            };
            self.scope.assign(name, value);
            expanded.push((name.clone(), word));
        }
        expanded
    }

    /// Walks the elements of an array; their keys are computed with.
    fn elements(&mut self, words: &[syntax::Word]) {
        for word in words {
            let is_keyed =
                matches!(word.parts.first(), Some(syntax::Part::Literal(text)) if text.starts_with('['));
            let key_end = word
                .parts
                .iter()
                .position(|part| matches!(part, syntax::Part::Literal(text) if text == "]="));
            if let (true, Some(end)) = (is_keyed, key_end) {
                self.subscript(word.parts.get(1..end).unwrap_or_default());
            }
            self.fields(word);
        }
    }

    /// What a command leaves behind in this shell.
    fn aftermath(&mut self, words: &[Word], effects: &Effects, directory: &Directory) -> Ends {
        let function =
            words.first().and_then(Word::known).and_then(|name| self.scope.function(name)).cloned();
        match function {
            Some(function) => {
                for name in &function.assigns {
                    self.scope.assign(name, Value::Unknown);
                }
                if function.moves {
                    self.scope.places = Places::Unknown;
                }
                if !function.certain {
                    self.builtin(words);
                }
            }
            None if ends_the_shell(words) => {
                return Ends { yes: Places::nowhere(), no: Places::nowhere() };
            }
            None => self.builtin(words),
        }
        let no = self.scope.places.clone();
        let yes = match &effects.moves {
            Some(moved) => Places::of(moved),
            None => no.clone(),
        };
        if effects.moves.is_some() && no != Places::of(directory) {
            return Ends { yes: Places::Unknown, no: Places::Unknown };
        }
        Ends { yes, no }
    }
}

/// Whether nothing behind it runs: `exit` with at most a number.
fn ends_the_shell(words: &[Word]) -> bool {
    let is_number = |word: &Word| {
        word.known().is_some_and(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
    };
    match words {
        [first] => first.known() == Some("exit"),
        [first, status] => first.known() == Some("exit") && is_number(status),
        [] | [_, ..] => false,
    }
}
