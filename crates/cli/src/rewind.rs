//! `ostler rewind` and `ostler checkpoints`: lists checkpoints, goes back to one, takes that back,
//! and keeps the store small. Decides nothing itself; control does.

use crate::{
    args::{Args, Rewind},
    complain,
    machine::Machine,
    say,
    session::Found,
    wire,
};
use anyhow::{Context, bail, ensure};
use ostler_control::{
    checkpoint::{self, Checkpoints, Force, OperationId, Place, Retention},
    executor::{Kept, recovery},
    settings::InForce,
};
use ostler_engine::{
    rewind::{self, Row, Way, What, plain},
    session::{self, Loaded, Log, Session, State},
};
use ostler_proto::{EntryId, SessionEvent, SessionId, Trial};
use std::{sync::Arc, time::Duration};

/// What `ostler checkpoints` is to do.
#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand)]
pub(crate) enum Upkeep {
    /// Show what the checkpoints of this folder take (the default)
    Stat,
    /// Forget old checkpoints of this folder; what is not said, settings say
    Prune {
        /// Older than this many days
        #[arg(long, value_name = "DAYS")]
        days: Option<u64>,
        /// The oldest, until the store takes at most this many megabytes
        #[arg(long, value_name = "MB")]
        megabytes: Option<u64>,
        /// The oldest, until this many are left
        #[arg(long, value_name = "N")]
        count: Option<usize>,
    },
    /// Set a damaged store aside and begin a new one
    Reset,
}

/// Which checkpoint to go back to, and what with it.
struct Target {
    kept: Kept,
    /// The state before this operation is restored.
    operation: Option<OperationId>,
    talk: Option<Talk>,
}

/// What becomes of the conversation.
enum Talk {
    /// It goes on from before this prompt.
    Back(EntryId),
    /// Its last rewind is taken back.
    Forth,
}

/// Rewinds as the arguments say.
pub(crate) async fn run(wanted: &Rewind, machine: &Machine) -> anyhow::Result<u8> {
    let (rewind, here) = (wanted.clone(), machine.clone());
    let looked = tokio::task::spawn_blocking(move || look(&rewind, &here));
    let Some((target, held)) = looked.await?? else { return Ok(0) };
    let (rewind, here) = (wanted.clone(), machine.clone());
    let files = tokio::task::spawn_blocking(move || {
        let code = rewind_files(&rewind, &target, &here)?;
        anyhow::Ok((target, code))
    });
    let (target, code) = files.await??;
    if let Some(talk) = target.talk {
        rewind_conversation(held, &target.kept.session, talk).await?;
    }
    Ok(code)
}

/// What is to be done, and the session if its conversation goes back; nothing where a list was all that was
/// wanted.
fn look(rewind: &Rewind, machine: &Machine) -> anyhow::Result<Option<(Target, Option<Session>)>> {
    let kept = kept(rewind, machine)?;
    // Held before it is read, so that what is decided on is what there is; and before files are touched: where
    // another process has it open, they stay as they are too.
    let is_for_real = !rewind.dry_run && !rewind.list;
    let held = if what(rewind).has_conversation() && is_for_real {
        Some(hold(machine, &kept.session)?)
    } else {
        None
    };
    let looked_at = match &held {
        Some(_) => None,
        None => conversation(machine, &kept.session)?,
    };
    let nothing = State::default();
    let loaded = || looked_at.as_ref().map(|loaded| &loaded.state);
    let state = held.as_ref().map(Session::state).or_else(loaded).unwrap_or(&nothing);
    let rows = rewind::rows(kept.checkpoints.checkpoints(&kept.session)?, state);
    if rewind.list {
        say(&format!("session {}\n{}\n", kept.session, rewind::table(&rows)));
        return Ok(None);
    }
    let target = target(rewind, kept, &rows, state)?;
    Ok(Some((target, held)))
}

