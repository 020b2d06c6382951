//! Writes a tape, on a thread of its own: holding requests against each other, packing and writing them takes time
//! that grows with the conversation, and nobody waits for it before the next request.
#![expect(clippy::disallowed_types, reason = "the home of recordings")]

use super::{
    delta::Delta,
    tape::{Answered, Head, Line},
};
use bytes::Bytes;
use ostler_model::Copied;
use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::mpsc::{SyncSender, sync_channel},
    thread,
};
use zstd::bulk::Compressor;

/// How much waits in memory before it is written.
const CHUNK: usize = 256 << 10;
/// Quick and good enough: tapes are mostly repetition.
const LEVEL: i32 = 1;
/// Tasks that may wait. Whoever hands more over waits for the thread.
const MOST_WAITING: usize = 64;

/// What is handed over.
pub(super) enum Task {
    /// What the process began with. Nothing is written before it.
    Head(Box<Head>),
    /// A line.
    Line(Box<Line>),
    /// An exchange with a model.
    Exchange(Box<Copied>),
    /// Everything so far is to be written; the problem, if there is one, is wanted.
    Finish(SyncSender<Option<String>>),
}

/// The way to the thread, which starts with the first task and ends when this is dropped.
#[derive(Debug)]
pub(super) struct Scribe {
    path: PathBuf,
    tasks: Option<SyncSender<Task>>,
}

/// What the thread knows.
struct Desk {
    path: PathBuf,
    /// The first line, until it is written.
    head: Option<Vec<u8>>,
    waiting: Vec<u8>,
    /// The body of the last request.
    last: Bytes,
    /// Open since the first line was written.
    tape: Option<(File, Compressor<'static>)>,
    problem: Option<String>,
}

impl Scribe {
    /// For this file, which is made when there is something to write.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, tasks: None }
    }

    /// Hands a task over; what comes of it is known when [`Scribe::finish`] is done.
    pub(super) fn hand_over(&mut self, task: Task) -> Result<(), String> {
        let tasks = match &mut self.tasks {
            Some(tasks) => tasks,
            none @ None => none.insert(start(&self.path)?),
        };
        tasks.send(task).map_err(|_| format!("{}: whoever writes it has stopped", self.path.display()))
    }

    /// Waits until everything is written.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        if self.tasks.is_none() {
            return Ok(());
        }
        let (done, is_done) = sync_channel(1);
        self.hand_over(Task::Finish(done))?;
        match is_done.recv() {
            Ok(None) => Ok(()),
            Ok(Some(problem)) => Err(problem),
            Err(_) => Err(format!("{}: whoever writes it has stopped", self.path.display())),
        }
    }
}

fn start(path: &Path) -> Result<SyncSender<Task>, String> {
    let mut desk = Desk {
        path: path.to_owned(),
        head: None,
        waiting: Vec::new(),
        last: Bytes::new(),
        tape: None,
        problem: None,
    };
    let (tasks, waiting) = sync_channel(MOST_WAITING);
    let work = move || waiting.into_iter().for_each(|task| desk.work(task));
    let started = thread::Builder::new().name("tape".to_owned()).spawn(work);
    started.map(|_| tasks).map_err(|error| format!("{}: no thread to write it: {error}", path.display()))
}

impl Desk {
    fn work(&mut self, task: Task) {
        match task {
            Task::Head(head) => {
                let mut bytes = Vec::new();
                self.problem = put(&mut bytes, &Line::Head(head)).err().map(|error| error.to_string());
                self.head = Some(bytes);
            }
            Task::Line(line) => self.add(&line),
            Task::Exchange(copied) => {
                let Copied { head, request: body, bytes } = *copied;
                let request = Delta::new(&self.last, &body);
                self.last = body;
                let answer = match String::from_utf8(bytes) {
                    Ok(text) => Answered::Text(text),
                    Err(error) => Answered::Bytes(error.into_bytes()),
                };
                self.add(&Line::Exchange { head, request, answer });
            }
            Task::Finish(done) => {
                self.write_out();
                // Who does not want to know has gone.
                let _ = done.send(self.problem.clone());
            }
        }
    }

    fn add(&mut self, line: &Line) {
        if self.problem.is_some() {
            return;
        }
        if let Err(error) = put(&mut self.waiting, line) {
            self.problem = Some(error.to_string());
        }
        if self.waiting.len() >= CHUNK && (self.head.is_some() || self.tape.is_some()) {
            self.write_out();
        }
    }

    fn write_out(&mut self) {
        if self.problem.is_some() || (self.tape.is_none() && self.head.is_none()) {
            return;
        }
        let head = self.head.take().unwrap_or_default();
        let waiting = std::mem::take(&mut self.waiting);
        if let Err(error) = self.write(&head).and_then(|()| self.write(&waiting)) {
            self.problem = Some(format!("{}: {error}", self.path.display()));
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (file, compressor) = match &mut self.tape {
            Some(tape) => tape,
            none @ None => none.insert(open(&self.path)?),
        };
        file.write_all(&compressor.compress(bytes)?)
    }
}

fn put(bytes: &mut Vec<u8>, line: &Line) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *bytes, line)?;
    bytes.push(b'\n');
    Ok(())
}

/// The file, and what all that is written goes through. One compressor serves all: making one costs more than all it
/// does for an answer.
fn open(path: &Path) -> io::Result<(File, Compressor<'static>)> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let mut compressor = Compressor::new(LEVEL)?;
    // What was damaged must not be taken for what was said.
    compressor.include_checksum(true)?;
    Ok((file, compressor))
}
