//! `/help`: which commands there are.

use super::{Builtin, Outcome, commands};

pub(super) const HELP: Builtin = Builtin {
    name: "help",
    argument_hint: "",
    description: "List the commands",
    run: |_, _| {
        Box::pin(async {
            let line = |info: ostler_proto::CommandInfo| {
                format!("/{} {}", info.name, info.argument_hint).trim_end().to_owned()
                    + ": "
                    + &info.description
            };
            Ok(Outcome::Said(commands().into_iter().map(line).collect::<Vec<_>>().join("\n")))
        })
    },
};
