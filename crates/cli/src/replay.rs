//! `ostler replay SESSION`: runs a recorded session again without network, tools or hooks, and says whether it comes
//! to the same requests and the same transcript. Only reads.

use crate::{
    args::Replay,
    complain,
    machine::Machine,
    say,
    session::{self, Found},
};
use anyhow::{anyhow, bail};
use ostler_engine::replay::{Replayed, Verdict, replay};
use ostler_proto::Json;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Replays, and gives the exit code: 0 when everything that was recorded came to the same.
pub(crate) async fn run(words: &Replay, machine: &Machine) -> anyhow::Result<u8> {
    let transcript = transcript(&words.session, machine)?;
    let runs = replay(&transcript).await.map_err(|problem| anyhow!(problem))?;
    if runs.is_empty() {
        bail!(
            "there is no recording of {}: it was made by another program or an older version, with session.record set \
             to false, or it began with /clear in another session (replay that one)",
            transcript.display()
        );
    }
    let is_same = !runs.iter().any(|run| matches!(run.verdict, Verdict::Different(_)));
    if words.json {
        let runs: Vec<Json> = runs.iter().map(as_json).collect();
        say(&format!("{}\n", json!({"transcript": transcript, "same": is_same, "runs": runs})));
    } else {
        for (at, run) in runs.iter().enumerate() {
            say(&format!("run {} of {}: {}\n", at + 1, runs.len(), in_words(run)));
        }
    }
    Ok(u8::from(!is_same))
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
    let Replayed { tape, requests, entries, verdict, .. } = run;
    let what = format!("{requests} requests and {entries} lines of the transcript came to the same");
    match verdict {
        Verdict::Same => what,
        Verdict::SameSoFar(why) => format!("{what}; the recording goes no further: {why}"),
        Verdict::Different(how) => {
            format!(
                "DIFFERENT after {requests} requests and {entries} lines: {how}\n  recording: {}",
                tape.display()
            )
        }
    }
}

fn as_json(run: &Replayed) -> Json {
    let (verdict, detail) = match &run.verdict {
        Verdict::Same => ("same", None),
        Verdict::SameSoFar(why) => ("same-so-far", Some(why)),
        Verdict::Different(how) => ("different", Some(how)),
    };
    json!({
        "recording": run.tape, "verdict": verdict, "detail": detail, "steps": run.lines,
        "requests": run.requests, "entries": run.entries,
    })
}
