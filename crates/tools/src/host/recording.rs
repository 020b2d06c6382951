//! What a command prints, shared by who runs it and who reads it: its two ends in memory, all of it on the
//! disk once it is long or somebody wants the file. Nothing here decides how much is shown.

use super::{
    Captured, blocking,
    spool::{Room, Spool, Spooled},
};
use crate::{
    Progress,
    text::{Cleaner, is_continuation},
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// Output goes to the disk in pieces of this size, and not at all while it is shorter.
const PIECE: usize = 128 * 1024;

/// What a command has printed so far.
#[derive(Debug)]
pub struct Recording {
    form: Form,
    /// Where it is kept on the disk, if it is.
    file: Option<PathBuf>,
    room: Room,
    state: Mutex<State>,
    wanted: Notify,
}

/// Output as it is, or as it can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Bytes,
    Text,
}

#[derive(Debug, Default)]
struct State {
    captured: Captured,
    /// Whether the file should be there and current at all times.
    in_file: bool,
    /// How many bytes even the file lacks.
    lost: u64,
    kept: Kept,
}

/// What became of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Kept {
    /// There is none: the output was short, or nothing may be kept.
    #[default]
    No,
    /// It is written.
    Yes(Spooled),
    /// It could not be written.
    Failed(String),
}

impl Recording {
    /// Output of programs, made readable, and kept in a file when it is too long for the memory.
    pub fn text(file: Option<PathBuf>, room: Room) -> Arc<Self> {
        Arc::new(Self { form: Form::Text, file, room, state: Mutex::default(), wanted: Notify::new() })
    }

    /// The very bytes, at most this many from each end.
    pub fn bytes(end: usize) -> Arc<Self> {
        let state = State { captured: Captured::with_ends(end), ..State::default() };
        let state = Mutex::new(state);
        Arc::new(Self { form: Form::Bytes, file: None, room: Room::default(), state, wanted: Notify::new() })
    }

    /// From now on the file is there, with all that was printed.
    pub fn want_file(&self) -> Option<&Path> {
        self.state().in_file = true;
        self.wanted.notify_one();
        self.file.as_deref()
    }

    /// Adds a word of our own to what the command printed.
    pub(super) fn add(&self, text: &str) {
        self.state().captured.push(text.as_bytes());
    }

    /// What was printed so far.
    pub fn captured(&self) -> Captured {
        self.state().captured.clone()
    }

    /// What became of the file, once the command has ended.
    pub fn kept(&self) -> Kept {
        self.state().kept.clone()
    }

    /// Whether more was printed than even the file holds.
    pub fn overflowed(&self) -> bool {
        let state = self.state();
        state.lost > 0 || (self.file.is_none() && state.captured.total() > self.room.head + self.room.tail)
    }

    /// The text that came after the first `offset` bytes, how many bytes of that are gone from memory, and
    /// where it ends.
    pub fn since(&self, offset: u64) -> (String, u64, u64) {
        let state = self.state();
        let (bytes, gone) = state.captured.since(offset);
        let cut = if gone == 0 { 0 } else { bytes.iter().take_while(|byte| is_continuation(**byte)).count() };
        let text = String::from_utf8_lossy(&bytes[cut..]).into_owned();
        (text, gone + cut as u64, state.captured.total())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before the lock is given back.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writing end of a recording, with who watches.
pub(super) struct Recorder {
    recording: Arc<Recording>,
    progress: Progress,
    cleaner: Cleaner,
    /// What is not on the disk yet.
    pending: Vec<u8>,
    spool: Option<Spool>,
}

impl Recorder {
    pub(super) fn new(recording: Arc<Recording>, progress: Progress) -> Self {
        Self { recording, progress, cleaner: Cleaner::default(), pending: Vec::new(), spool: None }
    }

    /// Takes in the next bytes.
    pub(super) async fn push(&mut self, bytes: &[u8]) {
        match self.recording.form {
            Form::Bytes => self.recording.state().captured.push(bytes),
            Form::Text => {
                let shown = self.cleaner.push(bytes);
                self.take(shown).await;
            }
        }
    }

    async fn take(&mut self, shown: String) {
        if shown.is_empty() {
            return;
        }
        let in_file = {
            let mut state = self.recording.state();
            state.captured.push(shown.as_bytes());
            state.in_file
        };
        if self.recording.file.is_some() {
            self.pending.extend_from_slice(shown.as_bytes());
        }
        self.progress.say(shown);
        if in_file || self.pending.len() >= PIECE {
            self.write_pending().await;
        }
    }

    /// Waits until somebody wants the file.
    pub(super) async fn wanted(&self) {
        self.recording.wanted.notified().await;
    }

    /// Brings the file up to date.
    pub(super) async fn write_pending(&mut self) {
        let Some(path) = self.recording.file.clone() else { return };
        if matches!(self.recording.state().kept, Kept::Failed(_)) {
            self.pending.clear();
            return;
        }
        let (bytes, spool, room) =
            (std::mem::take(&mut self.pending), self.spool.take(), self.recording.room);
        let written = blocking(move || {
            let mut spool = spool.map_or_else(|| Spool::create(&path, room), Ok)?;
            spool.write(&bytes)?;
            Ok(spool)
        })
        .await;
        self.note(written);
    }

    fn note(&mut self, written: std::io::Result<Spool>) {
        let mut state = self.recording.state();
        match written {
            Ok(spool) => {
                state.lost = spool.lost();
                self.spool = Some(spool);
            }
            // Without the file the two ends in memory are still there.
            Err(error) => state.kept = Kept::Failed(error.to_string()),
        }
    }

    /// The command has ended: what was held back is taken, and the file made whole.
    pub(super) async fn finish(mut self) {
        let rest = self.cleaner.finish();
        self.take(rest).await;
        if self.spool.is_some() || self.recording.state().in_file {
            self.write_pending().await;
        }
        let Some(spool) = self.spool.take() else { return };
        let kept = match blocking(move || spool.finish()).await {
            Ok(spooled) => Kept::Yes(spooled),
            Err(error) => Kept::Failed(error.to_string()),
        };
        self.recording.state().kept = kept;
    }
}
