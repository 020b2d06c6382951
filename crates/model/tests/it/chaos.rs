//! Servers that do their worst on the wire: each answer ends in time, with an event or an error, and never
//! takes more memory than an event may have.

use crate::requests::hello;
use flate2::{Compression, write::GzEncoder};
use futures_util::StreamExt as _;
use ostler_model::{Action, Catalog, Environment, ModelError, Models};
use ostler_proto::{ErrorKind, ModelEvent};
use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

const WHOLE: &str = include_str!("../fixtures/anthropic/text.sse");
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";

/// Asks a server that treats its one connection like this, and gives all that came.
async fn ask(
    scheme: &str,
    waits: (&str, &str),
    serve: impl FnOnce(&mut TcpStream) + Send + 'static,
) -> Vec<Result<ModelEvent, ModelError>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = stream.read(&mut request);
        serve(&mut stream);
    });
    let items = ask_at(&format!("{scheme}://{address}"), waits).await;
    tokio::task::spawn_blocking(|| server.join().unwrap()).await.unwrap();
    items
}

async fn ask_at(url: &str, (idle, answer): (&str, &str)) -> Vec<Result<ModelEvent, ModelError>> {
    let variables: BTreeMap<String, String> = [
        ("ANTHROPIC_BASE_URL", url),
        ("ANTHROPIC_API_KEY", "key"),
        ("CLAUDE_STREAM_IDLE_TIMEOUT_MS", idle),
        ("API_TIMEOUT_MS", answer),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let environment = Environment::from_vars(move |name| variables.get(name).cloned()).unwrap();
    let models = Models::new(Catalog::new(&BTreeMap::new()), environment, PathBuf::from("/"));
    let chosen = models.choose("claude-sonnet-4-5").unwrap();
    chosen.provider.stream(hello(&chosen.name)).collect().await
}

/// Patience that plays no part.
const LONG: (&str, &str) = ("20000", "20000");

#[track_caller]
fn error(mut items: Vec<Result<ModelEvent, ModelError>>) -> ModelError {
    items.pop().expect("an item").expect_err("an error as the last item")
}

/// Writes pieces until the client has gone or the time is over.
fn drip(stream: &mut TcpStream, piece: &[u8], pause: Duration) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) && stream.write_all(piece).is_ok() {
        thread::sleep(pause);
    }
}

#[tokio::test]
async fn a_line_without_end_is_cut() {
    let items = ask("http", LONG, |stream| {
        stream.write_all(format!("{HEAD}\r\ndata: ").as_bytes()).unwrap();
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..100 {
            if stream.write_all(&piece).is_err() {
                return;
            }
        }
    })
    .await;
    let error = error(items);
    assert_eq!((error.action, error.kind), (Action::GiveUp, ErrorKind::ServerError));
    assert!(error.message.contains("larger than 64 MiB"), "{}", error.message);
}

#[tokio::test]
async fn a_small_body_that_unpacks_to_a_huge_one_is_cut() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(b"data: ").unwrap();
    for _ in 0..66 {
        packed.write_all(&vec![b'x'; 1 << 20]).unwrap();
    }
    let packed = packed.finish().unwrap();
    assert!(packed.len() < 1 << 20, "{}", packed.len());
    let items = ask("http", LONG, move |stream| {
        let head = format!("{HEAD}content-encoding: gzip\r\ncontent-length: {}\r\n\r\n", packed.len());
        stream.write_all(head.as_bytes()).unwrap();
        // The client may have seen enough before all is sent.
        let _ = stream.write_all(&packed);
    })
    .await;
    let error = error(items);
    assert!(error.message.contains("larger than 64 MiB"), "{}", error.message);
}

#[tokio::test]
async fn a_byte_now_and_then_is_no_answer() {
    let items = ask("http", ("200", "600"), |stream| {
        stream.write_all(format!("{HEAD}\r\ndata: ").as_bytes()).unwrap();
        drip(stream, b"x", Duration::from_millis(50));
    })
    .await;
    let error = error(items);
    assert_eq!(error.message, "timed out: the answer stood still for 0.6 s");
    assert_eq!(error.action, Action::Retry { after: None });
}

#[tokio::test]
async fn pings_keep_a_connection_and_not_an_answer() {
    let items = ask("http", ("200", "600"), |stream| {
        stream.write_all(format!("{HEAD}\r\n").as_bytes()).unwrap();
        drip(stream, b"event: ping\ndata: {\"type\": \"ping\"}\n\n", Duration::from_millis(50));
    })
    .await;
    assert!(items.iter().filter(|item| matches!(item, Ok(ModelEvent::Ping))).count() > 2);
    assert_eq!(error(items).message, "timed out: the answer stood still for 0.6 s");
}

#[tokio::test]
async fn blanks_before_the_first_word_are_no_answer() {
    let items = ask("http", ("200", "600"), |stream| {
        stream.write_all(format!("{HEAD}\r\n").as_bytes()).unwrap();
        drip(stream, b"\n", Duration::from_millis(50));
    })
    .await;
    assert!(error(items).message.ends_with("did not answer within 0.6 s"));
}

#[tokio::test]
async fn a_head_that_drips_is_no_answer() {
    let items = ask("http", ("200", "600"), |stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nx-slow: ").unwrap();
        drip(stream, b"x", Duration::from_millis(50));
    })
    .await;
    assert!(error(items).message.ends_with("did not answer within 0.6 s"));
}

#[tokio::test]
async fn a_complaint_that_drips_is_still_a_complaint() {
    let items = ask("http", ("200", "20000"), |stream| {
        stream.write_all(b"HTTP/1.1 529 Busy\r\nretry-after: 3\r\n\r\n{\"error\":").unwrap();
        // Silence ends the reading; what the status says is known already.
        let _ = stream.read(&mut [0; 16]);
    })
    .await;
    let error = error(items);
    assert_eq!((error.status, error.kind), (Some(529), ErrorKind::Overloaded));
    assert_eq!(error.action, Action::Retry { after: Some(Duration::from_secs(3)) });
}

#[tokio::test]
async fn marks_line_ends_and_other_content_types_do_not_matter() {
    let forms = [
        format!("\u{feff}{WHOLE}"),
        WHOLE.replace('\n', "\r\n"),
        WHOLE.replace('\n', "\r"),
        format!(": a comment\n\nretry: 100\nid: 7\n\n{WHOLE}"),
    ];
    for body in forms {
        let items = ask("http", LONG, move |stream| {
            let head = HEAD.replace("text/event-stream", "application/octet-stream");
            stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
            // One byte at a time: no character and no event is whole when it arrives.
            for byte in body.bytes() {
                stream.write_all(&[byte]).unwrap();
            }
        })
        .await;
        assert!(items.iter().all(Result::is_ok), "{items:?}");
        assert!(matches!(items.last(), Some(Ok(ModelEvent::Done { .. }))));
    }
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_said_to_be_unreachable() {
    let items = ask("https", LONG, |stream| {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\nthis is plain http").unwrap();
    })
    .await;
    let error = error(items);
    assert_eq!(error.action, Action::Retry { after: None });
    assert!(error.message.starts_with("cannot connect to https://127.0.0.1:"), "{}", error.message);
}

#[tokio::test]
async fn a_name_that_leads_nowhere_is_named() {
    // Too long for a name, so that nobody outside is asked.
    let host = format!("{}.invalid", "n".repeat(64));
    let error = error(ask_at(&format!("http://{host}"), LONG).await);
    assert_eq!(error.action, Action::Retry { after: None });
    assert!(error.message.starts_with(&format!("cannot connect to http://{host}: ")), "{}", error.message);
}
