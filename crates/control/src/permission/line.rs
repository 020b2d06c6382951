//! A command line as the judge sees it: what was read out of it, and where its paths really lead.
//! It says what kind of command it is; whether it may run is for `decide`.

use super::{
    Policy, path,
    shell::{
        Reading, Simple,
        facts::{Directory, How, Place, Touch, Word},
        steers,
        table::{self, At, Vital, is_harmless_variable},
    },
    windows,
};
use ostler_proto::{Footprint, PathFact};
use std::path::{Path, PathBuf};

/// A command line that was read, with every path it names followed.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub(crate) reading: Reading,
    /// What each of its commands touches, in the same order.
    pub(crate) touched: Vec<Vec<Touched>>,
}

/// One path that a command touches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Touched {
    pub how: How,
    /// Where it leads; `None` when nobody can say.
    pub fact: Option<PathFact>,
    /// Whether a redirection does it rather than the program.
    pub redirected: bool,
}

/// How much a command line wants, weakest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Class {
    /// It only reads, and only inside the working directories.
    ReadOnly,
    /// It changes nothing but ordinary files inside the working directories, by plain means.
    Edits,
    /// Rules decide.
    Normal(String),
    /// It asks whatever the rules say.
    Dangerous(String),
    /// It never runs.
    Forbidden(String),
}

/// Programs whose changes count as edits of the files they name.
const EDITORS: [&str; 8] = ["mkdir", "touch", "rm", "rmdir", "mv", "cp", "sed", "tee"];

impl Line {
    /// Puts together what was read and what `follow` found for each place.
    pub(crate) fn new(reading: Reading, mut follow: impl FnMut(&Path) -> Option<PathFact>) -> Self {
        let touched = reading
            .commands
            .iter()
            .map(|command| {
                let own = command.effects.touches.iter().map(|touch| (touch, false));
                let redirected = command.redirects.iter().map(|touch| (touch, true));
                own.chain(redirected)
                    .map(|(touch, redirected)| Touched {
                        how: touch.how,
                        fact: place(touch).and_then(&mut follow),
                        redirected,
                    })
                    .collect()
            })
            .collect();
        Self { reading, touched }
    }

    /// The paths to be followed.
    pub(crate) fn places(reading: &Reading) -> impl Iterator<Item = &Path> {
        reading
            .commands
            .iter()
            .flat_map(|command| command.effects.touches.iter().chain(&command.redirects))
            .filter_map(place)
    }

    /// What the scheduler needs to know.
    pub(crate) fn footprint(&self) -> Footprint {
        let all = || self.touched.iter().flatten();
        let facts = |wanted: fn(How) -> bool| {
            all().filter(|touched| wanted(touched.how)).filter_map(|touched| touched.fact.clone()).collect()
        };
        let effects = || self.reading.commands.iter().map(|command| &command.effects);
        Footprint {
            reads: facts(|how| how == How::Read),
            writes: facts(|how| how != How::Read),
            network: effects().any(|effects| effects.network),
            // Where the shell ends up is shared with the calls that follow.
            open: self.reading.problem.is_some()
                || effects().any(|effects| !effects.unknown.is_empty() || effects.moves.is_some())
                || all().any(|touched| touched.fact.is_none()),
        }
    }

    /// Every path it touches in this way or, for reads, in any way.
    pub(crate) fn facts(&self, writes_only: bool) -> impl Iterator<Item = &PathFact> {
        self.touched
            .iter()
            .flatten()
            .filter(move |touched| !writes_only || touched.how != How::Read)
            .filter_map(|touched| touched.fact.as_ref())
    }

    /// The word for what kind of command line it is.
    pub fn class_name(&self, policy: &Policy) -> &'static str {
        self.class(policy).name()
    }

    /// Marks it as not understood after all.
    pub(crate) fn misread(&mut self, why: &str) {
        self.reading.problem.get_or_insert_with(|| why.to_owned());
    }

    /// Whether what it says it would do leaves the bounds of a confined command.
    pub(super) fn reaches_out(&self, policy: &Policy) -> bool {
        self.reading.problem.is_none()
            && (self.footprint().network
                || self.facts(true).any(|fact| !path::is_inside(fact, &policy.roots)))
    }

    /// The directories in which git only looks.
    pub(crate) fn git_directories(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = Vec::new();
        for command in self.reading.commands.iter().filter(|command| command.effects.git) {
            let own = match &command.directory {
                Directory::Known(path) => Some(path.clone()),
                Directory::Unknown => None,
            };
            let named = command.effects.touches.iter().filter_map(place).map(Path::to_owned);
            all.extend(own.into_iter().chain(named).filter(|path| !all.contains(path)).collect::<Vec<_>>());
        }
        all
    }

    /// Whether repositories are only looked at, so that their helpers must be kept from running.
    pub(crate) fn reads_git(&self) -> bool {
        self.reading.commands.iter().any(|command| command.effects.git)
    }

    /// What kind of command line it is: that of its strongest part.
    pub(crate) fn class(&self, policy: &Policy) -> Class {
        let unread = self.reading.problem.as_ref().map(|why| Class::Normal(why.clone()));
        let parts = (0..self.reading.commands.len()).map(|index| self.class_of(index, policy));
        parts.chain(unread).max_by_key(Class::weight).unwrap_or(Class::ReadOnly)
    }

    /// What kind of command one part is by itself.
    pub(crate) fn class_of(&self, index: usize, policy: &Policy) -> Class {
        let command = &self.reading.commands[index];
        if let Some(why) = forbidden(command, policy) {
            return Class::Forbidden(why);
        }
        if let Some(why) = command.effects.dangers.first() {
            return Class::Dangerous(why.clone());
        }
        let touched = &self.touched[index];
        if let Some(fact) = written(touched).find(|fact| path::is_protected(fact)) {
            return Class::Dangerous(format!(
                "{} decides what tools may do or run; changing it always asks",
                fact.target.display()
            ));
        }
        if let Some(why) = windows::odd_form(touched.iter().filter_map(|touched| touched.fact.as_ref())) {
            return Class::Dangerous(why);
        }
        match beyond(command, touched, policy) {
            Some(why) => Class::Normal(why),
            None if written(touched).next().is_none() => Class::ReadOnly,
            None if edits_plainly(command, touched) => Class::Edits,
            None => Class::Normal(changes(touched)),
        }
    }
}

