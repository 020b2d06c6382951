//! The tools on a real disk and with real processes, through the contract that control uses.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests set the scene on the disk")]
#![expect(clippy::print_stdout, reason = "what could not be tested here, and why")]
#![expect(clippy::unwrap_used, reason = "a scene that cannot be set is a failed test")]

mod bash;
#[cfg(target_os = "linux")]
mod cage;
mod content;
#[cfg(target_os = "linux")]
mod custody;
mod edit;
mod errors;
mod files;
mod git;
mod history;
mod host;
mod jobs;
mod journal;
mod notebook;
mod properties;
mod race;
mod read;
mod replay;
#[cfg(target_os = "linux")]
mod sandbox;
mod search;
mod web;

use ostler_proto::{Intent, Json, ToolError, ToolOutput};
use ostler_tools::{
    Artifacts, PlanContext, Progress, ReadPolicy, Registry, RunContext,
    builtin::{Kit, Manner, all_with},
    host::{FileState, Jobs, Local, Room},
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
    /// Where long output goes.
    kept: tempfile::TempDir,
    dir: PathBuf,
    tools: Registry,
    cx: PlanContext,
    jobs: Arc<Jobs>,
}

impl Scene {
    fn new() -> Self {
        Self::with(Manner::default(), Room::default())
    }

    /// A scene whose commands are run in another manner, and keep less of what they print.
    fn with(manner: Manner, room: Room) -> Self {
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
            plan_file: None,
        };
        let kept = tempfile::tempdir().unwrap();
        let jobs = Arc::new(Jobs::with_room(Some(Artifacts::new(&kept.path().join("kept"))), room));
        let tools = all_with(Kit { manner, jobs: Arc::clone(&jobs), ..Kit::default() });
        Self { _temp: temp, kept, dir, tools: Registry::new(tools).unwrap(), cx, jobs }
    }

    /// A scene of its own in a folder that is already there.
    fn at(dir: &Path) -> Self {
        let scene = Self::new();
        let cx = PlanContext { cwd: dir.to_owned(), roots: vec![dir.to_owned()], ..scene.cx };
        Self { dir: dir.to_owned(), cx, ..scene }
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
        call: "call".into(),
        cancel: CancellationToken::new(),
        progress: Progress::to(tx),
        terms: ostler_tools::host::Terms::default(),
    }
}

impl Scene {
    /// The names and sizes of what commands have left on the disk.
    fn kept(&self) -> Vec<(String, u64)> {
        let Ok(entries) = self.kept.path().join("kept").read_dir() else { return Vec::new() };
        let entries = entries.map(Result::unwrap);
        entries
            .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len()))
            .collect()
    }
}

/// Whether a name is in the folder.
fn exists(folder: &Path, name: &str) -> bool {
    folder.join(name).symlink_metadata().is_ok()
}
