//! Text from elsewhere on its way to a person, a model or a file: made honest, marked as data, and rid of secrets.
//! Pure: the same text gives the same result for ever, so that requests stay byte for byte what they were.
//!
//! Text passes up to four stages, each of which finds nothing more to do in its own result: `escape` (terminal
//! sequences and controls), `hidden` (what has no shape of its own), `padding` (blanks that push text out of
//! sight) and `marker` (tags and words only Ostler may write). Honest scripts and emoji pass unchanged.

mod bytes;
mod escape;
mod hidden;
mod kind;
mod marker;
mod padding;
mod redact;
mod rewrite;
mod script;
mod stream;
mod style;
mod wrap;

pub use bytes::from_bytes;
pub use kind::{Sink, Source, Unknown};
pub use redact::{Before, Check, Finding, RULES, Redacted, Redactor, Rule};
pub use stream::Stream;
pub use wrap::wrap;

use rewrite::End;
use serde::Serialize;
use std::borrow::Cow;

/// A text fit for its sink, and what was done to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaned<'a> {
    /// The text.
    pub text: Cow<'a, str>,
    /// What was done.
    pub behaviours: Behaviours,
}

/// What was done to a text, as counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Behaviours {
    /// Terminal sequences that are gone.
    pub escapes_removed: usize,
    /// Sequences that only colour or weigh text and were kept.
    pub styles_kept: usize,
    /// Whether styles were ended at the end of the text.
    pub style_reset: bool,
    /// Control characters that are spelled out.
    pub controls_made_visible: usize,
    /// Control characters that are gone.
    pub controls_removed: usize,
    /// Carriage returns that became line ends, or were part of one.
    pub returns_made_newlines: usize,
    /// Characters that reorder their neighbours.
    pub bidi_made_visible: usize,
    /// Tag characters that are spelled out.
    pub tags_made_visible: usize,
    /// Tag characters of which only the number is told.
    pub tags_removed: usize,
    /// Variation selectors where none belongs.
    pub selectors_made_visible: usize,
    /// Other characters without a shape of their own.
    pub invisible_made_visible: usize,
    /// Characters whose meaning nobody agreed on.
    pub private_use_made_visible: usize,
    /// Combining marks beyond what any script stacks.
    pub marks_made_visible: usize,
    /// Runs of blanks that are shown as a number.
    pub padding_collapsed: usize,
    /// Tags and words only Ostler may write, made plain text.
    pub markers_neutralised: usize,
    /// The same, left as they are and named in a note behind the text.
    pub markers_attributed: usize,
    /// Whether the text was marked as data from outside.
    pub wrapped: bool,
}

/// What the stages do for a sink.
#[derive(Debug, Clone, Copy)]
struct Policy {
    escapes: escape::Manner,
    hidden: hidden::Manner,
    padding: Padding,
    markers: Markers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Padding {
    Keep,
    Collapse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Markers {
    Keep,
    Neutralise,
}

/// Makes a text fit for a sink. A transcript takes everything as it is: its writer encodes it.
pub fn clean(text: &str, sink: Sink) -> Cleaned<'_> {
    let mut behaviours = Behaviours::default();
    let Some(policy) = policy(sink) else { return Cleaned { text: Cow::Borrowed(text), behaviours } };
    let text = escape::whole(text, policy.escapes, &mut behaviours);
    let text = then(text, |text| hidden::whole(text, policy.hidden, &mut behaviours));
    let text = match policy.padding {
        Padding::Keep => text,
        Padding::Collapse => then(text, |text| padding::collapse(text, &mut behaviours)),
    };
    let text = match policy.markers {
        Markers::Keep => text,
        Markers::Neutralise => then(text, |text| marker::neutralise(text, &mut behaviours)),
    };
    Cleaned { text, behaviours }
}

/// What of a file a model reads. It edits by exact text, so the file's words stay byte for byte, reserved
/// tags among them: a note behind the text names those as part of the file. Only what no model can see or
/// repeat reliably is spelled out: tag characters, selectors where none belongs, and bidirectional controls.
pub fn clean_file(text: &str) -> Cleaned<'_> {
    let mut behaviours = Behaviours::default();
    let text = hidden::whole(text, hidden::Manner::File, &mut behaviours);
    let text = marker::attribute(text, &mut behaviours);
    Cleaned { text, behaviours }
}

/// A text from a source, whole, as the sink gets it: cleaned, in one line if it is a name, and marked as data
/// if a model is to read it and it comes from outside. `origin` says which page, server or issue it was.
pub fn deliver<'a>(text: &'a str, source: Source, sink: Sink, origin: &str) -> Cleaned<'a> {
    match (source, sink) {
        (_, Sink::TranscriptJsonl) => clean(text, sink),
        (Source::FileRead, Sink::ModelContext) => clean_file(text),
        (Source::BranchName | Source::FileName, _) => one_line(clean(text, sink)),
        (Source::Web | Source::McpServer | Source::Issue, Sink::ModelContext) => {
            let cleaned = clean(text, sink);
            let text = Cow::Owned(wrap::around(&cleaned.text, source, origin));
            Cleaned { text, behaviours: Behaviours { wrapped: true, ..cleaned.behaviours } }
        }
        (
            Source::ToolResult
            | Source::FileRead
            | Source::Web
            | Source::McpServer
            | Source::Command
            | Source::CommitMessage
            | Source::Issue
            | Source::Hook
            | Source::Instructions
            | Source::Agent
            | Source::Model
            | Source::User,
            _,
        ) => clean(text, sink),
    }
}

fn policy(sink: Sink) -> Option<Policy> {
    use escape::Manner as Escapes;
    use hidden::Manner as Hidden;
    let policy = |escapes, hidden| Policy { escapes, hidden, padding: Padding::Keep, markers: Markers::Keep };
    Some(match sink {
        Sink::Terminal => policy(Escapes::KeepStyle, Hidden::Spell),
        Sink::PlainTerminal | Sink::Log | Sink::Export => policy(Escapes::Remove, Hidden::Spell),
        Sink::ModelContext => {
            Policy { markers: Markers::Neutralise, ..policy(Escapes::RemoveAll, Hidden::Summarise) }
        }
        Sink::PermissionPrompt => {
            Policy { padding: Padding::Collapse, ..policy(Escapes::Spell, Hidden::SpellAll) }
        }
        Sink::DiffView => policy(Escapes::Spell, Hidden::Spell),
        Sink::Title => policy(Escapes::OneLine, Hidden::Spell),
        Sink::TranscriptJsonl => return None,
    })
}

fn one_line(cleaned: Cleaned<'_>) -> Cleaned<'_> {
    let mut behaviours = cleaned.behaviours;
    let text = then(cleaned.text, |text| escape::whole(text, escape::Manner::OneLine, &mut behaviours));
    Cleaned { text, behaviours }
}

/// Hands a text to the next stage without copying what needs no change.
fn then(text: Cow<'_, str>, stage: impl FnOnce(&str) -> Cow<'_, str>) -> Cow<'_, str> {
    let changed = match stage(&text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(changed) => Some(changed),
    };
    changed.map_or(text, Cow::Owned)
}
