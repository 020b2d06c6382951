//! Which session a run goes on with, and whether in its own file or in a copy.

use crate::{
    args::Args,
    complain,
    machine::Machine,
    session::{self, Found},
};
use anyhow::{bail, ensure};
use ostler_engine::rewind::count;
use ostler_engine::{
    Origin,
    session::{Fork, Loaded, Log, LogError, State, Store, Until, Writer, load_until},
};
use ostler_proto::{EntryId, SessionId};
use std::path::{Path, PathBuf};

/// How many damaged lines are told one by one.
const TOLD: usize = 5;

/// A session to go on with.
pub(super) struct Resumed {
    pub(super) loaded: Loaded,
    pub(super) place: Place,
}

/// Where what comes next is written.
pub(super) enum Place {
    /// Behind what there is.
    SameFile(Log),
    /// To a copy of it, up to here.
    Copy(Until),
}

/// Where a session goes on, from what, and how it came about.
pub(super) struct GoingOn {
    pub(super) id: SessionId,
    pub(super) state: State,
    pub(super) log: Log,
    pub(super) path: PathBuf,
    pub(super) origin: Origin,
}

/// The session that the arguments name, if they name one, to look at.
pub(super) fn resumed(args: &Args, machine: &Machine, store: &Store) -> anyhow::Result<Option<Resumed>> {
    path(args, machine, store)?.map(|path| read(args, store, &path)).transpose()
}

/// The same, to go on with: nobody else can write it from before the first prompt on, or what is said here and there
/// would lead in two directions.
pub(super) fn held(args: &Args, machine: &Machine, store: &Store) -> anyhow::Result<Option<Resumed>> {
    let Some(resumed) = resumed(args, machine, store)? else { return Ok(None) };
    if args.no_session_persistence || matches!(resumed.place, Place::Copy(_)) {
        return Ok(Some(resumed));
    }
    let log = match Log::held(&resumed.loaded.path) {
        Ok(log) => log,
        Err(error @ LogError::Locked { .. }) => return Err(error.into()),
        // Whoever reads the run's result is told when the first line cannot be written.
        Err(LogError::Io { .. } | LogError::Exists { .. }) => return Ok(Some(resumed)),
    };
    // Between our look and our hold, another process may have gone on.
    let resumed = if log.began_at() == Some(resumed.loaded.length) {
        resumed
    } else {
        read(args, store, &resumed.loaded.path)?
    };
    let place = match resumed.place {
        Place::SameFile(_) => Place::SameFile(log),
        Place::Copy(until) => Place::Copy(until),
    };
    Ok(Some(Resumed { place, ..resumed }))
}

fn read(args: &Args, store: &Store, path: &Path) -> anyhow::Result<Resumed> {
    let until = match &args.resume_session_at {
        Some(line) => Until::Line(EntryId::from(line.as_str())),
        None => Until::End,
    };
    let loaded = load_until(path, &until)?;
    tell_losses(&loaded);
    if let Until::Line(line) = &until {
        ensure!(loaded.found, "--resume-session-at: session {} has no line {line}", loaded.id);
        check_dropped(args, &loaded)?;
    }
    let place = place(args, store, &loaded, until);
    Ok(Resumed { loaded, place })
}

impl Resumed {
    /// What comes next, under the wanted id if it is a copy.
    pub(super) fn go_on(self, id: Option<SessionId>, store: &Store, machine: &Machine) -> GoingOn {
        let Self { loaded, place } = self;
        let until = match place {
            Place::SameFile(log) => {
                let Loaded { id, state, path, .. } = loaded;
                return GoingOn { id, state, log, path, origin: Origin::Resumed };
            }
            Place::Copy(until) => until,
        };
        let id = id.unwrap_or_else(|| SessionId(uuid::Uuid::new_v4().to_string()));
        let path = store.path_for(&machine.cwd, &id);
        let fork = Fork {
            from: loaded.path,
            original: loaded.id,
            id: id.clone(),
            until,
            length: loaded.length,
            title: loaded.state.labels.title.clone(),
        };
        let log = Log::forked(path.clone(), fork);
        GoingOn { id, state: loaded.state, log, path, origin: Origin::Forked }
    }
}

