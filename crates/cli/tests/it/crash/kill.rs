//! `kill -9` at random moments of runs with edits and commands: what was seen on stdout is on disk, each effect
//! happened at most once and not before its call was on record, the session goes on, and all of it can be undone.
//!
//! `OSTLER_CRASH_ROUNDS` says how many kills there are, `OSTLER_CRASH_SEED` from which seed their moments come.

use super::story::{self, TOOLS};
use crate::stage::Stage;
use ostler_proto::Json;
use ostler_testkit::process;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader, Read as _},
    path::PathBuf,
    process::ChildStdout,
    time::Duration,
};

const ID: &str = "11111111-2222-4333-8444-555555555555";
/// Kills where nobody says how many.
const ROUNDS: usize = 20;
/// Kills in the life of one session, at most.
const KILLS_A_SESSION: usize = 10;
/// Runs of one session, with room for those that end before they are killed.
const RUNS: usize = 30;
/// More frames than one turn of the story has.
const FRAMES_A_TURN: usize = 45;

/// When a run is killed: after so many frames, and a moment later.
#[derive(Debug, Clone, Copy)]
struct Moment {
    frames: usize,
    then: Duration,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Killed,
    ByItself,
}

/// One run as its consumer saw it.
struct Run {
    end: End,
    frames: Vec<Json>,
    stderr: String,
}

/// What a session's consumers have seen and what was found after each run.
#[derive(Default)]
struct Seen {
    /// The frames that told of entries, by the entry.
    entries: BTreeMap<String, Json>,
    /// The results, by the call.
    results: BTreeMap<String, String>,
    /// Calls that had no result on record when a run ended.
    cut_short: BTreeSet<String>,
}

/// What stands in the transcript.
#[derive(Default)]
struct OnRecord {
    entries: BTreeSet<String>,
    calls: BTreeSet<String>,
    results: BTreeSet<String>,
    torn_lines: usize,
}

/// What the kills hit.
#[derive(Debug, Default)]
struct Tally {
    kills: usize,
    before_anything_was_seen: usize,
    with_calls_open: usize,
    with_effects_unreported: usize,
    torn_lines: usize,
    entries_seen: usize,
    effects: usize,
}

#[test]
fn what_was_seen_survives_and_nothing_runs_twice() {
    let (rounds, first) = (number("OSTLER_CRASH_ROUNDS", ROUNDS), number("OSTLER_CRASH_SEED", 1));
    let mut tally = Tally::default();
    for seed in first.. {
        eprintln!("OSTLER_CRASH_SEED={seed} after {tally:?}");
        live_and_die(seed, &mut tally);
        if tally.kills >= rounds {
            break;
        }
    }
    eprintln!("{tally:?}");
    assert!(tally.with_calls_open > 0 && tally.effects > 0, "the kills hit nothing: {tally:?}");
}

/// One session that is killed again and again, and then left to come to an end.
fn live_and_die(seed: usize, tally: &mut Tally) {
    let stage = story::stage(RUNS * story::TURN);
    let mut random = fastrand::Rng::with_seed(u64::try_from(seed).unwrap());
    let mut witness = Seen::default();
    // Most of what can be undone wrongly is what a session does first, so some are killed once only.
    let most = random.usize(1..=KILLS_A_SESSION);
    let mut kills = 0;
    for _ in 0..RUNS {
        let moment = Moment::any(&mut random);
        let run = start(&stage, &mut random, Some(moment));
        let on_record = check(&stage, &mut witness, &run);
        if run.end == End::ByItself {
            continue;
        }
        kills += 1;
        tally.before_anything_was_seen += usize::from(run.frames.is_empty());
        let known = |call: &String| on_record.results.contains(call) || witness.cut_short.contains(call);
        tally.with_calls_open += usize::from(!on_record.calls.iter().all(known));
        let effects = story::effects(stage.repo.path());
        tally.with_effects_unreported += usize::from(!effects.keys().all(|(call, _)| known(call)));
        witness.cut_short.extend(on_record.calls.difference(&on_record.results).cloned());
        if kills == most {
            break;
        }
    }
    assert_eq!(kills, most, "runs ended before they could be killed");
    let run = start(&stage, &mut random, None);
    let on_record = check(&stage, &mut witness, &run);
    check_sound(&stage, &witness, &run);
    tally.kills += kills;
    tally.torn_lines += on_record.torn_lines;
    tally.entries_seen += witness.entries.len();
    tally.effects += story::effects(stage.repo.path()).len();
    check_undo(&stage);
}

