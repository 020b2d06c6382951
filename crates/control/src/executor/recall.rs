//! What the session still knows by itself when the conversation is made shorter: rules, jobs, files. Files
//! are read again only where the judge says that they may be, and nothing here changes anything but the
//! memory of what the model has seen.

use super::{Executor, Shared};
use crate::permission::{Author, Question, decide};
use ostler_proto::{Access, Decision, Intent, Job, JobState, Json, PathFact, Preview, RuleSource};
use ostler_tools::{builtin::show_again, host::read_whole};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Bytes of the largest file that is hashed.
const MAX_HASHED: u64 = 4 * 1024 * 1024;
/// Digits of a hash that are told: enough to see a change.
const HASH_DIGITS: usize = 16;

/// How much of the files is shown again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// How many files, at most.
    pub files: usize,
    /// Tokens of one file, at most.
    pub each: usize,
    /// Tokens of all of them, at most.
    pub total: usize,
}

/// A file as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recalled {
    /// Where it really lies.
    pub path: PathBuf,
    /// What it holds.
    pub content: Recollection,
    /// Its start, numbered, if there was room for it.
    pub text: Option<String>,
}

/// What is known of a file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recollection {
    /// The start of the hash of all bytes.
    Hash(String),
    /// Why there is none.
    Unknown(String),
}

impl Executor {
    /// Rules that were granted in this session.
    pub fn granted_rules(&self) -> Vec<String> {
        let policy = self.shared.policy();
        let granted = policy.rules.allow.iter().filter(|rule| rule.source == RuleSource::Session);
        granted.map(ToString::to_string).collect()
    }

    /// Commands in the background that still run.
    pub fn running_jobs(&self) -> Vec<Job> {
        self.shared.jobs.list().into_iter().filter(|job| job.state == JobState::Running).collect()
    }

    /// Keeps a text where the model may read it, if anything is kept.
    pub async fn keep(&self, text: String) -> Option<PathBuf> {
        let kept = self.shared.artifacts.as_ref()?.keep(text).await;
        kept.inspect_err(|error| tracing::warn!(%error, "a text could not be kept"))
            .ok()
            .map(|kept| kept.path)
    }

    /// The model no longer has some earlier results before it: reading the same again shows it again.
    pub fn forget_views(&self) {
        self.shared.files.forget_views();
    }

    /// The model has nothing of the earlier conversation before it: nothing counts as read but what is shown
    /// here, the first of these files as far as there is room. Of the others only the hashes are given.
    pub async fn recall(&self, files: &[PathBuf], room: Room) -> Vec<Recalled> {
        self.shared.files.forget_seen();
        let mut recalled = Vec::with_capacity(files.len());
        let (mut shown, mut left) = (0, room.total);
        for path in files {
            let Ok(fact) = self.shared.fact(path).await else { continue };
            if !self.shared.may_read(&fact) {
                let content = Recollection::Unknown("may not be read any more".to_owned());
                recalled.push(Recalled { path: path.clone(), content, text: None });
                continue;
            }
            let tokens = room.each.min(left);
            let text = if shown < room.files && tokens >= room.each.min(room.total) / 2 {
                show_again(fact.clone(), &self.shared.plan_context(), tokens).await.ok()
            } else {
                None
            };
            if let Some(text) = &text {
                shown += 1;
                left = left.saturating_sub(text.len() / 3);
            }
            recalled.push(Recalled { path: path.clone(), content: self.shared.content(&fact).await, text });
        }
        recalled
    }
}

impl Shared {
    /// Where a path leads now; it must still be the very place.
    async fn fact(&self, path: &Path) -> Result<PathFact, ()> {
        let text = path.to_str().ok_or(())?;
        let fact = self.host.resolve(text, path).await.map_err(drop)?;
        if fact.target == path { Ok(fact) } else { Err(()) }
    }

    /// Whether reading a file runs without a question.
    fn may_read(&self, fact: &PathFact) -> bool {
        let intent = Intent {
            title: format!("Read {}", fact.requested.display()),
            access: Access::Read { paths: vec![fact.clone()] },
            preview: Preview::None,
        };
        let input = Json::Object(serde_json::Map::from_iter([(
            "file_path".to_owned(),
            Json::from(fact.requested.to_string_lossy()),
        )]));
        let question =
            Question { tool: "Read", input: &input, intent: &intent, line: None, author: Author::Model };
        matches!(decide(&question, &self.policy(), None), Decision::Allow { .. })
    }

    async fn content(&self, fact: &PathFact) -> Recollection {
        if !fact.exists {
            return Recollection::Unknown("is gone".to_owned());
        }
        match read_whole(self.host.as_ref(), &fact.target, MAX_HASHED).await {
            Ok((_, bytes)) => Recollection::Hash(blake3::hash(&bytes).to_hex()[..HASH_DIGITS].to_owned()),
            Err(error) => Recollection::Unknown(error.to_string()),
        }
    }
}
