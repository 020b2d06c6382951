//! The tools on a real disk and with real processes, through the contract that control uses.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests set the scene on the disk")]
#![expect(clippy::unwrap_used, reason = "a scene that cannot be set is a failed test")]

mod bash;
mod edit;
mod errors;
mod files;
mod history;
mod host;
mod journal;
mod notebook;
mod properties;
mod race;
mod read;
mod replay;
mod search;

use ostler_proto::{Intent, Json, ToolError, ToolOutput};
use ostler_tools::{
    PlanContext, Progress, ReadPolicy, Registry, RunContext,
    builtin::all,
    host::{FileState, Local},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A temporary folder with everything a call needs.
struct Scene {
    _temp: tempfile::TempDir,
    dir: PathBuf,
    tools: Registry,
    cx: PlanContext,
}

impl Scene {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        let bash_env = ("BASH_ENV".to_owned(), "/no/such/file".to_owned());
        let cx = PlanContext {
            cwd: dir.clone(),
            roots: vec![dir.clone()],
            host: Arc::new(Local::new(dir.join("home"), vec![path, bash_env])),
            files: Arc::new(FileState::default()),
            read_policy: ReadPolicy::open(),
        };
        Self { _temp: temp, dir, tools: Registry::new(all()).unwrap(), cx }
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.dir.join(name)).unwrap()
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// Validates, plans and runs a call.
    async fn call(&self, tool: &str, input: Json) -> Result<ToolOutput, ToolError> {
        let tool = self.tools.find(tool).unwrap();
        tool.validate(&input)?;
        tool.plan(input, &self.cx).await?.effect.run(quiet()).await
    }

    /// The text of a call that must succeed.
    async fn ok(&self, tool: &str, input: Json) -> String {
        let output = self.call(tool, input).await.unwrap();
        assert!(!output.is_error, "{output:?}");
        text(&output)
    }

    /// The text of a call that must fail.
    async fn fails(&self, tool: &str, input: Json) -> String {
        match self.call(tool, input).await {
            Err(error) => error.to_string(),
            Ok(output) => panic!("it should have failed: {output:?}"),
        }
    }

    async fn intent(&self, tool: &str, input: Json) -> Intent {
        self.tools.find(tool).unwrap().plan(input, &self.cx).await.unwrap().intent
    }
}

fn text(output: &ToolOutput) -> String {
    output.content.iter().filter_map(|block| block.as_text()).collect()
}

/// A run that nobody watches.
fn quiet() -> RunContext {
    let (tx, _) = mpsc::channel(1);
    RunContext {
        cancel: CancellationToken::new(),
        progress: Progress::to(tx),
        terms: ostler_tools::host::Terms::default(),
    }
}

/// Whether a name is in the folder.
fn exists(folder: &Path, name: &str) -> bool {
    folder.join(name).symlink_metadata().is_ok()
}
