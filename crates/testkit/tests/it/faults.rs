//! What a script does to the wire, seen from the other end.

use crate::{anthropic, ask, client, events, post, start};
use ostler_testkit::Ended;
use reqwest::StatusCode;
use serde_json::{Value, json};
use std::{error::Error as _, io};

/// Reads what arrives until the body ends or breaks.
async fn read_all(mut response: reqwest::Response) -> (String, Option<reqwest::Error>) {
    let mut bytes = Vec::new();
    let error = loop {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    (String::from_utf8_lossy(&bytes).into_owned(), error)
}

fn is_reset(error: &reqwest::Error) -> bool {
    let mut source = error.source();
    while let Some(cause) = source {
        if cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::ConnectionReset) {
            return true;
        }
        source = cause.source();
    }
    false
}

fn with_wire(wire: &str) -> String {
    format!("[[turn]]\nsteps = [{{ text = 'one', pieces = 1 }}, {{ text = 'two' }}]\n[turn.wire]\n{wire}\n")
}

#[tokio::test]
async fn single_bytes_make_the_same_stream() {
    let whole = start(&with_wire(""));
    let split = start(&with_wire("split = 1"));
    let body = anthropic("go");
    assert_eq!(ask(&split, "/v1/messages", &body).await, ask(&whole, "/v1/messages", &body).await);
}

#[tokio::test]
async fn a_reset_comes_after_the_bytes() {
    let server = start(&with_wire("cut = { after_bytes = 100, then = 'reset' }"));
    let response = post(&server, "/v1/messages", &anthropic("go")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let (text, error) = read_all(response).await;
    assert_eq!(text.len(), 100);
    assert!(is_reset(&error.unwrap()));
    assert_eq!(server.wait_for_answers(1).await[0].ended, Some(Ended::Broken));
}

#[tokio::test]
async fn a_reset_after_nothing_comes_instead_of_an_answer() {
    let server = start(&with_wire("cut = { then = 'reset' }"));
    let error = post(&server, "/v1/messages", &anthropic("go")).await.unwrap_err();
    assert!(error.is_request(), "{error:?}");
    assert_eq!(server.wait_for_answers(1).await[0].status, None);
}

#[tokio::test]
async fn a_truncated_body_ends_properly_but_early() {
    let server = start(&with_wire("cut = { after_steps = 1, then = 'truncate' }"));
    let response = post(&server, "/v1/messages", &anthropic("go")).await.unwrap();
    let (text, error) = read_all(response).await;
    assert!(error.is_none());
    let events = events(&text);
    assert_eq!(events[events.len() - 1], json!({"type": "content_block_stop", "index": 0}));
}

#[tokio::test]
async fn a_stall_lasts_until_the_client_leaves() {
    let server = start(&with_wire("cut = { after_steps = 1, then = 'stall' }"));
    let mut response = post(&server, "/v1/messages", &anthropic("go")).await.unwrap();
    let mut text = String::new();
    while !text.contains("content_block_stop") {
        text.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().unwrap()));
    }
    assert!(server.requests()[0].ended.is_none());
    drop(response);
    let answered = server.wait_for_answers(1).await;
    assert_eq!(answered[0].ended, Some(Ended::ClientLeft));
    assert_eq!(answered[0].marks.len(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_in_a_pause_is_noticed() {
    let server = start("[[turn]]\nsteps = [{ text = 'a' }, { pause_ms = 600000 }, { text = 'b' }]");
    let mut response = post(&server, "/v1/messages", &anthropic("go")).await.unwrap();
    response.chunk().await.unwrap().unwrap();
    drop(response);
    assert_eq!(server.wait_for_answers(1).await[0].ended, Some(Ended::ClientLeft));
}

#[tokio::test]
async fn dropping_the_server_ends_what_is_open() {
    let server = start(&with_wire("cut = { after_steps = 0, then = 'stall' }"));
    let response = post(&server, "/v1/messages", &anthropic("go")).await.unwrap();
    let url = server.url().to_owned();
    drop(server);
    assert!(read_all(response).await.1.is_some());
    assert!(client().get(url).send().await.unwrap_err().is_connect());
}

#[tokio::test]
async fn garbage_comes_between_and_the_rest_follows() {
    let server = start(&with_wire("cut = { after_steps = 1, then = 'garbage' }"));
    let response = post(&server, "/v1/messages", &anthropic("go")).await.unwrap();
    let (text, error) = read_all(response).await;
    assert!(error.is_none());
    let garbage = text.find("garbage").unwrap();
    assert!(text.find("content_block_stop").unwrap() < garbage);
    assert!(text.rfind("message_stop").unwrap() > garbage);
}

#[tokio::test]
async fn overload_is_said_in_each_protocol() {
    let server = start(&with_wire("cut = { after_steps = 1, then = 'overload' }\nrepeat = 2"));
    let body = json!({"stream": true, "input": "?", "messages": [{"role": "user", "content": "?"}]});
    let mut last = Vec::new();
    for path in ["/v1/messages", "/v1/chat/completions", "/v1/responses"] {
        last.extend(events(&ask(&server, path, &body).await).pop());
    }
    assert_eq!(last[0]["error"]["type"], "overloaded_error");
    assert_eq!(last[1]["error"]["type"], "server_error");
    assert_eq!(last[2]["response"]["error"]["code"], "server_error");
}

#[tokio::test]
async fn statuses_carry_headers_and_the_api_s_own_error() {
    let server =
        start(&with_wire("status = 429\nheaders = { retry-after = '7', x-of = '{{prompt}}' }\nrepeat = 2"));
    let body = anthropic("go");
    let response = post(&server, "/v1/messages", &body).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["retry-after"], "7");
    assert_eq!(response.headers()["x-of"], "go");
    assert_eq!(response.headers()["request-id"], "req_1");
    let error: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("rate_limit_error")));
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let error: Value = serde_json::from_str(&ask(&server, path, &body).await).unwrap();
        assert_eq!(error["error"]["code"], "rate_limit_exceeded");
    }
}

