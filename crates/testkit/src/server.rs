//! The server itself: a thread with its own runtime and its connections, and the tests' handle on it.
//! It belongs to no runtime of the caller's, so tests with and without one can use it, and dropping
//! it ends every connection before the drop returns.

use crate::{
    conversation::Protocol,
    exchange::Shared,
    history,
    http::Connection,
    log::{Log, Recorded},
    prefix,
};
use ostler_proto::script::Script;
use std::{
    io,
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};
use tokio::{sync::oneshot, task::JoinSet};

/// How long a test waits for a request that never comes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server. Dropping it stops everything.
pub struct Server {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What may be chosen besides the script.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What `{{cwd}}` stands for.
    pub cwd: Option<PathBuf>,
    /// The port; 0 for any.
    pub port: u16,
    /// What happens past the last turn.
    pub at_end: AtEnd,
}

/// What happens past the last turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AtEnd {
    /// Requests are refused in a way that clients do not retry.
    #[default]
    Refuse,
    /// The script starts again.
    StartAgain,
}

impl Server {
    /// Starts on a free loopback port.
    #[expect(clippy::unused_async, reason = "starting is part of a test's asynchronous story")]
    pub async fn start(script: Script) -> Self {
        Self::start_with(script, Options::default()).expect("a free loopback port")
    }

    /// Starts without a runtime; fails when the port is taken.
    pub fn start_with(script: Script, options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))?;
        listener.set_nonblocking(true)?;
        let url = format!("http://{}", listener.local_addr()?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let Options { cwd, at_end, .. } = options;
        let shared = Arc::new(Shared { script, cwd, at_end, url, log: Log::new() });
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("scripted-model".to_owned()).spawn(move || {
            runtime.block_on(accept_until(listener, served, stopped));
        })?;
        Ok(Self { shared, stop: Some(stop), thread: Some(thread) })
    }

    /// The address without a path: what `ANTHROPIC_BASE_URL` takes.
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// The address with `/v1`: what `OPENAI_BASE_URL` takes.
    pub fn openai_url(&self) -> String {
        format!("{}/v1", self.shared.url)
    }

    /// The requests to a model so far, in order of arrival.
    pub fn requests(&self) -> Vec<Recorded> {
        let state = self.shared.log.read();
        state.requests.iter().filter(|request| request.protocol.is_some()).cloned().collect()
    }

    /// Everything that came, also what was no request to a model.
    pub fn all_requests(&self) -> Vec<Recorded> {
        self.shared.log.read().requests.clone()
    }

    /// What went against the script: unmet expectations, requests past its end.
    pub fn failures(&self) -> Vec<String> {
        self.shared.log.read().failures.clone()
    }

    /// Waits until so many requests to a model have arrived, and returns them. Panics after half a minute.
    pub async fn wait_for_requests(&self, count: usize) -> Vec<Recorded> {
        let arrived = |requests: &[Recorded]| {
            requests.iter().filter(|request| request.protocol.is_some()).count() >= count
        };
        let waited = tokio::time::timeout(PATIENCE, self.wait_until(arrived)).await;
        let requests = self.requests();
        assert!(waited.is_ok(), "only {} of {count} requests came", requests.len());
        requests
    }

    /// Waits until so many answers to model requests are over, however they ended. Panics after half a minute.
    pub async fn wait_for_answers(&self, count: usize) -> Vec<Recorded> {
        let over = |request: &&Recorded| request.protocol.is_some() && request.ended.is_some();
        let answered = |requests: &[Recorded]| requests.iter().filter(over).count() >= count;
        let waited = tokio::time::timeout(PATIENCE, self.wait_until(answered)).await;
        let requests = self.requests();
        assert!(waited.is_ok(), "of {} requests not even {count} were answered", requests.len());
        requests
    }

    /// Waits until a look at everything that came satisfies; looks again after each change.
    /// The record is locked while it is looked at: the look must not ask this server anything.
    pub async fn wait_until(&self, satisfied: impl FnMut(&[Recorded]) -> bool) {
        self.shared.log.wait_until(satisfied).await;
    }

    /// Panics unless each request extends the one before it in its conversation.
    #[track_caller]
    pub fn assert_append_only(&self) {
        if let Err(problem) = prefix::check_append_only(&self.requests()) {
            panic!("{problem}");
        }
    }

    /// Panics unless every request carries a conversation its API would take.
    #[track_caller]
    pub fn assert_valid_histories(&self) {
        for (number, request) in (1..).zip(self.requests()) {
            let protocol = request.protocol.unwrap_or(Protocol::Anthropic);
            if let Err(problem) = history::check_history(protocol, &request.body_json()) {
                panic!("request {number}: {problem}");
            }
        }
    }

    /// Panics if anything went against the script.
    #[track_caller]
    pub fn assert_no_failures(&self) {
        let failures = self.failures();
        assert!(failures.is_empty(), "the script was not followed:\n{}", failures.join("\n"));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was already printed; a second one here would abort the test.
            let _ = thread.join();
        }
    }
}

async fn accept_until(listener: TcpListener, shared: Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("the listener does not block");
    let accept = async {
        let mut connections = JoinSet::new();
        for number in 1.. {
            let Ok((stream, _)) = listener.accept().await else {
                // Most likely no descriptor is free; one may be soon.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            while connections.try_join_next().is_some() {}
            let shared = Arc::clone(&shared);
            connections.spawn(async move {
                if let Ok(connection) = Connection::new(stream) {
                    shared.serve(connection, number).await;
                }
            });
        }
    };
    tokio::select! {
        () = accept => {}
        _ = stopped => {}
    }
}
