//! Commands that run beside the conversation: one table a session, each job with its output and the means
//! to stop it. Every job dies with the table.
#![expect(clippy::disallowed_methods, reason = "a job is a task that this table owns and ends")]

use super::{Exit, Finished, HostError, Recording, Room};
use crate::Artifacts;
use futures_util::{FutureExt, future::BoxFuture};
use ostler_proto::{CallId, Job, JobId, JobState};
use std::{
    collections::VecDeque,
    panic::AssertUnwindSafe,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::{sync::Notify, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

/// How many jobs may run at once.
const MOST_RUNNING: usize = 16;
/// How many are remembered after their end.
const MOST_ENDED: usize = 64;

/// A command under way.
pub type Running = BoxFuture<'static, Result<Finished, HostError>>;

/// The jobs of a session, and where commands keep their output.
pub struct Jobs {
    table: Arc<Table>,
    artifacts: Option<Artifacts>,
    room: Room,
}

/// What is known of a command that becomes a job.
#[derive(Debug)]
pub struct Start {
    /// From [`Jobs::recording`].
    pub id: JobId,
    /// The call that started it.
    pub call: CallId,
    /// The command line.
    pub command: String,
    /// What it does, in a few words.
    pub description: String,
    /// Its output.
    pub output: Arc<Recording>,
    /// Ends it.
    pub stop: CancellationToken,
    /// When it began.
    pub began: Instant,
}

/// What is new about a job since it was last asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// The job.
    pub job: Job,
    /// What it has printed.
    pub text: String,
    /// How many bytes before that are no longer in memory.
    pub gone: u64,
}

#[derive(Default)]
struct Table {
    entries: Mutex<Vec<Entry>>,
    changes: Mutex<VecDeque<Job>>,
    changed: Notify,
}

struct Entry {
    start: Start,
    file: Option<PathBuf>,
    state: JobState,
    ran_for_ms: Option<u64>,
    /// How much of its output was read.
    read_up_to: u64,
    /// Whether the model knows that it ended.
    heard: bool,
    over: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Jobs {
    /// A table without jobs. Long output is kept among the artifacts, where there are any.
    pub fn new(artifacts: Option<Artifacts>) -> Self {
        Self::with_room(artifacts, Room::default())
    }

    /// The same with another bound on what is kept of one command.
    pub fn with_room(artifacts: Option<Artifacts>, room: Room) -> Self {
        Self { table: Arc::default(), artifacts, room }
    }

    /// A name for a command, and where its output goes.
    pub fn recording(&self) -> (JobId, Arc<Recording>) {
        let id = format!("b{:08x}", fastrand::u32(..));
        let file = self.artifacts.as_ref().map(|artifacts| artifacts.folder().join(format!("bash-{id}.txt")));
        (JobId(id), Recording::text(file, self.room))
    }

    /// Where texts too long to show are kept.
    pub fn artifacts(&self) -> Option<&Artifacts> {
        self.artifacts.as_ref()
    }

    /// Lets a command run on as a job. With too many jobs already, it is handed back.
    pub fn adopt(&self, start: Start, running: Running) -> Result<Job, Running> {
        let mut entries = self.table.entries();
        if entries.iter().filter(|entry| entry.state == JobState::Running).count() >= MOST_RUNNING {
            return Err(running);
        }
        forget_oldest(&mut entries);
        let (id, table) = (start.id.clone(), Arc::downgrade(&self.table));
        let output = Arc::clone(&start.output);
        let task = tokio::spawn(async move {
            let state = match AssertUnwindSafe(running).catch_unwind().await {
                Ok(Ok(Finished { exit: Exit::Code(code), .. })) => JobState::Exited(code),
                Ok(Ok(Finished { exit: Exit::Stopped, .. })) => JobState::Stopped,
                Ok(Err(error)) => {
                    output.add(&format!("{error}\n"));
                    JobState::Lost
                }
                Err(_) => JobState::Lost,
            };
            if let Some(table) = Weak::upgrade(&table) {
                table.ended(&id, state);
            }
        });
        let entry = Entry {
            file: start.output.want_file().map(PathBuf::from),
            start,
            state: JobState::Running,
            ran_for_ms: None,
            read_up_to: 0,
            heard: false,
            over: CancellationToken::new(),
            task: Some(task),
        };
        let job = entry.job();
        entries.push(entry);
        self.table.tell(job.clone());
        Ok(job)
    }

    /// All jobs that are remembered, oldest first.
    pub fn list(&self) -> Vec<Job> {
        self.table.entries().iter().map(Entry::job).collect()
    }

    /// What a job printed since this was last asked; it counts as read. Of its end the model knows then.
    pub fn news(&self, id: &JobId) -> Option<News> {
        self.read(id, str::len)
    }

    /// The same without a last line that is still being printed.
    pub fn whole_lines(&self, id: &JobId) -> Option<News> {
        self.read(id, |text| text.rfind('\n').map_or(0, |end| end + 1))
    }

    fn read(&self, id: &JobId, taken: impl Fn(&str) -> usize) -> Option<News> {
        let mut entries = self.table.entries();
        let entry = entries.iter_mut().find(|entry| entry.start.id == *id)?;
        let (mut text, gone, end) = entry.start.output.since(entry.read_up_to);
        if entry.state == JobState::Running {
            text.truncate(taken(&text));
        }
        entry.read_up_to =
            if entry.state == JobState::Running { entry.read_up_to + gone + text.len() as u64 } else { end };
        entry.heard |= entry.state.is_over();
        Some(News { job: entry.job(), text, gone })
    }

    /// Waits until a job is over; returns at once when there is none.
    pub async fn wait(&self, id: &JobId) {
        let over =
            self.table.entries().iter().find(|entry| entry.start.id == *id).map(|entry| entry.over.clone());
        if let Some(over) = over {
            over.cancelled().await;
        }
    }

    /// Stops a job, its whole process group, and waits for its end.
    pub async fn stop(&self, id: &JobId) {
        self.tell_to_stop(id);
        self.wait(id).await;
    }

    /// The model knows of the end of a job.
    pub fn mark_heard(&self, id: &JobId) {
        if let Some(entry) = self.table.entries().iter_mut().find(|entry| entry.start.id == *id) {
            entry.heard = true;
        }
    }

    /// Tells a job to stop. Unknown ones are ignored.
    pub fn tell_to_stop(&self, id: &JobId) {
        if let Some(entry) = self.table.entries().iter().find(|entry| entry.start.id == *id) {
            entry.start.stop.cancel();
        }
    }

    /// Stops every job, waits until all are over, and says which ones ran.
    pub async fn stop_all(&self) -> Vec<Job> {
        let running = self.list().into_iter().filter(|job| job.state == JobState::Running);
        let running: Vec<JobId> = running.map(|job| job.id).collect();
        for id in &running {
            self.tell_to_stop(id);
        }
        for id in &running {
            self.wait(id).await;
        }
        self.list().into_iter().filter(|job| running.contains(&job.id)).collect()
    }

    /// The next job that began or ended. Safe to drop and call again.
    pub async fn next_change(&self) -> Job {
        loop {
            let changed = self.table.changed.notified();
            if let Some(job) = self.table.changes().pop_front() {
                return job;
            }
            changed.await;
        }
    }

    /// The next change that has already happened.
    pub fn pending_change(&self) -> Option<Job> {
        self.table.changes().pop_front()
    }

    /// Whether a job ended that the model does not know of.
    pub fn has_unheard(&self) -> bool {
        self.table.entries().iter().any(Entry::is_unheard)
    }

    /// The jobs that ended and that the model does not know of; from now on it does.
    pub fn take_unheard(&self) -> Vec<Job> {
        let mut entries = self.table.entries();
        let unheard = entries.iter_mut().filter(|entry| entry.is_unheard());
        unheard
            .map(|entry| {
                entry.heard = true;
                entry.job()
            })
            .collect()
    }
}

impl Table {
    fn ended(&self, id: &JobId, state: JobState) {
        let mut entries = self.entries();
        let Some(entry) = entries.iter_mut().find(|entry| entry.start.id == *id) else { return };
        entry.ran_for_ms = Some(millis_since(entry.start.began));
        entry.state = state;
        // It is this very task that ends now; aborting it later would be in vain.
        entry.task = None;
        let job = entry.job();
        entry.over.cancel();
        self.tell(job);
    }

    fn tell(&self, job: Job) {
        self.changes().push_back(job);
        self.changed.notify_one();
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        // Every change is complete before the lock is given back.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changes(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn job(&self) -> Job {
        Job {
            id: self.start.id.clone(),
            call: self.start.call.clone(),
            command: self.start.command.clone(),
            description: self.start.description.clone(),
            state: self.state,
            ran_for_ms: self.ran_for_ms.unwrap_or_else(|| millis_since(self.start.began)),
            output: self.file.clone(),
        }
    }

    fn is_unheard(&self) -> bool {
        self.state.is_over() && !self.heard
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

fn forget_oldest(entries: &mut Vec<Entry>) {
    let ended = entries.iter().filter(|entry| entry.state.is_over()).count();
    if ended >= MOST_ENDED
        && let Some(oldest) = entries.iter().position(|entry| entry.state.is_over())
    {
        entries.remove(oldest);
    }
}

fn millis_since(instant: Instant) -> u64 {
    u64::try_from(instant.elapsed().as_millis()).unwrap_or(u64::MAX)
}
