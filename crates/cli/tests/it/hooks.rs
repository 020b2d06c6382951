//! `ostler hooks` as a user meets it: what is in force, what an event comes to over real processes and
//! sockets, and what a session's log proves.

mod events;
mod extras;
mod host;
mod matrix;
mod request;
mod session;
mod stop;

use crate::stage::{Done, Stage};
use ostler_proto::Json;
use serde_json::json;
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::JoinHandle,
};

/// A stage whose model has nothing to do.
fn stage() -> Stage {
    Stage::new("[[turn]]\nsteps = [{ text = \"hi\" }]\n")
}

fn settings(event: &str, hook: &Json) -> String {
    json!({"hooks": {event: [{"hooks": [hook]}]}}).to_string()
}

#[track_caller]
fn parsed(done: &Done) -> Json {
    serde_json::from_str(&done.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", done.stdout, done.stderr))
}

#[test]
fn hooks_are_listed_with_their_sources_and_those_of_an_untrusted_folder_wait() {
    let stage = stage();
    let command = |line: &str| settings("PreToolUse", &json!({"type": "command", "command": line}));
    stage.home.write(".ostler/settings.json", command("./mine.sh"));
    stage.home.write(
        ".claude/settings.json",
        settings("Stop", &json!({"type": "http", "url": "http://localhost/h", "timeout": 5})),
    );
    stage.repo.write(".claude/settings.json", command("./evil.sh \u{1b}[2J\u{202e}"));
    let done = stage.run(&["hooks", "list"]);
    done.check_ok();
    let (in_force, waiting) = done.stdout.split_once("not in force").unwrap();
    assert!(in_force.contains("./mine.sh  (user settings"), "{in_force}");
    assert!(in_force.contains("http://localhost/h") && in_force.contains("5 s"), "{in_force}");
    assert!(waiting.contains("hooks"), "{waiting}");
    stage.run(&["trust", "add"]).check_ok();
    let trusted = stage.run(&["hooks", "list"]);
    let theirs = "./evil.sh \\u{1b}[2J\\u{202e}  (project settings";
    assert!(trusted.check_ok().stdout.contains(theirs), "{}", trusted.stdout);
    let listed = parsed(&stage.run(&["hooks", "list", "--json"]));
    assert_eq!(listed["hooks"].as_array().unwrap().len(), 3);
}

#[test]
fn an_event_can_be_tried_dry_and_for_real() {
    let stage = stage();
    let guard = json!({"type": "command", "command": "touch ran; grep -q push && { echo no push >&2; exit 2; }; exit 0", "if": "Bash(git *)"});
    stage.home.write(".ostler/settings.json", settings("PreToolUse", &guard));
    stage.repo.write("push.json", r#"{"tool_input": {"command": "cd x && git push"}}"#);
    stage.repo.write("ls.json", r#"{"tool_input": {"command": "ls"}}"#);
    let dry = parsed(&stage.run(&["hooks", "test", "PreToolUse", "--input", "push.json", "--json"]));
    assert_eq!((dry["hooks"].as_array().unwrap().len(), &dry["input"]["tool_name"]), (1, &json!("Bash")));
    assert_eq!(dry["input"]["hook_event_name"], "PreToolUse");
    assert!(!stage.repo.has("ran"));
    let other = parsed(&stage.run(&["hooks", "test", "PreToolUse", "--input", "ls.json", "--json"]));
    assert_eq!(other["hooks"], json!([]));
    let ran = stage.run(&["hooks", "test", "PreToolUse", "--input", "push.json", "--run", "--json"]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(
        parsed(&ran)["verdict"],
        json!({"behavior": "deny", "hook": guard["command"], "reason": "no push"})
    );
    assert!(stage.repo.has("ran"));
    let plain = stage.run(&["hooks", "test", "PreToolUse", "--run"]);
    assert_eq!((plain.code, plain.stdout.contains("exit 0")), (Some(0), true), "{}", plain.stdout);
    let unknown = stage.run(&["hooks", "test", "PreToolUsage"]);
    assert!(
        unknown.stderr.contains("PreToolUsage") && unknown.stderr.contains("PostToolUse,"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn what_a_project_sets_does_not_run() {
    let stage = stage();
    stage.repo.write(
        ".ostler/settings.json",
        settings("PreToolUse", &json!({"type": "command", "command": "touch pwned"})),
    );
    stage.run(&["hooks", "test", "PreToolUse", "--run"]).check_ok();
    stage.run(&["-p", "go"]).check_ok();
    assert!(!stage.repo.has("pwned"));
}

/// A server for one test: it answers each request with these bytes, or holds it until its reader goes.
struct Server {
    url: String,
    hits: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn answering(answer: Option<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let hits = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&hits);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = read_request(&mut stream);
                if request.starts_with("STOP") {
                    return;
                }
                count.fetch_add(1, Ordering::SeqCst);
                match &answer {
                    // The reader may have heard enough and gone.
                    Some(answer) => drop(stream.write_all(answer)),
                    None => drop(stream.read(&mut [0])),
                }
            }
        });
        Self { url, hits, thread: Some(thread) }
    }

    fn json(head: &str, body: &str) -> Self {
        Self::answering(Some(
            format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
                .into(),
        ))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let address = self.url.trim_start_matches("http://").trim_end_matches("/hook");
        let _ =
            TcpStream::connect(address).and_then(|mut stream| stream.write_all(b"STOP / HTTP/1.1\r\n\r\n"));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Reads a request with its body, as far as its length says.
fn read_request(stream: &mut TcpStream) -> String {
    let (mut request, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
            });
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return text,
            Ok(read) => request.extend_from_slice(&piece[..read]),
        }
    }
}

/// Posts one gate hook and says why it was denied, if it was.
#[track_caller]
fn post(stage: &Stage, hook: &Json, more: &Json) -> Option<String> {
    let mut all = json!({"hooks": {"PreToolUse": [{"hooks": [hook]}]}});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let done = stage.run(&["hooks", "test", "PreToolUse", "--run", "--json", "--settings", &all.to_string()]);
    let outcome = parsed(&done);
    assert_eq!(outcome["runs"].as_array().unwrap().len(), 1, "{outcome}");
    outcome["verdict"]["reason"].as_str().map(str::to_owned)
}

#[track_caller]
fn check_post(server: &Server, timeout: f64, expect: Option<&str>) {
    let stage = stage();
    let hook = json!({"type": "http", "url": server.url, "timeout": timeout});
    let reason = post(&stage, &hook, &json!({}));
    match (expect, &reason) {
        (None, None) => {}
        (Some(part), Some(reason)) if reason.contains(part) => {}
        (Some(_) | None, _) => panic!("{reason:?} instead of {expect:?}"),
    }
    assert_eq!(server.hits.load(Ordering::SeqCst), 1);
}

#[test]
fn a_server_answers_or_the_gate_stays_closed() {
    let json = "200 OK\r\nContent-Type: application/json";
    check_post(&Server::json(json, "{}"), 30.0, None);
    check_post(&Server::json("204 No Content", ""), 30.0, None);
    check_post(&Server::json(json, r#"{"decision": "block", "reason": "policy"}"#), 30.0, Some("policy"));
    check_post(&Server::json("200 OK\r\nContent-Type: text/html", "<html>"), 30.0, Some("text/html"));
    check_post(&Server::json("500 Oops\r\nContent-Type: application/json", "{}"), 30.0, Some("500"));
    check_post(
        &Server::json(json, &format!("{{\"a\": \"{}\"}}", "x".repeat(10_000_000))),
        30.0,
        Some("more than"),
    );
    check_post(&Server::answering(None), 0.5, Some("longer than 0.5 s"));
    check_post(
        &Server::answering(Some(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{".to_vec())),
        30.0,
        Some("broke off"),
    );
    check_post(&Server::answering(Some(b"what?\r\n\r\n".to_vec())), 30.0, Some("cannot be reached"));
}

#[test]
fn redirects_are_not_followed() {
    let other = Server::json("200 OK\r\nContent-Type: application/json", "{}");
    for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"] {
        let first = Server::json(
            &format!("{status}\r\nLocation: {}\r\nContent-Type: application/json", other.url),
            "{}",
        );
        check_post(&first, 30.0, Some(&status[..3]));
    }
    assert_eq!(other.hits.load(Ordering::SeqCst), 0);
}

#[test]
fn lists_and_networks_keep_posts_in() {
    let stage = stage();
    let server = Server::json("200 OK\r\nContent-Type: application/json", "{}");
    let hook = |url: &str| json!({"type": "http", "url": url, "timeout": 10});
    let listed = |pattern: &str| json!({ "allowedHttpHookUrls": [pattern] });
    assert_eq!(post(&stage, &hook(&server.url), &listed("http://127.0.0.1:*")), None);
    let reason = post(&stage, &hook(&server.url), &listed("https://hooks.example/*")).unwrap();
    assert!(reason.contains("allowedHttpHookUrls"), "{reason}");
    assert_eq!(server.hits.load(Ordering::SeqCst), 1);
    for url in [
        "http://169.254.169.254/latest",
        "http://[::ffff:169.254.169.254]/",
        "http://0.0.0.0/",
        "http://2852039166/",
    ] {
        let reason = post(&stage, &hook(url), &json!({})).unwrap();
        assert!(reason.contains("nothing is posted there"), "{url}: {reason}");
    }
    let reason = post(&stage, &hook("http://10.0.0.1/"), &json!({})).unwrap();
    assert!(reason.contains("private network"), "{reason}");
}

#[test]
fn an_audit_finds_what_hooks_did_not_see() {
    let stage = Stage::new(
        "[[turn]]\nsteps = [{ call = \"Read\", id = \"r1\", input = { file_path = \"{{cwd}}/a.txt\" } }]\n[[turn]]\nsteps = [{ text = \"done\" }]\n",
    );
    stage.run(&["-p", "go"]).check_ok();
    let without = parsed(&stage.run(&["hooks", "audit", "--json"]));
    assert_eq!(
        (&without["clean"], &without["audit"]["calls"][0]["coverage"]),
        (&json!(true), &json!("unguarded"))
    );
    // The same session, had hooks been in force from its start.
    let transcript = stage.transcript();
    let hook =
        json!({"event": "PreToolUse", "kind": "command", "hook": "guard", "source": "host", "timeout_ms": 1});
    let record = json!({"kind": "configured", "hooks": [hook]});
    let line = json!({"type": "ostler", "v": 1, "data": {"event": "hooked", "record": record}});
    let before = std::fs::read_to_string(&transcript).unwrap();
    std::fs::write(&transcript, format!("{line}\nnot JSON \n{before}")).unwrap();
    let id = transcript.file_stem().unwrap().to_str().unwrap();
    let missed = stage.run(&["hooks", "audit", id]);
    assert_eq!(missed.code, Some(1), "{}", missed.stderr);
    assert!(
        missed.stdout.contains(
            "calls: 1; 0 seen by hooks; 0 without hooks in force; 0 never judged, so not run; 1 NOT SEEN"
        ),
        "{}",
        missed.stdout
    );
}
