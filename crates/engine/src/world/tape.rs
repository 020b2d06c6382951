//! A tape: what came into a session while one process had it open, in order. It lies beside the transcript, is
//! only ever added to, and may end anywhere: a lost end shortens what can be replayed and nothing else.
#![expect(clippy::disallowed_types, reason = "the home of recordings")]

use super::{
    Came,
    delta::Delta,
    scribe::{Scribe, Task},
    source::Moment,
};
use crate::{
    context::Snapshot,
    session::{Stamp, each_line_from},
    spawn::{Limits, Origin},
};
use ostler_model::{Copied, Head as Exchange};
use ostler_proto::{Json, ModelRow, Section, SessionId};
use serde::{Deserialize, Serialize};
use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

/// The form of tapes this version writes.
const VERSION: u32 = 2;

/// One line of a tape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// What the process began with; always first.
    Head(Box<Head>),
    /// The loop got something to react to.
    Came {
        /// When.
        at: Moment,
        /// What.
        what: Came,
    },
    /// Something was asked of the world beside the loop, and this was the answer.
    Gave {
        /// When.
        at: Moment,
        /// What was asked.
        of: String,
        /// The answer.
        value: Json,
    },
    /// From here on things happened that are not on the tape.
    Stopped {
        /// What.
        why: String,
    },
    /// The process left the session in good order.
    Closed {
        /// How many lines of the transcript it wrote.
        entries: usize,
    },
    /// A request to the model, told when the stream was let go.
    Exchange {
        /// What is known of it.
        head: Exchange,
        /// The request's body.
        request: Delta,
        /// The answer as it came.
        answer: Answered,
    },
}

/// The bytes of an answer. They lie on the tape: a file for each would cost more than all the rest of recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answered {
    /// As they nearly always are.
    Text(String),
    /// Cut within a character, say.
    Bytes(Vec<u8>),
}

/// What a process began with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The form of the tape.
    pub(crate) version: u32,
    /// The session.
    pub(crate) session: SessionId,
    /// What ids and chance follow from.
    pub(crate) seed: u64,
    /// When.
    pub(crate) at: Moment,
    /// How long the transcript was then, in bytes.
    pub(crate) transcript: u64,
    /// The model's name and what was known of it.
    pub(crate) model: (String, ModelRow),
    /// Which credential was in use, by name.
    pub(crate) key_source: String,
    /// System prompt sections as put together then.
    pub(crate) system: Vec<Section>,
    /// Which system prompt a resumed session had.
    pub(crate) snapshot: Snapshot,
    /// What the agent might use up.
    pub(crate) limits: Limits,
    /// What the session came from.
    pub(crate) origin: Origin,
    /// The title it was to have.
    pub(crate) title: Option<String>,
    /// Where the transcript was.
    pub(crate) path: PathBuf,
    /// Facts for every line.
    pub(crate) stamp: Stamp,
}

/// A tape that is being written. What cannot be written ends the recording, never the session.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// What the process began with, until that is known for good.
    head: Option<Box<Head>>,
    scribe: Scribe,
    entries: usize,
    state: Recording,
}

/// Whether more is put on a tape.
#[derive(Debug, PartialEq, Eq)]
enum Recording {
    On,
    /// Not any more, in good order.
    Ended,
    /// It cannot be written, for this reason, which nobody was told yet.
    Failed(String),
    /// It cannot be written, and that was told.
    Told,
}

/// A tape that was read.
#[derive(Debug)]
pub(crate) struct Tape {
    /// Its file.
    pub(crate) path: PathBuf,
    /// What the process began with.
    pub(crate) head: Head,
    /// Everything after it.
    pub(crate) lines: Vec<Line>,
    /// Why there is no more of it, when it did not end in good order.
    pub(crate) damage: Option<String>,
}

/// The folder of a session's recordings.
pub(crate) fn folder(transcript: &Path) -> PathBuf {
    transcript.with_extension("").join("recording")
}

/// The lines of a transcript that are events, from this byte on.
pub(crate) fn entries(transcript: &Path, from: u64) -> Result<VecDeque<String>, String> {
    let mut entries = VecDeque::new();
    let read = each_line_from(transcript, from, |line| {
        // Labels have no id; anybody may write them at any time.
        if line.contains("\"uuid\":") {
            entries.push_back(line.to_owned());
        }
    });
    read.map_err(|error| error.to_string())?;
    Ok(entries)
}

