//! A tape being played: gives its lines again one by one and holds what the loop does against what it did then.
//! The first difference ends it; what comes after would only follow from that.

use super::{
    Came,
    source::Moment,
    tape::{Line, Tape, entries},
};
use ostler_model::Copied;
use ostler_proto::{Json, SessionId};
use std::{collections::VecDeque, path::PathBuf};

/// How much of two differing texts is shown before the place where they part, and after it.
const SHOWN_BEFORE: usize = 40;
const SHOWN_AFTER: usize = 120;

/// A tape that is played.
#[derive(Debug)]
pub(super) struct Player {
    lines: VecDeque<Line>,
    exchanges: VecDeque<Copied>,
    /// The transcript's lines that are still to come.
    written: VecDeque<String>,
    transcript: PathBuf,
    pub(super) progress: Progress,
    pub(super) over: Option<Over>,
}

/// How far a tape was played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    /// Lines of the tape.
    pub(crate) lines: usize,
    /// Requests that were the same.
    pub(crate) requests: usize,
    /// Lines of the transcript that were the same.
    pub(crate) entries: usize,
}

/// Why nothing more is played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Over {
    /// There is no more of it, for this reason.
    Cut(String),
    /// This run is another.
    Diverged(String),
}

impl Player {
    /// Plays a tape of a session that is written here.
    pub(super) fn new(tape: &Tape, transcript: PathBuf) -> Result<Self, String> {
        let (mut lines, mut exchanges, mut last) = (VecDeque::new(), VecDeque::new(), String::new());
        for line in &tape.lines {
            match line {
                Line::Exchange { head, request, answer } => {
                    let damaged = || format!("the requests in {} do not fit together", tape.path.display());
                    last = request.apply(&last).ok_or_else(damaged)?;
                    let request = last.clone().into_bytes();
                    let bytes = answer.bytes().to_vec();
                    exchanges.push_back(Copied { head: head.clone(), request: request.into(), bytes });
                }
                Line::Head(_)
                | Line::Came { .. }
                | Line::Gave { .. }
                | Line::Stopped { .. }
                | Line::Closed { .. } => lines.push_back(line.clone()),
            }
        }
        if let Some(damage) = &tape.damage {
            lines.push_back(Line::Stopped { why: format!("the rest of it is damaged ({damage})") });
        }
        let written = entries(&transcript, tape.head.transcript)?;
        Ok(Self { lines, exchanges, written, transcript, progress: Progress::default(), over: None })
    }

    /// What the loop reacted to next.
    pub(super) fn next(&mut self) -> Option<(Moment, Came)> {
        match self.next_line()? {
            Line::Came { at, what } => return Some((at, what)),
            Line::Gave { of, .. } => {
                self.diverge(format!("then '{of}' was asked here, now the loop waits for something to do"));
            }
            Line::Closed { .. } => {
                self.diverge("then the session was closed here, now the loop goes on".to_owned());
            }
            Line::Head(_) | Line::Exchange { .. } | Line::Stopped { .. } => {}
        }
        None
    }

    /// What was answered to this question, and when.
    pub(super) fn answer(&mut self, of: &str) -> Option<(Moment, Json)> {
        match self.next_line()? {
            Line::Gave { at, of: then, value } if then == of => return Some((at, value)),
            Line::Gave { of: then, .. } => self.diverge(format!("then '{then}' was asked here, now '{of}'")),
            Line::Came { what, .. } => {
                let then = what.name();
                self.diverge(format!("then the loop reacted to {then} here, now '{of}' is asked first"));
            }
            Line::Closed { .. } => {
                self.diverge(format!("then the session was closed here, now '{of}' is asked"));
            }
            Line::Head(_) | Line::Exchange { .. } | Line::Stopped { .. } => {}
        }
        None
    }

    /// Whether this was asked next.
    pub(super) fn is_next(&self, of: &str) -> bool {
        self.over.is_none() && matches!(self.lines.front(), Some(Line::Gave { of: then, .. }) if then == of)
    }

    /// The next exchange with the model.
    pub(super) fn exchange(&mut self) -> Option<Copied> {
        if self.over.is_some() {
            return None;
        }
        let next = self.exchanges.pop_front();
        if next.is_none() {
            self.cut("the process ended within an answer of the model");
        }
        next
    }

    /// A line goes into the transcript now.
    pub(super) fn writes(&mut self, text: &str) {
        for line in text.lines() {
            if self.over.is_some() {
                return;
            }
            let number = self.progress.entries + 1;
            match self.written.pop_front() {
                Some(then) if then == line => self.progress.entries = number,
                Some(then) => {
                    self.diverge(format!("line {number} of what was recorded: {}", parting(&then, line)));
                }
                None => {
                    let line: String = line.chars().take(SHOWN_AFTER).collect();
                    self.diverge(format!("line {number} was not in {}: {line}", self.transcript.display()));
                }
            }
        }
    }

    /// The conversation goes on in another session.
    pub(super) fn enters(&mut self, id: &SessionId) {
        self.transcript = self.transcript.with_file_name(format!("{id}.jsonl"));
        match entries(&self.transcript, 0) {
            Ok(written) => self.written = written,
            Err(problem) => self.cut(&problem),
        }
    }

    /// The loop has come to its end.
    pub(super) fn closes(&mut self) {
        match self.next_line() {
            Some(Line::Closed { entries }) if entries == self.progress.entries => {}
            Some(Line::Closed { entries }) => {
                let now = self.progress.entries;
                self.diverge(format!("then {entries} lines were recorded, now {now}"));
            }
            Some(Line::Came { what, .. }) => {
                let then = what.name();
                self.diverge(format!("then the loop reacted to {then} here, now the session ends"));
            }
            Some(Line::Gave { of, .. }) => {
                self.diverge(format!("then '{of}' was asked here, now the session ends"));
            }
            Some(Line::Head(_) | Line::Exchange { .. } | Line::Stopped { .. }) | None => {}
        }
    }

    pub(super) fn diverge(&mut self, how: String) {
        self.over.get_or_insert(Over::Diverged(how));
    }

    pub(super) fn cut(&mut self, why: &str) {
        self.over.get_or_insert(Over::Cut(why.to_owned()));
    }

    fn next_line(&mut self) -> Option<Line> {
        if self.over.is_some() {
            return None;
        }
        match self.lines.pop_front() {
            Some(Line::Stopped { why }) => self.cut(&why),
            Some(line) => {
                self.progress.lines += 1;
                return Some(line);
            }
            None => self.cut("the process did not close the session, or still has it open"),
        }
        None
    }
}

/// Where two texts part, with what stands around.
pub(super) fn parting(then: &str, now: &str) -> String {
    let at = then.bytes().zip(now.bytes()).take_while(|(one, other)| one == other).count();
    let around = |text: &str| {
        let from = text.floor_char_boundary(at.saturating_sub(SHOWN_BEFORE));
        let to = text.floor_char_boundary((at + SHOWN_AFTER).min(text.len()));
        text[from.min(to)..to].to_owned()
    };
    format!("byte {at} differs\n  then: …{}…\n  now:  …{}…", around(then), around(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_texts_part_at_a_byte_and_are_shown_in_whole_characters() {
        let (one, other) = ("é".repeat(100) + "x", "é".repeat(100) + "y");
        let shown = parting(&one, &other);
        assert!(shown.starts_with("byte 200 differs") && shown.contains("éx…"), "{shown}");
        assert!(parting("", "a").contains("byte 0"));
        assert!(parting("aé", "aè").contains("byte 2"));
    }
}
