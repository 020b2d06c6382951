//! Captures what stands in the project before and after something may change it, and logs the
//! difference. It only looks; what it finds is in the store before the caller goes on.

use super::{
    CheckpointError, Place,
    credit::{self, Owner},
    index::{Change, Index},
    lock,
    observe::{Observer, Scope, Trouble, now},
    operation::{self, Draft, Kind, Logged, OperationId, Progress},
    standing::{Omission, Standing},
    store::Store,
};
use ostler_proto::{AgentId, CallId, EntryId, SessionId};
use rusqlite::Connection;
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

/// Everything one process has open.
pub(super) struct Core {
    pub(super) store: Store,
    pub(super) observer: Observer,
    /// Sessions of this process.
    pub(super) live: HashMap<SessionId, lock::Lock>,
    /// Calls of this process, each for as long as somebody holds on to it.
    pub(super) calls: Vec<(Arc<Call>, Weak<()>)>,
    /// Whether the last transaction came to its end, one way or the other.
    pub(super) is_settled: bool,
}

/// A call that has begun.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: OperationId,
    pub(super) scope: Vec<u8>,
}

/// A call that somebody will report on.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) call: Arc<Call>,
    hold: Arc<()>,
}

/// A prompt that is still to be logged.
#[derive(Debug, Clone)]
pub(super) struct Prompted {
    pub(super) session: SessionId,
    pub(super) prompt: EntryId,
    pub(super) title: String,
}

/// Whose call it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The session.
    pub session: SessionId,
    /// The agent, if it is one below the main one.
    pub agent: Option<AgentId>,
    /// The call.
    pub call: CallId,
    /// A line for people, such as the intent's title.
    pub title: String,
}

/// What a call changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The call's entry in the log.
    pub operation: OperationId,
    /// What it changed, by path.
    pub changes: Vec<Change>,
}

impl Recorded {
    /// What it changed that a rewind will not bring back.
    pub fn uncovered(&self) -> impl Iterator<Item = (&Path, Omission)> {
        self.changes.iter().filter_map(|change| match (&change.before, &change.after) {
            (Standing::Uncovered { reason, .. }, _) | (_, Standing::Uncovered { reason, .. }) => {
                Some((change.path.as_path(), *reason))
            }
            _ => None,
        })
    }
}

impl Core {
    /// Opens a store; what others left unfinished stays so.
    pub(super) fn open(place: &Place) -> Result<Self, CheckpointError> {
        let store = Store::open(&place.folder, &place.limits)?;
        let observer = Observer {
            index: Index::default(),
            limits: place.limits.clone(),
            excluded: place.excluded.clone(),
            prunes: store.fact("prunes")?,
            urgency: Arc::default(),
        };
        Ok(Self { store, observer, live: HashMap::new(), calls: Vec::new(), is_settled: true })
    }

    /// Logs prompts; each is a checkpoint.
    pub(super) fn log_prompts(&mut self, prompts: &[Prompted]) -> Result<(), CheckpointError> {
        for prompted in prompts {
            self.claim(&prompted.session)?;
        }
        let now = now();
        let log = |connection: &Connection| {
            prompts.iter().try_for_each(|prompted| {
                let draft = Draft {
                    kind: Kind::Prompt,
                    progress: Progress::Done,
                    session: Some(prompted.session.clone()),
                    prompt: Some(prompted.prompt.clone()),
                    call: None,
                    agent: None,
                    title: Some(prompted.title.clone()),
                    scope: Vec::new(),
                };
                operation::append(connection, &draft, now).map(drop)
            })
        };
        let transaction = self.store.write()?;
        log(&transaction).and_then(|()| transaction.commit()).map_err(|error| self.store.failed(error))
    }

    /// Whether anything of a session is in the log.
    pub(super) fn has_logged(&self, session: &SessionId) -> bool {
        // In doubt it is asked for again by whoever logs.
        operation::has_any(self.store.reader(), session).unwrap_or(true)
    }

