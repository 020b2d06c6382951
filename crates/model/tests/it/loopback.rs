//! Providers against a real socket that answers with the bytes it is told, however wrong.

use crate::requests::hello;
use futures_util::StreamExt as _;
use ostler_model::{Action, Catalog, Environment, ModelError, Models};
use ostler_proto::{ErrorKind, ModelEvent};
use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    thread::{self, JoinHandle},
    time::Duration,
};

/// What the server does after its bytes.
#[derive(Clone, Copy)]
enum Then {
    Close,
    /// Keeps the connection open and silent until the client leaves.
    Wait,
    /// Closes with unread bytes in its buffer, which resets the connection.
    Reset,
}

/// A server that answers one request on each connection, and the requests it saw.
struct Server {
    address: SocketAddr,
    thread: JoinHandle<Vec<String>>,
}

impl Server {
    fn start(answers: Vec<(String, Then)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = thread::spawn(move || {
            answers
                .into_iter()
                .map(|(bytes, then)| answer(listener.accept().unwrap().0, &bytes, then))
                .collect()
        });
        Self { address, thread }
    }

    /// The requests, once the server is done. The runtime must go on: it closes the connections.
    async fn requests(self) -> Vec<String> {
        tokio::task::spawn_blocking(|| self.thread.join().unwrap()).await.unwrap()
    }
}

fn answer(mut stream: TcpStream, bytes: &str, then: Then) -> String {
    let leave = if matches!(then, Then::Reset) { 8 } else { 0 };
    let request = read_request(&mut stream, leave);
    stream.write_all(bytes.as_bytes()).unwrap();
    stream.flush().unwrap();
    match then {
        Then::Close | Then::Reset => {}
        Then::Wait => drop(stream.read(&mut [0; 64])),
    }
    request
}

/// One request, less the last bytes of its body that are to be left unread.
fn read_request(stream: &mut TcpStream, leave: usize) -> String {
    let mut request = Vec::new();
    let mut byte = [0];
    loop {
        let text = String::from_utf8_lossy(&request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() + leave >= length.map_or(0, |length| length.parse().unwrap()) {
                return text.into_owned();
            }
        }
        if stream.read(&mut byte).unwrap() == 0 {
            return text.into_owned();
        }
        request.push(byte[0]);
    }
}

fn environment(pairs: &[(&str, String)]) -> Environment {
    let variables: BTreeMap<String, String> =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Environment::from_vars(move |name| variables.get(name).cloned()).unwrap()
}

/// Asks the Messages API at an address, and gives all that comes.
async fn ask(address: &str) -> Vec<Result<ModelEvent, ModelError>> {
    let environment = environment(&[
        ("ANTHROPIC_BASE_URL", format!("http://{address}")),
        ("ANTHROPIC_API_KEY", "sk-ant-very-secret".to_owned()),
        ("CLAUDE_STREAM_IDLE_TIMEOUT_MS", "300".to_owned()),
        ("API_TIMEOUT_MS", "300".to_owned()),
    ]);
    let models = Models::new(Catalog::new(&BTreeMap::new()), environment, PathBuf::from("/"));
    let chosen = models.choose("claude-sonnet-4-5").unwrap();
    chosen.provider.stream(hello(&chosen.name)).collect().await
}

async fn ask_for_error(answer: impl Into<String>, then: Then) -> ModelError {
    let server = Server::start(vec![(answer.into(), then)]);
    let address = server.address.to_string();
    let mut items = ask(&address).await;
    server.requests().await;
    let mut error = items.pop().expect("an item").expect_err("an error as the last item");
    error.message = error.message.replace(&address, "HOST");
    error
}

fn body(text: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_1\r\nconnection: close\r\n\r\n{text}"
    )
}