impl Recorder {
    /// A new tape in this folder; nothing is written yet.
    pub(crate) fn new(folder: &Path, head: Head) -> Self {
        let name = format!("{:013}-{:016x}.tape.zst", head.at.wall_ms, head.seed);
        let scribe = Scribe::new(folder.join(name));
        Self { head: Some(Box::new(head)), scribe, entries: 0, state: Recording::On }
    }

    /// Puts a line on the tape.
    pub(crate) fn add(&mut self, line: Line) {
        self.hand_over(Task::Line(Box::new(line)));
    }

    /// Puts an exchange on the tape.
    pub(crate) fn exchange(&mut self, copied: Copied) {
        self.hand_over(Task::Exchange(Box::new(copied)));
    }

    /// So many lines went into the transcript, which was so long before the first one.
    pub(crate) fn wrote(&mut self, lines: usize, before: Option<u64>) {
        self.entries += lines;
        if let (true, Some(mut head)) = (self.entries > 0, self.head.take()) {
            head.transcript = before.unwrap_or(head.transcript);
            self.hand_over(Task::Head(head));
        }
    }

    /// Nothing more is put on the tape, for this reason.
    pub(crate) fn stop(&mut self, why: &str) {
        self.add(Line::Stopped { why: why.to_owned() });
        self.end();
    }

    /// The process leaves the session.
    pub(crate) fn close(&mut self) {
        self.add(Line::Closed { entries: self.entries });
        self.end();
    }

    /// Has written what was handed over. Gives the problem once, when there is one. A session without a transcript
    /// leaves no tape either.
    pub(crate) fn flush(&mut self) -> Option<String> {
        if let Recording::On | Recording::Ended = self.state
            && let Err(problem) = self.scribe.finish()
        {
            self.state = Recording::Failed(problem);
        }
        match std::mem::replace(&mut self.state, Recording::Told) {
            Recording::Failed(problem) => return Some(problem),
            state @ (Recording::On | Recording::Ended | Recording::Told) => self.state = state,
        }
        None
    }

    fn hand_over(&mut self, task: Task) {
        if self.state == Recording::On
            && let Err(problem) = self.scribe.hand_over(task)
        {
            self.state = Recording::Failed(problem);
        }
    }

    fn end(&mut self) {
        if self.state == Recording::On {
            self.state = Recording::Ended;
        }
    }
}

impl Tape {
    /// The tapes in a folder, oldest first; none where there is no folder.
    pub(crate) fn all_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        let found = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(paths),
            found => found?,
        };
        for entry in found {
            let path = entry?.path();
            if path.to_string_lossy().ends_with(".tape.zst") {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }

    /// Reads a tape as far as it is sound.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let failed = |problem: String| format!("the recording {} {problem}", path.display());
        let file = File::open(path).map_err(|error| failed(format!("cannot be read: {error}")))?;
        let decoder = zstd::Decoder::new(file).map_err(|error| failed(format!("cannot be read: {error}")))?;
        let (mut lines, mut damage, mut text) = (Vec::new(), None, String::new());
        let mut reader = BufReader::new(decoder);
        loop {
            text.clear();
            match reader.read_line(&mut text) {
                Ok(0) => break,
                Ok(_) => match serde_json::from_str(&text) {
                    Ok(line) => lines.push(line),
                    Err(error) => {
                        damage = Some(format!("line {}: {error}", lines.len() + 1));
                        break;
                    }
                },
                Err(error) => {
                    damage = Some(error.to_string());
                    break;
                }
            }
        }
        let mut lines = lines.into_iter();
        match lines.next() {
            Some(Line::Head(head)) if head.version == VERSION => {
                Ok(Self { path: path.to_owned(), head: *head, lines: lines.collect(), damage })
            }
            Some(Line::Head(head)) => {
                Err(failed(format!("has the form {}, this version reads {VERSION}", head.version)))
            }
            Some(
                Line::Came { .. }
                | Line::Gave { .. }
                | Line::Exchange { .. }
                | Line::Stopped { .. }
                | Line::Closed { .. },
            )
            | None => {
                Err(failed(format!("does not begin as one: {}", damage.as_deref().unwrap_or("it is empty"))))
            }
        }
    }
}

impl Answered {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl Head {
    /// The form that is written.
    pub(crate) const VERSION: u32 = VERSION;
}
