//! `ostler permissions`: what the judge would say, and why. Nothing is run.
#![expect(clippy::disallowed_types, reason = "reads a file of cases that the user names")]

use crate::machine::Machine;
use anyhow::{Context, bail};
use ostler_control::{
    permission::{Explanation, Policy},
    rehearse::{Case, Rehearsal, Shell, Stage, rehearse},
};
use ostler_proto::{Decision, Json};
use ostler_tools::{host::Local, web::Reach};
use serde_json::json;
use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Write as _},
    path::Path,
};

/// Explains one call under the policy in force. `true` means that it would run without asking.
pub(crate) async fn explain(
    machine: &Machine,
    (policy, reach): (&Policy, &Reach),
    tool: &str,
    call: &str,
    as_json: bool,
) -> anyhow::Result<()> {
    let input = input_of(tool, call)?;
    let host = Local::new(machine.home.clone(), Vec::new());
    let stage = Stage { cwd: &machine.cwd, policy, host: &host, shell: Shell::Bash, reach };
    let rehearsal = rehearse(tool, &input, &stage).await.map_err(|problem| anyhow::anyhow!(problem))?;
    let explanation = rehearsal.line.as_ref().map(|line| line.explain(policy));
    let text = if as_json {
        let whole = json!({
            "tool": tool,
            "input": input,
            "access": rehearsal.intent.access,
            "steps": rehearsal.steps,
            "command": explanation,
            "decision": rehearsal.decision,
            "ruling": rehearsal.ruling,
        });
        format!("{}\n", serde_json::to_string_pretty(&whole)?)
    } else {
        told(tool, call, &rehearsal, explanation.as_ref())
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write the explanation")
}

/// The input of a call whose main argument was given as text, or all of it as JSON.
fn input_of(tool: &str, call: &str) -> anyhow::Result<Json> {
    if call.trim_start().starts_with('{') && tool != "Bash" {
        return serde_json::from_str(call).with_context(|| format!("the input of {tool} is not JSON"));
    }
    let key = match tool {
        "Bash" => "command",
        "Read" | "Edit" | "Write" | "MultiEdit" => "file_path",
        "NotebookEdit" => "notebook_path",
        "Glob" => "pattern",
        "Grep" | "LS" => "path",
        "WebFetch" => "url",
        _ => bail!("give the input of {tool} as JSON, e.g. '{{\"key\": \"value\"}}'"),
    };
    Ok(json!({ key: call }))
}

fn told(tool: &str, call: &str, rehearsal: &Rehearsal, explanation: Option<&Explanation>) -> String {
    let mut text = String::new();
    let mut line = |words: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = text.write_fmt(words);
        text.push('\n');
    };
    line(format_args!("{tool}: {call}"));
    if let Some(explanation) = explanation {
        line(format_args!("\nTree"));
        match &explanation.problem {
            Some(problem) => line(format_args!("  not understood: {problem}")),
            None => branches(&explanation.tree, 1, &mut line),
        }
        line(format_args!("\nParts"));
        for (number, part) in explanation.parts.iter().enumerate() {
            let by = part.run_by.map(|by| format!(", run by {by}")).unwrap_or_default();
            line(format_args!("  {}. {}{by}", number + 1, part.source));
            line(format_args!("     words      {}", part.words.join(" · ")));
            line(format_args!("     in         {}", part.directory));
            for (name, paths) in [("reads", &part.reads), ("writes", &part.writes)] {
                for path in paths {
                    line(format_args!("     {name:<10} {path}"));
                }
            }
            if part.network {
                line(format_args!("     network    yes"));
            }
            for why in &part.unknown {
                line(format_args!("     unknown    {why}"));
            }
            let why = part.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            line(format_args!("     class      {}{why}", part.class));
        }
    } else {
        for fact in rehearsal.intent.access.paths() {
            line(format_args!("  path       {}", fact.requested.display()));
            for hop in fact.hops.iter().chain([&fact.target]) {
                line(format_args!("  leads to   {}", hop.display()));
            }
        }
    }
    if !rehearsal.steps.is_empty() {
        line(format_args!("\nSteps"));
    }
    for (number, step) in rehearsal.steps.iter().enumerate() {
        line(format_args!("  {:>2}. {:<50} {}", number + 1, step.name, step.says.unwrap_or("-")));
    }
    line(format_args!("\nClass      {}", rehearsal.ruling.class));
    line(format_args!("Decision   {}", rehearsal.ruling.decision));
    line(format_args!("Because    {}", rehearsal.ruling.reason));
    if let Decision::Ask { suggestions, .. } = &rehearsal.decision {
        for suggestion in suggestions {
            line(format_args!("Could add  {}", suggestion.rule));
        }
    }
    text
}

/// Prints a tree of JSON by its keys, one line a node, without places in the text.
fn branches(tree: &Json, depth: usize, line: &mut impl FnMut(std::fmt::Arguments<'_>)) {
    let indent = "  ".repeat(depth);
    match tree {
        Json::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| *name != "span") {
                match value {
                    Json::Object(_) | Json::Array(_) => {
                        line(format_args!("{indent}{name}"));
                        branches(value, depth + 1, line);
                    }
                    Json::Null => {}
                    plain @ (Json::Bool(_) | Json::Number(_) | Json::String(_)) => {
                        line(format_args!("{indent}{name}: {plain}"));
                    }
                }
            }
        }
        Json::Array(items) => items.iter().for_each(|item| branches(item, depth, line)),
        Json::Null => {}
        plain @ (Json::Bool(_) | Json::Number(_) | Json::String(_)) => line(format_args!("{indent}{plain}")),
    }
}

/// Judges every line of a file. `false` means that some lines could not be judged.
pub(crate) async fn check(machine: &Machine, file: &Path) -> anyhow::Result<bool> {
    let reader: Box<dyn BufRead + Send> = if file == Path::new("-") {
        Box::new(BufReader::new(std::io::stdin()))
    } else {
        let file = std::fs::File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
        Box::new(BufReader::new(file))
    };
    let mut out = std::io::BufWriter::new(std::io::stdout());
    let mut whole = true;
    for (number, line) in reader.lines().enumerate() {
        let line = line.context("cannot read the cases")?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = answer(machine, &line).await.unwrap_or_else(|problem| {
            whole = false;
            let id = serde_json::from_str::<Json>(&line).ok().and_then(|case| case.get("id").cloned());
            json!({"id": id, "error": format!("line {}: {problem}", number + 1)})
        });
        writeln!(out, "{answer}").context("cannot write the answers")?;
    }
    out.flush().context("cannot write the answers")?;
    Ok(whole)
}

async fn answer(machine: &Machine, line: &str) -> Result<Json, String> {
    let case: Case = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let home = case.home.clone().unwrap_or_else(|| machine.home.clone());
    let host = Local::new(home, Vec::new());
    let ruling = case.judge(&machine.cwd, &machine.home, &host).await?.ruling;
    Ok(json!({
        "id": case.id,
        "decision": ruling.decision,
        "class": ruling.class,
        "reason": ruling.reason,
        "rule": ruling.rule,
    }))
}
