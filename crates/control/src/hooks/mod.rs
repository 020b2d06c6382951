//! Hooks: what users, projects and hosts have to say at certain moments, and how it is heard.
//! A hook is control, not logging: at a gate, one that is broken says no. This fires and merges;
//! whether a call then runs is decided by the judge, who knows a hook's word as one word among others.

mod answer;
pub mod audit;
mod command;
mod config;
mod exchange;
mod export;
mod extras;
mod host;
pub mod http;
mod matcher;
mod merge;
pub mod occasion;
pub mod prompt;
mod run;

pub use config::Scope;
pub use exchange::{Exchange, Told};
pub use export::Exports;
pub use extras::Extras;
pub use http::{HttpPost, Post, Posted, Reach};
pub use occasion::{CallFacts, Common, Occasion};
pub use prompt::{AskModel, ModelAnswer, ModelQuestion};

use answer::Word;
use config::Hook;
use futures_util::future::{BoxFuture, join_all};
use http::Limits;
use merge::Given;
use ostler_proto::{
    CallId, HookEvent, HookRecord, HookSource, HostHook, Json, Verdict,
    content::{Sink, clean},
    hook::{HookEnd, HookFiring, HookInfo, HookRun, HookWord},
};
use ostler_tools::{
    Artifacts,
    host::{Confinement, Warden},
};
use run::{Job, Ran};
use serde::{Deserialize, Serialize};
use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// What hooks find around them.
#[derive(Clone)]
pub struct Surroundings {
    /// The project's folder.
    pub project: PathBuf,
    /// The user's home, for `~` in conditions.
    pub home: PathBuf,
    /// The environment of their commands.
    pub env: Vec<(String, String)>,
    /// What their commands may touch.
    pub confinement: Confinement,
    /// Who keeps custody of what they start.
    pub warden: Option<Arc<Warden>>,
    /// Where answers too long to pass on are kept.
    pub artifacts: Option<Artifacts>,
    /// How hooks are posted.
    pub post: Option<HttpPost>,
    /// How a model is asked.
    pub ask_model: Option<AskModel>,
    /// How long the end of a session may wait for hooks, if the user says so.
    pub at_end: Option<Duration>,
    /// Where they tell what nobody waits for, and a host is called back.
    pub exchange: Arc<Exchange>,
}

/// All hooks in force.
#[derive(Clone)]
pub struct Hooks {
    all: Vec<Arc<Hook>>,
    around: Arc<Around>,
    hears_host: bool,
    /// What was left out of the settings, and why.
    pub notices: Vec<String>,
}

struct Around {
    surroundings: Surroundings,
    limits: Limits,
}

/// What the hooks made of an event.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Fired {
    /// At a gate: yes, ask or no. Nothing means that no hook cares.
    pub verdict: Option<Verdict>,
    /// Another input for the call: a new proposal, to be checked, planned and judged from the start.
    pub updated_input: Option<Json>,
    /// Changes to the permissions, with a yes to a request.
    pub updated_permissions: Vec<Json>,
    /// Whether a no to a request stops the turn too.
    pub interrupt: bool,
    /// Where the event is no gate: why the agent must go back to work, or what it is told about a result.
    pub block: Option<String>,
    /// For the model, beside the prompt or result.
    pub additional_context: Vec<String>,
    /// For the user.
    pub system_messages: Vec<String>,
    /// Why the whole run must stop.
    pub stop: Option<String>,
    /// Whether output of hooks is not worth showing.
    pub suppress_output: bool,
    /// What stands in the place of the call's result.
    pub replaced_result: Option<Json>,
    /// What they said that only few events know.
    #[serde(default)]
    pub extras: Extras,
    /// Everything hooks said for this event alone, in the order of settings.
    pub specific: Vec<Json>,
    /// Variables left for later commands, in the order of settings.
    #[serde(skip)]
    pub exports: Vec<Exports>,
    /// Every hook that was evaluated.
    pub runs: Vec<HookRun>,
}

