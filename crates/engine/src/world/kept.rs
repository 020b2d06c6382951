//! The door to checkpoints: what they hold, and what became of files that were put back, as far as the loop has to
//! know it, live or from a tape. Nothing is put back from a tape.

use super::hands::{Doer, Hands};
use crate::{
    rewind::{self, Checkpoint, Row, Way, What},
    session::State,
};
use ostler_control::{
    checkpoint::{CheckpointError, OperationId},
    executor::Kept,
};
use ostler_proto::{EntryId, Trial};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const STORE: &str = "checkpoints";
const ROWS: &str = "prompts to go back to";
const OF_PROMPT: &str = "a prompt's checkpoint";
const LAST_REWIND: &str = "the last rewind";
const PUT_BACK: &str = "files put back";

/// The checkpoints of a session.
#[derive(Clone)]
pub(crate) enum Store {
    /// A real store.
    Open(Kept),
    /// What one said, on a tape.
    Taped,
}

/// What became of files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct PutBack {
    /// As people read it.
    pub(crate) report: String,
    /// All that changed, folders too.
    pub(crate) changed: Vec<PathBuf>,
    /// The files and links that changed.
    pub(crate) files: Vec<PathBuf>,
    /// Lines added.
    pub(crate) insertions: usize,
    /// Lines taken away.
    pub(crate) deletions: usize,
    /// What was left because a link stands there.
    pub(crate) skipped_links: Vec<PathBuf>,
    /// What was left as it is, and why.
    pub(crate) kept: Vec<(PathBuf, String)>,
}

/// A row on a tape.
#[derive(Serialize, Deserialize)]
struct TapedRow {
    prompt: Option<EntryId>,
    title: String,
    /// Number, time and changes.
    checkpoint: Option<(i64, i64, usize)>,
    is_said: bool,
}

impl Hands {
    /// The session's checkpoints; none when nothing is kept.
    pub(crate) async fn checkpoints(&self) -> Result<Option<Store>, String> {
        let executor = match &self.doer {
            Doer::Executor(executor) => executor,
            Doer::Tape(_) => {
                let is_there: Result<bool, String> = self.deck.again(STORE, Ok(false));
                return is_there.map(|is_there| is_there.then_some(Store::Taped));
            }
        };
        let kept = executor.checkpoints().await.map_err(|error| error.to_string());
        // Only whether there is one matters later.
        let _written = self.deck.gave(STORE, kept.as_ref().map(Option::is_some).map_err(Clone::clone));
        Ok(kept?.map(Store::Open))
    }

    /// The prompts that can be gone back to.
    pub(crate) async fn rows(&self, store: Option<&Store>, state: &State) -> Result<Vec<Row>, String> {
        let listed = match (&self.doer, store) {
            (Doer::Tape(_), _) => {
                let rows: Result<Vec<TapedRow>, String> = self.deck.again(ROWS, Ok(Vec::new()));
                return rows.map(|rows| rows.into_iter().map(Row::from).collect());
            }
            (Doer::Executor(_), Some(Store::Open(kept))) => {
                blocking(kept, |kept| kept.checkpoints.checkpoints(&kept.session)).await
            }
            (Doer::Executor(_), Some(Store::Taped) | None) => Ok(Vec::new()),
        };
        let rows = listed.map(|listed| rewind::rows(listed, state)).map_err(|error| error.to_string());
        let taped = |rows: &Vec<Row>| rows.iter().map(TapedRow::from).collect::<Vec<_>>();
        // Written as it is read back.
        let _written = self.deck.gave(ROWS, rows.as_ref().map(taped).map_err(Clone::clone));
        rows
    }

