//! `replay(record(run)) == run` for sessions in which anything happens at any time: calls side by side, questions
//! answered either way, interrupts, words in between, failing servers, broken streams.

use super::{check_same, partner::Partner};
use crate::stage::Stage;
use ostler_proto::Json;
use ostler_testkit::process;
use proptest::prelude::*;
use serde_json::json;

/// What the partner does when so many frames came.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Interrupt,
    Say,
    SayAndInterrupt,
    ChangeMode,
    AskContext,
}

/// What the partner says to questions, in turn.
#[derive(Debug, Clone, Copy)]
enum Word {
    Yes,
    No,
    Stop,
    Other,
}

/// A turn of the model's: an answer, a failure, or calls of all kinds.
fn turn() -> impl Strategy<Value = String> {
    let call = prop_oneof![
        Just("{ call = 'Read', input = { file_path = '{{cwd}}/a.txt' } }"),
        Just("{ call = 'Read', input = { file_path = 'nowhere' } }"),
        Just("{ call = 'Glob', input = { pattern = '*.txt' } }"),
        Just("{ call = 'Write', input = { file_path = '{{cwd}}/w.txt', content = 'x' } }"),
        Just(
            "{ call = 'Edit', input = { file_path = '{{cwd}}/a.txt', old_string = 'two', new_string = '2' } }"
        ),
        Just("{ call = 'Bash', input = { command = 'echo a; exit 3' } }"),
        Just("{ call = 'Bash', input = { command = 'sleep 0.05; echo slow' } }"),
        Just("{ call = 'Bash', input = { command = 'sleep 60', run_in_background = true } }"),
        Just("{ call = 'Bash', input = { command = 'rm b.txt' } }"),
        Just("{ call = 'TodoWrite', raw = '{\"todos\": 7}' }"),
        Just("{ call = 'NoSuchTool', input = {} }"),
        Just("{ call = 'Read', raw = '{\"file' }"),
        Just("{ text = 'words' }"),
        Just("{ text = 'in many small pieces', pieces = 8, over_ms = 40 }"),
        Just("{ thinking = 'thoughts' }"),
    ];
    let wire = prop_oneof![
        5 => Just(""),
        1 => Just("wire = { status = 500, headers = { retry-after-ms = '1' } }\n"),
        1 => Just("wire = { status = 529, headers = { retry-after-ms = '20' } }\n"),
        1 => Just("wire = { status = 400 }\n"),
        1 => Just("wire = { cut = { after_steps = 1, then = 'truncate' } }\n"),
        1 => Just("wire = { cut = { after_bytes = 300, then = 'reset' } }\n"),
        1 => Just("stop = 'max_tokens'\n"),
        1 => Just("stop = 'refusal'\n"),
    ];
    (wire, prop::collection::vec(call, 1..5))
        .prop_map(|(wire, steps)| format!("[[turn]]\n{wire}steps = [{}]\n", steps.join(", ")))
}

fn deed() -> impl Strategy<Value = (usize, Deed)> {
    let deed = prop_oneof![
        2 => Just(Deed::Interrupt),
        2 => Just(Deed::Say),
        1 => Just(Deed::SayAndInterrupt),
        1 => Just(Deed::ChangeMode),
        1 => Just(Deed::AskContext),
    ];
    (0..14usize, deed)
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![3 => Just(Word::Yes), 2 => Just(Word::No), 1 => Just(Word::Stop), 1 => Just(Word::Other)]
}

/// Prompts twice and does what was thought up; reads to the end of both turns, whatever is still queued then.
fn converse(stage: &Stage, deeds: &[(usize, Deed)], words: &[Word]) {
    let mut partner = Partner::start(stage, &["--max-turns", "8", "--allowedTools", "Read"]);
    let (mut frames, mut results, mut answered) = (0, 0, 0);
    partner.say("go", "5e551017-0000-4000-8000-0000000000a1");
    while results < 2 {
        for (_, deed) in deeds.iter().filter(|(at, _)| *at == frames) {
            act(&mut partner, *deed);
        }
        let Some(frame) = partner.hear() else { break };
        frames += 1;
        if frame["request"]["subtype"] == "can_use_tool" {
            let word = words[answered % words.len()];
            answered += 1;
            partner.answer(&frame, &in_frames(word, &frame["request"]["input"]));
        }
        if frame["type"] == "result" {
            results += 1;
            if results == 1 {
                partner.say("more", "5e551017-0000-4000-8000-0000000000a2");
            }
        }
    }
    partner.leave();
}

fn act(partner: &mut Partner, deed: Deed) {
    match deed {
        Deed::Interrupt => partner.interrupt(),
        Deed::Say => partner.say("by the way", &uuid()),
        Deed::SayAndInterrupt => {
            partner.say("no, this", &uuid());
            partner.interrupt();
        }
        Deed::ChangeMode => {
            partner.request(&json!({"subtype": "set_permission_mode", "mode": "acceptEdits"}));
        }
        Deed::AskContext => partner.request(&json!({"subtype": "get_context_usage"})),
    }
}

fn uuid() -> String {
    format!("5e551017-0000-4000-8000-{:012x}", fastrand::u64(..1 << 40))
}

fn in_frames(word: Word, input: &Json) -> Json {
    match word {
        Word::Yes => json!({"behavior": "allow", "updatedInput": input}),
        Word::No => json!({"behavior": "deny", "message": "rather not"}),
        Word::Stop => json!({"behavior": "deny", "message": "stop it", "interrupt": true}),
        Word::Other => {
            let mut input = input.clone();
            if input.get("command").is_some() {
                input["command"] = json!("echo instead");
            }
            json!({"behavior": "allow", "updatedInput": input})
        }
    }
}

/// How many sessions are thought up; more on demand.
fn cases() -> u32 {
    std::env::var("OSTLER_REPLAY_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_comes_to_the_same(
        turns in prop::collection::vec(turn(), 1..5),
        deeds in prop::collection::vec(deed(), 0..4),
        words in prop::collection::vec(word(), 1..4),
        has_hooks: bool,
    ) {
        let script = format!("{}[[turn]]\nwire = {{ repeat = 50 }}\nsteps = [{{ text = 'end' }}]", turns.concat());
        let stage = Stage::new(&script);
        if has_hooks {
            let deny = "grep -q b.txt && { echo no >&2; exit 2; }; exit 0";
            stage.home.write(".ostler/settings.json", json!({"hooks": {
                "PreToolUse": [{"hooks": [{"type": "command", "command": deny}]}],
                "SessionStart": [{"hooks": [{"type": "command", "command": "echo welcome"}]}],
            }}).to_string());
        }
        converse(&stage, &deeds, &words);
        process::assert_none_running_in(stage.repo.path());
        check_same(&stage, 1);
    }
}
