//! The server as a client sees it: real sockets, each protocol, every fault of the wire.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails its test")]

mod binary;
mod faults;
mod protocols;
mod raw;

use ostler_testkit::{Options, Server, script};
use serde_json::{Value, json};

/// Starts a server that plays a script.
fn start(text: &str) -> Server {
    Server::start_with(script(text), Options::default()).unwrap()
}

/// A client that follows no proxy of the environment's.
fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// A streaming request to Anthropic Messages that says something.
fn anthropic(said: &str) -> Value {
    json!({"model": "m", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": said}]})
}

async fn post(server: &Server, path: &str, body: &Value) -> reqwest::Result<reqwest::Response> {
    let url = format!("{}{path}", server.url());
    client().post(url).header("content-type", "application/json").body(body.to_string()).send().await
}

/// Asks for an answer and reads all of it.
async fn ask(server: &Server, path: &str, body: &Value) -> String {
    post(server, path, body).await.unwrap().text().await.unwrap()
}

/// The data of a stream's events, with the names checked against the types.
#[track_caller]
fn events(stream: &str) -> Vec<Value> {
    let mut events = Vec::new();
    for event in stream.split_terminator("\n\n") {
        let data = event.lines().find_map(|line| line.strip_prefix("data: ")).expect("an event has data");
        let Ok(data) = serde_json::from_str::<Value>(data) else {
            events.push(json!(data));
            continue;
        };
        if let Some(name) = event.strip_prefix("event: ") {
            assert_eq!(name.lines().next(), data["type"].as_str());
        }
        events.push(data);
    }
    events
}

/// The values of a field, joined, over all events that have it.
fn joined(events: &[Value], pointer: &str) -> String {
    events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
}
