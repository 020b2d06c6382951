//! `/model`: which model answers, and another one from now on.

use super::{Builtin, Outcome};

pub(super) const MODEL: Builtin = Builtin {
    name: "model",
    argument_hint: "[name]",
    description: "Show or change the model",
    run: |agent, name| {
        Box::pin(async move {
            if !name.is_empty()
                && let Err(problem) = agent.change_model(name).await?
            {
                return Ok(Outcome::Said(problem));
            }
            Ok(Outcome::Said(format!("The model is {}.", agent.parts.chosen.name)))
        })
    },
};