/// A firing: what is known now, and the hooks nobody waited for.
pub struct Firing {
    /// What is known now.
    pub fired: Fired,
    /// Whoever fires owns these and polls them; dropped, they are killed.
    pub background: Vec<BoxFuture<'static, Late>>,
}

/// What a hook in the background had to say when it was done. Its decisions count for nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Late {
    /// The event it was told of.
    pub event: HookEvent,
    /// The call that was about.
    pub call: Option<CallId>,
    /// What matchers were tried on.
    pub about: Option<String>,
    /// How it went.
    pub run: HookRun,
    /// For the model, with the next prompt.
    pub additional_context: Vec<String>,
    /// For the user.
    pub system_messages: Vec<String>,
    /// Why the model must be woken.
    pub wakes: Option<String>,
}

/// Whether the hooks of one place can be read; what is left out of them is named.
pub fn check(scope: &Scope) -> Result<Vec<String>, String> {
    config::read(std::slice::from_ref(scope)).map(|read| read.notices)
}

/// What a hook adds, as the model reads it: marked as ours, with no mark of its own.
pub fn reminder(text: &str) -> String {
    format!("<system-reminder>\n{}\n</system-reminder>", plain(text))
}

/// What a hook says, with nothing in it that only we may write.
pub fn plain(text: &str) -> String {
    clean(text, Sink::ModelContext).text.into_owned()
}

impl Hooks {
    /// No hooks at all.
    pub fn none(surroundings: Surroundings) -> Self {
        let around = Arc::new(Around { surroundings, limits: Limits::default() });
        Self { all: Vec::new(), around, hears_host: true, notices: Vec::new() }
    }

    /// The hooks of these scopes, the strongest first. The error names the key.
    pub fn new(scopes: &[Scope], surroundings: Surroundings) -> Result<Self, String> {
        let read = config::read(scopes)?;
        let around = Arc::new(Around { surroundings, limits: read.limits });
        Ok(Self { all: read.hooks, around, hears_host: read.hears_host, notices: read.notices })
    }

    /// Whether callbacks of a host count; the user or the machine's owner may have switched them off.
    pub fn hears_host(&self) -> bool {
        self.hears_host
    }

    /// Replaces the host's hooks, where they count.
    pub fn set_host(&mut self, hooks: Vec<HostHook>) {
        self.all.retain(|hook| hook.info.source != HookSource::Host);
        let heard = hooks.into_iter().filter(|_| self.hears_host);
        self.all.extend(heard.map(|hook| Arc::new(config::of_host(hook))));
    }

    /// Hooks that were to run once, and did so in an earlier configuration, have run here too.
    pub fn inherit(&self, earlier: &Self) {
        let spent = earlier.all.iter().filter(|hook| hook.spent.load(Ordering::Relaxed));
        for old in spent {
            let same = self.all.iter().filter(|new| new.info == old.info && new.does_the_same(old));
            same.for_each(|new| new.spent.store(true, Ordering::Relaxed));
        }
    }

    /// Every hook in force, in order.
    pub fn list(&self) -> Vec<HookInfo> {
        self.all.iter().map(|hook| hook.info.clone()).collect()
    }

    /// For the log, when hooks come into force.
    pub fn record(&self) -> HookRecord {
        HookRecord::Configured { hooks: self.list() }
    }

    /// Whether anything would listen. Where nothing does, firing costs nothing and leaves no record.
    pub fn listen_to(&self, event: HookEvent) -> bool {
        self.all.iter().any(|hook| hook.info.event == event)
    }

    /// The files that hooks on changed files name themselves: those of these names in the folder.
    pub(crate) fn watched_names(&self) -> impl Iterator<Item = &str> {
        let names = self.all.iter().filter(|hook| hook.info.event == HookEvent::FileChanged);
        let names = names.flat_map(|hook| hook.info.matcher.split('|'));
        // A pattern names no file.
        names
            .map(str::trim)
            .filter(|name| !name.is_empty() && !name.contains(|c| "*?+()[]{}^$\\/".contains(c)))
    }

    /// How long those of a session's end may take together.
    pub fn time_at_end(&self) -> Duration {
        let at_end = self.all.iter().filter(|hook| hook.info.event == HookEvent::SessionEnd);
        at_end
            .map(|hook| config::limit(hook, &self.all, self.around.surroundings.at_end))
            .max()
            .unwrap_or_default()
    }

