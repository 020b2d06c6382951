//! Going back: the prompts of a session beside what was changed after each, and files put back to before one.
//! One code for the command in a session and for the program's own; which of the two asks it does not know.

use crate::session::State;
use ostler_control::{
    checkpoint::{CheckpointError, Force, Kind, Lines, Listed, OperationId, Rewound, Why},
    executor::Kept,
};
use ostler_proto::{EntryId, Trial};
use std::path::Path;

/// What goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Files.
    Code,
    /// What was said.
    Conversation,
    /// All of it.
    Both,
}

/// One prompt that can be gone back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The prompt.
    pub prompt: Option<EntryId>,
    /// Its words, begun.
    pub title: String,
    /// Its checkpoint; none where no files were kept.
    pub checkpoint: Option<Checkpoint>,
    /// Whether it is part of the conversation as it stands.
    pub is_said: bool,
}

/// The checkpoint of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// The state before this operation is meant.
    pub operation: OperationId,
    /// When it was made, in milliseconds since 1970.
    pub made: i64,
    /// How many changes were made until the next one.
    pub changed: usize,
}

/// Files on their way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// The state before this operation is meant.
    pub to: OperationId,
    /// What happens to changes of others.
    pub force: Force,
    /// Whether anything is changed.
    pub trial: Trial,
}

impl What {
    /// Whether files go back.
    pub fn has_code(self) -> bool {
        match self {
            Self::Code | Self::Both => true,
            Self::Conversation => false,
        }
    }

    /// Whether the conversation goes back.
    pub fn has_conversation(self) -> bool {
        match self {
            Self::Conversation | Self::Both => true,
            Self::Code => false,
        }
    }
}

/// The prompts of a session, oldest first: those the checkpoints know and those of the conversation. A prompt that
/// was cut off by a rewind is still there, because its files can be had back.
pub fn rows(listed: Vec<Listed>, state: &State) -> Vec<Row> {
    let said: Vec<(&EntryId, &str)> = state.prompts().collect();
    let unkept = |&(prompt, title): &(&EntryId, &str)| Row {
        prompt: Some(prompt.clone()),
        title: title.to_owned(),
        checkpoint: None,
        is_said: true,
    };
    let mut rows = Vec::new();
    let mut next = 0;
    for Listed { operation, changed } in listed {
        let place = said.iter().position(|(prompt, _)| Some(*prompt) == operation.prompt.as_ref());
        if let Some(place) = place.filter(|place| *place >= next) {
            rows.extend(said[next..place].iter().map(unkept));
            next = place + 1;
        }
        let title = operation.title.as_deref().unwrap_or_default();
        rows.push(Row {
            prompt: operation.prompt.clone(),
            title: title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(80).collect(),
            checkpoint: Some(Checkpoint { operation: operation.id, made: operation.made, changed }),
            is_said: place.is_some(),
        });
    }
    rows.extend(said[next..].iter().map(unkept));
    rows
}

/// The row somebody means: by its number, by its prompt's id, or by how that begins.
pub fn find<'a>(rows: &'a [Row], wanted: &str) -> Option<&'a Row> {
    let by_number = wanted.parse::<usize>().ok().and_then(|number| rows.get(number.checked_sub(1)?));
    let begins = |row: &&Row| row.prompt.as_ref().is_some_and(|id| id.as_str().starts_with(wanted));
    let is_it = |row: &&Row| row.prompt.as_ref().is_some_and(|id| id.as_str() == wanted);
    let by_beginning = || {
        let mut found = rows.iter().filter(begins);
        found.next().filter(|_| wanted.len() >= 4 && found.next().is_none())
    };
    by_number.or_else(|| rows.iter().find(is_it)).or_else(by_beginning)
}

/// Why files cannot go back to a row, and to which they can: before a prompt has any effect nothing is kept for it,
/// and it may never have had one.
pub fn without_files(rows: &[Row], row: &Row) -> String {
    let later = rows.iter().enumerate().skip_while(|(_, other)| *other != row);
    match later.filter(|(_, later)| later.checkpoint.is_some()).map(|(at, _)| at + 1).next() {
        Some(number) => {
            format!("no files were kept for that prompt; the next one they were kept for is {number}")
        }
        None => "no files were kept for that prompt".to_owned(),
    }
}

/// The rows as people read them.
pub fn table(rows: &[Row]) -> String {
    let row = |(at, row): (usize, &Row)| {
        let (made, changed) = match &row.checkpoint {
            Some(Checkpoint { made, changed, .. }) => (when(*made), format!("{changed:>4} changed")),
            None => ("-".to_owned(), "   - changed".to_owned()),
        };
        let id = row.prompt.as_ref().map_or("-", EntryId::as_str);
        let note = if row.is_said { "" } else { " (files only)" };
        format!("{:>3}  {made:<19}  {changed}  {id}  {}{note}", at + 1, plain(&row.title))
    };
    rows.iter().enumerate().map(row).collect::<Vec<_>>().join("\n")
}

/// The rewind that an undo without further words takes back: the last one, if nothing was done since.
pub fn newest_rewind(kept: &Kept) -> Result<Option<OperationId>, CheckpointError> {
    let last = kept.checkpoints.operations(&kept.session)?.pop();
    Ok(last.filter(|operation| operation.kind == Kind::Restore).map(|operation| operation.id))
}

