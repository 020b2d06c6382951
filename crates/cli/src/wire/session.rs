//! One session, put together from what the user, the settings and the machine say.

use super::{
    places,
    resume::{GoingOn, Resumed},
    settings_in_force, stamp, surroundings,
};
use crate::{
    args::{Args, InputFormat, SnapshotFlag, ThinkingFlag, Window, split_list},
    complain, config, hooks,
    machine::{Machine, read_named},
    options::options,
    rewind, trust,
};
use anyhow::{Context, anyhow, bail, ensure};
use ostler_control::{
    Executor, Policy, Setup,
    executor::{Attendance, DEFAULT_PARALLEL, Facts, Keeping, Reload, Reloaded, SessionHooks},
    hooks::Surroundings,
    memory::{self, Memory},
    notes::Notes,
    settings::{InForce, Watch, scope::Trust},
};
use ostler_engine::{
    AutoCompact, CacheBreaks, Handle, Lifetime, Limits, Origin, Place, Recording, Snapshot, Start,
    default_system,
    session::{Log, State, Store},
};
use ostler_model::{Chosen, Models};
use ostler_proto::{Mode, Scope, Section, SessionId, Thinking, Todo, ToolSpec, settings::ModelNames};
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
};

/// The trailer of commits where settings ask for one without saying which.
const CO_AUTHOR: &str = "Co-Authored-By: Ostler <noreply@ostler.invalid>";

/// What `--bare` leaves: commands and files.
const BARE_TOOLS: [&str; 11] = [
    "Bash",
    "Read",
    "Edit",
    "MultiEdit",
    "Write",
    "NotebookEdit",
    "Glob",
    "Grep",
    "LS",
    "TaskOutput",
    "TaskStop",
];

/// What one session is put together from.
pub(super) struct Session<'a> {
    pub(super) args: &'a Args,
    pub(super) machine: &'a Machine,
    pub(super) in_force: &'a InForce,
    pub(super) attendance: Attendance,
    pub(super) trust: Trust,
}

/// A session under way.
pub(super) struct Started {
    pub(super) handle: Handle,
    /// Its hooks.
    pub(super) hooks: Arc<SessionHooks>,
    /// Where it is written, if it is.
    pub(super) transcript: Option<PathBuf>,
}

