//! What the analyser says about a command line, as plain data. The parser makes words of it, the
//! table of programs makes effects of words, and the judge reads both; none of them runs anything.

use serde::Serialize;
use std::path::PathBuf;

/// One word of a command after the shell's expansions, as far as they can be known before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    /// Exactly this text, and exactly one word.
    Known(String),
    /// An unquoted pattern: one or more file names that fit it, or the pattern itself.
    Glob(String),
    /// Something only the running shell will know.
    Unknown {
        /// The literal text it certainly begins with; often empty.
        start: String,
        /// Whether it may become no word or several words.
        splits: bool,
    },
}

/// The directory a command runs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Directory {
    /// This one, absolute; `..` in it is left as written, for the file system to follow.
    Known(PathBuf),
    /// It depends on what only the running shell knows.
    Unknown,
}

/// What a program with these words would do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Effects {
    /// Files and trees it reads or changes.
    pub touches: Vec<Touch>,
    /// Whether it may open a connection or ask for a name.
    pub network: bool,
    /// Other commands it runs, to be analysed in their turn.
    pub runs: Vec<Inner>,
    /// Where the shell is afterwards, if this moves it.
    pub moves: Option<Directory>,
    /// Why it may do more than all of the above; empty when it is fully understood.
    pub unknown: Vec<String>,
    /// Why it needs a person's eyes whatever the rules say.
    pub dangers: Vec<String>,
    /// Whether it is `git` and reads only, provided the repository's helpers are kept from running.
    pub git: bool,
}

/// One file or tree a command touches.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct Touch {
    /// How.
    pub how: How,
    /// What.
    pub place: Place,
    /// Whether everything below it is meant too.
    pub deep: bool,
}

/// How a command touches a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// Its content, its names or its metadata are read.
    Read,
    /// It is made or changed.
    Write,
    /// It is removed.
    Remove,
}

/// Where a command touches files.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    /// At this absolute path; `..` and links in it are left for the file system to follow.
    At(PathBuf),
    /// At some entries below this directory, picked by a pattern.
    Below(PathBuf),
    /// Nobody can say.
    Anywhere,
}

/// Another command that a command runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Inner {
    /// A program with its words, as `env`, `timeout` and `xargs` run one. Words that are only known
    /// later, e.g. those `xargs` reads, end it as an unknown word that splits.
    Words {
        /// Program and arguments.
        words: Vec<Word>,
        /// Where it runs, if not where the outer command does.
        directory: Option<Directory>,
        /// Whether rules look through the outer command to it.
        transparent: bool,
    },
    /// A text for a shell, as `bash -c` runs one.
    Script(Word),
}

impl Word {
    /// Its text, if there is no doubt about it.
    pub(crate) fn known(&self) -> Option<&str> {
        match self {
            Self::Known(text) => Some(text),
            Self::Glob(_) | Self::Unknown { .. } => None,
        }
    }
}