    /// The hooks that would run.
    pub fn matching(&self, occasion: &Occasion) -> Vec<HookInfo> {
        self.fitting(occasion).into_iter().map(|place| self.all[place].info.clone()).collect()
    }

    /// Lets all matching hooks speak, side by side, and merges what they say. A call whose input one
    /// of them replaces is shown to the others again, so that none has approved what it did not see.
    /// Dropping the future kills what runs.
    pub async fn fire(&self, common: &Common, occasion: &Occasion) -> Firing {
        let mut occasion = occasion.clone();
        let mut asked = self.claimed(&occasion);
        let background = self.start_background(&mut asked, common, &occasion);
        let mut runs: Vec<HookRun> = background.iter().map(|(run, _)| run.clone()).collect();
        let background = background.into_iter().map(|(_, late)| late).collect();
        let mut given: Vec<Given> = Vec::new();
        let mut rewriters: Vec<usize> = Vec::new();
        let (mut changed, mut exports) = (None, Vec::new());
        while !asked.is_empty() {
            let heard = self.ask(&asked, common, &occasion).await;
            given.retain(|earlier| !asked.contains(&earlier.place));
            for (place, ran) in heard {
                exports.extend(ran.exports);
                given.push(Given { place, hook: ran.run.hook.clone(), answer: ran.answer });
                runs.push(ran.run);
            }
            given.sort_by_key(|given| given.place);
            let Some((rewriter, input)) = next_input(&given, &rewriters, &occasion) else { break };
            // Nobody else has seen this input, so no earlier yes is about it.
            given
                .iter_mut()
                .filter(|given| given.place != rewriter)
                .for_each(|given| withdraw_yes(&mut given.answer.word));
            rewriters.push(rewriter);
            changed = Some(input.clone());
            occasion.details.insert("tool_input".to_owned(), input);
            occasion.intent = None;
            asked = self.claimed(&occasion);
            asked.retain(|place| !rewriters.contains(place) && !self.all[*place].info.background);
        }
        let mut fired = merge::merge(occasion.event, given);
        if occasion.event == HookEvent::PreToolUse {
            let is_denied = matches!(fired.verdict, Some(Verdict::Deny { .. }));
            fired.updated_input = changed.filter(|_| !is_denied);
        }
        (fired.runs, fired.exports) = (runs, exports);
        Firing { fired, background }
    }

    /// The hooks that fit and will now run; those that run once are used up.
    fn claimed(&self, occasion: &Occasion) -> Vec<usize> {
        let mut places = self.fitting(occasion);
        places.retain(|place| {
            let hook = &self.all[*place];
            !hook.once || !hook.spent.swap(true, Ordering::Relaxed)
        });
        places
    }

    /// The places of hooks that fit, each thing to do once.
    fn fitting(&self, occasion: &Occasion) -> Vec<usize> {
        let about = occasion.about();
        let around = &self.around.surroundings;
        // Hosts do not expect to be called before they were told that the session began.
        let is_startup = occasion.event == HookEvent::SessionStart && about.as_deref() == Some("startup");
        let fits = |hook: &Hook| {
            hook.info.event == occasion.event
                && !(is_startup && hook.info.source == HookSource::Host)
                && !hook.spent.load(Ordering::Relaxed)
                && hook.matcher.fits(about.as_deref())
                && hook
                    .condition
                    .as_ref()
                    .is_none_or(|rule| matcher::condition_fits(rule, occasion, &around.project, &around.home))
        };
        let mut places: Vec<usize> = Vec::new();
        for (place, hook) in self.all.iter().enumerate().filter(|(_, hook)| fits(hook)) {
            if !places.iter().any(|earlier| self.all[*earlier].repeats(hook)) {
                places.push(place);
            }
        }
        places
    }