impl Session<'_> {
    /// Starts the agent.
    pub(super) fn start(
        &self,
        models: Models,
        chosen: Chosen,
        store: &Store,
        resumed: Option<Resumed>,
    ) -> anyhow::Result<Started> {
        let wanted = self.wanted_id(store)?;
        let GoingOn { id, state, log, path, origin } = if let Some(resumed) = resumed {
            resumed.go_on(wanted, store, self.machine)
        } else {
            let id = wanted.unwrap_or_else(|| SessionId(uuid::Uuid::new_v4().to_string()));
            let path = store.path_for(&self.machine.cwd, &id);
            GoingOn { id, state: State::default(), log: Log::at(path.clone()), path, origin: Origin::New }
        };
        // What the user wants no trace of leaves none beside the transcript either.
        let (log, artifacts) = if self.args.no_session_persistence {
            (Log::nowhere(), None)
        } else {
            (log.with_fsync(self.in_force.fsync.unwrap_or_default()), Some(Artifacts::beside(&path)))
        };
        let transcript = (!self.args.no_session_persistence).then_some(path);
        let ask_model = hooks::ask_model(self.in_force, self.machine, Some(chosen.clone()))?;
        let around = hooks::surroundings(self.in_force, self.machine, artifacts, Some(ask_model));
        let hooks = self.hooks(&id, transcript.clone(), around.clone())?;
        let mut policy = self.policy(self.mode(&state)?, self.roots()?)?;
        let instructions = self.instructions(&policy)?;
        let notes = instructions.as_ref().and_then(|instructions| instructions.notes.as_ref());
        policy.editable.extend(notes.map(|notes| notes.folder().to_owned()));
        let executor = self.executor(&id, &state, policy, (Arc::clone(&hooks), around))?;
        let system = self.system(&executor.offered(), notes)?;
        let limits = self.limits(&models)?;
        let handle = ostler_engine::spawn(Start {
            id,
            state,
            log,
            stamp: stamp(self.machine),
            models,
            chosen,
            executor,
            system,
            snapshot: match self.args.system_prompt_snapshot {
                SnapshotFlag::On => Snapshot::Reuse,
                SnapshotFlag::Off => Snapshot::Fresh,
            },
            instructions: instructions.map(Arc::new),
            limits,
            origin,
            title: self.args.name.clone(),
            recording: self.recording(origin),
        });
        Ok(Started { handle, hooks, transcript })
    }

    /// A session that goes on behind lines it does not count could not be loaded again as it was.
    fn recording(&self, origin: Origin) -> Recording {
        let is_cut = origin == Origin::Resumed && self.args.resume_session_at.is_some();
        if is_cut || !self.in_force.record.unwrap_or(true) { Recording::Off } else { Recording::On }
    }

    /// The id the user wants a new session to have.
    fn wanted_id(&self, store: &Store) -> anyhow::Result<Option<SessionId>> {
        let Some(id) = &self.args.session_id else { return Ok(None) };
        ensure!(uuid::Uuid::parse_str(id).is_ok(), "--session-id: '{id}' is not a UUID");
        ensure!(store.find(id).is_none(), "--session-id: session {id} exists already; use --resume {id}");
        Ok(Some(SessionId::from(id.as_str())))
    }

    fn hooks(
        &self,
        id: &SessionId,
        transcript: Option<PathBuf>,
        around: Surroundings,
    ) -> anyhow::Result<Arc<SessionHooks>> {
        let effort = self
            .args
            .effort
            .and_then(|effort| serde_json::to_value(effort).ok()?.as_str().map(str::to_owned));
        let facts = Facts { session: id.clone(), transcript, effort };
        let hooks = SessionHooks::new(&self.in_force.hooks, around, facts);
        Ok(Arc::new(hooks.map_err(|problem| anyhow!(problem))?))
    }

    fn executor(
        &self,
        id: &SessionId,
        state: &State,
        policy: Policy,
        (hooks, around): (Arc<SessionHooks>, Surroundings),
    ) -> anyhow::Result<Executor> {
        let artifacts = around.artifacts.clone();
        let cwd = self.shell_folder(state, &policy.roots);
        let journal = self.machine.config_dir().join("journal");
        finish_interrupted_edits(&journal);
        let env = self.machine.child_env(&self.passed_env(), &self.secrets());
        let host = Local::new(self.machine.home.clone(), env)
            .with_journal(journal)
            .with_warden(self.machine.program.clone());
        let jobs = Arc::new(Jobs::new(artifacts.clone()));
        let policy = Policy { plan_file: self.plan_file(id), ..policy };
        let executor = Executor::new(Setup {
            registry: self.registry(&jobs, state.todos.clone())?,
            host: Arc::new(host),
            policy,
            cwd,
            attendance: self.attendance,
            parallel: DEFAULT_PARALLEL,
            artifacts,
            memory: self.memory(),
            reload: Some(self.reload(around)?),
            keeping: self.keeping(id),
            jobs,
            hooks: Some(hooks),
        });
        Ok(executor)
    }

    /// Looks at the settings files again. Trust is settled once, when the session starts: what a
    /// folder's configuration became since then counts as untrusted.
    fn reload(&self, around: Surroundings) -> anyhow::Result<Reload> {
        let (args, machine) = (self.args.clone(), self.machine.clone());
        let (attendance, trust) = (self.attendance, self.trust);
        let mut watch = Watch::new(&places(&args, &machine, Trust::None)?);
        Ok(Box::new(move || {
            let files = watch.changed();
            if files.is_empty() {
                return None;
            }
            let reloaded = settings_in_force(&args, &machine).and_then(|in_force| {
                let session =
                    Session { args: &args, machine: &machine, in_force: &in_force, attendance, trust };
                let policy = session.policy(Mode::Default, session.roots()?)?;
                let (artifacts, ask_model) = (around.artifacts.clone(), around.ask_model.clone());
                let surroundings = hooks::surroundings(&in_force, &machine, artifacts, ask_model);
                Ok(Reloaded { files, policy, hooks: in_force.hooks, surroundings })
            });
            reloaded
                .inspect_err(|error| complain(&format!("ostler: changed settings are not used: {error:#}\n")))
                .ok()
        }))
    }

    /// Private hosts that the user lets pages be fetched from.
    pub(super) fn reach(&self) -> Reach {
        let named = self.in_force.other.get("webFetch").and_then(|web| web.get("allowHosts"));
        let named = named.and_then(|hosts| hosts.as_array()).into_iter().flatten();
        Reach { private: named.filter_map(|host| Some(host.as_str()?.to_owned())).collect() }
    }

    /// Where checkpoints go, unless settings switch them off or no trace is wanted.
    fn keeping(&self, session: &SessionId) -> Option<Keeping> {
        let is_on = self.in_force.file_checkpointing_enabled.unwrap_or(true);
        (is_on && !self.args.no_session_persistence).then(|| {
            let retention = rewind::retention(self.in_force);
            let mut place = rewind::place(self.machine);
            // Between two prunings it may grow past what is kept, but not without end.
            place.limits.quota = retention.max_bytes.saturating_mul(2);
            Keeping { place, session: session.clone(), retention }
        })
    }

    pub(super) fn memory(&self) -> Memory {
        Memory::new(memory::Places {
            folder: self.machine.cwd.clone(),
            user: config::file(self.machine, config::Scope::User),
            trust: trust::store(self.machine),
        })
    }

    /// Variables that settings give to children, by name.
    pub(super) fn passed_env(&self) -> Vec<String> {
        self.in_force.env.keys().chain(&self.in_force.pass_env).cloned().collect()
    }

    /// Variables that hold keys, by name; no child gets them.
    pub(super) fn secrets(&self) -> Vec<String> {
        self.in_force.models.values().filter_map(|row| row.api_key_env.clone()).collect()
    }

    pub(super) fn registry(&self, jobs: &Arc<Jobs>, todos: Vec<Todo>) -> anyhow::Result<Registry> {
        let kit = Kit {
            options: options(self.machine, self.in_force)?,
            manner: self.manner()?,
            jobs: Arc::clone(jobs),
            reach: self.reach(),
            todos,
        };
        let mut tools: Vec<Box<dyn Tool>> = builtin::all_with(kit);
        if let Some(wanted) = self.wanted_tools().filter(|wanted| *wanted != ["default"]) {
            let known: Vec<String> = tools.iter().map(|tool| tool.spec().name.clone()).collect();
            if let Some(odd) = wanted.iter().find(|name| !known.contains(name)) {
                bail!("--tools: there is no built-in tool '{odd}' (there are {})", known.join(", "));
            }
            tools.retain(|tool| wanted.contains(&tool.spec().name));
        }
        Ok(Registry::new(tools)?)
    }

    /// The tools a model would be offered; nothing is started for it.
    pub(super) fn offered(&self, state: &State) -> anyhow::Result<Vec<ToolSpec>> {
        let policy = self.policy(self.mode(state)?, self.roots()?)?;
        let registry = self.registry(&Arc::new(Jobs::new(None)), Vec::new())?;
        let answerable =
            |name: &str| self.attendance == Attendance::Attended || !builtin::CONSULTING.contains(&name);
        let offered = registry.specs().filter(|spec| !policy.hides(&spec.name) && answerable(&spec.name));
        Ok(offered.cloned().collect())
    }

    /// The tools that were chosen, if any were.
    fn wanted_tools(&self) -> Option<Vec<String>> {
        let bare = || self.args.bare.then(|| BARE_TOOLS.map(str::to_owned).into());
        self.args.tools.as_ref().map(|wanted| split_list(wanted)).or_else(bare)
    }

    fn manner(&self) -> anyhow::Result<Manner> {
        let other = &self.in_force.other;
        // With a choice of tools, those that a hint would name may not be there.
        let is_whole = self.wanted_tools().is_none_or(|wanted| wanted == ["default"]);
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

    pub(super) fn system(&self, offered: &[ToolSpec], notes: Option<&Notes>) -> anyhow::Result<Vec<Section>> {
        let replaced = match (&self.args.system_prompt, &self.args.system_prompt_file) {
            (Some(text), _) => Some(text.clone()),
            (None, Some(path)) => Some(read_named("--system-prompt-file", path)?),
            (None, None) => None,
        };
        let place = if self.args.exclude_dynamic_system_prompt_sections {
            Place::FirstMessage
        } else {
            Place::System
        };
        let is_default = replaced.is_none();
        let mut system = match replaced {
            Some(text) => vec![Section::new("Given prompt", Scope::Global, text)],
            None => default_system(&surroundings(self.machine, place), offered),
        };
        // Who cannot write keeps no notes.
        if is_default && offered.iter().any(|tool| tool.name == "Write") {
            system.extend(notes.map(|notes| Section::new("Notes", Scope::Session, notes.guidance())));
        }
        let appended = self.args.append_system_prompt.as_ref();
        system.extend(appended.map(|text| Section::new("Appended prompt", Scope::Session, text)));
        Ok(system)
    }

    /// Models to turn to; a name that means nothing is found out now, not when it is needed.
    fn fallback(&self, models: &Models) -> anyhow::Result<Vec<String>> {
        let given = self.args.fallback_model.clone().map(ModelNames::Text);
        let (place, names) = match (given, &self.in_force.fallback_model) {
            (Some(names), _) => ("--fallback-model", names.names()),
            (None, Some(names)) => ("settings: fallbackModel", names.names()),
            (None, None) => return Ok(Vec::new()),
        };
        for name in &names {
            models.choose(name).with_context(|| place.to_owned())?;
        }
        Ok(names)
    }

    fn limits(&self, models: &Models) -> anyhow::Result<Limits> {
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
            budget: self.in_force.budget,
            fallback: self.fallback(models)?,
            max_retries: retries.and_then(|count| u32::try_from(count).ok()).unwrap_or(defaults.max_retries),
            max_output_tokens: self.machine.number("CLAUDE_CODE_MAX_OUTPUT_TOKENS")?,
            thinking,
            effort: self.args.effort,
            auto_compact: self.auto_compact(),
            lifetime: match self.args.input_format {
                InputFormat::Text => Lifetime::OneTurn,
                InputFormat::StreamJson => Lifetime::Conversation,
            },
            cache_breaks: if self.args.forbid_cache_break {
                CacheBreaks::Forbidden
            } else {
                CacheBreaks::Recorded
            },
            ..defaults
        })
    }
}

impl Session<'_> {
    /// The flag switches it on and says how far, whatever the settings say.
    pub(super) fn auto_compact(&self) -> AutoCompact {
        let set = self.in_force.auto_compact_window.map(std::num::NonZeroU64::get);
        match self.args.autocompact {
            None => AutoCompact { enabled: self.in_force.auto_compact_enabled.unwrap_or(true), window: set },
            Some(Window::Whole) => AutoCompact { enabled: true, window: None },
            Some(Window::Tokens(tokens)) => AutoCompact { enabled: true, window: Some(tokens) },
        }
    }
}

/// Edits of several files that a killed process left half done become whole, or undone, first.
pub(crate) fn finish_interrupted_edits(journal: &Path) {
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