    /// Logs what calls have changed that nobody will report on any more.
    pub(super) fn close_dropped(&mut self) -> Result<(), CheckpointError> {
        let is_dropped = |(_, held): &mut (Arc<Call>, Weak<()>)| held.strong_count() == 0;
        let dropped: Vec<_> = self.calls.extract_if(.., is_dropped).collect();
        for (at, (call, _)) in dropped.iter().enumerate() {
            if let Err(error) = self.after(call.id, &call.scope, Progress::CutOff) {
                // They are still to be closed, by whoever comes next.
                self.calls.extend_from_slice(&dropped[at..]);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Says that a session lives here.
    fn claim(&mut self, session: &SessionId) -> Result<(), CheckpointError> {
        if !self.live.contains_key(session)
            && let Some(lock) = lock::live(&self.store.folder, session)?
        {
            // Its process may have died just now, so that it still seemed to live when the store was opened.
            self.take_over(session)?;
            self.live.insert(session.clone(), lock);
        }
        Ok(())
    }

    /// Takes trees in without an operation, so that the first one is quick.
    pub(super) fn warm(&mut self, roots: &[PathBuf]) -> Result<(), CheckpointError> {
        let _lock = lock::looking(&self.store.folder)?;
        let scope = Scope::split(roots);
        self.transact(|observer, store| observer.observe(store, &scope).map(drop))
    }

    /// Captures what a call may touch and opens its entry in the log.
    pub(super) fn before(
        &mut self,
        kind: Kind,
        caller: Caller,
        prompt: Option<EntryId>,
        paths: &[PathBuf],
    ) -> Result<Held, CheckpointError> {
        self.claim(&caller.session)?;
        let _lock = lock::looking(&self.store.folder)?;
        let scope = Scope::split(paths);
        let draft = Draft {
            kind,
            progress: Progress::Open,
            session: Some(caller.session),
            prompt,
            call: Some(caller.call),
            agent: caller.agent,
            title: Some(caller.title),
            scope: scope.encode(),
        };
        let id = self.transact(|observer, store| {
            let standings = observer.observe(store, &scope)?;
            if let Some(path) = unreadable(&scope, &standings) {
                return Err(CheckpointError::Unreadable(path.to_owned()).into());
            }
            let id = operation::append(store.reader(), &draft, now())?;
            for (path, before) in standings.iter().filter(|(path, _)| scope.singles.contains(path)) {
                operation::add_before(store.reader(), id, path, before)?;
            }
            Ok(id)
        })?;
        let held = Held { call: Arc::new(Call { id, scope: draft.scope }), hold: Arc::new(()) };
        self.calls.push((Arc::clone(&held.call), Arc::downgrade(&held.hold)));
        Ok(held)
    }

    /// Looks again after a call and logs what it changed.
    pub(super) fn after(
        &mut self,
        id: OperationId,
        scope: &[u8],
        progress: Progress,
    ) -> Result<Recorded, CheckpointError> {
        let _lock = lock::looking(&self.store.folder)?;
        let scope = Scope::decode(scope);
        self.transact(|observer, store| {
            let connection = store.reader();
            let survey = observer.survey(store, &scope)?;
            for logged in operation::changes_of(connection, id)? {
                if scope.names(&logged.path) {
                    // What was captured for this call itself is what stood there before it.
                    let after = survey.standings.get(&logged.path).cloned().unwrap_or(Standing::Absent);
                    let change = Change { path: logged.path, before: logged.before, after };
                    operation::extend_change(connection, id, &change)?;
                }
            }
            let mut changes = survey.difference.changes;
            let begun = credit::begun(connection)?;
            credit::credit(connection, &begun, &changes)?;
            operation::mark(connection, id, progress)?;
            // What an older call of the session has in the log instead, nobody can tell from what this one did.
            let session = operation::find(connection, id)?.and_then(|operation| operation.session);
            let is_shared = |change: &Change| match (credit::owner(&begun, &change.path), &session) {
                (Owner::Open(owners), Some(session)) => {
                    owners.get(session).is_some_and(|oldest| *oldest != id)
                }
                (Owner::Open(_) | Owner::Named | Owner::Others, _) => false,
            };
            changes.retain(is_shared);
            let own = operation::changes_of(connection, id)?.into_iter();
            let own = own.filter_map(|Logged { path, before, after, .. }| {
                Some((path.clone(), Change { path, before, after: after? }))
            });
            let seen = changes.into_iter().map(|change| (change.path.clone(), change));
            let all: BTreeMap<PathBuf, Change> = seen.chain(own).collect();
            Ok(Recorded { operation: id, changes: all.into_values().collect() })
        })
    }

    /// Runs one transaction. If it fails, what the index took in meanwhile is read again.
    pub(super) fn transact<T>(
        &mut self,
        work: impl FnOnce(&mut Observer, &Store) -> Result<T, Trouble>,
    ) -> Result<T, CheckpointError> {
        if !self.is_settled {
            // A panic cut it off: the index may hold what the store does not.
            self.observer.index = Index::default();
        }
        let transaction = self.store.write()?;
        self.is_settled = false;
        let done = work(&mut self.observer, &self.store)
            .and_then(|value| transaction.commit().map(|()| value).map_err(Trouble::from));
        self.is_settled = true;
        done.map_err(|trouble| {
            self.observer.index = Index::default();
            match trouble {
                Trouble::Database(error) => self.store.failed(error),
                Trouble::Other(error) => error,
            }
        })
    }
}

/// A single path whose content is not in the store although nothing says that it is left out on purpose.
fn unreadable<'a>(scope: &'a Scope, standings: &BTreeMap<PathBuf, Standing>) -> Option<&'a Path> {
    let is_unreadable = |path: &&PathBuf| {
        standings.get(*path).is_some_and(|standing| {
            matches!(standing, Standing::Uncovered { reason: Omission::Unreadable, .. })
        })
    };
    scope.singles.iter().find(is_unreadable).map(PathBuf::as_path)
}
