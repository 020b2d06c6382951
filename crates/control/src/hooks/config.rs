//! Hooks as settings write them, made into hooks that can run. Decides which of them are in force:
//! who is weaker can neither switch off nor widen what the stronger has set.

use super::{
    command::{Program, Shell},
    http::{Http, Limits},
    matcher::Matcher,
    prompt::{self, Prompt},
};
use ostler_proto::{
    HookEvent, HookSource, HostHook, Json, Rule, RuleSource, Settings, hook::HookInfo, listener::OnFailure,
};
use serde::Deserialize;
use serde_json::Map;
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

/// The longest a hook may be given.
const MAX_TIMEOUT: Duration = Duration::from_hours(24);
/// The longest the end of a session may be held up.
const MAX_AT_END: Duration = Duration::from_mins(1);
/// How long it is held up unless a hook was given more.
const AT_END: Duration = Duration::from_millis(1500);
/// How much of a command names it in lists and reasons.
const MAX_NAME: usize = 200;

/// What one place says about hooks.
#[derive(Debug, Clone, PartialEq)]
pub struct Scope {
    /// Which place.
    pub source: HookSource,
    /// `hooks`, by event.
    pub hooks: Map<String, Json>,
    /// `disableAllHooks`.
    pub disable_all: Option<bool>,
    /// `allowedHttpHookUrls`.
    pub urls: Option<Vec<String>>,
    /// `httpHookAllowedEnvVars`.
    pub env_vars: Option<Vec<String>>,
    /// `allowManagedHooksOnly`.
    pub managed_only: Option<bool>,
    /// Variables its commands find and may name in their words, such as a plugin's folder.
    pub vars: Vec<(String, String)>,
}

/// One hook, ready to run.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) info: HookInfo,
    pub(super) matcher: Matcher,
    pub(super) condition: Option<Rule>,
    pub(super) handler: Handler,
    pub(super) timeout: Option<Duration>,
    /// Whether it may wake the model when it ends in the background.
    pub(super) wakes: bool,
    pub(super) once: bool,
    pub(super) on_failure: OnFailure,
    pub(super) vars: Vec<(String, String)>,
    /// Whether it was to run once and has.
    pub(super) spent: AtomicBool,
}

/// What a hook does.
pub(super) enum Handler {
    Command(Program),
    Http(Http),
    Prompt(Prompt),
    Callback(String),
    /// Something this version cannot do, and why: as a gate it stays closed.
    Unsupported(String),
}

/// Whose word counts more, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Authority {
    Managed,
    User,
    Project,
}

/// What all scopes amount to.
pub(super) struct Read {
    pub(super) hooks: Vec<Arc<Hook>>,
    pub(super) limits: Limits,
    pub(super) notices: Vec<String>,
    /// Whether a host's callbacks count.
    pub(super) hears_host: bool,
}

impl Scope {
    /// The part of a settings file that is about hooks; none if it has no such part.
    pub fn of_settings(source: RuleSource, settings: &Settings) -> Option<Self> {
        let scope = Self {
            disable_all: settings.disable_all_hooks,
            urls: settings.allowed_http_hook_urls.clone(),
            env_vars: settings.http_hook_allowed_env_vars.clone(),
            managed_only: settings.allow_managed_hooks_only,
            ..Self::of_front_matter(HookSource::Settings(source), settings.hooks.clone())
        };
        let says_nothing = Self::of_front_matter(scope.source.clone(), Map::new());
        (scope != says_nothing).then_some(scope)
    }

    /// Hooks that a plugin, an agent or a skill brings along.
    pub fn of_front_matter(source: HookSource, hooks: Map<String, Json>) -> Self {
        Self {
            source,
            hooks,
            disable_all: None,
            urls: None,
            env_vars: None,
            managed_only: None,
            vars: Vec::new(),
        }
    }
}

