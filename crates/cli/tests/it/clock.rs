//! Waiting, on a clock that the test owns: how long between attempts, how soon an interrupt is heard, when
//! the time for the work is over. Nothing here waits in earnest.

use futures_util::{StreamExt as _, stream};
use ostler_control::{
    Executor, Policy, Setup,
    executor::{Attendance, DEFAULT_PARALLEL},
    memory::Memory,
};
use ostler_engine::{
    AutoCompact, Handle, Limits, Origin, Recording, Snapshot, Start,
    session::{Log, Stamp, State},
    spawn,
};
use ostler_model::{Action, Catalog, Chosen, Copy, Environment, EventStream, ModelError, Models, Provider};
use ostler_proto::{
    AgentEvent, Block, Command, Entry, ErrorKind, Limit, ModelRow, Request, SessionEvent, SessionId,
    StopReason, TurnOutcome, Usage, Wording, settings::Budget,
};
use ostler_tools::{
    Registry,
    host::{Jobs, Local},
};
use std::{
    collections::BTreeMap,
    num::NonZeroU64,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// A model that never gives an answer: it fails, or is silent where there is no failure to give.
struct Mute {
    failure: Option<ModelError>,
    asked: AtomicU32,
}

impl Provider for Mute {
    fn stream_copied(&self, _: Request, _: Copy) -> EventStream {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match &self.failure {
            Some(error) => stream::iter([Err(error.clone())]).boxed(),
            None => stream::pending().boxed(),
        }
    }
}

fn failure(after: Option<Duration>) -> ModelError {
    ModelError {
        action: Action::Retry { after },
        kind: ErrorKind::RateLimit,
        status: Some(429),
        message: "slow down".to_owned(),
        request: None,
    }
}

fn executor() -> Executor {
    Executor::new(Setup {
        registry: Registry::new(Vec::new()).unwrap(),
        host: Arc::new(Local::new(PathBuf::from("/"), Vec::new())),
        policy: Policy::default(),
        cwd: PathBuf::from("/"),
        attendance: Attendance::Unattended,
        parallel: DEFAULT_PARALLEL,
        artifacts: None,
        memory: Memory::default(),
        reload: None,
        keeping: None,
        jobs: Arc::new(Jobs::new(None)),
        hooks: None,
    })
}

/// Starts an agent on that model and says something to it.
async fn converse(failure: Option<ModelError>, limits: Limits) -> (Handle, Arc<Mute>) {
    go_on(State::default(), failure, limits).await
}

/// The same, with what was said before.
async fn go_on(state: State, failure: Option<ModelError>, limits: Limits) -> (Handle, Arc<Mute>) {
    let mute = Arc::new(Mute { failure, asked: AtomicU32::new(0) });
    let environment = Environment::from_vars(|_| None).unwrap();
    let chosen = Chosen {
        name: "mute".to_owned(),
        row: ModelRow::default(),
        provider: Arc::<Mute>::clone(&mute),
        key_source: "none".to_owned(),
    };
    let handle = spawn(Start {
        id: SessionId::from("s"),
        state,
        log: Log::nowhere(),
        stamp: Stamp::default(),
        models: Models::new(Catalog::new(&BTreeMap::new()), environment, PathBuf::from("/")),
        chosen,
        executor: executor(),
        system: Vec::new(),
        snapshot: Snapshot::default(),
        instructions: None,
        limits,
        origin: Origin::New,
        title: None,
        recording: Recording::Off,
    });
    let prompt = Command::Prompt { content: vec![Block::text("go")], id: None, wording: Wording::Verbatim };
    handle.commands.send(prompt).await.unwrap();
    (handle, mute)
}

/// Follows the turn to its end: the pauses that were announced, and how it ended.
async fn follow(handle: &mut Handle) -> (Vec<u64>, TurnOutcome) {
    let mut pauses = Vec::new();
    while let Some(envelope) = handle.events.recv().await {
        match envelope.event {
            AgentEvent::Retrying { delay_ms, .. } => pauses.push(delay_ms),
            AgentEvent::TurnEnded(end) => return (pauses, end.outcome),
            _ => {}
        }
    }
    panic!("the turn never ended");
}

#[tokio::test(start_paused = true)]
async fn pauses_double_with_jitter_up_to_a_bound_and_end() {
    let began = Instant::now();
    let (mut handle, mute) = converse(Some(failure(None)), Limits::default()).await;
    let (pauses, outcome) = follow(&mut handle).await;
    assert!(matches!(outcome, TurnOutcome::ApiError { status: Some(429), .. }), "{outcome:?}");
    assert_eq!((mute.asked.load(Ordering::Relaxed), pauses.len()), (11, 10));
    for (number, pause) in pauses.iter().enumerate() {
        let least = (500 << number).min(32_000);
        assert!((least..=least + least / 4).contains(pause), "{pauses:?}");
    }
    let waited = u64::try_from(began.elapsed().as_millis()).unwrap();
    assert!(waited >= pauses.iter().sum::<u64>() && waited < 300_000, "{waited}");
}

#[tokio::test(start_paused = true)]
async fn a_server_may_say_how_long_but_not_for_ever() {
    for (asked, expected) in [(0, 0), (7, 7_000), (1_000_000_000, 120_000)] {
        let limits = Limits { max_retries: 2, ..Limits::default() };
        let (mut handle, _) = converse(Some(failure(Some(Duration::from_secs(asked)))), limits).await;
        assert_eq!(follow(&mut handle).await.0, [expected, expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_does_not_wait_for_the_pause() {
    let (mut handle, mute) = converse(Some(failure(Some(Duration::from_mins(1)))), Limits::default()).await;
    while !matches!(handle.events.recv().await.unwrap().event, AgentEvent::Retrying { .. }) {}
    let began = Instant::now();
    handle.commands.send(Command::Interrupt).await.unwrap();
    assert_eq!(follow(&mut handle).await.1, TurnOutcome::Interrupted { during_tools: false });
    assert_eq!((began.elapsed(), mute.asked.load(Ordering::Relaxed)), (Duration::ZERO, 1));
}

#[tokio::test(start_paused = true)]
async fn time_runs_out_in_the_middle_of_an_answer() {
    let budget = Budget { seconds: NonZeroU64::new(90), ..Budget::default() };
    let began = Instant::now();
    let (mut handle, _) = converse(None, Limits { budget, ..Limits::default() }).await;
    let out = TurnOutcome::BudgetExhausted { limit: Limit::Seconds(90) };
    assert_eq!(follow(&mut handle).await.1, out);
    assert_eq!(began.elapsed().as_secs(), 90);
    // What is used up stays used up, however long one waits between turns.
    tokio::time::sleep(Duration::from_hours(1)).await;
    let prompt = Command::Prompt { content: vec![Block::text("more")], id: None, wording: Wording::Verbatim };
    handle.commands.send(prompt).await.unwrap();
    assert_eq!(follow(&mut handle).await.1, out);
}

/// A conversation that has outgrown any window.
fn full() -> State {
    let (message, model) = ("m".to_owned(), "mute".to_owned());
    let usage = Usage { input: 1_000_000, ..Usage::default() };
    let replied = SessionEvent::Replied {
        message: message.clone(),
        model: model.clone(),
        request: None,
        block: Block::text("said"),
        usage,
    };
    let sampled = SessionEvent::Sampled {
        message,
        model,
        stop: Some(StopReason::EndTurn),
        usage,
        cost_usd: 0.0,
        duration_ms: 0,
        request: None,
    };
    let prompted = SessionEvent::Prompted { content: vec![Block::text("say")], meta: false };
    let mut state = State::default();
    for (id, event) in ["1", "2", "3"].into_iter().zip([prompted, replied, sampled]) {
        state.apply(&Entry { id: id.into(), parent: None, timestamp: "then".to_owned(), event });
    }
    state
}

#[tokio::test(start_paused = true)]
async fn time_runs_out_in_the_middle_of_a_summary() {
    let budget = Budget { seconds: NonZeroU64::new(90), ..Budget::default() };
    let auto_compact = AutoCompact { enabled: true, window: Some(10) };
    let began = Instant::now();
    let (mut handle, mute) = go_on(full(), None, Limits { budget, auto_compact, ..Limits::default() }).await;
    while !matches!(handle.events.recv().await.unwrap().event, AgentEvent::Compacting { .. }) {}
    let out = TurnOutcome::BudgetExhausted { limit: Limit::Seconds(90) };
    assert_eq!(follow(&mut handle).await.1, out);
    assert_eq!((began.elapsed().as_secs(), mute.asked.load(Ordering::Relaxed)), (90, 1));
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_fails_is_asked_for_once_more_after_a_pause() {
    let auto_compact = AutoCompact { enabled: true, window: Some(10) };
    let limits = Limits { auto_compact, max_retries: 0, ..Limits::default() };
    let (mut handle, mute) = go_on(full(), Some(failure(Some(Duration::from_secs(7)))), limits).await;
    let (pauses, outcome) = follow(&mut handle).await;
    assert!(matches!(outcome, TurnOutcome::ApiError { status: Some(429), .. }), "{outcome:?}");
    assert_eq!(
        (pauses, mute.asked.load(Ordering::Relaxed)),
        (vec![7_000], 3),
        "two tries, then the request itself"
    );
}
