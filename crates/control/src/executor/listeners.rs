//! The hooks of one session: fires them with what is known of it, and owns those nobody waits for.
//! It hands on what they say; what is made of it is for whoever fired.

use crate::hooks::{Common, Exchange, Fired, Hooks, Occasion, Scope, Surroundings, Told};
use ostler_proto::{CallId, EntryId, HookEvent, HookRecord, HostHook, Mode, SessionId};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;

/// How long hooks that were told something in passing may go on when the session ends.
const GRACE: Duration = Duration::from_millis(1_500);

/// What hooks are told of the session, whenever they fire.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Its id.
    pub session: SessionId,
    /// Its transcript, if it is written.
    pub transcript: Option<PathBuf>,
    /// How hard the model tries.
    pub effort: Option<String>,
}

/// The hooks in force in a session.
pub struct SessionHooks {
    hooks: RwLock<Arc<Hooks>>,
    facts: Mutex<Facts>,
    exchange: Arc<Exchange>,
    /// Callbacks the host lends; they stay when settings change.
    host: Mutex<Vec<HostHook>>,
    /// The prompt of the turn.
    prompt: Mutex<Option<EntryId>>,
    /// Variables hooks left for later commands. Their values are nobody's to see.
    exported: Mutex<BTreeMap<String, String>>,
    env: Vec<(String, String)>,
    /// Files that hooks asked to be told of.
    watched: Mutex<Vec<String>>,
    /// Whether somebody watches them.
    is_watching: AtomicBool,
    /// Hooks in the background; those that still run at the end are killed.
    background: Mutex<JoinSet<()>>,
    /// Hooks that were told something in passing; the end waits for them a little.
    aside: Mutex<JoinSet<()>>,
}

impl SessionHooks {
    /// The hooks of these scopes, for this session. The error names the key.
    pub fn new(scopes: &[Scope], surroundings: Surroundings, facts: Facts) -> Result<Self, String> {
        let (exchange, env) = (Arc::clone(&surroundings.exchange), surroundings.env.clone());
        let hooks = Hooks::new(scopes, surroundings)?;
        Ok(Self {
            hooks: RwLock::new(Arc::new(hooks)),
            facts: Mutex::new(facts),
            exchange,
            host: Mutex::default(),
            prompt: Mutex::default(),
            exported: Mutex::default(),
            env,
            watched: Mutex::default(),
            is_watching: AtomicBool::new(false),
            background: Mutex::default(),
            aside: Mutex::default(),
        })
    }

    /// The process goes on with another session.
    pub(super) fn enter(&self, session: SessionId, transcript: Option<PathBuf>) {
        let mut facts = lock(&self.facts);
        (facts.session, facts.transcript) = (session, transcript);
    }

