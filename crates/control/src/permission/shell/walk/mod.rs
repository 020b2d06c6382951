//! Follows a tree as the shell would, once for every way it may go, and writes down each simple
//! command it meets. It keeps to what is certain: where the shell may have done one thing or another,
//! both count, and where it may have done anything, that is said.

mod arithmetic;
mod brace;
mod builtin;
mod condition;
mod expand;
mod flow;
mod redirect;
mod run;
mod scope;
mod simple;
mod variable;

pub(crate) use variable::steers;

use super::facts::{Directory, Effects, Touch};
use super::syntax::Script;
use super::{Ground, Simple, Within, pieces};
use scope::{Places, Scope};

/// How deep texts for other shells, and commands that run commands, may nest.
const DEEPEST: usize = 8;
/// How many entries a walk makes before it no longer repeats loops for their values.
const MANY: usize = 600;

/// Walks a whole line: its commands, and why they may not be all.
pub(super) fn walk(script: &Script, ground: &Ground) -> (Vec<Simple>, Option<String>) {
    let mut walker = Walker::new(ground, Places::at(ground.directory.clone()));
    walker.script(script);
    (walker.commands, walker.problem)
}

/// The pieces of a line that could not be parsed, as commands that run nobody knows where.
pub(super) fn walk_pieces(text: &str, ground: &Ground) -> Vec<Simple> {
    let mut walker = Walker::new(ground, Places::Unknown);
    walker.pieces(text);
    walker.commands
}

/// One walk.
struct Walker<'a> {
    ground: &'a Ground,
    scope: Scope,
    commands: Vec<Simple>,
    problem: Option<String>,
    within: Vec<Within>,
    /// While above zero nothing is written down: the walk only finds out what changes.
    rehearsals: usize,
    /// How many commands were met, written down or not.
    met: usize,
    /// How many texts and runners are around.
    depth: usize,
    /// The command that runs what is walked.
    runner: Option<usize>,
    /// The functions whose bodies are around.
    defining: Vec<String>,
}

/// Where the shell may be after a command that said yes, and after one that said no.
struct Ends {
    yes: Places,
    no: Places,
}

impl<'a> Walker<'a> {
    fn new(ground: &'a Ground, places: Places) -> Self {
        Self {
            ground,
            scope: Scope::new(places),
            commands: Vec::new(),
            problem: None,
            within: Vec::new(),
            rehearsals: 0,
            met: 0,
            depth: 0,
            runner: None,
            defining: Vec::new(),
        }
    }

    /// Says that the commands written down are not all that may happen.
    fn trouble(&mut self, why: &str) {
        if self.problem.is_none() {
            self.problem = Some(why.to_owned());
        }
    }

    fn inside<T>(&mut self, within: Within, walk: impl FnOnce(&mut Self) -> T) -> T {
        self.within.push(within);
        let result = walk(self);
        self.within.pop();
        result
    }

    /// Walks what leaves no trace in this shell.
    fn apart(&mut self, within: Within, walk: impl FnOnce(&mut Self)) {
        let mark = self.scope.mark();
        let places = self.scope.places.clone();
        self.inside(within, walk);
        self.scope.roll_back(mark);
        self.scope.places = places;
    }

    /// Keeps a place among the commands, so that what is inside this one comes behind it.
    fn reserve(&mut self) -> usize {
        self.met += 1;
        let index = self.commands.len();
        if self.rehearsals == 0 {
            self.commands.push(self.blank(Directory::Unknown));
        }
        index
    }

    fn blank(&self, directory: Directory) -> Simple {
        Simple {
            source: String::new(),
            words: Vec::new(),
            assignments: Vec::new(),
            directory,
            redirects: Vec::new(),
            effects: Effects::default(),
            within: self.within.clone(),
            run_by: self.runner,
            transparent: false,
        }
    }

    /// Writes a command into the place kept for it, or behind all others if that is taken.
    fn write(&mut self, place: Option<usize>, mut simple: Simple) -> usize {
        if self.rehearsals > 0 {
            return self.commands.len();
        }
        if !simple.words.is_empty() {
            simple.effects.unknown.extend(self.scope.doubts.iter().cloned());
        }
        if let Some(place) = place
            && let Some(slot) = self.commands.get_mut(place)
        {
            *slot = simple;
            return place;
        }
        self.commands.push(simple);
        self.commands.len() - 1
    }

    /// Writes down files that are touched by no command of their own.
    fn touch(&mut self, touches: Vec<Touch>, network: bool) {
        if touches.is_empty() && !network {
            return;
        }
        let effects = Effects { network, ..Effects::default() };
        let simple = Simple { redirects: touches, effects, ..self.blank(Directory::Unknown) };
        self.write(None, simple);
    }

    fn pieces(&mut self, text: &str) {
        let places = std::mem::replace(&mut self.scope.places, Places::Unknown);
        for (source, words) in pieces::pieces(text) {
            let index = self.reserve();
            let mut simple = Simple { source, words, ..self.blank(Directory::Unknown) };
            simple.effects = self.effects(&simple.words, &Directory::Unknown);
            let effects = simple.effects.clone();
            let words = simple.words.clone();
            simple.effects.unknown.push("it is only a guess at a command".to_owned());
            self.write(Some(index), simple);
            self.run(index, &words, &effects, &Directory::Unknown);
        }
        self.scope.places = places;
    }
}
