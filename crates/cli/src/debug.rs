//! `ostler debug`: the filters for text from elsewhere, for whoever wants to see what they do. A line in, a line out;
//! a line that cannot be read costs only itself.
#![expect(clippy::disallowed_types, reason = "the lines are a plain file the user named")]

use crate::args::{Filter, Jsonl};
use anyhow::Context;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ostler_proto::{
    Json,
    content::{self, Redactor, Sink, Source},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::Path,
};

/// One line as it comes; fields of others are let pass.
#[derive(Deserialize)]
struct Line {
    text: Option<String>,
    content_b64: Option<String>,
    source: Option<String>,
    sink: Option<String>,
    origin: Option<String>,
}

/// What was done to a text, however it was asked for.
#[derive(Default, Serialize)]
struct Done {
    #[serde(flatten)]
    cleaned: Option<content::Behaviours>,
    /// How many secrets were taken out, where that was to be done, and by which rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    redacted: Option<usize>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    rules: BTreeMap<&'static str, usize>,
    /// Bytes that were no text and are spelled out.
    invalid_bytes: usize,
    byte_identical: bool,
}

/// Runs a filter over all lines; exit code 1 if some could not be read.
pub(crate) fn run(filter: &Filter) -> anyhow::Result<u8> {
    let (Filter::Sanitize(Jsonl { jsonl }) | Filter::Redact(Jsonl { jsonl })) = filter;
    let lines: Box<dyn BufRead> = if jsonl == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(jsonl).with_context(|| format!("--jsonl: cannot read {}", jsonl.display()))?;
        Box::new(BufReader::new(file))
    };
    let all_read = pass(filter, lines, BufWriter::new(io::stdout().lock()));
    match all_read.with_context(|| format!("--jsonl: cannot read {}", jsonl.display()))? {
        Outcome::All => Ok(0),
        Outcome::Some => Ok(1),
    }
}

/// Whether all lines could be read.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    All,
    Some,
}

fn pass(filter: &Filter, mut lines: impl BufRead, mut out: impl Write) -> io::Result<Outcome> {
    let redactor = Redactor::new();
    let mut outcome = Outcome::All;
    let (mut line, mut number) = (Vec::new(), 0);
    while lines.read_until(b'\n', &mut line)? > 0 {
        number += 1;
        if !line.trim_ascii().is_empty() {
            let answer = answer(filter, &line, number, &redactor).unwrap_or_else(|error| {
                outcome = Outcome::Some;
                error
            });
            // Whoever reads has gone; there is nobody to tell.
            if out.write_all(harmless(&answer).as_bytes()).is_err() {
                return Ok(outcome);
            }
        }
        line.clear();
    }
    // Likewise.
    let _ = out.flush();
    Ok(outcome)
}

/// The answer to one line; an error is an answer too.
fn answer(filter: &Filter, line: &[u8], number: usize, redactor: &Redactor) -> Result<Json, Json> {
    let parsed: Json = serde_json::from_slice(line)
        .map_err(|error| json!({"id": null, "line": number, "error": format!("not JSON: {error}")}))?;
    let id = parsed.get("id").cloned().unwrap_or_default();
    let filtered = Line::deserialize(&parsed)
        .map_err(|error| error.to_string())
        .and_then(|line| filtered(filter, &line, redactor));
    match filtered {
        Ok((output, done)) => Ok(json!({"id": id, "output": output, "behaviours": done})),
        Err(error) => Err(json!({"id": id, "line": number, "error": error})),
    }
}

fn filtered(filter: &Filter, line: &Line, redactor: &Redactor) -> Result<(String, Done), String> {
    let bytes = match (&line.text, &line.content_b64) {
        (Some(text), None) => Cow::Borrowed(text.as_bytes()),
        (None, Some(encoded)) => {
            let decoded = STANDARD.decode(encoded.trim());
            Cow::Owned(decoded.map_err(|error| format!("content_b64 is not base64: {error}"))?)
        }
        (Some(_), Some(_)) => return Err("both text and content_b64 are given".to_owned()),
        (None, None) => return Err("neither text nor content_b64 is given".to_owned()),
    };
    let (text, invalid_bytes) = content::from_bytes(&bytes);
    let mut done = Done { invalid_bytes, ..Done::default() };
    let output = match filter {
        Filter::Sanitize(_) => {
            let source: Source = named("source", line.source.as_deref())?;
            let sink: Sink = named("sink", line.sink.as_deref())?;
            let cleaned = content::deliver(&text, source, sink, line.origin.as_deref().unwrap_or_default());
            done.cleaned = Some(cleaned.behaviours);
            match sink {
                Sink::Log | Sink::Export => redact(&cleaned.text, redactor, &mut done),
                Sink::Terminal
                | Sink::PlainTerminal
                | Sink::ModelContext
                | Sink::PermissionPrompt
                | Sink::DiffView
                | Sink::TranscriptJsonl
                | Sink::Title => cleaned.text.into_owned(),
            }
        }
        Filter::Redact(_) => redact(&text, redactor, &mut done),
    };
    done.byte_identical = output.as_bytes() == &*bytes;
    Ok((output, done))
}