/// Whether a person can be asked.
pub(super) fn is_attended(args: &Args, machine: &Machine) -> bool {
    machine.terminals.stdin && machine.terminals.stderr && !args.print
}

fn path(args: &Args, machine: &Machine, store: &Store) -> anyhow::Result<Option<PathBuf>> {
    if args.continue_newest {
        return Ok(Some(store.newest(&machine.cwd)?));
    }
    let Some(wanted) = &args.resume else { return Ok(None) };
    match session::find(wanted, machine)? {
        Found::One(path) => Ok(Some(path)),
        Found::Several(offered) if offered.is_empty() => {
            bail!("there are no sessions of this folder (ostler session list --all shows those of others)")
        }
        Found::Several(offered) if is_attended(args, machine) => session::pick(&offered, machine).map(Some),
        Found::Several(offered) if wanted.is_empty() => {
            complain(&session::table(&offered, machine));
            bail!("say which session to resume: --resume ID, or words of its title or prompts");
        }
        Found::Several(offered) => {
            complain(&session::table(&offered, machine));
            bail!("'{wanted}' stands for {} sessions; resume one of them by its id", offered.len());
        }
        Found::Nothing => bail!("no conversation found with session id {wanted}, nor with such words in it"),
    }
}

fn place(args: &Args, store: &Store, loaded: &Loaded, until: Until) -> Place {
    if args.fork_session {
        return Place::Copy(until);
    }
    if loaded.cut_within_turn
        || (loaded.found && until != Until::End && !loaded.state.unanswered().is_empty())
    {
        complain("ostler: the line is within a turn: going on in a copy, the session stays as it is\n");
        return Place::Copy(until);
    }
    // A file of another program is not ours to write, save where we are its successor.
    if loaded.writer == Writer::Another && !loaded.path.starts_with(&store.homes[0]) {
        complain("ostler: another program wrote this session: going on in a copy, its file stays as it is\n");
        return Place::Copy(until);
    }
    Place::SameFile(Log::of(loaded.path.clone()))
}

fn check_dropped(args: &Args, loaded: &Loaded) -> anyhow::Result<()> {
    let Some(expected) = &args.resume_drops_turn else { return Ok(()) };
    let dropped: Vec<&str> = loaded.dropped_prompts.iter().map(EntryId::as_str).collect();
    if dropped == [expected.as_str()] && !loaded.cut_within_turn {
        return Ok(());
    }
    let what = match dropped.as_slice() {
        [] => "no turn".to_owned(),
        ids => format!("the turns of {}", ids.join(", ")),
    };
    bail!(
        "Resume rejected by --resume-drops-turn: it would leave out {what}, not exactly that of {expected}"
    );
}

fn tell_losses(loaded: &Loaded) {
    let path = loaded.path.display();
    for (line, problem) in loaded.damaged.iter().take(TOLD) {
        complain(&format!("ostler: {path}:{line} cannot be read and was left out: {problem}\n"));
    }
    if let Some(more) = loaded.damaged.len().checked_sub(TOLD).filter(|more| *more > 0) {
        complain(&format!(
            "ostler: and {} more (ostler session fsck {} lists them)\n",
            count(more, "line"),
            loaded.id
        ));
    }
    if loaded.repeated > 0 {
        let lines = match loaded.repeated {
            1 => "a line stands there twice and counts once".to_owned(),
            many => format!("{many} lines stand there twice and count once"),
        };
        complain(&format!("ostler: {path}: {lines}\n"));
    }
    if loaded.left_out > 0 {
        complain(&format!(
            "ostler: {path} is too long for any request: its first {} messages were left out\n",
            loaded.left_out
        ));
    }
}
