//! What the shell knows at one point of the line: variables, functions, directories and doubts. All
//! changes are in a journal, so that a subshell can be left without a trace and a branch can be blurred.

use super::super::facts::Directory;
use super::variable::{Value, is_dynamic, steers};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// More possible directories than this are as good as any.
const MOST_PLACES: usize = 4;

/// A function defined in the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Function {
    /// Whether it is certainly defined.
    pub certain: bool,
    /// Variables its body assigns.
    pub assigns: Vec<String>,
    /// Whether its body changes the directory.
    pub moves: bool,
    /// Where its body was read.
    pub places: Places,
}

/// The directories the shell may be in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Places {
    /// One of these. None at all means that the shell does not come here.
    Among(Vec<PathBuf>),
    /// Any.
    Unknown,
}

/// A point in the journal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(usize);

/// The state.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub places: Places,
    /// Reasons why any later command may do more than its words say.
    pub doubts: Vec<String>,
    /// Whether words may split at other places than blanks.
    pub splits_oddly: bool,
    variables: BTreeMap<String, Value>,
    functions: BTreeMap<String, Function>,
    /// Variables with attributes; what they hold after an assignment is not what was assigned.
    odd: BTreeSet<String>,
    /// Whether variables that are not listed may be anything, home and directory included.
    forgot: bool,
    journal: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    /// A variable, what it held, and whether it holds a number whatever happened before.
    Variable(String, Option<Value>, bool),
    Function(String, Option<Function>),
    Odd(String),
    Forgot(BTreeMap<String, Value>, bool),
    Doubt,
    Splits(bool),
}

impl Scope {
    pub(super) fn new(places: Places) -> Self {
        Self {
            places,
            doubts: Vec::new(),
            splits_oddly: false,
            variables: BTreeMap::new(),
            functions: BTreeMap::new(),
            odd: BTreeSet::new(),
            forgot: false,
            journal: Vec::new(),
        }
    }

    /// What a variable holds, if the line itself or its ground says so.
    pub(super) fn value(&self, name: &str, home: &Path) -> Value {
        if let Some(value) = self.variables.get(name) {
            return value.clone();
        }
        let path = match name {
            _ if self.forgot => None,
            "HOME" => Some(home),
            "PWD" => self.places.only().filter(|path| is_straight(path)),
            _ => None,
        };
        path.and_then(Path::to_str).map_or(Value::Unknown, |path| Value::Known(path.to_owned()))
    }

    pub(super) fn assign(&mut self, name: &str, value: Value) {
        if name == "IFS" && !self.splits_oddly {
            self.journal.push(Change::Splits(false));
            self.splits_oddly = true;
        }
        if steers(name) {
            self.doubt(format!("the line changes {name} before it"));
        }
        let plain = !self.odd.contains(name) && !is_dynamic(name);
        let value = if plain { value } else { Value::Unknown };
        let counts = value == Value::Number;
        let old = self.variables.insert(name.to_owned(), value);
        self.journal.push(Change::Variable(name.to_owned(), old, counts));
    }

    /// Notes that a variable has attributes, so that its value is never known again.
    pub(super) fn make_odd(&mut self, name: &str) {
        if self.odd.insert(name.to_owned()) {
            self.journal.push(Change::Odd(name.to_owned()));
        }
    }

    pub(super) fn is_odd(&self, name: &str) -> bool {
        self.odd.contains(name)
    }

    pub(super) fn function(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    pub(super) fn define(&mut self, name: &str, function: Function) {
        let old = self.functions.insert(name.to_owned(), function);
        self.journal.push(Change::Function(name.to_owned(), old));
    }

    /// All functions may be gone or be others.
    pub(super) fn doubt_functions(&mut self) {
        let names: Vec<String> = self.functions.keys().cloned().collect();
        for name in names {
            self.make_uncertain(&name);
        }
    }

    pub(super) fn doubt(&mut self, why: String) {
        if !self.doubts.contains(&why) {
            self.doubts.push(why);
            self.journal.push(Change::Doubt);
        }
    }

    /// From here on anything may be anything.
    pub(super) fn forget(&mut self, why: &str) {
        let variables = std::mem::take(&mut self.variables);
        self.journal.push(Change::Forgot(variables, self.forgot));
        self.forgot = true;
        self.places = Places::Unknown;
        self.doubt(why.to_owned());
    }

    /// Begins the body of a function: it runs at some later point, with variables nobody knows yet.
    pub(super) fn enter_body(&mut self) -> Mark {
        let mark = self.mark();
        let variables = std::mem::take(&mut self.variables);
        self.journal.push(Change::Forgot(variables, self.forgot));
        self.forgot = true;
        mark
    }

    /// Ends it: what the body changes is from now on unsure. Says which variables it assigns.
    pub(super) fn leave_body(&mut self, mark: Mark) -> Vec<String> {
        let assigned = self.assigned_since(mark);
        let is_forgetting = |change: &Change| matches!(change, Change::Forgot(..));
        let forgets = self.journal.iter().skip(mark.0 + 1).any(is_forgetting);
        let inside = self.clone_without_journal();
        self.roll_back(mark);
        for name in &inside.odd {
            self.make_odd(name);
        }
        for (name, function) in &inside.functions {
            if self.functions.get(name) != Some(function) {
                self.define(name, Function { certain: false, ..function.clone() });
            }
        }
        if inside.splits_oddly {
            self.assign("IFS", Value::Unknown);
        }
        for doubt in inside.doubts {
            self.doubt(doubt);
        }
        if forgets {
            self.forget("a function before it may have changed anything");
        }
        for name in &assigned {
            self.assign(name, Value::Unknown);
        }
        assigned
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.journal.len())
    }

