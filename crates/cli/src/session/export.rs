//! A session for people to read, or to hand on: markdown, one HTML page, or all its lines as JSON. Written
//! as it is read, so that its length does not matter; secrets known by their shape are taken out.
#![expect(clippy::disallowed_types, reason = "writes the file the user names")]

use super::one_line;
use crate::complain;
use anyhow::Context;
use clap::ValueEnum;
use ostler_engine::session::{Facts, SessionFile, each_entry, each_line};
use ostler_proto::{
    Block, Entry, Json, SessionEvent, ToolCall,
    content::{Redactor, Sink, clean},
    session::CallState,
};
use std::{
    fs::OpenOptions,
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// How much of one result is shown.
const LONGEST_RESULT: usize = 4000;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Md,
    Json,
    Html,
}

/// Shows a session at the terminal, as it is.
pub(super) fn show(file: &SessionFile) -> anyhow::Result<()> {
    let page =
        Page { out: BufWriter::new(io::stdout().lock()), format: Format::Md, redactor: None, found: 0 };
    page.write(file)?;
    Ok(())
}

/// Writes a session, without secrets, to a file or to stdout.
pub(super) fn run(file: &SessionFile, format: Format, output: Option<&Path>) -> anyhow::Result<()> {
    let redactor = Some(Redactor::new());
    let found = match output {
        None => {
            let out = BufWriter::new(io::stdout().lock());
            Page { out, format, redactor, found: 0 }.write(file)?
        }
        Some(path) => {
            let opened = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
            let opened = opened.with_context(|| format!("cannot write {}", path.display()))?;
            Page { out: BufWriter::new(opened), format, redactor, found: 0 }.write(file)?
        }
    };
    if found > 0 {
        complain(&format!(
            "ostler: {} taken out; others may be there that look like none\n",
            if found == 1 { "1 secret was".to_owned() } else { format!("{found} secrets were") }
        ));
    }
    Ok(())
}

/// A session on its way out.
struct Page<W> {
    out: W,
    format: Format,
    redactor: Option<Redactor>,
    found: usize,
}

/// One thing that was said or done.
struct Part<'a> {
    /// Who, or what.
    heading: String,
    when: &'a str,
    text: String,
    manner: Manner,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Words of a person or a model.
    Words,
    /// Code, output, or reasoning: shown aside.
    Aside,
}

impl<W: Write> Page<W> {
    /// Writes all of it; says how many secrets were in it.
    fn write(mut self, file: &SessionFile) -> anyhow::Result<usize> {
        let mut written = self.head(file);
        if self.format == Format::Json {
            each_line(&file.path, |line| {
                if written.is_ok() {
                    written = self.json(line);
                }
            })?;
        } else {
            each_entry(&file.path, |entry| {
                if written.is_ok() {
                    written = self.entry(&entry);
                }
            })?;
        }
        if self.format == Format::Html {
            written = written.and_then(|()| self.out.write_all(b"</body></html>\n"));
        }
        match written.and_then(|()| self.out.flush()) {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(self.found),
            written => written.map(|()| self.found).context("cannot write the session"),
        }
    }

    /// The title, where there is one, and the id.
    fn head(&mut self, file: &SessionFile) -> io::Result<()> {
        let title = Facts::look(file)?.and_then(|facts| facts.title);
        let title = title.map(|title| one_line(&self.redact(&title)));
        let id = &file.id;
        match (self.format, title) {
            (Format::Json, _) => Ok(()),
            (Format::Md, Some(title)) => writeln!(self.out, "# {title}\n\nSession {id}"),
            (Format::Md, None) => writeln!(self.out, "# Session {id}"),
            (Format::Html, Some(title)) => {
                let title = escaped(&title);
                let head = HTML_HEAD.replace("<title>Session", &format!("<title>{title}"));
                writeln!(self.out, "{head}<h1>{title}</h1><p>Session {id}</p>")
            }
            (Format::Html, None) => writeln!(self.out, "{HTML_HEAD}<h1>Session {id}</h1>"),
        }
    }

    fn json(&mut self, line: &str) -> io::Result<()> {
        // What cannot be read can be rid of no secrets either; fsck tells of it.
        let Ok(mut value) = serde_json::from_str::<Json>(line) else { return Ok(()) };
        self.redact_all(&mut value);
        writeln!(self.out, "{value}")
    }

