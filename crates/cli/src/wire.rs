//! The composition root: puts the planes together for one run and picks the frontend.

use crate::{
    Ended, VERSION,
    args::{Args, InputFormat, OutputFormat, ThinkingFlag, split_list},
    complain, config, hooks,
    machine::{Machine, read_named},
    options::options,
    prompt, rewind,
    signals::Signals,
    trust,
};
use anyhow::{Context, anyhow, bail, ensure};
use ostler_control::{
    Executor, Hooks, Policy, Setup,
    executor::{Attendance, DEFAULT_PARALLEL, Facts, Keeping, Reload, SessionHooks},
    memory::{self, Memory},
    permission::{Demand, Sandboxing},
    settings::{self, InForce, Places, Watch, scope::Trust},
    trust::Configuration,
};
use ostler_engine::{
    Handle, Lifetime, Limits, Start, Surroundings, default_system,
    session::{self, Loaded, Log, Stamp, State, Store},
};
use ostler_model::{Catalog, Chosen, Environment, Models};
use ostler_proto::{Block, Mode, Rule, RuleSource, Rules, SessionId, Thinking};
use ostler_serve::{
    About, Asks, Input, ModelChoice, Narrate, Output, Pipes, Print, StateFrames, StreamOptions,
};
use ostler_tools::{
    Artifacts, Registry, Tool,
    builtin::{self, Kit, Manner, Preference},
    host::{
        Jobs, Local,
        journal::{self, Outcome, Recovered},
    },
    web::Reach,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The trailer of commits where settings ask for one without saying which.
const CO_AUTHOR: &str = "Co-Authored-By: Ostler <noreply@ostler.invalid>";

/// Runs the agent as the arguments say and returns the exit code.
pub(crate) async fn run(args: Args, mut machine: Machine) -> anyhow::Result<Ended> {
    let trust = trust::settle(&args, &machine)?;
    let in_force = settings::load(&places(&args, &machine, trust)?)?;
    machine.add_vars(&in_force.env);
    if args.verbose {
        in_force.notices.iter().for_each(|notice| complain(&format!("ostler: {notice}\n")));
    }
    let input = match args.input_format {
        InputFormat::StreamJson => Input::StreamJson,
        InputFormat::Text => {
            Input::Prompt(vec![Block::text(prompt::read(args.prompt.as_deref(), &machine).await?)])
        }
    };
    let models = models(&in_force, &machine)?;
    let store = store(&machine);
    let resumed = resumed(&args, &machine, &store)?;
    let chosen = choose_model(&args, &machine, &in_force, resumed.as_ref(), &models)?;
    let frontend = print(&args, &machine, input, &chosen);
    let attendance = match frontend.asks {
        Asks::Nobody => Attendance::Unattended,
        Asks::Terminal | Asks::ControlProtocol => Attendance::Attended,
    };
    let session = Session { args: &args, machine: &machine, in_force: &in_force, attendance };
    let (handle, for_hooks) = session.start(models, chosen, &store, resumed)?;
    converse(handle, frontend, for_hooks).await
}

/// The settings of a session started here, with what is recorded about trust.
pub(crate) fn settings_in_force(args: &Args, machine: &Machine) -> anyhow::Result<InForce> {
    let configuration = Configuration::of(&machine.cwd)?;
    let trusted = trust::store(machine).trusts(&machine.cwd, &configuration)?;
    let trust = match &args.trust {
        _ if trusted => Trust::Recorded,
        Some(seal) if *seal == configuration.seal => Trust::Recorded,
        Some(_) => Trust::Active,
        None => Trust::None,
    };
    Ok(settings::load(&places(args, machine, trust)?)?)
}

/// The policy a session started here would begin with.
pub(crate) fn policy(args: &Args, machine: &Machine) -> anyhow::Result<Policy> {
    let in_force = settings_in_force(args, machine)?;
    let session = Session { args, machine, in_force: &in_force, attendance: Attendance::Unattended };
    session.policy(session.mode(&State::default())?, session.roots()?)
}

/// Lets a frontend and the agent talk until one of them, or a signal, ends it. Hooks on the end have
/// their time.
pub(crate) async fn converse(handle: Handle, frontend: Print, for_hooks: Duration) -> anyhow::Result<Ended> {
    let Handle { commands, events, task } = handle;
    let signals = Signals::listen().context("cannot listen to signals")?;
    let pipes = Pipes { stdin: tokio::io::stdin(), stdout: tokio::io::stdout(), stderr: tokio::io::stderr() };
    let code = tokio::select! {
        code = ostler_serve::run(frontend, commands.clone(), events, pipes) => code,
        code = signals.rule(commands.clone()) => code,
    };
    // With the last sender gone the agent stops what runs, records it and ends.
    drop(commands);
    if tokio::time::timeout(for_hooks + Duration::from_secs(2), task).await.is_err() {
        complain("ostler: the session did not end in time; what still ran was killed\n");
        return Ok(Ended::ByForce(code));
    }
    Ok(Ended::InOrder(code))
}

pub(crate) fn places(args: &Args, machine: &Machine, trust: Trust) -> anyhow::Result<Places> {
    let sources = args.setting_sources.as_deref().unwrap_or("user,project,local");
    let sources = split_list(&[sources.to_owned()]);
    if let Some(odd) = sources.iter().find(|source| !["user", "project", "local"].contains(&source.as_str()))
    {
        bail!("--setting-sources: unknown source '{odd}' (user, project, local)");
    }
    let has = |name: &str| sources.iter().any(|source| source == name);
    let user = [machine.config_dir(), machine.shared_config_dir()];
    Ok(Places {
        managed: vec!["/etc/ostler".into(), "/etc/claude-code".into()],
        managed_owner: 0,
        user: if has("user") { user.into() } else { vec![] },
        project: has("project").then(|| machine.cwd.clone()),
        local: has("local").then(|| machine.cwd.clone()),
        flag: args.settings.clone(),
        trust,
    })
}

fn models(in_force: &InForce, machine: &Machine) -> anyhow::Result<Models> {
    let environment = Environment::from_vars(machine.lookup())?;
    Ok(Models::new(Catalog::new(&in_force.models), environment, machine.cwd.clone()))
}

/// Sessions of an SDK host lie where its helpers look; ours can be resumed from both places.
pub(crate) fn store(machine: &Machine) -> Store {
    let (own, shared) = (machine.config_dir(), machine.shared_config_dir());
    Store { homes: if machine.is_sdk_host() { vec![shared, own] } else { vec![own, shared] } }
}

fn resumed(args: &Args, machine: &Machine, store: &Store) -> anyhow::Result<Option<Loaded>> {
    let path = if args.continue_newest {
        store.newest(&machine.cwd)?
    } else if let Some(id) = &args.resume {
        store.find(id).with_context(|| format!("no conversation found with session id {id}"))?
    } else {
        return Ok(None);
    };
    let loaded = session::load(&path)?;
    for (line, problem) in &loaded.damaged {
        complain(&format!("ostler: {}:{line} cannot be read and was left out: {problem}\n", path.display()));
    }
    Ok(Some(loaded))
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
        bypass_allowed: args.dangerously_skip_permissions || args.allow_dangerously_skip_permissions,
    };
    Print { input, output, asks, about }
}

