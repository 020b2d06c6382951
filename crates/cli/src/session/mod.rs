//! `ostler session`: lists, shows, searches, names, exports, checks and removes sessions. What lies where
//! and what a line means is the engine's knowledge; here are only words and tables.

mod export;
mod find;
mod retention;

pub(crate) use export::Format;
use find::SHORTEST_ID;
pub(crate) use find::{Found, find, pick, table};
pub(crate) use retention::now_and_then;

use crate::{args::Args, complain, machine::Machine, say, wire};
use anyhow::{Context, anyhow, bail, ensure};
use ostler_engine::rewind::count;
use ostler_engine::session::{Facts, Index, LogError, Scope, SessionFile, upkeep};
use ostler_proto::content::{Sink, clean};
use std::path::PathBuf;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand)]
pub(crate) enum SessionCommand {
    /// List the sessions of this folder, the last used first
    List {
        /// Those of all folders
        #[arg(long)]
        all: bool,
        /// Write JSON
        #[arg(long)]
        json: bool,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
    },
    /// Show a session
    Show {
        /// Its id, or enough of its beginning
        id: String,
    },
    /// Search what was said in sessions
    Search {
        /// Words that must all be there
        #[arg(required = true)]
        text: Vec<String>,
        /// Only in sessions of this folder
        #[arg(long)]
        here: bool,
        /// Write JSON
        #[arg(long)]
        json: bool,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Give a session a title
    Rename {
        /// Its id, or enough of its beginning
        id: String,
        /// The title
        title: String,
    },
    /// Write a session for others to read, without the secrets in it that are known by their shape
    Export {
        /// Its id, or enough of its beginning
        id: String,
        /// How: md, json (every line) or html (one page)
        #[arg(long, value_enum, default_value = "md")]
        format: Format,
        /// The file; stdout without it
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Remove sessions and what lies beside them
    Delete {
        /// Their ids, or enough of their beginnings
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Look for damage in all sessions, or one
    Fsck {
        /// Its id, or enough of its beginning
        id: Option<String>,
        /// Take out what cannot be read; the file as it was stays beside it
        #[arg(long)]
        repair: bool,
    },
    /// Remove sessions that were not used for a while
    Prune {
        /// For how long, e.g. 30d or 12h; the setting cleanupPeriodDays without it
        #[arg(long, value_name = "AGE", value_parser = retention::age)]
        older_than: Option<std::time::Duration>,
        /// Only say which
        #[arg(long)]
        dry_run: bool,
    },
}

/// Does it.
pub(crate) async fn run(command: &SessionCommand, args: &Args, machine: &Machine) -> anyhow::Result<u8> {
    let (command, args, machine) = (command.clone(), args.clone(), machine.clone());
    tokio::task::spawn_blocking(move || carry_out(&command, &args, &machine)).await?
}

fn carry_out(command: &SessionCommand, args: &Args, machine: &Machine) -> anyhow::Result<u8> {
    match command {
        SessionCommand::List { all, json, limit } => list(*all, *json, *limit, machine),
        SessionCommand::Show { id } => {
            export::show(&by_id(id, machine)?)?;
            Ok(0)
        }
        SessionCommand::Search { text, here, json, limit } => {
            search(&text.join(" "), *here, *json, *limit, machine)
        }
        SessionCommand::Rename { id, title } => {
            let file = by_id(id, machine)?;
            upkeep::rename(&file.path, &file.id, title)
                .with_context(|| format!("cannot write {}", file.path.display()))?;
            with_index(machine, |index| Ok(index.update(&file.path)?))?;
            Ok(0)
        }
        SessionCommand::Export { id, format, output } => {
            export::run(&by_id(id, machine)?, *format, output.as_deref())?;
            Ok(0)
        }
        SessionCommand::Delete { ids } => delete(ids, machine),
        SessionCommand::Fsck { id, repair } => check(id.as_deref(), *repair, machine),
        SessionCommand::Prune { older_than, dry_run } => {
            let in_force = wire::settings_in_force(args, machine)?;
            retention::prune(*older_than, *dry_run, in_force.cleanup_period_days, machine)
        }
    }
}

/// Uses the cache of what sessions are about; one that cannot be kept serves too, and the user is told.
pub(crate) fn with_index<T>(
    machine: &Machine,
    act: impl FnOnce(&mut Index) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut index = Index::open(&machine.config_dir()).context("cannot make an index of sessions")?;
    let done = act(&mut index)?;
    if let Some(trouble) = index.trouble() {
        complain(&format!("ostler: the index of sessions is not kept, so lists take longer: {trouble}\n"));
    }
    Ok(done)
}

/// Text of prompts and titles, on one line and harmless.
pub(crate) fn one_line(text: &str) -> String {
    clean(text, Sink::Title).text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Why a session was left as it is.
fn why_not(done: &str, file: &SessionFile, error: LogError) -> String {
    match error {
        LogError::Locked { holder, .. } => {
            let holder = holder.map_or_else(String::new, |holder| format!(" ({holder})"));
            format!("session {} is open in another process{holder}, so it was not {done}", file.id)
        }
        LogError::Io { path, error } => {
            format!("session {} was not {done}: {}: {error}", file.id, path.display())
        }
        LogError::Exists { .. } => error.to_string(),
    }
}

/// The one session an id, or its beginning, stands for.
fn by_id(id: &str, machine: &Machine) -> anyhow::Result<SessionFile> {
    ensure!(
        id.len() >= SHORTEST_ID,
        "'{id}' is too short for an id: give at least {SHORTEST_ID} characters of it"
    );
    let files = wire::store(machine).files(&Scope::Everywhere);
    let is_meant = |file: &&SessionFile| file.id.as_str().starts_with(&id.to_lowercase());
    let meant: Vec<&SessionFile> = files.iter().filter(is_meant).collect();
    match meant.as_slice() {
        [one] => Ok((*one).clone()),
        [] => bail!("no session has an id that begins with '{id}' (ostler session list --all shows them)"),
        several => {
            let ids: Vec<String> = several.iter().map(|file| format!("  {}", file.id)).collect();
            bail!("several sessions have an id that begins with '{id}'; give more of it:\n{}", ids.join("\n"))
        }
    }
}

fn scope(everywhere: bool, machine: &Machine) -> Scope {
    if everywhere { Scope::Everywhere } else { Scope::Project(machine.cwd.clone()) }
}

fn list(all: bool, json: bool, limit: usize, machine: &Machine) -> anyhow::Result<u8> {
    let listed =
        with_index(machine, |index| Ok(index.list(&wire::store(machine), &scope(all, machine), limit)?))?;
    if json {
        for facts in &listed {
            say(&format!("{}\n", serde_json::to_string(facts)?));
        }
        return Ok(0);
    }
    if listed.is_empty() {
        complain(if all {
            "ostler: no sessions\n"
        } else {
            "ostler: no sessions here (--all shows those of all folders)\n"
        });
    }
    say(&table(&listed, machine));
    Ok(0)
}

fn search(text: &str, here: bool, json: bool, limit: usize, machine: &Machine) -> anyhow::Result<u8> {
    let hits = with_index(machine, |index| {
        Ok(index.search(&wire::store(machine), &scope(!here, machine), text, limit)?)
    })?;
    for hit in &hits {
        if json {
            let mut object = serde_json::to_value(&hit.session)?;
            object["excerpt"] = hit.excerpt.clone().into();
            say(&format!("{object}\n"));
        } else {
            say(&format!("{}          {}\n", find::row(&hit.session, machine), one_line(&hit.excerpt)));
        }
    }
    if hits.is_empty() {
        complain(&format!("ostler: nothing was said about '{text}'\n"));
    }
    Ok(u8::from(hits.is_empty()))
}

fn delete(ids: &[String], machine: &Machine) -> anyhow::Result<u8> {
    // All are looked up first, so that a slip in one removes none.
    let files = ids.iter().map(|id| by_id(id, machine)).collect::<anyhow::Result<Vec<_>>>()?;
    with_index(machine, |index| {
        for file in &files {
            upkeep::remove(&file.path).map_err(|error| anyhow!(why_not("removed", file, error)))?;
            index.forget(&file.path)?;
            say(&format!("removed {}\n", file.id));
        }
        Ok(0)
    })
}

fn check(id: Option<&str>, repair: bool, machine: &Machine) -> anyhow::Result<u8> {
    let files = match id {
        Some(id) => vec![by_id(id, machine)?],
        None => wire::store(machine).files(&Scope::Everywhere),
    };
    let mut damaged = 0;
    for file in &files {
        let health = upkeep::check(&file.path)
            .with_context(|| format!("cannot read session {}", file.path.display()))?;
        if id.is_some() {
            say(&format!(
                "{}: {}, {} without a result, {} without a call\n",
                file.id,
                count(health.lines, "line"),
                count(health.unanswered, "call"),
                count(health.orphans, "result")
            ));
        }
        for (line, byte, problem) in &health.damaged {
            say(&format!("{}:{line}: cannot be read (byte {byte}): {problem}\n", file.path.display()));
        }
        for line in &health.repeated {
            say(&format!("{}:{line}: stands there twice\n", file.path.display()));
        }
        if !health.is_whole() && repair {
            let kept = upkeep::mend(&file.path).map_err(|error| anyhow!(why_not("mended", file, error)))?;
            say(&match kept {
                Some(kept) => format!("{}: mended; as it was: {}\n", file.id, kept.display()),
                None => format!("{}: has been mended by another process\n", file.id),
            });
        } else if !health.is_whole() {
            damaged += 1;
        }
    }
    say(&format!("{}, {damaged} damaged\n", count(files.len(), "session")));
    if damaged > 0 {
        complain("ostler: --repair takes out what cannot be read and keeps the file as it was beside it\n");
    }
    Ok(u8::from(damaged > 0))
}

/// What a session is about, for messages.
pub(crate) fn about(facts: &Facts) -> String {
    one_line(facts.summary()).chars().take(70).collect()
}
