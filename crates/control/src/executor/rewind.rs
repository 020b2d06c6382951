//! What a session does with its checkpoints beside calls: prompts become some, the project is taken in before
//! the first command needs it, and after a rewind the model no longer counts as knowing the files.

use super::{ExecEvent, Executor, Kept};
use crate::checkpoint::CheckpointError;
use ostler_proto::EntryId;
use ostler_tools::host::FileState;
use std::{path::Path, sync::Arc, time::Duration};

/// How long a session must last before the project is taken in: a question that is answered at once needs no undo.
const BEFORE_TAKING_IN: Duration = Duration::from_millis(300);

impl Executor {
    /// Finishes what a process that died had begun to put back; says what that was. To be called before
    /// anything of the session runs.
    pub async fn recover(&self) -> Vec<String> {
        self.shared.undo.recover().await
    }

    /// A prompt came: what changes from here on can be undone to before it. The first one also has the
    /// project taken in, while the model thinks.
    pub fn prompted(&mut self, prompt: EntryId, title: String) {
        self.shared.undo.prompted(prompt, title);
        self.watch_files();
        // Nobody takes tasks out of it, so it is empty only once.
        if self.upkeep.is_empty() {
            let shared = Arc::clone(&self.shared);
            self.upkeep.spawn(async move {
                tokio::time::sleep(BEFORE_TAKING_IN).await;
                let roots = shared.policy().roots.clone();
                for text in shared.undo.warm(roots).await {
                    // About no call: its number keeps it from being taken for a leftover of one.
                    let news = (u64::MAX, ExecEvent::Noticed(text));
                    // The receiver goes only with the whole executor; then nobody is left to tell.
                    let _ = shared.tx.send(news).await;
                }
            });
        }
    }

    /// The session's checkpoints; none when nothing is kept.
    pub async fn checkpoints(&self) -> Result<Option<Kept>, CheckpointError> {
        self.shared.undo.store().await
    }

    /// Files were put back: what the model saw of them counts for nothing.
    pub fn forget_seen<'a>(&self, paths: impl Iterator<Item = &'a Path>) {
        paths.for_each(|path| self.shared.files.forget(path));
    }

    /// The conversation went back: the model has seen no file for certain.
    pub fn forget_all_seen(&self) {
        self.shared.files.restore(FileState::default());
    }
}
