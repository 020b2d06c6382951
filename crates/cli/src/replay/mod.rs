//! `ostler replay SESSION`: runs a recorded session again and says whether it comes to the same requests and the same
//! transcript; with its calls run again, to the same results; or from a prompt on with another model.

mod copy;
mod fork;
mod live;

use crate::{
    Ended,
    args::Args,
    complain,
    machine::Machine,
    say,
    session::{self, Found},
};
use anyhow::{anyhow, bail};
use ostler_engine::replay::{Given, Relived, Replayed, Run, Verdict, replay, tapes};
use ostler_engine::rewind::count;
use ostler_proto::Json;
use serde_json::json;
use std::path::{Path, PathBuf};

/// What to replay.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(crate) struct Replay {
    /// The session: its id, the beginning of it, words of it, or its file
    #[arg(value_name = "SESSION")]
    session: String,

    /// Run the calls again, in a scratch copy of the project, and show the first result that is another
    #[arg(long, conflicts_with = "from")]
    live_tools: bool,

    /// Go on from this prompt in a new session instead: its number in `ostler rewind --list`, or its id
    #[arg(long, value_name = "N|PROMPT")]
    from: Option<String>,

    /// With --from: the model that answers it; without it, the session's own
    #[arg(long, requires = "from")]
    model: Option<String>,

    /// With --from: what to write, as without replay: text, json or stream-json
    #[arg(long, requires = "from", value_name = "FORMAT")]
    output_format: Option<String>,

    /// With --from: tell the run as it happens
    #[arg(long, requires = "from")]
    verbose: bool,

    /// With --from: more flags for the new session, as `ostler -p` takes them
    #[arg(last = true, requires = "from", value_name = "FLAGS")]
    more: Vec<String>,

    /// Say it as JSON
    #[arg(long, conflicts_with = "from")]
    json: bool,

    /// The scratch folder, for the process that is set apart
    #[arg(long, hide = true, requires = "live_tools", value_name = "FOLDER")]
    inside: Option<PathBuf>,
}

/// Sets this process apart if that is what it was started for.
pub(crate) fn enter(words: &Replay) -> anyhow::Result<()> {
    words.inside.as_deref().map_or(Ok(()), live::enter)
}

/// Replays; the exit code is 0 when everything that was recorded came to the same.
pub(crate) async fn run(words: &Replay, args: &Args, machine: &Machine) -> anyhow::Result<Ended> {
    let transcript = transcript(&words.session, machine)?;
    if let Some(from) = &words.from {
        return fork::run(words, from, &transcript, machine).await;
    }
    match &words.inside {
        Some(scratch) => {
            return live::run_inside(words, scratch, &transcript, (args, machine)).await.map(Ended::InOrder);
        }
        None if words.live_tools => return live::run(words, &transcript, machine).await,
        None => {}
    }
    let mut runs = Vec::new();
    for tape in tapes(&transcript).map_err(|problem| anyhow!(problem))? {
        let replayed = match Run::read(&tape, &transcript) {
            Ok(run) => replay(run).await,
            Err(problem) => Err(problem),
        };
        runs.push(replayed.map_err(|problem| anyhow!(problem))?);
    }
    if runs.is_empty() {
        bail!(no_recording(&transcript));
    }
    Ok(Ended::InOrder(tell(&runs, &transcript, words)))
}

fn no_recording(transcript: &Path) -> String {
    format!(
        "there is no recording of {}: it was made by another program or an older version, with session.record set \
         to false, or it began with /clear in another session (replay that one)",
        transcript.display()
    )
}

/// Says what came of it, and gives the exit code.
fn tell(runs: &[Replayed], transcript: &Path, words: &Replay) -> u8 {
    let is_same = !runs.iter().any(|run| matches!(run.verdict, Verdict::Different(_)));
    if words.json {
        let runs: Vec<Json> = runs.iter().map(|run| as_json(run, words)).collect();
        say(&format!("{}\n", json!({"transcript": transcript, "same": is_same, "runs": runs})));
    } else {
        for (at, run) in runs.iter().enumerate() {
            say(&format!("run {} of {}: {}\n", at + 1, runs.len(), in_words(run)));
            if words.live_tools {
                say(&calls_in_words(&run.relived));
            }
        }
    }
    u8::from(!is_same)
}

/// The transcript that is meant: a file, or a session by its name.
fn transcript(wanted: &str, machine: &Machine) -> anyhow::Result<PathBuf> {
    let path = machine.cwd.join(wanted);
    if Path::new(wanted).extension().is_some_and(|end| end == "jsonl") && path.is_file() {
        return Ok(path);
    }
    match session::find(wanted, machine)? {
        Found::One(path) => Ok(path),
        Found::Several(offered) => {
            complain(&session::table(&offered, machine));
            bail!("'{wanted}' stands for {} sessions; replay one of them by its id", offered.len());
        }
        Found::Nothing => bail!("no conversation found with session id {wanted}, nor with such words in it"),
    }
}

fn in_words(run: &Replayed) -> String {
    let Replayed { tape, verdict, .. } = run;
    let (requests, entries) = (count(run.requests, "request"), count(run.entries, "line"));
    let what = format!("{requests} and {entries} of the transcript came to the same");
    match verdict {
        Verdict::Same => what,
        Verdict::SameSoFar(why) => format!("{what}; the recording goes no further: {why}"),
        Verdict::Different(how) => {
            format!("DIFFERENT after {requests} and {entries}: {how}\n  recording: {}", tape.display())
        }
    }
}

fn calls_in_words(Relived { same, given }: &Relived) -> String {
    let first =
        format!("  {} came to the same when run again, {} not run\n", count(*same, "call"), given.len());
    let each = given.iter().map(|Given { call, tool, why }| format!("    {tool} {call}: {why}\n"));
    std::iter::once(first).chain(each).collect()
}

fn as_json(run: &Replayed, words: &Replay) -> Json {
    let (verdict, detail) = match &run.verdict {
        Verdict::Same => ("same", None),
        Verdict::SameSoFar(why) => ("same-so-far", Some(why)),
        Verdict::Different(how) => ("different", Some(how)),
    };
    let mut told = json!({
        "recording": run.tape, "verdict": verdict, "detail": detail, "steps": run.lines,
        "requests": run.requests, "entries": run.entries,
    });
    if words.live_tools {
        let Relived { same, given } = &run.relived;
        let given =
            given.iter().map(|Given { call, tool, why }| json!({"call": call, "tool": tool, "why": why}));
        told["calls"] = json!({"same": same, "not_run": given.collect::<Vec<_>>()});
    }
    told
}