    async fn ask(&self, places: &[usize], common: &Common, occasion: &Occasion) -> Vec<(usize, Ran)> {
        let input = Arc::new(occasion.input(common));
        let text: Arc<str> = input.to_string().into();
        let running = places.iter().map(|place| {
            let job = self.job(*place, common, occasion, &input, &text);
            async move { (*place, job.run().await) }
        });
        join_all(running).await
    }

    /// Takes the hooks nobody waits for out of those to ask, and makes them ready to be polled.
    fn start_background(
        &self,
        asked: &mut Vec<usize>,
        common: &Common,
        occasion: &Occasion,
    ) -> Vec<(HookRun, BoxFuture<'static, Late>)> {
        let (late, now): (Vec<usize>, Vec<usize>) =
            asked.iter().partition(|place| self.all[**place].info.background);
        *asked = now;
        if late.is_empty() {
            return Vec::new();
        }
        let input = Arc::new(occasion.input(common));
        let text: Arc<str> = input.to_string().into();
        let start = |place: usize| -> (HookRun, BoxFuture<'static, Late>) {
            let job = self.job(place, common, occasion, &input, &text);
            let info = &self.all[place].info;
            let run = HookRun {
                hook: info.hook.clone(),
                source: info.source.clone(),
                end: HookEnd::Background,
                duration_ms: 0,
                word: HookWord::Nothing,
                problem: None,
                spent: None,
            };
            (run, Box::pin(job.run_late()))
        };
        late.into_iter().map(start).collect()
    }

    fn job(
        &self,
        place: usize,
        common: &Common,
        occasion: &Occasion,
        input: &Arc<Json>,
        text: &Arc<str>,
    ) -> Job {
        let hook = Arc::clone(&self.all[place]);
        Job {
            limit: config::limit(&hook, &self.all, self.around.surroundings.at_end),
            hook,
            around: Arc::clone(&self.around),
            cwd: common.cwd.clone(),
            input: Arc::clone(input),
            text: Arc::clone(text),
            call: occasion.call(),
            about: occasion.about(),
        }
    }

    /// The firing as the log keeps it when somebody else decided before the hooks could.
    pub fn outrun(&self, occasion: &Occasion, call: CallId) -> HookRecord {
        let runs = self.matching(occasion).into_iter().map(|info| HookRun {
            hook: info.hook,
            source: info.source,
            end: HookEnd::Withdrawn,
            duration_ms: 0,
            word: HookWord::Nothing,
            problem: None,
            spent: None,
        });
        Fired { runs: runs.collect(), ..Fired::default() }.record(occasion, Some(call))
    }
}

/// The first new input, unless the call is denied anyway.
fn next_input(given: &[Given], rewriters: &[usize], occasion: &Occasion) -> Option<(usize, Json)> {
    let is_denied = given.iter().any(|given| matches!(given.answer.word, Word::Deny(_)));
    if occasion.event != HookEvent::PreToolUse || is_denied {
        return None;
    }
    let current = occasion.details.get("tool_input");
    given.iter().filter(|given| !rewriters.contains(&given.place)).find_map(|given| {
        let input = given.answer.updated_input.clone().filter(|input| Some(input) != current)?;
        Some((given.place, input))
    })
}

fn withdraw_yes(word: &mut Word) {
    if matches!(word, Word::Allow(_)) {
        *word = Word::Nothing;
    }
}

impl Fired {
    /// For the log. It names every hook that was evaluated, and is written even when none was.
    pub fn record(&self, occasion: &Occasion, call: Option<CallId>) -> HookRecord {
        HookRecord::Fired(HookFiring {
            event: occasion.event,
            call: call.or_else(|| occasion.call()),
            about: occasion.about(),
            runs: self.runs.clone(),
            verdict: self.verdict.clone(),
            block: self.block.clone(),
            changed_input: self.updated_input.is_some(),
            stop: self.stop.clone(),
            late: false,
        })
    }
}

impl Late {
    /// For the log.
    pub fn record(&self) -> HookRecord {
        HookRecord::Fired(HookFiring {
            event: self.event,
            call: self.call.clone(),
            about: self.about.clone(),
            runs: vec![self.run.clone()],
            verdict: None,
            block: None,
            changed_input: false,
            stop: None,
            late: true,
        })
    }
}