    fn redact_all(&mut self, value: &mut Json) {
        match value {
            Json::String(text) => *text = self.redact(text),
            Json::Array(values) => values.iter_mut().for_each(|value| self.redact_all(value)),
            Json::Object(fields) => fields.iter_mut().for_each(|(_, value)| self.redact_all(value)),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    fn redact(&mut self, text: &str) -> String {
        let Some(redactor) = &self.redactor else { return text.to_owned() };
        let redacted = redactor.redact(text);
        self.found += redacted.found.len();
        redacted.text.into_owned()
    }

    fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        let Some(part) = part(entry) else { return Ok(()) };
        let text = self.redact(&part.text);
        let sink = if self.redactor.is_some() { Sink::Export } else { Sink::PlainTerminal };
        let text = clean(&text, sink).text.into_owned();
        let when = part.when.get(..19).unwrap_or(part.when).replace('T', " ");
        let heading = clean(&part.heading, Sink::Title).text.into_owned();
        match self.format {
            Format::Json => Ok(()),
            Format::Md => self.markdown(&heading, &when, &text, part.manner),
            Format::Html => self.html(&heading, &when, &text, part.manner),
        }
    }

    fn markdown(&mut self, heading: &str, when: &str, text: &str, manner: Manner) -> io::Result<()> {
        write!(self.out, "\n## {heading} · {when}\n\n")?;
        match manner {
            Manner::Words => writeln!(self.out, "{text}"),
            Manner::Aside => {
                let fence = fence(text);
                writeln!(self.out, "{fence}\n{text}\n{fence}")
            }
        }
    }

    fn html(&mut self, heading: &str, when: &str, text: &str, manner: Manner) -> io::Result<()> {
        let (heading, text) = (escaped(heading), escaped(text));
        match manner {
            Manner::Words => writeln!(
                self.out,
                "<section><h2>{heading} <time>{when}</time></h2><pre>{text}</pre></section>"
            ),
            Manner::Aside => writeln!(
                self.out,
                "<details><summary>{heading} <time>{when}</time></summary><pre>{text}</pre></details>"
            ),
        }
    }
}

/// What of an event is shown.
fn part(entry: &Entry) -> Option<Part<'_>> {
    let when = entry.timestamp.as_str();
    let part = |heading: &str, text: String, manner| Part { heading: heading.to_owned(), when, text, manner };
    match &entry.event {
        SessionEvent::Prompted { content, meta: false } => {
            Some(part("User", content.iter().map(shown).collect::<Vec<_>>().join("\n"), Manner::Words))
        }
        SessionEvent::Replied { block: Block::Text(text), .. } => {
            Some(part("Assistant", text.clone(), Manner::Words))
        }
        SessionEvent::Replied { block: Block::Thinking { text, .. }, .. } => {
            (!text.is_empty()).then(|| part("Reasoning", text.clone(), Manner::Aside))
        }
        SessionEvent::Replied { block, .. } => match block.as_call() {
            Some(ToolCall { name, input, .. }) => Some(part(name, format!("{input:#}"), Manner::Aside)),
            None => Some(part("Assistant", shown(block), Manner::Aside)),
        },
        SessionEvent::ToolReturned { tool, result, state, .. } => {
            let heading = format!("{tool}: {}", ended(*state));
            let text = result.content.iter().map(shown).collect::<Vec<_>>().join("\n");
            Some(Part { heading, when, text: shorten(text), manner: Manner::Aside })
        }
        SessionEvent::Commanded { name, arguments, output, .. } => {
            Some(part(format!("/{name} {arguments}").trim(), output.clone(), Manner::Aside))
        }
        SessionEvent::Interrupted { .. } => {
            Some(part("User", "(stopped the turn)".to_owned(), Manner::Words))
        }
        SessionEvent::Failed { message } => Some(part("Failed", message.clone(), Manner::Words)),
        SessionEvent::Rewound { .. } => Some(part(
            "Rewound",
            "The conversation went back to an earlier prompt.".to_owned(),
            Manner::Words,
        )),
        SessionEvent::RewindUndone => Some(part("Rewound", "That was taken back.".to_owned(), Manner::Words)),
        SessionEvent::Compacted { compaction, .. } => Some(part(
            "Compacted",
            compaction.carried.iter().map(shown).collect::<Vec<_>>().join("\n"),
            Manner::Aside,
        )),
        SessionEvent::Uncompacted => {
            Some(part("Compacted", "That was taken back.".to_owned(), Manner::Words))
        }
        SessionEvent::ModelChanged { model, .. } => Some(part("Model", model.clone(), Manner::Words)),
        SessionEvent::Prompted { meta: true, .. }
        | SessionEvent::Opened { .. }
        | SessionEvent::Instructed { .. }
        | SessionEvent::CacheBroken { .. }
        | SessionEvent::Sampled { .. }
        | SessionEvent::Dropped { .. }
        | SessionEvent::Decided { .. }
        | SessionEvent::Hooked { .. }
        | SessionEvent::ModeChanged { .. } => None,
    }
}

fn shown(block: &Block) -> String {
    match block {
        Block::Text(text) | Block::Thinking { text, .. } => text.clone(),
        Block::Image(_) => "[image]".to_owned(),
        Block::Document(_) => "[document]".to_owned(),
        Block::ToolUse(call) => format!("[{}]", call.name),
        Block::ToolResult(result) => result.text(),
        Block::Opaque(value) => format!("[{}]", value["type"].as_str().unwrap_or("unknown")),
    }
}

fn ended(state: CallState) -> &'static str {
    match state {
        CallState::Complete => "done",
        CallState::Failed => "failed",
        CallState::Denied => "denied",
        CallState::Cancelled => "cancelled",
        CallState::Unknown => "outcome unknown",
    }
}

fn shorten(text: String) -> String {
    if text.len() <= LONGEST_RESULT {
        return text;
    }
    let end = text.floor_char_boundary(LONGEST_RESULT);
    format!("{}\n[{} more bytes]", &text[..end], text.len() - end)
}

/// A fence that the text cannot close.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const HTML_HEAD: &str = "<!doctype html>
<html><head><meta charset=\"utf-8\"><title>Session</title>
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">
<style>body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}
pre{white-space:pre-wrap;overflow-wrap:anywhere}h2{font-size:1em;margin:1.5em 0 0}
time{color:#777;font-weight:normal;font-size:.85em}details{margin:.5em 0;border-left:3px solid #ccc;padding-left:.8em}
summary{cursor:pointer}</style></head><body>
";
