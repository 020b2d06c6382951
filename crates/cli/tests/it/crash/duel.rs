//! Two processes that reach for one session again and again, and are killed at it: what either was seen to say is
//! on record once, the lines of one never stand among those of the other, and who loses is told to whom.
//!
//! `OSTLER_DUEL_ROUNDS` says how often, `OSTLER_DUEL_SEED` from which seed the moments come.

use crate::stage::Stage;
use ostler_proto::Json;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read as _,
    path::PathBuf,
    process::Child,
    time::{Duration, Instant},
};

const ID: &str = "11111111-2222-4333-8444-555555555555";
const ROUNDS: usize = 12;

const TALK: &str = r#"
[[turn]]
wire = { repeat = 100000 }
steps = [{ pause_ms = 3 }, { text = "you said {{prompt}}" }, { pause_ms = 3 }]
"#;

/// One of the two, when it was over.
struct Fighter {
    word: String,
    pid: u32,
    was_killed: bool,
    frames: Vec<Json>,
    stderr: String,
    code: Option<i32>,
}

/// What happened, to see that something did.
#[derive(Debug, Default)]
struct Tally {
    won: usize,
    told: usize,
    killed: usize,
    killed_with_words_out: usize,
}

/// What was seen so far.
#[derive(Default)]
struct Seen {
    /// Lines that a consumer was shown, and in which run.
    lines: BTreeMap<String, String>,
    /// Words of runs that came to their end.
    finished: Vec<String>,
    /// Words of runs that were told that somebody else has the session.
    refused: Vec<String>,
}

#[test]
fn two_processes_and_kills_leave_one_history() {
    let (rounds, first) = (number("OSTLER_DUEL_ROUNDS", ROUNDS), number("OSTLER_DUEL_SEED", 1));
    let stage = Stage::new(TALK);
    let began = Instant::now();
    stage.run(&["-p", "word-0", "--session-id", ID]).check_ok();
    // Kills come at any moment of a run, however long that takes here.
    let longest = 2 * began.elapsed();
    let mut random = fastrand::Rng::with_seed(u64::try_from(first).unwrap());
    let (mut seen, mut tally) = (Seen::default(), Tally::default());
    for round in 1..=rounds {
        let fighters = fight(&stage, round, longest, &mut random);
        check_told(&fighters, &mut tally);
        seen.add(&fighters);
        check_record(&stage, &seen);
    }
    eprintln!("{tally:?}");
    assert!(tally.won > 0 && tally.told > 0 && tally.killed > 0, "nothing happened: {tally:?}");
    stage.run(&["-p", "and all?", "--resume", ID]).check_ok();
    let last = stage.server.requests().last().unwrap().body_json().to_string();
    for word in &seen.finished {
        assert_eq!(last.matches(&format!("\"{word}\"")).count(), 1, "{word} in {last}");
    }
    stage.server.assert_valid_histories();
    assert_eq!(stage.run(&["session", "list", "--json"]).check_ok().stdout.lines().count(), 1);
}

/// Both start at once; one, both or none of them are killed.
fn fight(stage: &Stage, round: usize, longest: Duration, random: &mut fastrand::Rng) -> Vec<Fighter> {
    let start = |side: &str, which: &[&str]| -> (String, Child) {
        let word = format!("word-{round}-{side}");
        let words = ["-p", &word, "--output-format", "stream-json", "--verbose", "--replay-user-messages"];
        let child = stage.spawn(&[&words, which].concat());
        (word, child)
    };
    let mut both = [start("a", &["--resume", ID]), start("b", &["--continue"])];
    let mut killed = [false, false];
    let moment = longest.mul_f64(random.f64());
    if random.u8(..3) > 0 {
        std::thread::sleep(moment);
        let which = random.usize(..2);
        for at in if random.u8(..4) == 0 { vec![0, 1] } else { vec![which] } {
            killed[at] = both[at].1.try_wait().unwrap().is_none();
            // It may end by itself right now, which is no matter.
            let _ = both[at].1.kill();
        }
    }
    both.into_iter().zip(killed).map(|((word, child), was_killed)| end(word, child, was_killed)).collect()
}

