//! `/context`: what fills the context window, and when the prompt cache was lost.

use super::{Builtin, Outcome};

pub(super) const CONTEXT: Builtin = Builtin {
    name: "context",
    argument_hint: "",
    description: "Show what fills the context window, and what broke the prompt cache",
    run: |agent, _| {
        Box::pin(async move {
            let usage = agent.context_usage();
            Ok(Outcome::Counted { output: usage.to_text(), figures: usage.to_json() })
        })
    },
};
