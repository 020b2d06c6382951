//! What may be read for the model without anybody being asked. Instructions are data, and so a project must not be
//! able to name files of the user's as its instructions: what it names leads out of it only with trust, and to
//! secrets never.

use super::{
    Cause,
    find::{Candidate, Owner},
};
use crate::{
    permission::secrets,
    settings::{managed, scope::Trust},
};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ostler_proto::{InstructionScope, PathFact};
use ostler_tools::{
    ReadPolicy, Sight,
    host::{self, HostError},
};
use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// A longer file is not read at all.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Names of files that hold secrets wherever they are.
const SECRET_NAMES: [&str; 16] = [
    ".env",
    ".envrc",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".git-credentials",
    ".htpasswd",
    ".claude.json",
    ".credentials.json",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "trust.json",
    "secrets.json",
    "secrets.yaml",
];
/// Ends of the names of keys.
const SECRET_ENDS: [&str; 6] = [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore"];
/// Names of which there are many, such as `.env.local`, save those that hold no secrets.
const SECRET_STARTS: [&str; 3] = [".env.", "id_rsa", "id_ed25519"];
const HARMLESS_ENDS: [&str; 5] = [".example", ".sample", ".template", ".dist", ".pub"];

/// What may be read.
pub struct Guard {
    /// The user's home.
    pub home: PathBuf,
    /// How much the project is believed.
    pub trust: Trust,
    /// Places that may not be read, beside the usual ones.
    pub hidden: Vec<PathBuf>,
    /// What rules say about reading.
    pub read_policy: ReadPolicy,
    /// Files that settings leave out.
    pub excludes: GlobSet,
}

/// A file's text, and where it really is.
pub(super) struct Text {
    pub(super) target: PathBuf,
    pub(super) text: String,
}

/// Patterns of absolute paths as settings give them.
pub fn excludes(patterns: &[String]) -> Result<GlobSet, String> {
    patterns_of(patterns).map_err(|why| format!("claudeMdExcludes: {why}"))
}

/// Patterns in which a star stands for one name and two for any number.
pub(super) fn patterns_of(patterns: &[String]) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = GlobBuilder::new(pattern.trim_start_matches("./")).literal_separator(true).build();
        set.add(glob.map_err(|error| error.to_string())?);
    }
    set.build().map_err(|error| error.to_string())
}

impl Guard {
    /// Whether the project was marked as trusted, or made active for this run.
    pub(super) fn believes_project(&self) -> bool {
        self.trust >= Trust::Active
    }

    /// Reads a file that is there, or says why not.
    pub(super) fn read(&self, candidate: &Candidate) -> Result<Text, (Cause, String)> {
        let refused = |why: String| (Cause::Refused, why);
        let Some(path) = candidate.path.to_str() else {
            return Err(refused("its name is no text".to_owned()));
        };
        let fact =
            host::resolve(path, Path::new("/"), &self.home).map_err(|error| refused(error.to_string()))?;
        if !fact.exists {
            return Err((Cause::Missing, "there is no such file".to_owned()));
        }
        self.check(candidate, &fact)?;
        let bytes = match host::read_here(&fact.target, MAX_BYTES) {
            Ok((_, bytes)) => bytes,
            Err(HostError::TooLarge { size, .. }) => {
                return Err(refused(format!("it is too large: {size} bytes, at most {MAX_BYTES} are read")));
            }
            Err(error) => return Err(refused(error.to_string())),
        };
        let text =
            ostler_tools::builtin::text_of(&bytes).ok_or_else(|| refused("it is no text".to_owned()))?;
        let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
        Ok(Text { target: fact.target, text })
    }

    fn check(&self, candidate: &Candidate, fact: &PathFact) -> Result<(), (Cause, String)> {
        let any = |test: &dyn Fn(&Path) -> bool| fact.spellings().any(test);
        let is_managed = candidate.scope == InstructionScope::Managed;
        if !is_managed && any(&|path| self.excludes.is_match(path)) {
            return Err((Cause::Excluded, "claudeMdExcludes leaves it out".to_owned()));
        }
        let refused = |why: &str| Err((Cause::Refused, why.to_owned()));
        if any(&|path| self.is_secret(path)) {
            return refused("such files hold secrets and are never given to a model as instructions");
        }
        if let Some(bounds) = &candidate.bounds
            && !self.believes_project()
            && !fact.spellings().all(|path| path.starts_with(bounds))
        {
            return refused("it leads out of the project, and the folder is not trusted");
        }
        if !is_managed && any(&|path| self.read_policy.sight(path) != Sight::Open) {
            return refused("a permission rule is about reading it");
        }
        match candidate.owner {
            Owner::Anybody => Ok(()),
            Owner::User if is_users(&fact.target) => Ok(()),
            Owner::User => refused("somebody else could have put it there"),
            Owner::Machine(owner) => {
                managed::check_owner(&fact.target, owner).map_err(|error| (Cause::Refused, error.to_string()))
            }
        }
    }

    fn is_secret(&self, path: &Path) -> bool {
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let starts = SECRET_STARTS.iter().any(|start| name.starts_with(start))
            && !HARMLESS_ENDS.iter().any(|end| name.ends_with(end));
        starts
            || SECRET_NAMES.contains(&name.as_str())
            || SECRET_ENDS.iter().any(|end| name.ends_with(end))
            || secrets(&self.home).chain(self.hidden.iter().cloned()).any(|secret| path.starts_with(secret))
    }
}

/// Whether a file belongs to the user or to root, and nobody else may write it.
fn is_users(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    path.metadata().is_ok_and(|file| [0, user].contains(&file.uid()) && file.mode() & 0o002 == 0)
}
