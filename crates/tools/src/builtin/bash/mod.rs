//! `Bash`: runs a command in a fresh shell that starts where the last one ended, waits for it or lets it
//! run on as a job. Whether it may run, and how confined, is decided elsewhere.

mod advice;
mod result;
mod words;

pub use advice::Preference;

use super::{parse, seen, spec};
use crate::{
    Effect, Plan, PlanContext, RunContext, Tool,
    host::{Confinement, Exit, Finished, Jobs, Kind, Line, Recording, Running, Shell, Start, sandbox},
    text,
};
use futures_util::future::BoxFuture;
use ostler_proto::{
    Access, Footprint, Intent, Interrupt, Json, Preview, StateChange, ToolError, ToolOutput, ToolSpec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const DESCRIPTION: &str = "Runs a bash command and returns its output, stdout and stderr together. The working \
directory carries over to the next call, variables do not; there is no input and no terminal. What it leaves \
in the background is killed when it ends: use run_in_background for servers, watchers and long builds, and \
TaskOutput to see what they print.";
const GUIDANCE: &str = "Use Bash for builds, tests, version control and other programs; for files use the tools \
made for them. Commit with git commit -F - <<'EOF', the message in the here-document, never quoted.";

const DEFAULT_TIMEOUT: u64 = 120_000;
const MAX_TIMEOUT: u64 = 600_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(non_snake_case, reason = "the name is what models and hosts know")]
struct Input {
    /// The command.
    command: String,
    /// Milliseconds it may take: 120000 unless told, at most 600000.
    timeout: Option<u64>,
    /// What it does, in a few words for the user.
    description: Option<String>,
    /// Return at once and let it run; you are told when it ends.
    #[serde(default)]
    run_in_background: bool,
    /// Ask to run it outside the sandbox; only after it failed because of that.
    #[serde(default)]
    dangerouslyDisableSandbox: bool,
}

/// How commands are run beyond what each call says.
#[derive(Debug, Clone, Default)]
pub struct Manner {
    /// What happens to commands that another tool does better.
    pub prefer: Preference,
    /// The line that ends commit messages, where the user wants one.
    pub commit_trailer: Option<String>,
}

/// The tool.
pub(super) struct Bash {
    spec: ToolSpec,
    prefer: Preference,
    session: Arc<Session>,
}

/// What the calls of a session share.
struct Session {
    jobs: Arc<Jobs>,
    /// Tools that were spoken of already.
    hinted: Mutex<BTreeSet<&'static str>>,
}

/// One call, ready to run.
struct Call {
    input: Input,
    cwd: PathBuf,
    hint: Option<&'static str>,
    session: Arc<Session>,
}

/// A command under way, and all that is needed to end it or to let it go on.
struct Underway {
    running: Running,
    start: Start,
    stop: CancellationToken,
    output: Arc<Recording>,
}

impl Bash {
    pub(super) fn new(manner: &Manner, jobs: Arc<Jobs>) -> Self {
        let guidance = match &manner.commit_trailer {
            Some(trailer) => format!("{GUIDANCE} End each message with the line: {trailer}"),
            None => GUIDANCE.to_owned(),
        };
        let spec = spec::<Input>("Bash", DESCRIPTION, Interrupt::Cancel).guided(&guidance);
        Self {
            spec: ToolSpec { max_result: result::MAX_RESULT, ..spec },
            prefer: manner.prefer,
            session: Arc::new(Session { jobs, hinted: Mutex::default() }),
        }
    }

