//! `ostler config`: what is set, by which file, and setting it.

use crate::{machine::Machine, say};
use anyhow::{Context, bail};
use ostler_control::settings::{self, InForce, Layer, Merge, merge, scope};
use ostler_proto::Json;
use std::path::PathBuf;

/// Which file a value is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scope {
    /// For every project of yours
    User,
    /// For everybody in this project
    Project,
    /// For you in this project
    Local,
}

/// Prints the value in force of a key.
pub(crate) fn get(in_force: &InForce, key: &str) -> anyhow::Result<()> {
    let Some(value) = in_force.value(key) else {
        if in_force.layers.iter().any(|layer| left_out(layer, key).next().is_some()) {
            bail!(
                "what a project's files say about '{key}' is not in force; see `ostler config explain {key}`"
            );
        }
        bail!("no settings file says anything about '{key}'{}", hint(key));
    };
    say(&format!("{}\n", shown(&value)?));
    Ok(())
}

/// Prints every key that is set, with the files that count.
pub(crate) fn list(in_force: &InForce) -> anyhow::Result<()> {
    let mut keys: Vec<String> = Vec::new();
    for layer in &in_force.layers {
        collect(&layer.settings, "", &mut keys);
    }
    keys.sort();
    keys.dedup();
    for key in keys {
        let Some(value) = in_force.value(&key) else { continue };
        let sources: Vec<String> = in_force
            .said_about(&key)
            .enumerate()
            .filter(|(index, (_, said))| counts(&key, *index, said, &value))
            .map(|(_, (source, _))| source.to_string())
            .collect();
        say(&format!("{key} = {}   ({})\n", serde_json::to_string(&value)?, sources.join(", ")));
    }
    in_force.notices.iter().for_each(|notice| say(&format!("note: {notice}\n")));
    Ok(())
}

/// Prints every file that speaks about a key, strongest first, and what does not count; of a group, for
/// each of its keys.
pub(crate) fn explain(in_force: &InForce, key: &str) -> anyhow::Result<()> {
    let members = members(in_force, key);
    if members.is_empty() {
        return explain_one(in_force, key);
    }
    members.iter().try_for_each(|member| explain_one(in_force, member))
}

fn explain_one(in_force: &InForce, key: &str) -> anyhow::Result<()> {
    say(&format!("{key}{}\n", hint(key)));
    let reach = match scope::reach(key) {
        scope::Reach::Always => "counts in a project's own files",
        scope::Reach::IfTightening => "counts in a project's own files where it tightens",
        scope::Reach::Active => "counts in a project's own files once its configuration is active",
        scope::Reach::Recorded => "counts in a project's own files once you have trusted them",
        scope::Reach::Never => "does not count in a project's own files",
    };
    say(&format!("  {reach}\n"));
    let mut said = in_force.said_about(key).peekable();
    if said.peek().is_none() {
        say("  no settings file says anything about it\n");
    }
    let together = in_force.value(key).unwrap_or_default();
    for (index, (source, value)) in said.enumerate() {
        let word = if counts(key, index, value, &together) { "in force" } else { "overruled" };
        say(&format!("  {word:<10} {source}: {}\n", serde_json::to_string(value)?));
    }
    for layer in &in_force.layers {
        for left in left_out(layer, key) {
            say(&format!("  ignored    {}: {left}\n", layer.source));
        }
    }
    Ok(())
}

/// Writes a value, or removes it.
pub(crate) fn set(machine: &Machine, scope: Scope, key: &str, value: Option<&str>) -> anyhow::Result<()> {
    if !scope::is_known(key) {
        bail!("unknown settings key '{key}'{}", hint(key));
    }
    // What is no JSON is meant as text.
    let value =
        value.map(|text| serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.to_owned())));
    let path = file(machine, scope);
    settings::set(&path, key, value.as_ref()).with_context(|| format!("cannot set '{key}'"))?;
    say(&format!("{}\n", path.display()));
    Ok(())
}

/// The file of ours for a scope.
pub(crate) fn file(machine: &Machine, scope: Scope) -> PathBuf {
    match scope {
        Scope::User => machine.config_dir().join("settings.json"),
        Scope::Project => machine.cwd.join(".ostler/settings.json"),
        Scope::Local => machine.cwd.join(".ostler/settings.local.json"),
    }
}

/// The keys of a group that any file speaks about; none for what is no group.
fn members(in_force: &InForce, key: &str) -> Vec<String> {
    let is_below = |row: &str| row.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
    if scope::keys().iter().any(|(row, _)| *row == key) || !scope::keys().iter().any(|(row, _)| is_below(row))
    {
        return Vec::new();
    }
    let mut keys: Vec<String> = Vec::new();
    for layer in &in_force.layers {
        collect(&layer.settings, "", &mut keys);
        keys.extend(left_out(layer, key).map(str::to_owned));
    }
    keys.retain(|found| is_below(found));
    keys.sort();
    keys.dedup();
    keys
}

/// What a file says about a key, or about keys below it, that does not count.
fn left_out<'a>(layer: &'a Layer, key: &'a str) -> impl Iterator<Item = &'a str> {
    let is_meant = move |left: &&str| {
        left.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    layer.left_out.iter().map(String::as_str).filter(is_meant)
}

fn collect(value: &Json, path: &str, keys: &mut Vec<String>) {
    match value {
        Json::Object(fields) if !fields.is_empty() && scope::keys().iter().all(|(row, _)| *row != path) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(value, &path, keys);
            }
        }
        // What is left of a group after all of it was ignored.
        Json::Object(fields) if fields.is_empty() && scope::keys().iter().all(|(row, _)| *row != path) => {}
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => {
            keys.push(path.to_owned());
        }
    }
}

/// Whether a file's word on a key, the strongest being the first, is part of what all amount to.
fn counts(key: &str, index: usize, said: &Json, together: &Json) -> bool {
    match merge(key, said) {
        Merge::Strongest => index == 0,
        Merge::AddsUp | Merge::ByEntry => true,
        Merge::Smallest => said == together,
    }
}

fn shown(value: &Json) -> anyhow::Result<String> {
    Ok(match value {
        Json::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other)?,
    })
}

fn hint(key: &str) -> String {
    if scope::is_known(key) {
        return String::new();
    }
    let close = scope::keys()
        .iter()
        .map(|(row, _)| *row)
        .filter(|row| row.to_lowercase().contains(&key.to_lowercase()) || shares_words(row, key))
        .take(3)
        .collect::<Vec<_>>();
    if close.is_empty() {
        " (an unknown key)".to_owned()
    } else {
        format!(" (did you mean {}?)", close.join(", "))
    }
}

fn shares_words(row: &str, key: &str) -> bool {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_lowercase();
    last(row).starts_with(&last(key).chars().take(4).collect::<String>())
}
