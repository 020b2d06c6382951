//! `ostler demo`: a scripted model repairs a small broken project. Only the model is scripted; tools,
//! permissions, session and narration are those of every run.
#![expect(clippy::disallowed_methods, reason = "unpacks the demo's project into a folder of its own")]

use crate::{Ended, VERSION, machine::Machine, say, wire};
use anyhow::Context;
use ostler_control::{
    Executor, Policy, Setup,
    executor::{Attendance, DEFAULT_PARALLEL},
};
use ostler_engine::{
    Limits, Origin, Place, Recording, Snapshot, Start, default_system,
    session::{Log, State, Store},
};
use ostler_model::{Catalog, Chosen, Environment, Models, script};
use ostler_proto::{Block, Mode, Rule, RuleSource, Rules, SessionId};
use ostler_serve::{About, Asks, Input, Narrate, Output, Print};
use ostler_tools::{
    Registry,
    builtin::{self, Kit},
    host::{Jobs, Local},
};
use std::{collections::BTreeMap, path::Path, sync::Arc};

const FILES: &[(&str, &str)] = &[
    ("README.md", include_str!("../assets/demo/project/README.md")),
    ("cart.sh", include_str!("../assets/demo/project/cart.sh")),
    ("test.sh", include_str!("../assets/demo/project/test.sh")),
];
const SCRIPT: &str = include_str!("../assets/demo/script.toml");
const PROMPT: &str = "The tests of this project fail. Find out why and fix it.";
/// Whose prices the table shows.
const PRICED_AS: &str = "claude-sonnet-4-5";

/// Runs the demo in a folder of its own.
pub(crate) async fn run(machine: &Machine, keep: bool) -> anyhow::Result<Ended> {
    let folder = tempfile::Builder::new().prefix("ostler-demo-").tempdir();
    let folder = folder.context("cannot make a folder for the demo")?;
    let project = folder.path().canonicalize()?.join("cart");
    std::fs::create_dir(&project)?;
    for (name, text) in FILES {
        std::fs::write(project.join(name), text).with_context(|| format!("cannot unpack {name}"))?;
    }
    let project_machine = machine.moved_to(project.clone());
    say("A small broken project, a scripted model, the real tools. Nothing leaves this machine.\n\n");
    let start = start(&project_machine, folder.path())?;
    let transcript = start.log.path().map(Path::to_path_buf);
    let ended =
        wire::converse(ostler_engine::spawn(start), frontend(machine), || std::time::Duration::ZERO).await?;
    let about_prices = format!(
        "\nPriced as {PRICED_AS} would charge for these tokens; nothing was sent and nothing is billed.\n"
    );
    say(&about_prices);
    if keep {
        let kept = folder.keep();
        let transcript =
            transcript.map(|path| format!("\nTranscript: {}", path.display())).unwrap_or_default();
        say(&format!("Kept: {}{transcript}\n", kept.display()));
    } else {
        say("The folder is gone again; `ostler demo --keep` leaves it.\n");
    }
    Ok(ended)
}

fn start(machine: &Machine, folder: &Path) -> anyhow::Result<Start> {
    let catalog = Catalog::new(&BTreeMap::new());
    let environment = Environment::from_vars(|_| None)?;
    let (_, priced) = catalog.resolve(PRICED_AS, &environment)?;
    let mut row = script::row();
    row.price = priced.price;
    let chosen = Chosen {
        name: "scripted".to_owned(),
        row,
        provider: script::from_text(SCRIPT, machine.cwd.clone())?,
        key_source: "none".to_owned(),
    };
    let id = SessionId::from(uuid::Uuid::new_v4().to_string());
    let store = Store { homes: vec![folder.join("sessions")] };
    let executor = executor(machine)?;
    Ok(Start {
        log: Log::at(store.path_for(&machine.cwd, &id)),
        id,
        state: State::default(),
        stamp: wire::stamp(machine),
        models: Models::new(catalog, environment, machine.cwd.clone()),
        chosen,
        system: default_system(&wire::surroundings(machine, Place::System), &executor.offered()),
        snapshot: Snapshot::default(),
        executor,
        instructions: None,
        limits: Limits::default(),
        origin: Origin::New,
        title: None,
        recording: Recording::Off,
    })
}

/// Edits run by mode, the test command by a rule, and nothing else without asking.
fn executor(machine: &Machine) -> anyhow::Result<Executor> {
    let allow = vec![Rule::parse("Bash(sh test.sh)", RuleSource::Flag("the demo".to_owned()))?];
    let jobs = Arc::new(Jobs::new(None));
    let kit = Kit { jobs: Arc::clone(&jobs), ..Kit::default() };
    Ok(Executor::new(Setup {
        registry: Registry::new(builtin::all_with(kit))?,
        host: Arc::new(
            Local::new(machine.home.clone(), machine.child_env(&[], &[]))
                .with_warden(machine.program.clone()),
        ),
        policy: Policy {
            mode: Mode::AcceptEdits,
            rules: Rules { allow, ..Rules::default() },
            roots: vec![machine.cwd.clone()],
            home: machine.home.clone(),
            ..Policy::default()
        },
        cwd: machine.cwd.clone(),
        attendance: Attendance::Unattended,
        parallel: DEFAULT_PARALLEL,
        artifacts: None,
        memory: ostler_control::memory::Memory::default(),
        reload: None,
        keeping: None,
        jobs,
        hooks: None,
    }))
}

fn frontend(machine: &Machine) -> Print {
    let color = machine.terminals.stdout && machine.var("NO_COLOR").is_none();
    Print {
        input: Input::Prompt(vec![Block::text(PROMPT)]),
        output: Output::Text { narrate: Narrate::Stdout, color },
        asks: Asks::Nobody,
        about: About { version: VERSION.to_owned(), ..About::default() },
    }
}
