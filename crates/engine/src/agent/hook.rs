//! Hooks on what is not a call: the session's start and end, the prompt, the end of a batch of calls and of a
//! turn. While they are asked the inbox is still heard, so that an interrupt never waits for a hook.

use super::{Agent, Reaction, Urgency, queue::is_interrupt};
use crate::{
    session::LogError,
    spawn::{Lifetime, Origin},
    world::{Came, hands::Word},
};
use futures_util::{FutureExt, future::BoxFuture};
use ostler_control::hooks::{Fired, Occasion, Told, occasion::Again, plain, reminder};
use ostler_proto::{
    AgentEvent, Block, Command, ErrorKind, HookEvent, HookRecord, HostHook, SessionEvent, TurnOutcome,
    Verdict, Why,
};
use serde_json::json;

/// How often in one turn hooks may keep the agent from stopping.
const MAX_SENT_BACK: u32 = 8;

/// The longest name a hook may give a session, in characters.
const LONGEST_TITLE: usize = 200;

/// What came of asking hooks.
pub(super) enum Heard {
    /// What they said; nothing where nobody listens.
    Word(Box<Fired>),
    /// The user did not want to wait for it.
    Interrupted,
}

/// Whether waiting for hooks can be cut short.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    UntilInterrupted,
    /// Nobody is left who could interrupt; their own limits are short.
    ToTheEnd,
}

impl Agent {
    /// The session is opened: the log learns which hooks are in force, and they learn of the session.
    pub(super) async fn hooks_at_start(&mut self) -> Reaction {
        let Some(record) = self.parts.executor.hook_record() else {
            return Ok(());
        };
        let is_empty = matches!(&record, HookRecord::Configured { hooks } if hooks.is_empty());
        let (source, had_hooks) = match self.origin {
            Origin::New => ("startup", false),
            Origin::Cleared => ("clear", false),
            // It may have had other hooks, which are no longer in force.
            Origin::Resumed => ("resume", true),
            Origin::Forked => ("fork", true),
        };
        if had_hooks || !is_empty {
            self.parts.session.record(SessionEvent::Hooked { record }).await?;
        }
        let occasion = self.titled(Occasion::session_start(source, &self.parts.chosen.name));
        match self.ask_hooks(&occasion).await? {
            Heard::Word(fired) => {
                self.name_session(fired.extras.title)?;
                self.opening = fired.extras.opening;
                self.unheard.extend(fired.additional_context);
            }
            // It is about the whole turn, which has yet to begin.
            Heard::Interrupted => self.waiting.push_front(Command::Interrupt),
        }
        Ok(())
    }

    /// Asks about a prompt before anything of it is recorded; gives how the turn ends if it may not begin.
    pub(super) async fn hooks_on_prompt(
        &mut self,
        content: &[Block],
    ) -> Result<Option<TurnOutcome>, LogError> {
        let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
        let occasion = self.titled(Occasion::user_prompt_submit(&texts.join("\n")));
        let Heard::Word(fired) = self.ask_hooks(&occasion).await? else {
            return Ok(Some(TurnOutcome::Interrupted { during_tools: false }));
        };
        if let Some(reason) = fired.stop {
            return Ok(Some(TurnOutcome::HookStopped { reason }));
        }
        if let Some(Verdict::Deny { reason, .. }) = &fired.verdict {
            let message = format!("the prompt was blocked by a hook: {}", plain(reason));
            return Ok(Some(TurnOutcome::Failed { message }));
        }
        self.name_session(fired.extras.title)?;
        self.unheard.extend(fired.additional_context);
        Ok(None)
    }

    /// What hooks on the start and on prompts are told of the session's name.
    fn titled(&self, occasion: Occasion) -> Occasion {
        match &self.parts.session.state().labels.title {
            Some(title) => occasion.with("session_title", title.as_str()),
            None => occasion,
        }
    }

    /// Gives the session the name that hooks want it to have.
    fn name_session(&mut self, title: Option<String>) -> Reaction {
        let Some(title) = title else { return Ok(()) };
        let title = plain(&title).split_whitespace().collect::<Vec<_>>().join(" ");
        let title: String = title.chars().take(LONGEST_TITLE).collect();
        if !title.is_empty() && self.parts.session.state().labels.title.as_ref() != Some(&title) {
            self.parts.session.name(&title)?;
        }
        Ok(())
    }

