//! `/rewind`: goes back to before a prompt, in files, in the conversation, or in both; and the same for hosts that
//! ask for files only. What is put back is control's business; what the model must hear of it is said here.

use super::{Builtin, Outcome};
use crate::{
    agent::Agent,
    rewind::{self, Row, Way, What},
    session::LogError,
    world::kept::{PutBack, Store},
};
use ostler_control::checkpoint::Force;
use ostler_proto::{EntryId, Json, SessionEvent, Trial};
use serde_json::json;

pub(super) const REWIND: Builtin = Builtin {
    name: "rewind",
    argument_hint: "[number|id] [code|conversation|both] [--undo] [--dry-run] [--force]",
    description: "Go back to before a prompt, or list the prompts",
    run: |agent, arguments| {
        Box::pin(async move {
            let said = match Wanted::parse(arguments) {
                Ok(wanted) => run(agent, wanted).await?,
                Err(problem) => Err(problem),
            };
            let (Ok(text) | Err(text)) = said;
            Ok(Outcome::Said(text))
        })
    },
};

/// Answers a host that wants files as they were right before a prompt. A host cannot be asked about changes
/// that others made meanwhile: files go back all the same, and what stood there is kept for an undo.
pub(crate) async fn rewind_files(agent: &mut Agent, to: &EntryId, trial: Trial) -> Result<Json, String> {
    let Some(store) = agent.parts.executor.checkpoints().await? else {
        return Ok(json!({"canRewind": false, "error": "File rewinding is not enabled."}));
    };
    let Some(operation) = agent.parts.executor.checkpoint_of(&store, to.clone()).await? else {
        return Err("No file checkpoint found for this message.".to_owned());
    };
    let way = Way { to: operation, force: Force::OverwriteFiles, trial };
    let done = put_back(agent, &store, way).await?;
    tell_model(agent, &done, trial);
    let left: Vec<Json> = done.kept.iter().map(|(path, why)| json!({"path": path, "reason": why})).collect();
    Ok(json!({
        "canRewind": true, "filesChanged": done.files, "insertions": done.insertions, "deletions": done.deletions,
        "skippedLinks": done.skipped_links, "kept": left,
    }))
}

/// What the user asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    List,
    To { prompt: String, what: What, force: Force, trial: Trial },
    Undo { what: Option<What> },
}

impl Wanted {
    fn parse(arguments: &str) -> Result<Self, String> {
        let (mut prompt, mut what, mut is_undo) = (None, None, false);
        let (mut force, mut trial) = (Force::KeepOthers, Trial::No);
        for word in arguments.split_whitespace() {
            match word {
                "code" | "files" => what = Some(What::Code),
                "conversation" => what = Some(What::Conversation),
                "both" => what = Some(What::Both),
                "--undo" => is_undo = true,
                "--force" => force = Force::OverwriteOthers,
                "--dry-run" => trial = Trial::Only,
                word if word.starts_with('-') => return Err(format!("/rewind knows no {word}")),
                word if prompt.is_none() => prompt = Some(word.to_owned()),
                word => return Err(format!("/rewind goes back to one prompt; '{word}' is too much")),
            }
        }
        match (prompt, is_undo) {
            (Some(_), true) => Err("say a prompt to go back to, or --undo, not both".to_owned()),
            (None, true) => Ok(Self::Undo { what }),
            (None, false) if what.is_some() => Err("say which prompt; /rewind alone lists them".to_owned()),
            (None, false) => Ok(Self::List),
            (Some(prompt), false) => Ok(Self::To { prompt, what: what.unwrap_or(What::Both), force, trial }),
        }
    }
}

/// What the user reads, or why nothing was done.
type Said = Result<String, String>;

async fn run(agent: &mut Agent, wanted: Wanted) -> Result<Said, LogError> {
    let kept = match agent.parts.executor.checkpoints().await {
        Ok(kept) => kept,
        Err(problem) => return Ok(Err(problem)),
    };
    let (prompt, what, force, trial) = match wanted {
        Wanted::Undo { what } => return undo(agent, kept, what).await,
        Wanted::List => return Ok(list(agent, kept).await),
        Wanted::To { prompt, what, force, trial } => (prompt, what, force, trial),
    };
    let row = match agent.parts.executor.rows(kept.as_ref(), agent.parts.session.state()).await {
        Ok(rows) => rewind::find(&rows, &prompt).cloned(),
        Err(problem) => return Ok(Err(problem)),
    };
    let Some(row) = row else { return Ok(Err(format!("there is no prompt '{prompt}'; /rewind lists them"))) };
    if let Some(problem) = obstacle(&row, what, kept.is_some()) {
        return Ok(Err(problem));
    }
    let mut said = Vec::new();
    if what.has_code()
        && let (Some(kept), Some(checkpoint)) = (kept, row.checkpoint)
    {
        match put_back(agent, &kept, Way { to: checkpoint.operation, force, trial }).await {
            Ok(done) => {
                if what == What::Code {
                    tell_model(agent, &done, trial);
                }
                said.push(done.report);
            }
            Err(problem) => return Ok(Err(problem)),
        }
    }
    if let (true, Some(to)) = (what.has_conversation(), row.prompt) {
        said.push(match trial {
            Trial::Only => "the conversation would go back to before that prompt".to_owned(),
            Trial::No => {
                leave(agent, SessionEvent::Rewound { to }).await?;
                "the conversation goes on from before that prompt".to_owned()
            }
        });
    }
    if trial == Trial::No {
        said.push("/rewind --undo takes this back".to_owned());
    }
    Ok(Ok(said.join("\n")))
}