    /// Undoes everything since the mark, directories aside.
    pub(super) fn roll_back(&mut self, mark: Mark) {
        while self.journal.len() > mark.0 {
            let Some(change) = self.journal.pop() else { return };
            match change {
                Change::Variable(name, Some(old), _) => {
                    self.variables.insert(name, old);
                }
                Change::Variable(name, None, _) => {
                    self.variables.remove(&name);
                }
                Change::Function(name, Some(old)) => {
                    self.functions.insert(name, old);
                }
                Change::Function(name, None) => {
                    self.functions.remove(&name);
                }
                Change::Odd(name) => {
                    self.odd.remove(&name);
                }
                Change::Forgot(variables, forgot) => {
                    self.variables = variables;
                    self.forgot = forgot;
                }
                Change::Doubt => {
                    self.doubts.pop();
                }
                Change::Splits(old) => self.splits_oddly = old,
            }
        }
    }

    /// Makes unsure whatever was changed since the mark, as it may not have happened, or again.
    pub(super) fn blur(&mut self, mark: Mark) {
        let mut counters: BTreeMap<String, bool> = BTreeMap::new();
        for change in self.journal.iter().skip(mark.0) {
            if let Change::Variable(name, old, counts) = change {
                let was_number = old.as_ref().is_some_and(Value::is_number);
                let counter = counters.entry(name.clone()).or_insert(true);
                *counter = *counter && *counts && was_number;
            }
        }
        for (name, counter) in counters {
            self.variables.insert(name, if counter { Value::Number } else { Value::Unknown });
        }
        let functions: Vec<String> = self
            .journal
            .iter()
            .skip(mark.0)
            .filter_map(|change| match change {
                Change::Function(name, _) => Some(name.clone()),
                Change::Variable(..)
                | Change::Odd(_)
                | Change::Forgot(..)
                | Change::Doubt
                | Change::Splits(_) => None,
            })
            .collect();
        for name in functions {
            self.make_uncertain(&name);
        }
    }

    /// The variables assigned since the mark.
    pub(super) fn assigned_since(&self, mark: Mark) -> Vec<String> {
        let names = self.journal.iter().skip(mark.0).filter_map(|change| match change {
            Change::Variable(name, ..) => Some(name.clone()),
            Change::Function(..)
            | Change::Odd(_)
            | Change::Forgot(..)
            | Change::Doubt
            | Change::Splits(_) => None,
        });
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn clone_without_journal(&mut self) -> Self {
        let journal = std::mem::take(&mut self.journal);
        let copy = self.clone();
        self.journal = journal;
        copy
    }

    fn make_uncertain(&mut self, name: &str) {
        if let Some(function) = self.functions.get(name).filter(|function| function.certain) {
            let unsure = Function { certain: false, ..function.clone() };
            self.define(name, unsure);
        }
    }
}

impl Places {
    pub(super) fn at(directory: PathBuf) -> Self {
        Self::Among(vec![directory])
    }

    pub(super) fn of(directory: &Directory) -> Self {
        match directory {
            Directory::Known(path) => Self::at(path.clone()),
            Directory::Unknown => Self::Unknown,
        }
    }

    /// Either these or those.
    pub(super) fn or(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Among(mut places), Self::Among(others)) => {
                for other in others {
                    if !places.contains(other) {
                        places.push(other.clone());
                    }
                }
                if places.len() > MOST_PLACES { Self::Unknown } else { Self::Among(places) }
            }
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
        }
    }

    /// Where the shell is when it has ended.
    pub(super) fn nowhere() -> Self {
        Self::Among(Vec::new())
    }

    /// Each directory by itself. A command the shell should not come to is still looked at.
    pub(super) fn each(&self) -> Vec<Directory> {
        match self {
            Self::Among(places) if places.is_empty() => vec![Directory::Unknown],
            Self::Among(places) => places.iter().cloned().map(Directory::Known).collect(),
            Self::Unknown => vec![Directory::Unknown],
        }
    }

    fn only(&self) -> Option<&Path> {
        match self {
            Self::Among(places) => match places.as_slice() {
                [path] => Some(path),
                [] | [_, ..] => None,
            },
            Self::Unknown => None,
        }
    }
}

/// Whether the shell would write the path the same way.
fn is_straight(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|part| !matches!(part, std::path::Component::ParentDir))
}
