//! Session files that were cut off, flipped and written over: what is whole is kept, what is lost is told,
//! and the conversation is one that an API takes.
//!
//! The suite looks at some places; every byte of the last 64 KB is cut off, and every byte flipped and written
//! before, by `OSTLER_TEST_EVERY_BYTE=1 cargo test --release -p ostler-engine --test it damage`.

use ostler_engine::session::{Facts, Index, Loaded, Log, Scope, Session, Stamp, State, Store, load};
use ostler_proto::{
    Access, Block, Decision, Entry, Intent, Mode, Preview, Reason, Section, SessionEvent, SessionId,
    ToolCall, ToolResult, Usage, session::CallState,
};
use ostler_testkit::{Protocol, check_history};
use serde_json::json;
use std::{cell::RefCell, fs, path::PathBuf};

const ID: &str = "11111111-2222-4333-8444-555555555555";
/// How much of the end is cut off byte by byte.
const END: usize = 64 << 10;

struct Home {
    store: Store,
    path: PathBuf,
    index: RefCell<Index>,
    /// Holds all of it; goes last.
    _folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store { homes: vec![folder.path().to_path_buf()] };
        let path = store.path_for(folder.path(), &SessionId::from(ID));
        let index = RefCell::new(Index::open(folder.path()).unwrap());
        Self { store, path, index, _folder: folder }
    }

    /// Writes a file, lists it, and reads it as a resumed session would.
    #[track_caller]
    fn load(&self, bytes: &[u8]) -> Loaded {
        fs::write(&self.path, bytes).unwrap();
        self.list();
        let loaded = load(&self.path).unwrap();
        check_provider_takes(&loaded.state);
        loaded
    }

    #[track_caller]
    fn list(&self) -> Vec<Facts> {
        self.index.borrow_mut().list(&self.store, &Scope::Everywhere, 10).unwrap()
    }
}

/// The conversation with one more prompt.
#[track_caller]
fn check_provider_takes(state: &State) {
    let mut state = state.clone();
    let event = SessionEvent::Prompted { content: vec![Block::text("and now?")], meta: false };
    let parent = state.parent_of(&event);
    state.apply(&Entry { id: "next".into(), parent, timestamp: String::new(), event });
    let messages = state.messages();
    if let Err(problem) = check_history(Protocol::Anthropic, &json!({"messages": messages})) {
        panic!("{problem}: {messages:#?}");
    }
}

fn call(id: &str) -> ToolCall {
    ToolCall {
        id: id.into(),
        name: "Bash".into(),
        input: json!({"command": format!("echo {id}")}),
        problem: None,
    }
}

fn replied(message: &str, block: Block) -> SessionEvent {
    SessionEvent::Replied {
        message: message.to_owned(),
        model: "m".to_owned(),
        request: None,
        block,
        usage: Usage::default(),
    }
}

fn returned(id: &str) -> SessionEvent {
    SessionEvent::ToolReturned {
        tool: "Bash".to_owned(),
        result: ToolResult {
            id: id.into(),
            content: vec![Block::text(format!("«{id}» and more"))],
            is_error: false,
        },
        structured: json!({"stdout": id.repeat(20)}),
        state: CallState::Complete,
        changes: Vec::new(),
        duration_ms: 1,
    }
}

/// One turn as it is recorded.
fn turn(number: usize) -> Vec<SessionEvent> {
    // Ids that one flipped bit does not turn into each other.
    let id = |salt: usize| format!("toolu_{:016x}", (2 * number + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (one, two, answer) = (id(1), id(2), format!("m{number}"));
    let thought = Block::Thinking { text: "hm".to_owned(), signature: "s".to_owned() };
    let decided = SessionEvent::Decided {
        call: one.as_str().into(),
        intent: Intent { title: "echo".to_owned(), access: Access::Internal, preview: Preview::None },
        decision: Decision::Allow { because: Reason::User },
    };
    let mut events = vec![
        SessionEvent::Prompted {
            content: vec![Block::text(format!("«prompt {number}» with \"quotes\""))],
            meta: false,
        },
        replied(&answer, thought),
        replied(&answer, Block::text(format!("«answer {number}» läuft"))),
        replied(&answer, Block::ToolUse(call(&one))),
        decided,
        replied(&answer, Block::ToolUse(call(&two))),
        returned(&two),
        returned(&one),
        replied(&format!("{answer}x"), Block::text(format!("«end {number}»"))),
    ];
    match number % 4 {
        1 => events.push(SessionEvent::Interrupted { during_tools: false }),
        2 => events.push(SessionEvent::Failed { message: "API Error: 500".to_owned() }),
        3 => {
            events.push(replied("gone", Block::text("never mind")));
            events.push(SessionEvent::Dropped {
                message: Some("gone".to_owned()),
                reason: "reset".to_owned(),
                partial: String::new(),
                usage: Usage::default(),
                cost_usd: 0.0,
            });
        }
        _ => {}
    }
    events
}

/// A session of so many turns, as the engine writes it.
fn recorded(home: &Home, turns: usize) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (events, mut told) = tokio::sync::mpsc::channel(1 << 16);
    let log = Log::at(home.path.clone());
    let stamp = Stamp { cwd: "/w".into(), ..Stamp::default() };
    let mut session = Session::new(SessionId::from(ID), State::default(), log, stamp, events);
    runtime.block_on(async {
        let opened = SessionEvent::Opened {
            cwd: "/w".into(),
            model: "m".to_owned(),
            mode: Mode::Default,
            system: vec![Section::new("Character", ostler_proto::Scope::Global, "be good")],
        };
        session.record(opened).await.unwrap();
        session.name("The title").unwrap();
        for number in 0..turns {
            for event in turn(number) {
                session.record(event).await.unwrap();
            }
        }
        session.close().unwrap();
    });
    while told.try_recv().is_ok() {}
    fs::read(&home.path).unwrap()
}

/// Where each line begins, and the end of the last.
fn starts(bytes: &[u8]) -> Vec<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(ends).collect()
}

