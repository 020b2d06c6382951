//! Whose standing instructions a session reads, how far they are believed, and where its notes are.

use super::{session::Session, sources, store};
use crate::complain;
use anyhow::anyhow;
use ostler_control::{
    Policy,
    instructions::{Guard, Instructions, Places, excludes},
    notes::Notes,
};
use ostler_engine::session::project_key;
use std::path::PathBuf;

impl Session<'_> {
    /// Where instructions come from, unless the user wants none.
    pub(super) fn instructions(&self, policy: &Policy) -> anyhow::Result<Option<Instructions>> {
        if self.args.bare {
            return Ok(None);
        }
        let machine = self.machine;
        let with_more =
            machine.var("CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD").is_some_and(|word| is_yes(&word));
        let places = Places {
            managed: vec!["/etc/ostler".into(), "/etc/claude-code".into()],
            managed_owner: 0,
            user: vec![machine.config_dir(), machine.shared_config_dir()],
            cwd: machine.cwd.clone(),
            project: self.project(),
            more: policy.roots.iter().skip(1).filter(|_| with_more).cloned().collect(),
            sources: sources(self.args)?,
        };
        let guard = Guard {
            home: machine.home.clone(),
            trust: self.trust,
            hidden: policy.sandboxing.hidden.clone(),
            read_policy: policy.for_searches(),
            excludes: excludes(&self.in_force.instruction_excludes)
                .map_err(|why| anyhow!("settings: {why}"))?,
        };
        let owner_words = self.in_force.owner_words.clone();
        Ok(Some(Instructions { notes: self.notes(&places)?, places, guard, owner_words }))
    }

    /// Where notes are kept, unless the user wants none, or no trace of the session.
    fn notes(&self, places: &Places) -> anyhow::Result<Option<Notes>> {
        let machine = self.machine;
        let off = machine.var("CLAUDE_CODE_DISABLE_AUTO_MEMORY").is_some_and(|word| is_yes(&word))
            || self.in_force.notes_enabled == Some(false)
            || self.args.no_session_persistence
            || !places.sources.user;
        if off {
            return Ok(None);
        }
        if let Some(chosen) = &self.in_force.notes_folder {
            let notes = Notes::in_folder(chosen, &machine.home, &places.project);
            return notes.map(Some).map_err(|why| anyhow!("settings: autoMemoryDirectory: {why}"));
        }
        let config = store(machine).homes.swap_remove(0);
        let notes = Notes::of_project(&config, &project_key(&places.project));
        Ok(notes.inspect_err(|why| complain(&format!("ostler: no notes are kept: {why}\n"))).ok())
    }

    /// The repository around the working directory. One that holds the whole home, or belongs to somebody else,
    /// is not what the user works on.
    fn project(&self) -> PathBuf {
        let machine = self.machine;
        let root = machine.git_folder().and_then(|git| git.parent().map(PathBuf::from));
        let user = rustix::process::geteuid().as_raw();
        let is_theirs = |root: &PathBuf| {
            use std::os::unix::fs::MetadataExt as _;
            root.metadata().is_ok_and(|folder| folder.uid() == user && folder.mode() & 0o002 == 0)
        };
        let root = root.filter(|root| !machine.home.starts_with(root) && is_theirs(root));
        root.unwrap_or_else(|| machine.cwd.clone())
    }
}

fn is_yes(word: &str) -> bool {
    !matches!(word.to_ascii_lowercase().as_str(), "0" | "false" | "no" | "off")
}