    /// The hooks in force now.
    pub fn current(&self) -> Arc<Hooks> {
        Arc::clone(&self.hooks.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Where hooks tell what nobody waits for.
    pub fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// Puts the hooks of changed settings in force; a host's stay. Gives what the log must keep of it, if
    /// anything is different.
    pub fn renew(
        &self,
        scopes: &[Scope],
        mut surroundings: Surroundings,
    ) -> Result<Option<HookRecord>, String> {
        surroundings.exchange = Arc::clone(&self.exchange);
        let mut hooks = Hooks::new(scopes, surroundings)?;
        hooks.set_host(lock(&self.host).clone());
        hooks.inherit(&self.current());
        Ok(self.replace(hooks))
    }

    /// Puts callbacks of the host in force, in the place of its earlier ones.
    pub fn set_host(&self, callbacks: Vec<HostHook>) -> Option<HookRecord> {
        let mut hooks = Hooks::clone(&self.current());
        hooks.set_host(callbacks.clone());
        *lock(&self.host) = callbacks;
        self.replace(hooks)
    }

    fn replace(&self, hooks: Hooks) -> Option<HookRecord> {
        let mut current = self.hooks.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = current.list() != hooks.list();
        *current = Arc::new(hooks);
        is_new.then(|| current.record())
    }

    /// A turn begins with this prompt.
    pub fn set_prompt(&self, prompt: EntryId) {
        *lock(&self.prompt) = Some(prompt);
    }

    /// Variables that hooks left for commands.
    pub fn exported(&self) -> Vec<(String, String)> {
        lock(&self.exported).iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Fires, and says what the log must keep of it.
    pub async fn fire(
        &self,
        (cwd, mode): (PathBuf, Mode),
        occasion: &Occasion,
        call: Option<CallId>,
    ) -> (Fired, HookRecord) {
        let hooks = self.current();
        let mut firing = hooks.fire(&self.common(cwd, mode), occasion).await;
        // At the end there is no later: those nobody waits for get the time all have there.
        let is_end = occasion.event == HookEvent::SessionEnd;
        let beside = if is_end { &self.aside } else { &self.background };
        for late in firing.background {
            let exchange = Arc::clone(&self.exchange);
            let told = async move { exchange.tell(Told::Late(Box::new(late.await))) };
            lock(beside).spawn(told);
        }
        if let Some(paths) = &firing.fired.extras.watch {
            lock(&self.watched).clone_from(paths);
        }
        for exports in std::mem::take(&mut firing.fired.exports) {
            let odd = exports.apply(&mut lock(&self.exported), &self.env);
            let message = |line| {
                format!(
                    "a hook on {} left variables whose line {line} is no plain assignment",
                    occasion.event
                )
            };
            firing.fired.system_messages.extend(odd.into_iter().map(message));
        }
        let record = firing.fired.record(occasion, call);
        (firing.fired, record)
    }

    /// Fires without waiting; what comes of it is told later.
    pub fn fire_aside(&self, (cwd, mode): (PathBuf, Mode), occasion: Occasion) {
        let (hooks, exchange) = (self.current(), Arc::clone(&self.exchange));
        if !hooks.listen_to(occasion.event) {
            return;
        }
        let common = self.common(cwd, mode);
        lock(&self.aside).spawn(async move {
            // Those nobody waits for at all are waited for here: this is their background.
            let mut firing = hooks.fire(&common, &occasion).await;
            let record = firing.fired.record(&occasion, None);
            let messages = std::mem::take(&mut firing.fired.system_messages);
            exchange.tell(Told::Fired { record, messages });
            for late in firing.background {
                exchange.tell(Told::Late(Box::new(late.await)));
            }
        });
    }

    /// Waits, not for long, for hooks that were told something in passing. What is not done by then is killed.
    pub async fn see_off(&self) {
        let mut aside = std::mem::take(&mut *lock(&self.aside));
        let limit = self.grace();
        let all = async { while aside.join_next().await.is_some() {} };
        if tokio::time::timeout(limit, all).await.is_err() {
            tracing::warn!("hooks that still run at the end of the session are killed");
        }
    }

    /// How long the end of the session may wait for hooks in all.
    pub fn time_at_end(&self) -> Duration {
        self.current().time_at_end() + self.grace()
    }

    /// Hooks on the end that nobody waits for are among those seen off, and keep the time they were given.
    fn grace(&self) -> Duration {
        GRACE.max(self.current().time_at_end())
    }

    /// Whether anything would listen.
    pub fn listen_to(&self, event: HookEvent) -> bool {
        self.current().listen_to(event)
    }

    /// Whether somebody must wait at this event: for those who listen, or at the end for those who still speak.
    pub fn is_owed(&self, event: HookEvent) -> bool {
        self.listen_to(event) || (event == HookEvent::SessionEnd && !lock(&self.aside).is_empty())
    }

    /// Whether files must be watched from now on: a hook wants it and nobody does yet.
    pub(super) fn begin_watching(&self) -> bool {
        self.listen_to(HookEvent::FileChanged) && !self.is_watching.swap(true, Ordering::Relaxed)
    }

    /// Files whose changes hooks want to know of, for a session that stands here.
    pub(super) fn watched(&self, cwd: &Path) -> BTreeSet<PathBuf> {
        let hooks = self.current();
        if !hooks.listen_to(HookEvent::FileChanged) {
            return BTreeSet::new();
        }
        let named = lock(&self.watched).iter().map(|path| cwd.join(path)).collect::<Vec<_>>();
        hooks.watched_names().map(|name| cwd.join(name)).chain(named).collect()
    }

    fn common(&self, cwd: PathBuf, permission_mode: Mode) -> Common {
        let facts = lock(&self.facts).clone();
        Common {
            session_id: facts.session,
            transcript_path: facts.transcript,
            cwd,
            permission_mode,
            prompt_id: lock(&self.prompt).as_ref().map(|prompt| prompt.as_str().to_owned()),
            effort: facts.effort,
            agent: None,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
