//! Judges calls that nobody makes, for people who want to know what their policy would say.
//! Nothing is executed, and files need not exist.

use crate::{
    examine::examine,
    permission::{Author, Line, Policy, Question, Step, decide, steps},
};
use ostler_proto::{
    Access, Decision, Footprint, Intent, Json, Matter, Mode, PathFact, Preview, Reason, Rule, RuleSource,
    Rules,
};
use ostler_tools::{
    host::Host,
    web::{self, Reach},
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// One call and the policy to judge it by, as people write it down.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Whatever the asker calls it.
    #[serde(default)]
    pub id: Json,
    /// The tool.
    pub tool: String,
    /// Its input.
    pub input: Json,
    /// Where it would run; the root unless told.
    pub cwd: Option<PathBuf>,
    /// The working directory; where we are unless told.
    pub root: Option<PathBuf>,
    /// What `~` stands for.
    pub home: Option<PathBuf>,
    /// The permission mode.
    #[serde(default)]
    pub mode: Option<String>,
    /// Rules that allow.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Rules that ask.
    #[serde(default)]
    pub ask: Vec<String>,
    /// Rules that deny.
    #[serde(default)]
    pub deny: Vec<String>,
    /// More working directories.
    #[serde(default)]
    pub additional_directories: Vec<PathBuf>,
    /// Whether the folder is trusted: if not, it can only tighten.
    #[serde(default = "yes")]
    pub trusted: bool,
    /// The shell that would run a command.
    #[serde(default)]
    pub shell: Option<String>,
}

/// The judge's answer, in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ruling {
    /// `allow`, `ask` or `deny`.
    pub decision: &'static str,
    /// `read-only`, `normal`, `dangerous` or `forbidden`.
    pub class: &'static str,
    /// Why.
    pub reason: String,
    /// The rule that decided, if one did.
    pub rule: Option<String>,
}

/// The judge's answer with everything that led to it.
#[derive(Debug, Clone)]
pub struct Rehearsal {
    /// What the call would do.
    pub intent: Intent,
    /// What was read out of its command line.
    pub line: Option<Line>,
    /// The decision.
    pub decision: Decision,
    /// In short.
    pub ruling: Ruling,
    /// The steps of a file call, up to the one that decided.
    pub steps: Vec<Step>,
}

fn yes() -> bool {
    true
}

impl Case {
    /// The policy it describes. `here` and `home` stand in for what it leaves out.
    pub fn policy(&self, here: &Path, home: &Path) -> Result<Policy, String> {
        let root = self.root.as_deref().or(self.cwd.as_deref()).unwrap_or(here);
        let source = RuleSource::Project(root.join(".claude/settings.json"));
        let parse = |texts: &[String]| -> Result<Vec<Rule>, String> {
            texts.iter().map(|text| Rule::parse(text, source.clone()).map_err(|error| error.0)).collect()
        };
        let mode = self.mode.as_deref().map(str::parse::<Mode>).transpose().map_err(|error| error.0)?;
        let mut rules =
            Rules { deny: parse(&self.deny)?, ask: parse(&self.ask)?, allow: parse(&self.allow)? };
        let mut roots = vec![root.to_owned()];
        if self.trusted {
            roots.extend(self.additional_directories.iter().cloned());
        } else {
            rules.allow.clear();
        }
        Ok(Policy {
            mode: mode.unwrap_or_default(),
            rules,
            roots,
            home: self.home.clone().unwrap_or_else(|| home.to_owned()),
            ..Policy::default()
        })
    }

    /// Judges the case.
    pub async fn judge(&self, here: &Path, home: &Path, host: &dyn Host) -> Result<Rehearsal, String> {
        let policy = self.policy(here, home)?;
        let first = policy.roots.first().map_or(here, PathBuf::as_path);
        let cwd = self.cwd.as_deref().unwrap_or(first).to_owned();
        let foreign = self.shell.as_deref().is_some_and(|shell| !matches!(base_name(shell), "bash" | "sh"));
        let shell = if foreign { Shell::Foreign } else { Shell::Bash };
        let reach = Reach::default();
        rehearse(&self.tool, &self.input, &Stage { cwd: &cwd, policy: &policy, host, shell, reach: &reach })
            .await
    }
}

/// Under what circumstances a call is judged.
#[derive(Clone, Copy)]
pub struct Stage<'a> {
    /// Where relative paths start.
    pub cwd: &'a Path,
    /// Modes and rules.
    pub policy: &'a Policy,
    /// The machine.
    pub host: &'a dyn Host,
    /// What would run a command.
    pub shell: Shell,
    /// What pages may be fetched from beside the public network.
    pub reach: &'a Reach,
}

/// What would run a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// The one that is understood.
    Bash,
    /// Another one.
    Foreign,
}

/// Judges one call under a policy.
pub async fn rehearse(
    tool: &str,
    input: &Json,
    Stage { cwd, policy, host, shell, reach }: &Stage<'_>,
) -> Result<Rehearsal, String> {
    let (policy, host) = (*policy, *host);
    let mut intent = intent(tool, input, cwd, host).await?;
    let mut line = examine(&mut intent, &policy.home, host).await;
    if let Some(line) = line.as_mut().filter(|_| *shell == Shell::Foreign) {
        line.misread("only bash is understood, and another shell would run it");
    }
    let question = Question {
        tool: canonical(tool),
        input,
        intent: &intent,
        line: line.as_ref(),
        author: Author::Model,
    };
    let decision = match (decide(&question, policy, None), refusal(&intent.access, reach)) {
        (Decision::Allow { .. } | Decision::Ask { .. }, Some(text)) => {
            Decision::Deny { tell_model: text.clone(), because: Reason::Check { text } }
        }
        (decision, _) => decision,
    };
    let class = match (&line, &intent.access) {
        (Some(line), _) => line.class_name(policy),
        (None, access) if !access.has_effect() => "read-only",
        (None, _) => "normal",
    };
    let ruling = ruling(&decision, class);
    let steps = steps(&question, policy);
    Ok(Rehearsal { intent, line, decision, ruling, steps })
}

