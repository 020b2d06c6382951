//! A command line told part by part: what was read, what each part would do and what kind it is.
//! It only tells; the deciding is elsewhere.

use super::{
    Line, Policy,
    line::{Class, Touched},
    shell::facts::{Directory, How, Word},
};
use ostler_proto::Json;
use serde::Serialize;

/// Everything that is known about a command line before it runs.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    /// Its tree, or nothing if it was not understood.
    pub tree: Json,
    /// Why it was not understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Its commands, also those within others.
    pub parts: Vec<Part>,
    /// What kind of command line it is as a whole.
    pub class: &'static str,
    /// What makes it so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One command of a line.
#[derive(Debug, Clone, Serialize)]
pub struct Part {
    /// As written.
    pub source: String,
    /// Its words as the program gets them; what is only known later in angle brackets.
    pub words: Vec<String>,
    /// Where it runs.
    pub directory: String,
    /// The part that runs it, by number from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_by: Option<usize>,
    /// Files and trees it reads.
    pub reads: Vec<String>,
    /// Files and trees it makes, changes or removes.
    pub writes: Vec<String>,
    /// Whether it may use the network.
    pub network: bool,
    /// Why it may do more than that.
    pub unknown: Vec<String>,
    /// What kind of command it is.
    pub class: &'static str,
    /// What makes it so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Line {
    /// Tells what is known about the line.
    pub fn explain(&self, policy: &Policy) -> Explanation {
        let class = self.class(policy);
        Explanation {
            tree: serde_json::to_value(&self.reading.script).unwrap_or_default(),
            problem: self.reading.problem.clone(),
            parts: (0..self.reading.commands.len()).map(|index| self.part(index, policy)).collect(),
            class: class.name(),
            why: reason(class),
        }
    }

    fn part(&self, index: usize, policy: &Policy) -> Part {
        let command = &self.reading.commands[index];
        let class = self.class_of(index, policy);
        let paths = |wanted: fn(How) -> bool| {
            self.touched[index].iter().filter(|touched| wanted(touched.how)).map(place).collect()
        };
        Part {
            source: command.source.clone(),
            words: command.words.iter().map(shown).collect(),
            directory: match &command.directory {
                Directory::Known(path) => path.display().to_string(),
                Directory::Unknown => "<only known when it runs>".to_owned(),
            },
            run_by: command.run_by.map(|by| by + 1),
            reads: paths(|how| how == How::Read),
            writes: paths(|how| how != How::Read),
            network: command.effects.network,
            unknown: command.effects.unknown.clone(),
            class: class.name(),
            why: reason(class),
        }
    }
}

fn reason(class: Class) -> Option<String> {
    match class {
        Class::ReadOnly => None,
        Class::Edits => Some("it changes files inside the working directories".to_owned()),
        Class::Normal(why) | Class::Dangerous(why) | Class::Forbidden(why) => Some(why),
    }
}

fn place(touched: &Touched) -> String {
    touched
        .fact
        .as_ref()
        .map_or_else(|| "<only known when it runs>".to_owned(), |fact| fact.target.display().to_string())
}

fn shown(word: &Word) -> String {
    match word {
        Word::Known(text) => text.clone(),
        Word::Glob(pattern) => format!("<names like {pattern}>"),
        Word::Unknown { start, .. } => format!("{start}<…>"),
    }
}