/// What one session is put together from.
struct Session<'a> {
    args: &'a Args,
    machine: &'a Machine,
    in_force: &'a InForce,
    attendance: Attendance,
}

impl Session<'_> {
    fn start(
        &self,
        models: Models,
        chosen: Chosen,
        store: &Store,
        resumed: Option<Loaded>,
    ) -> anyhow::Result<(Handle, Duration)> {
        let (id, state, path) = match resumed {
            Some(loaded) => (loaded.id, loaded.state, loaded.path),
            None => self.new_session(store)?,
        };
        // What the user wants no trace of leaves none beside the transcript either.
        let (log, artifacts) = if self.args.no_session_persistence {
            (Log::nowhere(), None)
        } else {
            let beside = path.with_extension("").join("tool-results");
            (Log::at(path.clone()), Some(Artifacts::new(&beside)))
        };
        let transcript = (!self.args.no_session_persistence).then_some(path);
        let hooks = self.hooks(&id, transcript, artifacts.clone())?;
        let for_hooks = hooks.time_at_end();
        let executor = self.executor(&id, &state, artifacts, hooks)?;
        let system = self.system(&executor)?;
        let handle = ostler_engine::spawn(Start {
            id,
            state,
            log,
            stamp: stamp(self.machine),
            models,
            chosen,
            executor,
            system,
            limits: self.limits()?,
        });
        Ok((handle, for_hooks))
    }

    fn new_session(&self, store: &Store) -> anyhow::Result<(SessionId, State, PathBuf)> {
        let id = match &self.args.session_id {
            None => uuid::Uuid::new_v4().to_string(),
            Some(id) => {
                ensure!(uuid::Uuid::parse_str(id).is_ok(), "--session-id: '{id}' is not a UUID");
                ensure!(
                    store.find(id).is_none(),
                    "--session-id: session {id} exists already; use --resume {id}"
                );
                id.clone()
            }
        };
        let id = SessionId::from(id);
        let path = store.path_for(&self.machine.cwd, &id);
        Ok((id, State::default(), path))
    }

    fn hooks(
        &self,
        id: &SessionId,
        transcript: Option<PathBuf>,
        artifacts: Option<Artifacts>,
    ) -> anyhow::Result<Arc<SessionHooks>> {
        let surroundings = hooks::surroundings(self.in_force, self.machine, artifacts);
        let hooks = Hooks::new(&self.in_force.hooks, surroundings).map_err(|problem| anyhow!(problem))?;
        let effort = self
            .args
            .effort
            .and_then(|effort| serde_json::to_value(effort).ok()?.as_str().map(str::to_owned));
        Ok(Arc::new(SessionHooks::new(hooks, Facts { session: id.clone(), transcript, effort })))
    }

    fn executor(
        &self,
        id: &SessionId,
        state: &State,
        artifacts: Option<Artifacts>,
        hooks: Arc<SessionHooks>,
    ) -> anyhow::Result<Executor> {
        let roots = self.roots()?;
        let cwd = self.shell_folder(state, &roots);
        let secrets: Vec<String> =
            self.in_force.models.values().filter_map(|row| row.api_key_env.clone()).collect();
        let journal = self.machine.config_dir().join("journal");
        finish_interrupted_edits(&journal);
        let env = self.machine.child_env(&self.passed_env(), &secrets);
        let host = Local::new(self.machine.home.clone(), env)
            .with_journal(journal)
            .with_warden(self.machine.program.clone());
        let jobs = Arc::new(Jobs::new(artifacts.clone()));
        let executor = Executor::new(Setup {
            registry: self.registry(&jobs)?,
            host: Arc::new(host),
            policy: self.policy(self.mode(state)?, roots)?,
            cwd,
            attendance: self.attendance,
            parallel: DEFAULT_PARALLEL,
            artifacts,
            memory: self.memory(),
            reload: Some(self.reload()?),
            keeping: self.keeping(id),
            jobs,
            hooks: Some(hooks),
        });
        Ok(executor)
    }

    /// Looks at the settings files again. Trust is settled once, when the session starts: what a
    /// folder's configuration became since then counts as untrusted.
    fn reload(&self) -> anyhow::Result<Reload> {
        let (args, machine) = (self.args.clone(), self.machine.clone());
        let attendance = self.attendance;
        let mut watch = Watch::new(&places(&args, &machine, Trust::None)?);
        Ok(Box::new(move || {
            if !watch.changed() {
                return None;
            }
            let policy = settings_in_force(&args, &machine).and_then(|in_force| {
                let session = Session { args: &args, machine: &machine, in_force: &in_force, attendance };
                session.policy(Mode::Default, session.roots()?)
            });
            policy
                .inspect_err(|error| complain(&format!("ostler: changed settings are not used: {error:#}\n")))
                .ok()
        }))
    }

    /// Private hosts that the user lets pages be fetched from.
    fn reach(&self) -> Reach {
        let named = self.in_force.other.get("webFetch").and_then(|web| web.get("allowHosts"));
        let named = named.and_then(|hosts| hosts.as_array()).into_iter().flatten();
        Reach { private: named.filter_map(|host| Some(host.as_str()?.to_owned())).collect() }
    }

    /// Where checkpoints go, unless settings switch them off or no trace is wanted.
    fn keeping(&self, session: &SessionId) -> Option<Keeping> {
        let off =
            self.in_force.other.get("fileCheckpointingEnabled") == Some(&ostler_proto::Json::Bool(false));
        (!off && !self.args.no_session_persistence)
            .then(|| Keeping { place: rewind::place(self.machine), session: session.clone() })
    }

    fn memory(&self) -> Memory {
        Memory::new(memory::Places {
            folder: self.machine.cwd.clone(),
            user: config::file(self.machine, config::Scope::User),
            trust: trust::store(self.machine),
        })
    }

    /// Variables that settings give to children, by name.
    fn passed_env(&self) -> Vec<String> {
        self.in_force.env.keys().chain(&self.in_force.pass_env).cloned().collect()
    }

    fn policy(&self, mode: Mode, roots: Vec<PathBuf>) -> anyhow::Result<Policy> {
        Ok(Policy {
            mode,
            rules: self.rules()?,
            home: self.machine.home.clone(),
            readable: Vec::new(),
            sandboxing: self.sandboxing(),
            roots,
        })
    }

    fn sandboxing(&self) -> Sandboxing {
        let sandbox = &self.in_force.sandbox;
        let path = |text: &String| match text.strip_prefix("~/") {
            Some(below) => self.machine.home.join(below),
            None => self.machine.cwd.join(text),
        };
        let paths = |texts: &[String]| texts.iter().map(path).collect::<Vec<_>>();
        Sandboxing {
            demand: match (sandbox.enabled, sandbox.fail_if_unavailable) {
                (Some(false), _) => Demand::Off,
                (Some(true), Some(true)) => Demand::Required,
                (Some(true) | None, _) => Demand::Wanted,
            },
            in_force: false,
            auto_allow: sandbox.enabled == Some(true) && sandbox.auto_allow_bash_if_sandboxed != Some(false),
            excluded: sandbox.excluded_commands.clone(),
            may_leave: sandbox.allow_unsandboxed_commands != Some(false),
            writable: paths(&sandbox.filesystem.allow_write),
            frozen: paths(&sandbox.filesystem.deny_write),
            hidden: paths(&sandbox.filesystem.deny_read),
            hosts: sandbox.network.allowed_domains.clone(),
            denied_hosts: sandbox.network.denied_domains.clone(),
            temp: None,
        }
    }

    /// A resumed shell stands where it stood, if that is still one of ours.
    fn shell_folder(&self, state: &State, roots: &[PathBuf]) -> PathBuf {
        let ours = |cwd: &&PathBuf| cwd.is_dir() && roots.iter().any(|root| cwd.starts_with(root));
        state.cwd.as_ref().filter(ours).unwrap_or(&self.machine.cwd).clone()
    }

    fn roots(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut roots = vec![self.machine.cwd.clone()];
        for dir in self.args.add_dir.iter().chain(&self.in_force.directories) {
            let path = self.machine.cwd.join(dir);
            let path = path
                .canonicalize()
                .with_context(|| format!("--add-dir: {} does not exist", dir.display()))?;
            roots.push(path);
        }
        Ok(roots)
    }

    fn registry(&self, jobs: &Arc<Jobs>) -> anyhow::Result<Registry> {
        let kit = Kit {
            options: options(self.machine, self.in_force)?,
            manner: self.manner()?,
            jobs: Arc::clone(jobs),
            reach: self.reach(),
        };
        let mut tools: Vec<Box<dyn Tool>> = builtin::all_with(kit);
        if let Some(wanted) = &self.args.tools {
            let wanted = split_list(wanted);
            if wanted != ["default"] {
                let known: Vec<String> = tools.iter().map(|tool| tool.spec().name.clone()).collect();
                if let Some(odd) = wanted.iter().find(|name| !known.contains(name)) {
                    bail!("--tools: there is no built-in tool '{odd}' (there are {})", known.join(", "));
                }
                tools.retain(|tool| wanted.contains(&tool.spec().name));
            }
        }
        Ok(Registry::new(tools)?)
    }

    fn manner(&self) -> anyhow::Result<Manner> {
        let other = &self.in_force.other;
        // With a choice of tools, those that a hint would name may not be there.
        let is_whole = self.args.tools.as_ref().is_none_or(|wanted| split_list(wanted) == ["default"]);
        let prefer = match other.get("preferDedicatedTools") {
            None if !is_whole => Preference::Off,
            None => Preference::default(),
            Some(value) => value.as_str().and_then(Preference::from_setting).with_context(|| {
                format!("settings: preferDedicatedTools must be off, hint or deny, not {value}")
            })?,
        };
        let attribution = other.get("attribution").and_then(|value| value["commit"].as_str());
        let commit_trailer = match attribution {
            Some(text) => Some(text.to_owned()).filter(|text| !text.trim().is_empty()),
            None => (other.get("includeCoAuthoredBy") == Some(&true.into())).then(|| CO_AUTHOR.to_owned()),
        };
        Ok(Manner { prefer, commit_trailer })
    }

    fn mode(&self, state: &State) -> anyhow::Result<Mode> {
        // Plan and bypass are never taken over from an earlier process.
        let earlier = state.mode.filter(|mode| !matches!(mode, Mode::Plan | Mode::BypassPermissions));
        let asked = if self.args.dangerously_skip_permissions {
            Some(Mode::BypassPermissions)
        } else {
            self.args.permission_mode
        };
        let mode = asked.or(earlier).or(self.in_force.mode).unwrap_or_default();
        if mode == Mode::BypassPermissions && self.in_force.bypass_is_off {
            complain("ostler: settings forbid bypassing permissions; going on in mode default\n");
            return Ok(Mode::Default);
        }
        let is_root = rustix::process::geteuid().is_root();
        if mode == Mode::BypassPermissions
            && is_root
            && self.machine.var("IS_SANDBOX").as_deref() != Some("1")
        {
            bail!(
                "permissions cannot be bypassed as root; use another user, or set IS_SANDBOX=1 inside a sandbox"
            );
        }
        Ok(mode)
    }

    fn rules(&self) -> anyhow::Result<Rules> {
        let mut rules = self.in_force.rules.clone();
        let flag = |name: &str| RuleSource::Flag(name.to_owned());
        for text in split_list(&self.args.allowed_tools) {
            rules.allow.push(Rule::parse(&text, flag("--allowedTools"))?);
        }
        for text in split_list(&self.args.disallowed_tools) {
            rules.deny.push(Rule::parse(&text, flag("--disallowedTools"))?);
        }
        Ok(rules)
    }

    fn system(&self, executor: &Executor) -> anyhow::Result<Vec<String>> {
        let replaced = match (&self.args.system_prompt, &self.args.system_prompt_file) {
            (Some(text), _) => Some(text.clone()),
            (None, Some(path)) => Some(read_named("--system-prompt-file", path)?),
            (None, None) => None,
        };
        let mut system = match replaced {
            Some(text) => vec![text],
            None => default_system(&surroundings(self.machine), &executor.offered()),
        };
        system.extend(self.args.append_system_prompt.clone());
        Ok(system)
    }

    fn limits(&self) -> anyhow::Result<Limits> {
        let defaults = Limits::default();
        let retries = self.machine.number("CLAUDE_CODE_MAX_RETRIES")?.map(|count| count.min(15));
        let thinking = match (self.args.thinking, self.args.max_thinking_tokens) {
            (Some(ThinkingFlag::Disabled), _) | (None, Some(0)) => Thinking::Disabled,
            (_, Some(tokens)) => Thinking::Budget(tokens),
            (Some(ThinkingFlag::Adaptive | ThinkingFlag::Enabled), None) => Thinking::Adaptive,
            (None, None) => Thinking::Auto,
        };
        Ok(Limits {
            max_turns: self.args.max_turns,
            max_budget_usd: self.args.max_budget_usd,
            max_retries: retries.and_then(|count| u32::try_from(count).ok()).unwrap_or(defaults.max_retries),
            max_output_tokens: self.machine.number("CLAUDE_CODE_MAX_OUTPUT_TOKENS")?,
            thinking,
            effort: self.args.effort,
            lifetime: match self.args.input_format {
                InputFormat::Text => Lifetime::OneTurn,
                InputFormat::StreamJson => Lifetime::Conversation,
            },
            ..defaults
        })
    }
}