/// Looks after the store.
pub(crate) async fn upkeep(upkeep: Upkeep, args: &Args, machine: &Machine) -> anyhow::Result<u8> {
    let usual = retention(&wire::settings_in_force(args, machine)?);
    let here = machine.clone();
    tokio::task::spawn_blocking(move || {
        match upkeep {
            Upkeep::Reset => match checkpoint::set_aside(&place(&here).folder)? {
                Some(aside) => say(&format!("the old store is in {}\n", aside.display())),
                None => say("there was no store\n"),
            },
            Upkeep::Stat => say(&statistics(&open(&here)?, &usual, &place(&here))?),
            Upkeep::Prune { days, megabytes, count } => {
                let days = days.map(|days| Duration::from_hours(days.saturating_mul(24)));
                let retention = Retention {
                    max_age: days.unwrap_or(usual.max_age),
                    max_bytes: megabytes.map_or(usual.max_bytes, bytes),
                    max_checkpoints: count.unwrap_or(usual.max_checkpoints),
                    ..usual
                };
                let pruned = open(&here)?.prune(&retention)?;
                say(&format!(
                    "forgot {} operations and {} contents; the store takes {}, it took {}\n",
                    pruned.operations,
                    pruned.contents,
                    size(pruned.bytes_after),
                    size(pruned.bytes_before),
                ));
            }
        }
        Ok(0)
    })
    .await?
}

/// Opens the checkpoints of the folder we are in, and tells what was brought to an end.
pub(crate) fn open(machine: &Machine) -> anyhow::Result<Checkpoints> {
    let place = place(machine);
    // Looking makes no store.
    ensure!(place.folder.exists(), "there are no checkpoints of {}", machine.cwd.display());
    // Otherwise the next session would finish an edit that was taken back here.
    wire::finish_interrupted_edits(&machine.config_dir().join("journal"));
    let (checkpoints, recovered) = Checkpoints::open(&place)?;
    for recovered in &recovered {
        complain(&format!("ostler: {}\n", recovery(recovered)));
    }
    Ok(checkpoints)
}

/// Where the checkpoints of the folder we are in lie.
pub(crate) fn place(machine: &Machine) -> Place {
    let own = [machine.config_dir(), machine.shared_config_dir()];
    let physical = |folder: &std::path::PathBuf| folder.canonicalize().unwrap_or_else(|_| folder.clone());
    Place {
        folder: machine.config_dir().join("checkpoints").join(session::project_key(&machine.cwd)),
        excluded: own.iter().map(physical).collect(),
        limits: checkpoint::Limits::default(),
    }
}

/// How long and how much is kept, as settings say.
pub(crate) fn retention(in_force: &InForce) -> Retention {
    let (set, usual) = (in_force.checkpoints, Retention::default());
    Retention {
        max_age: set
            .max_days
            .map_or(usual.max_age, |days| Duration::from_hours(days.get().saturating_mul(24))),
        max_bytes: set.max_megabytes.map_or(usual.max_bytes, |megabytes| bytes(megabytes.get())),
        max_checkpoints: set
            .max_count
            .map_or(usual.max_checkpoints, |count| usize::try_from(count.get()).unwrap_or(usize::MAX)),
        ..usual
    }
}

fn statistics(checkpoints: &Checkpoints, retention: &Retention, place: &Place) -> anyhow::Result<String> {
    let found = checkpoints.statistics()?;
    Ok(format!(
        "{} checkpoints in {} sessions, {} operations\n{} contents of {}, {} on the disk\n\
         kept: {} days, {} checkpoints, {} (settings: checkpoints)\n{}\n",
        found.checkpoints,
        found.sessions,
        found.operations,
        found.contents,
        size(found.content_bytes),
        size(found.bytes),
        retention.max_age.as_secs() / (24 * 60 * 60),
        retention.max_checkpoints,
        size(retention.max_bytes),
        place.folder.display(),
    ))
}

fn kept(rewind: &Rewind, machine: &Machine) -> anyhow::Result<Kept> {
    let checkpoints = Arc::new(open(machine)?);
    let session = match &rewind.session {
        Some(wanted) => named(wanted, &checkpoints, machine)?,
        None => checkpoints
            .newest_session()?
            .with_context(|| format!("there are no checkpoints of {}", machine.cwd.display()))?,
    };
    Ok(Kept { checkpoints, session })
}

/// The session somebody means, by its id or how that begins.
fn named(wanted: &str, checkpoints: &Checkpoints, machine: &Machine) -> anyhow::Result<SessionId> {
    let exact = SessionId::from(wanted);
    if !checkpoints.operations(&exact)?.is_empty() {
        return Ok(exact);
    }
    if let Found::One(path) = crate::session::find(wanted, machine)?
        && let Some(id) = path.file_stem().and_then(|id| id.to_str())
    {
        return Ok(SessionId::from(id));
    }
    bail!("no session '{wanted}' found (ostler session list)")
}

