//! Random edits of random files against a plain model of what they mean.

use crate::Scene;
use proptest::prelude::*;
use serde_json::json;

/// A character of a file; a newline may have a return before it.
type Unit = (char, bool);

#[derive(Debug, Clone)]
struct Step {
    old: String,
    new: String,
    replace_all: bool,
}

#[derive(Debug, Clone, Copy)]
enum Encoding {
    Utf8,
    Utf8Marked,
    Utf16Big,
    Utf16Little,
    Latin,
}

fn units(raw: &str) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for c in raw.chars() {
        match units.last_mut() {
            Some(last) if c == '\n' && *last == ('\r', false) => *last = ('\n', true),
            _ => units.push((c, false)),
        }
    }
    units
}

fn encode(units: &[Unit], encoding: Encoding) -> Vec<u8> {
    let raw: String = units
        .iter()
        .map(|(c, has_return)| if *has_return { format!("\r{c}") } else { c.to_string() })
        .collect();
    match encoding {
        Encoding::Utf8 => raw.into_bytes(),
        Encoding::Utf8Marked => format!("\u{FEFF}{raw}").into_bytes(),
        Encoding::Utf16Big => format!("\u{FEFF}{raw}").encode_utf16().flat_map(u16::to_be_bytes).collect(),
        Encoding::Utf16Little => format!("\u{FEFF}{raw}").encode_utf16().flat_map(u16::to_le_bytes).collect(),
        Encoding::Latin => raw.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect(),
    }
}

fn places(file: &[Unit], old: &[char]) -> Vec<usize> {
    let stands = |at: &usize| file[*at..].iter().map(|(c, _)| *c).take(old.len()).eq(old.iter().copied());
    (0..=file.len().saturating_sub(old.len())).filter(stands).collect()
}

/// Whether all lines of a file end with returns.
fn has_only_returns(file: &[Unit]) -> bool {
    let mut newlines = file.iter().filter(|(c, _)| *c == '\n').peekable();
    newlines.peek().is_some() && newlines.all(|(_, has_return)| *has_return)
}

/// Whether new lines at a place have returns: as most of those replaced, or else most of the line
/// itself, the one above and the one below; where no line is left, as the file had them.
fn returns_at(file: &[Unit], start: usize, end: usize, had_only: bool) -> bool {
    let newline = |range: std::ops::Range<usize>| range.filter(|at| file[*at].0 == '\n').collect::<Vec<_>>();
    let mut near = newline(start..end);
    if near.is_empty() {
        let after = newline(end..file.len());
        near.extend(after.first());
        near.extend(newline(0..start).last());
        near.extend(after.get(1));
    }
    if near.is_empty() {
        return had_only;
    }
    let returns = near.iter().filter(|at| file[**at].1).count();
    2 * returns > near.len() || (2 * returns == near.len() && near.first().is_some_and(|at| file[*at].1))
}

/// What a step means.
enum Meaning {
    /// It must fail.
    Failure,
    /// The model does not say which line ends survive where lines with different ends are replaced
    /// by several.
    Unsaid,
    File(Vec<Unit>),
}

fn model(file: &[Unit], step: &Step, had_only: bool) -> Meaning {
    let old: Vec<char> = step.old.chars().collect();
    let all = places(file, &old);
    if step.old == step.new || all.is_empty() || (!step.replace_all && all.len() > 1) {
        return Meaning::Failure;
    }
    let (mut edited, mut done) = (Vec::new(), 0);
    for start in all {
        if start < done {
            continue;
        }
        let end = start + old.len();
        let replaced: Vec<bool> =
            file[start..end].iter().filter(|(c, _)| *c == '\n').map(|(_, r)| *r).collect();
        if replaced.windows(2).any(|pair| pair[0] != pair[1]) && step.new.contains('\n') {
            return Meaning::Unsaid;
        }
        edited.extend(&file[done..start]);
        let has_return = returns_at(file, start, end, had_only);
        edited.extend(step.new.chars().map(|c| (c, c == '\n' && has_return)));
        done = end;
    }
    edited.extend(&file[done..]);
    Meaning::File(edited)
}

fn file() -> impl Strategy<Value = String> {
    let line = "[ab \t]{0,4}(é )?";
    let ending = prop_oneof![Just("\n"), Just("\r\n")];
    let mixed = prop::collection::vec((line, ending), 1..12)
        .prop_map(|lines| lines.into_iter().map(|(line, end)| line + end).collect::<String>());
    let uniform = (prop::collection::vec(line, 1..12), any::<bool>())
        .prop_map(|(lines, crlf)| lines.join(if crlf { "\r\n" } else { "\n" }));
    prop_oneof![mixed, uniform].prop_filter("an empty file has nothing to edit", |raw| !raw.is_empty())
}

fn steps() -> impl Strategy<Value = Vec<(usize, usize, String, bool)>> {
    prop::collection::vec((0usize..40, 1usize..7, "[XY\n]{0,4}", any::<bool>()), 1..5)
}

