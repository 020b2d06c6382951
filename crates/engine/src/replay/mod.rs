//! Runs a recorded session again and says whether it was the same: every request byte for byte, every line of the
//! transcript and, where calls are run again, every result. It asks no model and writes nothing itself.

use crate::{
    session::{State, load_first},
    spawn::spawn_again,
    world::{
        again::Again,
        deck::Deck,
        player::{Over, Progress},
        tape::{Tape, entries, folder},
    },
};
use ostler_proto::{EntryId, Json, SessionId};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

pub use crate::world::again::{Given, Live, Relived};

/// What one process did with a session, as it was recorded.
#[derive(Debug)]
pub struct Run {
    tape: Tape,
    transcript: PathBuf,
    /// What the session amounted to before.
    pub state: State,
}

/// What came of replaying one process's part of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// The tape.
    pub tape: PathBuf,
    /// Lines of it that were played.
    pub lines: usize,
    /// Requests that were the same, byte for byte.
    pub requests: usize,
    /// Lines of the transcript that were the same.
    pub entries: usize,
    /// Calls that were run again.
    pub relived: Relived,
    /// Whether all of it was the same.
    pub verdict: Verdict,
}

/// How a replay compares with what was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The same to the end.
    Same,
    /// The same as far as the recording goes, which is not to the end, for this reason.
    SameSoFar(String),
    /// This is the first difference.
    Different(String),
}

/// The tapes of a session, oldest first.
pub fn tapes(transcript: &Path) -> Result<Vec<PathBuf>, String> {
    let folder = folder(transcript);
    Tape::all_in(&folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))
}

impl Run {
    /// Reads what is on a tape of a session.
    pub fn read(tape: &Path, transcript: &Path) -> Result<Self, String> {
        let tape = Tape::read(tape)?;
        let state = match tape.head.transcript {
            0 => State::default(),
            bytes => load_first(transcript, bytes).map_err(|error| error.to_string())?.state,
        };
        Ok(Self { tape, transcript: transcript.to_owned(), state })
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.tape.head.session
    }

    /// The folder that the process was started in.
    pub fn folder(&self) -> &Path {
        &self.tape.head.stamp.cwd
    }

    /// The ids of the lines that the process wrote first into the transcript, in order; prompts are among them.
    pub fn lines(&self) -> Result<Vec<EntryId>, String> {
        let id = |line: String| {
            let line: Json = serde_json::from_str(&line).ok()?;
            Some(EntryId::from(line.get("uuid")?.as_str()?))
        };
        Ok(entries(&self.transcript, self.tape.head.transcript)?.into_iter().filter_map(id).collect())
    }
}

/// Replays a run without running anything. The error names what is missing or damaged.
pub async fn replay(run: Run) -> Result<Replayed, String> {
    play(run, |_| None).await
}

/// Replays a run and runs its calls again. The loop gets the recorded results, so that the first one that is another
/// now ends the replay.
pub async fn replay_live(run: Run, live: Live) -> Result<Replayed, String> {
    play(run, |relived| Some(Again::new(live, relived))).await
}

async fn play(
    run: Run,
    again: impl FnOnce(Arc<Mutex<Relived>>) -> Option<Again>,
) -> Result<Replayed, String> {
    let Run { tape, transcript, state } = run;
    let relived = Arc::new(Mutex::new(Relived::default()));
    let (handle, deck) = spawn_again(&tape, &transcript, state, again(Arc::clone(&relived)))?;
    let (mut events, task) = (handle.events, handle.task);
    let watching = async {
        // Nobody watches a replay, but what is told must go somewhere.
        while events.recv().await.is_some() {}
    };
    let ended = tokio::select! {
        () = watching => Ok(()),
        () = deck.is_over() => Err(()),
    };
    if ended.is_err() {
        task.abort();
    }
    // An aborted task is no news; one that failed is.
    if let Err(error) = task.await
        && error.is_panic()
    {
        return Err(format!("the replay of {} failed: {error}", tape.path.display()));
    }
    let relived = std::mem::take(&mut *relived.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(judge(tape.path, &deck, relived))
}

fn judge(tape: PathBuf, deck: &Deck, relived: Relived) -> Replayed {
    let (Progress { lines, requests, entries }, over) = deck.played();
    let verdict = match over {
        None => Verdict::Same,
        Some(Over::Cut(why)) => Verdict::SameSoFar(why),
        Some(Over::Diverged(how)) => Verdict::Different(how),
    };
    Replayed { tape, lines, requests, entries, relived, verdict }
}
