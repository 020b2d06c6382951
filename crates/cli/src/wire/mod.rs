//! The composition root: puts the planes together for one run and picks the frontend.

mod again;
mod instructions;
mod policy;
mod resume;
mod session;

pub(crate) use session::finish_interrupted_edits;

use crate::{
    Ended, VERSION,
    args::{Args, InputFormat, OutputFormat, split_list},
    complain,
    machine::Machine,
    prompt,
    session::{now_and_then, with_index},
    signals::Signals,
    trust,
};
pub(crate) use again::executor_again;
use anyhow::{Context, bail};
use ostler_control::{
    Policy,
    executor::Attendance,
    instructions::{Instructions, Sources},
    permission::Bypass,
    settings::{self, InForce, Places, scope::Trust},
    trust::Configuration,
};
use ostler_engine::{
    ContextUsage, Handle, Picture, Place, Surroundings,
    session::{Loaded, Stamp, State, Store, load},
};
use ostler_model::{Catalog, Chosen, Environment, Models};
use ostler_proto::Block;
use ostler_serve::{
    About, Asks, Input, ModelChoice, Narrate, Output, Pipes, Print, StateFrames, StreamOptions,
};
use ostler_tools::web::Reach;
use resume::Resumed;
use session::{Session, Started};
use std::{path::PathBuf, time::Duration};

/// What a run begins with: what is asked, and of which session.
struct Begun {
    input: Input,
    resumed: Option<Resumed>,
}

/// Runs the agent as the arguments say and returns the exit code.
pub(crate) async fn run(args: Args, machine: Machine) -> anyhow::Result<Ended> {
    let (trust, in_force, machine) = surroundings_in_force(&args, machine)?;
    let store = store(&machine);
    let begun = begin(&args, &machine, &store).await?;
    run_input(args, machine, (trust, in_force), (store, begun)).await
}

/// The same with this prompt, whatever the arguments say about it.
pub(crate) async fn run_prompt(args: Args, machine: Machine, prompt: Vec<Block>) -> anyhow::Result<Ended> {
    let (trust, in_force, machine) = surroundings_in_force(&args, machine)?;
    let store = store(&machine);
    let begun = Begun { input: Input::Prompt(prompt), resumed: resume::held(&args, &machine, &store)? };
    run_input(args, machine, (trust, in_force), (store, begun)).await
}

/// How much the folder is believed, and the settings and variables that make of it.
fn surroundings_in_force(args: &Args, mut machine: Machine) -> anyhow::Result<(Trust, InForce, Machine)> {
    let trust = trust::settle(args, &machine)?;
    let in_force = settings::load(&places(args, &machine, trust)?)?;
    machine.add_vars(&in_force.env);
    if args.verbose {
        in_force.notices.iter().for_each(|notice| complain(&format!("ostler: {notice}\n")));
    }
    Ok((trust, in_force, machine))
}

async fn run_input(
    args: Args,
    machine: Machine,
    (trust, in_force): (Trust, InForce),
    (store, Begun { input, resumed }): (Store, Begun),
) -> anyhow::Result<Ended> {
    let models = models(&in_force, &machine)?;
    let loaded = resumed.as_ref().map(|resumed| &resumed.loaded);
    let chosen = choose_model(&args, &machine, &in_force, loaded, &models)?;
    let mut frontend = print(&args, &machine, input, &chosen);
    let attendance = match frontend.asks {
        Asks::Nobody => Attendance::Unattended,
        Asks::Terminal | Asks::ControlProtocol => Attendance::Attended,
    };
    let session = Session { args: &args, machine: &machine, in_force: &in_force, attendance, trust };
    frontend.about.bypass_allowed = session.bypass() == Bypass::Possible;
    let Started { handle, hooks, transcript } = session.start(models, chosen, &store, resumed)?;
    frontend.about.hears_callbacks = hooks.current().hears_host();
    let Some(transcript) = transcript else {
        return converse(handle, frontend, || hooks.time_at_end()).await;
    };
    let (here, days) = (machine.clone(), in_force.cleanup_period_days);
    let pruning = tokio::task::spawn_blocking(move || now_and_then(days, &here));
    let ended = converse(handle, frontend, || hooks.time_at_end()).await;
    pruning.await?;
    note_in_index(machine, transcript).await?;
    ended
}