/// Reads all scopes, the strongest first. Events of a newer version are left out and named.
pub(super) fn read(scopes: &[Scope]) -> Result<Read, String> {
    let (mut hooks, mut notices) = (Vec::new(), Vec::new());
    for scope in scopes {
        for (name, groups) in &scope.hooks {
            let Ok(event) = name.parse::<HookEvent>() else {
                notices.push(format!("{}: hooks.{name} is not an event this version knows", scope.source));
                continue;
            };
            hooks.extend(read_event(event, groups, scope)?);
        }
    }
    let managed_only = scopes
        .iter()
        .any(|scope| authority(&scope.source) == Authority::Managed && scope.managed_only == Some(true));
    hooks.retain(|hook: &Hook| {
        let of_owner = authority(&hook.info.source) == Authority::Managed;
        !is_disabled(&hook.info.source, scopes) && (of_owner || !managed_only)
    });
    let hears_host = !managed_only && !is_disabled(&HookSource::Host, scopes);
    let limits = Limits {
        urls: strongest_list(scopes, |scope| scope.urls.as_ref()),
        env_vars: strongest_list(scopes, |scope| scope.env_vars.as_ref()),
    };
    Ok(Read { hooks: hooks.into_iter().map(Arc::new).collect(), limits, notices, hears_host })
}

fn authority(source: &HookSource) -> Authority {
    match source {
        HookSource::Settings(RuleSource::Managed(_)) => Authority::Managed,
        HookSource::Settings(RuleSource::Flag(_) | RuleSource::User(_) | RuleSource::Session)
        | HookSource::Host => Authority::User,
        HookSource::Settings(RuleSource::Local(_) | RuleSource::Project(_))
        | HookSource::Plugin(_)
        | HookSource::Agent(_)
        | HookSource::Skill(_) => Authority::Project,
    }
}

/// Whether somebody who may has switched off the hooks of this source.
fn is_disabled(source: &HookSource, scopes: &[Scope]) -> bool {
    let own = authority(source);
    let said = scopes.iter().filter_map(|scope| Some((authority(&scope.source), scope.disable_all?)));
    let strongest = said.filter(|(who, _)| *who <= own).min_by_key(|(who, _)| *who);
    strongest.is_some_and(|(_, is_off)| is_off)
}

/// The lists of the strongest who have one, together.
fn strongest_list<'a>(
    scopes: &'a [Scope],
    list: impl Fn(&'a Scope) -> Option<&'a Vec<String>>,
) -> Option<Vec<String>> {
    let given: Vec<_> =
        scopes.iter().filter_map(|scope| Some((authority(&scope.source), list(scope)?))).collect();
    let strongest = given.iter().map(|(who, _)| *who).min()?;
    Some(given.into_iter().filter(|(who, _)| *who == strongest).flat_map(|(_, list)| list.clone()).collect())
}

#[derive(Deserialize)]
struct Group {
    matcher: Option<String>,
    hooks: Vec<Json>,
}

/// One hook as it is written; other keys are left alone.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "if")]
    condition: Option<String>,
    timeout: Option<f64>,
    r#async: Option<bool>,
    async_rewake: Option<bool>,
    once: Option<bool>,
    on_failure: Option<OnFailure>,
    command: Option<String>,
    args: Option<Vec<String>>,
    shell: Option<String>,
    url: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    allowed_env_vars: Option<Vec<String>>,
    prompt: Option<String>,
    model: Option<String>,
    continue_on_block: Option<bool>,
}

