//! Commands that a prompt may begin with and that Ostler itself carries out. One file each and one line in
//! the table; a `/name` that is not in it is said to the model like any other words.

mod clear;
mod compact;
mod context;
mod cost;
mod help;
mod model;
mod rewind;

pub(crate) use rewind::rewind_files;

use crate::{agent::Agent, session::LogError};
use futures_util::future::BoxFuture;
use ostler_proto::{Block, CommandInfo, Json};

/// One command.
pub(crate) struct Builtin {
    pub(crate) name: &'static str,
    pub(crate) argument_hint: &'static str,
    pub(crate) description: &'static str,
    pub(crate) run: Run,
}

/// Carries a command out, given what followed its name.
pub(crate) type Run = for<'a> fn(&'a mut Agent, &'a str) -> BoxFuture<'a, Result<Outcome, LogError>>;

/// What a command came to.
pub(crate) enum Outcome {
    /// It is done, and this is what the user reads.
    Said(String),
    /// The same, with the figures for programs.
    Counted { output: String, figures: Json },
    /// The conversation ends here and another begins.
    StartOver,
}

const ALL: &[Builtin] =
    &[clear::CLEAR, compact::COMPACT, context::CONTEXT, cost::COST, help::HELP, model::MODEL, rewind::REWIND];

/// The commands there are, for frontends to list.
pub fn commands() -> Vec<CommandInfo> {
    let info = |builtin: &Builtin| CommandInfo {
        name: builtin.name.to_owned(),
        description: builtin.description.to_owned(),
        argument_hint: builtin.argument_hint.to_owned(),
    };
    ALL.iter().map(info).collect()
}

/// The command a prompt begins with, and what follows its name.
pub(crate) fn find(content: &[Block]) -> Option<(&'static Builtin, String)> {
    let [Block::Text(text)] = content else { return None };
    let text = text.trim().strip_prefix('/')?;
    let (name, arguments) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let builtin = ALL.iter().find(|builtin| builtin.name == name)?;
    Some((builtin, arguments.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_name_at_the_start_is_a_command() {
        let found =
            |text: &str| find(&[Block::text(text)]).map(|(builtin, arguments)| (builtin.name, arguments));
        assert_eq!(found("/cost"), Some(("cost", String::new())));
        assert_eq!(found(" /model  opus \n"), Some(("model", "opus".to_owned())));
        for text in ["/costly", "/usr/bin is full", "see /cost", "/", "", "/Cost"] {
            assert_eq!(found(text), None, "{text:?}");
        }
        assert!(find(&[Block::text("/cost"), Block::text("more")]).is_none());
    }
}
