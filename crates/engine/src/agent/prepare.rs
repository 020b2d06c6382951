//! What comes before a request is sent: notes that are due, the request itself, and its audit. Nothing here
//! decides whether the turn may go on.

use super::{Agent, Reaction};
use crate::{
    context::{
        ContextUsage, Picture,
        audit::{self, Broken},
        reminder,
        request::{Ingredients, build, longest_answer},
    },
    session::LogError,
    spawn::CacheBreaks,
};
use ostler_proto::{Block, Request, Scope, SessionEvent, TurnOutcome};

impl Agent {
    /// The next request, on record where it breaks the cache; or how the turn ends because it may not.
    pub(super) async fn next_request(&mut self) -> Result<Result<Request, TurnOutcome>, LogError> {
        self.tell_of_instructions().await?;
        self.tell_of_todos().await?;
        self.tell_of_jobs().await?;
        self.tell_of_hooks().await?;
        self.tell_of_plan().await?;
        let mut request = self.build_request();
        let cache = &self.parts.session.state().cache;
        let (edit, measured) = (cache.edit.clone(), cache.measured());
        let audit = self.auditor.audit(&self.parts.chosen.name, &request, edit);
        let guessed = audit.fingerprint.tokens;
        let tokens = measured.map_or(guessed, |measured| measured.set_right(guessed));
        if let Some(Broken { by, bytes }) = audit.broken {
            if self.parts.limits.cache_breaks == CacheBreaks::Forbidden {
                let message = format!(
                    "the request would break the prompt cache: {by}; nothing was sent (leave --forbid-cache-break out to allow it)"
                );
                return Ok(Err(TurnOutcome::Failed { message }));
            }
            // Tokens are not known for a part of a request; its share of the bytes is near enough.
            let lost = tokens.saturating_mul(bytes) / audit.fingerprint.bytes.max(bytes).max(1);
            let est_cost_usd = audit::cost(&self.parts.chosen.row, lost);
            self.parts.session.record(SessionEvent::CacheBroken { by, bytes, est_cost_usd }).await?;
        }
        self.auditor.sent(audit.fingerprint);
        request.max_output_tokens = longest_answer(&request, &self.parts.chosen.row, tokens);
        Ok(Ok(request))
    }

    pub(super) fn build_request(&self) -> Request {
        build(Ingredients {
            chosen: &self.parts.chosen,
            limits: &self.parts.limits,
            system: &self.parts.system,
            tools: &self.tools,
            messages: self.parts.session.state().messages(),
        })
    }

    /// Where the tokens are.
    pub(crate) fn context_usage(&self) -> ContextUsage {
        ContextUsage::of(&Picture {
            state: self.parts.session.state(),
            system: &self.parts.system,
            tools: &self.tools,
            model: &self.parts.chosen.name,
            row: &self.parts.chosen.row,
            auto_compact: self.parts.limits.auto_compact,
        })
    }

    /// Says, once a process, what holds now and is said nowhere else.
    pub(super) async fn tell_of_now(&mut self) -> Reaction {
        let sections = self.parts.system.iter().filter(|section| section.scope == Scope::Ephemeral);
        let notes = sections.map(reminder::of_section).filter(|note| !self.has_said(note)).collect();
        self.note(notes).await
    }

    /// Says, once a change, which seen files changed.
    pub(super) async fn tell_of_files(&mut self) -> Reaction {
        let files = self.parts.executor.take_changed_files().await;
        let note = reminder::of_files(&files, &self.parts.executor.cwd());
        self.note(note.into_iter().collect()).await
    }

    /// Recalls, once a list, what is still to be done.
    async fn tell_of_todos(&mut self) -> Reaction {
        let state = self.parts.session.state();
        let note = reminder::of_todos(&state.todos, state.answers_since_todos);
        let note = note.filter(|note| !self.has_said(note));
        self.note(note.into_iter().collect()).await
    }

    fn has_said(&self, note: &Block) -> bool {
        self.parts.session.state().has_said(note)
    }

    async fn note(&mut self, content: Vec<Block>) -> Reaction {
        if !content.is_empty() {
            self.parts.session.record(SessionEvent::Prompted { content, meta: true }).await?;
        }
        Ok(())
    }
}