/// What is asked, and of which session. A person who says only that they want to go on chooses the session and is
/// then asked with what; otherwise nothing is held while a pipe may still be filling.
async fn begin(args: &Args, machine: &Machine, store: &Store) -> anyhow::Result<Begun> {
    let words = args.prompt.as_deref();
    let is_wordless = words.is_none_or(|words| words.trim().is_empty());
    let prompt = match args.input_format {
        InputFormat::StreamJson => {
            return Ok(Begun { input: Input::StreamJson, resumed: resume::held(args, machine, store)? });
        }
        InputFormat::Text if is_wordless && resume::is_attended(args, machine) => {
            if let Some(resumed) = resume::held(args, machine, store)? {
                let prompt = prompt::ask(&resumed.loaded)?;
                return Ok(Begun { input: Input::Prompt(vec![Block::text(prompt)]), resumed: Some(resumed) });
            }
            prompt::read(words, machine).await?
        }
        InputFormat::Text => prompt::read(words, machine).await?,
    };
    let input = Input::Prompt(vec![Block::text(prompt)]);
    Ok(Begun { input, resumed: resume::held(args, machine, store)? })
}

/// What was said can be searched for at once. An index that cannot be written is made when it is needed.
async fn note_in_index(machine: Machine, transcript: PathBuf) -> anyhow::Result<()> {
    let noted =
        tokio::task::spawn_blocking(move || with_index(&machine, |index| Ok(index.update(&transcript)?)));
    noted
        .await?
        .unwrap_or_else(|error: anyhow::Error| tracing::warn!(%error, "the session is not in the index"));
    Ok(())
}

/// The settings of a session started here, with what is recorded about trust.
pub(crate) fn settings_in_force(args: &Args, machine: &Machine) -> anyhow::Result<InForce> {
    Ok(settings::load(&places(args, machine, recorded_trust(args, machine)?)?)?)
}

/// How much the folder is believed, without asking anybody.
fn recorded_trust(args: &Args, machine: &Machine) -> anyhow::Result<Trust> {
    let configuration = Configuration::of(&machine.cwd)?;
    let trusted = trust::store(machine).trusts(&machine.cwd, &configuration)?;
    Ok(match &args.trust {
        _ if trusted => Trust::Recorded,
        Some(seal) if *seal == configuration.seal => Trust::Recorded,
        Some(_) => Trust::Active,
        None => Trust::None,
    })
}

/// The instructions that a session started here would read, and where its notes are.
pub(crate) fn instructions(args: &Args, machine: &Machine) -> anyhow::Result<Option<Instructions>> {
    let trust = recorded_trust(args, machine)?;
    let in_force = settings::load(&places(args, machine, trust)?)?;
    let attendance = Attendance::Unattended;
    let session = Session { args, machine, in_force: &in_force, attendance, trust };
    let policy = session.policy(session.mode(&State::default())?, session.roots()?)?;
    session.instructions(&policy)
}

/// The policy a session started here would begin with, and what pages it could fetch.
pub(crate) fn policy(args: &Args, machine: &Machine) -> anyhow::Result<(Policy, Reach)> {
    let in_force = settings_in_force(args, machine)?;
    let attendance = Attendance::Unattended;
    // What is recorded about trust has had its effect on the settings.
    let session = Session { args, machine, in_force: &in_force, attendance, trust: Trust::None };
    let policy = session.policy(session.mode(&State::default())?, session.roots()?)?;
    Ok((policy, session.reach()))
}