fn redact(text: &str, redactor: &Redactor, done: &mut Done) -> String {
    let redacted = redactor.redact(text);
    done.redacted = Some(redacted.found.len());
    for finding in &redacted.found {
        *done.rules.entry(finding.rule).or_default() += 1;
    }
    redacted.text.into_owned()
}

fn named<T: std::str::FromStr<Err = content::Unknown>>(what: &str, name: Option<&str>) -> Result<T, String> {
    let name = name.ok_or_else(|| format!("no {what} is given"))?;
    name.parse().map_err(|error: content::Unknown| error.to_string())
}

/// A line that does nothing to the terminal it may be shown on; the same JSON.
fn harmless(answer: &Json) -> String {
    let line = answer.to_string();
    let mut safe = String::with_capacity(line.len() + 1);
    if content::clean(&line, Sink::PlainTerminal).text == line {
        safe.push_str(&line);
    } else {
        for character in line.chars() {
            if matches!(character, ' '..='~') {
                safe.push(character);
            } else {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = fmt::Write::write_fmt(&mut safe, format_args!("\\u{unit:04x}"));
                }
            }
        }
    }
    safe.push('\n');
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_lines(filter: &Filter, lines: &str) -> (Vec<Json>, Outcome) {
        let mut out = Vec::new();
        let outcome = pass(filter, lines.as_bytes(), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(!out.contains(|c: char| c.is_control() && c != '\n'), "{out:?}");
        (out.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), outcome)
    }

    fn sanitize() -> Filter {
        Filter::Sanitize(Jsonl { jsonl: "-".into() })
    }

    #[test]
    fn each_line_is_answered() {
        let lines = [
            json!({"id": 1, "text": "a\u{1b}[2Jb", "source": "tool_result", "sink": "terminal"}),
            json!({"id": "two", "text": "plain", "source": "file_read", "sink": "model_context", "other": 1}),
            json!({"id": 3, "content_b64": STANDARD.encode(b"a\x9b31mb"), "source": "command", "sink": "terminal"}),
            json!({"id": 4, "text": "\u{9b}\u{202e}", "source": "web", "sink": "transcript_jsonl"}),
        ];
        let lines = lines.map(|line| line.to_string()).join("\n\n");
        let (answers, outcome) = run_lines(&sanitize(), &lines);
        assert_eq!(outcome, Outcome::All);
        assert_eq!(
            (&answers[0]["output"], &answers[0]["behaviours"]["escapes_removed"]),
            (&json!("ab"), &json!(1))
        );
        assert_eq!(
            (&answers[1]["id"], &answers[1]["behaviours"]["byte_identical"]),
            (&json!("two"), &json!(true))
        );
        assert_eq!(
            (&answers[2]["output"], &answers[2]["behaviours"]["invalid_bytes"]),
            (&json!("a\\x9b31mb"), &json!(1))
        );
        assert_eq!(answers[3]["output"], "\u{9b}\u{202e}");
    }

    #[test]
    fn a_bad_line_costs_only_itself() {
        let lines = "{\n{\"id\":1,\"text\":\"x\",\"source\":\"web\",\"sink\":\"moon\"}\n\
            {\"id\":2,\"source\":\"web\",\"sink\":\"terminal\"}\n[1]\n\
            {\"id\":3,\"text\":\"x\",\"source\":\"web\",\"sink\":\"terminal\"}";
        let (answers, outcome) = run_lines(&sanitize(), lines);
        assert_eq!(outcome, Outcome::Some);
        let errors: Vec<&str> = answers.iter().filter_map(|answer| answer["error"].as_str()).collect();
        assert_eq!(errors.len(), 4);
        assert!(
            errors[0].starts_with("not JSON") && errors[1].starts_with("unknown sink 'moon'"),
            "{errors:?}"
        );
        assert_eq!((&answers[1]["id"], &answers[4]["output"]), (&json!(1), &json!("x")));
    }

    #[test]
    fn secrets_are_counted_by_rule() {
        let token = format!("ghp_{}", "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2");
        let line = json!({"id": 1, "text": format!("a {token} b")}).to_string();
        let (answers, _) = run_lines(&Filter::Redact(Jsonl { jsonl: "-".into() }), &line);
        let expected = json!({"id": 1, "output": "a [redacted:github-token] b", "behaviours": {
            "redacted": 1, "rules": {"github-token": 1}, "invalid_bytes": 0, "byte_identical": false,
        }});
        assert_eq!(answers, [expected]);
    }
}
