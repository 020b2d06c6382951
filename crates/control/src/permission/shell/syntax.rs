//! The tree of a command line, as plain data with the place of each piece in the text. It says what
//! was written, never what it will do; quoting is kept, nothing is expanded here.

use serde::Serialize;

/// Bytes of the text from `start` up to `end`. Inside backquotes that hold escapes, and inside text
/// for another shell, they count from that text's own start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Span {
    pub start: usize,
    pub end: usize,
}

/// A list of commands, as the whole line or as the inside of any compound command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Script {
    pub items: Vec<Item>,
    pub span: Span,
}

/// Pipelines joined by `&&` and `||`, up to `;`, `&` or a new line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Item {
    pub first: Pipeline,
    pub rest: Vec<(Joint, Pipeline)>,
    pub background: bool,
}

/// What joins two pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Joint {
    And,
    Or,
}

/// Commands joined by `|` or `|&`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Pipeline {
    pub negated: bool,
    pub timed: bool,
    pub stages: Vec<Command>,
}

/// One command with the redirections that stand behind or among its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Command {
    pub kind: Kind,
    pub redirects: Vec<Redirect>,
    pub span: Span,
}

/// The kinds of command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Simple(Plain),
    Group(Script),
    Subshell(Script),
    If { branches: Vec<Branch>, otherwise: Option<Script> },
    While { condition: Script, body: Script },
    Until { condition: Script, body: Script },
    For { name: String, words: Option<Vec<Word>>, body: Script },
    Select { name: String, words: Option<Vec<Word>>, body: Script },
    Count { start: Arithmetic, condition: Arithmetic, step: Arithmetic, body: Script },
    Case { subject: Word, arms: Vec<Arm> },
    Function { name: String, body: Box<Command> },
    Test(Test),
    Arithmetic(Arithmetic),
    Coprocess { name: Option<String>, body: Box<Command> },
}

/// A simple command: assignments, then the program and its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Plain {
    pub assignments: Vec<Assignment>,
    pub words: Vec<Word>,
    /// From the first word to the last, as written.
    pub source: String,
}

/// A condition of `if` or `elif` and what it leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Branch {
    pub condition: Script,
    pub body: Script,
}

/// One arm of `case`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Arm {
    pub patterns: Vec<Word>,
    pub body: Script,
}

/// The inside of `[[ ]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Test {
    Not(Box<Test>),
    Both(Box<Test>, Box<Test>),
    Either(Box<Test>, Box<Test>),
    Unary { operator: String, operand: Word },
    Binary { left: Word, operator: String, right: Word },
}

/// Text that the shell computes with, as in `(( ))`; literal parts are as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Arithmetic {
    pub parts: Vec<Part>,
}

/// `name=value`, `name+=value`, `name[key]=value` or `name=(…)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Assignment {
    pub name: String,
    pub subscript: Option<Vec<Part>>,
    pub appends: bool,
    pub value: Value,
    pub span: Span,
}

/// What is assigned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Value {
    Text(Word),
    Array(Vec<Word>),
}

/// A redirection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Redirect {
    /// The descriptor's number, if one is written.
    pub number: Option<String>,
    /// The variable that takes the descriptor's number, as in `{fd}>file`.
    pub variable: Option<String>,
    pub target: Target,
    pub span: Span,
}

/// Where a redirection leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    /// `<`, `>`, `>>`, `>|`, `<>`, `&>`, `&>>`, and `>&` with a file.
    File { access: Access, word: Word },
    /// `<&` and `>&` with a number, or `-` to close.
    Descriptor { word: Word },
    /// `<<` and `<<-`: the parts are those of a body that the shell expands.
    Here { delimiter: String, expands: bool, parts: Vec<Part> },
    /// `<<<`.
    Text(Word),
}

/// What a redirection does to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Access {
    Read,
    Write,
    Both,
}

/// One word as written, in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Word {
    pub parts: Vec<Part>,
    pub span: Span,
}

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Unquoted text; patterns, braces and a tilde in it keep their meaning.
    Literal(String),
    /// Text behind a backslash, in single quotes or in `$'…'`, already decoded.
    Quoted(String),
    /// `"…"`, or `$"…"` if it is translated.
    Double {
        parts: Vec<Part>,
        translated: bool,
    },
    Parameter(Parameter),
    /// `$(…)` and backquotes.
    Command(Script),
    /// `<(…)` and `>(…)`.
    Process {
        reads: bool,
        script: Script,
    },
    /// `$((…))` and `$[…]`.
    Arithmetic(Arithmetic),
}

/// `$name` and `${…}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Parameter {
    pub name: String,
    /// Whether it stands in braces.
    pub braced: bool,
    /// `${!name}`.
    pub indirect: bool,
    /// `${#name}`.
    pub length: bool,
    pub subscript: Option<Vec<Part>>,
    pub operator: Option<Operator>,
}

/// What `${name…}` does with the value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Operator {
    /// `:-`, `#`, `//`, `:`, `@` and so on.
    pub symbol: String,
    pub operand: Vec<Part>,
}

impl Assignment {
    /// Whether the value is nothing but the result of arithmetic, which is always a number.
    pub(crate) fn is_computed(&self) -> bool {
        let Value::Text(word) = &self.value else { return false };
        let parts = match word.parts.as_slice() {
            [Part::Double { parts, translated: false }] => parts.as_slice(),
            parts => parts,
        };
        self.subscript.is_none() && matches!(parts, [Part::Arithmetic(_)])
    }
}

impl Word {
    /// Whether it is an assignment behind a declaring builtin.
    pub(crate) fn is_assignment(&self) -> bool {
        match self.parts.as_slice() {
            [Part::Literal(_), Part::Literal(sign), ..] => matches!(sign.as_str(), "=" | "+=" | "["),
            [] | [_, ..] => false,
        }
    }

    /// Its text, if it is written without any quoting or expansion.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Literal(text)] => Some(text),
            [] | [_, ..] => None,
        }
    }
}