fn read_event(event: HookEvent, groups: &Json, scope: &Scope) -> Result<Vec<Hook>, String> {
    let at = format!("hooks.{event}");
    let groups = Vec::<Group>::deserialize(groups).map_err(|error| format!("key '{at}': {error}"))?;
    // What ends with an agent is a subagent's end.
    let is_of_agent = matches!(scope.source, HookSource::Agent(_) | HookSource::Skill(_));
    let event = if is_of_agent && event == HookEvent::Stop { HookEvent::SubagentStop } else { event };
    let mut hooks = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let matcher = group.matcher.clone().unwrap_or_default();
        for (place, entry) in group.hooks.iter().enumerate() {
            let hook = read_entry(event, &matcher, entry, scope);
            hooks.push(hook.map_err(|problem| format!("key '{at}[{number}].hooks[{place}]': {problem}"))?);
        }
    }
    Ok(hooks)
}

fn read_entry(event: HookEvent, matcher: &str, entry: &Json, scope: &Scope) -> Result<Hook, String> {
    let entry = Entry::deserialize(entry).map_err(|error| error.to_string())?;
    let timeout = entry.timeout.map(seconds).transpose().map_err(|problem| format!("timeout {problem}"))?;
    let rule_source = match &scope.source {
        HookSource::Settings(source) => source.clone(),
        HookSource::Plugin(_) | HookSource::Agent(_) | HookSource::Skill(_) | HookSource::Host => {
            RuleSource::Session
        }
    };
    let condition = entry.condition.as_ref().map(|text| Rule::parse(text, rule_source)).transpose();
    let handler = handler(event, &entry)?;
    let wakes = entry.async_rewake == Some(true);
    let info = HookInfo {
        event,
        matcher: matcher.to_owned(),
        condition: entry.condition.clone(),
        kind: entry.kind.clone(),
        hook: name(&handler),
        source: scope.source.clone(),
        timeout_ms: millis(timeout.unwrap_or_else(|| default_timeout(&handler, event))),
        background: wakes || entry.r#async == Some(true),
    };
    Ok(Hook {
        info,
        matcher: Matcher::read(matcher, event).map_err(|problem| format!("matcher {problem}"))?,
        condition: condition.map_err(|error| error.to_string())?,
        handler,
        timeout,
        wakes,
        once: entry.once == Some(true),
        on_failure: entry.on_failure.unwrap_or_default(),
        vars: scope.vars.clone(),
        spent: AtomicBool::new(false),
    })
}

fn handler(event: HookEvent, entry: &Entry) -> Result<Handler, String> {
    let needed = |text: &Option<String>, key: &str| {
        text.clone()
            .filter(|text| !text.trim().is_empty())
            .ok_or_else(|| format!("a hook of this type needs '{key}'"))
    };
    let is_early = matches!(event, HookEvent::SessionStart | HookEvent::Setup);
    Ok(match entry.kind.as_str() {
        "command" => {
            let shell = match entry.shell.as_deref() {
                None | Some("sh") => Shell::Sh,
                Some("bash") => Shell::Bash,
                Some(other) => {
                    return Ok(Handler::Unsupported(format!("the shell '{other}' is not supported")));
                }
            };
            Handler::Command(Program {
                line: needed(&entry.command, "command")?,
                args: entry.args.clone(),
                shell,
            })
        }
        "http" if !is_early => Handler::Http(Http {
            url: needed(&entry.url, "url")?,
            headers: entry.headers.clone().unwrap_or_default(),
            allowed_env_vars: entry.allowed_env_vars.clone().unwrap_or_default(),
        }),
        "prompt" if prompt::may_speak_at(event) => Handler::Prompt(Prompt {
            text: needed(&entry.prompt, "prompt")?,
            model: entry.model.clone(),
            continue_on_block: entry.continue_on_block == Some(true),
        }),
        kind @ ("http" | "prompt") => {
            Handler::Unsupported(format!("hooks of type '{kind}' cannot speak at {event}"))
        }
        other => Handler::Unsupported(format!("hooks of type '{other}' are not supported")),
    })
}

