//! `/context`: what fills the context window, and when the prompt cache was lost.

use super::{Builtin, Outcome};

pub(super) const CONTEXT: Builtin = Builtin {
    name: "context",
    argument_hint: "",
    description: "Show what fills the context window, and what broke the prompt cache",
    run: |agent, _| Box::pin(async move { Ok(Outcome::Said(agent.context_usage().to_text())) }),
};