/// What fills the context window of the newest session of this folder, of the one that `--resume` names, or of
/// a new one where there is none.
pub(crate) fn context_usage(args: &Args, mut machine: Machine) -> anyhow::Result<ContextUsage> {
    let in_force = settings_in_force(args, &machine)?;
    machine.add_vars(&in_force.env);
    let store = store(&machine);
    let loaded = match resume::resumed(args, &machine, &store)? {
        None => store.newest(&machine.cwd).ok().map(|path| load(&path)).transpose()?,
        Some(resumed) => Some(resumed.loaded),
    };
    let chosen = choose_model(args, &machine, &in_force, loaded.as_ref(), &models(&in_force, &machine)?)?;
    let state = loaded.map(|loaded| loaded.state).unwrap_or_default();
    let session = Session {
        args,
        machine: &machine,
        in_force: &in_force,
        attendance: Attendance::Unattended,
        trust: Trust::None,
    };
    let tools = session.offered(&state)?;
    let policy = session.policy(session.mode(&state)?, session.roots()?)?;
    let instructions = session.instructions(&policy)?;
    let new = session.system(&tools, instructions.as_ref().and_then(|found| found.notes.as_ref()))?;
    let system = if state.system.is_empty() { &new } else { &state.system };
    Ok(ContextUsage::of(&Picture {
        state: &state,
        system,
        tools: &tools,
        model: &chosen.name,
        row: &chosen.row,
        auto_compact: session.auto_compact(),
    }))
}

/// Lets a frontend and the agent talk until one of them, or a signal, ends it. Hooks on the end have
/// their time.
pub(crate) async fn converse(
    handle: Handle,
    frontend: Print,
    for_hooks: impl FnOnce() -> Duration,
) -> anyhow::Result<Ended> {
    let Handle { commands, events, task } = handle;
    let signals = Signals::listen().context("cannot listen to signals")?;
    let pipes = Pipes { stdin: tokio::io::stdin(), stdout: tokio::io::stdout(), stderr: tokio::io::stderr() };
    let code = tokio::select! {
        code = ostler_serve::run(frontend, commands.clone(), events, pipes) => code,
        code = signals.rule(commands.clone()) => code,
    };
    // With the last sender gone the agent stops what runs, records it and ends.
    drop(commands);
    if tokio::time::timeout(for_hooks() + Duration::from_secs(2), task).await.is_err() {
        complain("ostler: the session did not end in time; what still ran was killed\n");
        return Ok(Ended::ByForce(code));
    }
    Ok(Ended::InOrder(code))
}

pub(crate) fn places(args: &Args, machine: &Machine, trust: Trust) -> anyhow::Result<Places> {
    let Sources { user: of_user, project, local } = sources(args)?;
    let user = [machine.config_dir(), machine.shared_config_dir()];
    Ok(Places {
        managed: vec!["/etc/ostler".into(), "/etc/claude-code".into()],
        managed_owner: 0,
        user: if of_user { user.into() } else { vec![] },
        project: project.then(|| machine.cwd.clone()),
        local: local.then(|| machine.cwd.clone()),
        flag: args.settings.clone(),
        trust,
    })
}

/// Whose files count.
fn sources(args: &Args) -> anyhow::Result<Sources> {
    let sources = args.setting_sources.as_deref().unwrap_or("user,project,local");
    let sources = split_list(&[sources.to_owned()]);
    if let Some(odd) = sources.iter().find(|source| !["user", "project", "local"].contains(&source.as_str()))
    {
        bail!("--setting-sources: unknown source '{odd}' (user, project, local)");
    }
    let has = |name: &str| sources.iter().any(|source| source == name);
    Ok(Sources { user: has("user"), project: has("project"), local: has("local") })
}

pub(crate) fn models(in_force: &InForce, machine: &Machine) -> anyhow::Result<Models> {
    let environment = Environment::from_vars(machine.lookup())?;
    Ok(Models::new(Catalog::new(&in_force.models), environment, machine.cwd.clone()))
}

