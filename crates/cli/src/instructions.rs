//! `ostler instructions`: which files with instructions a session here would read, in order, why, and which not.
//! Only looks.

use crate::{args::Args, machine::Machine, say, wire};
use ostler_control::instructions::{Cause, Found, Skipped};
use ostler_engine::rewind::count;
use ostler_proto::{Instruction, Json};
use ostler_serve::visible;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Shows what would be read.
pub(crate) fn run(args: &Args, machine: &Machine, json: bool, touching: &[PathBuf]) -> anyhow::Result<()> {
    let Some(instructions) = wire::instructions(args, machine)? else {
        say("no instructions are read\n");
        return Ok(());
    };
    let (mut found, mut list) = instructions.since(&[], now_ms());
    if !touching.is_empty() {
        let touched: Vec<PathBuf> = touching.iter().map(|path| physical(&machine.cwd.join(path))).collect();
        let later = instructions.touched(&mut list, &touched, &found.files);
        found.skipped.retain(|skipped| {
            skipped.cause != Cause::Waiting || !later.files.iter().any(|file| file.path == skipped.path)
        });
        found.files.extend(later.files);
        found.skipped.extend(later.skipped);
    }
    say(&if json { format!("{:#}\n", as_json(&found)) } else { as_text(&found) });
    Ok(())
}

fn physical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default()
}

fn as_text(found: &Found) -> String {
    if found.files.is_empty() && found.skipped.is_empty() {
        return "There are no files with instructions here: write an AGENTS.md or a CLAUDE.md.\n".to_owned();
    }
    let mut lines: Vec<String> = found.files.iter().map(line).collect();
    let total: u64 = found.files.iter().map(|file| file.tokens).sum();
    lines.push(format!("{total:>7} tokens in {}", count(found.files.len(), "file")));
    if found.is_untrusted {
        lines.push(
            "This folder is not trusted, and its files are marked as such (see `ostler trust`).".to_owned(),
        );
    }
    if !found.skipped.is_empty() {
        lines.extend([String::new(), "not read:".to_owned()]);
    }
    for Skipped { path, parent, why, .. } in &found.skipped {
        let parent = parent.as_ref().map(|parent| format!(", imported by {}", shown(parent)));
        lines.push(format!("  {}{}: {}", shown(path), parent.unwrap_or_default(), visible(why)));
    }
    lines.join("\n") + "\n"
}

fn line(file: &Instruction) -> String {
    let Instruction { tokens, scope, path, .. } = file;
    format!("{tokens:>7} tokens  {:<8}  {}{}", scope.as_str(), shown(path), why(file))
}

fn why(file: &Instruction) -> String {
    let parent = file.parent.as_ref().map(|parent| format!("  imported by {}", shown(parent)));
    let globs = (!file.globs.is_empty()).then(|| format!("  about {}", visible(&file.globs.join(", "))));
    let trigger = file.trigger.as_ref().map(|trigger| format!("  because of {}", shown(trigger)));
    [parent, globs, trigger].into_iter().flatten().collect()
}

fn shown(path: &Path) -> String {
    visible(&path.to_string_lossy())
}

fn as_json(found: &Found) -> Json {
    let files = found.files.iter().map(|file| {
        json!({
            "path": file.path, "scope": file.scope, "reason": file.reason, "globs": file.globs,
            "trigger": file.trigger, "parent": file.parent, "hash": file.hash, "bytes": file.text.len(),
            "tokens": file.tokens,
        })
    });
    let skipped = found.skipped.iter().map(|skipped| {
        let cause = match skipped.cause {
            Cause::Nothing => "nothing_new",
            Cause::Excluded => "excluded",
            Cause::Waiting => "waiting",
            Cause::Missing => "missing",
            Cause::Refused => "refused",
            Cause::NoRoom => "no_room",
        };
        json!({"path": skipped.path, "parent": skipped.parent, "cause": cause, "why": skipped.why})
    });
    json!({
        "files": files.collect::<Vec<_>>(), "skipped": skipped.collect::<Vec<_>>(),
        "tokens": found.files.iter().map(|file| file.tokens).sum::<u64>(), "untrusted": found.is_untrusted,
    })
}