impl Simple {
    /// The program's name as written, for people.
    pub(crate) fn program(&self) -> &str {
        self.words.first().and_then(|word| word.known()).unwrap_or("a program only known when it runs")
    }
}

impl Class {
    /// How it is called in reports.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Edits | Self::Normal(_) => "normal",
            Self::Dangerous(_) => "dangerous",
            Self::Forbidden(_) => "forbidden",
        }
    }

    fn weight(&self) -> u8 {
        match self {
            Self::ReadOnly => 0,
            Self::Edits => 1,
            Self::Normal(_) => 2,
            Self::Dangerous(_) => 3,
            Self::Forbidden(_) => 4,
        }
    }
}

/// Why a part does more than touch known files inside the working directories.
fn beyond(command: &Simple, touched: &[Touched], policy: &Policy) -> Option<String> {
    let effects = &command.effects;
    if let Some(why) = effects.unknown.first() {
        return Some(why.clone());
    }
    if effects.network {
        return Some(format!("'{}' may use the network", command.program()));
    }
    if let Some((name, _)) =
        command.assignments.iter().find(|(name, _)| !is_harmless_variable(name) && !only_sets(name, command))
    {
        return Some(format!("setting {name} may change what '{}' does", command.program()));
    }
    touched.iter().find_map(|touched| {
        let verb = if touched.how == How::Read { "reads" } else { "changes" };
        match &touched.fact {
            None => Some(format!("which files '{}' {verb} is only known when it runs", command.program())),
            Some(fact) if path::is_inside(fact, &policy.roots) => None,
            Some(fact) if touched.how == How::Read && path::is_inside(fact, &policy.readable) => None,
            Some(fact) if touched.how == How::Read && is_harmless_device(fact) => None,
            Some(fact) => {
                Some(format!("it {verb} {}, outside the working directories", fact.target.display()))
            }
        }
    })
}

fn place(touch: &Touch) -> Option<&Path> {
    match &touch.place {
        Place::At(path) | Place::Below(path) => Some(path),
        Place::Anywhere => None,
    }
}

fn forbidden(command: &Simple, policy: &Policy) -> Option<String> {
    let at = At { directory: &command.directory, home: &policy.home };
    table::forbidden(&command.words, &at, &Vital { home: &policy.home, roots: &policy.roots })
        .or_else(|| command.redirects.iter().find_map(table::forbidden_touch))
        .or_else(|| empties_an_unknown_folder(command))
}

/// `rm -r "$x"/*`: were the variable empty, this would be the root.
fn empties_an_unknown_folder(command: &Simple) -> Option<String> {
    let words = || command.words.iter().filter_map(|word| word.known());
    let recursive = words().any(|word| {
        word == "--recursive"
            || (word.starts_with('-') && !word.starts_with("--") && word.contains(['r', 'R']))
    });
    let removes = recursive && words().next().is_some_and(|program| program.rsplit('/').next() == Some("rm"));
    let is_whole = |word: &str| {
        let bare: String = word.chars().filter(|c| !"\"'{}".contains(*c)).collect();
        bare.strip_prefix('$').is_some_and(|rest| {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
            matches!(rest, "/" | "/*" | "/.*" | "/*/")
        })
    };
    let is_unknown = command.words.iter().any(|word| matches!(word, Word::Unknown { .. }));
    (removes && is_unknown && command.source.split_whitespace().any(is_whole))
        .then(|| "the hard floor: if the variable is empty, this removes the whole system".to_owned())
}

fn written(touched: &[Touched]) -> impl Iterator<Item = &PathFact> {
    touched.iter().filter(|touched| touched.how != How::Read).filter_map(|touched| touched.fact.as_ref())
}

/// Whether all it changes is what a person would call editing: files named to a plain program, or
/// the target of a redirection.
fn edits_plainly(command: &Simple, touched: &[Touched]) -> bool {
    EDITORS.contains(&command.program())
        || touched.iter().all(|touched| touched.how == How::Read || touched.redirected)
}

fn changes(touched: &[Touched]) -> String {
    let first = written(touched).next().map(|fact| fact.target.display().to_string());
    format!("it changes {}", first.unwrap_or_default())
}

/// An assignment by itself only sets a variable of the shell, which ends with the call.
fn only_sets(name: &str, command: &Simple) -> bool {
    command.words.is_empty() && !steers(name)
}

fn is_harmless_device(fact: &PathFact) -> bool {
    fact.target == Path::new("/dev/null")
}