    /// The turn would end: hooks may send the agent back to work.
    pub(super) async fn hooks_before_end(&mut self) -> Reaction {
        let (text, sent_back) =
            self.turn.as_ref().map(|turn| (turn.text.clone(), turn.sent_back)).unwrap_or_default();
        let again = if sent_back > 0 { Again::Yes } else { Again::No };
        let Heard::Word(mut fired) = self.ask_hooks(&Occasion::stop(&text, again)).await? else {
            return self.end(TurnOutcome::Interrupted { during_tools: false }).await;
        };
        let is_wanted = fired.block.is_some() || !fired.additional_context.is_empty();
        if fired.stop.is_some() || !is_wanted {
            return self.end(TurnOutcome::Completed).await;
        }
        if sent_back >= MAX_SENT_BACK {
            let text = format!("hooks kept the turn from ending {MAX_SENT_BACK} times in a row; it ends now");
            self.parts.session.tell(AgentEvent::Notice { text }).await;
            return self.end(TurnOutcome::Completed).await;
        }
        if let Some(turn) = &mut self.turn {
            turn.sent_back += 1;
            turn.rounds.because(Why::StopHook);
        }
        self.unheard.extend(fired.additional_context);
        if let Some(reason) = fired.block.take() {
            let content = vec![Block::text(format!("Stop hook feedback:\n{}", plain(&reason)))];
            self.parts.session.record(SessionEvent::Prompted { content, meta: true }).await?;
        }
        self.request().await
    }

    /// All calls of an answer have their results: hooks may end the turn before the model reads them.
    pub(super) async fn hooks_after_batch(&mut self) -> Reaction {
        let calls = self.turn.as_mut().map(|turn| std::mem::take(&mut turn.batch)).unwrap_or_default();
        if calls.is_empty() {
            return self.request().await;
        }
        let Heard::Word(mut fired) = self.ask_hooks(&Occasion::post_tool_batch(calls)).await? else {
            return self.end(TurnOutcome::Interrupted { during_tools: false }).await;
        };
        if let Some(reason) = fired.stop.take().or(fired.block.take()) {
            return self.end(TurnOutcome::HookStopped { reason }).await;
        }
        self.unheard.extend(fired.additional_context);
        self.request().await
    }

    /// Whether anything would listen.
    pub(super) fn is_heard(&self, event: HookEvent) -> bool {
        self.parts.executor.is_heard(event)
    }

    /// The turn ends because the model could not be asked. Nothing hooks say changes that.
    pub(super) async fn hooks_on_failure(&mut self, kind: ErrorKind, message: &str) -> Reaction {
        let text = self.turn.as_ref().map(|turn| turn.text.clone()).unwrap_or_default();
        let kind = json!(kind).as_str().unwrap_or("unknown").to_owned();
        self.ask_hooks(&Occasion::stop_failure(&kind, message, &text)).await?;
        Ok(())
    }

    /// Tells the model what hooks said for it.
    pub(super) async fn tell_of_hooks(&mut self) -> Reaction {
        self.hear_all().await?;
        self.urgency = Urgency::InTime;
        if self.unheard.is_empty() {
            return Ok(());
        }
        let content = self.unheard.drain(..).map(|text| Block::text(reminder(&text))).collect();
        self.parts.session.record(SessionEvent::Prompted { content, meta: true }).await?;
        Ok(())
    }

    /// Takes the host's callbacks as hooks.
    pub(super) async fn set_host_hooks(&mut self, callbacks: Vec<HostHook>) -> Reaction {
        let record = self.parts.executor.set_host_hooks(callbacks);
        match record {
            Some(record) => self.record_if_open(SessionEvent::Hooked { record }).await,
            None => Ok(()),
        }
    }

    /// Hooks told something; one that wakes the model starts a turn if there is none.
    pub(super) async fn on_told(&mut self, told: Told) -> Reaction {
        // Those who speak about a call or a prompt are heeded where that is dealt with.
        let is_a_word_aside = matches!(told, Told::Fired { .. });
        self.hear(told).await?;
        if let Some(outcome) = self.stopped_by_hook().filter(|_| is_a_word_aside) {
            return self.stop(outcome).await;
        }
        let is_idle = self.turn.is_none() && !self.closing;
        let may_wake = self.parts.limits.lifetime == Lifetime::Conversation && !self.budget.is_spent();
        if self.urgency == Urgency::Now && is_idle && may_wake {
            self.begin_turn().await?;
            return self.advance().await;
        }
        Ok(())
    }

    /// The session is over.
    pub(super) async fn tell_hooks_of_end(&mut self, reason: &str) -> Reaction {
        if !self.opened {
            return Ok(());
        }
        if self.is_heard(HookEvent::SessionEnd) {
            self.wait_for_hooks(&Occasion::session_end(reason), Patience::ToTheEnd).await?;
            self.parts.session.sync()?;
        }
        Ok(())
    }

    /// How the turn ends if a hook stopped the run.
    pub(super) fn stopped_by_hook(&self) -> Option<TurnOutcome> {
        let reason = self.turn.as_ref()?.stopped_by_hook.clone()?;
        Some(TurnOutcome::HookStopped { reason })
    }

