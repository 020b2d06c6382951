//! A model at work whose every call with an effect leaves its own id in a file, so that a look at the files tells
//! which calls took effect, and how often.

use crate::stage::Stage;
use std::{collections::BTreeMap, path::Path};

/// What may run without a question.
pub(super) const TOOLS: [&str; 2] = ["--allowedTools", "Bash,Read,Edit,MultiEdit"];

/// Where calls leave their ids.
pub(super) const FILES: [&str; 4] = ["words.txt", "edits.txt", "one.txt", "two.txt"];

/// Every so many answers the turn ends.
pub(super) const TURN: usize = 3;

/// A stage where the model works through so many answers.
pub(super) fn stage(answers: usize) -> Stage {
    let stage = Stage::new(&(1..=answers).map(answer).collect::<String>());
    // Who is killed leaves the folder for its commands' temporary files behind.
    let temporary = stage.home.join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let stage = stage.with_env("TMPDIR", temporary.to_str().unwrap());
    for file in FILES {
        stage.repo.write(file, beginning(file));
    }
    stage
}

/// What stands in such a file before the first call.
pub(super) fn beginning(file: &str) -> &'static str {
    if file == "words.txt" { "" } else { "end\n" }
}

/// One answer: calls of all kinds with moments between them, or the end of a turn.
fn answer(number: usize) -> String {
    if number.is_multiple_of(TURN) {
        return format!("[[turn]]\nsteps = [{{ text = 'that was part {number}' }}]\n");
    }
    let edit = |word: &str| format!("old_string = \"end\\n\", new_string = \"{word}-{number}\\nend\\n\"");
    format!(
        r#"
[[turn]]
steps = [
    {{ text = "part {number} begins" }},
    {{ call = "Bash", id = "bash-{number}", input = {{ command = "echo bash-{number} >> words.txt; echo heard bash-{number}" }} }},
    {{ pause_ms = 4 }},
    {{ call = "Read", input = {{ file_path = "edits.txt" }} }},
    {{ call = "Edit", id = "edit-{number}", input = {{ file_path = "edits.txt", {edits} }} }},
    {{ pause_ms = 4 }},
    {{ call = "Bash", id = "long-{number}", input = {{ command = "seq 4000; echo long-{number} >> words.txt" }}, over_ms = 6, pieces = 3 }},
    {{ call = "Read", input = {{ file_path = "one.txt" }} }},
    {{ call = "Read", input = {{ file_path = "two.txt" }} }},
    {{ call = "MultiEdit", id = "both-{number}", input = {{ files = [
        {{ file_path = "one.txt", edits = [{{ {both} }}] }},
        {{ file_path = "two.txt", edits = [{{ {both} }}] }},
    ] }} }},
]
"#,
        edits = edit("edit"),
        both = edit("both"),
    )
}

/// The files in which a call leaves its id, if it does that.
pub(super) fn marks(call: &str) -> &'static [&'static str] {
    match call.split('-').next() {
        Some("bash" | "long") => &["words.txt"],
        Some("edit") => &["edits.txt"],
        Some("both") => &["one.txt", "two.txt"],
        Some(_) | None => &[],
    }
}

/// How often each id stands in each file. Panics where a file is not whole.
#[track_caller]
pub(super) fn effects(project: &Path) -> BTreeMap<(String, &'static str), usize> {
    let mut effects = BTreeMap::new();
    for file in FILES {
        let text = std::fs::read_to_string(project.join(file)).unwrap();
        let text = if file == "words.txt" { text.as_str() } else { text.strip_suffix("end\n").unwrap() };
        assert!(text.is_empty() || text.ends_with('\n'), "{file} is torn: {text:?}");
        for line in text.lines() {
            *effects.entry((line.to_owned(), file)).or_default() += 1;
        }
    }
    effects
}