/// Why the tool itself would not have it, whatever anybody allows.
fn refusal(access: &Access, reach: &Reach) -> Option<String> {
    match access {
        Access::Network { url } if !url.is_empty() => {
            web::check(url, reach).err().map(|refused| refused.to_string())
        }
        Access::Network { .. }
        | Access::Internal
        | Access::Read { .. }
        | Access::Write { .. }
        | Access::Execute { .. }
        | Access::Mcp { .. }
        | Access::Agent { .. }
        | Access::Consult(_) => None,
    }
}

fn ruling(decision: &Decision, class: &'static str) -> Ruling {
    let (decision, because) = match decision {
        Decision::Allow { because } => ("allow", because),
        Decision::Ask { because, .. } => ("ask", because),
        Decision::Deny { because, .. } => ("deny", because),
    };
    let rule = match because {
        Reason::Rule { rule, .. } => Some(rule.clone()),
        Reason::Mode { .. }
        | Reason::Hook { .. }
        | Reason::Check { .. }
        | Reason::User
        | Reason::Unattended => None,
    };
    Ruling { decision, class, reason: because.to_string(), rule }
}

/// What a call of this tool would do, from its input alone.
async fn intent(tool: &str, input: &Json, cwd: &Path, host: &dyn Host) -> Result<Intent, String> {
    let text = |key: &str| input.get(key).and_then(Json::as_str);
    let needed = |key: &str| text(key).ok_or_else(|| format!("{tool} needs the text '{key}' in its input"));
    let access = match canonical(tool) {
        "Bash" => Access::Execute {
            command: needed("command")?.to_owned(),
            cwd: cwd.to_owned(),
            footprint: Footprint::default(),
        },
        "Read" => Access::Read { paths: vec![fact(needed("file_path")?, cwd, host).await?] },
        "Edit" | "Write" => Access::Write { paths: vec![fact(needed("file_path")?, cwd, host).await?] },
        "MultiEdit" => Access::Write { paths: several(input, cwd, host).await? },
        "NotebookEdit" => Access::Write { paths: vec![fact(needed("notebook_path")?, cwd, host).await?] },
        "Glob" => {
            let base = fact(text("path").unwrap_or("."), cwd, host).await?;
            let pattern = glob_base(needed("pattern")?);
            Access::Read { paths: vec![fact(&pattern, &base.target, host).await?] }
        }
        "Grep" | "LS" => Access::Read { paths: vec![fact(text("path").unwrap_or("."), cwd, host).await?] },
        "WebFetch" => Access::Network { url: needed("url")?.to_owned() },
        "WebSearch" => Access::Network { url: String::new() },
        "Agent" => Access::Agent { kind: text("subagent_type").unwrap_or("general-purpose").to_owned() },
        "TodoWrite" | "TaskOutput" | "TaskStop" => Access::Internal,
        "EnterPlanMode" => Access::Consult(Matter::EnterPlan),
        "ExitPlanMode" => Access::Consult(Matter::LeavePlan {
            plan: text("plan").unwrap_or_default().to_owned(),
            file: None,
        }),
        "AskUserQuestion" => Access::Consult(Matter::Questions(Vec::new())),
        name => match name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
            Some((server, tool)) => {
                Access::Mcp { server: server.to_owned(), tool: tool.to_owned(), read_only: false }
            }
            None => return Err(format!("there is no tool named '{tool}'")),
        },
    };
    Ok(Intent { title: tool.to_owned(), access, preview: Preview::None })
}

/// The name rules know a tool by.
fn canonical(tool: &str) -> &str {
    match tool {
        "Task" => "Agent",
        "KillShell" | "KillBash" => "TaskStop",
        "BashOutput" | "AgentOutputTool" => "TaskOutput",
        name => name,
    }
}

async fn fact(path: &str, base: &Path, host: &dyn Host) -> Result<PathFact, String> {
    host.resolve(path, base).await.map_err(|error| error.to_string())
}

async fn several(input: &Json, cwd: &Path, host: &dyn Host) -> Result<Vec<PathFact>, String> {
    let edits = input.get("edits").and_then(Json::as_array).into_iter().flatten();
    let inner = edits.filter_map(|edit| edit.get("file_path").and_then(Json::as_str));
    let mut paths = Vec::new();
    for path in input.get("file_path").and_then(Json::as_str).into_iter().chain(inner) {
        paths.push(fact(path, cwd, host).await?);
    }
    if paths.is_empty() {
        return Err("MultiEdit needs the text 'file_path' in its input".to_owned());
    }
    Ok(paths)
}

/// The folder a pattern certainly stays below.
fn glob_base(pattern: &str) -> String {
    let literal: Vec<&str> =
        pattern.split('/').take_while(|part| !part.contains(['*', '?', '[', '{'])).collect();
    let base = literal.join("/");
    match (base.as_str(), pattern.starts_with('/')) {
        ("", true) => "/".to_owned(),
        ("", false) => ".".to_owned(),
        (base, _) => base.to_owned(),
    }
}

fn base_name(shell: &str) -> &str {
    shell.rsplit('/').next().unwrap_or(shell)
}