    /// Records what hooks did, and books what they used of a model.
    pub(super) async fn record_hooks(&mut self, mut record: HookRecord) -> Reaction {
        if let HookRecord::Fired(firing) = &mut record {
            if let (Some(turn), Some(reason)) = (&mut self.turn, &firing.stop) {
                turn.stopped_by_hook.get_or_insert_with(|| reason.clone());
            }
            for spent in firing.runs.iter_mut().filter_map(|run| run.spent.as_mut()) {
                // A model that can be asked once can be found again; if not, nobody knows its price.
                if let Ok(chosen) = self.choose(&spent.model) {
                    spent.cost_usd = self.charge_hooks(&chosen, spent.usage);
                }
            }
        }
        self.record_if_open(SessionEvent::Hooked { record }).await
    }

    /// Fires and records. Commands that come meanwhile are kept for later; one that ends the turn ends the wait.
    pub(super) async fn ask_hooks(&mut self, occasion: &Occasion) -> Result<Heard, LogError> {
        if let Some(place) = self.waiting.iter().position(is_interrupt)
            && let Some(command) = self.waiting.remove(place)
        {
            self.acknowledge(command).await;
            return Ok(Heard::Interrupted);
        }
        self.wait_for_hooks(occasion, Patience::UntilInterrupted).await
    }

    async fn wait_for_hooks(&mut self, occasion: &Occasion, patience: Patience) -> Result<Heard, LogError> {
        let mut firing = self.parts.executor.fire(occasion).boxed();
        let mut is_listening = self.listening;
        let fired = loop {
            let command = match self.next_word(&mut firing, is_listening).await {
                Came::Fired(fired) => break Some(fired),
                Came::Told(told) => {
                    self.hear(*told).await?;
                    continue;
                }
                Came::Command(command) => Some(*command),
                Came::Gone => None,
                came @ (Came::Heard
                | Came::Broke(_)
                | Came::Ended
                | Came::Tools(_)
                | Came::PauseOver
                | Came::TimeOver) => self.parts.deck.is_no_use(&came).await,
            };
            is_listening = command.is_some();
            if self.stops_the_wait(command).await? && patience == Patience::UntilInterrupted {
                break None;
            }
        };
        drop(firing);
        // What they had to tell comes before what is made of it.
        self.hear_all().await?;
        let fired = match fired {
            None => return Ok(Heard::Interrupted),
            Some(None) => return Ok(Heard::Word(Box::default())),
            Some(Some(word)) => {
                let (fired, record) = *word;
                self.record_hooks(record).await?;
                fired
            }
        };
        let mut fired = Box::new(fired);
        self.show(std::mem::take(&mut fired.system_messages)).await;
        Ok(Heard::Word(fired))
    }

    /// What comes next while hooks are asked.
    async fn next_word(&mut self, firing: &mut BoxFuture<'static, Word>, is_listening: bool) -> Came {
        if self.parts.deck.is_replaying() {
            return self.parts.deck.next().await;
        }
        let came = tokio::select! {
            biased;
            fired = firing => Came::Fired(fired),
            told = self.parts.executor.next_told() => Came::Told(Box::new(told)),
            command = self.parts.inbox.recv(), if is_listening => {
                command.map_or(Came::Gone, |command| Came::Command(Box::new(command)))
            }
        };
        self.parts.deck.came(|| came.clone());
        came
    }

    /// What a command means for a wait. Questions and answers are served at once.
    async fn stops_the_wait(&mut self, command: Option<Command>) -> Result<bool, LogError> {
        match command {
            None => {
                self.hang_up();
                return Ok(true);
            }
            Some(command) if is_interrupt(&command) => {
                self.acknowledge(command).await;
                return Ok(true);
            }
            Some(Command::AnswerHook { id, reply }) => {
                self.parts.executor.answer_hook(id, reply);
            }
            Some(Command::Query { id, query }) => Box::pin(self.on_query(id, query)).await?,
            Some(command) => self.waiting.push_back(command),
        }
        Ok(false)
    }

    /// Nobody is left to call back.
    pub(super) fn hang_up(&self) {
        self.parts.executor.hang_up();
    }

    async fn hear_all(&mut self) -> Reaction {
        while let Some(told) = self.parts.executor.pending_told() {
            self.hear(told).await?;
        }
        Ok(())
    }

    async fn hear(&mut self, told: Told) -> Reaction {
        match told {
            Told::News(news) => self.parts.session.tell(AgentEvent::Hook(news)).await,
            Told::Fired { record, messages } => {
                self.record_hooks(record).await?;
                self.show(messages).await;
            }
            Told::Late(late) => {
                self.record_hooks(late.record()).await?;
                if late.wakes.is_some() {
                    self.urgency = Urgency::Now;
                }
                self.unheard.extend(late.additional_context.into_iter().chain(late.wakes));
                self.show(late.system_messages).await;
            }
        }
        Ok(())
    }

    async fn show(&mut self, messages: Vec<String>) {
        for text in messages {
            self.parts.session.tell(AgentEvent::Notice { text }).await;
        }
    }
}
