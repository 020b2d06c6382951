//! Commands that other commands run: programs behind wrappers and texts for a shell. Each is walked
//! like a command of the line, down to a fixed depth.

use super::super::facts::{Directory, Effects, Inner, Word};
use super::super::{Simple, parse};
use super::scope::{Places, Scope};
use super::{DEEPEST, Walker};

/// Wrappers that run a builtin in this very shell.
const SAME_SHELL: [&str; 2] = ["command", "builtin"];

/// What another shell than bash may read differently.
const BEYOND_POSIX: [&str; 20] = [
    "$'", "$\"", "$[", "&>", "|&", "<<<", "<(", ">(", "[[", "((", "=(", "+=", ";&", "{", "~", "function",
    "coproc", "select", "time", "!",
];

impl Walker<'_> {
    /// Walks what the command at `index` runs.
    pub(super) fn run(&mut self, index: usize, words: &[Word], effects: &Effects, directory: &Directory) {
        if effects.runs.is_empty() {
            return;
        }
        if self.depth >= DEEPEST {
            self.trouble("commands that run commands nest too deep");
            return;
        }
        self.depth += 1;
        let program = words.first().and_then(Word::known).map(base_name).unwrap_or_default().to_owned();
        for inner in &effects.runs {
            match inner {
                Inner::Words { words: inner, directory: other, transparent } => {
                    let simple = Simple {
                        source: shown(inner),
                        words: inner.clone(),
                        run_by: Some(index),
                        transparent: *transparent,
                        ..self.blank(other.as_ref().unwrap_or(directory).clone())
                    };
                    self.run_words(simple, SAME_SHELL.contains(&program.as_str()));
                }
                Inner::Script(Word::Known(text)) => self.run_text(index, &program, text, directory),
                Inner::Script(Word::Glob(_) | Word::Unknown { .. }) => {
                    self.trouble(&format!("'{program}' runs a text that is only known later"));
                }
            }
        }
        self.depth -= 1;
    }

    fn run_words(&mut self, mut simple: Simple, in_this_shell: bool) {
        let place = self.reserve();
        simple.effects = self.effects(&simple.words, &simple.directory);
        let (words, effects) = (simple.words.clone(), simple.effects.clone());
        let directory = simple.directory.clone();
        let index = self.write(Some(place), simple);
        self.run(index, &words, &effects, &directory);
        if in_this_shell {
            self.builtin(&words);
            if let Some(moved) = &effects.moves {
                let places = std::mem::replace(&mut self.scope.places, Places::Unknown);
                self.scope.places = places.or(&Places::of(moved));
            }
        }
    }

    fn run_text(&mut self, index: usize, program: &str, text: &str, directory: &Directory) {
        let runner = self.runner.replace(index);
        match (program, parse::parse(text)) {
            ("eval", Ok(script)) => {
                self.script(&script);
            }
            ("trap", Ok(script)) => self.in_other_shell(Places::Unknown, |walker| {
                walker.scope.forget("it runs at some later point");
                walker.script(&script);
            }),
            ("bash", Ok(script)) => self.in_other_shell(Places::of(directory), |walker| {
                walker.script(&script);
            }),
            ("sh" | "dash", Ok(script)) if !BEYOND_POSIX.iter().any(|text_| text.contains(text_)) => {
                self.in_other_shell(Places::of(directory), |walker| {
                    walker.script(&script);
                });
            }
            (_, Ok(_)) => {
                self.trouble(&format!("'{program}' may read its text differently than bash would"));
                self.pieces(text);
            }
            (_, Err(refused)) => {
                self.trouble(&format!("the text for '{program}' is not understood: {}", refused.why));
                self.pieces(text);
            }
        }
        self.runner = runner;
    }

    fn in_other_shell(&mut self, places: Places, walk: impl FnOnce(&mut Self)) {
        let mut scope = Scope::new(places);
        for doubt in &self.scope.doubts {
            scope.doubt(doubt.clone());
        }
        let outer = std::mem::replace(&mut self.scope, scope);
        let defining = std::mem::take(&mut self.defining);
        walk(self);
        self.defining = defining;
        self.scope = outer;
    }
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Words as they could be written.
fn shown(words: &[Word]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,+@%".contains(c);
    let texts = words.iter().map(|word| match word {
        Word::Known(text) if !text.is_empty() && text.chars().all(plain) => text.clone(),
        Word::Known(text) => format!("'{}'", text.replace('\'', "'\\''")),
        Word::Glob(pattern) => pattern.clone(),
        Word::Unknown { start, .. } => format!("{start}…"),
    });
    texts.collect::<Vec<_>>().join(" ")
}
