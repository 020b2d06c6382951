//! The door to control: what is asked of the executor and its hooks, live or from a tape. In a replay nothing is
//! there to be asked, so nothing can run; unless calls are to be run again, and then only to compare.

use super::{again::Again, deck::Deck};
use ostler_control::{
    ExecEvent, Executor,
    executor::{Abandoned, Cause, ChangedFile, Recalled, Room},
    hooks::{Fired, Occasion, Told},
};
use ostler_proto::{
    Answer, AskId, EntryId, HookEvent, HookId, HookRecord, HookReply, HostHook, Job, JobId, Mode, SessionId,
    ToolCall, ToolSpec,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// What an agent has others do for it.
pub(crate) struct Hands {
    pub(super) deck: Arc<Deck>,
    pub(super) doer: Doer,
}

pub(super) enum Doer {
    Executor(Box<Executor>),
    Tape(Taped),
}

/// What stands for an executor while a tape is played.
#[derive(Default)]
pub(super) struct Taped {
    /// How many calls are open.
    open: u64,
    /// What runs them again, if that is wanted.
    again: Option<Box<Again>>,
}

/// What hooks made of an event, and what the log keeps of it.
pub(crate) type Word = Option<Box<(Fired, HookRecord)>>;

impl Hands {
    pub(crate) fn new(deck: Arc<Deck>, executor: Executor) -> Self {
        Self { deck, doer: Doer::Executor(Box::new(executor)) }
    }

    /// Hands that do nothing: what came of it is on the tape.
    pub(crate) fn idle(deck: Arc<Deck>) -> Self {
        Self { deck, doer: Doer::Tape(Taped::default()) }
    }

    /// Hands that do again what ends on the tape; the loop gets what came of it then.
    pub(crate) fn repeating(deck: Arc<Deck>, again: Again) -> Self {
        Self { deck, doer: Doer::Tape(Taped { open: 0, again: Some(Box::new(again)) }) }
    }

    pub(crate) fn offered(&self) -> Vec<ToolSpec> {
        self.ask("tools", Vec::new(), Executor::offered)
    }

    pub(crate) fn begin_answer(&mut self) {
        match &mut self.doer {
            Doer::Executor(executor) => executor.begin_answer(),
            Doer::Tape(taped) => {
                if let Some(again) = &mut taped.again {
                    again.executor().begin_answer();
                }
            }
        }
    }

    pub(crate) fn enter(&self, session: &SessionId, transcript: Option<PathBuf>) {
        if let Some(executor) = self.anybody() {
            executor.enter(session, transcript);
        }
    }

    pub(crate) fn start(&mut self, call: ToolCall) {
        match &mut self.doer {
            Doer::Executor(executor) => executor.start(call),
            Doer::Tape(taped) => taped.open += 1,
        }
    }

    pub(crate) fn open_calls(&self) -> u64 {
        match &self.doer {
            Doer::Executor(executor) => executor.open_calls(),
            Doer::Tape(taped) => taped.open,
        }
    }

    /// The next report; waits forever where reports come from a tape.
    pub(crate) async fn next(&mut self) -> ExecEvent {
        match &mut self.doer {
            Doer::Executor(executor) => executor.next().await,
            Doer::Tape(_) => std::future::pending().await,
        }
    }

    /// A report came from a tape.
    pub(crate) async fn note(&mut self, event: &ExecEvent) {
        let Doer::Tape(taped) = &mut self.doer else { return };
        if let ExecEvent::Finished(_) = event {
            taped.open = taped.open.saturating_sub(1);
        }
        if let Some(again) = &mut taped.again
            && let Err(how) = again.note(event).await
        {
            self.deck.diverge(how);
        }
    }

    pub(crate) fn answer(&mut self, ask: AskId, answer: Answer) {
        match &mut self.doer {
            Doer::Executor(executor) => executor.answer(ask, answer),
            Doer::Tape(taped) => {
                if let Some(again) = &mut taped.again {
                    again.answered(ask, answer);
                }
            }
        }
    }

    pub(crate) fn new_ask(&self) -> AskId {
        self.ask("a question's id", AskId(0), Executor::new_ask)
    }

    pub(crate) fn cancel(&mut self, cause: Cause) {
        if let Doer::Executor(executor) = &mut self.doer {
            executor.cancel(cause);
        }
    }

    pub(crate) async fn abandon(&mut self) -> Abandoned {
        let of = "abandon";
        match &mut self.doer {
            Doer::Executor(executor) => self.deck.gave(of, executor.abandon().await),
            Doer::Tape(taped) => {
                let abandoned = self.deck.again(of, Abandoned::EffectBegan);
                if abandoned == Abandoned::Yes {
                    taped.forget_all().await;
                }
                abandoned
            }
        }
    }

    pub(crate) async fn forget_all(&mut self) {
        match &mut self.doer {
            Doer::Executor(executor) => executor.forget_all().await,
            Doer::Tape(taped) => taped.forget_all().await,
        }
    }

    pub(crate) fn has_running_jobs(&self) -> bool {
        self.ask("running jobs?", false, Executor::has_running_jobs)
    }

    pub(crate) fn has_unheard_jobs(&self) -> bool {
        self.ask("ended jobs?", false, Executor::has_unheard_jobs)
    }

    pub(crate) fn take_unheard_jobs(&self) -> Vec<Job> {
        self.ask("ended jobs", Vec::new(), Executor::take_unheard_jobs)
    }

    pub(crate) fn running_jobs(&self) -> Vec<Job> {
        self.ask("running jobs", Vec::new(), Executor::running_jobs)
    }

    pub(crate) fn pending_job_change(&self) -> Option<Job> {
        self.ask("a job's change", None, Executor::pending_job_change)
    }

    pub(crate) fn stop_job(&self, id: &JobId) {
        if let Doer::Executor(executor) = &self.doer {
            executor.stop_job(id);
        }
    }

    pub(crate) async fn stop_jobs(&self) -> Vec<Job> {
        let of = "stopped jobs";
        match &self.doer {
            Doer::Executor(executor) => self.deck.gave(of, executor.stop_jobs().await),
            Doer::Tape(_) => self.deck.again(of, Vec::new()),
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.ask("mode", Mode::default(), Executor::mode)
    }

    pub(crate) fn set_mode(&self, mode: Mode) -> Result<(), String> {
        self.ask("a mode's change", Ok(()), |executor| executor.set_mode(mode))
    }

    pub(crate) fn plan_file(&self) -> Option<PathBuf> {
        self.ask("plan file", None, Executor::plan_file)
    }

    pub(crate) fn cwd(&self) -> PathBuf {
        self.ask("folder", PathBuf::new(), Executor::cwd)
    }

    pub(crate) fn granted_rules(&self) -> Vec<String> {
        self.ask("granted rules", Vec::new(), Executor::granted_rules)
    }

    pub(crate) async fn take_changed_files(&self) -> Vec<ChangedFile> {
        let of = "changed files";
        match &self.doer {
            Doer::Executor(executor) => self.deck.gave(of, executor.take_changed_files().await),
            Doer::Tape(taped) => {
                if let Some(again) = &taped.again {
                    // Told then, whatever it would be now.
                    again.judge().take_changed_files().await;
                }
                self.deck.again(of, Vec::new())
            }
        }
    }

    pub(crate) async fn keep(&self, text: String) -> Option<PathBuf> {
        let of = "a kept text";
        match &self.doer {
            Doer::Executor(executor) => self.deck.gave(of, executor.keep(text).await),
            Doer::Tape(_) => self.deck.again(of, None),
        }
    }

    pub(crate) async fn recall(&self, files: &[PathBuf], room: Room) -> Vec<Recalled> {
        let of = "files as they are";
        match &self.doer {
            Doer::Executor(executor) => self.deck.gave(of, executor.recall(files, room).await),
            Doer::Tape(taped) => {
                if let Some(again) = &taped.again {
                    // They count as read from here on, as they did then.
                    again.judge().recall(files, room).await;
                }
                self.deck.again(of, Vec::new())
            }
        }
    }

    pub(crate) fn forget_views(&self) {
        if let Some(executor) = self.anybody() {
            executor.forget_views();
        }
    }

    pub(crate) async fn recover(&self) -> Vec<String> {
        let of = "what was put back";
        match &self.doer {
            Doer::Executor(executor) => self.deck.gave(of, executor.recover().await),
            Doer::Tape(_) => self.deck.again(of, Vec::new()),
        }
    }

    pub(crate) fn prompted(&mut self, prompt: EntryId, title: String) {
        if let Doer::Executor(executor) = &mut self.doer {
            executor.prompted(prompt, title);
        }
    }

    pub(crate) fn forget_seen<'a>(&self, paths: impl Iterator<Item = &'a Path>) {
        if let Some(executor) = self.anybody() {
            executor.forget_seen(paths);
        }
    }

    pub(crate) fn forget_all_seen(&self) {
        if let Some(executor) = self.anybody() {
            executor.forget_all_seen();
        }
    }

    /// The hooks in force, for the log; none where the session has none at all.
    pub(crate) fn hook_record(&self) -> Option<HookRecord> {
        self.ask("hooks", None, |executor| executor.hooks().map(|hooks| hooks.current().record()))
    }

    pub(crate) fn is_heard(&self, event: HookEvent) -> bool {
        self.ask("listeners?", false, |executor| executor.hooks().is_some_and(|hooks| hooks.is_owed(event)))
    }

    pub(crate) fn set_host_hooks(&self, callbacks: Vec<HostHook>) -> Option<HookRecord> {
        let set = |executor: &Executor| executor.hooks().and_then(|hooks| hooks.set_host(callbacks));
        self.ask("host's hooks", None, set)
    }

    pub(crate) fn answer_hook(&self, id: HookId, reply: HookReply) {
        if let Doer::Executor(executor) = &self.doer
            && let Some(hooks) = executor.hooks()
        {
            hooks.exchange().answer(id, reply);
        }
    }

    pub(crate) fn hang_up(&self) {
        if let Doer::Executor(executor) = &self.doer
            && let Some(hooks) = executor.hooks()
        {
            hooks.exchange().hang_up();
        }
    }

    /// A turn begins with this prompt.
    pub(crate) fn set_prompt(&self, prompt: EntryId) {
        if let Doer::Executor(executor) = &self.doer
            && let Some(hooks) = executor.hooks()
        {
            hooks.set_prompt(prompt);
        }
    }

    /// What hooks have told already.
    pub(crate) fn pending_told(&self) -> Option<Told> {
        self.ask("a hook's news", None, |executor| {
            executor.hooks().and_then(|hooks| hooks.exchange().pending())
        })
    }

    /// What hooks tell next; waits forever where that comes from a tape.
    pub(crate) fn next_told(&self) -> impl Future<Output = Told> + use<> {
        let hooks = match &self.doer {
            Doer::Executor(executor) => executor.hooks().cloned(),
            Doer::Tape(_) => None,
        };
        async move {
            match hooks {
                Some(hooks) => hooks.exchange().next().await,
                None => std::future::pending().await,
            }
        }
    }

    /// Tells hooks of an event; waits forever where their word comes from a tape.
    pub(crate) fn fire(&self, occasion: &Occasion) -> impl Future<Output = Word> + use<> {
        let firing = match &self.doer {
            Doer::Executor(executor) => Some(executor.fire(occasion)),
            Doer::Tape(_) => None,
        };
        async move {
            match firing {
                Some(firing) => firing.await.map(Box::new),
                None => std::future::pending().await,
            }
        }
    }

    /// Whoever runs calls here, for the first time or again.
    fn anybody(&self) -> Option<&Executor> {
        match &self.doer {
            Doer::Executor(executor) => Some(executor),
            Doer::Tape(taped) => taped.again.as_ref().map(|again| again.judge()),
        }
    }

    fn ask<T: Serialize + DeserializeOwned>(
        &self,
        of: &str,
        otherwise: T,
        live: impl FnOnce(&Executor) -> T,
    ) -> T {
        match &self.doer {
            Doer::Executor(executor) => self.deck.gave(of, live(executor)),
            Doer::Tape(_) => self.deck.again(of, otherwise),
        }
    }
}

impl Taped {
    /// Whether calls are run again.
    pub(super) fn runs_calls(&self) -> bool {
        self.again.is_some()
    }

    async fn forget_all(&mut self) {
        self.open = 0;
        if let Some(again) = &mut self.again {
            again.executor().forget_all().await;
        }
    }
}