impl Moment {
    /// Some start-ups are cut short, and the rest at any frame.
    fn any(random: &mut fastrand::Rng) -> Self {
        if random.u8(..8) == 0 {
            return Self { frames: 0, then: Duration::from_micros(random.u64(..100_000)) };
        }
        Self { frames: random.usize(1..FRAMES_A_TURN), then: Duration::from_micros(random.u64(..10_000)) }
    }
}

/// Starts or resumes the session and sees it to its end, which may be a violent one.
fn start(stage: &Stage, random: &mut fastrand::Rng, kill_at: Option<Moment>) -> Run {
    let mut words =
        vec!["-p", "go on", "--output-format", "stream-json", "--verbose", "--replay-user-messages"];
    words.extend(TOOLS);
    match transcript(stage) {
        None => words.extend(["--session-id", ID]),
        Some(_) if random.bool() => words.extend(["--resume", ID]),
        Some(_) => words.push("--continue"),
    }
    let mut child = stage.spawn(&words);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (mut frames, mut end) = (Vec::new(), End::ByItself);
    if let Some(moment) = kill_at {
        while frames.len() < moment.frames
            && let Some(frame) = next_frame(&mut stdout)
        {
            frames.push(frame);
        }
        std::thread::sleep(moment.then);
        if child.try_wait().unwrap().is_none() {
            child.kill().unwrap();
            end = End::Killed;
        }
    }
    // What was on its way when the kill came has left the process, and counts as seen.
    frames.extend(std::iter::from_fn(|| next_frame(&mut stdout)));
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    child.wait().unwrap();
    process::assert_none_running_in(stage.repo.path());
    Run { end, frames, stderr }
}

/// The next frame that came whole.
fn next_frame(stdout: &mut BufReader<ChildStdout>) -> Option<Json> {
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    line.ends_with('\n').then(|| serde_json::from_str(&line).unwrap())
}

/// Holds what was seen and what happened to the files against the transcript, after each run.
#[track_caller]
fn check(stage: &Stage, seen: &mut Seen, run: &Run) -> OnRecord {
    seen.add(run);
    let on_record = on_record(stage);
    for (entry, frame) in &seen.entries {
        assert!(on_record.entries.contains(entry), "it was seen and is not on record: {frame}");
    }
    let effects = story::effects(stage.repo.path());
    for ((call, file), times) in &effects {
        assert_eq!(*times, 1, "{call} took effect in {file} more than once");
        assert!(on_record.calls.contains(call), "{call} took effect and is not on record");
    }
    for call in seen.results.keys() {
        for file in story::marks(call) {
            assert!(effects.contains_key(&(call.clone(), *file)), "{call} was reported and is not in {file}");
        }
    }
    on_record
}

impl Seen {
    #[track_caller]
    fn add(&mut self, run: &Run) {
        let entries =
            run.frames.iter().filter(|frame| frame["type"] == "user" || frame["type"] == "assistant");
        for frame in entries {
            self.entries.insert(text(&frame["uuid"]), frame.clone());
            let result = &frame["message"]["content"][0];
            if result["type"] != "tool_result" {
                continue;
            }
            let call = text(&result["tool_use_id"]);
            if result["is_error"] == true {
                assert!(self.cut_short.contains(&call), "the story cannot go on: {result}");
            } else {
                self.results.insert(call, words(&result["content"]));
            }
        }
    }
}

