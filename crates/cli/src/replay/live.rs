//! `ostler replay --live-tools`: the calls of a recording run again, in a copy of the project that stands where the
//! project does. One process makes the copy and starts another one, which is set apart before it does anything: to it
//! the copy is the project, all else can only be read, and there is no network.
#![expect(clippy::disallowed_methods, reason = "a scratch folder that no tool and no session writes")]

use super::{Replay, copy, copy::Most, tell};
use crate::{Ended, args::Args, complain, machine::Machine, rewind, signals::Signals, wire};
use anyhow::{Context, anyhow, bail, ensure};
use ostler_control::checkpoint::{Checkpoints, Force};
use ostler_engine::replay::{Live, Replayed, Run, replay, replay_live, tapes};
use ostler_proto::EntryId;
use ostler_tools::host::{
    Confinement, StandIn, Warden, enter_apart,
    process::{Launch, start},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// How much is copied of a project, and of its checkpoints.
const MOST: Most = Most { bytes: 4 << 30, entries: 500_000 };
/// The file in the scratch folder that says what stands in for what.
const LAYOUT: &str = "layout.json";

/// What the process that is set apart must know.
#[derive(Serialize, Deserialize)]
struct Layout {
    /// The tree that was copied.
    root: PathBuf,
    /// Each folder of the scratch folder, and where it is seen.
    stand_ins: Vec<(PathBuf, PathBuf)>,
}

/// Copies the project and has another process replay the session there.
pub(super) async fn run(words: &Replay, transcript: &Path, machine: &Machine) -> anyhow::Result<Ended> {
    let tapes = tapes(transcript).map_err(|problem| anyhow!(problem))?;
    let first = tapes.first().with_context(|| super::no_recording(transcript))?;
    let folder = Run::read(first, transcript).map_err(|problem| anyhow!(problem))?.folder().to_owned();
    ensure!(folder.is_dir(), "{} was recorded in {}, which is gone", transcript.display(), folder.display());
    let mut signals = Signals::listen().context("cannot listen to signals")?;
    let scratch = tempfile::Builder::new().prefix("ostler-replay-").tempdir();
    let scratch = scratch.context("cannot make a scratch folder")?;
    let code = run_in(scratch.path(), (words, transcript), (&folder, machine), &mut signals).await;
    let place = scratch.path().to_owned();
    // A folder that a command made unreadable would stay; nothing else of it matters.
    if let Err(error) = scratch.close() {
        complain(&format!("ostler: {} cannot be removed: {error}\n", place.display()));
    }
    code.map(Ended::InOrder)
}

async fn run_in(
    scratch: &Path,
    (words, transcript): (&Replay, &Path),
    (folder, machine): (&Path, &Machine),
    signals: &mut Signals,
) -> anyhow::Result<u8> {
    let (scratch, transcript) = (scratch.canonicalize()?, transcript.canonicalize()?);
    if let Some(code) = fill(&scratch, &transcript, machine.moved_to(folder.to_owned()), signals).await? {
        return Ok(code);
    }
    let inside = start(Launch {
        program: machine.program.as_os_str(),
        args: inside_words(words, &transcript, &scratch),
        cwd: folder,
        env: &environment(machine, &scratch),
        stdio: [Stdio::null(), Stdio::inherit(), Stdio::inherit()],
        confinement: &Confinement::Free,
        warden: Some(&Warden::new(machine.program.clone())),
    });
    let inside = inside.context("cannot start the replay")?;
    let stopped = tokio::select! {
        ended = inside.ended() => ended.map(|()| None)?,
        code = signals.first() => Some(code),
    };
    let status = inside.finish()?;
    Ok(stopped.or(status.code().and_then(|code| u8::try_from(code).ok())).unwrap_or(1))
}

/// Fills the scratch folder; gives an exit code if a signal came first.
async fn fill(
    scratch: &Path,
    transcript: &Path,
    machine: Machine,
    signals: &mut Signals,
) -> anyhow::Result<Option<u8>> {
    let (place, of, stop) = (scratch.to_owned(), transcript.to_owned(), Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop);
    let mut filling = tokio::task::spawn_blocking(move || prepare(&place, &of, &machine, &stopped));
    tokio::select! {
        filled = &mut filling => filled?.map(|()| None),
        code = signals.first() => {
            stop.store(true, Ordering::Relaxed);
            // It ends with the next file, and that it does is no news.
            let _ = filling.await;
            Ok(Some(code))
        }
    }
}

/// In the process that is set apart, before it has any thread: makes the scratch folder's copies stand in.
pub(crate) fn enter(scratch: &Path) -> anyhow::Result<()> {
    let layout = Layout::read(scratch)?;
    let stand_ins = layout.stand_ins.into_iter().map(|(folder, at)| StandIn { folder, at });
    enter_apart(&stand_ins.collect::<Vec<_>>()).context(
        "this machine does not let a process be set apart (user namespaces), which --live-tools needs",
    )
}

/// In the process that is set apart: replays every run, each in the state that the project was in before it.
pub(super) async fn run_inside(
    words: &Replay,
    scratch: &Path,
    transcript: &Path,
    (args, machine): (&Args, &Machine),
) -> anyhow::Result<u8> {
    let layout = Layout::read(scratch)?;
    let mut runs = Vec::new();
    for tape in tapes(transcript).map_err(|problem| anyhow!(problem))? {
        let run = Run::read(&tape, transcript).map_err(|problem| anyhow!(problem))?;
        let (scratch, transcript) = (scratch.to_owned(), transcript.to_owned());
        let (root, args, machine) = (layout.root.clone(), args.clone(), machine.clone());
        let set_up = move || -> anyhow::Result<(Run, Option<Live>)> {
            if !run.folder().starts_with(&root) {
                let folder = run.folder().display();
                complain(&format!("ostler: a run was in {folder}: its calls are not run again\n"));
                return Ok((run, None));
            }
            let live = set_up(
                &run,
                &machine.moved_to(run.folder().to_owned()),
                &args,
                &Around { root, beside: transcript.with_extension(""), scratch },
            )?;
            Ok((run, Some(live)))
        };
        let replayed: Result<Replayed, String> = match tokio::task::spawn_blocking(set_up).await?? {
            (run, Some(live)) => replay_live(run, live).await,
            (run, None) => replay(run).await,
        };
        runs.push(replayed.map_err(|problem| anyhow!(problem))?);
    }
    Ok(tell(&runs, transcript, words))
}

/// Folders that matter to a replay.
struct Around {
    root: PathBuf,
    /// The session's own folder.
    beside: PathBuf,
    scratch: PathBuf,
}

fn set_up(run: &Run, machine: &Machine, args: &Args, around: &Around) -> anyhow::Result<Live> {
    match go_back(run, machine) {
        Ok(notes) => notes.iter().for_each(|note| complain(&format!("ostler: {note}\n"))),
        Err(error) => complain(&format!(
            "ostler: files could not be put back to before the run, so they are as they are now: {error:#}\n"
        )),
    }
    let artifacts = around.beside.join("tool-results");
    let executor = wire::executor_again(args, machine, run, (&artifacts, &around.scratch))?;
    Ok(Live { executor, inside: vec![around.root.clone(), around.beside.clone()] })
}

/// Puts the copy back to before the first prompt of a run; says what stayed as it is.
fn go_back(run: &Run, machine: &Machine) -> anyhow::Result<Vec<String>> {
    let place = rewind::place(machine);
    ensure!(place.folder.exists(), "there are no checkpoints of {}", machine.cwd.display());
    let (checkpoints, _) = Checkpoints::open(&place)?;
    let lines: HashSet<EntryId> = run.lines().map_err(|problem| anyhow!(problem))?.into_iter().collect();
    let listed = checkpoints.checkpoints(run.session())?;
    let is_of_run = |prompt: &Option<EntryId>| prompt.as_ref().is_some_and(|prompt| lines.contains(prompt));
    let Some(first) = listed.iter().find(|listed| is_of_run(&listed.operation.prompt)) else {
        bail!("no checkpoint of the run is left");
    };
    let rewound = checkpoints.restore(run.session(), first.operation.id, Force::OverwriteOthers)?;
    let kept = rewound.kept.iter();
    Ok(kept.map(|kept| format!("{} is not as it was before: {}", kept.path.display(), kept.why)).collect())
}

/// Fills the scratch folder.
fn prepare(scratch: &Path, transcript: &Path, machine: &Machine, stop: &AtomicBool) -> anyhow::Result<()> {
    let root = match machine.git_folder() {
        Some(git) => git.parent().unwrap_or(&machine.cwd).to_owned(),
        None => machine.cwd.clone(),
    };
    ensure!(
        !scratch.starts_with(&root),
        "temporary files lie within {}; set TMPDIR to a folder elsewhere",
        root.display()
    );
    let own = machine.config_dir();
    let (beside, checkpoints) = (transcript.with_extension(""), rewind::place(machine).folder);
    for folder in [&own, &beside, &checkpoints] {
        ensure!(
            !folder.starts_with(&root),
            "{} lies within {}, of which a copy would have to be made",
            folder.display(),
            root.display()
        );
    }
    let mut stand_ins = vec![(scratch.to_owned(), scratch.to_owned())];
    for (name, at) in [("project", &root), ("session", &beside), ("checkpoints", &checkpoints)] {
        if at.exists() {
            let folder = scratch.join(name);
            copy::copy(at, &folder, MOST, stop)?;
            stand_ins.push((folder, at.canonicalize()?));
        }
    }
    std::fs::create_dir(scratch.join("tmp"))?;
    let layout = Layout { root, stand_ins };
    Ok(std::fs::write(scratch.join(LAYOUT), serde_json::to_vec(&layout)?)?)
}

fn inside_words(words: &Replay, transcript: &Path, scratch: &Path) -> Vec<std::ffi::OsString> {
    let mut inside: Vec<std::ffi::OsString> = vec!["replay".into(), transcript.into()];
    inside.extend(["--live-tools".into(), "--inside".into(), scratch.into()]);
    inside.extend(words.json.then(|| "--json".into()));
    inside
}

/// As ours, without keys: nobody is asked anything.
fn environment(machine: &Machine, scratch: &Path) -> Vec<(String, String)> {
    let mut env = machine.child_env(&["*".to_owned()], &[]);
    env.retain(|(name, _)| name != "TMPDIR");
    env.push(("TMPDIR".to_owned(), scratch.join("tmp").display().to_string()));
    env
}

impl Layout {
    fn read(scratch: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read(scratch.join(LAYOUT));
        let text = text.with_context(|| format!("{} is no scratch folder of a replay", scratch.display()))?;
        Ok(serde_json::from_slice(&text)?)
    }
}
