//! `ostler rewind` and `ostler checkpoints`: lists checkpoints, goes back to one, takes that back,
//! and keeps the store small. Decides nothing itself; control does.

use crate::{args::Rewind, complain, machine::Machine, say, wire};
use anyhow::{Context, bail, ensure};
use ostler_control::checkpoint::{
    self, Checkpoints, Force, Kind, Lines, Listed, OperationId, Place, Recovered, Retention, Rewound, Why,
};
use ostler_engine::session::{self, Log, Session};
use ostler_proto::{EntryId, SessionEvent, SessionId};
use std::{path::Path, time::Duration};

/// What `ostler checkpoints` is to do.
#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand)]
pub(crate) enum Upkeep {
    /// Show what the checkpoints of this folder take
    Stat,
    /// Forget old checkpoints of this folder
    Prune {
        /// Older than this many days
        #[arg(long, value_name = "DAYS", default_value_t = 30)]
        days: u64,
        /// The oldest, until the store takes at most this many megabytes
        #[arg(long, value_name = "MB", default_value_t = 2048)]
        megabytes: u64,
    },
    /// Set a damaged store aside and begin a new one
    Reset,
}

/// Which checkpoint to go back to, and what with it.
struct Target {
    session: SessionId,
    /// The state before this operation is restored.
    operation: OperationId,
    /// The prompt, where there is one.
    prompt: Option<EntryId>,
}

/// Rewinds as the arguments say.
pub(crate) async fn run(rewind: &Rewind, machine: &Machine) -> anyhow::Result<u8> {
    let (wanted, here) = (rewind.clone(), machine.clone());
    let looked = tokio::task::spawn_blocking(move || {
        let checkpoints = open(&here)?;
        let session = session(&wanted, &checkpoints, &here)?;
        if wanted.list {
            say(&table(&checkpoints.checkpoints(&session)?, &session));
            return Ok(None);
        }
        let target = target(&wanted, &checkpoints, session)?;
        let mut code = 0;
        if !wanted.conversation {
            code = rewind_files(&wanted, &checkpoints, &target, &here)?;
        }
        anyhow::Ok(Some((target, code)))
    });
    let Some((target, code)) = looked.await?? else { return Ok(0) };
    if rewind.conversation || rewind.both {
        let prompt =
            target.prompt.context("this is no checkpoint of a prompt; only files can go back to it")?;
        if rewind.dry_run {
            say(&format!("the conversation would go back to before prompt {prompt}\n"));
        } else {
            rewind_conversation(machine, &target.session, prompt).await?;
        }
    }
    Ok(code)
}