/// Why a row cannot be gone back to as wanted.
fn obstacle(row: &Row, what: What, is_kept: bool) -> Option<String> {
    if what.has_code() && !is_kept {
        return Some(
            "checkpoints are off, so files cannot go back; '/rewind N conversation' goes back in the conversation alone"
                .to_owned(),
        );
    }
    if what.has_code() && row.checkpoint.is_none() {
        return Some(
            "no files were kept for that prompt; '/rewind N conversation' leaves them as they are".to_owned(),
        );
    }
    (what.has_conversation() && !row.is_said).then(|| {
        "that prompt is no longer part of the conversation; '/rewind N code' brings its files back".to_owned()
    })
}

async fn list(agent: &mut Agent, kept: Option<Store>) -> Said {
    let rows = agent.parts.executor.rows(kept.as_ref(), agent.parts.session.state()).await?;
    if rows.is_empty() {
        return Ok("there is no prompt to go back to yet".to_owned());
    }
    Ok(format!("{}\n/rewind N [code|conversation|both] goes back to before prompt N", rewind::table(&rows)))
}

/// Takes the last rewind back; of files and conversation, unless told which, whatever nothing was done to since.
async fn undo(agent: &mut Agent, kept: Option<Store>, what: Option<What>) -> Result<Said, LogError> {
    let mut said = Vec::new();
    let mut files = None;
    if let Some(kept) = kept.filter(|_| what.is_none_or(What::has_code)) {
        files = match agent.parts.executor.last_rewind(&kept, what).await {
            Ok(to) => to.map(|to| (kept, to)),
            Err(problem) => return Ok(Err(problem)),
        };
    }
    if let Some((kept, to)) = files {
        let way = Way { to, force: Force::KeepOthers, trial: Trial::No };
        match put_back(agent, &kept, way).await {
            Ok(done) => {
                tell_model(agent, &done, Trial::No);
                said.push(done.report);
            }
            Err(problem) => return Ok(Err(problem)),
        }
    }
    if what.is_none_or(What::has_conversation) && agent.parts.session.state().can_undo_rewind() {
        leave(agent, SessionEvent::RewindUndone).await?;
        said.push("the conversation is where it was before the rewind".to_owned());
    }
    if said.is_empty() {
        return Ok(Err("there is no rewind to undo, or something was done since; \
                       '/rewind --undo code' takes the last rewind of files back all the same"
            .to_owned()));
    }
    Ok(Ok(said.join("\n")))
}

/// Puts files back, or says what that would do.
async fn put_back(agent: &mut Agent, store: &Store, way: Way) -> Result<PutBack, String> {
    let cwd = agent.parts.executor.cwd();
    agent.parts.executor.put_back(store, way, cwd).await
}

/// Records that the conversation goes on elsewhere, where other files may have been read.
async fn leave(agent: &mut Agent, event: SessionEvent) -> Result<(), LogError> {
    agent.parts.session.record(event).await?;
    agent.parts.executor.forget_all_seen();
    agent.look_up_plan();
    // What was told since is no longer told; what changed since is told again.
    agent.instruct_at_start().await
}

/// The model learns with its next request that files are not as it left them.
fn tell_model(agent: &mut Agent, done: &PutBack, trial: Trial) {
    const MOST: usize = 20;
    let names: Vec<String> = done.files.iter().map(|path| path.display().to_string()).collect();
    if trial == Trial::Only || names.is_empty() {
        return;
    }
    let more = match names.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    agent.unheard.push(format!(
        "The user put files back to an earlier state: {}{more}. They are not as you last left or saw them; \
         read them again before you rely on them.",
        names[..names.len().min(MOST)].join(", ")
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_in_any_order() {
        let to = |what, force, trial| Ok(Wanted::To { prompt: "2".into(), what, force, trial });
        let (keep, force) = (Force::KeepOthers, Force::OverwriteOthers);
        assert_eq!(Wanted::parse(""), Ok(Wanted::List));
        assert_eq!(Wanted::parse(" 2 "), to(What::Both, keep, Trial::No));
        assert_eq!(Wanted::parse("code 2 --force"), to(What::Code, force, Trial::No));
        assert_eq!(Wanted::parse("2 --dry-run conversation"), to(What::Conversation, keep, Trial::Only));
        assert_eq!(Wanted::parse("--undo code"), Ok(Wanted::Undo { what: Some(What::Code) }));
        for wrong in ["1 2", "both", "2 --undo", "--hard"] {
            assert!(Wanted::parse(wrong).is_err(), "{wrong}");
        }
    }
}
