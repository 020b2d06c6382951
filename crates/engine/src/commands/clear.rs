//! `/clear`: the conversation ends and another begins, with an id and a file of its own.

use super::{Builtin, Outcome};

pub(super) const CLEAR: Builtin = Builtin {
    name: "clear",
    argument_hint: "",
    description: "Begin a new conversation; the old one can be resumed",
    run: |_, _| Box::pin(async { Ok(Outcome::StartOver) }),
};
