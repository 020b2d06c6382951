//! The contract between a tool and the control plane: plan first, run only when control says so.

use crate::host::{FileState, Host, Terms};
use futures_util::future::BoxFuture;
use ostler_proto::{CallId, Intent, Json, ToolError, ToolOutput, ToolSpec};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Something a model can propose to use.
///
/// Implementors owe: `plan` parses and looks but never changes anything, starts no process and
/// opens no connection; the effect does exactly what the intent says; dropping the effect's
/// future cancels it and leaves nothing running or half written.
pub trait Tool: Send + Sync {
    /// What the tool is.
    fn spec(&self) -> &ToolSpec;

    /// Turns an input that fits the schema into an intent and a held-back effect.
    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>>;
}

/// What a tool may look at while planning.
#[derive(Clone)]
pub struct PlanContext {
    /// Where relative paths start and commands run.
    pub cwd: PathBuf,
    /// The working directories: the first is where the session started.
    pub roots: Vec<PathBuf>,
    /// The machine.
    pub host: Arc<dyn Host>,
    /// What the model has seen of which file.
    pub files: Arc<FileState>,
    /// What rules say about files that are met rather than named.
    pub read_policy: ReadPolicy,
    /// Where the session's plan is kept.
    pub plan_file: Option<PathBuf>,
}

/// What the rules say about a file that a search met. Who names a file is judged as a whole call;
/// who walks a tree asks here for every file before looking into it.
#[derive(Clone)]
pub struct ReadPolicy(Option<Arc<Judge>>);

type Judge = dyn Fn(&Path) -> Sight + Send + Sync;

/// Whether a file that was met may be looked into and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// No rule speaks about it.
    Open,
    /// Reading it by name would ask first.
    Asks,
    /// Reading it is denied.
    Closed,
}

/// What a call would do, and the doing, kept apart.
pub struct Plan {
    /// Plain data: shown, judged, scheduled, recorded.
    pub intent: Intent,
    /// The doing, held back.
    pub effect: Effect,
}

/// The held-back part of a plan. Control runs it, in one place, once.
pub struct Effect(Box<dyn FnOnce(RunContext) -> EffectFuture + Send>);

type EffectFuture = BoxFuture<'static, Result<ToolOutput, ToolError>>;

/// What a running effect is given.
pub struct RunContext {
    /// The call that runs.
    pub call: CallId,
    /// Cancelled when the call must end; for work that dropping cannot stop, such as blocking threads.
    pub cancel: CancellationToken,
    /// Where to show output while it comes.
    pub progress: Progress,
    /// On which terms processes run that the call starts.
    pub terms: Terms,
}

/// Shows output of a running call. Pieces are dropped rather than slowing the call down.
#[derive(Clone)]
pub struct Progress(mpsc::Sender<String>);

impl Effect {
    /// Holds back an effect.
    pub fn new<F, R>(effect: F) -> Self
    where
        F: FnOnce(RunContext) -> R + Send + 'static,
        R: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        Self(Box::new(move |cx| Box::pin(effect(cx))))
    }

    /// Lets it happen.
    pub fn run(self, cx: RunContext) -> EffectFuture {
        (self.0)(cx)
    }
}

impl ReadPolicy {
    /// A policy that speaks about no file.
    pub fn open() -> Self {
        Self(None)
    }

    /// A policy by one spelling of an absolute path. It is asked often and from many threads.
    pub fn new(judge: impl Fn(&Path) -> Sight + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(judge)))
    }

    /// Whether no file needs to be asked about.
    pub fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// What the rules say about one spelling of a path.
    pub fn sight(&self, path: &Path) -> Sight {
        self.0.as_ref().map_or(Sight::Open, |judge| judge(path))
    }
}

impl Progress {
    /// Progress that arrives at the other end of the channel.
    pub fn to(tx: mpsc::Sender<String>) -> Self {
        Self(tx)
    }

    /// Progress that nobody sees.
    pub fn unseen() -> Self {
        Self(mpsc::channel(1).0)
    }

    /// Shows a piece of output.
    pub fn say(&self, text: String) {
        // A full or closed channel only costs a progress line, never the call.
        let _ = self.0.try_send(text);
    }
}