/// Looks after the store.
pub(crate) async fn upkeep(upkeep: Upkeep, machine: &Machine) -> anyhow::Result<u8> {
    let here = machine.clone();
    tokio::task::spawn_blocking(move || {
        match upkeep {
            Upkeep::Reset => match checkpoint::set_aside(&place(&here).folder)? {
                Some(aside) => say(&format!("the old store is in {}\n", aside.display())),
                None => say("there was no store\n"),
            },
            Upkeep::Stat => {
                let found = open(&here)?.statistics()?;
                say(&format!(
                    "{} checkpoints in {} sessions, {} operations\n{} contents of {}, {} on the disk\n{}\n",
                    found.checkpoints,
                    found.sessions,
                    found.operations,
                    found.contents,
                    size(found.content_bytes),
                    size(found.bytes),
                    place(&here).folder.display(),
                ));
            }
            Upkeep::Prune { days, megabytes } => {
                let retention = Retention {
                    max_age: Duration::from_hours(days.saturating_mul(24)),
                    max_bytes: megabytes.saturating_mul(1 << 20),
                    ..Retention::default()
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
    let (checkpoints, recovered) = Checkpoints::open(&place(machine))?;
    for recovered in &recovered {
        complain(&recovery(recovered));
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

fn recovery(recovered: &Recovered) -> String {
    let changed = recovered.changed;
    match recovered.kind {
        Kind::Restore => format!("ostler: an interrupted rewind was finished: {changed} paths\n"),
        Kind::Prompt | Kind::Edit | Kind::Command | Kind::Observed => {
            format!("ostler: a call was cut off after it had changed {changed} paths; they can be rewound\n")
        }
    }
}

fn session(rewind: &Rewind, checkpoints: &Checkpoints, machine: &Machine) -> anyhow::Result<SessionId> {
    match &rewind.session {
        Some(id) => Ok(SessionId::from(id.as_str())),
        None => checkpoints
            .newest_session()?
            .with_context(|| format!("there are no checkpoints of {}", machine.cwd.display())),
    }
}

fn target(rewind: &Rewind, checkpoints: &Checkpoints, session: SessionId) -> anyhow::Result<Target> {
    if rewind.undo {
        let operation = checkpoints.last_rewind(&session)?;
        return Ok(Target { session, operation, prompt: None });
    }
    let listed = checkpoints.checkpoints(&session)?;
    let Some(wanted) = &rewind.to else {
        bail!("say which checkpoint to go back to: --to NUMBER or --to PROMPT (--list shows them)");
    };
    let by_number = wanted.parse::<usize>().ok().and_then(|number| listed.get(number.checked_sub(1)?));
    let by_prompt = || {
        listed.iter().find(|listed| listed.operation.prompt.as_ref().is_some_and(|id| id.as_str() == wanted))
    };
    let found = by_number.or_else(by_prompt);
    let found = found
        .with_context(|| format!("session {session} has no checkpoint '{wanted}' (--list shows them)"))?;
    Ok(Target { session, operation: found.operation.id, prompt: found.operation.prompt.clone() })
}

fn rewind_files(
    rewind: &Rewind,
    checkpoints: &Checkpoints,
    target: &Target,
    machine: &Machine,
) -> anyhow::Result<u8> {
    let force = if rewind.force { Force::OverwriteOthers } else { Force::KeepOthers };
    let (plan, lines) = checkpoints.plan_restore(&target.session, target.operation, force)?;
    if rewind.dry_run {
        say(&report(&plan, lines, machine, "would change"));
        return Ok(0);
    }
    let rewound = checkpoints.restore(&target.session, target.operation, force)?;
    say(&report(&rewound, lines, machine, "changed"));
    Ok(u8::from(!rewound.kept.is_empty()))
}

fn report(rewound: &Rewound, lines: Lines, machine: &Machine, verb: &str) -> String {
    let mut text: Vec<String> =
        rewound.changes.iter().map(|change| format!("  {}", shown(&change.path, machine))).collect();
    text.push(format!(
        "{verb} {} files, {} lines added, {} taken away",
        rewound.files().count(),
        lines.insertions,
        lines.deletions
    ));
    let kept = rewound.kept.iter();
    text.extend(kept.map(|kept| format!("kept {}: {}", shown(&kept.path, machine), kept.why)));
    let is_forceable = |why: &Why| match why {
        Why::ChangedByOthers | Why::MixedWithOthers | Why::Repository(_) => true,
        Why::NotCovered(_) | Why::Damaged | Why::InUse | Why::Failed(_) => false,
    };
    if rewound.kept.iter().any(|kept| is_forceable(&kept.why)) {
        text.push("--force overwrites what others changed; --undo brings it back".to_owned());
    }
    text.join("\n") + "\n"
}

fn shown(path: &Path, machine: &Machine) -> String {
    plain(&path.strip_prefix(&machine.cwd).unwrap_or(path).to_string_lossy())
}

/// Text that cannot drive a terminal; names of files and words of models may try.
pub(crate) fn plain(text: &str) -> String {
    let safe = |c: char| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(safe).collect()
}

fn table(listed: &[Listed], session: &SessionId) -> String {
    let row = |(at, Listed { operation, changed }): (usize, &Listed)| {
        let title: String = operation.title.as_deref().unwrap_or_default().chars().take(60).collect();
        format!(
            "{:>3}  {}  {:>4} changed  {}  {}",
            at + 1,
            when(operation.made),
            changed,
            operation.prompt.as_ref().map_or("-", EntryId::as_str),
            plain(&title.split_whitespace().collect::<Vec<_>>().join(" ")),
        )
    };
    let rows = std::iter::once(format!("session {session}")).chain(listed.iter().enumerate().map(row));
    rows.collect::<Vec<_>>().join("\n") + "\n"
}

/// A moment, as people read it.
pub(crate) fn when(milliseconds: i64) -> String {
    jiff::Timestamp::from_millisecond(milliseconds)
        .map_or_else(|_| "?".to_owned(), |moment| moment.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} kB", bytes / 1024),
        _ => format!("{} MB", bytes / (1 << 20)),
    }
}

/// Says in the transcript that the conversation goes on from before a prompt.
async fn rewind_conversation(machine: &Machine, id: &SessionId, prompt: EntryId) -> anyhow::Result<()> {
    let path = wire::store(machine)
        .find(id.as_str())
        .with_context(|| format!("no conversation found with session id {id}"))?;
    let loaded = session::load(&path)?;
    ensure!(loaded.state.has_prompt(&prompt), "the conversation {id} has no prompt {prompt} any more");
    let (events, _told) = tokio::sync::mpsc::channel(1);
    let mut session = Session::new(loaded.id, loaded.state, Log::at(path), wire::stamp(machine), events);
    session.record(SessionEvent::Rewound { to: prompt.clone() }).await?;
    session.sync()?;
    say(&format!("the conversation goes on from before prompt {prompt}: ostler --resume {id}\n"));
    Ok(())
}
