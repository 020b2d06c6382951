//! What the environment and the settings say about the built-in tools. It is worked out once, at the
//! start, so nothing can change it within a session.

use crate::machine::Machine;
use anyhow::ensure;
use ostler_control::settings::InForce;
use ostler_tools::builtin::{EditNeeds, Found, Limits, Options};
use std::num::NonZeroU64;

/// The variables that set how much a read may show, the stronger first.
const MAX_BYTES: &[&str] = &["OSTLER_READ_MAX_BYTES"];
const MAX_TOKENS: &[&str] = &["OSTLER_READ_MAX_TOKENS", "CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS"];
const MAX_LINES: &[&str] = &["OSTLER_READ_MAX_LINES"];

/// The options of a session. A variable wins over the settings.
pub(crate) fn options(machine: &Machine, in_force: &InForce) -> anyhow::Result<Options> {
    let usual = Limits::default();
    let number = |names: &[&str], set: Option<NonZeroU64>| -> anyhow::Result<Option<u64>> {
        Ok(variable(machine, names)?.or(set.map(NonZeroU64::get)))
    };
    let length = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let set = in_force.read;
    Ok(Options {
        read: Limits {
            whole: number(MAX_BYTES, set.max_bytes)?.unwrap_or(usual.whole),
            tokens: number(MAX_TOKENS, set.max_tokens)?.map_or(usual.tokens, length),
            lines: number(MAX_LINES, set.max_lines)?.map_or(usual.lines, length),
            ..usual
        },
        edit_needs: if in_force.require_full_read { EditNeeds::WholeFile } else { EditNeeds::TouchedLines },
        glob_ignored: found(machine, "CLAUDE_CODE_GLOB_NO_IGNORE"),
        glob_hidden: found(machine, "CLAUDE_CODE_GLOB_HIDDEN"),
    })
}

/// The first of these variables that is set.
fn variable(machine: &Machine, names: &[&str]) -> anyhow::Result<Option<u64>> {
    for name in names {
        if let Some(number) = machine.number(name)? {
            ensure!(number > 0, "{name} must be at least 1");
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// Files of a kind are found unless the variable says no.
fn found(machine: &Machine, name: &str) -> Found {
    match machine.var(name).map(|value| value.trim().to_lowercase()).as_deref() {
        Some("false" | "0" | "no" | "off") => Found::No,
        Some(_) | None => Found::Yes,
    }
}