#[tokio::test]
async fn a_body_is_sent_as_it_stands() {
    let server =
        start(&with_wire("headers = { content-type = 'text/html' }\nbody = '<html>{{prompt}}'\nsplit = 3"));
    let response = post(&server, "/v1/messages", &anthropic("go")).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/html");
    assert_eq!(response.text().await.unwrap(), "<html>{{prompt}}");
}

#[tokio::test]
async fn a_promised_length_may_be_a_lie() {
    let server = start(&with_wire("headers = { content-length = '1000' }\nbody = 'data: 1'"));
    let response = post(&server, "/v1/messages", &anthropic("go")).await.unwrap();
    let (text, error) = read_all(response).await;
    assert_eq!(text, "data: 1");
    assert!(error.is_some());
}

#[tokio::test]
async fn a_redirect_loop_ends_where_the_script_does() {
    let server =
        start(&with_wire("status = 307\nheaders = { location = '{{url}}/v1/messages' }\nrepeat = 20"));
    let error = post(&server, "/v1/messages", &anthropic("go")).await.unwrap_err();
    assert!(error.is_redirect());
    assert!(server.requests().len() > 5);
}

#[tokio::test]
async fn an_unmet_expectation_is_told_to_both_sides() {
    let server = start("[[turn]]\nexpect = ['go', 'the moon']\nsteps = [{ text = 'hi' }]");
    let response = post(&server, "/v1/messages", &anthropic("go to mars")).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let error: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    let message = r#"turn 1 expects "the moon" in the last message, which says: go to mars"#;
    assert_eq!(error["error"], json!({"type": "invalid_request_error", "message": message}));
    assert_eq!(server.failures(), [message]);
    assert_eq!(server.requests()[0].problem.as_deref(), Some(message));
}

#[tokio::test]
async fn turns_repeat_with_new_ids_and_then_the_script_is_over() {
    let server = start("[[turn]]\nsteps = [{ call = 'X' }]\nwire = { repeat = 1 }");
    let body = anthropic("go");
    assert!(ask(&server, "/v1/messages", &body).await.contains(r#""id":"call_1_1","#));
    assert!(ask(&server, "/v1/messages", &body).await.contains(r#""id":"call_1_1_again_1","#));
    let response = post(&server, "/v1/messages", &body).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert!(response.text().await.unwrap().contains("the script has 1 turns"));
    assert_eq!(server.failures().len(), 1);
    assert_eq!(server.requests()[2].turn, None);
}