/// Sessions of an SDK host lie where its helpers look; ours can be resumed from both places.
pub(crate) fn store(machine: &Machine) -> Store {
    let (own, shared) = (machine.config_dir(), machine.shared_config_dir());
    Store { homes: if machine.is_sdk_host() { vec![shared, own] } else { vec![own, shared] } }
}

fn choose_model(
    args: &Args,
    machine: &Machine,
    in_force: &InForce,
    resumed: Option<&Loaded>,
    models: &Models,
) -> anyhow::Result<Chosen> {
    let name = args.model.clone();
    let name = name.or_else(|| resumed.and_then(|loaded| loaded.state.model.clone()));
    if name.is_none()
        && let Some(answered_by) = resumed.and_then(|loaded| loaded.answered_by.as_ref())
    {
        // Another program wrote down what the API called the model, which we may know by no name.
        match models.choose(answered_by) {
            Ok(chosen) => return Ok(chosen),
            Err(error) => complain(&format!("ostler: going on with another model: {error}\n")),
        }
    }
    let name = name.or_else(|| machine.var("ANTHROPIC_MODEL")).or_else(|| in_force.model.clone());
    Ok(models.choose(name.as_deref().unwrap_or("default"))?)
}

fn print(args: &Args, machine: &Machine, input: Input, chosen: &Chosen) -> Print {
    let at_terminal = machine.terminals.stdin && machine.terminals.stderr;
    let told = args.verbose || (!args.print && machine.terminals.stdout);
    let narrate = match (told, machine.terminals.stdout) {
        (false, _) => Narrate::Off,
        (true, true) => Narrate::Stdout,
        (true, false) => Narrate::Stderr,
    };
    let state_frames = if machine.var("CLAUDE_CODE_SDK_READS_SESSION_STATE").is_some() {
        StateFrames::HostOnly
    } else if machine.var("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS").is_some() {
        StateFrames::Everyone
    } else {
        StateFrames::Off
    };
    let output = match args.output_format {
        OutputFormat::Text => {
            let color =
                if narrate == Narrate::Stdout { machine.terminals.stdout } else { machine.terminals.stderr };
            Output::Text { narrate, color: color && machine.var("NO_COLOR").is_none() }
        }
        OutputFormat::Json => Output::Json,
        OutputFormat::StreamJson => Output::StreamJson(StreamOptions {
            include_partial: args.include_partial_messages,
            replay_user: args.replay_user_messages,
            hook_events: args.include_hook_events,
            session_state: state_frames,
        }),
    };
    let asks = match (&input, &args.permission_prompt_tool) {
        (Input::StreamJson, Some(_)) => Asks::ControlProtocol,
        (Input::Prompt(_), None) if at_terminal && args.output_format == OutputFormat::Text => Asks::Terminal,
        (Input::Prompt(_) | Input::StreamJson, _) => Asks::Nobody,
    };
    let choice = |name: &str| ModelChoice {
        value: name.to_owned(),
        display_name: name.to_owned(),
        description: String::new(),
    };
    let about = About {
        version: VERSION.to_owned(),
        model: chosen.name.clone(),
        models: ["default", "sonnet", "opus", "haiku"].map(choice).into(),
        commands: ostler_engine::commands(),
        rewinds_files: machine.wants_rewinding(),
        ..About::default()
    };
    Print { input, output, asks, about }
}

pub(crate) fn stamp(machine: &Machine) -> Stamp {
    Stamp {
        version: VERSION.to_owned(),
        cwd: machine.cwd.clone(),
        git_branch: machine.git_branch(),
        entrypoint: machine.entrypoint(),
    }
}

pub(crate) fn surroundings(machine: &Machine, place: Place) -> Surroundings {
    Surroundings {
        cwd: machine.cwd.clone(),
        platform: std::env::consts::OS.to_owned(),
        is_git: machine.git_folder().is_some(),
        today: jiff::Timestamp::now().to_string().chars().take(10).collect(),
        place,
    }
}
