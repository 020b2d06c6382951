//! Pages from a server on loopback, which the fetcher reaches only because it is told to.

use ostler_tools::web::{Fetched, Fetcher, Reach, WebError};
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Answers every request by its path until the test ends.
struct Site {
    port: u16,
    hits: Arc<AtomicUsize>,
}

impl Site {
    fn start(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let hits = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&hits);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let request = lines.next().unwrap_or(Ok(String::new())).unwrap_or_default();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                counter.fetch_add(1, Ordering::SeqCst);
                let path = request.split(' ').nth(1).unwrap_or("/").to_owned();
                // A client that has seen enough goes away early.
                let _ = stream.write_all(&answer(&path));
            }
        });
        Self { port, hits }
    }

    fn at(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn fetcher(&self) -> Fetcher {
        Fetcher::new(Reach { private: vec![format!("127.0.0.1:{}", self.port)] })
    }
}

fn page(kind: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn moved(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        .into_bytes()
}

async fn fetch(site: &Site, path: &str) -> Result<Fetched, WebError> {
    site.fetcher().fetch(&site.at(path)).await
}

#[tokio::test]
async fn html_becomes_markdown_and_scripts_go() {
    let site = Site::start(|_| {
        page(
            "text/html; charset=utf-8",
            "<html><head><title>t</title></head><body><h1>Hi</h1><script>evil()</script><p>a <b>b</b> <a href='/x'>c</a></p></body></html>",
        )
    });
    let page = fetch(&site, "/").await.unwrap();
    assert!(
        page.text.contains("# Hi") && page.text.contains("**b**") && page.text.contains("[c](/x)"),
        "{}",
        page.text
    );
    assert!(!page.text.contains("evil"), "{}", page.text);
}

#[tokio::test]
async fn a_page_is_asked_for_once_in_a_while() {
    let site = Site::start(|_| page("text/plain", "hello"));
    let fetcher = site.fetcher();
    for _ in 0..3 {
        assert_eq!(fetcher.fetch(&site.at("/a#part")).await.unwrap().text, "hello");
    }
    assert_eq!(site.hits.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn moves_within_the_host_are_followed_and_others_are_told() {
    let other = Site::start(|_| page("text/plain", "stolen"));
    let elsewhere = other.at("/loot");
    let site = Site::start(move |path| match path {
        "/here" => moved("/there"),
        "/there" => page("text/plain", "found"),
        "/away" => moved(&elsewhere),
        "/inside" => moved("http://169.254.169.254/latest/meta-data"),
        "/odd" => moved("file:///etc/passwd"),
        _ => moved("/round"),
    });
    assert_eq!(fetch(&site, "/here").await.unwrap().text, "found");
    let away = fetch(&site, "/away").await.unwrap();
    assert_eq!((away.moved_to.unwrap().as_str(), away.text.as_str()), (other.at("/loot").as_str(), ""));
    assert!(fetch(&site, "/inside").await.unwrap().moved_to.is_some(), "told, not followed");
    assert!(fetch(&site, "/odd").await.unwrap().moved_to.is_some());
    assert!(fetch(&site, "/round").await.unwrap_err().to_string().contains("moved more than"));
    assert_eq!(other.hits.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_is_no_page_is_refused_in_words() {
    let site = Site::start(|path| {
        match path {
        "/zip" => page("application/zip", "PK"),
        "/long" => page("text/plain", &"x".repeat(11 * 1024 * 1024)),
        "/latin" => [b"HTTP/1.1 404 Not Found\r\ncontent-type: text/plain; charset=iso-8859-1\r\ncontent-length: 4\r\nconnection: close\r\n\r\ncaf".as_slice(), &[0xe9]].concat(),
        _ => b"nonsense\r\n\r\n".to_vec(),
    }
    });
    assert!(fetch(&site, "/zip").await.unwrap_err().to_string().contains("application/zip"));
    assert!(fetch(&site, "/long").await.unwrap_err().to_string().contains("10 MB"));
    let latin = fetch(&site, "/latin").await.unwrap();
    assert_eq!((latin.code, latin.text.as_str()), (404, "café"));
    assert!(fetch(&site, "/nonsense").await.is_err());
    let untold = Fetcher::new(Reach::default()).fetch(&site.at("/")).await.unwrap_err().to_string();
    assert!(untold.contains("public network"), "{untold}");
    let port = site.port;
    let by_name =
        Fetcher::new(Reach::default()).fetch(&format!("http://localhost:{port}/")).await.unwrap_err();
    assert!(matches!(by_name, WebError::Refused(_)));
}