fn on_record(stage: &Stage) -> OnRecord {
    let mut on_record = OnRecord::default();
    let Some(path) = transcript(stage) else { return on_record };
    for line in String::from_utf8_lossy(&std::fs::read(path).unwrap()).lines() {
        let Ok(line) = serde_json::from_str::<Json>(line) else {
            on_record.torn_lines += 1;
            continue;
        };
        on_record.entries.extend(line["uuid"].as_str().map(str::to_owned));
        let block = &line["message"]["content"][0];
        match block["type"].as_str() {
            Some("tool_use") => on_record.calls.insert(text(&block["id"])),
            Some("tool_result") => on_record.results.insert(text(&block["tool_use_id"])),
            Some(_) | None => continue,
        };
    }
    on_record
}

/// The session came to an end: the model knows all that was seen and what is unknown, and every view works.
#[track_caller]
fn check_sound(stage: &Stage, seen: &Seen, run: &Run) {
    let result = run.frames.last().unwrap_or_else(|| panic!("no frames: {}", run.stderr));
    assert_eq!(result["subtype"], "success", "{result} {}", run.stderr);
    stage.server.assert_no_failures();
    stage.server.assert_valid_histories();
    stage.server.assert_append_only();
    let told = told(&stage.server.requests().last().unwrap().body_json());
    for (call, content) in &seen.results {
        assert_eq!(told.get(call), Some(content), "what {call} gave");
    }
    for call in &seen.cut_short {
        let content = told.get(call).unwrap_or_else(|| panic!("{call} is gone"));
        assert!(content.contains("outcome unknown"), "{call} was cut short: {content}");
    }
    let (one, two) = (stage.repo.read("one.txt"), stage.repo.read("two.txt"));
    assert_eq!(one, two, "an edit of both files was left half done");
    let mut names: Vec<_> =
        stage.repo.path().read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(
        names,
        ["a.txt", "b.txt", "edits.txt", "one.txt", "two.txt", "words.txt"],
        "nothing is left over"
    );
    let listed = stage.run(&["session", "list", "--json"]);
    assert_eq!(listed.check_ok().stdout.lines().count(), 1, "{}", listed.stdout);
    assert!(stage.run(&["session", "show", ID]).check_ok().stdout.contains("go on"));
}

/// Whatever the kills hit, going back to before the first change leaves nothing of the session.
#[track_caller]
fn check_undo(stage: &Stage) {
    let listed = stage.run(&["rewind", "--list"]).check_ok().stdout.clone();
    // A prompt that was killed before it had any effect has no files to go back to.
    let has_files = |line: &&str| !line.contains("- changed");
    let first = listed.lines().skip(1).find(has_files).unwrap_or_else(|| panic!("no checkpoint: {listed}"));
    let rewound = stage.run(&["rewind", "--to", first.split_whitespace().next().unwrap(), "--force"]);
    let files = stage.repo.path().read_dir().unwrap().map(|file| file.unwrap().file_name());
    let files = files.map(|name| name.into_string().unwrap());
    let left: BTreeMap<String, String> = files.map(|name| (name.clone(), stage.repo.read(&name))).collect();
    let others = [("a.txt", "one\ntwo\nthree\n"), ("b.txt", "bee\n")];
    let before = story::FILES.map(|file| (file, story::beginning(file))).into_iter().chain(others);
    let before: BTreeMap<String, String> = before.map(|(file, text)| (file.into(), text.into())).collect();
    assert_eq!(left, before, "{listed}{}{}", rewound.stdout, rewound.stderr);
    rewound.check_ok();
}

/// The results in a request, by the call.
fn told(request: &Json) -> BTreeMap<String, String> {
    let messages = request["messages"].as_array().unwrap();
    let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let results = blocks.filter(|block| block["type"] == "tool_result");
    results.map(|block| (text(&block["tool_use_id"]), words(&block["content"]))).collect()
}

/// Content in its short form or in blocks.
fn words(content: &Json) -> String {
    match content.as_array() {
        None => text(content),
        Some(blocks) => blocks.iter().map(|block| text(&block["text"])).collect(),
    }
}

fn transcript(stage: &Stage) -> Option<PathBuf> {
    stage.transcripts().into_iter().find(|path| path.ends_with(format!("{ID}.jsonl")))
}

fn text(value: &Json) -> String {
    value.as_str().unwrap().to_owned()
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |value| value.parse().unwrap())
}