fn status(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

const WHOLE: &str = include_str!("../fixtures/anthropic/text.sse");

#[tokio::test]
async fn a_whole_answer_arrives_and_the_request_is_sound() {
    let server = Server::start(vec![(body(WHOLE), Then::Close)]);
    let items = ask(&server.address.to_string()).await;
    assert!(matches!(&items[0], Ok(ModelEvent::Started { request: Some(id), .. }) if id == "req_1"));
    assert!(matches!(items.last(), Some(Ok(ModelEvent::Done { .. }))));
    let request = server.requests().await.remove(0);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{head}");
    for line in
        ["x-api-key: sk-ant-very-secret", "anthropic-version: 2023-06-01", "content-type: application/json"]
    {
        assert!(head.contains(line), "{head}");
    }
    assert!(head.contains(concat!("user-agent: ostler/", env!("CARGO_PKG_VERSION"))), "{head}");
    assert!(
        body.starts_with("{\"model\":\"claude-sonnet-4-5\",\"max_tokens\":1000,\"stream\":true,"),
        "{body}"
    );
}

#[tokio::test]
async fn an_answer_whose_body_stays_open_is_done_when_it_says_so() {
    let server = Server::start(vec![(body(WHOLE), Then::Wait)]);
    let items = ask(&server.address.to_string()).await;
    assert!(matches!(items.last(), Some(Ok(ModelEvent::Done { .. }))));
    server.requests().await;
}

#[tokio::test]
async fn one_connection_serves_the_next_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let chunked = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{WHOLE}\r\n0\r\n\r\n",
        WHOLE.len()
    );
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for _ in 0..2 {
            read_request(&mut stream, 0);
            stream.write_all(chunked.as_bytes()).unwrap();
        }
    });
    let environment = environment(&[
        ("OPENAI_BASE_URL", String::new()),
        ("ANTHROPIC_BASE_URL", format!("http://{address}")),
    ]);
    let models = Models::new(Catalog::new(&BTreeMap::new()), environment, PathBuf::from("/"));
    for _ in 0..2 {
        let chosen = models.choose("sonnet").unwrap();
        let items: Vec<_> = chosen.provider.stream(hello(&chosen.name)).collect().await;
        assert!(matches!(items.last(), Some(Ok(ModelEvent::Done { .. }))), "{items:?}");
    }
    thread.join().unwrap();
}

#[tokio::test]
async fn a_web_page_is_called_one() {
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\nconnection: close\r\n\r\n<!doctype html><p>hi";
    let error = ask_for_error(page, Then::Close).await;
    assert_eq!(error.action, Action::GiveUp);
    insta::assert_snapshot!(error, @"http://HOST/v1/messages answered with a web page (content type text/html; charset=utf-8); check the base URL");
    let disguised = ask_for_error(body("\n\n<html>"), Then::Close).await;
    insta::assert_snapshot!(disguised, @"http://HOST/v1/messages answered with a web page (content type text/event-stream); check the base URL");
}

#[tokio::test]
async fn a_plain_json_answer_is_no_stream() {
    let json = status("200 OK", "content-type: application/json\r\n", "{\"id\":\"msg_1\"}");
    let error = ask_for_error(json, Then::Close).await;
    insta::assert_snapshot!(error, @"http://HOST/v1/messages answered with something that is no event stream (content type application/json); check the base URL");
    let complaint = status("200 OK", "", "{\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}");
    let error = ask_for_error(complaint, Then::Close).await;
    assert_eq!((error.status, error.kind), (Some(529), ErrorKind::Overloaded));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let moved = status("307 Temporary Redirect", "location: https://user:pw@evil.example/steal?x=1\r\n", "");
    let error = ask_for_error(moved, Then::Close).await;
    assert_eq!(error.action, Action::GiveUp);
    insta::assert_snapshot!(error, @"http://HOST redirects to evil.example, which is not followed because the key would go along; check the base URL");
}

#[tokio::test]
async fn silence_before_the_answer_times_out() {
    let error = ask_for_error("", Then::Wait).await;
    assert_eq!(error.action, Action::Retry { after: None });
    insta::assert_snapshot!(error, @"http://HOST did not answer within 0.3 s");
}

