//! A session's file cut off, flipped and written into: every command works on it, says what is lost, and spares
//! every line that was not hit.

use crate::stage::Stage;
use std::{collections::BTreeSet, path::PathBuf};

const ID: &str = "11111111-2222-4333-8444-555555555555";

/// What is said of a line that is lost, and of one that is there twice, when a session is resumed.
const LOST: &str = "cannot be read and was left out";
const TWICE: &str = "there twice and counts once";

const WORK: &str = r#"
[[turn]]
steps = [
    { thinking = "hm" },
    { text = "now then" },
    { call = "Write", input = { file_path = "new.txt", content = "new\n" } },
    { call = "Read", input = { file_path = "a.txt" } },
    { call = "Bash", input = { command = "echo more >> b.txt" } },
]
[[turn]]
steps = [{ text = "first done" }]
[[turn]]
wire = { repeat = 99 }
steps = [{ text = "on it goes" }]
"#;

struct Damaged {
    stage: Stage,
    path: PathBuf,
    whole: Vec<u8>,
}

impl Damaged {
    /// A session of two turns with effects.
    fn new() -> Self {
        let stage = Stage::new(WORK);
        stage.run(&["-p", "begin", "--session-id", ID, "--allowedTools", "Bash,Write"]).check_ok();
        stage.run(&["-p", "go on", "--resume", ID]).check_ok();
        let path = stage.transcripts().into_iter().find(|path| path.is_file()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        Self { stage, path, whole }
    }

    /// Where a line of the whole file begins and ends, its newline included; the line is the first with this text.
    fn line(&self, text: &str) -> (usize, usize) {
        let mut begin = 0;
        for line in self.whole.split_inclusive(|byte| *byte == b'\n') {
            if String::from_utf8_lossy(line).contains(text) {
                return (begin, begin + line.len());
            }
            begin += line.len();
        }
        panic!("no line has {text}");
    }

    /// Uses the session with this file in every way.
    #[track_caller]
    fn check(&self, case: &str, bytes: &[u8], told: &str) {
        std::fs::write(&self.path, bytes).unwrap();
        let run = |words: &[&str]| self.stage.run(words);
        let listed = run(&["session", "list", "--json"]);
        assert!(listed.check_ok().stdout.contains(ID), "{case}: {}", listed.stdout);
        assert!(!run(&["session", "show", ID]).check_ok().stdout.is_empty(), "{case}");
        let found = run(&["session", "fsck", ID]);
        assert_eq!(found.code, Some(1), "{case}: {}", found.stdout);
        assert_eq!(std::fs::read(&self.path).unwrap(), bytes, "{case}: a look changes nothing");
        let resumed = run(&["-p", "once more", "--resume", ID]);
        assert_eq!(resumed.check_ok().stdout, "on it goes\n", "{case}");
        assert!(resumed.stderr.contains(told), "{case}: {}", resumed.stderr);
        self.stage.server.assert_valid_histories();
        run(&["session", "fsck", "--repair"]).check_ok();
        let sound = run(&["session", "fsck"]);
        assert!(sound.check_ok().stdout.contains("1 session, 0 damaged"), "{case}: {}", sound.stdout);
        self.check_spared(case, bytes);
    }

    /// Lines that were not hit stand in the mended file as they were.
    #[track_caller]
    fn check_spared(&self, case: &str, bytes: &[u8]) {
        let lines = |bytes: &[u8]| -> BTreeSet<Vec<u8>> {
            bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
        };
        let (whole, damaged, mended) =
            (lines(&self.whole), lines(bytes), lines(&std::fs::read(&self.path).unwrap()));
        let lost: Vec<_> = whole.intersection(&damaged).filter(|line| !mended.contains(*line)).collect();
        let lost: Vec<_> = lost.into_iter().map(|line| String::from_utf8_lossy(line)).collect();
        assert!(lost.is_empty(), "{case}: {lost:?}");
    }
}

#[test]
fn a_file_that_was_cut_off() {
    let damaged = Damaged::new();
    let (call, result) = (damaged.line("echo more"), damaged.line("tool_result"));
    let cuts = [
        ("within the last line", damaged.whole.len() - 20),
        ("within a call", call.0 + (call.1 - call.0) / 2),
        ("within a result", result.0 + 1),
        ("within the first answer", damaged.line("\"thinking\"").0 + 30),
    ];
    for (case, at) in cuts {
        damaged.check(case, &damaged.whole[..at], LOST);
    }
    // Nothing is left to list or to show, and still nobody is turned away.
    std::fs::write(&damaged.path, &damaged.whole[..30]).unwrap();
    let resumed = damaged.stage.run(&["-p", "once more", "--resume", ID]);
    assert!(resumed.check_ok().stderr.contains(LOST), "{}", resumed.stderr);
}

#[test]
fn bytes_that_were_flipped() {
    let damaged = Damaged::new();
    for (case, place) in [
        ("the beginning of a prompt", damaged.line("begin").0),
        ("the end of a call", damaged.line("echo more").1 - 2),
        ("the newline behind a result", damaged.line("tool_result").1 - 1),
    ] {
        let mut bytes = damaged.whole.clone();
        bytes[place] ^= 0x81;
        damaged.check(case, &bytes, LOST);
    }
}

#[test]
fn bytes_that_do_not_belong_there() {
    let damaged = Damaged::new();
    let (begin, end) = damaged.line("first done");
    let again = &damaged.whole[begin..end];
    let page = [0; 4096];
    for (case, at, more, told) in [
        ("garbage", begin, &b"\xff\xfe no line of ours\n"[..], LOST),
        ("garbage within a line", begin + 40, b"\n\x80{", LOST),
        ("a page that was never written", damaged.whole.len(), &page, LOST),
        ("a line twice", damaged.whole.len(), again, TWICE),
    ] {
        let bytes = [&damaged.whole[..at], more, &damaged.whole[at..]].concat();
        damaged.check(case, &bytes, told);
    }
}
