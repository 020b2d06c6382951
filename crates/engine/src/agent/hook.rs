//! Hooks on what is not a call: the session's start and end, the prompt, and the end of a turn.
//! While they are asked the inbox is still heard, so that an interrupt never waits for a hook.

use super::{Agent, Reaction};
use crate::session::LogError;
use ostler_control::hooks::{Fired, Occasion, occasion::Again, plain, reminder};
use ostler_proto::{AgentEvent, Block, Command, HookRecord, SessionEvent, TurnOutcome, Verdict};

/// How often in one turn hooks may keep the agent from stopping.
const MAX_SENT_BACK: u32 = 8;

/// What came of asking hooks.
enum Heard {
    /// What they said; nothing where nobody listens.
    Word(Box<Fired>),
    /// The user did not want to wait for it.
    Interrupted,
}

impl Agent {
    /// The session is opened: the log learns which hooks are in force, and they learn of the session.
    pub(super) async fn hooks_at_start(&mut self, is_resumed: bool) -> Reaction {
        let Some(record) = self.parts.executor.hook_record() else { return Ok(()) };
        let is_empty = matches!(&record, HookRecord::Configured { hooks } if hooks.is_empty());
        // A resumed session may have had other hooks, which are no longer in force.
        if is_resumed || !is_empty {
            self.parts.session.record(SessionEvent::Hooked { record }).await?;
        }
        let source = if is_resumed { "resume" } else { "startup" };
        let occasion = Occasion::session_start(source, &self.parts.chosen.name);
        match self.ask_hooks(&occasion).await? {
            Heard::Word(fired) => self.unheard.extend(fired.additional_context),
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
        let occasion = Occasion::user_prompt_submit(&texts.join("\n"));
        let Heard::Word(fired) = self.ask_hooks(&occasion).await? else {
            return Ok(Some(TurnOutcome::Interrupted { during_tools: false }));
        };
        if let Some(Verdict::Deny { reason, .. }) = &fired.verdict {
            let message = format!("the prompt was blocked by a hook: {}", plain(reason));
            return Ok(Some(TurnOutcome::Failed { message }));
        }
        self.unheard.extend(fired.additional_context);
        Ok(None)
    }

    /// The turn would end: hooks may send the agent back to work.
    pub(super) async fn hooks_before_end(&mut self) -> Reaction {
        let (text, sent_back) =
            self.turn.as_ref().map(|turn| (turn.text.clone(), turn.sent_back)).unwrap_or_default();
        let again = if sent_back > 0 { Again::Yes } else { Again::No };
        let Heard::Word(mut fired) = self.ask_hooks(&Occasion::stop(&text, again)).await? else {
            return self.end(TurnOutcome::Interrupted { during_tools: false }).await;
        };
        if let Some(reason) = &fired.stop {
            self.note_stop(reason).await;
            return self.end(TurnOutcome::Completed).await;
        }
        let Some(reason) = fired.block.take() else { return self.end(TurnOutcome::Completed).await };
        if sent_back >= MAX_SENT_BACK {
            let text = format!("hooks kept the turn from ending {MAX_SENT_BACK} times in a row; it ends now");
            self.parts.session.tell(AgentEvent::Notice { text }).await;
            return self.end(TurnOutcome::Completed).await;
        }
        if let Some(turn) = &mut self.turn {
            turn.sent_back += 1;
        }
        self.unheard.extend(fired.additional_context);
        let content = vec![Block::text(format!("Stop hook feedback:\n{}", plain(&reason)))];
        self.parts.session.record(SessionEvent::Prompted { content, meta: true }).await?;
        self.request().await
    }

    /// Tells the model what hooks said for it.
    pub(super) async fn tell_of_hooks(&mut self) -> Reaction {
        for late in self.parts.executor.take_late_words() {
            self.unheard.extend(late.additional_context.into_iter().chain(late.wakes));
            self.show(late.system_messages).await;
        }
        if self.unheard.is_empty() {
            return Ok(());
        }
        let content = self.unheard.drain(..).map(|text| Block::text(reminder(&text))).collect();
        self.parts.session.record(SessionEvent::Prompted { content, meta: true }).await?;
        Ok(())
    }

    /// The session is over. Nobody is left who could interrupt, so the hooks' own limits are short.
    pub(super) async fn tell_hooks_of_end(&mut self) -> Reaction {
        if !self.opened {
            return Ok(());
        }
        if let Some((_, record)) = self.parts.executor.fire(&Occasion::session_end("other")).await {
            self.parts.session.record(SessionEvent::Hooked { record }).await?;
            self.parts.session.sync()?;
        }
        Ok(())
    }

    /// A hook ends the turn, and nothing prolongs it.
    pub(super) async fn note_stop(&mut self, reason: &str) {
        if let Some(turn) = &mut self.turn {
            turn.ended_by_hook = true;
        }
        self.show(vec![format!("stopped by a hook: {reason}")]).await;
    }

    /// Fires and records. Commands that come meanwhile are kept for later; one that ends the turn ends the wait.
    async fn ask_hooks(&mut self, occasion: &Occasion) -> Result<Heard, LogError> {
        if let Some(place) = self.waiting.iter().position(|command| *command == Command::Interrupt) {
            self.waiting.remove(place);
            return Ok(Heard::Interrupted);
        }
        let (executor, inbox) = (&self.parts.executor, &mut self.parts.inbox);
        let waiting = &mut self.waiting;
        let interrupted = async {
            loop {
                match inbox.recv().await {
                    None | Some(Command::Interrupt) => return,
                    Some(command) => waiting.push_back(command),
                }
            }
        };
        let fired = tokio::select! {
            biased;
            fired = executor.fire(occasion) => fired,
            () = interrupted => return Ok(Heard::Interrupted),
        };
        let Some((mut fired, record)) = fired else { return Ok(Heard::Word(Box::default())) };
        self.parts.session.record(SessionEvent::Hooked { record }).await?;
        self.show(std::mem::take(&mut fired.system_messages)).await;
        Ok(Heard::Word(Box::new(fired)))
    }

    async fn show(&mut self, messages: Vec<String>) {
        for text in messages {
            self.parts.session.tell(AgentEvent::Notice { text }).await;
        }
    }
}
