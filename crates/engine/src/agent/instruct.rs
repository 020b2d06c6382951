//! Standing instructions as the conversation meets them: those for the whole session before the first prompt, others
//! once a file is touched that they are about. They are recorded before the model reads them, so that a resumed
//! session says the same; nothing that was said is ever changed.

use super::{Agent, Reaction, hook::Heard};
use crate::session::LogError;
use ostler_control::{
    hooks::Occasion,
    instructions::{Cause, Instructions, Told, Watchlist},
};
use ostler_proto::{
    Access, AgentEvent, Command, Instruction, InstructionRecord, InstructionScope, PathFact, SessionEvent,
};
use std::{path::PathBuf, sync::Arc};
use tokio::task::JoinError;

/// What the tape calls them.
const AT_START: &str = "instructions";
const FOR_FILES: &str = "instructions for files";

/// What the model is to read, if anything, and what the user should know.
type Words = (Option<InstructionRecord>, Vec<String>);

/// Where instructions come from, and what may bring more of them.
#[derive(Default)]
pub(crate) struct Instructing {
    source: Option<Arc<Instructions>>,
    list: Watchlist,
    /// Files that calls touched since the model was last told.
    touched: Vec<PathBuf>,
}

impl Instructing {
    pub(crate) fn new(source: Option<Arc<Instructions>>) -> Self {
        Self { source, ..Self::default() }
    }

    /// What holds for the session, or what of it changed since it was told.
    async fn look_at_start(&mut self, known: Arc<Vec<Instruction>>, told: Told, now_ms: u64) -> Words {
        let Some(source) = self.source.clone() else { return Words::default() };
        let looking = tokio::task::spawn_blocking(move || source.since(&known, now_ms)).await;
        let Some((found, list)) = whole(looking) else { return Words::default() };
        self.list = list;
        let is_told = |cause: Cause| told == Told::AtStart && matches!(cause, Cause::Refused | Cause::NoRoom);
        let notices = found.skipped.iter().filter(|skipped| is_told(skipped.cause)).map(|skipped| {
            format!("instructions in {} are not read: {}", skipped.path.display(), skipped.why)
        });
        let notices = notices.collect();
        (found.record(told), notices)
    }

    /// What counts because of the files that were touched.
    async fn look_for_touched(&mut self, known: Arc<Vec<Instruction>>) -> Option<InstructionRecord> {
        let touched = std::mem::take(&mut self.touched);
        let source = self.source.clone().filter(|_| !touched.is_empty())?;
        let mut list = std::mem::take(&mut self.list);
        let looking = tokio::task::spawn_blocking(move || {
            let found = source.touched(&mut list, &touched, &known);
            (found, list)
        });
        let (found, list) = whole(looking.await)?;
        self.list = list;
        found.record(Told::Touched)
    }

    /// A call begins that touches files.
    pub(super) fn note_touched(&mut self, access: &Access) {
        let Some(source) = &self.source else { return };
        let (reads, writes): (&[PathFact], &[PathFact]) = match access {
            Access::Read { paths } => (paths, &[]),
            Access::Write { paths } => (&[], paths),
            // Of a command only what it says itself is known.
            Access::Execute { footprint, .. } => (&footprint.reads, &footprint.writes),
            Access::Internal
            | Access::Network { .. }
            | Access::Mcp { .. }
            | Access::Agent { .. }
            | Access::Consult(_) => return,
        };
        for PathFact { target, .. } in reads.iter().chain(writes) {
            if source.may_matter(&self.list, target) && !self.touched.contains(target) {
                self.touched.push(target.clone());
            }
        }
    }
}

impl Agent {
    /// Tells what holds for the session, or what of it changed since it was told.
    pub(crate) async fn instruct_at_start(&mut self) -> Reaction {
        let known = Arc::clone(&self.parts.session.state().instructions);
        let told = if known.is_empty() { Told::AtStart } else { Told::Changed };
        let now_ms = self.parts.deck.now().wall_ms;
        let (record, notices) = if self.parts.deck.is_replaying() {
            self.parts.deck.again(AT_START, Words::default())
        } else {
            let words = self.parts.instructing.look_at_start(known, told, now_ms).await;
            self.parts.deck.gave(AT_START, words)
        };
        for text in notices {
            self.parts.session.tell(AgentEvent::Notice { text }).await;
        }
        self.instruct(record).await
    }

    /// Tells what counts because of the files that were touched.
    pub(super) async fn tell_of_instructions(&mut self) -> Reaction {
        let record = if self.parts.deck.is_replaying() {
            self.parts.deck.again(FOR_FILES, None)
        } else {
            let known = Arc::clone(&self.parts.session.state().instructions);
            let record = self.parts.instructing.look_for_touched(known).await;
            self.parts.deck.gave(FOR_FILES, record)
        };
        self.instruct(record).await
    }

    async fn instruct(&mut self, record: Option<InstructionRecord>) -> Reaction {
        let Some(record) = record else { return Ok(()) };
        let files = record.files.clone();
        self.parts.session.record(SessionEvent::Instructed { record }).await?;
        for file in files.iter().filter(|file| file.scope != InstructionScope::Memory) {
            self.tell_hooks_of(file).await?;
        }
        Ok(())
    }

    async fn tell_hooks_of(&mut self, file: &Instruction) -> Result<(), LogError> {
        let mut occasion =
            Occasion::instructions_loaded(&file.path, file.scope.as_str(), file.reason.as_str());
        if !file.globs.is_empty() {
            occasion = occasion.with("globs", file.globs.clone());
        }
        let others = [("trigger_file_path", &file.trigger), ("parent_file_path", &file.parent)];
        for (key, path) in others.into_iter().filter_map(|(key, path)| Some((key, path.as_ref()?))) {
            occasion = occasion.with(key, path.to_string_lossy());
        }
        match self.ask_hooks(&occasion).await? {
            // They are told, and have no say.
            Heard::Word(_) => {}
            Heard::Interrupted => self.waiting.push_front(Command::Interrupt),
        }
        Ok(())
    }
}

/// What looking gave; a bug in it costs the instructions, not the turn.
fn whole<T>(looked: Result<T, JoinError>) -> Option<T> {
    looked.inspect_err(|error| tracing::error!(%error, "instructions could not be looked for")).ok()
}