/// A callback of the host as a hook like any other.
pub(super) fn of_host(host: HostHook) -> Hook {
    let (matcher, handler) = match Matcher::read(&host.matcher, host.event) {
        Ok(matcher) => (matcher, Handler::Callback(host.callback)),
        // Nobody knows what it is about, so it might be about anything.
        Err(problem) => (Matcher::All, Handler::Unsupported(format!("its matcher {problem}"))),
    };
    let info = HookInfo {
        event: host.event,
        matcher: host.matcher.clone(),
        condition: None,
        kind: "callback".to_owned(),
        hook: name(&handler),
        source: HookSource::Host,
        timeout_ms: millis(host.timeout.unwrap_or_else(|| default_timeout(&handler, host.event))),
        background: false,
    };
    Hook {
        info,
        matcher,
        condition: None,
        handler,
        timeout: host.timeout,
        wakes: false,
        once: false,
        on_failure: host.on_failure,
        vars: Vec::new(),
        spent: AtomicBool::new(false),
    }
}

/// How long a hook may take; the end of a session waits for all hooks together.
pub(super) fn limit(hook: &Hook, all: &[Arc<Hook>], at_end: Option<Duration>) -> Duration {
    if hook.info.event != HookEvent::SessionEnd {
        return hook.timeout.unwrap_or_else(|| default_timeout(&hook.handler, hook.info.event));
    }
    let given = all
        .iter()
        .filter(|other| other.info.event == HookEvent::SessionEnd)
        .filter_map(|other| other.timeout);
    let budget = at_end.unwrap_or_else(|| given.max().unwrap_or(AT_END).max(AT_END)).min(MAX_AT_END);
    hook.timeout.unwrap_or(budget).min(budget)
}

fn default_timeout(handler: &Handler, event: HookEvent) -> Duration {
    let seconds = match (handler, event) {
        (_, HookEvent::SessionEnd) => return AT_END,
        (Handler::Prompt(_), _) | (Handler::Command(_) | Handler::Http(_), HookEvent::UserPromptSubmit) => 30,
        (Handler::Callback(_), _) => 60,
        (Handler::Command(_) | Handler::Http(_), HookEvent::MessageDisplay) => 10,
        (Handler::Command(_) | Handler::Http(_) | Handler::Unsupported(_), _) => 600,
    };
    Duration::from_secs(seconds)
}

/// A number of seconds from a settings file or a host.
pub(super) fn seconds(number: f64) -> Result<Duration, String> {
    let duration = Duration::try_from_secs_f64(number).ok().filter(|duration| !duration.is_zero());
    let duration = duration.ok_or_else(|| format!("must be a number of seconds above 0, not {number}"))?;
    Ok(duration.min(MAX_TIMEOUT))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn name(handler: &Handler) -> String {
    let name = match handler {
        Handler::Command(command) => super::command::name(command),
        Handler::Http(http) => http.url.clone(),
        Handler::Prompt(prompt) => prompt.text.clone(),
        Handler::Callback(id) => id.clone(),
        Handler::Unsupported(problem) => problem.clone(),
    };
    match name.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

impl Hook {
    /// Whether two settings files name the same thing to do. Copies of plugins and skills stay apart.
    pub(super) fn repeats(&self, other: &Self) -> bool {
        let from_files = [self, other].iter().all(|hook| matches!(hook.info.source, HookSource::Settings(_)));
        from_files && self.does_the_same(other) && self.info.background == other.info.background
    }

    /// Whether two hooks do the same thing.
    pub(super) fn does_the_same(&self, other: &Self) -> bool {
        match (&self.handler, &other.handler) {
            (Handler::Command(one), Handler::Command(two)) => one == two,
            (Handler::Http(one), Handler::Http(two)) => one == two,
            (Handler::Prompt(one), Handler::Prompt(two)) => one == two,
            (
                Handler::Command(_)
                | Handler::Http(_)
                | Handler::Prompt(_)
                | Handler::Callback(_)
                | Handler::Unsupported(_),
                _,
            ) => false,
        }
    }
}

impl std::fmt::Debug for Handler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&name(self))
    }
}