#[tokio::test]
async fn silence_during_the_answer_times_out() {
    let (begin, _) = WHOLE.split_at(700);
    let error = ask_for_error(body(begin), Then::Wait).await;
    assert_eq!(error.action, Action::Retry { after: None });
    assert_eq!(error.request.as_deref(), Some("req_1"));
    insta::assert_snapshot!(error, @"timed out: no byte of the answer came for 0.3 s");
}

#[tokio::test]
async fn a_reset_during_the_answer_keeps_what_came() {
    let (begin, _) = WHOLE.split_at(700);
    let server = Server::start(vec![(body(begin), Then::Reset)]);
    let items = ask(&server.address.to_string()).await;
    server.requests().await;
    assert!(matches!(items.last(), Some(Err(ModelError { action: Action::Retry { .. }, .. }))), "{items:?}");
}

#[tokio::test]
async fn a_body_that_ends_early_broke_off() {
    let (begin, _) = WHOLE.split_at(700);
    let error = ask_for_error(body(begin), Then::Close).await;
    assert_eq!(error.action, Action::Retry { after: None });
    let empty = ask_for_error(body(""), Then::Close).await;
    insta::assert_snapshot!(empty, @"the answer broke off before its end");
}

#[tokio::test]
async fn a_refused_connection_names_the_place() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = ask(&address).await.pop().unwrap().unwrap_err();
    assert_eq!(error.action, Action::Retry { after: None });
    insta::assert_snapshot!(error.message.replace(&address, "HOST"), @"cannot connect to http://HOST: Connection refused (os error 111); check the base URL, the network and the proxy");
}

#[tokio::test]
async fn statuses_say_what_to_do() {
    let limited = status(
        "429 Too Many Requests",
        "retry-after: 7\r\nrequest-id: req_9\r\n",
        "{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow\\u001b[31m down\"}}",
    );
    let error = ask_for_error(limited, Then::Close).await;
    assert_eq!(error.action, Action::Retry { after: Some(Duration::from_secs(7)) });
    assert_eq!(error.request.as_deref(), Some("req_9"));
    insta::assert_snapshot!(error, @"the API answered 429 (rate_limit_error): slow[31m down");
    let refused = status("401 Unauthorized", "", "bad key sk-ant-very-secret");
    let error = ask_for_error(refused, Then::Close).await;
    assert_eq!(error.action, Action::LogIn);
    insta::assert_snapshot!(error, @"the API answered 401: bad key [key]; check ANTHROPIC_API_KEY");
}

#[tokio::test]
async fn no_key_is_told_before_anything_is_sent() {
    let models = Models::new(Catalog::new(&BTreeMap::new()), environment(&[]), PathBuf::from("/"));
    for (name, variable) in [("sonnet", "ANTHROPIC_API_KEY"), ("gpt-5", "OPENAI_API_KEY")] {
        let chosen = models.choose(name).unwrap();
        assert_eq!(chosen.key_source, "none");
        let items: Vec<_> = chosen.provider.stream(hello(&chosen.name)).collect().await;
        let [Err(error)] = items.as_slice() else { panic!("{items:?}") };
        assert_eq!((&error.action, error.kind), (&Action::LogIn, ErrorKind::AuthenticationFailed));
        assert!(error.message.contains(variable), "{error}");
    }
}

#[tokio::test]
async fn a_dropped_stream_closes_the_connection() {
    let (begin, _) = WHOLE.split_at(700);
    let server = Server::start(vec![(body(begin), Then::Wait)]);
    let environment = environment(&[("OPENAI_BASE_URL", format!("http://{}/v1", server.address))]);
    let models = Models::new(Catalog::new(&BTreeMap::new()), environment, PathBuf::from("/"));
    let chosen = models.choose("local-model").unwrap();
    let mut events = chosen.provider.stream(hello(&chosen.name));
    assert!(events.next().await.is_some());
    drop(events);
    // The server returns only when the client has gone.
    let request = server.requests().await.remove(0);
    assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1"), "{request}");
}