/// Every byte, or few enough for a quick run.
fn step() -> usize {
    if std::env::var_os("OSTLER_TEST_EVERY_BYTE").is_some() { 1 } else { 2003 }
}

#[test]
fn a_file_cut_off_anywhere_is_its_whole_lines() {
    let home = Home::new();
    let bytes = recorded(&home, 24);
    assert!(bytes.len() > END + 4096, "{} bytes", bytes.len());
    let starts = starts(&bytes);
    let mut states: Vec<Option<State>> = vec![None; starts.len()];
    for length in (bytes.len() - END..=bytes.len()).step_by(step()) {
        let whole = starts.partition_point(|start| *start <= length) - 1;
        let loaded = home.load(&bytes[..length]);
        let listed = home.list();
        // All but its line end, and the line is whole.
        let is_whole_line = starts.get(whole + 1) == Some(&(length + 1));
        let lines = whole + usize::from(is_whole_line);
        let state = states[lines].get_or_insert_with(|| home.load(&bytes[..starts[lines]]).state);
        assert_eq!(&loaded.state, state, "cut at {length}");
        let is_torn = length > starts[whole] && !is_whole_line;
        assert_eq!(loaded.damaged.len(), usize::from(is_torn), "cut at {length}: {:?}", loaded.damaged);
        assert_eq!(listed[0].first_prompt.as_deref(), Some("«prompt 0» with \"quotes\""), "cut at {length}");
        // Lists look for a title near the end; where its line there is cut off, that is what the cut costs.
        let is_title = |start: usize| bytes[start..].starts_with(br#"{"type":"custom-title""#);
        let is_near = |line: &[usize]| line[1] <= length && line[0] + END > length && is_title(line[0]);
        if starts.windows(2).any(is_near) {
            assert_eq!(listed[0].title.as_deref(), Some("The title"), "cut at {length}");
        }
    }
}

#[test]
fn a_flipped_byte_costs_at_most_its_line() {
    let home = Home::new();
    let bytes = recorded(&home, 12);
    let starts = starts(&bytes);
    let mut seed = 1_u64;
    for at in (0..bytes.len()).step_by(step() / 2 + 1) {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (seed >> 60 & 7);
        let loaded = home.load(&damaged);
        let line = starts.partition_point(|start| *start <= at) - 1;
        check_others_kept(&bytes, &starts, line, &loaded);
    }
}

#[test]
fn garbage_and_empty_pages_cost_at_most_the_line_they_stand_in() {
    let home = Home::new();
    let bytes = recorded(&home, 12);
    let starts = starts(&bytes);
    for (round, at) in (0..bytes.len()).step_by(step()).enumerate() {
        let page = match round % 3 {
            0 => vec![0; 4096],
            1 => b"\n{\"type\":\"user\",\"message\":12}\nnot json at all\n\xff\xfe\n".to_vec(),
            _ => b"}]\"\x80{[".to_vec(),
        };
        let damaged = [&bytes[..at], &page, &bytes[at..]].concat();
        let loaded = home.load(&damaged);
        let line = starts.partition_point(|start| *start <= at) - 1;
        check_others_kept(&bytes, &starts, line, &loaded);
    }
}

#[test]
fn lines_that_stand_there_twice_count_once() {
    let home = Home::new();
    let bytes = recorded(&home, 6);
    let whole = home.load(&bytes);
    let starts = starts(&bytes);
    for pair in starts.windows(2) {
        let (before, line) = (&bytes[..pair[1]], &bytes[pair[0]..pair[1]]);
        let loaded = home.load(&[before, line, &bytes[pair[1]..]].concat());
        assert_eq!(loaded.state, whole.state, "{}", String::from_utf8_lossy(line));
    }
    let all = home.load(&[&bytes[..], &bytes[..]].concat());
    assert_eq!(all.state, whole.state);
    assert!(all.repeated > 50, "and it is told");
}

/// Whatever is said in other lines is in the conversation still.
#[track_caller]
fn check_others_kept(bytes: &[u8], starts: &[usize], damaged: usize, loaded: &Loaded) {
    let conversation = serde_json::to_string(&loaded.state.messages()).unwrap();
    for (number, pair) in starts.windows(2).enumerate() {
        let line = String::from_utf8_lossy(&bytes[pair[0]..pair[1]]);
        let is_message = line.contains("\"type\":\"user\"") || line.contains("\"type\":\"assistant\"");
        // A result counts only with its call, and the damaged line may hold that.
        let is_result = line.contains("tool_result");
        let Some(mark) = line.find('«').filter(|_| is_message && !is_result && number != damaged) else {
            continue;
        };
        let mark = &line[mark..mark + line[mark..].find('»').unwrap()];
        assert!(conversation.contains(mark), "line {damaged} is damaged and {mark} is lost");
    }
}