/// Puts files back, or says what that would do. Blocks.
pub fn files(kept: &Kept, way: Way) -> Result<(Rewound, Lines), CheckpointError> {
    let Kept { checkpoints, session } = kept;
    let (planned, lines) = checkpoints.plan_restore(session, way.to, way.force)?;
    match way.trial {
        Trial::Only => Ok((planned, lines)),
        Trial::No => Ok((checkpoints.restore(session, way.to, way.force)?, lines)),
    }
}

/// So many things, in words; things that take an s.
pub fn count(number: usize, thing: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{end}")
}

/// What became of files, as people read it.
pub fn report(rewound: &Rewound, lines: Lines, trial: Trial, cwd: &Path) -> String {
    let shown = |path: &Path| plain(&path.strip_prefix(cwd).unwrap_or(path).to_string_lossy());
    let mut text: Vec<String> =
        rewound.changes.iter().map(|change| format!("  {}", shown(&change.path))).collect();
    text.push(format!(
        "{} {}, {} added, {} taken away",
        match trial {
            Trial::Only => "would change",
            Trial::No => "changed",
        },
        count(rewound.files().count(), "file"),
        count(lines.insertions, "line"),
        lines.deletions
    ));
    text.extend(rewound.kept.iter().map(|kept| format!("kept {}: {}", shown(&kept.path), kept.why)));
    let is_forceable = |why: &Why| match why {
        Why::ChangedByOthers | Why::MixedWithOthers | Why::Shared(_) | Why::Repository(_) => true,
        Why::NotCovered(_) | Why::Damaged | Why::InUse | Why::Failed(_) => false,
    };
    if rewound.kept.iter().any(|kept| is_forceable(&kept.why)) {
        text.push("--force overwrites what others changed; --undo brings it back".to_owned());
    }
    text.join("\n")
}

/// A moment, as people read it.
pub fn when(milliseconds: i64) -> String {
    jiff::Timestamp::from_millisecond(milliseconds)
        .map_or_else(|_| "?".to_owned(), |moment| moment.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// Text that cannot drive a terminal; names of files and words of models may try.
pub fn plain(text: &str) -> String {
    let safe = |c: char| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_control::checkpoint::{Operation, Progress};
    use ostler_proto::{Block, Entry, SessionEvent};

    fn listed(prompt: &str) -> Listed {
        let operation = Operation {
            id: OperationId(7),
            parent: None,
            kind: Kind::Prompt,
            progress: Progress::Done,
            made: 0,
            session: None,
            prompt: Some(prompt.into()),
            call: None,
            agent: None,
            title: Some(format!("do\n {prompt}")),
        };
        Listed { operation, changed: 2 }
    }

    fn state(prompts: &[&str]) -> State {
        let mut state = State::default();
        for id in prompts {
            let event =
                SessionEvent::Prompted { content: vec![Block::text("say")], meta: id.starts_with('m') };
            state.apply(&Entry { id: (*id).into(), parent: None, timestamp: String::new(), event });
        }
        state
    }

    #[track_caller]
    fn check(kept: &[&str], said: &[&str], expect: &str) {
        let rows = rows(kept.iter().map(|prompt| listed(prompt)).collect(), &state(said));
        let short = |row: &Row| {
            let marks = (row.checkpoint.is_some(), row.is_said);
            format!(
                "{}{}",
                row.prompt.as_ref().unwrap(),
                match marks {
                    (true, true) => "",
                    (true, false) => " (cut)",
                    (false, _) => " (no files)",
                }
            )
        };
        assert_eq!(rows.iter().map(short).collect::<Vec<_>>().join(", "), expect);
    }

    #[test]
    fn prompts_of_the_store_and_of_the_conversation_are_one_list() {
        check(&["a", "b"], &["a", "b"], "a, b");
        check(&["b"], &["a", "m1", "b", "c"], "a (no files), b, c (no files)");
        check(&["a", "b", "c"], &["a", "c"], "a, b (cut), c");
        check(&[], &["a"], "a (no files)");
        check(&["a"], &[], "a (cut)");
    }

    #[test]
    fn the_next_prompt_with_files_is_named() {
        let rows = rows(vec![listed("c")], &state(&["a", "b", "c", "d"]));
        assert!(without_files(&rows, &rows[0]).ends_with("is 3"), "{}", without_files(&rows, &rows[0]));
        assert!(without_files(&rows, &rows[3]).ends_with("for that prompt"));
    }

    #[test]
    fn a_row_is_found_by_number_id_or_its_beginning() {
        let rows = rows(["12345", "abcd1", "abcd2", "ab"].map(listed).into(), &State::default());
        let found = |wanted: &str| find(&rows, wanted).and_then(|row| row.prompt.clone()).map(|id| id.0);
        assert_eq!(found("2").as_deref(), Some("abcd1"));
        assert_eq!(found("1234").as_deref(), Some("12345"));
        assert_eq!(found("ab").as_deref(), Some("ab"), "the whole id is never ambiguous");
        for wanted in ["abcd", "0", "5", "", "x", "abc"] {
            assert_eq!(found(wanted), None, "{wanted:?}");
        }
        assert!(table(&rows).contains("do 12345 (files only)"), "{}", table(&rows));
    }
}
