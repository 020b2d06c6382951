//! Whether the folder's own configuration is believed: by record, by flag, by a host that asks for
//! it, or by the user at the terminal. Without any of these it stays inert.

use crate::{args::Args, complain, machine::Machine, say};
use anyhow::{Context, bail};
use ostler_control::{
    settings::scope::Trust,
    trust::{Configuration, TrustStore},
};
use ostler_serve::visible;
use std::io::BufRead as _;

/// Finds out, asking at the terminal if somebody can answer.
pub(crate) fn settle(args: &Args, machine: &Machine) -> anyhow::Result<Trust> {
    let configuration = Configuration::of(&machine.cwd)
        .with_context(|| format!("cannot read the configuration of {}", machine.cwd.display()))?;
    let store = store(machine);
    if store.trusts(&machine.cwd, &configuration).context("cannot read the record of trust")? {
        return Ok(Trust::Recorded);
    }
    match args.trust.as_deref() {
        // What loosens needs more than a word that fits every configuration.
        Some("") => return Ok(Trust::Active),
        Some(seal) if seal == configuration.seal => return Ok(Trust::Recorded),
        Some(seal) => bail!(
            "--trust={seal}: this folder's configuration has the seal {}; look at it with `ostler trust show`",
            configuration.seal
        ),
        None => {}
    }
    // A host that names the project's files asks for them; what loosens still needs a record.
    if args.setting_sources.as_deref().is_some_and(|list| list.contains("project") || list.contains("local"))
    {
        return Ok(Trust::Active);
    }
    if configuration.activates.is_empty() {
        return Ok(Trust::None);
    }
    let can_ask = machine.terminals.stdin && machine.terminals.stderr && !args.print;
    if can_ask && ask(machine, &configuration)? {
        store.trust(&machine.cwd, &configuration).context("cannot record the trust")?;
        return Ok(Trust::Recorded);
    }
    if !can_ask {
        complain(&format!(
            "ostler: this folder's configuration is inert, because it is not trusted ({}; see `ostler trust show`, or pass --trust)\n",
            match configuration.activates.len() {
                1 => "1 entry".to_owned(),
                many => format!("{many} entries"),
            }
        ));
    }
    Ok(Trust::None)
}

fn ask(machine: &Machine, configuration: &Configuration) -> anyhow::Result<bool> {
    complain(&format!("\nThe folder {} brings its own configuration.\n", machine.cwd.display()));
    complain("If you trust it, this becomes active, without further questions:\n");
    list(configuration, complain);
    complain("Trust this folder and exactly this configuration? [y/N] ");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("cannot read the answer")?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn list(configuration: &Configuration, mut out: impl FnMut(&str)) {
    for line in &configuration.activates {
        out(&format!("  - {}\n", visible(line)));
    }
}

pub(crate) fn store(machine: &Machine) -> TrustStore {
    TrustStore::new(machine.config_dir().join("trust.json"))
}

/// `ostler trust show`.
pub(crate) fn show(machine: &Machine) -> anyhow::Result<()> {
    let configuration = Configuration::of(&machine.cwd)?;
    let trusted = store(machine).trusts(&machine.cwd, &configuration)?;
    say(&format!("folder   {}\n", machine.cwd.display()));
    say(&format!("seal     {}\n", configuration.seal));
    say(&format!("trusted  {}\n", if trusted { "yes" } else { "no" }));
    if configuration.activates.is_empty() {
        say("It brings nothing that could become active.\n");
    } else {
        say("With trust this is active:\n");
        list(&configuration, say);
    }
    Ok(())
}

/// `ostler trust add`.
pub(crate) fn add(machine: &Machine) -> anyhow::Result<()> {
    let configuration = Configuration::of(&machine.cwd)?;
    store(machine).trust(&machine.cwd, &configuration)?;
    say(&format!("trusted {} with the seal {}\n", machine.cwd.display(), configuration.seal));
    list(&configuration, say);
    Ok(())
}

/// `ostler trust remove`.
pub(crate) fn remove(machine: &Machine) -> anyhow::Result<()> {
    if !store(machine).distrust(&machine.cwd)? {
        bail!("{} was not trusted", machine.cwd.display());
    }
    say(&format!("{} is not trusted any more\n", machine.cwd.display()));
    Ok(())
}

/// `ostler trust list`.
pub(crate) fn list_all(machine: &Machine) -> anyhow::Result<()> {
    for folder in store(machine).folders()? {
        say(&format!("{}\n", folder.display()));
    }
    Ok(())
}