    /// The checkpoint of a prompt, if there is one.
    pub(crate) async fn checkpoint_of(
        &self,
        store: &Store,
        prompt: EntryId,
    ) -> Result<Option<OperationId>, String> {
        let found = move |kept: &Kept| match kept.checkpoints.checkpoint(&kept.session, &prompt) {
            Ok(OperationId(number)) => Ok(Some(number)),
            Err(CheckpointError::NotFound) => Ok(None),
            Err(error) => Err(error),
        };
        Ok(self.ask_store(OF_PROMPT, store, found).await?.map(OperationId))
    }

    /// The rewind that an undo takes back.
    pub(crate) async fn last_rewind(
        &self,
        store: &Store,
        what: Option<What>,
    ) -> Result<Option<OperationId>, String> {
        let found = move |kept: &Kept| {
            let operation = match what {
                None => rewind::newest_rewind(kept)?,
                Some(_) => Some(kept.checkpoints.last_rewind(&kept.session)?),
            };
            Ok(operation.map(|OperationId(number)| number))
        };
        Ok(self.ask_store(LAST_REWIND, store, found).await?.map(OperationId))
    }

    /// Puts files back, or says what that would do. What the model saw of them counts for nothing then.
    pub(crate) async fn put_back(&self, store: &Store, way: Way, cwd: PathBuf) -> Result<PutBack, String> {
        if let (Doer::Tape(taped), Trial::No) = (&self.doer, way.trial)
            && taped.runs_calls()
        {
            self.deck.cut("files were put back here, which is not done again in a scratch copy");
        }
        let put_back = self.ask_store(PUT_BACK, store, move |kept| put_back(kept, way, &cwd)).await?;
        if way.trial == Trial::No {
            self.forget_seen(put_back.changed.iter().map(PathBuf::as_path));
        }
        Ok(put_back)
    }

    async fn ask_store<T: Serialize + for<'a> Deserialize<'a> + Send + 'static>(
        &self,
        of: &str,
        store: &Store,
        work: impl FnOnce(&Kept) -> Result<T, CheckpointError> + Send + 'static,
    ) -> Result<T, String> {
        match store {
            Store::Open(kept) => {
                let said = blocking(kept, work).await.map_err(|error| error.to_string());
                self.deck.gave(of, said)
            }
            Store::Taped => self.deck.again(of, Err("the recording ends here".to_owned())),
        }
    }
}

fn put_back(kept: &Kept, way: Way, cwd: &Path) -> Result<PutBack, CheckpointError> {
    let (rewound, lines) = rewind::files(kept, way)?;
    Ok(PutBack {
        report: rewind::report(&rewound, lines, way.trial, cwd),
        changed: rewound.changes.iter().map(|change| change.path.clone()).collect(),
        files: rewound.files().map(|change| change.path.clone()).collect(),
        insertions: lines.insertions,
        deletions: lines.deletions,
        skipped_links: rewound.skipped_links().map(Path::to_owned).collect(),
        kept: rewound.kept.iter().map(|kept| (kept.path.clone(), kept.why.to_string())).collect(),
    })
}

async fn blocking<T: Send + 'static>(
    kept: &Kept,
    work: impl FnOnce(&Kept) -> Result<T, CheckpointError> + Send + 'static,
) -> Result<T, CheckpointError> {
    let kept = kept.clone();
    let done = tokio::task::spawn_blocking(move || work(&kept)).await;
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

impl From<&Row> for TapedRow {
    fn from(Row { prompt, title, checkpoint, is_said }: &Row) -> Self {
        let numbers = |checkpoint: Checkpoint| (checkpoint.operation.0, checkpoint.made, checkpoint.changed);
        let checkpoint = checkpoint.map(numbers);
        Self { prompt: prompt.clone(), title: title.clone(), checkpoint, is_said: *is_said }
    }
}

impl From<TapedRow> for Row {
    fn from(TapedRow { prompt, title, checkpoint, is_said }: TapedRow) -> Self {
        let of = |(operation, made, changed)| Checkpoint { operation: OperationId(operation), made, changed };
        Self { prompt, title, checkpoint: checkpoint.map(of), is_said }
    }
}
