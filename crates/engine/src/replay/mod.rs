//! Runs a recorded session again, offline, and says whether it was the same: every request byte for byte and every
//! line of the transcript. Reads only; nothing is sent, run or written.

use crate::{
    session::{State, load_first},
    spawn::spawn_again,
    world::{
        deck::Deck,
        player::{Over, Progress},
        tape::{Tape, folder},
    },
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// Replays all that was recorded of a session. The error names what is missing or damaged.
pub async fn replay(transcript: &Path) -> Result<Vec<Replayed>, String> {
    let folder = folder(transcript);
    let paths =
        Tape::all_in(&folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut replayed = Vec::with_capacity(paths.len());
    for path in paths {
        replayed.push(replay_tape(&path, transcript).await?);
    }
    Ok(replayed)
}

async fn replay_tape(path: &Path, transcript: &Path) -> Result<Replayed, String> {
    let tape = Tape::read(path)?;
    let state = match tape.head.transcript {
        0 => State::default(),
        bytes => load_first(transcript, bytes).map_err(|error| error.to_string())?.state,
    };
    let (handle, deck) = spawn_again(&tape, transcript, state)?;
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
        return Err(format!("the replay of {} failed: {error}", path.display()));
    }
    Ok(judge(path, &deck))
}

fn judge(path: &Path, deck: &Arc<Deck>) -> Replayed {
    let (Progress { lines, requests, entries }, over) = deck.played();
    let verdict = match over {
        None => Verdict::Same,
        Some(Over::Cut(why)) => Verdict::SameSoFar(why),
        Some(Over::Diverged(how)) => Verdict::Different(how),
    };
    Replayed { tape: path.to_owned(), lines, requests, entries, verdict }
}