fn encoding() -> impl Strategy<Value = Encoding> {
    prop_oneof![
        Just(Encoding::Utf8),
        Just(Encoding::Utf8Marked),
        Just(Encoding::Utf16Big),
        Just(Encoding::Utf16Little),
        Just(Encoding::Latin)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_does_what_it_says_or_nothing(raw in file(), wanted in steps(), encoding in encoding()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let scene = Scene::new();
        let start = units(&raw);
        let had_only = has_only_returns(&start);
        let (mut now, mut calls) = (Some(start.clone()), Vec::new());
        let mut said = start.clone();
        for (at, length, new, replace_all) in wanted {
            let old: String = said.iter().map(|(c, _)| *c).skip(at).take(length).collect();
            // What a non-marked old encoding is taken for depends on its letters; these stay.
            if old.is_empty() || old.contains('é') {
                continue;
            }
            let step = Step { old, new, replace_all };
            now = match now.as_ref().map_or(Meaning::Failure, |now| model(now, &step, had_only)) {
                Meaning::File(edited) => {
                    said.clone_from(&edited);
                    Some(edited)
                }
                Meaning::Unsaid => return Ok(()),
                Meaning::Failure => None,
            };
            calls.push(step);
        }
        if calls.is_empty() {
            return Ok(());
        }
        // A batch that ends where it began is refused.
        let expected = now.filter(|now| *now != start).unwrap_or_else(|| start.clone());
        scene.write("f", encode(&start, encoding));
        let edits: Vec<_> = calls
            .iter()
            .map(|step| json!({"old_string": step.old, "new_string": step.new, "replace_all": step.replace_all}))
            .collect();
        runtime.block_on(async {
            scene.ok("Read", json!({"file_path": "f"})).await;
            let result = scene.call("MultiEdit", json!({"file_path": "f", "edits": edits})).await;
            let held = scene.bytes("f");
            prop_assert_eq!(&held, &encode(&expected, encoding), "{:?} {:?}", calls, result);
            prop_assert_eq!(result.is_ok(), expected != start, "{:?}", result);
            // What a program is told to have stood there is what stood there.
            if let Ok(output) = result {
                let mark = if matches!(encoding, Encoding::Utf8 | Encoding::Latin) { "" } else { "\u{FEFF}" };
                prop_assert_eq!(&output.structured["originalFile"], &json!(format!("{mark}{raw}")));
            }
            Ok(())
        })?;
    }

    /// One edit of a long file is worked out on a few of its lines only; a batch of two that does the same
    /// is worked out on all of them.
    #[test]
    fn an_edit_of_a_long_file_is_that_of_a_short_one(
        at in 0usize..1200,
        length in 1usize..300,
        new in "[XY\n]{0,6}",
        crlf in any::<bool>(),
        marked in any::<bool>(),
        last_newline in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let lines: Vec<String> = (0..1200).map(|n| format!("line {n} of a file")).collect();
        let text = lines.join("\n") + if last_newline { "\n" } else { "" };
        let start = text.match_indices("line ").nth(at).map_or(0, |(start, _)| start);
        let old = &text[start..(start + length).min(text.len())];
        prop_assume!(text.matches(old).count() == 1);
        let as_written = |text: &str| {
            let text = if crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
            if marked { format!("\u{FEFF}{text}") } else { text }
        };
        let expected = as_written(&text.replacen(old, &new, 1));
        let (long, other) = (Scene::new(), Scene::new());
        runtime.block_on(async {
            for scene in [&long, &other] {
                scene.write("f", as_written(&text));
                scene.ok("Read", json!({"file_path": "f"})).await;
            }
            let edit = json!({"file_path": "f", "old_string": old, "new_string": new});
            let there = json!({"old_string": old, "new_string": "somewhere else"});
            let back = json!({"old_string": "somewhere else", "new_string": new});
            let edits = json!({"file_path": "f", "edits": [there, back]});
            let one = long.call("Edit", edit).await.unwrap();
            let two = other.call("MultiEdit", edits).await.unwrap();
            prop_assert!(long.bytes("f") == expected.as_bytes() && other.bytes("f") == expected.as_bytes());
            for key in ["originalFile", "structuredPatch"] {
                prop_assert_eq!(&one.structured[key], &two.structured[key]);
            }
            let said = |output: &ostler_proto::ToolOutput| {
                crate::text(output).split_once('\n').map(|(_, rest)| rest.to_owned())
            };
            prop_assert_eq!(said(&one), said(&two));
            // What is known of it afterwards is the same, too: the next edit goes through on both.
            let next = json!({"file_path": "f", "old_string": "line 7 of", "new_string": "LINE 7 of"});
            let (a, b) = (long.call("Edit", next.clone()).await, other.call("Edit", next).await);
            prop_assert_eq!(a.is_ok(), b.is_ok());
            Ok(())
        })?;
    }
}