fn end(word: String, mut child: Child, was_killed: bool) -> Fighter {
    let (mut stdout, mut stderr) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let code = child.wait().unwrap().code();
    let whole = stdout.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let frames = whole.map(|line| serde_json::from_str(line).unwrap()).collect();
    Fighter { word, pid: child.id(), was_killed: was_killed && code.is_none(), frames, stderr, code }
}

/// Who was neither killed nor done was told that the other has it.
#[track_caller]
fn check_told(fighters: &[Fighter], tally: &mut Tally) {
    for (fighter, other) in fighters.iter().zip(fighters.iter().rev()) {
        tally.killed += usize::from(fighter.was_killed);
        tally.killed_with_words_out += usize::from(fighter.was_killed && !fighter.frames.is_empty());
        if fighter.was_killed {
            continue;
        }
        if fighter.code == Some(0) {
            tally.won += 1;
            continue;
        }
        let told = format!("open in another process (process {} on ", other.pid);
        assert!(fighter.stderr.contains(&told), "{told} … in {}", fighter.stderr);
        assert!(fighter.stderr.contains("--fork-session"), "{}", fighter.stderr);
        tally.told += 1;
    }
}

impl Seen {
    fn add(&mut self, fighters: &[Fighter]) {
        for fighter in fighters {
            let told = fighter.frames.iter().filter(|frame| {
                frame["type"] == "assistant" || (frame["type"] == "user" && frame["uuid"].is_string())
            });
            self.lines.extend(told.map(|frame| (text(&frame["uuid"]), fighter.word.clone())));
            match fighter.code {
                Some(0) => self.finished.push(fighter.word.clone()),
                Some(_) => self.refused.push(fighter.word.clone()),
                None => {}
            }
        }
    }
}

/// Each line that was seen is there once; lines of a run stand together, each behind the one before it.
#[track_caller]
fn check_record(stage: &Stage, seen: &Seen) {
    let bytes = std::fs::read(transcript(stage)).unwrap();
    let lines = String::from_utf8_lossy(&bytes);
    // A kill may tear a line; that it did is seen in nothing else.
    let lines: Vec<Json> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let ids: Vec<String> = lines.iter().filter_map(|line| line["uuid"].as_str().map(str::to_owned)).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "no line stands there twice");
    for (line, word) in &seen.lines {
        assert!(ids.contains(line), "{line} of {word} was seen and is not on record");
    }
    let (mut run, mut over, mut leaf) = (String::new(), BTreeSet::new(), Json::Null);
    for line in lines.iter().filter(|line| line["type"] == "user" || line["type"] == "assistant") {
        assert_eq!(line["parentUuid"], leaf, "the history parts at {line}");
        leaf = line["uuid"].clone();
        let prompt = line["message"]["content"].as_str().filter(|words| words.starts_with("word-"));
        let of = prompt.or_else(|| seen.lines.get(leaf.as_str()?).map(String::as_str));
        if let Some(of) = of.filter(|of| *of != run) {
            over.insert(std::mem::replace(&mut run, of.to_owned()));
            assert!(!over.contains(of), "lines of {of} stand among those of others");
            assert!(!seen.refused.iter().any(|word| word == of), "{of} had no right to write");
        }
    }
    for word in &seen.finished {
        let prompts = lines.iter().filter(|line| line["message"]["content"] == word.as_str());
        assert_eq!(prompts.count(), 1, "{word}");
    }
}

fn transcript(stage: &Stage) -> PathBuf {
    stage.transcripts().into_iter().find(|path| path.ends_with(format!("{ID}.jsonl"))).unwrap()
}

fn text(value: &Json) -> String {
    value.as_str().unwrap().to_owned()
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |value| value.parse().unwrap())
}
