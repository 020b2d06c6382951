//! `ostler doctor`: what this installation finds, so that a problem can be seen and told.
//! Names only, never values.

use crate::{VERSION, machine::Machine, say, wire};
use ostler_control::settings::{self, Places, scope::Trust};
use ostler_model::{Catalog, Environment, Models};
use ostler_tools::{
    Progress,
    host::{Exit, Host, Local, Shell},
};
use std::{fmt::Write as _, path::Path, sync::Arc, time::Duration};

/// Looks at everything and prints it; exit code 1 if something would keep a run from starting.
pub(crate) async fn run(machine: &Machine) -> anyhow::Result<u8> {
    let mut report = Report::default();
    report.heading("Ostler");
    report.line("version", &format!("{VERSION} ({} {})", std::env::consts::OS, std::env::consts::ARCH));
    report.line("session", &machine.cwd.display().to_string());
    report_settings(&mut report, machine);
    report_models(&mut report, machine);
    report_sessions(&mut report, machine);
    report_programs(&mut report, machine).await;
    report_terminal(&mut report, machine);
    say(&report.text);
    Ok(u8::from(report.broken))
}

#[derive(Default)]
struct Report {
    text: String,
    broken: bool,
}

impl Report {
    fn heading(&mut self, title: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{gap}{title}");
    }

    fn line(&mut self, name: &str, value: &str) {
        let _ = writeln!(self.text, "  {name:<12} {value}");
    }

    fn problem(&mut self, name: &str, value: &str) {
        self.broken = true;
        self.line(name, &format!("PROBLEM: {value}"));
    }
}

fn report_settings(report: &mut Report, machine: &Machine) {
    report.heading("Settings");
    let places = Places {
        managed: vec!["/etc/ostler".into(), "/etc/claude-code".into()],
        managed_owner: 0,
        user: vec![machine.config_dir(), machine.shared_config_dir()],
        project: Some(machine.cwd.clone()),
        local: Some(machine.cwd.clone()),
        flag: None,
        trust: Trust::None,
    };
    match settings::load(&places) {
        Ok(found) if found.files.is_empty() => report.line("files", "none found"),
        Ok(found) => {
            found.files.iter().for_each(|file| report.line("file", &file.display().to_string()));
            let rules = &found.rules;
            let counts =
                format!("{} deny, {} ask, {} allow", rules.deny.len(), rules.ask.len(), rules.allow.len());
            report.line("rules", &counts);
            found.notices.iter().for_each(|notice| report.line("note", notice));
        }
        Err(error) => report.problem("file", &error.to_string()),
    }
}

fn report_models(report: &mut Report, machine: &Machine) {
    report.heading("Models");
    let environment = match Environment::from_vars(machine.lookup()) {
        Ok(environment) => environment,
        Err(error) => return report.problem("environment", &error.to_string()),
    };
    let set = environment.describe();
    report.line("set", &if set.is_empty() { "no keys or endpoints".to_owned() } else { set.join(", ") });
    let models =
        Models::new(Catalog::new(&std::collections::BTreeMap::new()), environment, machine.cwd.clone());
    match models.choose("default") {
        Ok(chosen) => report.line("default", &format!("{} (key: {})", chosen.name, chosen.key_source)),
        Err(error) => report.line("default", &format!("none: {error}")),
    }
    if set.is_empty() {
        report.line("way out", "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or try `ostler demo`");
    }
}

fn report_sessions(report: &mut Report, machine: &Machine) {
    report.heading("Sessions");
    for home in wire::store(machine).homes {
        let folder = home.join("projects");
        let state = if folder.is_dir() { "" } else { " (not there yet)" };
        report.line("folder", &format!("{}{state}", folder.display()));
    }
}

async fn report_programs(report: &mut Report, machine: &Machine) {
    report.heading("Programs");
    let host =
        Local::new(machine.home.clone(), machine.child_env(&[], &[])).with_warden(machine.program.clone());
    report.line(
        "bash",
        &first_line(&host, "echo $BASH_VERSION")
            .await
            .unwrap_or_else(|| "missing: the Bash tool needs it".to_owned()),
    );
    report.line("git", &first_line(&host, "git --version").await.unwrap_or_else(|| "not found".to_owned()));
    report_sandbox(report, &host);
}

fn report_sandbox(report: &mut Report, host: &Local) {
    report.heading("Sandbox");
    let survey = tokio::task::block_in_place(|| host.survey());
    for (backend, outcome) in &survey.tried {
        let found =
            outcome.as_ref().map_or_else(|why| format!("does not work: {why}"), |()| "works".to_owned());
        report.line(backend.name(), &found);
    }
    match survey.best() {
        Some(best) => {
            report.line("best", best.name());
            best.weakness().into_iter().for_each(|weakness| report.line("but", weakness));
        }
        None => {
            report.line("best", "none: commands can only run with all of your rights, after you allow them");
        }
    }
}

/// The first line a command prints, if it succeeds. Run in `/`, so that no project has a say.
async fn first_line(host: &Local, command: &str) -> Option<String> {
    let shell = Shell::bash(command, Path::new("/"));
    let output = Arc::clone(&shell.output);
    let running = host.run(shell, Progress::unseen());
    let finished = tokio::time::timeout(Duration::from_secs(5), running).await.ok()?.ok()?;
    let (head, _) = output.captured().texts();
    let line = head.lines().next().unwrap_or_default().trim().to_owned();
    (finished.exit == Exit::Code(0) && !line.is_empty()).then_some(line)
}

fn report_terminal(report: &mut Report, machine: &Machine) {
    report.heading("Terminal");
    let yes = |is: bool| if is { "terminal" } else { "not a terminal" };
    let terminals = machine.terminals;
    report.line("stdin", yes(terminals.stdin));
    report.line("stdout", yes(terminals.stdout));
    report.line("TERM", &machine.var("TERM").unwrap_or_else(|| "not set".to_owned()));
    let color = if machine.var("NO_COLOR").is_some() { "off (NO_COLOR)" } else { "on" };
    report.line("colour", color);
}
