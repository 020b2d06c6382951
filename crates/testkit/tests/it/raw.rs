//! HTTP as bytes: what a client library would hide.

use crate::{anthropic, client, start};
use ostler_testkit::Server;
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

const HI: &str = "[[turn]]\nsteps = [{ text = 'hi' }]\nwire = { repeat = 9 }";

fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.url().strip_prefix("http://").unwrap()).unwrap()
}

/// Reads until the bytes end with this.
fn read_to(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(end.as_bytes()) {
        stream.read_exact(&mut byte).unwrap();
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}

fn head(extra: &str) -> String {
    format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\n{extra}\r\n\r\n")
}

#[test]
fn a_body_is_asked_for_when_the_client_waits() {
    let server = start(HI);
    let mut stream = connect(&server);
    let body = anthropic("go").to_string();
    let waits = format!("content-length: {}\r\nexpect: 100-continue", body.len());
    stream.write_all(head(&waits).as_bytes()).unwrap();
    assert_eq!(read_to(&mut stream, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).unwrap();
    assert!(read_to(&mut stream, "\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(read_to(&mut stream, "\r\n0\r\n\r\n").contains("message_stop"));
}

#[test]
fn requests_may_come_in_chunks_and_one_after_the_other() {
    let server = start(HI);
    let mut stream = connect(&server);
    let body = anthropic("go").to_string();
    let (left, right) = body.split_at(20);
    let chunked = format!("14\r\n{left}\r\n{:X};x=y\r\n{right}\r\n0\r\n\r\n", right.len());
    let request = head("transfer-encoding: chunked") + &chunked;
    stream.write_all(request.repeat(2).as_bytes()).unwrap();
    for _ in 0..2 {
        assert!(read_to(&mut stream, "\r\n0\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|request| request.connection == 1 && request.body_json() == anthropic("go")));
}

#[test]
fn a_client_that_wants_to_close_is_closed() {
    let server = start(HI);
    let mut stream = connect(&server);
    let body = anthropic("go").to_string();
    let closing = format!("connection: close\r\ncontent-length: {}", body.len());
    stream.write_all((head(&closing) + &body).as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("\r\n0\r\n\r\n"));
}

#[test]
fn every_split_byte_is_its_own_chunk() {
    let server = start("[[turn]]\nwire = { body = 'abc', split = 1 }");
    let mut stream = connect(&server);
    stream.write_all((head("content-length: 2") + "{}").as_bytes()).unwrap();
    let response = read_to(&mut stream, "0\r\n\r\n");
    assert!(response.ends_with("\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n"), "{response}");
}

#[test]
fn what_is_not_http_is_refused() {
    let server = start(HI);
    for wrong in
        ["\u{1}\u{2}\r\n\r\n".to_owned(), head("content-length: many"), head("content-length: 999999999")]
    {
        let mut stream = connect(&server);
        stream.write_all(wrong.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 4"), "{text}");
    }
    assert_eq!(server.failures().len(), 3);
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_client_uses_its_connection_again() {
    let server = start(HI);
    let (client, url) = (client(), format!("{}/v1/messages", server.url()));
    for _ in 0..3 {
        let response = client.post(&url).body(anthropic("go").to_string()).send().await.unwrap();
        response.bytes().await.unwrap();
    }
    assert!(server.requests().iter().all(|request| request.connection == 1));
}

#[tokio::test]
async fn clients_are_answered_side_by_side() {
    let server = start("[[turn]]\nwire = { cut = { then = 'stall' } }\n[[turn]]\nsteps = [{ text = 'hi' }]");
    let stalled = crate::post(&server, "/v1/messages", &anthropic("one")).await.unwrap();
    assert!(crate::ask(&server, "/v1/messages", &anthropic("two")).await.contains("hi"));
    drop(stalled);
}