fn target(rewind: &Rewind, kept: Kept, rows: &[Row], state: &State) -> anyhow::Result<Target> {
    let what = what(rewind);
    if rewind.undo {
        ensure!(
            !what.has_conversation() || state.can_undo_rewind(),
            "the conversation was not rewound, or has gone on since"
        );
        let operation =
            if what.has_code() { Some(kept.checkpoints.last_rewind(&kept.session)?) } else { None };
        let talk = what.has_conversation().then_some(Talk::Forth);
        return Ok(Target { kept, operation, talk });
    }
    let Some(wanted) = &rewind.to else {
        bail!("say which checkpoint to go back to: --to NUMBER or --to PROMPT (--list shows them)");
    };
    let row = rewind::find(rows, wanted).with_context(|| {
        format!("session {} has no checkpoint '{wanted}' (--list shows them)", kept.session)
    })?;
    let operation = if what.has_code() {
        Some(row.checkpoint.with_context(|| rewind::without_files(rows, row))?.operation)
    } else {
        None
    };
    let talk = if what.has_conversation() {
        let to =
            row.prompt.clone().context("this is no checkpoint of a prompt; only files can go back to it")?;
        ensure!(row.is_said, "the conversation {} has no prompt {to} any more", kept.session);
        Some(Talk::Back(to))
    } else {
        None
    };
    Ok(Target { kept, operation, talk })
}

fn what(rewind: &Rewind) -> What {
    match (rewind.both, rewind.conversation) {
        (true, _) => What::Both,
        (false, true) => What::Conversation,
        (false, false) => What::Code,
    }
}

/// Puts files back if that is wanted; the exit code says whether some were kept.
fn rewind_files(rewind: &Rewind, target: &Target, machine: &Machine) -> anyhow::Result<u8> {
    let Some(to) = target.operation else { return Ok(0) };
    let force = if rewind.force { Force::OverwriteOthers } else { Force::KeepOthers };
    let trial = if rewind.dry_run { Trial::Only } else { Trial::No };
    let (rewound, lines) = rewind::files(&target.kept, Way { to, force, trial })?;
    say(&format!("{}\n", rewind::report(&rewound, lines, trial, &machine.cwd)));
    Ok(u8::from(trial == Trial::No && !rewound.kept.is_empty()))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} kB", bytes / 1024),
        _ => format!("{} MB", bytes / (1 << 20)),
    }
}

fn bytes(megabytes: u64) -> u64 {
    megabytes.saturating_mul(1 << 20)
}

/// The conversation of a session, where it is on record.
fn conversation(machine: &Machine, id: &SessionId) -> anyhow::Result<Option<Loaded>> {
    let path = wire::store(machine).find(id.as_str());
    path.map(|path| session::load(&path)).transpose().map_err(Into::into)
}

/// The session of a conversation, for this process alone.
fn hold(machine: &Machine, id: &SessionId) -> anyhow::Result<Session> {
    let path = wire::store(machine).find(id.as_str());
    let path = path.with_context(|| format!("no conversation found with session id {id}"))?;
    let log = Log::held(&path)?;
    let loaded = session::load(&path)?;
    // Nobody is told: there is no frontend here.
    let (events, _) = tokio::sync::mpsc::channel(1);
    Ok(Session::new(loaded.id, loaded.state, log, wire::stamp(machine), events))
}

/// Says in the transcript where the conversation goes on; without it, what would be said.
async fn rewind_conversation(held: Option<Session>, id: &SessionId, talk: Talk) -> anyhow::Result<()> {
    let (words, event) = match talk {
        Talk::Back(to) => {
            (format!("goes on from before prompt {}", plain(to.as_str())), SessionEvent::Rewound { to })
        }
        Talk::Forth => ("is where it was before the rewind".to_owned(), SessionEvent::RewindUndone),
    };
    let Some(mut session) = held else {
        say(&format!("it would be: the conversation {words}\n"));
        return Ok(());
    };
    session.record(event).await?;
    session.sync()?;
    say(&format!("the conversation {words}: ostler --resume {id}\n"));
    Ok(())
}