    /// What cannot or should not be run this way is told before anybody is asked.
    fn check(&self, input: &Input) -> Result<(), ToolError> {
        if input.command.trim().is_empty() {
            return Err(ToolError::failed("the command is empty"));
        }
        if input.command.contains('\0') {
            return Err(ToolError::failed("the command contains a NUL character"));
        }
        if let (false, Some(seconds)) = (input.run_in_background, advice::long_sleep(&input.command)) {
            return Err(ToolError::Failed(format!(
                "a command that only sleeps for {seconds} seconds holds everything up: to wait for a background \
                 command use TaskOutput with block, to wait for something else loop until it is there \
                 (until CHECK; do sleep 1; done), or sleep with run_in_background"
            )));
        }
        match (self.prefer, advice::better_tool(&input.command)) {
            (Preference::Deny, Some(tool)) => {
                Err(ToolError::Failed(format!("this command is not run here: use the {tool} tool instead")))
            }
            (Preference::Deny | Preference::Hint | Preference::Off, _) => Ok(()),
        }
    }
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("Bash", input)?;
            self.check(&input)?;
            let cwd = starting_directory(cx).await?;
            let intent = Intent {
                title: title(&input),
                access: Access::Execute {
                    command: input.command.clone(),
                    cwd: cwd.clone(),
                    footprint: Footprint::default(),
                },
                preview: Preview::Text(input.command.clone()),
            };
            let hint =
                (self.prefer == Preference::Hint).then(|| advice::better_tool(&input.command)).flatten();
            let call = Call { input, cwd, hint, session: Arc::clone(&self.session) };
            let cx = cx.clone();
            Ok(Plan { intent, effect: Effect::new(move |run| execute(call, cx, run)) })
        })
    }
}

/// The working directory, or where the session started if it is gone.
async fn starting_directory(cx: &PlanContext) -> Result<PathBuf, ToolError> {
    for directory in std::iter::once(&cx.cwd).chain(cx.roots.first()) {
        if cx.host.stat(&real(directory, cx).await?).await?.is_some_and(|stat| stat.kind == Kind::Directory) {
            return Ok(directory.clone());
        }
    }
    Err(ToolError::Failed(format!("the working directory {} does not exist any more", cx.cwd.display())))
}

/// What the call does, and always how it differs from what commands usually may.
fn title(input: &Input) -> String {
    let line = described(input);
    let line = text::first(line, 120).map_or_else(|| line.to_owned(), |start| format!("{start}…"));
    let background = if input.run_in_background { " (in the background)" } else { "" };
    let outside = if input.dangerouslyDisableSandbox { " (outside the sandbox)" } else { "" };
    format!("{line}{background}{outside}")
}

fn described(input: &Input) -> &str {
    let described = input.description.as_deref().map(str::trim).filter(|text| !text.is_empty());
    described.unwrap_or(&input.command).trim().lines().next().unwrap_or_default()
}

async fn execute(call: Call, cx: PlanContext, run: RunContext) -> Result<ToolOutput, ToolError> {
    let confinement = run.terms.confinement.clone();
    let mut underway = prepare(&call, &cx, run);
    if call.input.run_in_background {
        return in_background(&call, underway);
    }
    let timeout = call.input.timeout.unwrap_or(DEFAULT_TIMEOUT).clamp(1, MAX_TIMEOUT);
    if let Ok(finished) = tokio::time::timeout(Duration::from_millis(timeout), &mut underway.running).await {
        let finished = finished?;
        let mut output = finish(&call, &cx, &finished, &underway.output).await?;
        result::add_notes(&mut output, blamed(&finished, &confinement, &underway.output).into_iter());
        return Ok(output);
    }
    // A flood is not let go on: it would flood for ever.
    if advice::may_go_on(&call.input.command) && !underway.output.overflowed() {
        match call.session.jobs.adopt(underway.start, underway.running) {
            Ok(job) => return Ok(result::moved_to_background(&job, timeout, &underway.output)),
            Err(running) => underway.running = running,
        }
    }
    underway.stop.cancel();
    underway.running.await?;
    let shown = result::Shown::failure(&underway.output, call.session.jobs.artifacts()).await;
    Ok(result::timed_out(timeout, &shown))
}

/// Why a confined command may have failed, if its bounds are to blame.
fn blamed(finished: &Finished, confinement: &Confinement, output: &Recording) -> Option<String> {
    match (finished.exit, confinement) {
        (Exit::Code(code), Confinement::Within(bounds)) => {
            let (head, tail) = output.captured().texts();
            sandbox::blame(&format!("{head}\n{tail}"), code, bounds)
        }
        (Exit::Code(_) | Exit::Stopped, _) => None,
    }
}

