//! Several processes on one session, and several sessions in one project.

use crate::stage::{Done, Stage};
use ostler_proto::Json;
use ostler_testkit::{Options, Server, process};
use serde_json::json;
use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

const ID: &str = "11111111-2222-4333-8444-555555555555";
const COPY: &str = "22222222-2222-4333-8444-555555555555";
/// Processes beside each other.
const MANY: usize = 6;
/// How often so many reach for one session.
const ROUNDS: usize = 2;

const TALK: &str = r#"
[[turn]]
wire = { repeat = 99 }
steps = [{ text = "you said {{prompt}}" }]
"#;

/// A terminal in which a session is open, and nothing has been said yet.
struct Terminal {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Terminal {
    fn open(stage: &Stage, words: &[&str]) -> Self {
        let mut all = vec!["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
        all.extend(words);
        let mut child = stage.command(&all).stdin(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    /// Asks something that changes nothing, and waits for the answer: from then on the session is open.
    #[track_caller]
    fn greet(&mut self) {
        let request =
            json!({"type": "control_request", "request_id": "r", "request": {"subtype": "initialize"}});
        self.send(&request);
        self.until("control_response");
    }

    #[track_caller]
    fn prompt(&mut self, text: &str) -> Json {
        self.send(&json!({"type": "user", "message": {"role": "user", "content": text}}));
        self.until("result")
    }

    fn send(&mut self, line: &Json) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    #[track_caller]
    fn until(&mut self, kind: &str) -> Json {
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "it ended before a {kind}");
            let frame: Json = serde_json::from_str(&line).unwrap();
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    fn close(mut self) -> Done {
        self.stdin = None;
        Done::from(self.child.wait_with_output().unwrap())
    }
}

#[test]
fn a_session_open_in_one_terminal_is_not_opened_in_another() {
    let stage = Stage::new(TALK);
    stage.run(&["-p", "one", "--session-id", ID]).check_ok();
    let mut first = Terminal::open(&stage, &["--resume", ID]);
    first.greet();
    let second = beside(&stage, &["-p", "two", "--resume", ID]);
    assert_eq!(second.code, Some(1), "{}", second.stdout);
    let held = format!("open in another process (process {} on ", first.child.id());
    assert!(second.stderr.contains(&held) && second.stderr.contains("--fork-session"), "{}", second.stderr);
    let path = stage.transcript();
    let before = std::fs::read(&path).unwrap();
    for words in [&["delete", ID][..], &["prune", "--older-than", "0m"]] {
        let refused = beside(&stage, &[&["session"], words].concat());
        let told = format!("is open in another process (process {} on ", first.child.id());
        assert!(refused.stderr.contains(&told) && refused.stderr.contains(ID), "{}", refused.stderr);
        assert!(refused.stderr.contains("so it was not removed"), "{}", refused.stderr);
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
    first.prompt("three");
    first.close().check_ok();
    stage.run(&["-p", "four", "--resume", ID]).check_ok();
    let last = stage.server.requests().last().unwrap().body_json().to_string();
    for said in ["one", "three", "four"] {
        assert!(last.contains(&format!("\"{said}\"")), "{said} is lost: {last}");
    }
    stage.server.assert_valid_histories();
}

#[test]
fn what_is_open_elsewhere_goes_on_in_a_copy() {
    let stage = Stage::new(TALK);
    stage.run(&["-p", "one", "--session-id", ID]).check_ok();
    let mut first = Terminal::open(&stage, &["--resume", ID]);
    first.greet();
    let copied = beside(&stage, &["-p", "two", "--continue", "--fork-session", "--session-id", COPY]);
    assert_eq!(copied.check_ok().stdout, "you said two\n");
    first.prompt("three");
    first.close().check_ok();
    for (id, said, unsaid) in [(ID, "three", "two"), (COPY, "two", "three")] {
        let shown = stage.run(&["session", "show", id]).check_ok().stdout.clone();
        assert!(shown.contains("one") && shown.contains(said) && !shown.contains(unsaid), "{shown}");
    }
    stage.server.assert_valid_histories();
}

/// Whoever gets the session goes on from all that was said before; the others are told and leave no trace.
#[test]
fn many_at_once_on_one_session_take_turns_or_are_told() {
    let stage = Stage::new(TALK);
    stage.run(&["-p", "word-0", "--session-id", ID]).check_ok();
    let mut said = vec!["word-0".to_owned()];
    for round in 1..=ROUNDS {
        let words: Vec<String> = (1..=MANY).map(|number| format!("word-{round}-{number}")).collect();
        let children: Vec<Child> =
            words.iter().map(|word| stage.spawn(&["-p", word, "--resume", ID])).collect();
        let before = said.len();
        for (child, word) in children.into_iter().zip(&words) {
            let done = Done::from(child.wait_with_output().unwrap());
            if done.code == Some(0) {
                said.push(word.clone());
            } else {
                assert!(done.stderr.contains("open in another process"), "{}", done.stderr);
            }
        }
        assert!(said.len() > before, "nobody got it");
    }
    stage.run(&["-p", "and all?", "--resume", ID]).check_ok();
    let last = stage.server.requests().last().unwrap().body_json().to_string();
    let heard = |word: &String| last.matches(&format!("\"{word}\"")).count();
    assert!(said.iter().all(|word| heard(word) == 1), "{said:?}: {last}");
    assert_eq!(last.matches("\"word-").count(), said.len(), "{said:?}: {last}");
    stage.server.assert_valid_histories();
    stage.server.assert_append_only();
}

/// Runs beside each other, of which some are killed in the middle of a command, leave as many sound sessions.
#[test]
fn many_sessions_in_one_project_do_not_disturb_each_other() {
    let stage = Stage::new("");
    let servers: Vec<Server> = (1..=MANY).map(|number| server(&stage, number)).collect();
    let mut children = Vec::new();
    for (number, server) in (1..).zip(&servers) {
        let words =
            ["-p", &format!("prompt-{number}"), "--session-id", &id(number), "--allowedTools", "Bash,Write"];
        children.push(stage.command(&words).env("ANTHROPIC_BASE_URL", server.url()).spawn().unwrap());
    }
    for (number, mut child) in (1..).zip(children) {
        if is_killed(number) {
            while !stage.repo.has(&format!("started-{number}")) {
                assert!(child.try_wait().unwrap().is_none(), "run {number} ended before it was killed");
                std::thread::yield_now();
            }
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            Done::from(child.wait_with_output().unwrap()).check_ok();
        }
    }
    process::assert_none_running_in(stage.repo.path());
    let words = stage.repo.read("words.txt");
    assert_eq!(words.lines().collect::<BTreeSet<_>>().len(), MANY, "{words}");
    assert_eq!(words.lines().count(), MANY, "each command ran once: {words}");
    let sound = stage.run(&["session", "fsck"]);
    assert!(sound.check_ok().stdout.contains(&format!("{MANY} sessions, 0 damaged")), "{}", sound.stdout);
    assert_eq!(stage.run(&["session", "list", "--json"]).check_ok().stdout.lines().count(), MANY);
    for (number, server) in (1..).zip(&servers) {
        check_own(&stage, number, server);
    }
}

/// Goes on with one of many sessions.
#[track_caller]
fn check_own(stage: &Stage, number: usize, server: &Server) {
    let mut resumed = stage.command(&["-p", "and then?", "--resume", &id(number)]);
    Done::from(resumed.env("ANTHROPIC_BASE_URL", server.url()).output().unwrap()).check_ok();
    server.assert_valid_histories();
    let last = server.requests().last().unwrap().body_json().to_string();
    assert_eq!(last.matches("\"prompt-").count(), 1, "{last}");
    assert_eq!(last.contains("outcome unknown"), is_killed(number), "{last}");
    assert!(stage.repo.has(&format!("own-{number}.txt")));
}

/// A model that writes a file, runs a command and ends; in some runs the command does not end.
fn server(stage: &Stage, number: usize) -> Server {
    let wait = if is_killed(number) { "; sleep 60" } else { "" };
    let script = format!(
        r#"
        [[turn]]
        steps = [
            {{ call = "Write", input = {{ file_path = "own-{number}.txt", content = "{number}" }} }},
            {{ call = "Bash", input = {{ command = "echo word-{number} >> words.txt; touch started-{number}{wait}" }} }},
        ]
        [[turn]]
        wire = {{ repeat = 9 }}
        steps = [{{ text = "done" }}]
        "#
    );
    let options = Options { cwd: Some(stage.repo.path().to_path_buf()), ..Options::default() };
    Server::start_with(ostler_testkit::script(&script), options).unwrap()
}

fn is_killed(number: usize) -> bool {
    number.is_multiple_of(3)
}

fn id(number: usize) -> String {
    format!("{number:08}-2222-4333-8444-555555555555")
}

/// Runs to the end while others run.
fn beside(stage: &Stage, words: &[&str]) -> Done {
    Done::from(stage.command(words).output().unwrap())
}