/// Edits of several files that a killed process left half done become whole, or undone, first.
fn finish_interrupted_edits(journal: &Path) {
    let recovered = journal::recover(journal).unwrap_or_else(|error| {
        complain(&format!("ostler: cannot look for interrupted edits: {error}\n"));
        Vec::new()
    });
    for Recovered { files, outcome } in recovered {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let names = names.join(", ");
        complain(&match outcome {
            Outcome::Completed => format!("ostler: an interrupted edit of {names} was completed\n"),
            Outcome::Undone { left } if left.is_empty() => {
                format!("ostler: an interrupted edit of {names} was undone\n")
            }
            Outcome::Undone { left } => {
                let left: Vec<String> = left.iter().map(|file| file.display().to_string()).collect();
                format!(
                    "ostler: an interrupted edit of {names} was undone, but {} changed since and was left alone\n",
                    left.join(", ")
                )
            }
            Outcome::Stuck { reason } => {
                format!("ostler: an interrupted edit of {names} could not be finished: {reason}\n")
            }
        });
    }
}

pub(crate) fn stamp(machine: &Machine) -> Stamp {
    Stamp {
        version: VERSION.to_owned(),
        cwd: machine.cwd.clone(),
        git_branch: machine.git_branch(),
        entrypoint: machine.entrypoint(),
    }
}

pub(crate) fn surroundings(machine: &Machine) -> Surroundings {
    Surroundings {
        cwd: machine.cwd.clone(),
        platform: std::env::consts::OS.to_owned(),
        is_git: machine.git_folder().is_some(),
        today: jiff::Timestamp::now().to_string().chars().take(10).collect(),
    }
}