/// A command that starts when it is first waited for.
fn prepare(call: &Call, cx: &PlanContext, run: RunContext) -> Underway {
    let (id, output) = call.session.jobs.recording();
    let stop = CancellationToken::new();
    let start = Start {
        id,
        call: run.call,
        command: call.input.command.clone(),
        description: described(&call.input).to_owned(),
        output: Arc::clone(&output),
        stop: stop.clone(),
        began: Instant::now(),
    };
    let shell = Shell {
        line: Line::Bash(call.input.command.clone()),
        cwd: call.cwd.clone(),
        terms: run.terms,
        output: Arc::clone(&output),
        stop: stop.clone(),
    };
    let host = Arc::clone(&cx.host);
    let running = Box::pin(async move { host.run(shell, run.progress).await });
    Underway { running, start, stop, output }
}

fn in_background(call: &Call, underway: Underway) -> Result<ToolOutput, ToolError> {
    match call.session.jobs.adopt(underway.start, underway.running) {
        Ok(job) => Ok(result::started_in_background(&job, call.input.dangerouslyDisableSandbox)),
        Err(_) => Err(ToolError::failed(
            "too many commands run in the background: wait for one with TaskOutput, or stop one with TaskStop",
        )),
    }
}

/// What the model gets of a command that came to its end.
async fn finish(
    call: &Call,
    cx: &PlanContext,
    finished: &Finished,
    recording: &Recording,
) -> Result<ToolOutput, ToolError> {
    let (change, note) = moved(finished, &call.cwd, cx).await?;
    let hint = call.hint.filter(|tool| call.session.hints_first_time(tool)).map(advice::hint);
    let artifacts = call.session.jobs.artifacts();
    let mut output = result::of(&call.input.command, finished.exit, recording, artifacts).await;
    result::add_notes(&mut output, note.into_iter().chain(hint));
    output.changes.extend(change);
    if call.input.dangerouslyDisableSandbox {
        output.structured["dangerouslyDisableSandbox"] = Json::Bool(true);
    }
    if let (Exit::Code(0), Some(printed)) = (finished.exit, output.structured["stdout"].as_str()) {
        seen::record(&call.input.command, &call.cwd, cx, printed).await;
    }
    Ok(output)
}

impl Session {
    fn hints_first_time(&self, tool: &'static str) -> bool {
        self.hinted.lock().unwrap_or_else(PoisonError::into_inner).insert(tool)
    }
}

/// Where the next command starts, and what the model is told when that is not where this one ended.
async fn moved(
    finished: &Finished,
    cwd: &Path,
    cx: &PlanContext,
) -> Result<(Option<StateChange>, Option<String>), ToolError> {
    let reset = |why: String| Some(format!("Shell cwd was reset to {}{why}", cwd.display()));
    let (start, note) = match &finished.cwd {
        Some(end) if end != cwd && *end != real(cwd, cx).await? => {
            if is_inside(end, cx).await? {
                (end.as_path(), None)
            } else {
                (cwd, reset(String::new()))
            }
        }
        Some(_) | None if cwd != cx.cwd => (cwd, reset(format!(": {} is gone", cx.cwd.display()))),
        Some(_) | None => (cwd, None),
    };
    let change = (start != cx.cwd).then(|| StateChange::Cwd(start.to_owned()));
    Ok((change, note))
}

/// Whether a directory is in one of the working directories, whichever way those are spelled.
async fn is_inside(directory: &Path, cx: &PlanContext) -> Result<bool, ToolError> {
    for root in &cx.roots {
        if directory.starts_with(real(root, cx).await?) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn real(directory: &Path, cx: &PlanContext) -> Result<PathBuf, ToolError> {
    Ok(cx.host.resolve(&directory.to_string_lossy(), Path::new("/")).await?.target)
}
